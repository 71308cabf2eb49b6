"""Step times against the moments of the log that tells them."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

STEPS = 60
BEGAN = dt.datetime(2026, 1, 20, 10)
SETTINGS = (
    "model.preset=llama3.1-8b training.micro_batch_size=2 training.global_batch_size=64 training.sequence_length=2048 "
    f"training.steps={STEPS} training.recompute=none precision.dtype=bf16 precision.fp8=null precision.loss_scale=null "
    "precision.grad_reduce_in_fp32=true precision.fp32_residual_connection=false"
).split()
Side = Callable[..., str]


@pytest.fixture
def side(cli: Any, tmp_path: Path) -> Side:
    """Three runs whose steps take a second by their moments, and are said to take so much of it."""

    def make(name: str, said: float = 1.0, pause_every: int = 0, whole: bool = False) -> str:
        for run in range(3):
            chance = np.random.default_rng([run, *map(ord, name)])
            moment, rows = BEGAN, ["step,loss,step_time_s,time"]
            for step in range(1, STEPS + 1):
                took = (1 + 0.002 * run) * float(np.exp(chance.normal(0, 0.005)))
                moment += dt.timedelta(seconds=took + (20 if pause_every and step % pause_every == 0 else 0))
                shown = moment.replace(microsecond=0) if whole else moment
                loss = 10 - step / 20 + chance.normal(0, 0.01)
                rows.append(f"{step},{loss:.4f},{took * said:.6f},{shown.isoformat()}")
            (tmp_path / f"{name}{run}.csv").write_text("\n".join(rows) + "\n")
            place = ("--framework", "megatron", "--gpu", "h100", "--gpus", "8", "--name", f"{name}{run}")
            done = cli("ingest", f"{name}{run}.csv", *place, *(word for one in SETTINGS for word in ("--set", one)))
            assert done.status == 0, done.err
        return ",".join(f"{name}{run}" for run in range(3))

    return make


@pytest.mark.parametrize(
    ("said", "status", "effects"), [(1.0, 0, []), (1 / 1.03, 0, ["caveat"]), (1 / 1.15, 4, ["blocks"])]
)
def test_a_speedup_that_the_moments_deny_is_none(
    cli: Any, side: Side, said: float, status: int, effects: list[str]
) -> None:
    done = cli("compare", side("a", said), side("b"), "--json")
    apart = done.reasons("throughput", "clocks_differ")
    assert (done.status, [one["effect"] for one in apart]) == (status, effects)
    assert all(one["target"] / one["baseline"] == pytest.approx(1 / said, rel=1e-3) for one in apart)


def test_matched_mode_refuses_what_the_moments_qualify(cli: Any, side: Side) -> None:
    done = cli("compare", side("a", 1 / 1.03), side("b"), "--mode", "matched", "--json")
    assert done.status == 4
    assert [one["effect"] for one in done.reasons("throughput", "clocks_differ")] == ["blocks"]


def test_pauses_between_steps_and_whole_seconds_deny_nothing(cli: Any, side: Side) -> None:
    for name, options in (("paused", {"pause_every": 15}), ("whole", {"whole": True})):
        done = cli("compare", side(name, **options), side(f"{name}b"), "--json")
        assert done.status == 0, done.out
        assert not {"clocks_differ", "clock_contradicts"} & {one["code"] for one in done.reasons()}


def test_times_that_the_clock_denies_throughout_are_said_to_be_that(cli: Any, side: Side) -> None:
    done = cli("compare", side("a", 0.6), side("b"), "--json")
    assert done.status == 4
    denied = done.reasons("throughput", "clock_contradicts")
    assert {(one["effect"], one["side"]) for one in denied} == {("blocks", "target")}
    assert all("takes 1.67 times the reported time" in one["message"] for one in denied)
    assert not done.reasons("throughput", "times_missing")
