"""Stability: how each run ends, and spikes, skipped steps and losses that are none, as rates of the two sides."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from steelyard.accounting.robust import around_median
from steelyard.compare.curve import LossCurve
from steelyard.compare.side import Side
from steelyard.compare.tiers.tier import Answer, Pair, Tier, by_seed
from steelyard.records.columns import Floats, Whole
from steelyard.verdict import Status, Subject

NAME = "stability"
DIFFER, ALIKE = 0.01, 0.1
"""Rates that chance makes so uneven less often than the one differ, and no more than the other are alike."""
WHOLE = 0.9
"""Of the longest run's way, below which a run that is shorter leaves open what would have come."""
_WINDOW, _MADS = 21, 6.0
_IN_A_ROW = 3
_LEAST_NATS = 0.1
"""A loss near its floor jumps by many times itself where a document ends."""
_UNSOUND = ("completed", "loss_finite", "loss_falling", "loss_floor")
"""Findings that say a run did not get to its end, or did not learn: two such are not alike in learning."""


BAD, NORMS = "losses that are no number, or not above 0", "spikes of the gradient norm"


@dataclass(frozen=True, slots=True)
class _Count:
    what: str
    happened: int
    of: int


@dataclass(frozen=True, slots=True)
class _Record:
    """What happened to the steps of a run, or of all runs of a side."""

    counts: list[_Count]
    up: int
    """Steps that the loss stays above what it jumped from, at most, over three records or more."""


def ask(pair: Pair) -> Tier:
    lost = [[_lost_at(*one) for one in _runs(pair, at)] for at in (0, 1)]
    if any(lost[0]) != any(lost[1]):
        name, where = ("target", lost[0]) if any(lost[0]) else ("baseline", lost[1])
        first = next(filter(None, where))
        return Tier(NAME, Answer.FAIL, f"the {name} has no loss that is one from step {first:,} to its end")
    ours, theirs = (_of_side(side) for side in (pair.target, pair.baseline))
    if max(ours.up, theirs.up) > max(_WINDOW, 2 * min(ours.up, theirs.up)):
        name, longest = ("target", ours.up) if ours.up > theirs.up else ("baseline", theirs.up)
        return Tier(NAME, Answer.FAIL, f"the loss of the {name} jumps up and stays there for {longest:,} steps")
    both = list(zip(ours.counts, theirs.counts, strict=True))
    rates = [_rate(*one) for one in both if one[0].happened or one[1].happened]
    for tier in rates:
        if tier.status == Answer.FAIL:
            return tier
    if open_ := [*_open(pair), *(tier.message for tier in rates if tier.status == Answer.UNKNOWN)]:
        return Tier(NAME, Answer.UNKNOWN, "; ".join(open_))
    counted = [one.what for one, other in both if one.of and other.of]
    return Tier(NAME, Answer.PASS, "; ".join(tier.message for tier in rates) or f"no {', no '.join(counted)}")


def _runs(pair: Pair, at: int) -> list[tuple[Subject, LossCurve]]:
    return list(zip((pair.target, pair.baseline)[at].subjects, pair.curves[at], strict=True))


def _lost_at(subject: Subject, curve: LossCurve) -> int | None:
    """The step from which on every loss that is given is no number, or not above 0; None where the last one is fine."""
    steps = subject.steps
    rows = np.flatnonzero(steps.loss.given & ~steps.flag("skipped"))
    after = rows[steps.step[rows] > (curve.step[-1] if len(curve) else 0)]
    return int(steps.step[after].min()) if len(after) else None


def _rate(ours: _Count, theirs: _Count) -> Tier:
    told = [f"{one.happened:,} of {one.of:,}" if one.of else "steps that do not say so" for one in (ours, theirs)]
    words = f"{ours.what} at {told[0]} steps, and {told[1]}"
    if not ours.of or not theirs.of:
        return Tier(NAME, Answer.PASS if ours.what == NORMS else Answer.UNKNOWN, words)  # to tell more is no fault
    chance = _by_chance(ours, theirs)
    if chance < DIFFER:
        return Tier(NAME, Answer.FAIL, f"the sides differ in {words}", chance, DIFFER)
    if chance < ALIKE:
        return Tier(
            NAME, Answer.UNKNOWN, f"{words}: by chance alone so uneven in {chance:.0%} of cases", chance, DIFFER
        )
    one_sided = ours.what == BAD and not (ours.happened and theirs.happened)  # one such is no matter of rates
    return Tier(NAME, Answer.UNKNOWN if one_sided else Answer.PASS, words, chance, DIFFER)


def _open(pair: Pair) -> Iterator[str]:
    """Why runs that differ in nothing here may differ all the same."""
    longest = max((float(curve.seen[-1]) for side in pair.curves for curve in side if len(curve)), default=0.0)
    for at, side in enumerate((pair.target, pair.baseline)):
        for (subject, curve), verdict in zip(_runs(pair, at), side.verdicts, strict=True):
            name = f"the {side.name} ({subject.run.directory.name})"
            for one in verdict.findings:
                if one.check in _UNSOUND and one.status == Status.FAIL:
                    yield f"{name} fails {one.check}: {one.message}"
            if not len(curve):
                yield f"{name} has no loss"
            elif curve.seen[-1] < WHOLE * longest:
                went = f"{curve.seen[-1]:,.0f} of {longest:,.0f} {curve.axis}"
                yield f"{name} has losses for {went}, and no tier sees what comes after"


def _by_chance(ours: _Count, theirs: _Count) -> float:
    """How often chance alone deals what happened to the two sides at least so unevenly: a binomial test, two-sided."""
    from scipy.special import bdtr, bdtrc

    total, share = ours.happened + theirs.happened, ours.of / (ours.of + theirs.of)
    fewer, more = bdtr(ours.happened, total, share), bdtrc(ours.happened - 1, total, share) if ours.happened else 1.0
    return float(min(1.0, 2 * min(fewer, more)))


def _of_side(side: Side) -> _Record:
    each = [_of_run(subject) for subject in side.subjects]
    seeds = [_of_seed([each[at] for at in rows]) for rows in by_seed(side).values()]
    together = zip(*seeds, strict=True)
    counts = [_Count(same[0].what, sum(one.happened for one in same), sum(one.of for one in same)) for same in together]
    return _Record(counts, max(one.up for one in each))


def _of_seed(repeats: list[_Record]) -> list[_Count]:
    """Of runs that repeat a seed the mean: what happens to all of them happened once."""
    return [
        _Count(same[0].what, _mean(one.happened for one in same), _mean(one.of for one in same))
        for same in zip(*(one.counts for one in repeats), strict=True)
    ]


def _mean(counts: Iterable[int]) -> int:
    return round(float(np.mean(list(counts))))


def _of_run(subject: Subject) -> _Record:
    loss, grad, skipped = subject.steps.loss, subject.steps.grad_norm, subject.steps.skipped
    given = loss.given & ~subject.steps.flag("skipped")  # a step that was not taken may well have overflowed
    finite, norms = loss.values[loss.finite], grad.values[grad.finite]
    jumps = _jumps(finite, _LEAST_NATS)
    counts = [
        _Count(BAD, int((given & ~(loss.finite & (loss.values > 0))).sum()), int(given.sum())),
        _Count("spikes of the loss", len(jumps[0]), len(finite)),
        _Count(NORMS, len(_jumps(norms)[0]), len(norms)),
        _Count("skipped steps", int((skipped.values[skipped.given] > 0).sum()), int(skipped.given.sum())),
    ]
    return _Record(counts, _longest_above(subject.steps.step[loss.finite], finite, *jumps))


def _longest_above(step: Whole, values: Floats, rows: Whole, bounds: Floats) -> int:
    longest, end = 0, 0
    for row, bound in zip(rows.tolist(), bounds.tolist(), strict=True):
        if row < end:
            continue
        end = row
        while end < len(values) and values[end] > bound:
            end += 1
        if end - row >= _IN_A_ROW:
            longest = max(longest, int(step[end - 1] - step[row - 1]))
    return longest


def _jumps(values: Floats, least: float = 0.0) -> tuple[Whole, Floats]:
    """Where values are above all of the 21 before them, and above what: their median and six median deviations."""
    if len(values) <= _WINDOW:
        return np.empty(0, dtype=np.int64), np.empty(0)
    count = len(values) - _WINDOW
    highest = values[:count].copy()
    for after in range(1, _WINDOW):
        np.maximum(highest, values[after : after + count], out=highest)
    at = np.flatnonzero(values[_WINDOW:] > highest)  # of the others no median is needed
    usual, spread = around_median(np.lib.stride_tricks.sliding_window_view(values, _WINDOW)[at])
    bound = usual + np.maximum(_MADS * np.maximum(spread, 1e-3 * np.abs(usual)), least)
    jumped = values[_WINDOW:][at] > bound
    return at[jumped] + _WINDOW, bound[jumped]
