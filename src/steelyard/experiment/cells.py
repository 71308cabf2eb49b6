"""The cells of a suite: every combination of the values of its axes, with what each changes in the file."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationError

from steelyard.experiment.experiment import GROUPS, Experiment, OneLine, check_name
from steelyard.experiment.keys import defaults
from steelyard.experiment.model import Group
from steelyard.experiment.platform import Platform
from steelyard.experiment.problems import (
    OVERSIZED,
    UNKNOWN_KEY,
    WRONG_VALUE,
    InvalidExperimentError,
    Problem,
    bare,
    shown,
    spelt,
)
from steelyard.experiment.reading import PointerPath, Reading
from steelyard.experiment.validation import fields_at, nearest, problems_of, remove_or_rename

SUITE = "suite"
Scalar = bool | int | float | str | None
Expect = Literal["oom"]
EXPECT = "expect"

SELECTORS = {"platform": "platform", "gpu": "platform.gpu", "gpus": "platform.gpus_per_node", "nodes": "platform.nodes"}
"""Axes with the meaning of the option of that name, and the key that each sets; all others are settings."""
SIDES = ("platform", "gpu")
"""Axes of the platform: cells that differ only in these are the same job, and take turns."""
MOST_CELLS = 10_000
LADDER_RUNS = ("target_runs", "baseline_runs")
"""Keys of a ladder with paths of runs."""
_MOST_ENTRIES = 1_000
_SHORT = {
    "training.micro_batch_size": "mbs",
    "training.global_batch_size": "gbs",
    "training.sequence_length": "seq",
    "training.steps": "steps",
    "parallelism.tensor_parallel_size": "tp",
    "parallelism.pipeline_parallel_size": "pp",
    "nodes": "nodes",
    "gpus": "gpus",
}
"""What a number is called in the name of a cell."""


def _scalar(value: Any) -> Scalar:
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"{shown(value)} is not one value, expected text, a finite number, true, false or null")


def _kind(axis: Any) -> str | None:
    return _LABELS if isinstance(axis, dict) else _VALUES if isinstance(axis, list) else None


# Written like the labels of pydantic's own unions, so that they are left out of the place of an error.
_VALUES, _LABELS = "list[value]", "dict[label]"
_Value = Annotated[Any, AfterValidator(_scalar)]
_Settings = dict[str, _Value]
_Labeled = dict[Annotated[str, AfterValidator(check_name)], _Settings]
Axis = Annotated[
    Annotated[list[_Value], Field(min_length=1), Tag(_VALUES)] | Annotated[_Labeled, Field(min_length=1), Tag(_LABELS)],
    Discriminator(
        _kind,
        custom_error_type="not_an_axis",
        custom_error_message="a list of values, or a mapping of labels to the settings of each",
    ),
]


class LadderSection(Group):
    """The two sides of a ladder: a suite with one axis, each label of which has one change more than the label before.

    `plan --ladder` writes it.
    """

    target: OneLine
    """Name of the side whose settings the last label has."""
    baseline: OneLine
    """Name of the side whose settings the first label has."""
    target_runs: list[OneLine] = Field(default_factory=list, max_length=1000)
    """Its own runs, as paths relative to the file."""
    baseline_runs: list[OneLine] = Field(default_factory=list, max_length=1000)
    """Runs that the first rung should reproduce, as paths relative to the file."""


class SuiteSection(Group):
    """Cells of one experiment, which `steelyard run FILE --suite` runs: every combination of the values of its axes."""

    axes: dict[str, Axis] = Field(min_length=1)
    """What to combine. Under a key: a list of its values. Under another name: labels, each with the settings that it
    stands for. Keys are those of the experiment, `platform.*`, and the options platform, gpu, gpus and nodes."""
    include: list[_Settings] = Field(default_factory=list, max_length=_MOST_ENTRIES)
    """More settings for the cells that an entry matches, or one more cell. `expect: oom` declares that a cell does not
    fit."""
    exclude: list[_Settings] = Field(default_factory=list, max_length=_MOST_ENTRIES)
    """Cells to leave out: those that match all values of an entry."""
    repeats: int = Field(default=1, gt=0, le=1000)
    """Runs per cell."""
    ladder: LadderSection | None = None
    """Whose gap the suite explains, one change at a time; null for any other suite."""


class _File(Group):
    suite: SuiteSection


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination: its values by axis, and what it changes in the file."""

    values: tuple[tuple[str, Scalar], ...] = ()
    selectors: tuple[tuple[str, Scalar], ...] = ()
    """Values for the options of the same name, such as platform."""
    settings: tuple[tuple[str, Scalar], ...] = ()
    """Values by dotted key."""
    expect: Expect | None = None
    places: tuple[tuple[str, PointerPath], ...] = ()
    """Where the file states the selectors and settings, by dotted key."""

    @property
    def by_axis(self) -> dict[str, Scalar]:
        return dict(self.values)

    @property
    def platform(self) -> str | None:
        """Its platform, by its values; None if all cells have the same."""
        return "-".join(str(value) for axis, value in self.values if axis in SIDES) or None

    @property
    def job(self) -> tuple[tuple[str, Scalar], ...]:
        """Its values without those of the platform: equal for the same job on several platforms."""
        return tuple(pair for pair in self.values if pair[0] not in SIDES)

    @property
    def name(self) -> str:
        """The name of its directory, without the platform."""
        return cell_name(self.job)

    @property
    def allows(self) -> tuple[str, ...]:
        """Lint codes that do not stop it."""
        return (OVERSIZED,) if self.expect == "oom" else ()

    @property
    def words(self) -> str:
        """Its values for a message."""
        return ", ".join(f"{axis}={bare(spelt(value))}" for axis, value in self.values)


THE_ONLY = Cell()
"""The cell of a file without a suite."""


def cell_name(values: Sequence[tuple[str, Scalar]]) -> str:
    """`llama3.1-8b-mbs4-seq2048`; `all` without values."""
    return "-".join(_word(axis, value) for axis, value in values) or "all"


def _word(axis: str, value: Scalar) -> str:
    if isinstance(value, str):
        return re.sub(r"[^A-Za-z0-9._]+", "-", value).strip("-.") or "empty"
    name = _SHORT.get(axis, axis.rpartition(".")[2].replace("_", "-") + "-")
    return f"{name}{'none' if value is None else str(value).lower()}"


def label_of(axis: str, value: Any) -> str:
    """A value of an axis for a person: `micro-batch 4`, `llama3.1-8b`."""
    if isinstance(value, str):
        return value
    name = axis.rpartition(".")[2].replace("_", " ").removesuffix(" size")
    return f"{name} {'none' if value is None else value:,}" if isinstance(value, int) else f"{name} {value}"


def section_of(file: Path, content: Any) -> SuiteSection:
    """The validated `suite` of an experiment file; InvalidExperimentError if it is wrong."""
    try:
        section = _File.model_validate({SUITE: content}).suite
    except ValidationError as failed:
        reading = Reading(file, "", {}, None)
        raise InvalidExperimentError(list(problems_of(failed.errors(), _File, reading, {}))) from None
    problems = [*_problems_of_axes(file, section), *_problems_of_entries(file, section), *_not_a_ladder(file, section)]
    if problems:
        raise InvalidExperimentError(problems)
    return section


def _problem(
    file: Path, place: Sequence[str], message: str, fix: str, expected: str | None = None, code: str = WRONG_VALUE
) -> Problem:
    path = (SUITE, *place)
    words = f"{bare('.'.join(path))} {message}"
    return Problem(code, "error", str(file), ".".join(path), words, fix, expected=expected, path=path)


def _problems_of_axes(file: Path, section: SuiteSection) -> Iterator[Problem]:
    """Unknown keys, repeated values, and keys that two axes set."""
    owners: dict[str, str] = {}
    for name, axis in section.axes.items():
        place = ("axes", name)
        if isinstance(axis, list):
            yield from _problems_of_key(file, place, name, axis)
            seen = set()
            for value in axis:
                if (own := _identity(value)) in seen:
                    yield _problem(file, place, f"has {shown(value)} twice", "remove one of them", "different values")
                seen.add(own)
        elif name in SELECTORS or _is_known(name):
            yield _problem(file, place, "has labels", "give it another name, or a list", "a list of values for a key")
        else:
            for label, settings in axis.items():
                for key, value in settings.items():
                    yield from _problems_of_key(file, (*place, label, key), key, [value])
        for key in dict.fromkeys([name] if isinstance(axis, list) else [key for each in axis.values() for key in each]):
            if (other := next((owners[own] for own in _with_groups(key) if own in owners), None)) is not None:
                message = f"sets {bare(key)}, which the axis {bare(other)} sets too"
                yield _problem(file, place, message, "set each key in one axis")
            owners[key] = name


def _not_a_ladder(file: Path, section: SuiteSection) -> Iterator[Problem]:
    """A ladder with other axes than one of labels."""
    axes = list(section.axes.values())
    if section.ladder is not None and (len(axes) > 1 or isinstance(axes[0], list) or len(axes[0]) < 2):
        fix, expected = "steelyard plan --ladder A B -o FILE", "an axis whose labels add one change each"
        yield _problem(file, ("ladder",), "needs one axis with two or more labels", fix, expected)


def _with_groups(key: str) -> Iterator[str]:
    """A key and every mapping around it."""
    while key:
        yield key
        key = key.rpartition(".")[0]


def _identity(value: Scalar) -> tuple[bool, Scalar]:
    """Equal for equal values; `true` is not 1."""
    return isinstance(value, bool), value


def _problems_of_entries(file: Path, section: SuiteSection) -> Iterator[Problem]:
    """Unknown keys and labels of `include` and `exclude`."""
    for part, entries in (("include", section.include), ("exclude", section.exclude)):
        for at, entry in enumerate(entries):
            for key, value in entry.items():
                place, axis = (part, str(at), key), section.axes.get(key)
                if isinstance(axis, dict) and value not in axis:
                    yield _unknown(file, place, f"is {shown(value)}, which is not a label", str(value), [*axis])
                elif axis is None and part == "exclude":
                    yield _unknown(file, place, "is not an axis", key, [*section.axes])
                elif key == EXPECT and part == "include":
                    if value != "oom":
                        yield _problem(file, place, f"is {shown(value)}", "write `expect: oom`", "oom")
                elif axis is None:
                    yield from _problems_of_key(file, place, key, [value])


def _unknown(file: Path, place: Sequence[str], message: str, name: str, known: Sequence[str]) -> Problem:
    near, expected = nearest(name, known)
    return _problem(file, place, message, remove_or_rename(near), expected)


def _problems_of_key(file: Path, place: Sequence[str], key: str, values: Sequence[Scalar]) -> Iterator[Problem]:
    """A problem if the key is neither a selector nor a setting, or a value of a selector is of another type."""
    if key in SELECTORS:
        kind, expected = (int, "whole numbers above 0") if key in ("gpus", "nodes") else (str, "text")
        wrong = [value for value in values if type(value) is not kind or value == 0]
        if wrong:
            yield _problem(file, place, f"has {shown(wrong[0])}", "change it", expected)
    elif not _is_known(key) or key in SELECTORS.values():
        option = next((name for name, own in SELECTORS.items() if own == key), None)
        parts = {part: dotted for dotted in reversed(defaults()) for part in dotted.split(".")}
        near = option or parts.get(key) or nearest(key, [*SELECTORS, *defaults()])[0]
        expected = f"a key of the experiment, or one of {', '.join(SELECTORS)}"
        yield _problem(file, place, "is not a known key", remove_or_rename(near), expected, UNKNOWN_KEY)


def _is_known(key: str) -> bool:
    """Whether an experiment or a platform has the key; keys of a mapping without fixed keys are free."""
    group, *around, last = key.split(".") if "." in key else (key, "")
    if group == "platform":
        return bool(last) and (bool(around) or last in Platform.model_fields)
    return group in GROUPS and last in fields_at(Experiment, (group, *around))


def expand(file: Path, section: SuiteSection) -> list[Cell]:
    """All cells in the order of the axes; the first axis varies slowest."""
    count = math.prod(map(len, section.axes.values()))
    if count > MOST_CELLS:
        message, fix = f"has more than {MOST_CELLS:,} combinations", "use fewer values, or several suites"
        raise InvalidExperimentError([_problem(file, ("axes",), message, fix)])
    names = list(section.axes)
    combinations = [dict(zip(names, values, strict=True)) for values in product(*section.axes.values())]
    for at, entry in enumerate(section.exclude):
        kept = [each for each in combinations if not _matches(each, entry)]
        if len(kept) == len(combinations):
            raise _pointless(file, "exclude", at, "matches no cell", "remove it, or correct its values")
        combinations = kept
    cells = [_cell(section, values) for values in combinations]
    for at, entry in enumerate(section.include):
        cells = _included(file, section, cells, at, entry)
    if not cells:
        raise _pointless(file, "exclude", len(section.exclude) - 1, "leaves no cell", "exclude less")
    return cells


def _matches(values: Mapping[str, Scalar], entry: Mapping[str, Scalar]) -> bool:
    return all(axis in values and _identity(values[axis]) == _identity(value) for axis, value in entry.items())


def _included(file: Path, section: SuiteSection, cells: list[Cell], at: int, entry: Mapping[str, Scalar]) -> list[Cell]:
    """The cells with the settings of an entry, or with one more cell."""
    axes = {key: value for key, value in entry.items() if key in section.axes}
    extra = {key: value for key, value in entry.items() if key not in section.axes}
    place = (SUITE, "include", str(at))
    matching = [_matches(cell.by_axis, axes) for cell in cells]
    if not any(matching):
        return [*cells, _with(_cell(section, axes, place), extra, place)]
    if not extra:
        raise _pointless(file, "include", at, "is a cell of the axes already", "remove it")
    return [_with(cell, extra, place) if match else cell for cell, match in zip(cells, matching, strict=True)]


def _pointless(file: Path, part: str, at: int, message: str, fix: str) -> InvalidExperimentError:
    return InvalidExperimentError([_problem(file, (part, str(at)), message, fix)])


def _cell(section: SuiteSection, values: Mapping[str, Scalar], place: PointerPath = (SUITE, "axes")) -> Cell:
    cell = Cell(tuple(values.items()))
    for axis, value in values.items():
        labeled = section.axes[axis]
        if isinstance(labeled, list):
            cell = _with(cell, {axis: value}, place)
        else:
            cell = _with(cell, labeled[str(value)], (SUITE, "axes", axis, str(value)))
    return cell


def _with(cell: Cell, changes: Mapping[str, Scalar], place: PointerPath) -> Cell:
    """The cell with more settings, which the file states at a place; a later value replaces an earlier one."""
    selectors, settings, places = dict(cell.selectors), dict(cell.settings), dict(cell.places)
    expect = cell.expect
    for key, value in changes.items():
        if key == EXPECT:
            expect = "oom"
            continue
        (selectors if key in SELECTORS else settings)[key] = value
        places[SELECTORS.get(key, key)] = (*place, key)
    chosen, changed, stated = tuple(selectors.items()), tuple(settings.items()), tuple(places.items())
    return replace(cell, selectors=chosen, settings=changed, expect=expect, places=stated)
