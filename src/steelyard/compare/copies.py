"""Which runs are one: a copy of a run, or its log read twice, is no second observation."""

from collections.abc import Hashable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from steelyard.errors import InputError
from steelyard.records import StepTable
from steelyard.verdict import Subject

_FIGURES = (
    "tokens",
    "loss",
    "grad_norm",
    "step_time_s",
    "reported_tokens_per_s_per_gpu",
    "reported_tflops_per_gpu",
)
"""What was recorded. What we derive is left out: it changes with the GPUs that somebody says a log is of."""
_GLANCE = 20
"""Rows, of which two runs that are not one differ in some."""


def digest(steps: StepTable, rows: int | None = None) -> bytes:
    """Of the record, or of so many of its first rows."""
    found = blake2b(digest_size=16)
    for column in (steps.step, *(getattr(steps, name).values for name in _FIGURES), steps.time.view(np.int64)):
        values = np.ascontiguousarray(column[:rows])
        if (missing := np.isnan(values)).any():  # a NaN may be spelt in many bits
            values = np.where(missing, np.nan, values)
        found.update(values.data)
    return found.digest()


def of_one_record(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """Those that hold the same record, together, as far as the shorter goes: a log may be read before it ends.

    Runs without steps are one only where they are one directory. All of a record is read only where its beginning does
    not tell two apart.
    """
    beginnings: dict[Hashable, list[Subject]] = {}
    for subject in subjects:
        beginnings.setdefault(_beginning(subject), []).append(subject)
    return [same for some in beginnings.values() if len(some) > 1 for same in _alike(some)]


def _beginning(subject: Subject) -> Hashable:
    rows = len(subject.steps)
    return digest(subject.steps, min(rows, _GLANCE)) if rows else subject.run.directory.resolve()


def _alike(subjects: list[Subject]) -> list[list[Subject]]:
    groups: list[list[Subject]] = []
    for subject in sorted(subjects, key=lambda one: -len(one.steps)):
        rows = len(subject.steps)
        mine = digest(subject.steps)
        group = next((group for group in groups if digest(group[0].steps, rows) == mine), None)
        if group is None:
            groups.append([subject])
        else:
            group.append(subject)
    return [group for group in groups if len(group) > 1]


def check_once(name: str, subjects: Sequence[Subject]) -> None:
    """Refuse runs of which two are one."""
    if found := of_one_record(subjects):
        first, second, *_ = found[0]
        timed = first.tells_times or not np.isnat(first.steps.time).all()  # what no second run repeats
        raise twice(name, first.run.directory, second.run.directory, timed)


def twice(name: str, first: Path, second: Path, timed: bool = True) -> InputError:
    """One run that stands in for two, or what cannot be told from one."""
    if not timed and first.resolve() != second.resolve():
        return InputError(
            f"{name}: {first} and {second} have the same losses and no times, so that they cannot be told from one run",
            key=name,
            value=str(second),
            expected="each run once, with step times where losses repeat",
            next=f"leave out {second}",
        )
    if first == second:
        said = f"names {first} twice"
    else:
        said = f"holds one run twice: {first} and {second} {_told(first, second)}"
    return InputError(
        f"{name} {said}", key=name, value=str(second), expected="each run once", next=f"leave out {second}"
    )


def _told(first: Path, second: Path) -> str:
    return "are one directory" if first.resolve() == second.resolve() else "have the same record, step for step"


def on_both_sides(target: Sequence[Subject], baseline: Sequence[Subject]) -> str | None:
    """What stands on both sides, under one name or two."""
    ours, theirs = ({id(one) for one in side} for side in (target, baseline))
    names = []
    for same in of_one_record([*target, *baseline]):
        here, there = (next((one.run.directory for one in same if id(one) in ids), None) for ids in (ours, theirs))
        if here is not None and there is not None:
            names.append(_name(here, there))
    if len(names) > 1:
        return f"{', '.join(sorted(names))} stand on both sides, and equal themselves"
    return f"{names[0]} stands on both sides, and equals itself" if names else None


def _name(here: Path, there: Path) -> str:
    first, second = here.resolve(), there.resolve()
    if first == second:
        return first.name
    names = (first.name, second.name) if first.name != second.name else (here, there)
    return "{} (the record of {} too)".format(*names)
