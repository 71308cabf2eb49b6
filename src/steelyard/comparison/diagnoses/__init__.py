"""Likely causes of a difference between two sides, one file per cause, most decisive first."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from steelyard.accounting.steady import Course
from steelyard.comparison.curve import LossCurve
from steelyard.comparison.tiers import Pair
from steelyard.reasons import Code, SideName
from steelyard.verdict import Subject

DIAGNOSES = (
    "uniform_data",
    "counting_data",
    "fixed_batch",
    "tokens_per_step",
    "learning_rate",
    "different_setting",
    "untrained_loss",
    "silent_default",
    "seed",
    "parting",
)
"""Most decisive first: data that cannot be learned, other differences in the records, declared settings, defaults."""


@dataclass(frozen=True, slots=True)
class Cause(Code):
    """A code with its evidence and what would confirm it, made from the same values."""

    evidence: Callable[..., Iterable[str]]
    confirm: str | Callable[..., str]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    code: Cause
    side: SideName
    values: Mapping[str, Any]
    keys: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return self.code.render(self.values)

    @property
    def evidence(self) -> tuple[str, ...]:
        return tuple(self.code.evidence(**self.values))

    @property
    def confirm(self) -> str:
        confirm = self.code.confirm
        return confirm if isinstance(confirm, str) else confirm(**self.values)

    def document(self) -> dict[str, Any]:
        texts = {"message": self.message, "evidence": list(self.evidence), "confirm": self.confirm}
        return {"code": self.code.name, "side": self.side, **texts}


def diagnose(pair: Pair) -> tuple[Diagnosis, ...]:
    """Every cause there is evidence for, most decisive first."""
    modules = (importlib.import_module(f"{__name__}.{name}") for name in DIAGNOSES)
    return tuple(diagnosis for module in modules for diagnosis in module.diagnose(pair))


@dataclass(frozen=True, slots=True)
class Ending:
    subject: Subject
    curve: LossCurve
    course: Course

    @property
    def where(self) -> str:
        at = self.subject.steps.evidence(len(self.subject.steps) - 1)
        place = f" ({at.file}:{at.line})" if at else ""
        name = self.subject.run.directory.resolve().name
        return f"{name} ends at {self.course.end:.5g} at step {self.curve.step[-1]:,}{place}"


def endings(pair: Pair) -> Iterator[tuple[Literal["target", "baseline"], list[Ending]]]:
    """The end of each run with a loss, by side."""
    for side, curves in zip(pair.sides, pair.curves, strict=True):
        runs = zip(side.subjects, curves, strict=True)
        if ends := [Ending(run, curve, run.course) for run, curve in runs if run.course is not None]:
            yield side.name, ends
