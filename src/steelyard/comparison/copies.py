"""Finds copies: a copied run, or a log imported twice, is not a second observation."""

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from steelyard.comparison.curve import common_steps
from steelyard.errors import InputError
from steelyard.files import place_of
from steelyard.records import StepTable
from steelyard.records.columns import Mask
from steelyard.records.step import FIGURES
from steelyard.verdict import Subject

_FIRST_METRICS = (
    *("tokens", "loss", "grad_norm", "learning_rate", "step_time_s", "memory_gib", "skipped"),
    *("reported_tokens_per_s_per_gpu", "reported_tflops_per_gpu"),
)
"""The metrics of version 0.1, which are hashed even where no step gives them. This list does not grow."""
_GLANCE = 20
"""Rows among which two different runs differ."""
_FEWEST = 10
_NEARLY = 0.9
"""Share of the steps."""
_ROUNDED = 0.2
"""If two step times are equal by chance more often than this, equal times prove nothing."""


def digest(steps: StepTable, rows: int | None = None) -> bytes:
    return _digests(steps, (len(steps) if rows is None else rows,))[0]


def _digests(steps: StepTable, lengths: Sequence[int]) -> list[bytes]:
    """Digests of the first rows, for each of several rising lengths, in one pass."""
    columns, names = [], ("step", *FIGURES, "time")
    for column in (steps.step, *(getattr(steps, name).values for name in FIGURES), steps.time.view(np.int64)):
        values = np.ascontiguousarray(column[: lengths[-1]])
        if (missing := np.isnan(values)).any():  # a NaN has many bit patterns
            values = np.where(missing, np.nan, values)
        columns.append(values)
    state, digests = blake2b(digest_size=16), []
    for begin, end in pairwise((0, *lengths)):
        for name, values in zip(names, columns, strict=True):
            if name not in FIGURES or is_hashed(name, steps.columns[name].given[begin:end]):
                state.update(values[begin:end].data)
        digests.append(state.digest())
    return digests


def is_hashed(name: str, given: Mask) -> bool:
    """A metric that 0.1 did not have counts only where steps give it, so that digests saved before stay equal."""
    return name in _FIRST_METRICS or bool(given.any())


def of_one_record(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """Groups of runs with nearly the same record, as far as the shorter goes: a log may be cut, rotated or repaired.

    Runs without steps are copies only if they are one directory.
    """
    shortest = min((len(subject.steps) for subject in subjects if _has_figures(subject.steps)), default=0)
    beginnings: dict[Hashable, list[Subject]] = {}
    for subject in subjects:
        steps = subject.steps
        beginning: Hashable = subject.run.directory.resolve()
        if len(steps):
            beginning = digest(steps, min(shortest, _GLANCE) if _has_figures(steps) else None)
        beginnings.setdefault(beginning, []).append(subject)
    copies = [group for some in beginnings.values() if len(some) > 1 for group in _same_record(some)]
    seconds = {id(subject) for group in copies for subject in group[1:]}
    others = [subject for subject in subjects if id(subject) not in seconds and len(subject.steps) >= _FEWEST]
    return [*copies, *([*both] for both in combinations(others, 2) if _nearly_one(*(each.steps for each in both)))]


def _has_figures(steps: StepTable) -> bool:
    """Whether a figure is given that varies between runs; steps and tokens do not."""
    figures = (getattr(steps, name).given for name in FIGURES if name != "tokens")
    return any(given.any() for given in figures) or not np.isnat(steps.time).all()


def _nearly_one(steps: StepTable, others: StepTable) -> bool:
    """Whether nearly all losses and times are equal: a seed repeats losses, but only rounding repeats times."""
    _, at, there = common_steps(steps.step, others.step)
    if len(at) < max(_FEWEST, _NEARLY * min(len(steps), len(others))):
        return False
    for column, other in ((steps.loss, others.loss), (steps.tokens, others.tokens)):
        equal = (column.values[at] == other.values[there]) | ~(column.given[at] | other.given[there])
        if equal.mean() < _NEARLY:
            return False
    times, other_times = steps.step_time_s.values[at], others.step_time_s.values[there]
    _, counts = np.unique(times, return_counts=True)
    by_chance = float(((counts / len(times)) ** 2).sum())
    return by_chance < _ROUNDED and bool((times == other_times).mean() >= _NEARLY)


def _same_record(subjects: list[Subject]) -> list[list[Subject]]:
    lengths = sorted({len(subject.steps) for subject in subjects})
    groups: list[list[Subject]] = []
    begun_by: dict[bytes, list[Subject]] = {}
    for subject in sorted(subjects, key=lambda subject: -len(subject.steps)):
        digests = _digests(subject.steps, lengths[: bisect_right(lengths, len(subject.steps))])
        group = begun_by.get(digests[-1])
        if group is None:
            group = []
            groups.append(group)
            for each in digests:
                begun_by.setdefault(each, group)
        group.append(subject)
    return [group for group in groups if len(group) > 1]


def check_once(name: str, subjects: Sequence[Subject]) -> None:
    """Raise an error if two of the runs are copies."""
    if copies := of_one_record(subjects):
        first, second, *_ = copies[0]
        raise twice(name, first.run.directory, second.run.directory, _timed(second))


def _timed(subject: Subject) -> bool:
    """Whether step times or timestamps are recorded: no second run repeats those."""
    return subject.tells_times or not np.isnat(subject.steps.time).all()


def twice(name: str, first: Path, second: Path, timed: bool = True) -> InputError:
    """The error for one run given twice, or for two runs that cannot be distinguished."""
    one_place, expected = first.resolve() == second.resolve(), "each run once"
    places = place_of(first), place_of(second)
    if not timed and not one_place:
        problem = ": {} and {} have the same losses and no step times, so one may be a copy".format(*places)
        expected += ", with step times if losses repeat"
    elif first == second:
        problem = f" names {places[0]} twice"
    else:
        same = "are the same directory" if one_place else "have the same record"
        problem = f" contains one run twice: {places[0]} and {places[1]} {same}"
    return InputError(f"{name}{problem}", key=name, value=str(second), expected=expected, next=f"leave out {places[1]}")


def on_both_sides(target: Sequence[Subject], baseline: Sequence[Subject]) -> list[str]:
    """Names of the runs that are on both sides, copies included."""
    sides = [{id(subject) for subject in side} for side in (target, baseline)]
    names = []
    for group in of_one_record([*target, *baseline]):
        here, there = (next((subject for subject in group if id(subject) in side), None) for side in sides)
        if here is not None and there is not None and not _first_loss_alone(here, there):
            names.append(_name(here.run.directory, there.run.directory))
    return names


def _first_loss_alone(here: Subject, there: Subject) -> bool:
    """Whether two directories share only one row without a time, as any two runs with one seed may."""
    shorter = min(here, there, key=lambda subject: len(subject.steps))
    apart = here.run.directory.resolve() != there.run.directory.resolve()
    return apart and len(shorter.steps) == 1 and not _timed(shorter)


def _name(here: Path, there: Path) -> str:
    first, second = here.resolve(), there.resolve()
    if first == second:
        return first.name
    names = (first.name, second.name) if first.name != second.name else (place_of(here), place_of(there))
    return "{} (same record as {})".format(*names)
