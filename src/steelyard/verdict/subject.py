"""What is judged: a run with its steps, events and figures, read once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import ValidationError

from steelyard import accounting, records
from steelyard.accounting.steady import MARKS, Mask, steady_window
from steelyard.errors import InputError
from steelyard.experiment import Precision
from steelyard.experiment.experiment import ComparePolicy
from steelyard.experiment.model import Model
from steelyard.experiment.thresholds import parse_threshold
from steelyard.hardware.catalog import CPU, Gpu, lookup
from steelyard.records import Event, Evidence, Run, StepTable
from steelyard.verdict.figures import Figures, figures

FAILURES = ("oom", "error")
"""Events that end a run or should have."""


@dataclass(frozen=True)
class Subject:
    """One run, as the checks and the comparison see it. None is not known."""

    run: Run
    steps: StepTable
    events: Sequence[Event]
    extra_thresholds: tuple[str, ...]
    """Bounds asked beside the experiment's own."""
    asked_warmup_steps: int

    @property
    def thresholds(self) -> tuple[str, ...]:
        """Every bound asked of it: the experiment's, then the others."""
        return tuple(dict.fromkeys([*(self.value("thresholds") or ()), *self.extra_thresholds]))

    def value(self, dotted: str) -> Any:
        """A value of the experiment; None where it is not known, or is null."""
        return self.known(dotted)[1]

    def known(self, dotted: str) -> tuple[bool, Any]:
        """Whether a key of the experiment is known of this run, and its value."""
        here: Any = self.run.manifest.experiment
        for part in dotted.split("."):
            if not isinstance(here, dict) or part not in here:
                return False, None
            here = here[part]
        return True, here

    def expected(self, name: str) -> float | None:
        """A figure the plan expected."""
        found = self.run.manifest.expected.get(name)
        return float(found) if isinstance(found, int | float) else None

    @property
    def planned_steps(self) -> int | None:
        steps = self.value("training.steps")
        return steps if isinstance(steps, int) else None

    @property
    def on_cpu(self) -> bool:
        return self.run.manifest.platform.gpu is None and self.run.manifest.platform.gpu_name == CPU

    @property
    def gpu(self) -> Gpu | None:
        """The catalog's GPU; None on a CPU and for a GPU we hold no figures for."""
        platform = self.run.manifest.platform
        return lookup(platform.gpu or platform.gpu_name)

    @property
    def world_size(self) -> int:
        return self.run.manifest.platform.world_size

    @cached_property
    def model(self) -> Model | None:
        """The model's dimensions, where all of them are known."""
        try:
            return Model.model_validate(self.value("model"))
        except ValidationError:
            return None

    @cached_property
    def precision(self) -> Precision | None:
        known, value = self.known("precision")
        try:
            return Precision.model_validate(value) if known else None
        except ValidationError:
            return None

    @property
    def peak_tflops(self) -> float | None:
        """The dense peak of the precision used."""
        if self.gpu is None or self.precision is None:
            return None
        return self.gpu.peak_tflops("fp8" if self.precision.fp8 else self.precision.dtype)

    @property
    def flops_per_token(self) -> float | None:
        """By our causal formula, from the model where it is known."""
        length = self.value("training.sequence_length")
        if self.model is None or not isinstance(length, int):
            return self.expected("flops_per_token")
        return accounting.flops_per_token(self.model, length)

    @property
    def planned_tokens_per_step(self) -> int | None:
        batch, length = self.value("training.global_batch_size"), self.value("training.sequence_length")
        return batch * length if isinstance(batch, int) and isinstance(length, int) else None

    @cached_property
    def figures(self) -> Figures:
        steps = self.steps
        window = steady_window(
            steps.step, steps.steps_covered, steps.step_time_s.values, self._marks, self.asked_warmup_steps
        )
        return figures(
            steps,
            window,
            self.world_size,
            self.flops_per_token,
            self.peak_tflops,
            self._why_no_peak,
            self.planned_tokens_per_step,
        )

    @property
    def _why_no_peak(self) -> str:
        if self.on_cpu:
            return "a CPU has no peak in the catalog"
        if self.gpu is None:
            return f"{self.run.manifest.platform.gpu_name} is not in the catalog of GPUs"
        precision = "its precision is not known" if self.precision is None else f"none for {self.precision.dtype}"
        return f"no dense peak of the {self.gpu.name}: {precision}"

    @cached_property
    def _marks(self) -> dict[str, Mask]:
        """Steps flagged by the reader, and steps at which an event says so."""
        marks = dict(self.steps.flags)
        for mark in MARKS:
            at = [event.step for event in self.events if event.kind == mark and event.step is not None]
            if at:
                here = np.isin(self.steps.step, at)
                marks[mark] = marks[mark] | here if mark in marks else here
        return marks

    def evidence_of_manifest(self, key: str) -> Evidence:
        """The line of run.json that holds a key."""
        lines = (self.run.directory / records.MANIFEST).read_text(encoding="utf-8").splitlines()
        return Evidence(records.MANIFEST, next((at for at, text in enumerate(lines, 1) if f'"{key}":' in text), 1))

    def evidence_of_step(self, row: int) -> Evidence | None:
        """Where a row of the steps was read; negative rows count from the end."""
        return self.steps.evidence(range(len(self.steps))[row]) if len(self.steps) else None


def read_subject(run: Run, thresholds: Sequence[str] = (), warmup_steps: int = 0) -> Subject:
    """Read a run, whole, once; `thresholds` stand beside the experiment's own."""
    return _subject(run, records.table(run.directory), thresholds, warmup_steps)


def read_subjects(runs: Sequence[Run], warmup_steps: int) -> list[Subject]:
    """Read several runs, each once."""
    read = records.tables([run.directory for run in runs])
    return [_subject(run, steps, (), warmup_steps) for run, steps in zip(runs, read, strict=True)]


def _subject(run: Run, steps: StepTable, thresholds: Sequence[str], warmup_steps: int) -> Subject:
    asked = max(warmup_steps, policy_of(run).warmup_steps)
    subject = Subject(run, steps, tuple(records.events(run.directory)), tuple(thresholds), asked)
    for text in subject.thresholds:
        try:
            parse_threshold(text)
        except (ValueError, TypeError) as reason:
            raise InputError(
                f"{run.directory / records.MANIFEST}: thresholds: {reason}", key="thresholds", value=str(text)
            ) from None
    return subject


def policy_of(run: Run) -> ComparePolicy:
    """How a run's own experiment wants it weighed."""
    try:
        return ComparePolicy.model_validate(run.manifest.experiment.get("compare") or {})
    except ValidationError as wrong:
        first = wrong.errors()[0]
        key = ".".join(map(str, ("compare", *first["loc"])))
        raise InputError(f"{run.directory / records.MANIFEST}: {key}: {first['msg']}", key=key) from None
