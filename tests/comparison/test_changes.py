"""A run that was resumed with other settings is two jobs."""

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REAL = Path(__file__).parents[1] / "frameworks" / "logs" / "real" / "megatron_clean_int1.log.gz"
STEPS = 60


def lines(seed: int, faster: float, first: int, last: int, **arguments: str) -> list[str]:
    """A part of a run of so many steps, with its own dump of arguments."""
    real = gzip.decompress(REAL.read_bytes()).decode().splitlines()
    head = real[: next(at for at, line in enumerate(real) if "end of arguments" in line) + 1]
    for name, value in arguments.items():
        head = [re.sub(rf"^(  {name} \.+ ).*", rf"\g<1>{value}", line) for line in head]
    chance = np.random.default_rng(seed)
    times = 400 * (1 + 0.003 * chance.normal()) * np.exp(chance.normal(0, 0.005, STEPS)) / faster
    return head + [
        f" iteration {at:8d}/{STEPS:8d} | consumed samples: {at * 16:12d} | elapsed time per iteration (ms):"
        f" {times[at - 1]:.1f} | learning rate: 3.000000E-04 | global batch size:    16 | lm loss:"
        f" {10.5 * at**-0.1:.6E} | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 |"
        " number of nan iterations:   0 |"
        for at in range(first, last + 1)
    ]


@pytest.fixture
def sides(cli: Any, tmp_path: Path) -> Any:
    """Three runs of which the first steps were made with other arguments, and three that were made with one."""

    def make(last: int, faster: float, **arguments: str) -> Any:
        same = {"train_iters": str(STEPS), "global_batch_size": "16", "log_interval": "1"}
        for seed in range(3):
            plain = lines(seed + 10, 1.0, 1, STEPS, **same)
            first = lines(seed, faster, 1, last, **same, **arguments)
            for name, text in (("plain", plain), ("mixed", [*first, *lines(seed, 1.0, last + 1, STEPS, **same)])):
                (tmp_path / f"{name}{seed}.log").write_text("\n".join([*text, "[after training is done]"]) + "\n")
                place = ("--out", f"runs/{name}", "--name", f"s{seed}", "--gpu", "h200", "--gpus", "1")
                assert cli("ingest", f"{name}{seed}.log", *place).status == 0
        return cli("compare", "mixed", "plain", "--json")

    return make


def test_a_run_of_two_precisions_is_compared_with_none(sides: Any) -> None:
    done = sides(45, 1.3, fp8="hybrid")
    assert (done.status, done.document["throughput_speedup"]) == (4, None)
    changed = done.reasons("throughput", "setting_changed")
    assert {(one["effect"], one["side"], *one["keys"]) for one in changed} == {("blocks", "target", "precision.fp8")}


def test_what_changed_before_the_first_steady_step_changes_nothing(sides: Any) -> None:
    done = sides(5, 0.5, fp8="hybrid")
    assert done.document["throughput_speedup"]["words"] == "equivalent within 5%"
    assert not done.reasons("throughput", "setting_changed")


def test_a_layout_that_changed_is_said_beside_the_ratio(sides: Any, cli: Any) -> None:
    done = sides(30, 1.0, use_distributed_optimizer="True")
    assert done.document["comparable"]["throughput"]["status"] == "qualified"
    matched = cli("compare", "mixed", "plain", "--mode", "matched", "--json")
    for one, effect in ((done, "caveat"), (matched, "blocks")):
        changed = one.reasons("throughput", "setting_changed")
        assert (effect, ["parallelism.distributed_optimizer"]) in [(one["effect"], one["keys"]) for one in changed]
