"""The cells of a suite: every combination of the values of its axes, with what each changes in the file."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from steelyard.experiment.experiment import GROUPS, OneLine, check_name
from steelyard.experiment.keys import defaults
from steelyard.experiment.model import Group
from steelyard.experiment.problems import UNKNOWN_KEY, WRONG_VALUE, InvalidExperimentError, Problem, shown

Scalar = bool | int | float | str | None
Expect = Literal["oom"]

SELECTORS = ("platform", "model", "gpu", "gpus", "nodes")
"""Axes that select a part of the file, like the options of the same name; all others are settings."""
SIDES = ("platform", "gpu")
"""Axes of the platform: cells that differ only in these are the same job, and take turns."""
MOST_CELLS = 10_000
LADDER_RUNS = ("target_runs", "baseline_runs")
"""Keys of a ladder with paths of runs."""
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


def _is_named(labels: dict[str, Any]) -> dict[str, Any]:
    for label in labels:
        check_name(label)
    return labels


Labeled = Annotated[dict[str, dict[str, Scalar]], AfterValidator(_is_named)]
Axis = Annotated[list[Scalar], Field(min_length=1)] | Annotated[Labeled, Field(min_length=1)]


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
    """The suite of an experiment file: its axes, and the cells to add or to leave out."""

    axes: Annotated[dict[str, Axis], Field(min_length=1)]
    """By key: the values to combine, or labels with the settings of each. Besides keys of the experiment: platform,
    gpu, gpus and nodes."""
    include: list[dict[str, Scalar]] = Field(default_factory=list)
    """More settings for the cells that an entry matches, or one more cell; `expect: oom` declares that a cell does not
    fit."""
    exclude: list[dict[str, Scalar]] = Field(default_factory=list)
    """Cells to leave out: those that match all values of an entry."""
    repeats: int = Field(default=1, gt=0, le=1000)
    """Runs per cell."""
    ladder: LadderSection | None = None
    """Whose gap the suite explains, one change at a time; null for any other suite."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination: its values by axis, and what it changes in the file."""

    values: tuple[tuple[str, Scalar], ...] = ()
    selectors: tuple[tuple[str, Scalar], ...] = ()
    """Values for the options of the same name, such as platform."""
    settings: tuple[tuple[str, Scalar], ...] = ()
    """Values by dotted key."""
    expect: Expect | None = None

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
        section = SuiteSection.model_validate(content)
    except ValidationError as failed:
        raise InvalidExperimentError([_problem(file, error["loc"], error) for error in failed.errors()]) from None
    problems = [*_unknown(file, section), *_not_a_ladder(file, section)]
    if problems:
        raise InvalidExperimentError(problems)
    return section


def _problem(file: Path, loc: Sequence[Any], error: Any) -> Problem:
    path = ("suite", *(str(part) for part in loc if part not in ("dict[str,nullable]", "constrained-list")))
    path = tuple(part for part in path if "[" not in part)
    code = UNKNOWN_KEY if error["type"] == "extra_forbidden" else WRONG_VALUE
    message, expected = f"{'.'.join(path)} is {shown(error.get('input'))}", None
    if code == UNKNOWN_KEY:
        message, expected = f"{'.'.join(path)} is not a known key", f"one of {', '.join(SuiteSection.model_fields)}"
    else:
        message += f": {error['msg'][:1].lower()}{error['msg'][1:]}"
    fix = "change it, as `steelyard explain suite` shows"
    return Problem(code, "error", str(file), ".".join(path), message, fix, error.get("input"), expected, path)


def _unknown(file: Path, section: SuiteSection) -> Iterator[Problem]:
    """Keys that are neither a setting nor an option."""
    for name, axis in section.axes.items():
        if isinstance(axis, list):
            yield from _checked(file, ("axes", name), name)
        else:
            for label, settings in axis.items():
                for key in settings:
                    yield from _checked(file, ("axes", name, label, key), key)
    for part in ("include", "exclude"):
        for at, entry in enumerate(getattr(section, part)):
            extra = {"expect"} if part == "include" else set()
            for key in entry:
                if key not in section.axes and key not in extra:
                    if part == "exclude":
                        yield _of_entry(file, part, at, key, f"{key} is not an axis", list(section.axes))
                    else:
                        yield from _checked(file, (part, str(at), key), key)
            if entry.get("expect", "oom") != "oom":
                yield _of_entry(file, part, at, "expect", f"expect is {shown(entry['expect'])}", ["oom"])


def _not_a_ladder(file: Path, section: SuiteSection) -> Iterator[Problem]:
    """A ladder with other axes than one of labels."""
    axes = list(section.axes.values())
    if section.ladder is not None and (len(axes) > 1 or isinstance(axes[0], list) or len(axes[0]) < 2):
        path, message = ("suite", "ladder"), "suite.ladder needs one axis with two or more labels"
        fix, expected = "steelyard plan --ladder A B -o FILE", "an axis whose labels add one change each"
        yield Problem(WRONG_VALUE, "error", str(file), "suite.ladder", message, fix, expected=expected, path=path)


def _of_entry(file: Path, part: str, at: int, key: str, message: str, known: Sequence[str]) -> Problem:
    path, expected = ("suite", part, str(at), key), f"one of {', '.join(known)}"
    near = difflib.get_close_matches(key, known, n=1)
    return Problem(
        WRONG_VALUE, "error", str(file), ".".join(path), f"suite.{part}.{at}: {message}", f"write {(near or known)[0]}",
        expected=expected, path=path,
    )  # fmt: skip


def _checked(file: Path, place: Sequence[str], key: str) -> Iterator[Problem]:
    """A problem if the key is neither a selector nor a setting of the experiment or the platform."""
    group, _, rest = key.partition(".")
    if key in SELECTORS or (group == "platform" and rest) or key in defaults():
        return
    if group in GROUPS and rest and "." in rest:  # deeper keys are checked when the cell is resolved
        return
    known = [*SELECTORS, *defaults()]
    last = {dotted.rpartition(".")[2]: dotted for dotted in known}
    near = last.get(key) or next(iter(difflib.get_close_matches(key, known, n=1, cutoff=0.6)), None)
    path = ("suite", *place)
    message, fix = f"{'.'.join(path)} is not a known key", f"write {near}" if near else "use a key of the experiment"
    expected = f"a key of the experiment, or one of {', '.join(SELECTORS)}"
    yield Problem(UNKNOWN_KEY, "error", str(file), ".".join(path), message, fix, expected=expected, path=path)


def expand(file: Path, section: SuiteSection) -> list[Cell]:
    """All cells in the order of the axes; the first axis varies slowest."""
    count = 1
    for axis in section.axes.values():
        count *= len(axis)
    if count > MOST_CELLS:
        path, message = ("suite", "axes"), f"suite.axes has {count:,} combinations"
        fix = "use fewer values, or several suites"
        raise InvalidExperimentError(
            [
                Problem(
                    WRONG_VALUE, "error", str(file), "suite.axes", message, fix, count, f"at most {MOST_CELLS:,}", path
                )
            ]
        )
    names = list(section.axes)
    combinations = [dict(zip(names, values, strict=True)) for values in product(*section.axes.values())]
    for at, entry in enumerate(section.exclude):
        kept = [each for each in combinations if not _matches(each, entry)]
        if len(kept) == len(combinations):
            raise _no_match(file, "exclude", at, "matches no cell", "remove it, or correct its values")
        combinations = kept
    cells = [_cell(section, values) for values in combinations]
    for at, entry in enumerate(section.include):
        cells = _included(file, section, cells, at, entry)
    if not cells:
        raise _no_match(file, "exclude", 0, "leaves no cell", "exclude less")
    return cells


def _matches(values: Mapping[str, Scalar], entry: Mapping[str, Scalar]) -> bool:
    return all(axis in values and _same(values[axis], value) for axis, value in entry.items())


def _same(value: Scalar, other: Scalar) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _included(file: Path, section: SuiteSection, cells: list[Cell], at: int, entry: Mapping[str, Scalar]) -> list[Cell]:
    """The cells with the settings of an entry, or with one more cell."""
    axes = {key: value for key, value in entry.items() if key in section.axes}
    extra = {key: value for key, value in entry.items() if key not in section.axes}
    matching = [_matches(cell.by_axis, axes) for cell in cells]
    if not any(matching):
        return [*cells, _with(_cell(section, axes), extra)]
    if not extra:
        raise _no_match(file, "include", at, "is a cell of the axes already", "remove it")
    return [_with(cell, extra) if match else cell for cell, match in zip(cells, matching, strict=True)]


def _no_match(file: Path, part: str, at: int, words: str, fix: str) -> InvalidExperimentError:
    path = ("suite", part, str(at))
    return InvalidExperimentError(
        [Problem(WRONG_VALUE, "error", str(file), ".".join(path), f"suite.{part}.{at} {words}", fix, path=path)]
    )


def _cell(section: SuiteSection, values: Mapping[str, Scalar]) -> Cell:
    changes: dict[str, Scalar] = {}
    for axis, value in values.items():
        labeled = section.axes[axis]
        changes |= {axis: value} if isinstance(labeled, list) else labeled.get(str(value), {})
    return _with(Cell(tuple(values.items())), changes)


def _with(cell: Cell, changes: Mapping[str, Scalar]) -> Cell:
    """The cell with more settings; a later value replaces an earlier one."""
    selectors, settings = dict(cell.selectors), dict(cell.settings)
    expect = cell.expect
    for key, value in changes.items():
        if key == "expect":
            expect = "oom"
        else:
            (selectors if key in SELECTORS else settings)[key] = value
    return replace(cell, selectors=tuple(selectors.items()), settings=tuple(settings.items()), expect=expect)
