"""Stability: how each run ends, and spikes, skipped steps and losses that are none, as rates of the two sides."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from steelyard.accounting.robust import around_median
from steelyard.comparison.curve import LossCurve, on_common_records
from steelyard.comparison.side import Side
from steelyard.comparison.tiers.tier import Answer, Pair, Tier, by_seed, uneven_by_chance
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
SIDES: tuple[SideName, SideName] = ("target", "baseline")
_LEAST_NATS = 0.1
"""A loss near its floor jumps by many times itself where a document ends."""
_UNSOUND = ("completed", "loss_finite", "loss_falling", "loss_floor")
"""Findings that say a run did not get to its end, or did not learn: two such are not alike in learning."""


class Event(StrEnum):
    """What is counted, in the order of a record's counts."""

    BAD = "losses that are no number, or not above 0"
    SPIKES = "spikes of the loss"
    NORMS = "spikes of the gradient norm"
    SKIPPED = "skipped steps"


@dataclass(frozen=True, slots=True)
class _Record:
    """What happened to a run, or to a seed, of which several runs are one."""

    happened: tuple[int, ...]
    """How often, of each of what is counted."""
    of: tuple[int, ...]
    """Steps that tell it."""
    up: int
    """Steps that the loss stays above what it jumped from, at most, over three records or more."""


@dataclass(frozen=True, slots=True)
class _Count:
    """How often one of these happened to each seed of a side."""

    what: Event
    each: tuple[int, ...]
    out_of: tuple[int, ...]

    @property
    def happened(self) -> int:
        return sum(self.each)

    @property
    def of(self) -> int:
        return sum(self.out_of)


def _no_loss_from(side: SideName, runs: Sequence[str], count: int, step: int) -> str:
    """Of a side of one run, or of those of its runs to which it happened."""
    named = f"{', '.join(runs[:3])}{' …' * (len(runs) > 3)}"
    some = f"{len(runs)} of {count} runs of the {side} ({named}) {'has' if len(runs) == 1 else 'have'}"
    return f"{f'the {side} has' if count == 1 else some} no loss that is one from step {step:,} to the end"


def _counts(event: Event, target: _Count, baseline: _Count) -> str:
    ours, theirs = (
        f"{side.happened:,} of {side.of:,}" if side.of else "steps that do not say so" for side in (target, baseline)
    )
    return f"{event} at {ours} steps, and {theirs}"


def _together(reasons: Sequence[Reason]) -> str:
    return "; ".join(reason.message for reason in reasons)


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
SEVERAL = Code("stability_several", _together)
"""Several of the other reasons of this tier."""


def ask(pair: Pair) -> Tier:
    lost = [[_lost_at(*one) for one in _runs(pair, at)] for at in (0, 1)]
    if any(lost[0]) != any(lost[1]):
        side, where = (pair.target, lost[0]) if any(lost[0]) else (pair.baseline, lost[1])
        runs = [subject.run.directory.name for subject, step in zip(side.subjects, where, strict=True) if step]
        values = {"side": side.name, "runs": runs, "count": len(where), "step": min(filter(None, where))}
        return Tier(NAME, Answer.FAIL, Reason(NO_LOSS_FROM, values, side=side.name))
    curves = _curves(pair)
    ours, theirs = (_of_seeds(side, own) for side, own in zip((pair.target, pair.baseline), curves, strict=True))
    both = [(_counted(ours, event), _counted(theirs, event)) for event in Event]
    rates = [*_stays_up(ours, theirs), *(_rate(*one) for one in both if one[0].happened or one[1].happened)]
    for tier in rates:
        if tier.status == Answer.FAIL:
            return tier
    if open_ := [*_open(pair), *(tier.reason for tier in rates if tier.status == Answer.UNKNOWN)]:
        return Tier(NAME, Answer.UNKNOWN, _all(open_))
    if rates:
        return Tier(NAME, Answer.PASS, _all([tier.reason for tier in rates]))
    counted = [ours.what for ours, theirs in both if ours.of and theirs.of]
    return Tier(NAME, Answer.PASS, Reason(NOTHING, {"events": counted}))


def _all(reasons: Sequence[Reason]) -> Reason:
    return reasons[0] if len(reasons) == 1 else Reason(SEVERAL, {"reasons": reasons})


def _runs(pair: Pair, at: int) -> list[tuple[Subject, LossCurve]]:
    return list(zip((pair.target, pair.baseline)[at].subjects, pair.curves[at], strict=True))


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


def _stays_up(ours: list[_Record], theirs: list[_Record]) -> Iterator[Tier]:
    """Losses that jump up and stay there on one side: every seed's against none, or more of them than chance deals."""
    ups = [[one.up for one in side] for side in (ours, theirs)]
    highest = [max(side) for side in ups]
    enough = max(_WINDOW, 2 * min(highest))
    if max(highest) <= enough:
        return
    many = [sum(up > enough for up in side) for side in ups]
    chance = uneven_by_chance(many, [len(ours), len(theirs)])
    at = int(highest[1] > highest[0])
    side = SIDES[at]
    values = {"side": side, "steps": highest[at]}
    if many[at] == len(ups[at]) or chance < DIFFER:
        yield Tier(NAME, Answer.FAIL, Reason(STAYS_UP, values, side=side))
    else:
        some = Reason(STAYS_UP_IN_SOME, {**values, "seeds": many[at], "of": len(ups[at])}, side=side)
        yield Tier(NAME, Answer.UNKNOWN, some, chance, DIFFER)


def _rate(ours: _Count, theirs: _Count) -> Tier:
    event = ours.what
    counts: dict[str, Any] = {"event": event, "target": ours, "baseline": theirs}
    if not ours.of or not theirs.of:  # to tell more is no fault
        return Tier(NAME, Answer.PASS if event == Event.NORMS else Answer.UNKNOWN, Reason(EVENTS, counts))
    chance = _by_chance(ours, theirs, _clumped(ours, theirs))
    if chance < DIFFER:
        return Tier(NAME, Answer.FAIL, Reason(EVENTS_DIFFER, counts), chance, DIFFER)
    if chance < ALIKE:
        return Tier(NAME, Answer.UNKNOWN, Reason(EVENTS_UNEVEN, {**counts, "chance": chance}), chance, DIFFER)
    if _by_chance(ours, theirs) < DIFFER:
        return Tier(NAME, Answer.UNKNOWN, Reason(EVENTS_OF_FEW_SEEDS, counts), chance, DIFFER)
    one_sided = event == Event.BAD and not (ours.happened and theirs.happened)  # one such is no matter of rates
    return Tier(NAME, Answer.UNKNOWN if one_sided else Answer.PASS, Reason(EVENTS, counts), chance, DIFFER)


def _open(pair: Pair) -> Iterator[Reason]:
    """Why runs that differ in nothing here may differ all the same."""
    longest = max((float(curve.seen[-1]) for side in pair.curves for curve in side if len(curve)), default=0.0)
    for at, side in enumerate((pair.target, pair.baseline)):
        for (subject, curve), verdict in zip(_runs(pair, at), side.verdicts, strict=True):
            run = {"side": side.name, "run": subject.run.directory.name}
            for finding in verdict.findings:
                if finding.check in _UNSOUND and finding.status == Status.FAIL:
                    yield Reason(UNSOUND, {**run, "finding": finding}, side=side.name)
            if not len(curve):
                yield Reason(NO_LOSS, run, side=side.name)
            elif curve.seen[-1] < WHOLE * longest:
                seen = {"seen": float(curve.seen[-1]), "longest": longest, "axis": curve.axis}
                yield Reason(SHORT, {**run, **seen}, side=side.name)


def _by_chance(ours: _Count, theirs: _Count, together: float = 1.0) -> float:
    """How often chance alone deals what happened to the two sides at least so unevenly: a binomial test, two-sided.

    Of events that come together so many count as one.
    """
    from scipy.special import bdtr, bdtrc

    here, there = (math.floor(one.happened / together) for one in (ours, theirs))
    total, share = here + there, ours.of / (ours.of + theirs.of)
    fewer, more = bdtr(here, total, share), bdtrc(here - 1, total, share) if here else 1.0
    return float(min(1.0, 2 * min(fewer, more)))


def _clumped(*sides: _Count) -> float:
    """How many times as much the seeds of a side scatter as events would that know nothing of each other; 1 or more.

    Pearson's dispersion (McCullagh and Nelder, Generalized Linear Models, 1989, 6.2.3): what befalls a run in which
    something is wrong befalls it often, and is still one run.
    """
    squares, degrees = 0.0, 0
    for side in (one for one in sides if one.happened):
        out_of = np.array([of for of in side.out_of if of])
        expected = side.happened * out_of / side.of
        each = np.array([one for one, of in zip(side.each, side.out_of, strict=True) if of])
        squares += float(((each - expected) ** 2 / expected).sum())
        degrees += len(each) - 1
    return max(1.0, squares / degrees) if degrees else 1.0


def _counted(seeds: list[_Record], event: Event) -> _Count:
    at = list(Event).index(event)
    return _Count(event, tuple(one.happened[at] for one in seeds), tuple(one.of[at] for one in seeds))


def _of_seeds(side: Side, curves: Sequence[LossCurve]) -> list[_Record]:
    each = [_of_run(subject, curve) for subject, curve in zip(side.subjects, curves, strict=True)]
    return [_of_seed([each[at] for at in rows]) for rows in by_seed(side).values()]


def _of_seed(repeats: list[_Record]) -> _Record:
    """Of runs that repeat a seed the mean: what happens to all of them happened once."""
    happened, of = (
        tuple(round(float(mean)) for mean in np.mean(counts, axis=0))
        for counts in ([one.happened for one in repeats], [one.of for one in repeats])
    )
    return _Record(happened, of, max(one.up for one in repeats))


def _of_run(subject: Subject, curve: LossCurve) -> _Record:
    loss, grad, skipped = subject.steps.loss, subject.steps.grad_norm, subject.steps.skipped
    given = loss.given & ~subject.steps.flag("skipped")  # a step that was not taken may well have overflowed
    norms = grad.values[grad.finite]
    rises = _rises(curve.loss, _LEAST_NATS)
    happened = (
        int((given & ~(loss.finite & (loss.values > 0))).sum()),
        len(rises),
        len(_rises(norms)),
        int((skipped.values[skipped.given] > 0).sum()),
    )
    lasted = (int(curve.step[end - 1] - curve.step[row - 1]) for row, end in rises if end - row >= _IN_A_ROW)
    return _Record(
        happened,
        (int(given.sum()), int(curve.covered.sum()), len(norms), int(skipped.given.sum())),
        max(lasted, default=0),
    )


def _rises(values: Floats, least: float = 0.0) -> list[tuple[int, int]]:
    """From which row to before which values are above what they jumped from: however many they are, one event."""
    found: list[tuple[int, int]] = []
    end = 0
    for row, bound in zip(*(column.tolist() for column in _jumps(values, least)), strict=True):
        if row < end:
            continue
        end = row
        while end < len(values) and values[end] > bound:
            end += 1
        found.append((row, end))
    return found


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
