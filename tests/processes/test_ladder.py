"""A ladder of three changes on tiny models recovers what each change does when it is measured by itself."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from steelyard import records, verdict
from steelyard.campaign.suite_verdict import judge_suite
from steelyard.campaign.waterfall import Waterfall, waterfall
from steelyard.comparison.intervals import Between, between, welch
from steelyard.records.suite import the_suite

pytestmark = [pytest.mark.torch, pytest.mark.processes]

REPEATS = {"large": 3, "small": 3, "ladder": 4, "direct": 3}
"""Runs of each side and of each rung."""
SMALL = """
schema_version: 1
name: small
model: {preset: tiny-llama}
training:
  micro_batch_size: 1
  global_batch_size: 4
  sequence_length: 8
  steps: 60
  learning_rate: 1e-2
  warmup_steps: 3
precision: {dtype: fp32}
data: {source: markov}
platforms:
  cpu: {gpu: cpu, gpus_per_node: 1, env: {OMP_NUM_THREADS: "1"}}
"""
LARGE = {"training.micro_batch_size": 4, "training.sequence_length": 128, "training.recompute": "full"}
RUNGS = ["baseline", "batch", "sequence-length", "recompute"]
LEVEL = 0.999
"""Of each assertion: with six of them, one in two hundred correct programs fails."""


def rates(directory: Path) -> list[float]:
    subjects = [verdict.read_subject(records.load(run)) for run in records.runs_under(directory)]
    return [rate for subject in subjects if (rate := subject.figures.tokens_per_s_per_gpu.value) is not None]


def ratio(after: Sequence[float], before: Sequence[float]) -> Between:
    made = between(after, before)
    assert made is not None
    return made


def agree(first: Between, second: Between) -> bool:
    """Whether two independent measurements of one ratio differ by no more than their errors."""
    parts = [(each.standard_error**2, each.freedom) for each in (first, second)]
    low, high = welch(first.value / second.value, parts).interval(LEVEL)
    return low <= 1 <= high


def test_each_change_is_recovered_and_the_changes_multiply_to_the_gap(cli: Any) -> None:
    Path("small.yaml").write_text(SMALL)
    changes = [word for key, value in LARGE.items() for word in ("--set", f"{key}={value}")]

    def run(name: str, *words: str) -> None:
        assert cli("run", *words, "--name", name, "--repeats", str(REPEATS[name]), "--json").status == 0

    run("large", "small.yaml", *changes)
    run("small", "small.yaml")
    assert cli("plan", "--ladder", "large", "small.yaml", "-o", "ladder.yaml").status == 0
    for name in ("ladder", "direct"):  # the second suite measures every change again, independently
        run(name, "ladder.yaml", "--suite")
    made = waterfall(judge_suite(the_suite("SUITE", "ladder", Path("runs"))))
    assert isinstance(made, Waterfall)
    assert [rung.name for rung in made.rungs] == RUNGS
    assert [[change.key for change in step.changes] for step in made.steps] == [*([key] for key in LARGE), []]
    direct = [rates(Path("runs/direct", rung)) for rung in RUNGS]
    for step, after, before in zip(made.steps[:3], direct[1:], direct[:-1], strict=True):
        assert step.factor.estimate is not None
        assert agree(step.factor.estimate, ratio(after, before)), step.name
    assert made.steps[0].factor.value > 1.5  # larger matrices
    assert made.steps[1].factor.value > 1.5
    assert made.steps[2].factor.value < 0.9  # a second forward pass
    product = math.prod(step.factor.value for step in made.steps)
    assert product == pytest.approx(made.gap.value, rel=1e-9)
    assert made.gap.estimate is not None
    whole = ratio(rates(Path("runs/large")), rates(Path("runs/small"))).interval(LEVEL)
    low, high = made.gap.estimate.interval(LEVEL)
    assert max(low, whole[0]) <= min(high, whole[1])
