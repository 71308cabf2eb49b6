"""Stability: how each run ends, and spikes, skipped steps and losses that are none, as rates of the two sides."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steelyard.compare.curve import LossCurve
from steelyard.compare.side import Side
from steelyard.compare.tiers.tier import Answer, Pair, Tier
from steelyard.records.columns import Floats, Whole
from steelyard.verdict import Status, Subject

NAME = "stability"
DIFFER, ALIKE = 0.01, 0.1
"""Rates that chance makes so uneven less often than the one differ, and no more than the other are alike."""
WHOLE = 0.9
"""Of the longest run's way, below which a run that is shorter leaves open what would have come."""
_WINDOW, _MADS = 21, 6.0
_LEAST_NATS = 0.1
"""A loss near its floor jumps by many times itself where a document ends."""
_UNSOUND = ("completed", "loss_finite", "loss_falling", "loss_floor")
"""Findings that say a run did not get to its end, or did not learn: two such are not alike in learning."""


@dataclass(frozen=True, slots=True)
class _Count:
    what: str
    happened: int
    of: int


def ask(pair: Pair) -> Tier:
    endings = [_lost_at(subject, curve) for side in _sides(pair) for subject, curve in side]
    ours, theirs = endings[: len(pair.target.subjects)], endings[len(pair.target.subjects) :]
    if any(ours) != any(theirs):
        name, where = ("target", ours) if any(ours) else ("baseline", theirs)
        first = next(filter(None, where))
        return Tier(NAME, Answer.FAIL, f"the {name} has no loss that is one from step {first:,} to its end")
    up = [max(_stays_up(subject) for subject in side.subjects) for side in (pair.target, pair.baseline)]
    if max(up) > _WINDOW and min(up) <= _WINDOW:
        name = "target" if up[0] > up[1] else "baseline"
        return Tier(NAME, Answer.FAIL, f"the loss of the {name} jumps up and stays there for {max(up):,} records")
    rates = list(_rates(pair))
    apart = next((tier for tier in rates if tier.status == Answer.FAIL), None)
    if apart is not None:
        return apart
    if open_ := [*_open(pair), *(tier.message for tier in rates if tier.status == Answer.UNKNOWN)]:
        return Tier(NAME, Answer.UNKNOWN, "; ".join(open_))
    told = [tier.message for tier in rates if tier.message]
    return Tier(NAME, Answer.PASS, "; ".join(told) or f"no {', no '.join(_counted(pair))}")


def _sides(pair: Pair) -> list[list[tuple[Subject, LossCurve]]]:
    return [
        list(zip(side.subjects, curves, strict=True))
        for side, curves in zip((pair.target, pair.baseline), pair.curves, strict=True)
    ]


def _lost_at(subject: Subject, curve: LossCurve) -> int | None:
    """The step from which on every loss that is given is no number, or not above 0; None where the last one is fine."""
    steps = subject.steps
    rows = np.flatnonzero(steps.loss.given & ~steps.flag("skipped"))
    after = rows[steps.step[rows] > (curve.step[-1] if len(curve) else 0)]
    return int(steps.step[after].min()) if len(after) else None


def _stays_up(subject: Subject) -> int:
    return longest_above(subject.steps.loss.values[subject.steps.loss.finite], _LEAST_NATS)


def _open(pair: Pair) -> Iterator[str]:
    """Why runs that differ in nothing here may differ all the same."""
    for side in (pair.target, pair.baseline):
        for subject, verdict in zip(side.subjects, side.verdicts, strict=True):
            for one in verdict.findings:
                if one.check in _UNSOUND and one.status == Status.FAIL:
                    yield f"the {side.name} ({subject.run.directory.name}) fails {one.check}: {one.message}"
    longest = max((float(curve.seen[-1]) for side in pair.curves for curve in side if len(curve)), default=0.0)
    for side, curves in zip((pair.target, pair.baseline), pair.curves, strict=True):
        for subject, curve in zip(side.subjects, curves, strict=True):
            name = f"the {side.name} ({subject.run.directory.name})"
            if not len(curve):
                yield f"{name} has no loss"
            elif curve.seen[-1] < WHOLE * longest:
                went = f"{curve.seen[-1]:,.0f} of {longest:,.0f} {curve.axis}"
                yield f"{name} has losses for {went}, and no tier sees what comes after"


def _rates(pair: Pair) -> Iterator[Tier]:
    """One for each thing that may happen to a step; its message is empty where it happened to neither side."""
    for ours, theirs in zip(_counts(pair.target), _counts(pair.baseline), strict=True):
        if not (ours.happened or theirs.happened):
            continue
        told = [f"{one.happened:,} of {one.of:,}" if one.of else "steps that do not say so" for one in (ours, theirs)]
        words = f"{ours.what} at {told[0]} steps, and {told[1]}"
        if not ours.of or not theirs.of:
            yield Tier(NAME, Answer.UNKNOWN, words)
            continue
        chance = _by_chance(ours, theirs)
        status = Answer.FAIL if chance < DIFFER else Answer.PASS
        if chance < ALIKE and status == Answer.PASS:
            status, words = Answer.UNKNOWN, f"{words}: by chance alone so uneven in {chance:.0%} of cases"
        if ours.what == BAD and status == Answer.PASS and not (ours.happened and theirs.happened):
            status = Answer.UNKNOWN  # one such is no matter of rates
        yield Tier(NAME, status, f"the sides differ in {words}" if status == Answer.FAIL else words, chance, DIFFER)


def _counted(pair: Pair) -> list[str]:
    """What both sides tell of."""
    both = zip(_counts(pair.target), _counts(pair.baseline), strict=True)
    return [ours.what for ours, theirs in both if ours.of and theirs.of]


def _by_chance(ours: _Count, theirs: _Count) -> float:
    """How often chance alone deals what happened to the two sides at least so unevenly: a binomial test, two-sided."""
    from scipy.special import bdtr, bdtrc

    total, share = ours.happened + theirs.happened, ours.of / (ours.of + theirs.of)
    if not total:
        return 1.0
    fewer, more = bdtr(ours.happened, total, share), bdtrc(ours.happened - 1, total, share) if ours.happened else 1.0
    return float(min(1.0, 2 * min(fewer, more)))


def _counts(side: Side) -> list[_Count]:
    """All runs of a side together."""
    each = [_of_run(subject) for subject in side.subjects]
    return [
        _Count(same[0].what, sum(one.happened for one in same), sum(one.of for one in same))
        for same in zip(*each, strict=True)
    ]


BAD = "losses that are no number, or not above 0"


def _of_run(subject: Subject) -> list[_Count]:
    loss, grad, skipped = subject.steps.loss, subject.steps.grad_norm, subject.steps.skipped
    given = loss.given & ~subject.steps.flag("skipped")  # a step that was not taken may well have overflowed
    finite = loss.values[loss.finite]
    norms = grad.values[grad.finite]
    return [
        _Count(BAD, int((given & ~(loss.finite & (loss.values > 0))).sum()), int(given.sum())),
        _Count("spikes of the loss", spikes(finite, _LEAST_NATS), len(finite)),
        _Count("spikes of the gradient norm", spikes(norms), len(norms)),
        _Count("skipped steps", int((skipped.values[skipped.given] > 0).sum()), int(skipped.given.sum())),
    ]


def spikes(values: Floats, least: float = 0.0) -> int:
    """Values above all of the 21 before them, and above their median by six median deviations and by `least`."""
    return len(_jumps(values, least)[0])


def longest_above(values: Floats, least: float = 0.0) -> int:
    """For how many steps in a row the values stay above what a jump passed, at most."""
    longest, end = 0, 0
    for row, level in zip(*_jumps(values, least), strict=True):
        if row < end:
            continue
        end = int(row)
        while end < len(values) and values[end] > level:
            end += 1
        longest = max(longest, end - int(row))
    return longest


def _jumps(values: Floats, least: float) -> tuple[Whole, Floats]:
    """Where values jump, and above what."""
    if len(values) <= _WINDOW:
        return np.empty(0, dtype=np.int64), np.empty(0)
    before = np.lib.stride_tricks.sliding_window_view(values, _WINDOW)[:-1]
    at = np.flatnonzero(values[_WINDOW:] > before.max(axis=1))  # of the others no median is needed
    usual = np.median(before[at], axis=1)
    spread = 1.4826 * np.median(np.abs(before[at] - usual[:, None]), axis=1)
    bound = usual + np.maximum(_MADS * np.maximum(spread, 1e-3 * np.abs(usual)), least)
    jumped = values[_WINDOW:][at] > bound
    return at[jumped] + _WINDOW, bound[jumped]
