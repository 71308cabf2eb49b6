"""Stability: spikes, skipped steps and losses that are no number, as rates of the two sides."""

from dataclasses import dataclass

import numpy as np

from steelyard.compare.side import Side
from steelyard.compare.tiers.tier import Answer, Pair, Tier
from steelyard.records.columns import Floats
from steelyard.verdict import Subject

NAME = "stability"
LEVEL = 0.01
"""Rates that differ by chance less often than that differ."""
_WINDOW, _MADS = 21, 6.0
_LEAST_NATS = 0.1
"""A loss near its floor jumps by many times itself where a document ends."""


@dataclass(frozen=True, slots=True)
class _Count:
    what: str
    happened: int
    of: int


def ask(pair: Pair) -> Tier:
    told = []
    for ours, theirs in zip(_counts(pair.target), _counts(pair.baseline), strict=True):
        if not ours.of or not theirs.of:
            continue
        chance = _by_chance(ours, theirs)
        words = f"{ours.what} at {ours.happened:,} of {ours.of:,} steps, and {theirs.happened:,} of {theirs.of:,}"
        if chance < LEVEL:
            return Tier(NAME, Answer.FAIL, f"the sides differ in {words}", chance, LEVEL)
        if ours.happened or theirs.happened:
            told.append(words)
    if not any(one.of for one in _counts(pair.target)):
        return Tier(NAME, Answer.UNKNOWN, "the target has no losses")
    return Tier(NAME, Answer.PASS, "; ".join(told) or "no spike, no skipped step, no loss that is no number")


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


def _of_run(subject: Subject) -> list[_Count]:
    loss, grad, skipped = subject.steps.loss, subject.steps.grad_norm, subject.steps.skipped
    finite = loss.values[loss.finite]
    norms = grad.values[grad.finite]
    return [
        _Count("losses that are no number", int(loss.nonfinite.sum()), int(loss.given.sum())),
        _Count("spikes of the loss", spikes(finite, _LEAST_NATS), len(finite)),
        _Count("spikes of the gradient norm", spikes(norms), len(norms)),
        _Count("skipped steps", int((skipped.values[skipped.given] > 0).sum()), int(skipped.given.sum())),
    ]


def spikes(values: Floats, least: float = 0.0) -> int:
    """Values above all before them, and above their median by six median deviations and by no less than `least`."""
    if len(values) <= _WINDOW:
        return 0
    before = np.lib.stride_tricks.sliding_window_view(values, _WINDOW)[:-1]
    at = np.flatnonzero(values[_WINDOW:] > before.max(axis=1))  # of the others no median is needed
    usual = np.median(before[at], axis=1)
    spread = 1.4826 * np.median(np.abs(before[at] - usual[:, None]), axis=1)
    jump = np.maximum(_MADS * np.maximum(spread, 1e-3 * np.abs(usual)), least)
    return int((values[_WINDOW:][at] > usual + jump).sum())
