"""Stability: how each run ends, and spikes, skipped steps and losses that are none, as rates of the two sides."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from steelyard.accounting.arrays import around_median
from steelyard.comparison.curve import LossCurve, on_common_records
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Answer, Pair, Tier, by_seed, uneven_by_chance
from steelyard.reasons import Code, Reason, SideName
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


class Event(StrEnum):
    BAD = "losses that are no number, or not above 0"
    SPIKES = "spikes of the loss"
    NORMS = "spikes of the gradient norm"
    SKIPPED = "skipped steps"


@dataclass(frozen=True, slots=True)
class _Count:
    """How often an event happened to each seed of a side, and of how many steps that tell it."""

    each: Whole
    out_of: Whole

    @property
    def happened(self) -> int:
        return int(self.each.sum())

    @property
    def of(self) -> int:
        return int(self.out_of.sum())


def _no_loss_from(side: SideName, runs: Sequence[str], count: int, step: int) -> str:
    named = f"{', '.join(runs[:3])}{' …' * (len(runs) > 3)}"
    some = f"{len(runs)} of {count} runs of the {side} ({named}) {'has' if len(runs) == 1 else 'have'}"
    return f"{f'the {side} has' if count == 1 else some} no loss that is one from step {step:,} to the end"


def _counts(event: Event, target: _Count, baseline: _Count) -> str:
    sides = [
        f"{side.happened:,} of {side.of:,}" if side.of else "steps that do not say so" for side in (target, baseline)
    ]
    return f"{event} at {sides[0]} steps, and {sides[1]}"


NO_LOSS_FROM = Code("stability_no_loss_from", _no_loss_from)
"""Runs of one side alone have no valid loss from some step to their end."""
STAYS_UP = Code("stability_stays_up", "the loss of the {side} jumps up and stays so high for {steps:,} steps")
"""The loss of one side jumps up and stays there."""
STAYS_UP_IN_SOME = Code(
    "stability_stays_up_in_some",
    f"{STAYS_UP.sentence}, which happens to {{seeds}} of its {{of}} seeds and to none of the other side's",
)
"""The loss of some seeds of one side jumps up and stays there."""
EVENTS = Code("stability_events", _counts)
"""How often something happened on each side."""
EVENTS_DIFFER = Code("stability_events_differ", lambda **counts: f"the sides differ in {_counts(**counts)}")
"""Something happens more often on one side than chance explains."""
EVENTS_UNEVEN = Code(
    "stability_events_uneven",
    lambda chance, **counts: f"{_counts(**counts)}: by chance alone so uneven in {chance:.0%} of cases",
)
"""Something happens more often on one side, which chance may explain."""
EVENTS_OF_FEW_SEEDS = Code(
    "stability_events_of_few_seeds", lambda **counts: f"{_counts(**counts)}, but few of the seeds have most of them"
)
"""Few of the seeds have most of what happened."""
UNSOUND = Code("stability_unsound", "the {side} ({run}) fails {finding.check}: {finding.message}")
"""A run did not complete or did not learn."""
NO_LOSS = Code("stability_no_loss", "the {side} ({run}) has no loss")
"""A run has no loss."""
SHORT = Code(
    "stability_short",
    "the {side} ({run}) has losses for {seen:,.0f} of {longest:,.0f} {axis}, and no tier sees what comes after",
)
"""A run is shorter than the others."""
NOTHING = Code("stability_nothing", lambda events: f"no {', no '.join(events)}")
"""Nothing of what is counted happened on either side."""
SEVERAL = Code("stability_several", lambda reasons: "; ".join(reason.message for reason in reasons))
"""Several of the other reasons of this tier."""


def ask(pair: Pair) -> Tier:
    sides = list(zip(pair.sides, pair.curves, strict=True))
    lost = [[_lost_at(*run) for run in zip(side.subjects, curves, strict=True)] for side, curves in sides]
    if any(lost[0]) != any(lost[1]):
        side, steps = (pair.target, lost[0]) if any(lost[0]) else (pair.baseline, lost[1])
        runs = [subject.run.directory.name for subject, step in zip(side.subjects, steps, strict=True) if step]
        values = {"side": side.name, "runs": runs, "count": len(steps), "step": min(filter(None, steps))}
        return Tier(NAME, Answer.FAIL, Reason(NO_LOSS_FROM, values, side=side.name))
    (target, target_up), (baseline, baseline_up) = (
        _of_side(*side) for side in zip(pair.sides, _curves(pair), strict=True)
    )
    events = list(zip(Event, target, baseline, strict=True))
    rates = list(_stays_up(target_up, baseline_up))
    rates += (_rate(*event) for event in events if event[1].happened or event[2].happened)
    for tier in rates:
        if tier.status == Answer.FAIL:
            return tier
    open_ = [*_open(pair), *(tier.reason for tier in rates if tier.status == Answer.UNKNOWN)]
    counted = [event for event, *counts in events if all(count.of for count in counts)]
    reasons = open_ or [tier.reason for tier in rates] or [Reason(NOTHING, {"events": counted})]
    reason = reasons[0] if len(reasons) == 1 else Reason(SEVERAL, {"reasons": reasons})
    return Tier(NAME, Answer.UNKNOWN if open_ else Answer.PASS, reason)


def _lost_at(subject: Subject, curve: LossCurve) -> int | None:
    """The step from which on every loss that is given is no number, or not above 0; None where the last one is fine."""
    steps = subject.steps
    rows = np.flatnonzero(steps.loss.given & ~steps.flag("skipped"))
    after = rows[steps.step[rows] > (curve.step[-1] if len(curve) else 0)]
    return int(steps.step[after].min()) if len(after) else None


def _curves(pair: Pair) -> list[list[LossCurve]]:
    """On common records where intervals differ: a mean over ten steps has a tenth of the spike of one."""
    if len({float(np.median(curve.covered)) for side in pair.curves for curve in side if len(curve)}) > 1:
        common = on_common_records(pair.curves)
        if len(common[0][0]) > _WINDOW:
            return common
    return pair.curves


def _stays_up(*ups: list[int]) -> Iterator[Tier]:
    """Losses that jump up and stay there on one side: every seed's against none, or more of them than chance deals."""
    highest = [max(side) for side in ups]
    enough = max(_WINDOW, 2 * min(highest))
    if max(highest) <= enough:
        return
    many, seeds = [sum(up > enough for up in side) for side in ups], [len(side) for side in ups]
    chance = uneven_by_chance(many, seeds)
    at = int(highest[1] > highest[0])
    side: SideName = "baseline" if at else "target"
    values = {"side": side, "steps": highest[at]}
    if many[at] == seeds[at] or chance < DIFFER:
        yield Tier(NAME, Answer.FAIL, Reason(STAYS_UP, values, side=side))
    else:
        some = Reason(STAYS_UP_IN_SOME, {**values, "seeds": many[at], "of": seeds[at]}, side=side)
        yield Tier(NAME, Answer.UNKNOWN, some, chance, DIFFER)


def _rate(event: Event, target: _Count, baseline: _Count) -> Tier:
    counts: dict[str, Any] = {"event": event, "target": target, "baseline": baseline}
    if not target.of or not baseline.of:  # to tell more is no fault
        return Tier(NAME, Answer.PASS if event == Event.NORMS else Answer.UNKNOWN, Reason(EVENTS, counts))
    chance = _by_chance(target, baseline, _clumped(target, baseline))
    one_sided = event == Event.BAD and not (target.happened and baseline.happened)  # one such is no matter of rates
    status, reason = Answer.UNKNOWN if one_sided else Answer.PASS, Reason(EVENTS, counts)
    if chance < DIFFER:
        status, reason = Answer.FAIL, Reason(EVENTS_DIFFER, counts)
    elif chance < ALIKE:
        status, reason = Answer.UNKNOWN, Reason(EVENTS_UNEVEN, {**counts, "chance": chance})
    elif _by_chance(target, baseline) < DIFFER:
        status, reason = Answer.UNKNOWN, Reason(EVENTS_OF_FEW_SEEDS, counts)
    return Tier(NAME, status, reason, chance, DIFFER)


def _open(pair: Pair) -> Iterator[Reason]:
    """Why runs that differ in nothing here may differ all the same."""
    longest = max((float(curve.seen[-1]) for side in pair.curves for curve in side if len(curve)), default=0.0)
    for side, curves in zip(pair.sides, pair.curves, strict=True):
        for subject, curve, verdict in zip(side.subjects, curves, side.verdicts, strict=True):
            run = {"side": side.name, "run": subject.run.directory.name}
            for finding in verdict.findings:
                if finding.check in _UNSOUND and finding.status == Status.FAIL:
                    yield Reason(UNSOUND, {**run, "finding": finding}, side=side.name)
            if not len(curve):
                yield Reason(NO_LOSS, run, side=side.name)
            elif curve.seen[-1] < WHOLE * longest:
                seen = {"seen": float(curve.seen[-1]), "longest": longest, "axis": curve.axis}
                yield Reason(SHORT, {**run, **seen}, side=side.name)


def _by_chance(target: _Count, baseline: _Count, together: float = 1.0) -> float:
    """A binomial test, two-sided, of what happened to the two sides; events that come `together` count as one."""
    from scipy.special import bdtr, bdtrc

    here, there = (math.floor(side.happened / together) for side in (target, baseline))
    total, share = here + there, target.of / (target.of + baseline.of)
    fewer, more = bdtr(here, total, share), bdtrc(here - 1, total, share) if here else 1.0
    return float(min(1.0, 2 * min(fewer, more)))


def _clumped(*sides: _Count) -> float:
    """Pearson's dispersion over the seeds (McCullagh and Nelder, Generalized Linear Models, 1989, 6.2.3); 1 or more.

    What befalls a run in which something is wrong befalls it often, and is still one run.
    """
    squares, degrees = 0.0, 0
    for side in (side for side in sides if side.happened):
        tells = side.out_of > 0
        expected = side.happened * side.out_of[tells] / side.of
        squares += float(((side.each[tells] - expected) ** 2 / expected).sum())
        degrees += len(expected) - 1
    return max(1.0, squares / degrees) if degrees else 1.0


def _of_side(side: Side, curves: Sequence[LossCurve]) -> tuple[list[_Count], list[int]]:
    """Of each event its counts, the mean of runs that repeat a seed, and how long the loss of each seed stays up."""
    runs, seeds = list(map(_of_run, side.subjects, curves)), by_seed(side).values()
    means = [np.rint(np.mean([runs[at][0] for at in rows], axis=0)).astype(np.int64) for rows in seeds]
    counts = [_Count(*np.stack(of_event, axis=1)) for of_event in zip(*means, strict=True)]
    return counts, [max(runs[at][1] for at in rows) for rows in seeds]


def _of_run(subject: Subject, curve: LossCurve) -> tuple[list[tuple[int, int]], int]:
    """How often each event happened, and at how many steps that tell it; and how long the loss stays up at most."""
    loss, grad, skipped = subject.steps.loss, subject.steps.grad_norm, subject.steps.skipped
    given = loss.given & ~subject.steps.flag("skipped")  # a step that was not taken may well have overflowed
    norms, rises = grad.values[grad.finite], _rises(curve.loss, _LEAST_NATS)
    lasted = (int(curve.step[end - 1] - curve.step[row - 1]) for row, end in rises if end - row >= _IN_A_ROW)
    counts = {
        Event.BAD: (int((given & ~(loss.finite & (loss.values > 0))).sum()), int(given.sum())),
        Event.SPIKES: (len(rises), int(curve.covered.sum())),
        Event.NORMS: (len(_rises(norms)), len(norms)),
        Event.SKIPPED: (int((skipped.values[skipped.given] > 0).sum()), int(skipped.given.sum())),
    }
    return list(counts.values()), max(lasted, default=0)


def _rises(values: Floats, least: float = 0.0) -> list[tuple[int, int]]:
    """From which row to before which values are above what they jumped from: however many they are, one event."""
    rises: list[tuple[int, int]] = []
    end = 0
    for row, bound in zip(*(column.tolist() for column in _jumps(values, least)), strict=True):
        if row < end:
            continue
        end = row
        while end < len(values) and values[end] > bound:
            end += 1
        rises.append((row, end))
    return rises


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
