"""Runs taken in turns are compared within blocks of time, and sides measured apart are reported."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard import comparison
from steelyard.comparison import codes, intervals
from steelyard.comparison.intervals import Outcome, within_blocks
from steelyard.experiment.policy import Metric

START = datetime(2026, 3, 2, 8)
SLOWER = (1.0, 1.02, 0.985, 1.01, 0.99)


def untimed(step: dict[str, Any]) -> dict[str, Any]:
    """Without the timestamp, which would contradict the times that a test gives a step."""
    return {key: value for key, value in step.items() if key != "time"}


@pytest.fixture
def campaign(recorded: Any) -> Any:
    """Runs a0, a1 … and b0, b1 …, each with hours since the start; `day` is the factor on all runs of a day."""

    def make(hours: dict[str, Sequence[float]], day: Sequence[float] = (1.0,) * 9, logs: bool = False) -> Any:
        for side, began in hours.items():
            for at, hour in enumerate(began):
                run = recorded("baseline", f"{side}/{side}{at}")
                run.edit_steps(untimed)
                own = SLOWER[(at + 2 * (side == "b")) % 5] ** 0.1
                run.slower(own * day[int(hour // 24)] * (1.05 if side == "b" else 1))
                first, last = (START + timedelta(hours=hour + more) for more in (0, 0.5))
                if logs:
                    made = {"dialect": "native", "era": "", "files": [], "first_moment": first.isoformat()}
                    run.set("ingested", {**made, "last_moment": last.isoformat()})
                else:
                    run.set("provenance/started", f"{first.isoformat()}+00:00")
                    run.set("provenance/ended", f"{last.isoformat()}+00:00")
        runs = [comparison.load_runs(name, [name], Path("runs")) for name in hours]
        return comparison.weigh(*runs, (Metric.THROUGHPUT,)).ratios[Metric.THROUGHPUT]

    return make


def noted(ratio: Any) -> set[Any]:
    return {note.code for note in ratio.notes} & {codes.NOT_IN_TURNS, codes.DIFFERENT_DAYS}


def in_pairs(days: int) -> dict[str, list[float]]:
    """A B on the first day, B A on the second, and so on."""
    return {"a": [24 * at + at % 2 for at in range(days)], "b": [24 * at + 1 - at % 2 for at in range(days)]}


@pytest.mark.parametrize("logs", [False, True])
def test_a_day_that_slows_both_sides_does_not_widen_the_interval_of_runs_in_turns(campaign: Any, logs: bool) -> None:
    ratio = campaign(in_pairs(5), day=(1.0, 1.2, 0.9, 1.1, 0.8), logs=logs)
    assert (ratio.method, ratio.blocks, noted(ratio)) == (intervals.IN_BLOCKS, 5, set())
    assert ratio.low < 1.05 < ratio.high < 1.06
    assert ratio.outcome.above


def test_turns_within_one_day_are_pairs(campaign: Any) -> None:
    """The order of `run --platform a,b --repeats 3`: a b, b a, a b."""
    assert campaign({"a": [0, 3, 4], "b": [1, 2, 5]}).blocks == 3


def test_days_with_several_runs_of_each_side_are_blocks(campaign: Any) -> None:
    """Each day: three of one side, then three of the other."""
    ratio = campaign({"a": [0, 1, 2, 24, 25, 26], "b": [3, 4, 5, 27, 28, 29]}, day=(1.0, 1.2))
    assert (ratio.blocks, noted(ratio)) == (2, set())
    assert ratio.high < 1.06


def test_runs_at_the_same_time_are_not_in_turns(campaign: Any) -> None:
    ratio = campaign({"a": [0, 1, 2], "b": [0.2, 1.2, 2.2]})
    assert (ratio.method, ratio.blocks, noted(ratio)) == (intervals.BETWEEN_RUNS, None, set())


@pytest.mark.parametrize("logs", [False, True])
def test_one_side_after_the_other_is_a_caveat(campaign: Any, logs: bool) -> None:
    ratio = campaign({"a": [0, 1, 2], "b": [3, 4, 5]}, logs=logs)
    assert (ratio.blocks, noted(ratio)) == (None, {codes.NOT_IN_TURNS})


@pytest.mark.parametrize("logs", [False, True])
def test_sides_on_different_days_are_a_caveat(campaign: Any, logs: bool) -> None:
    ratio = campaign({"a": [0, 1, 2], "b": [48, 49, 50]}, logs=logs)
    assert (ratio.blocks, noted(ratio)) == (None, {codes.DIFFERENT_DAYS})
    (note,) = [note for note in ratio.notes if note.code is codes.DIFFERENT_DAYS]
    assert note.values["days"] == (("2026-03-02", "2026-03-02"), ("2026-03-04", "2026-03-04"))


def test_runs_of_a_day_without_the_other_side_are_a_caveat(campaign: Any) -> None:
    ratio = campaign({"a": [0, 2, 4], "b": [1, 3, 72]})
    (note,) = [note for note in ratio.notes if note.code is codes.DIFFERENT_DAYS]
    assert (note.values["alone"], note.values["runs"]) == (1, 6)


def test_logs_without_timestamps_are_not_ordered_by_their_import(campaign: Any, recorded: Any) -> None:
    for side in "ab":
        for at in range(3):
            run = recorded("baseline", f"{side}/{side}{at}").slower(SLOWER[at] * (1.05 if side == "b" else 1))
            run.edit_steps(untimed)
            run.set("ingested", {"dialect": "native", "era": "", "files": []})
            run.set("provenance/started", f"2026-03-0{1 + (side == 'b')}T08:0{at}:00+00:00")
            run.set("provenance/ended", f"2026-03-0{1 + (side == 'b')}T08:0{at}:30+00:00")
    runs = [comparison.load_runs(name, [name], Path("runs")) for name in "ab"]
    ratio = comparison.weigh(*runs, (Metric.THROUGHPUT,)).ratios[Metric.THROUGHPUT]
    assert (ratio.blocks, noted(ratio)) == (None, set())


def test_pairs_are_the_paired_t_test() -> None:
    from scipy.stats import ttest_1samp

    chance = np.random.default_rng(4)
    target, baseline = chance.lognormal(0.1, 0.02, 6), chance.lognormal(0.0, 0.05, 6)
    ratio = within_blocks([([a], [b]) for a, b in zip(target, baseline, strict=True)])
    assert ratio is not None
    peer = ttest_1samp(np.log(target / baseline), 0.0).confidence_interval(0.95)
    assert ratio.interval() == pytest.approx((np.exp(peer.low), np.exp(peer.high)), rel=1e-9)


def test_blocks_are_least_squares_with_a_level_per_block() -> None:
    chance = np.random.default_rng(5)
    blocks = [(chance.lognormal(day, 0.02, 2), chance.lognormal(day, 0.02, counts)) for day, counts in ((0, 1), (1, 3))]
    ratio = within_blocks([(list(a), list(b)) for a, b in blocks])
    rows = [(nth, side, value) for nth, block in enumerate(blocks) for side in (0, 1) for value in np.log(block[side])]
    design = np.array([[nth == 0, nth == 1, side == 0] for nth, side, _ in rows], dtype=float)
    logs = np.array([value for *_, value in rows])
    fitted, squares, *_ = np.linalg.lstsq(design, logs, rcond=None)
    error = np.sqrt(squares[0] / (len(rows) - 3) * np.linalg.inv(design.T @ design)[2, 2])
    assert ratio is not None
    assert (np.log(ratio.value), ratio.standard_error) == pytest.approx((fitted[2], error), rel=1e-9)
    assert ratio.freedom == len(rows) - 3


def test_equal_sides_on_two_days_are_not_called_different_by_a_lone_day(campaign: Any) -> None:
    assert campaign({"a": [0, 1, 2], "b": [48, 49, 50]}, day=(1.0, 1.0, 1 / 1.05)).outcome == Outcome.EQUIVALENT
