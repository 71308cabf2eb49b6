"""Which runs are one: a copy of a run, or its log read twice, is no second observation."""

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from steelyard.comparison.curve import common_steps
from steelyard.errors import InputError
from steelyard.records import StepTable
from steelyard.verdict import Subject

_FIGURES = ("tokens", "loss", "grad_norm", "step_time_s", "reported_tokens_per_s_per_gpu", "reported_tflops_per_gpu")
"""What was recorded. What we derive is left out: it changes with the GPUs that somebody says a log is of."""
_GLANCE = 20
"""Rows, of which two runs that are not one differ in some."""
_FEWEST = 10
_NEARLY = 0.9
"""Of the steps."""
_ROUNDED = 0.2
"""So often two times would be one by chance, above which that they are tells nothing."""


def digest(steps: StepTable, rows: int | None = None) -> bytes:
    return _digests(steps, (len(steps) if rows is None else rows,))[0]


def _digests(steps: StepTable, lengths: Sequence[int]) -> list[bytes]:
    """Of its first rows, as many as each of some rising lengths says; they are read once, however many ask."""
    columns = []
    for column in (steps.step, *(getattr(steps, name).values for name in _FIGURES), steps.time.view(np.int64)):
        values = np.ascontiguousarray(column[: lengths[-1]])
        if (missing := np.isnan(values)).any():  # a NaN may be spelt in many bits
            values = np.where(missing, np.nan, values)
        columns.append(values)
    state, digests = blake2b(digest_size=16), []
    for begin, end in pairwise((0, *lengths)):
        for values in columns:
            state.update(values[begin:end].data)
        digests.append(state.digest())
    return digests


def of_one_record(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """Groups that hold the same record as far as the shorter goes, or nearly: a log may be cut, rotated or mended.

    Runs without steps are one only where they are one directory, and rows without a figure begin no other record.
    """
    shortest = min((len(subject.steps) for subject in subjects if _tells(subject.steps)), default=0)
    beginnings: dict[Hashable, list[Subject]] = {}
    for subject in subjects:
        steps = subject.steps
        beginning: Hashable = subject.run.directory.resolve()
        if len(steps):
            beginning = digest(steps, min(shortest, _GLANCE) if _tells(steps) else None)
        beginnings.setdefault(beginning, []).append(subject)
    copies = [group for some in beginnings.values() if len(some) > 1 for group in _same_record(some)]
    seconds = {id(subject) for group in copies for subject in group[1:]}
    others = [subject for subject in subjects if id(subject) not in seconds and len(subject.steps) >= _FEWEST]
    return [*copies, *([*both] for both in combinations(others, 2) if _nearly_one(*(each.steps for each in both)))]


def _tells(steps: StepTable) -> bool:
    """Whether it holds a figure that may differ between runs: steps and tokens are counted alike in all."""
    figures = (getattr(steps, name).given for name in _FIGURES if name != "tokens")
    return any(given.any() for given in figures) or not np.isnat(steps.time).all()


def _nearly_one(steps: StepTable, others: StepTable) -> bool:
    """Whether nearly all losses and times are one: a seed repeats losses, but nothing repeats times unless rounded."""
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
    """Refuse runs of which two are one."""
    if copies := of_one_record(subjects):
        first, second, *_ = copies[0]
        raise twice(name, first.run.directory, second.run.directory, _timed(second))


def _timed(subject: Subject) -> bool:
    """Whether it says when, or how fast: what no second run repeats."""
    return subject.tells_times or not np.isnat(subject.steps.time).all()


def twice(name: str, first: Path, second: Path, timed: bool = True) -> InputError:
    """One run that stands in for two, or what cannot be told from one."""
    one_place, expected = first.resolve() == second.resolve(), "each run once"
    if not timed and not one_place:
        problem = f": {first} and {second} have the same losses and no times, so that they cannot be told from one run"
        expected += ", with step times where losses repeat"
    elif first == second:
        problem = f" names {first} twice"
    else:
        same = "are one directory" if one_place else "have the same record"
        problem = f" holds one run twice: {first} and {second} {same}"
    return InputError(f"{name}{problem}", key=name, value=str(second), expected=expected, next=f"leave out {second}")


def on_both_sides(target: Sequence[Subject], baseline: Sequence[Subject]) -> list[str]:
    """The runs that stand on both sides, under one name or two."""
    sides = [{id(subject) for subject in side} for side in (target, baseline)]
    names = []
    for group in of_one_record([*target, *baseline]):
        here, there = (next((subject for subject in group if id(subject) in side), None) for side in sides)
        if here is not None and there is not None and not _first_loss_alone(here, there):
            names.append(_name(here.run.directory, there.run.directory))
    return names


def _first_loss_alone(here: Subject, there: Subject) -> bool:
    """Whether two directories share one row without a time, as any two runs of one seed do."""
    shorter = min(here, there, key=lambda subject: len(subject.steps))
    apart = here.run.directory.resolve() != there.run.directory.resolve()
    return apart and len(shorter.steps) == 1 and not _timed(shorter)


def _name(here: Path, there: Path) -> str:
    first, second = here.resolve(), there.resolve()
    if first == second:
        return first.name
    names = (first.name, second.name) if first.name != second.name else (here, there)
    return "{} (the record of {} too)".format(*names)
