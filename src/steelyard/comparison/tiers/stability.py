"""Stability: how each run ends, and spikes, skipped steps and losses that are none, as rates of the two sides."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.accounting.robust import around_median
from steelyard.comparison.curve import LossCurve, on_common_records
from steelyard.comparison.side import Side
from steelyard.comparison.tiers.tier import Answer, Pair, Tier, by_seed, uneven_by_chance
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
COUNTED = (BAD, "spikes of the loss", NORMS, "skipped steps")


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

    what: str
    each: tuple[int, ...]
    out_of: tuple[int, ...]

    @property
    def happened(self) -> int:
        return sum(self.each)

    @property
    def of(self) -> int:
        return sum(self.out_of)


def ask(pair: Pair) -> Tier:
    lost = [[_lost_at(*one) for one in _runs(pair, at)] for at in (0, 1)]
    if any(lost[0]) != any(lost[1]):
        side, where = (pair.target, lost[0]) if any(lost[0]) else (pair.baseline, lost[1])
        first = min(filter(None, where))
        return Tier(NAME, Answer.FAIL, f"{_who(side, where)} no loss that is one from step {first:,} to the end")
    curves = _curves(pair)
    ours, theirs = (_of_seeds(side, own) for side, own in zip((pair.target, pair.baseline), curves, strict=True))
    both = [(_counted(ours, at), _counted(theirs, at)) for at in range(len(COUNTED))]
    rates = [*_stays_up(ours, theirs), *(_rate(*one) for one in both if one[0].happened or one[1].happened)]
    for tier in rates:
        if tier.status == Answer.FAIL:
            return tier
    if open_ := [*_open(pair), *(tier.message for tier in rates if tier.status == Answer.UNKNOWN)]:
        return Tier(NAME, Answer.UNKNOWN, "; ".join(open_))
    counted = [one.what for one, other in both if one.of and other.of]
    return Tier(NAME, Answer.PASS, "; ".join(tier.message for tier in rates) or f"no {', no '.join(counted)}")


def _who(side: Side, where: Sequence[int | None]) -> str:
    """A side of one run, or those of its runs to which it happened, and that it has or they have."""
    if len(where) == 1:
        return f"the {side.name} has"
    runs = [one.run.directory.name for one, at in zip(side.subjects, where, strict=True) if at]
    named = f"{', '.join(runs[:3])}{' …' * (len(runs) > 3)}"
    return f"{len(runs)} of {len(where)} runs of the {side.name} ({named}) {'has' if len(runs) == 1 else 'have'}"


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
    told = f"the loss of the {('target', 'baseline')[at]} jumps up and stays so high for {highest[at]:,} steps"
    if many[at] == len(ups[at]) or chance < DIFFER:
        yield Tier(NAME, Answer.FAIL, told)
    else:
        some = f"{told}, which happens to {many[at]} of its {len(ups[at])} seeds and to none of the other side's"
        yield Tier(NAME, Answer.UNKNOWN, some, chance, DIFFER)


def _rate(ours: _Count, theirs: _Count) -> Tier:
    told = [f"{one.happened:,} of {one.of:,}" if one.of else "steps that do not say so" for one in (ours, theirs)]
    words = f"{ours.what} at {told[0]} steps, and {told[1]}"
    if not ours.of or not theirs.of:
        return Tier(NAME, Answer.PASS if ours.what == NORMS else Answer.UNKNOWN, words)  # to tell more is no fault
    chance = _by_chance(ours, theirs, _clumped(ours, theirs))
    if chance < DIFFER:
        return Tier(NAME, Answer.FAIL, f"the sides differ in {words}", chance, DIFFER)
    if chance < ALIKE:
        return Tier(
            NAME, Answer.UNKNOWN, f"{words}: by chance alone so uneven in {chance:.0%} of cases", chance, DIFFER
        )
    if _by_chance(ours, theirs) < DIFFER:
        return Tier(NAME, Answer.UNKNOWN, f"{words}, but few of the seeds have most of them", chance, DIFFER)
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


def _counted(seeds: list[_Record], at: int) -> _Count:
    return _Count(COUNTED[at], tuple(one.happened[at] for one in seeds), tuple(one.of[at] for one in seeds))


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
