"""Plans a ladder: a suite that gives the baseline the settings of the target, one change at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steelyard.campaign.ladder_file import experiment_of, suite_of, text_of
from steelyard.campaign.ladder_keys import (
    GROUPS,
    KERNELS,
    MODEL,
    Change,
    differing,
    governs,
    group_of,
    is_of_the_rest,
    is_settable,
)
from steelyard.comparison import codes
from steelyard.comparison.contract import Agreement, Clause, check_side, contract, difference, differs
from steelyard.comparison.side import Side
from steelyard.configs.choose import Asked, one_reading
from steelyard.configs.files import ConfigFile
from steelyard.errors import InputError
from steelyard.experiment import resolve
from steelyard.experiment.keys import defaults
from steelyard.experiment.problems import InvalidExperimentError
from steelyard.hardware.machine import Machine
from steelyard.planning.make import make_plan
from steelyard.reasons import Code, Effect, Reason, SideName
from steelyard.records import Run

CHANGE_REFUSED = Code("change_refused", "{change} cannot be set on {baseline}: {why}; fix: {fix}")
"""The platform of the baseline does not allow a change, so no rung has it. The rest contains its effect."""

FIRST = "baseline"
"""The first rung."""


@dataclass(frozen=True, slots=True)
class PlannedRung:
    name: str
    changes: tuple[Change, ...] = ()
    """What it changes compared with the rung before."""

    @property
    def settings(self) -> dict[str, Any]:
        return {change.key: change.after for change in self.changes}

    def document(self) -> dict[str, Any]:
        changes = {each.key: {"before": each.before, "after": each.after} for each in self.changes}
        return {"name": self.name, "changes": changes}


@dataclass(frozen=True, slots=True)
class PlannedLadder:
    sides: tuple[Side, Side]
    rungs: tuple[PlannedRung, ...]
    left_out: tuple[Reason, ...]
    """Differences that are in no rung: the rest contains their effect."""
    text: str = ""
    """The experiment file."""

    def document(self) -> dict[str, Any]:
        return {
            **{side.name: side.called for side in self.sides},
            "rungs": [rung.document() for rung in self.rungs],
            "left_out": [reason.document() for reason in self.left_out],
        }


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the ladder starts from, and where it is planned."""

    platform: Mapping[str, Any]
    """As in an experiment file."""
    place: Path
    """The file of the ladder."""
    asked: Asked
    """Hosts and allowed lint codes; all settings are in the file."""
    machine: Machine


def plan_ladder(sides: tuple[Side, Side], runs: Mapping[str, Sequence[Run]], base: Baseline) -> PlannedLadder:
    """The ladder between two sides, on the platform of the baseline; `runs` are those of the sides that have run."""
    for side in sides:
        check_side(side)
        if (apart := difference(side.subjects, [key for key in defaults() if is_settable(key)])) is not None:
            problem, expected = f"{side.name}: {apart.message}", "runs with the same settings"
            raise InputError(problem, key=side.name.upper(), value=apart.keys[0], expected=expected)
    clauses = contract(*sides)
    _check_one_model(clauses, sides)
    content = experiment_of(sides[1].subjects[0], base.platform, base.place)
    changes = list(differing(clauses, _settable_on(sides)))
    refusal_of = _planner(content, base)
    if (refusal := refusal_of({})) is not None:
        raise _cannot_start(refusal, sides[1])
    rungs, refused = _climb(list(_grouped(changes)), refusal_of, sides[1].called)
    left_out = (*_not_settable(clauses, sides, changes), *refused)
    if not rungs:
        raise _nothing_to_change(left_out, sides)
    ladder = PlannedLadder(sides, (PlannedRung(FIRST), *rungs), left_out)
    return replace(ladder, text=_text(ladder, content, runs, base.place))


def _text(ladder: PlannedLadder, content: Mapping[str, Any], runs: Mapping[str, Sequence[Run]], place: Path) -> str:
    target, baseline = ladder.sides
    settings: dict[str, Any] = {}
    rungs = {rung.name: (settings := settings | rung.settings) for rung in ladder.rungs}
    remarks = [f"From {baseline.called} to {target.called}, one change at a time: steelyard run {place.name} --suite"]
    if ladder.left_out:
        remarks += ["In no rung, so the rest contains it:", *(f"  {reason.message}" for reason in ladder.left_out)]
    return text_of(content, suite_of(rungs, ladder.sides, runs, place), remarks)


def _cannot_start(refusal: InputError, baseline: Side) -> InputError:
    """Why the settings of the baseline cannot be planned as they are."""
    problem = f"{baseline.called} cannot be run again as recorded: {_why(refusal)}"
    expected, fix = refusal.expected, "steelyard plan --ladder TARGET CONFIG, with the config of the baseline"
    return InputError(problem, key=refusal.key, value=refusal.value, expected=expected, next=fix)


def _why(refusal: InputError) -> str:
    """The problem without the name of a file that does not exist yet."""
    return refusal.problems[0].message if isinstance(refusal, InvalidExperimentError) else refusal.message


def _check_one_model(clauses: Sequence[Clause], sides: tuple[Side, Side]) -> None:
    different = differing(clauses, lambda key: key.startswith(MODEL) and governs(key))
    if (change := next(different, None)) is not None:
        target, baseline = (side.called for side in sides)
        values = f"{codes.shown(change.after)} on {target}, {codes.shown(change.before)} on {baseline}"
        problem = f"{change.key} differs ({values}), so the sides train different models"
        expected, fix = "one model: a ladder changes settings, not the work", "steelyard diff TARGET BASELINE"
        raise InputError(problem, key=change.key, value=change.after, expected=expected, next=fix)


def _settable_on(sides: tuple[Side, Side]) -> Callable[[str], bool]:
    """Whether a rung can change a key: kernels only for sides with one framework."""
    frameworks = {subject.run.manifest.framework for side in sides for subject in side.subjects}
    return lambda key: is_settable(key) and (len(frameworks) == 1 or not key.startswith(KERNELS))


def _grouped(changes: Sequence[Change]) -> Iterator[PlannedRung]:
    for name in GROUPS:
        if own := tuple(change for change in changes if group_of(change.key) == name):
            yield PlannedRung(name, own)


Refusals = Callable[[Mapping[str, Any]], InputError | None]
"""Why the baseline cannot have these settings; None if it can."""


def _climb(
    changes: Sequence[PlannedRung], refusal_of: Refusals, baseline: str
) -> tuple[list[PlannedRung], list[Reason]]:
    """The rungs that can be planned, and the changes that cannot.

    A change that needs a later one is made after it, or together with it.
    """
    rungs: list[PlannedRung] = []
    settings: dict[str, Any] = {}
    pending: list[PlannedRung] = []
    for change in changes:
        pending.append(change)
        while (possible := _first_possible(pending, settings, refusal_of)) is not None:
            rungs.append(possible)
            settings |= possible.settings
            pending = [each for each in pending if not set(each.settings) <= set(settings)]
    left = []
    for change in pending:
        refusal = refusal_of(settings | change.settings)
        assert refusal is not None  # else it would be a rung
        values = {"change": change.name, "baseline": baseline, "why": _why(refusal), "fix": refusal.next}
        left.append(Reason(CHANGE_REFUSED, values, Effect.CAVEAT, "baseline", tuple(change.settings)))
    return rungs, left


def _first_possible(
    pending: Sequence[PlannedRung], settings: Mapping[str, Any], refusal_of: Refusals
) -> PlannedRung | None:
    together = PlannedRung(
        "-and-".join(change.name for change in pending), tuple(each for change in pending for each in change.changes)
    )
    candidates = [*pending, *([together] if len(pending) > 1 else [])]
    return next((each for each in candidates if refusal_of({**settings, **each.settings}) is None), None)


def _planner(content: Mapping[str, Any], base: Baseline) -> Refusals:
    """Plans the experiment with other settings, as `run` will."""
    file = ConfigFile(base.place, "", "", dict(content), "steelyard")

    def refusal_of(settings: Mapping[str, Any]) -> InputError | None:
        asked = replace(base.asked, settings=tuple(settings.items()))
        try:
            make_plan(resolve(one_reading(file, asked), asked.settings), base.machine, asked)
        except InputError as refusal:
            return refusal
        return None

    return refusal_of


def _not_settable(clauses: Sequence[Clause], sides: tuple[Side, Side], changes: Sequence[Change]) -> Iterator[Reason]:
    """Differences and unknown settings that no rung can have."""
    settable = {change.key for change in changes}
    unknown: dict[SideName, list[str]] = {}
    for clause in clauses:
        if clause.status == Agreement.DIFFERENT and is_of_the_rest(clause.dotted) and clause.dotted not in settable:
            yield differs(clause, sides, Effect.CAVEAT)
        elif clause.status == Agreement.UNKNOWN and governs(clause.dotted) and not clause.dotted.startswith(KERNELS):
            unknown.setdefault(clause.unknown_of, []).append(clause.dotted)
    for side, keys in unknown.items():
        called = " and ".join(each.called for each in sides if side in (each.name, "both"))
        yield codes.because(codes.SETTINGS_UNKNOWN, Effect.CAVEAT, side, *keys, keys=tuple(keys), sides=called)


def _nothing_to_change(left_out: Sequence[Reason], sides: tuple[Side, Side]) -> InputError:
    target, baseline = (side.called for side in sides)
    problem = f"{target} and {baseline} have the same settings: their gap is hardware and kernels alone"
    expected, fix = "two sides whose settings differ", "steelyard compare TARGET BASELINE"
    stopping = (reason for reason in left_out if reason.code in (CHANGE_REFUSED, codes.SETTINGS_UNKNOWN))
    if (first := next(stopping, None)) is not None:
        problem = f"no setting of {target} can be given to {baseline}: {first.message}"
        expected = "a setting that the baseline can have"
        fix = "steelyard plan --ladder TARGET BASELINE, with the configs of both sides"
    return InputError(problem, key="--ladder", value=f"{target}, {baseline}", expected=expected, next=fix)
