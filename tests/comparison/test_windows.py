"""Warm-ups that had not ended qualify a ratio, and void it only where they could change the answer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard import comparison
from steelyard.comparison import codes
from steelyard.comparison.intervals import Outcome
from steelyard.experiment.policy import Metric

Shape = Callable[[np.ndarray], np.ndarray]


def steady(step: np.ndarray) -> np.ndarray:
    return np.ones(len(step))


def warm(tau: float) -> Shape:
    return lambda step: 1 + 0.5 * np.exp(-step / tau)


def slow_end(step: np.ndarray) -> np.ndarray:
    return np.where(step >= 0.75 * len(step), 1.1, 1.0)


@pytest.fixture
def ratio(recorded: Any) -> Any:
    """The speedup of a over b, whose runs have these shapes."""

    def make(
        a: Sequence[Shape], b: Sequence[Shape], speedup: float = 1.0, lengths: tuple[int, int] = (200, 200)
    ) -> Any:
        chance = np.random.default_rng(3)
        for side, shapes, length in zip("ab", (a, b), lengths, strict=True):
            for at, shape in enumerate(shapes):
                run = recorded("baseline", f"{side}/{side}{at}")
                step = iter(range(1, 10**6))
                times = 2.2 * chance.lognormal(0, 0.003) / (speedup if side == "a" else 1.0)
                times = times * shape(np.arange(length)) * chance.lognormal(0, 0.01, length)
                path = Path(run.directory / "steps.jsonl")
                lines = path.read_text().splitlines()
                path.write_text("\n".join((lines * (length // len(lines) + 1))[:length]) + "\n")

                def edited(record: dict[str, Any], times: Any = times, step: Any = step) -> dict[str, Any]:
                    kept = {key: record[key] for key in ("tokens", "loss")}
                    nth = next(step)
                    return {"step": nth, **kept, "step_time_s": float(times[nth - 1])}

                run.edit_steps(edited)
        runs = [comparison.load_runs(side, [side], Path("runs")) for side in "ab"]
        return comparison.weigh(*runs, (Metric.THROUGHPUT,)).ratios[Metric.THROUGHPUT]

    return make


def noted(ratio: Any) -> list[Any]:
    windows = (codes.TIMES_UNSETTLED, codes.WARM_UP_REMAINS, codes.RUN_LENGTHS_DIFFER)
    return [note.code for note in ratio.notes if note.code in windows]


def test_one_unsettled_run_of_ten_is_a_caveat_and_stays_in(ratio: Any) -> None:
    made = ratio([steady, steady, warm(80), steady, steady], [steady] * 5, speedup=1.3)
    assert noted(made) == [codes.TIMES_UNSETTLED]
    assert (made.outcome, made.target_runs) == (Outcome.BETTER, 5)
    assert made.low < 1.3 < made.high


def test_a_warm_up_of_60_steps_against_5_is_not_called_equivalent(ratio: Any) -> None:
    made = ratio([warm(60)] * 5, [warm(5)] * 5, speedup=1.05)
    assert made.outcome != Outcome.EQUIVALENT
    assert made.low < 1.05 < made.high
    assert codes.WARM_UP_REMAINS in noted(made)


def test_where_a_warm_up_hides_the_answer_more_steps_are_needed_and_not_more_runs(ratio: Any) -> None:
    made = ratio([warm(60)] * 5, [warm(5)] * 5)
    assert (made.outcome, made.more_runs) == (Outcome.UNSETTLED, None)


def test_both_sides_far_from_settled_are_an_observation(ratio: Any) -> None:
    made = ratio([warm(100)] * 3, [warm(100)] * 3, lengths=(100, 100))
    assert made.outcome == Outcome.UNSETTLED


def test_a_slow_last_quarter_counts_and_decides(ratio: Any) -> None:
    made = ratio([slow_end] * 5, [steady] * 5)
    assert noted(made) == []
    assert made.outcome.decided
    assert made.value == pytest.approx(1 / 1.025, abs=0.005)


@pytest.mark.parametrize(("lengths", "expected"), [((200, 200), []), ((300, 200), [codes.RUN_LENGTHS_DIFFER])])
def test_unequal_run_lengths_are_reported(ratio: Any, lengths: tuple[int, int], expected: list[Any]) -> None:
    made = ratio([steady] * 3, [steady] * 3, lengths=lengths)
    assert noted(made) == expected
    assert made.outcome == Outcome.EQUIVALENT
