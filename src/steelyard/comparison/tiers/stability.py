"""Stability: how each run ends, and the rates of spikes, skipped steps and invalid losses on both sides."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from steelyard.accounting.arrays import around_median
from steelyard.comparison.curve import LossCurve, on_common_records
from steelyard.comparison.intervals import FEWEST
from steelyard.comparison.side import Side
from steelyard.comparison.starts import by_seed
from steelyard.comparison.tiers import Answer, Pair, Tier, uneven_by_chance
from steelyard.reasons import Code, Reason, SideName
from steelyard.records.columns import Floats, Whole
from steelyard.verdict import Status, Subject

NAME = "stability"
DIFFER, ALIKE = 0.01, 0.1
"""P-values: below the first, rates differ; from the second on, they are alike."""
WHOLE = 0.9
"""Share of the longest run; a shorter run may miss later events."""
_WINDOW, _MADS = 21, 6.0
_IN_A_ROW = 3
_LEAST_NATS = 0.1
"""Smallest jump that counts; a loss near its floor jumps by a large factor at the end of a document."""
_UNSOUND = ("completed", "loss_finite", "loss_falling", "loss_floor")
"""Checks that fail if a run did not complete or did not learn: two such runs are not equivalent."""


class Event(StrEnum):
    BAD = "invalid losses (NaN, infinite or not above 0)"
    SPIKES = "loss spikes"
    NORMS = "gradient norm spikes"
    SKIPPED = "skipped steps"


@dataclass(frozen=True, slots=True)
class _Count:
    """How often an event happened to each seed of a side, and in how many steps it is recorded."""

    each: Whole
    out_of: Whole

    @property
    def happened(self) -> int:
        return int(self.each.sum())

    @property
    def of(self) -> int:
        return int(self.out_of.sum())


def _no_loss_from(side: str, runs: Sequence[str], count: int, step: int) -> str:
    names = f"{', '.join(runs[:3])}{', …' * (len(runs) > 3)}"
    some = f"{side}: {len(runs)} of {count} runs ({names}) {'has' if len(runs) == 1 else 'have'}"
    return f"{f'{side} has' if count == 1 else some} no valid loss from step {step:,} to the end"


def _counts(called: tuple[str, str], event: Event, target: _Count, baseline: _Count) -> str:
    sides = (
        f"{count.happened:,} of {count.of:,} steps on {side}" if count.of else f"not recorded on {side}"
        for side, count in zip(called, (target, baseline), strict=True)
    )
    return f"{event}: {', '.join(sides)}"


NO_LOSS_FROM = Code("stability_no_loss_from", _no_loss_from)
"""Runs of one side alone have no valid loss from some step to their end."""
STAYS_UP = Code("stability_stays_up", "the loss of {side} jumps up and stays high for {steps:,} steps")
"""The loss of one side jumps up and stays there."""
STAYS_UP_IN_SOME = Code(
    "stability_stays_up_in_some",
    f"{STAYS_UP.sentence}, in {{seeds}} of its {{of}} seeds and in none of the other side",
)
"""The loss of some seeds of one side jumps up and stays there."""
EVENTS = Code("stability_events", _counts)
"""How often something happened on each side."""
EVENTS_DIFFER = Code("stability_events_differ", lambda **counts: f"the sides differ in {_counts(**counts)}")
"""Something happens more often on one side than chance explains."""
EVENTS_UNEVEN = Code(
    "stability_events_uneven",
    lambda chance, **counts: f"{_counts(**counts)}; chance alone gives this in {chance:.0%} of cases",
)
"""Something happens more often on one side, which chance may explain."""
EVENTS_OF_FEW_SEEDS = Code(
    "stability_events_of_few_seeds",
    lambda **counts: f"{_counts(**counts)}; in few seeds, which may differ so by chance",
)
"""Few of the seeds have most of what happened, or there are few seeds: one seed may have more spikes than another."""
UNSOUND = Code("stability_unsound", "{finding.check} fails for {run}: {finding.message}")
"""A run did not complete or did not learn."""
NO_LOSS = Code("stability_no_loss", "{run} has no loss")
"""A run has no loss."""
SHORT = Code(
    "stability_short",
    "{run} ends at {seen:,.0f} of {longest:,.0f} {axis}, so later steps cannot be compared",
)
"""A run is shorter than the others."""
NOTHING = Code("stability_nothing", lambda events: f"no {', no '.join(events)}")
"""Nothing of what is counted happened on either side."""
SEVERAL = Code("stability_several", lambda reasons: "; ".join(reason.message for reason in reasons))
"""Several reasons of this tier together."""


def ask(pair: Pair) -> Tier:
    sides = list(zip(pair.sides, pair.curves, strict=True))
    lost = [[lost_at(*run) for run in zip(side.subjects, curves, strict=True)] for side, curves in sides]
    if any(lost[0]) != any(lost[1]):
        side, steps = (pair.target, lost[0]) if any(lost[0]) else (pair.baseline, lost[1])
        runs = [subject.run.directory.name for subject, step in zip(side.subjects, steps, strict=True) if step]
        values = {"side": side.called, "runs": runs, "count": len(steps), "step": min(filter(None, steps))}
        return Tier(NAME, Answer.FAIL, Reason(NO_LOSS_FROM, values, side=side.name))
    (target, target_up), (baseline, baseline_up) = (
        _of_side(*side) for side in zip(pair.sides, _curves(pair), strict=True)
    )
    events = list(zip(Event, target, baseline, strict=True))
    rates = list(_stays_up(pair, target_up, baseline_up))
    rates += (_rate(pair, *event) for event in events if event[1].happened or event[2].happened)
    for tier in rates:
        if tier.status == Answer.FAIL:
            return tier
    open_ = [*_open(pair), *(tier.reason for tier in rates if tier.status == Answer.UNKNOWN)]
    counted = [event for event, *counts in events if all(count.of for count in counts)]
    reasons = open_ or [tier.reason for tier in rates] or [Reason(NOTHING, {"events": counted})]
    reason = reasons[0] if len(reasons) == 1 else Reason(SEVERAL, {"reasons": reasons})
    return Tier(NAME, Answer.UNKNOWN if open_ else Answer.PASS, reason)


def lost_at(subject: Subject, curve: LossCurve) -> int | None:
    """The step from which on every given loss is invalid; None if the last one is valid."""
    steps = subject.steps
    rows = np.flatnonzero(steps.loss.given & ~steps.flag("skipped"))
    after = rows[steps.step[rows] > (curve.step[-1] if len(curve) else 0)]
    return int(steps.step[after].min()) if len(after) else None


def _curves(pair: Pair) -> list[list[LossCurve]]:
    """Curves on common records if log intervals differ: a mean over ten steps has a tenth of a spike."""
    if len({float(np.median(curve.covered)) for side in pair.curves for curve in side if len(curve)}) > 1:
        common = on_common_records(pair.curves)
        if len(common[0][0]) > _WINDOW:
            return common
    return pair.curves


def _stays_up(pair: Pair, *ups: list[int]) -> Iterator[Tier]:
    """Losses that jump up and stay high on one side: in every seed, or in more than chance explains."""
    highest = [max(side) for side in ups]
    enough = max(_WINDOW, 2 * min(highest))
    if max(highest) <= enough:
        return
    many, seeds = [sum(up > enough for up in side) for side in ups], [len(side) for side in ups]
    chance = uneven_by_chance(many, seeds)
    at = int(highest[1] > highest[0])
    side: SideName = "baseline" if at else "target"
    values = {"side": pair.called[at], "steps": highest[at]}
    if many[at] == seeds[at] or chance < DIFFER:
        yield Tier(NAME, Answer.FAIL, Reason(STAYS_UP, values, side=side))
    else:
        some = Reason(STAYS_UP_IN_SOME, {**values, "seeds": many[at], "of": seeds[at]}, side=side)
        yield Tier(NAME, Answer.UNKNOWN, some, chance, DIFFER)


def _rate(pair: Pair, event: Event, target: _Count, baseline: _Count) -> Tier:
    counts: dict[str, Any] = {"called": pair.called, "event": event, "target": target, "baseline": baseline}
    if not target.of or not baseline.of:  # an unrecorded gradient norm is acceptable
        return Tier(NAME, Answer.PASS if event == Event.NORMS else Answer.UNKNOWN, Reason(EVENTS, counts))
    chance = _by_chance(target, baseline, _clumped(target, baseline))
    one_sided = event == Event.BAD and not (target.happened and baseline.happened)  # open, whatever the rate
    few = event in (Event.SPIKES, Event.NORMS) and min(pair.seeds) < FEWEST and not pair.must_agree
    status, reason = Answer.UNKNOWN if one_sided else Answer.PASS, Reason(EVENTS, counts)
    if chance < DIFFER and few:
        status, reason = Answer.UNKNOWN, Reason(EVENTS_OF_FEW_SEEDS, counts)
    elif chance < DIFFER:
        status, reason = Answer.FAIL, Reason(EVENTS_DIFFER, counts)
    elif chance < ALIKE:
        status, reason = Answer.UNKNOWN, Reason(EVENTS_UNEVEN, {**counts, "chance": chance})
    elif _by_chance(target, baseline) < DIFFER:
        status, reason = Answer.UNKNOWN, Reason(EVENTS_OF_FEW_SEEDS, counts)
    return Tier(NAME, status, reason, chance, DIFFER)


def _open(pair: Pair) -> Iterator[Reason]:
    """Reasons why runs without a difference in rates may still differ."""
    longest = max((float(curve.seen[-1]) for side in pair.curves for curve in side if len(curve)), default=0.0)
    for side, curves in zip(pair.sides, pair.curves, strict=True):
        for subject, curve, verdict in zip(side.subjects, curves, side.verdicts, strict=True):
            run = {"run": side.run_name(subject)}
            for finding in verdict.findings:
                if finding.check in _UNSOUND and finding.status == Status.FAIL:
                    yield Reason(UNSOUND, {**run, "finding": finding}, side=side.name)
            if not len(curve):
                yield Reason(NO_LOSS, run, side=side.name)
            elif curve.seen[-1] < WHOLE * longest:
                seen = {"seen": float(curve.seen[-1]), "longest": longest, "axis": curve.axis}
                yield Reason(SHORT, {**run, **seen}, side=side.name)


def _by_chance(target: _Count, baseline: _Count, together: float = 1.0) -> float:
    """P-value of a two-sided binomial test of the counts; `together` events count as one."""
    from scipy.special import bdtr, bdtrc

    here, there = (math.floor(side.happened / together) for side in (target, baseline))
    total, share = here + there, target.of / (target.of + baseline.of)
    fewer, more = bdtr(here, total, share), bdtrc(here - 1, total, share) if here else 1.0
    return float(min(1.0, 2 * min(fewer, more)))


def _clumped(*sides: _Count) -> float:
    """Pearson's dispersion over the seeds (McCullagh and Nelder, Generalized Linear Models, 1989, 6.2.3); 1 or more.

    A faulty run may have many events and is still one run.
    """
    squares, degrees = 0.0, 0
    for side in (side for side in sides if side.happened):
        recorded = side.out_of > 0
        expected = side.happened * side.out_of[recorded] / side.of
        squares += float(((side.each[recorded] - expected) ** 2 / expected).sum())
        degrees += len(expected) - 1
    return max(1.0, squares / degrees) if degrees else 1.0


def _of_side(side: Side, curves: Sequence[LossCurve]) -> tuple[list[_Count], list[int]]:
    """Counts of each event per seed (mean of its runs), and how long the loss of each seed stays high."""
    runs, seeds = list(map(_of_run, side.subjects, curves)), by_seed(side).values()
    means = [np.rint(np.mean([runs[at][0] for at in rows], axis=0)).astype(np.int64) for rows in seeds]
    counts = [_Count(*np.stack(of_event, axis=1)) for of_event in zip(*means, strict=True)]
    return counts, [max(runs[at][1] for at in rows) for rows in seeds]


def _of_run(subject: Subject, curve: LossCurve) -> tuple[list[tuple[int, int]], int]:
    """Counts of each event with the steps that record it, and for how many steps the loss stays high."""
    loss, grad, skipped = subject.steps.loss, subject.steps.grad_norm, subject.steps.skipped
    given = loss.given & ~subject.steps.flag("skipped")  # a skipped step may have overflowed
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
    """Stretches of rows after a jump, until values fall below its bound; each is one event."""
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
    """Rows above all of the 21 rows before, and the bound: their median plus six median deviations."""
    if len(values) <= _WINDOW:
        return np.empty(0, dtype=np.int64), np.empty(0)
    count = len(values) - _WINDOW
    highest = values[:count].copy()
    for after in range(1, _WINDOW):
        np.maximum(highest, values[after : after + count], out=highest)
    at = np.flatnonzero(values[_WINDOW:] > highest)  # only these need a median
    usual, spread = around_median(np.lib.stride_tricks.sliding_window_view(values, _WINDOW)[at])
    bound = usual + np.maximum(_MADS * np.maximum(spread, 1e-3 * np.abs(usual)), least)
    jumped = values[_WINDOW:][at] > bound
    return at[jumped] + _WINDOW, bound[jumped]
