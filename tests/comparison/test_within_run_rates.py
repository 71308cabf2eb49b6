"""Logs that report rates and no step times have a spread too: that of the times their rates stand for."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard import records, verdict
from steelyard.comparison.intervals import spread, spread_of

STATED = (
    *("--gpu", "h200", "--gpus", "1", "--nodes", "1", "--set", "model.preset=llama3.1-8b"),
    *("--set", "training.sequence_length=2048", "--set", "training.global_batch_size=8"),
    *("--set", "precision.dtype=bf16", "--set", "precision.fp8=null", "--set", "precision.loss_scale=null"),
    *("--set", "precision.grad_reduce_in_fp32=false", "--set", "precision.fp32_residual_connection=false"),
    *("--set", "training.recompute=none"),
)


def ingested(cli: Any, name: str, seed: int) -> str:
    chance = random.Random(seed)
    rows = [f"{at},{2 + 10 / at**0.5:.4f},{7000 * (1 + 0.02 * chance.gauss(0, 1)):.1f}" for at in range(1, 101)]
    path = Path(f"{name.replace('/', '-')}.csv")
    path.write_text("\n".join(["step,loss,reported_tokens_per_s_per_gpu", *rows]) + "\n")
    done = cli("ingest", path, *STATED, "--name", name)
    assert done.status == 0, done.err
    return name


@pytest.mark.parametrize("times", [[np.nan] * 30, [1.0, 1.1, np.nan, 0.9], [1.0, 1.1, np.inf, 0.9]])
def test_times_that_are_not_known_have_no_spread(times: list[float]) -> None:
    assert spread(np.array(times)) is None


def test_runs_with_rates_and_no_step_times_are_compared(cli: Any) -> None:
    ours, theirs = ingested(cli, "one", 1), ingested(cli, "other", 2)
    done = cli("compare", ours, theirs, "--for", "throughput,convergence", "--json")
    assert done.status in (1, 5), done.err
    found = done.document["time_to_loss"]
    assert found is not None, done.document["time_to_loss_reason"]
    assert found["low"] < found["ratio"] < found["high"]
    assert cli("compare", ours, theirs).status == 5


def test_the_spread_of_rates_is_that_of_the_times_they_stand_for(cli: Any) -> None:
    subject = verdict.read_subject(records.load(Path("runs") / ingested(cli, "one", 1)))
    rates = subject.steps.reported_tokens_per_s_per_gpu.values[subject.figures.window.mask]
    found = spread_of(subject)
    assert found == spread(1 / rates)
    assert found is not None
    assert found.standard_error == pytest.approx(0.02 / 10, rel=0.2)  # 2 % over a hundred steps


def test_two_runs_with_rates_and_no_step_times_against_three(cli: Any) -> None:
    ours = [ingested(cli, f"ours{at}", at) for at in range(2)]
    theirs = [ingested(cli, f"theirs{at}", 10 + at) for at in range(3)]
    done = cli("compare", ",".join(ours), ",".join(theirs), "--json")
    assert done.status == 5, done.err
    found = done.document["time_to_loss"]
    assert found["low"] < found["ratio"] < found["high"]
