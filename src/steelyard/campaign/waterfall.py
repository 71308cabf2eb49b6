"""How much each change of a ladder makes of the gap between its two sides, and what is left for the hardware."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from steelyard.campaign.ladder_keys import Change, differing, is_of_the_rest, is_settable
from steelyard.campaign.suite_verdict import CellVerdict, SuiteVerdict
from steelyard.comparison import Comparison, Metric, codes, weigh
from steelyard.comparison.acceptance import Acceptance
from steelyard.comparison.codes import sentence
from steelyard.comparison.declared import Declared
from steelyard.comparison.intervals import FEWEST, LEVEL, geometric_mean
from steelyard.comparison.ratios import FIGURE_OF, figures_of
from steelyard.comparison.shares import Factor, Ladder, of_sides
from steelyard.errors import InputError
from steelyard.experiment.keys import KEYS, STATED
from steelyard.files import place_of
from steelyard.reasons import Code, Reason
from steelyard.records import Run, load
from steelyard.records.suite import LadderSides, Suite
from steelyard.verdict import Subject
from steelyard.verdict.figures import tokens_of

LADDER_NOT_MEASURED = Code(
    "ladder_not_measured", "rungs with a rate: {rungs}; the first and one more are needed in one repeat"
)
"""A step needs two measured rungs, and the gap needs the first."""
RUNG_NOT_MEASURED = Code("rung_not_measured", "{rung}: {why}, so its change is part of {of}")
"""No run of a rung gives a rate, so its change cannot be separated from the next one, or from the rest."""
REPEATS_LEFT_OUT = Code("repeats_left_out", "left out, because a rung has no rate in it: {repeats}")
"""Rungs are compared within repeats, so a repeat counts only if every measured rung has a rate in it."""
TOO_FEW_REPEATS = Code("too_few_repeats", "{repeats} complete repeats; intervals need {fewest}")
"""Intervals need three repeats in which every rung was measured."""
TARGET_WITHOUT_RUNS = Code("target_without_runs", "no runs of {target} are given, so the rest is unknown")
"""The rest is the rate of the target's own runs over that of the last rung."""
RUN_MISSING = Code("run_missing", "{run} is not a readable run, so it is left out")
"""A run that the ladder names does not exist, or cannot be read."""
NOT_REPRODUCED = Code(
    "baseline_not_reproduced", "the first rung differs from the runs of {baseline} by {change:+.1%}: the gap is another"
)
"""The ladder measured the baseline again with another rate, so it explains another gap than that of the two sides."""
STEP_NOT_COMPARED = Code("step_not_compared", "{after} cannot be compared with {before}: {why}")
"""Two successive rungs, or the target and the last rung, cannot be compared for the reason that `compare` gives."""
_RATE = FIGURE_OF[Metric.THROUGHPUT]
REST = "hardware and kernels"
"""What the rest is called."""


@dataclass(frozen=True, slots=True)
class Step:
    """From one rung to the next, or from the last rung to the target."""

    name: str
    """`batch`, or `batch and precision` if a rung in between is not measured."""
    changes: tuple[Change, ...]
    factor: Factor
    """Tokens/s per GPU after it over those before."""
    flops: float | None
    """FLOPs per token after it over those before; None if unknown."""

    def document(self) -> dict[str, Any]:
        changes = {change.key: {"before": change.before, "after": change.after} for change in self.changes}
        return {"name": self.name, "changes": changes, **document_of(self.factor), "flops_per_token": self.flops}


def document_of(factor: Factor) -> dict[str, Any]:
    low, high = factor.interval or (None, None)
    share = factor.share
    shares = {"share": share.value, "share_low": share.low, "share_high": share.high} if share else {}
    empty = dict.fromkeys(("share", "share_low", "share_high"))
    return {"value": factor.value, "low": low, "high": high, **empty, **shares}


@dataclass(frozen=True, slots=True)
class Rung:
    name: str
    rate: float
    """Tokens/s per GPU: the geometric mean of its runs."""
    runs: int


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The gap between two sides as a product: a factor per change, and the rest."""

    sides: LadderSides
    rungs: tuple[Rung, ...]
    """The measured ones."""
    target: Rung | None
    """The target's own runs; None without them."""
    steps: tuple[Step, ...]
    """From each rung to the next, and last the rest, if the target has runs."""
    changes: Factor
    """All changes together."""
    gap: Factor
    """The target over the first rung; without runs of the target, all changes together."""
    again: Factor | None
    """The first rung over the baseline's own runs; None without them."""
    warm_up: Factor | None
    """What the gap would be multiplied with if the warm-up counted; None if a run does not time its warm-up."""
    notes: tuple[Reason, ...]
    """What limits the answer."""

    @property
    def rest(self) -> Step | None:
        return self.steps[-1] if self.target else None

    def document(self) -> dict[str, Any]:
        """`ladder` in JSON."""
        ends = [*self.rungs, *([self.target] if self.target else [])]
        return {
            "target": self.sides.target,
            "baseline": self.sides.baseline,
            "level": LEVEL,
            "has_rest": self.target is not None,
            "rungs": [{"name": rung.name, _RATE: rung.rate, "runs": rung.runs} for rung in ends],
            "steps": [step.document() for step in self.steps],
            "changes": document_of(self.changes),
            "gap": document_of(self.gap),
            "again": document_of(self.again) if self.again else None,
            "warm_up": document_of(self.warm_up) if self.warm_up else None,
            "notes": [note.document() for note in self.notes],
        }


def waterfall(judged: SuiteVerdict, target: Sequence[Run] | None = None) -> Waterfall | Reason:
    """The waterfall of a ladder, or why it cannot be made; `target` replaces the runs that the ladder names."""
    suite = judged.suite
    sides = suite.manifest.ladder
    assert sides is not None
    rungs = [_Measured(_name(suite, cell), cell, _with_rate(cell)) for cell in judged.cells]
    measured = [rung for rung in rungs if rung.runs]
    repeats = [name for name in rungs[0].runs if all(name in rung.runs for rung in measured)]
    if len(measured) < 2 or not repeats:
        return Reason(LADDER_NOT_MEASURED, {"rungs": ", ".join(rung.name for rung in measured) or "none"})
    of_each = [[rung.runs[name] for name in repeats] for rung in measured]
    made = []
    for at, (before, after) in enumerate(pairwise(of_each)):
        step = _weigh(after, before, (measured[at + 1].name, measured[at].name), is_settable)
        if isinstance(step, Reason):
            return step
        made.append(step)
    notes = [*_not_measured(rungs), *_incomplete(measured, repeats)]
    own = list(target) if target is not None else _named(suite, sides.target_runs, notes)
    to_target = _weigh_known(own, of_each[-1], (sides.target, measured[-1].name), is_of_the_rest, notes)
    if not own:
        notes.append(Reason(TARGET_WITHOUT_RUNS, {"target": sides.target}))
    earlier = _named(suite, sides.baseline_runs, notes)
    again = _weigh_known(of_each[0], earlier, (measured[0].name, sides.baseline), lambda key: False, notes)
    return _combined(sides, rungs, made, to_target, again, notes)


@dataclass(frozen=True, slots=True)
class _Measured:
    name: str
    verdict: CellVerdict
    runs: Mapping[str, Run]
    """Those with a rate, by name."""


def _name(suite: Suite, cell: CellVerdict) -> str:
    return str(cell.cell.values.get(next(iter(suite.manifest.axes), ""), cell.cell.name))


def _with_rate(cell: CellVerdict) -> dict[str, Run]:
    return {
        run.name: run.run
        for run in cell.runs
        if run.run is not None and run.verdict is not None
        if run.run.status in ("completed", "ended") and run.verdict.figures.metric(_RATE).value is not None
    }


Called = tuple[str, str]
"""The names of the sides of a step."""


def _weigh(
    target: Sequence[Run], baseline: Sequence[Run], called: Called, may_differ: Callable[[str], bool]
) -> Comparison | Reason:
    """A comparison in which only these keys may differ: they are what is measured. Or why it does not hold."""
    accepted = tuple(Acceptance(key, "measured by this step") for key in {**KEYS, **STATED} if may_differ(key))
    values = {"after": called[0], "before": called[1]}
    try:
        made = weigh(target, baseline, [Metric.THROUGHPUT], "best", declarations=Declared(accepted), called=called)
    except InputError as refusal:  # runs of a side that are copies, or that differ
        return Reason(STEP_NOT_COMPARED, {**values, "why": refusal.message})
    ruling = made.comparable[Metric.THROUGHPUT]
    if ruling.holds:
        return made
    return Reason(STEP_NOT_COMPARED, {**values, "why": sentence(ruling.reasons[0])}, keys=ruling.reasons[0].keys)


def _weigh_known(
    target: Sequence[Run],
    baseline: Sequence[Run],
    called: Called,
    may_differ: Callable[[str], bool],
    notes: list[Reason],
) -> Comparison | None:
    """The same where both sides have runs; None with a note if it does not hold."""
    made = _weigh(target, baseline, called, may_differ) if target and baseline else None
    if isinstance(made, Reason):
        notes.append(made)
        return None
    return made


def _named(suite: Suite, names: Sequence[str], notes: list[Reason]) -> list[Run]:
    """Runs by their paths from the suite; a note names those that cannot be read."""
    runs = []
    for name in names:
        place = Path(os.path.normpath(suite.directory / name))
        try:
            runs.append(load(place))
        except (InputError, ValueError):  # ValueError: a path that cannot exist
            notes.append(Reason(RUN_MISSING, {"run": place_of(place)}))
    return runs


def _not_measured(rungs: Sequence[_Measured]) -> Iterator[Reason]:
    for at, rung in enumerate(rungs):
        if not rung.runs:
            later = next((later.name for later in rungs[at + 1 :] if later.runs), "the rest")
            yield Reason(RUNG_NOT_MEASURED, {"rung": rung.name, "why": rung.verdict.status.words, "of": later})


def _incomplete(measured: Sequence[_Measured], repeats: Sequence[str]) -> Iterator[Reason]:
    names = dict.fromkeys(name for rung in measured for name in rung.runs if name not in repeats)
    if names:
        yield Reason(REPEATS_LEFT_OUT, {"repeats": ", ".join(names)})
    if len(repeats) < FEWEST:
        yield Reason(TOO_FEW_REPEATS, {"repeats": len(repeats), "fewest": FEWEST})


def _combined(
    sides: LadderSides,
    rungs: Sequence[_Measured],
    made: Sequence[Comparison],
    to_target: Comparison | None,
    again: Comparison | None,
    notes: Sequence[Reason],
) -> Waterfall:
    """The factors of all steps, from figures that every comparison shares."""
    subjects = [made[0].baseline.subjects, *(comparison.target.subjects for comparison in made)]
    own = to_target.target.subjects if to_target else ()
    figures = Ladder([_rates(each) for each in subjects], _rates(own))
    every = [*made, *([to_target] if to_target else [])]
    factors = [*figures.steps(), *([rest] if (rest := figures.rest()) else [])]
    names = [*_names(rungs), *([REST] if to_target else [])]
    covers = [*(is_settable for _ in made), *([is_of_the_rest] if to_target else [])]
    gap = _with_drift(figures.gap(), every)
    if gap.estimate is not None and gap.estimate.drift:  # shares do not cover what is left of warm-ups
        factors = [replace(factor, share=None) for factor in factors]
    steps = tuple(
        Step(name, tuple(differing(each.contract, belongs)), _with_drift(factor, [each]), _flops(each))
        for name, belongs, factor, each in zip(names, covers, factors, every, strict=True)
    )
    measured = [rung.name for rung in rungs if rung.runs]
    first = of_sides(*(_rates(side.subjects) for side in again.sides)) if again else None
    return Waterfall(
        sides=sides,
        rungs=tuple(_rung(name, rates) for name, rates in zip(measured, figures.rungs, strict=True)),
        target=_rung(sides.target, figures.target) if to_target else None,
        steps=steps,
        changes=_with_drift(figures.changes(), made),
        gap=gap,
        again=first,
        warm_up=_warm_up(own or subjects[-1], subjects[0]),
        notes=(*notes, *_not_reproduced(sides, first), *_caveats(every)),
    )


def _not_reproduced(sides: LadderSides, again: Factor | None) -> Iterator[Reason]:
    if again is not None and again.interval is not None and not again.within_noise:
        yield Reason(NOT_REPRODUCED, {"baseline": sides.baseline, "change": again.value - 1})


def _rates(subjects: Sequence[Subject]) -> list[float]:
    return figures_of(Metric.THROUGHPUT, subjects)


def _rung(name: str, rates: Sequence[float]) -> Rung:
    return Rung(name, geometric_mean(rates), len(rates))


def _names(rungs: Sequence[_Measured]) -> Iterator[str]:
    """What each step between measured rungs is called: the changes that it contains."""
    pending: list[str] = []
    for rung in rungs[1:]:
        pending.append(rung.name)
        if rung.runs:
            yield " and ".join(pending)
            pending = []


def _with_drift(factor: Factor, made: Sequence[Comparison]) -> Factor:
    """The factor, whose interval also covers what is left of warm-ups in these comparisons."""
    if factor.estimate is None:
        return factor
    ratios = [comparison.ratios[Metric.THROUGHPUT] for comparison in made]
    drift = sum(ratio.estimate.drift for ratio in ratios if ratio and ratio.estimate)
    return replace(factor, estimate=replace(factor.estimate, drift=drift))


def _flops(made: Comparison) -> float | None:
    """FLOPs per token of the target over those of the baseline."""
    after, before = (side.subjects[0].flops_per_token for side in made.sides)
    return after / before if after and before else None


def _warm_up(target: Sequence[Subject], baseline: Sequence[Subject]) -> Factor | None:
    sides = [[_counting_warm_up(subject) for subject in side] for side in (target, baseline)]
    known = [[share for share in side if share is not None] for side in sides]
    if list(map(len, known)) != list(map(len, sides)):
        return None
    return of_sides(known[0], known[1])


def _counting_warm_up(subject: Subject) -> float | None:
    """Tokens/s over all steps, relative to the steady steps; None if a step has no time."""
    steps, rate = subject.steps, subject.figures.metric(_RATE).value
    tokens = tokens_of(steps, subject.planned_tokens_per_step) * steps.steps_covered
    seconds = float((steps.step_time_s.values * steps.steps_covered).sum())
    every = float(tokens.sum()) / seconds / (subject.world_size or math.nan) if seconds > 0 else math.nan
    return every / rate if rate and math.isfinite(every) else None


def _caveats(every: Sequence[Comparison]) -> Iterator[Reason]:
    """What limits the steps, each once. Differences that a step measures are not caveats."""
    seen = set()
    for made in every:
        ratio = made.ratios[Metric.THROUGHPUT]
        for reason in (*made.comparable[Metric.THROUGHPUT].reasons, *(ratio.notes if ratio else ())):
            if reason.accepted is not None and reason.code is codes.SETTINGS_UNKNOWN:
                reason = replace(reason, accepted=None)  # it may be different, and would then be part of the rest
            elif reason.accepted is not None:
                continue
            if reason.message not in seen:
                seen.add(reason.message)
                yield reason
