"""What a comparison answers where the truth is known: how often its interval holds it, and how often it is wrong.

    python benchmarks/statistics.py                     # all rows
    python benchmarks/statistics.py --campaigns 500 --rows turns,warm-up

Each row is a kind of disturbance. Its runs are made step by step and go through the steady window, the figures and the
ratio that `steelyard compare` uses; only the files are left out. Unless a row says otherwise: 5 runs per side, 200
steps, 1% noise per step that remembers half of itself, runs that differ by 1%, a margin of 5%.

What is printed: `covers`, the share of intervals that contain the true ratio; `faster`, the share of answers "faster"
by more than the margin; `equal`, of answers "equivalent"; `open`, of undecided answers; `refused`, of campaigns that
are voided. Each row states before it runs what its right answer is, and a row with a miss ends the script with 1.
"""

import argparse
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.signal import lfilter

from steelyard.accounting.steady import steady_window
from steelyard.comparison import ratios
from steelyard.comparison.intervals import Outcome
from steelyard.comparison.ratios import Ratio
from steelyard.comparison.side import Side
from steelyard.experiment.policy import Metric
from steelyard.reasons import Reason
from steelyard.records import Run, StepTable
from steelyard.records.columns import Column
from steelyard.records.step import COLUMNS
from steelyard.verdict import Subject
from steelyard.verdict.figures import NO_MEMORY, Figure, Figures

CAMPAIGNS = 2000
LEAST_COVERED, MOST_FASTER, MOST_EQUAL, MOST_REFUSED = 0.935, 0.03, 0.06, 0.05
DIRECTION = 0.05
"""Equal platforms of which one is called faster or slower, in a campaign with further stages."""
REFUSALS = (Outcome.UNSETTLED, Outcome.NO_SPREAD, Outcome.TOO_FEW_RUNS)
TOKENS, SECONDS = 65_536, 0.5
START = datetime(2026, 3, 2, 8, tzinfo=UTC)
STAGED = "look" in inspect.signature(ratios.ratio).parameters
Chance = np.random.Generator
Times = np.ndarray
Shape = Callable[[Chance, int, int], Times]
"""The factor on the step times of one run, by step: of the target (0) or the baseline (1), for this run of it."""


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    right: str
    """What the answer should be, written before the row was run."""
    speedup: float = 1.0
    counts: tuple[int, int] = (5, 5)
    steps: int = 200
    noise: float = 0.01
    memory: float = 0.5
    """Lag-1 correlation of the noise."""
    run_cv: float = 0.01
    day_sd: float = 0.0
    margin: float = 0.05
    shape: Shape | None = None
    order: str = "together"
    """together: at the same time; turns: ABBA, a pair per day; sides: one side a day after the other."""
    stages: bool = False
    """Follow the advice until the answer is decided."""
    answers: bool = True
    """Whether the true ratio can be known from these runs, so that the interval must cover it."""
    innocent: bool = True
    """Whether nothing is wrong with the runs, so that the campaign must not be refused."""


NOTHING = Figure(None, Reason(NO_MEMORY))


def subject(times: Times, name: str, began: datetime) -> Subject:
    """A run with these step times: its window is the product's, its rate all tokens over all seconds of the window."""
    steps = np.arange(1, len(times) + 1)
    window = steady_window(steps, np.ones_like(steps), times, {})
    rate = Figure(TOKENS * window.steps / float(times[window.mask].sum()))
    ended = began + timedelta(seconds=float(times.sum()))
    when = SimpleNamespace(started=began.isoformat(), ended=ended.isoformat())
    manifest: Any = SimpleNamespace(hosts=[], ingested=None, provenance=when)
    made = Subject(Run(Path(name), manifest, "completed"), table(len(times)), (), (), 0)
    figures = Figures(window, rate, NOTHING, NOTHING, NOTHING, NOTHING, None, NOTHING, None, TOKENS)
    made.__dict__["figures"] = figures  # instead of the other figures, which no row asks for
    return made


@cache
def table(rows: int) -> StepTable:
    nothing = Column(np.full(rows, np.nan), np.zeros(rows, dtype=np.bool_))
    undated, unsourced = np.full(rows, np.datetime64("NaT", "us")), np.full(rows, -1)
    steps = np.arange(1, rows + 1)
    return StepTable(
        steps, np.ones_like(steps), dict.fromkeys(COLUMNS, nothing), (), undated, {}, (), unsourced, unsourced
    )


def noise(chance: Chance, row: Row) -> Times:
    fresh = chance.standard_normal(row.steps) * row.noise
    fresh[1:] *= math.sqrt(1 - row.memory**2)
    return np.exp(lfilter([1.0], [1.0, -row.memory], fresh))


def _when(row: Row, side: int, at: int) -> tuple[datetime, int]:
    """When a run of a side begins, and on which day."""
    day, hour = at, (side + at) % 2
    if row.order == "together":
        day, hour = 0, at
    if row.order == "sides":
        day, hour = side, at
    return START + timedelta(days=day, hours=hour), day


def runs(chance: Chance, row: Row, side: int, first: int, count: int, days: dict[int, float]) -> list[Subject]:
    made = []
    for at in range(first, first + count):
        began, day = _when(row, side, at)
        if day not in days:
            days[day] = row.day_sd * chance.standard_normal()
        whole = (
            SECONDS / (row.speedup if side == 0 else 1.0) * math.exp(row.run_cv * chance.standard_normal() + days[day])
        )
        times = whole * noise(chance, row)
        if row.shape is not None:
            times = times * row.shape(chance, side, at)
        made.append(subject(times, f"{'ab'[side]}{at}", began))
    return made


def compared(sides: Sequence[Sequence[Subject]], margin: float, look: int) -> Ratio:
    made = [Side(name, tuple(runs), (), name) for name, runs in zip(("target", "baseline"), sides, strict=True)]
    later = {"look": look} if STAGED else {}
    return ratios.ratio(Metric.THROUGHPUT, *made, margin, **later)


def campaign(chance: Chance, row: Row) -> Ratio:
    days: dict[int, float] = {}
    sides = [runs(chance, row, side, 0, count, days) for side, count in enumerate(row.counts)]
    made, look = compared(sides, row.margin, 1), 1
    while row.stages and made.outcome == Outcome.INCONCLUSIVE and made.more_runs:
        for side, own in enumerate(sides):
            own += runs(chance, row, side, len(own), made.more_runs, days)
        look += 1
        made = compared(sides, row.margin, look)
    return made


def _exponential(excess: float, tau: float, steps: int) -> Times:
    return 1 + excess * np.exp(-np.arange(steps) / tau)


def _warm(target: float, baseline: float, excess: float = 0.5, steps: int = 200) -> Shape:
    return lambda chance, side, at: _exponential(excess, (target, baseline)[side], steps)


def _random_warm(chance: Chance, side: int, at: int) -> Times:
    return _exponential(chance.uniform(0.1, 1.0), chance.uniform(2, 25), 200)


def _unsettled_run(chance: Chance, side: int, at: int) -> Times:
    return _exponential(0.5, 80, 200) if (side, at) == (0, 2) else np.ones(200)


def _slow_run(chance: Chance, side: int, at: int) -> Times:
    return np.full(200, 1.08 if at == 1 else 1.0)


def _slow_end(slower: float) -> Shape:
    return lambda chance, side, at: np.where(np.arange(200) >= 150, slower, 1.0)


def _slow_end_of_some(chance: Chance, side: int, at: int) -> Times:
    return np.where(np.arange(200) >= 150, 1.05 if at == 1 else 1.0, 1.0)


def _slope(whole: float) -> Shape:
    return lambda chance, side, at: 1 + whole * np.linspace(-0.5, 0.5, 200)


def _aging(chance: Chance, side: int, at: int) -> Times:
    """Each turn of both is 1% slower than the one before it."""
    return np.full(200, 1.01 ** (2 * at + (side + at) % 2))


ROWS = (
    Row(name="plain", right="equivalent"),
    Row(name="plain, at the margin", speedup=1.05, right="not faster by more than the margin"),
    Row(name="noise that remembers 0.8", memory=0.8, right="equivalent"),
    Row(name="noise that remembers 0.95", memory=0.95, right="equivalent"),
    Row(name="runs alike, noise 3%", run_cv=0.0, noise=0.03, right="equivalent"),
    Row(name="drift of +3% in each run", shape=_slope(0.03), right="equivalent: it is the platforms'"),
    Row(name="drift of -3% in each run", shape=_slope(-0.03), right="equivalent: both alike"),
    Row(name="random warm-up", shape=_random_warm, right="equivalent"),
    Row(name="random warm-up, at the margin", shape=_random_warm, speedup=1.05, right="not faster"),
    Row(name="warm-up tau 5 in both", shape=_warm(5, 5), right="equivalent"),
    Row(name="warm-up 60 against 5", shape=_warm(60, 5), speedup=1.05, innocent=False, right="not equivalent"),
    Row(name="warm-up 60 against 5, 3 runs", shape=_warm(60, 5), speedup=1.05, counts=(3, 3), innocent=False,
        right="not equivalent"),
    Row(name="warm-up 60 against 5, noise 3%", shape=_warm(60, 5), speedup=1.05, noise=0.03, innocent=False,
        right="not equivalent"),
    Row(name="warm-up 60 against 5, excess 10%", shape=_warm(60, 5, excess=0.1), speedup=1.05, innocent=False,
        right="not equivalent"),
    Row(name="warm-up 60 against 5, 100 steps", shape=_warm(60, 5, steps=100), steps=100, speedup=1.05,
        answers=False, innocent=False, right="not settled, or not equivalent"),
    Row(name="warm-up 60 in both", shape=_warm(60, 60), innocent=False, right="equivalent, or not settled"),
    Row(name="one unsettled run of ten", shape=_unsettled_run, right="an answer with a caveat, from a wider interval"),
    Row(name="one slow run of five per side", shape=_slow_run, right="an answer; the interval is wider"),
    Row(name="slow last quarter in both, 10%", shape=_slow_end(1.1), right="equivalent: it stays in"),
    Row(name="slow last quarter, one run per side", shape=_slow_end_of_some, right="equivalent"),
    Row(name="slow last quarter, at the margin", shape=_slow_end(1.1), speedup=1.05, right="not faster"),
    Row(name="3 against 8", counts=(3, 8), right="equivalent"),
    Row(name="3 against 8, at the margin", counts=(3, 8), speedup=1.05, right="not faster"),
    Row(name="3 against 20", counts=(3, 20), right="equivalent"),
    Row(name="3 against 20, at the margin", counts=(3, 20), speedup=1.05, right="not faster"),
    Row(name="turns, day effect 2%, margin 2%", order="turns", day_sd=0.02, run_cv=0.005, margin=0.02,
        right="equivalent"),
    Row(name="turns, day effect 2%, at the margin", order="turns", day_sd=0.02, speedup=1.05, right="not faster"),
    Row(name="turns, no day effect", order="turns", right="equivalent"),
    Row(name="turns, each 1% slower than the last", order="turns", shape=_aging, right="equivalent"),
    Row(name="sides on two days, day effect 2%", order="sides", day_sd=0.02, answers=False,
        right="not known: an answer with a caveat"),
    Row(name="optional stopping, CV 5%", counts=(3, 3), run_cv=0.05, steps=60, stages=True,
        right="not faster, not slower"),
    Row(name="optional stopping, CV 8%", counts=(5, 5), run_cv=0.08, steps=60, stages=True,
        right="not faster, not slower"),
    Row(name="optional stopping, CV 5%, at the margin", counts=(3, 3), run_cv=0.05, steps=60, stages=True,
        speedup=1.05, right="not faster by more than the margin"),
)  # fmt: skip


WINDOWS: tuple[tuple[str, Shape | None, str], ...] = (
    ("steady", None, "settled"),
    ("warm-up tau 5", _warm(5, 5), "settled"),
    ("random warm-up", _random_warm, "settled"),
    ("1 + 0.5 exp(-t / 80)", _warm(80, 80), "not settled"),
    ("drift of +3%", _slope(0.03), "settled"),
    ("slow last quarter, 10%", _slow_end(1.1), "settled"),
)


def windows(count: int) -> None:
    """How often the window of one run counts as settled, and the error of its rate then."""
    print("\n| one run | right answer | settled | bias of settled runs |")
    print("| --- " * 4 + "|")
    for name, shape, right in WINDOWS:
        chance, row = np.random.default_rng(20), Row(name=name, right=right, shape=shape, run_cv=0.0)
        made = [runs(chance, row, 0, 0, 1, {0: 0.0})[0].figures for _ in range(count)]
        end = 1.0 if shape is None or "exp" in name or "warm" in name else float(shape(chance, 0, 0).mean())
        rates = [each.tokens_per_s_per_gpu.value for each in made if each.window.settled]
        bias = f"{100 * (np.mean(np.array(rates)) * SECONDS * end / TOKENS - 1):+.1f}%" if rates else "-"
        print(f"| {name} | {right} | {100 * len(rates) / count:.1f} | {bias} |", flush=True)


def rates(row: Row, campaigns: int) -> dict[str, float]:
    chance, truth = np.random.default_rng(20), row.speedup
    made = [campaign(chance, row) for _ in range(campaigns)]
    bounded = [(ratio.low, ratio.high) for ratio in made if ratio.low is not None and ratio.high is not None]
    outcomes = [ratio.outcome for ratio in made]

    def share(*kinds: Outcome) -> float:
        return float(np.mean([outcome in kinds for outcome in outcomes]))

    return {
        "covers": float(np.mean([low <= truth <= high for low, high in bounded])) if bounded else math.nan,
        "faster": share(Outcome.BETTER),
        "sided": share(*(outcome for outcome in Outcome if outcome.above or outcome.below)),
        "equal": share(Outcome.EQUIVALENT),
        "open": share(Outcome.INCONCLUSIVE),
        "refused": share(*REFUSALS),
        "caveats": float(np.mean([bool(ratio.notes) for ratio in made])),
    }


def misses(row: Row, found: dict[str, float]) -> list[str]:
    """The figures of a row beyond their limits."""
    wrong = {"faster": found["faster"] > MOST_FASTER}
    if row.speedup == 1.0 and row.stages:
        wrong["sided"] = found["sided"] > DIRECTION
    if row.speedup != 1.0:
        wrong["equal"] = found["equal"] > MOST_EQUAL
    if row.answers:
        wrong["covers"] = not found["covers"] >= LEAST_COVERED
    if row.innocent:
        wrong["refused"] = found["refused"] > MOST_REFUSED
    return [name for name, missed in wrong.items() if missed]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--campaigns", type=int, default=CAMPAIGNS)
    asked.add_argument("--rows", default="", help="only rows whose name contains one of these words")
    given = asked.parse_args()
    words = given.rows.split(",")
    print(f"{given.campaigns:,} campaigns per row\n")
    print("| row | true ratio | right answer | covers | faster | sided | equal | open | refused | caveats | |")
    print("| --- " * 11 + "|")
    missed = 0
    for row in (row for row in ROWS if any(word in row.name for word in words)):
        found = rates(row, given.campaigns)
        wrong = misses(row, found)
        missed += bool(wrong)
        cells = " | ".join(f"{100 * figure:.1f}" for figure in found.values())
        word = f"MISSED: {', '.join(wrong)}" if wrong else "kept"
        print(f"| {row.name} | {row.speedup:g} | {row.right} | {cells} | {word} |", flush=True)
    windows(given.campaigns)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
