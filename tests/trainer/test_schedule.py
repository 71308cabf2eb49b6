"""The learning rate of each step."""

from itertools import pairwise
from typing import Any

import pytest

from steelyard.trainer.train import learning_rate

pytestmark = pytest.mark.torch


def rates(spec: Any, **training: Any) -> list[float]:
    values = {"steps": 100, "learning_rate": 1.0, "warmup_steps": 10, "min_learning_rate": 0.1, **training}
    built = spec(training=values).training
    return [learning_rate(built, step) for step in range(1, built.steps + 1)]


def test_it_rises_to_the_peak_and_falls_to_the_minimum(spec: Any) -> None:
    found = rates(spec)
    assert found[0] == pytest.approx(0.1)
    assert found[9] == 1.0
    assert max(found) == 1.0
    assert found[-1] == pytest.approx(0.1)
    assert found[54] == pytest.approx(0.55)  # half-way down the cosine
    assert all(one > other for one, other in pairwise(found[9:]))


def test_linear_and_constant(spec: Any) -> None:
    linear = rates(spec, schedule="linear", min_learning_rate=0.0)
    assert linear[54] == pytest.approx(0.5)
    assert linear[-1] == pytest.approx(0.0)
    assert set(rates(spec, schedule="constant")[9:]) == {1.0}


def test_without_warmup_the_first_step_is_already_on_the_way_down(spec: Any) -> None:
    assert rates(spec, warmup_steps=0)[0] == pytest.approx(1.0, abs=1e-3)
    assert rates(spec, warmup_steps=200)[-1] == pytest.approx(0.5)


def test_the_decay_may_end_before_the_last_step_or_after_it(spec: Any) -> None:
    early, late = rates(spec, decay_steps=55), rates(spec, decay_steps=190)
    assert early[54:] == pytest.approx([0.1] * 46)
    assert early[53] > 0.1
    assert late[-1] == pytest.approx(0.55)  # half-way down
