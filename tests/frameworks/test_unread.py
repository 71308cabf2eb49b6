"""A log of a framework that is not read is refused by name, with what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("Composer", "[batch={step}/100]:\n\t Train loss/train/total: 10.9736\n\t Train LanguageCrossEntropy: 10.9736"),
        ("Composer", "0: [batch={step}/300]:\n0: \t Train time/epoch: 0\n0: \t Train loss/train/total: 11.2"),
        (
            "OLMo",
            "2026-01-02 10:00:0{step} INFO [olmo.train:816, rank=0] [step={step}/500]\n    train/Perplexity=9,631",
        ),
        ("OLMo", "INFO [olmo_core.train:12, rank=0] [step={step}/1451,epoch=0]\n    train/CrossEntropyLoss=11.25"),
        ("nanoGPT", "iter {step}: loss 4.0863, time 561.94ms, mfu 31.20%"),
        (
            "DeepSpeed",
            "[2025-10-03 08:19:52,140] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[2e-05]",
        ),
    ],
)
def test_a_framework_that_is_not_read_is_named(cli: Cli, tmp_path: Path, name: str, lines: str) -> None:
    text = "\n".join(lines.format(step=step) for step in range(1, 8))
    (tmp_path / "train.log").write_text(f"starting\n{text}\ndone\n")
    refused = cli("ingest", tmp_path / "train.log", "--json")
    error = refused.document["error"]
    assert refused.status == 2
    assert f"logs of {name}" in error["message"]
    assert error["next"].endswith("steelyard ingest curve.csv")


def test_a_failure_in_such_a_log_is_recorded_all_the_same(cli: Cli, tmp_path: Path) -> None:
    lines = ["iter 1: loss 4.0863, time 561.94ms", "Traceback (most recent call last):", "RuntimeError: no disk"]
    (tmp_path / "train.log").write_text("\n".join(lines))
    made = cli("ingest", tmp_path / "train.log", "--json")
    assert (made.status, made.document["status"]) == (0, "failed")
