"""Which runs are one: a copy of a run, or its log read twice, is no second observation."""

from collections.abc import Callable, Hashable, Sequence
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
_GLANCE = 64
"""Rows, of which two runs that are not one differ in some."""


def digest(steps: StepTable, every: int = 1) -> bytes:
    """Of the record, or of every so many of its rows."""
    found = blake2b(digest_size=16)
    for column in (steps.step, *(getattr(steps, name).values for name in _FIGURES), steps.time.view(np.int64)):
        values = np.ascontiguousarray(column[::every])
        if (missing := np.isnan(values)).any():  # a NaN may be spelt in many bits
            values = np.where(missing, np.nan, values)
        found.update(values.data)
    return found.digest()


def of_one_record(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """Those that hold the same record, together; runs without steps are one only where they are one directory.

    All of a record is read only where a glance does not tell two apart.
    """
    alike = _grouped(subjects, _glance)
    return [same for some in alike for same in _grouped(some, _whole)]


def _glance(subject: Subject) -> Hashable:
    rows = len(subject.steps)
    return (rows, digest(subject.steps, -(-rows // _GLANCE))) if rows else subject.run.directory.resolve()


def _whole(subject: Subject) -> Hashable:
    return digest(subject.steps)


def _grouped(subjects: Sequence[Subject], key: Callable[[Subject], Hashable]) -> list[list[Subject]]:
    groups: dict[Hashable, list[Subject]] = {}
    for subject in subjects:
        groups.setdefault(key(subject), []).append(subject)
    return [group for group in groups.values() if len(group) > 1]


def check_once(name: str, subjects: Sequence[Subject]) -> None:
    """Refuse runs of which two are one."""
    if found := of_one_record(subjects):
        first, second, *_ = (one.run.directory for one in found[0])
        raise twice(name, first, second)


def twice(name: str, first: Path, second: Path) -> InputError:
    """One run that stands in for two."""
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
