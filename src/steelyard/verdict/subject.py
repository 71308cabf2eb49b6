"""What is judged: a run with its steps, events and figures, read once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import ValidationError

from steelyard import accounting, records
from steelyard.accounting.arrays import Floats, Mask, chosen
from steelyard.accounting.flops import countable
from steelyard.accounting.steady import FEWEST_LOSSES, MARKS, Course, course
from steelyard.errors import InputError
from steelyard.experiment.experiment import ComparePolicy
from steelyard.experiment.model import Model
from steelyard.experiment.problems import shown
from steelyard.experiment.sources import Source
from steelyard.experiment.thresholds import parse_threshold
from steelyard.files import read_document
from steelyard.frameworks.registry import facts
from steelyard.hardware.catalog import CPU, Gpu, lookup
from steelyard.records import Event, Evidence, Run, StepTable
from steelyard.records.step import FAILURES, first_cause, outlived
from steelyard.records.strict import unreadable
from steelyard.verdict.figures import Clock, Figures, figures, read_clock, tokens_of


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
        return tuple(dict.fromkeys([*(self.run.manifest.experiment.thresholds or ()), *self.extra_thresholds]))

    def value(self, dotted: str) -> Any:
        """A value of the experiment; None where it is not known, or is null."""
        return self.known(dotted)[1]

    def source(self, dotted: str) -> Source | None:
        """Where a value of the experiment comes from; None where the record does not say."""
        text = self.run.manifest.sources.get(dotted)
        return Source.of(text) if text else None

    def known(self, dotted: str) -> tuple[bool, Any]:
        """Whether a key of the experiment is known of this run, and its value."""
        return self.run.manifest.experiment.known(dotted)

    def whole(self, dotted: str) -> int | None:
        """A positive whole number of the experiment."""
        return self.run.manifest.experiment.whole(dotted)

    def expected(self, name: str) -> float | None:
        """A figure the plan expected."""
        figure = self.run.manifest.expected.get(name)
        if not isinstance(figure, int | float) or isinstance(figure, bool) or not abs(figure) < 1e30:
            return None
        return float(figure)

    @cached_property
    def log_interval(self) -> int:
        """Steps between records: the framework's own, or the shortest but for the first and last (1, 10, 20 … 55)."""
        known = facts(self.run.manifest.framework).log_interval or int(self.expected("log_interval") or 0)
        if known or not len(self.steps):
            return known or 1
        step, apart = self.steps.step, np.diff(self.steps.step)
        few = apart[-1:] if len(step) == 3 or step[0] == apart[:1].sum() else apart[:0]
        inner = apart[1:-1] if len(step) > 3 else few
        inner = inner[inner > 0]
        return int(inner.min()) if len(inner) else int(self.steps.steps_covered.max())

    def events_of(self, *kinds: str) -> list[Event]:
        """The events of some kinds, however they are spelt."""
        return [event for event in self.events if event.kind.lower().replace(" ", "_") in kinds]

    @property
    def on_cpu(self) -> bool:
        return self.run.manifest.platform.gpu is None and self.run.manifest.platform.gpu_name == CPU

    @property
    def gpu(self) -> Gpu | None:
        """The catalog's GPU; None on a CPU and for a GPU we hold no figures for."""
        platform = self.run.manifest.platform
        name = platform.gpu or platform.gpu_name
        return lookup(name) if name else None

    @property
    def world_size(self) -> int | None:
        return self.run.manifest.platform.world_size

    @cached_property
    def model(self) -> Model | None:
        """The dimensions FLOPs are counted from, where all of them are known."""
        dimensions = self.value("model")
        return countable(dimensions) if isinstance(dimensions, dict) else None

    @property
    def precision(self) -> str | None:
        """The format of the matrix products: fp8 where it is used, else the dtype."""
        (known_dtype, dtype), (known_fp8, fp8) = self.known("precision.dtype"), self.known("precision.fp8")
        return ("fp8" if fp8 else str(dtype)) if known_dtype and known_fp8 else None

    @property
    def peak_tflops(self) -> float | None:
        return self.gpu.peak_tflops(self.precision) if self.gpu and self.precision else None

    @property
    def flops_per_token(self) -> float | None:
        """By our causal formula, from the model where it is known."""
        length = self.whole("training.sequence_length")
        if self.model is None or length is None:
            return self.expected("flops_per_token")
        try:
            return accounting.flops_per_token(self.model, length)
        except OverflowError:  # dimensions no model has
            return None

    @property
    def planned_tokens_per_step(self) -> int | None:
        batch, length = self.whole("training.global_batch_size"), self.whole("training.sequence_length")
        return batch * length if batch and length and batch * length < 2**53 else None

    @cached_property
    def figures(self) -> Figures:
        return figures(self, self.steps, self._marks, self.events_of("memory"))

    @property
    def tells_times(self) -> bool:
        """Whether its record says how long its steps took, or how fast they were."""
        steps = self.steps
        given = (steps.step_time_s, steps.reported_tokens_per_s_per_gpu, steps.reported_tflops_per_gpu)
        return any(column.given.any() for column in given)

    @property
    def learning_rows(self) -> Mask:
        """The rows whose losses tell how it learns."""
        loss = self.steps.loss
        return loss.finite & (loss.values > 0) & ~self.steps.flag("skipped")

    @cached_property
    def course(self) -> Course | None:
        """How its loss goes; None where it is told too seldom."""
        rows, steps = self.learning_rows, self.steps
        known = rows.sum() >= FEWEST_LOSSES
        return course(chosen(steps.step, rows), chosen(steps.loss.values, rows)) if known else None

    @cached_property
    def node_tables(self) -> dict[str, StepTable]:
        """The steps of each node or rank that reported by itself; empty where one spoke for all."""
        return records.node_tables(self.run.directory)

    @cached_property
    def figures_by_node(self) -> dict[str, Figures]:
        """The same of each node or rank that reported by itself; empty where one spoke for all."""
        return {
            name: figures(self, steps, {mark: steps.flag(mark) for mark in MARKS if mark in steps.flagged}, ())
            for name, steps in self.node_tables.items()
        }

    @property
    def foreign(self) -> bool:
        """Whether it was read from somebody's log: what that reports stands in where ours cannot be worked out."""
        return self.run.manifest.ingested is not None

    @property
    def as_printed(self) -> bool:
        """Whether its figures are rounded as a program prints them and timed by it; the built-in trainer's are ours."""
        return self.foreign or facts(self.run.manifest.framework).runs_here is None

    @cached_property
    def clock(self) -> Clock:
        """What the log's moments say of its step times; nothing for dialects whose times are made from them."""
        if not self.as_printed:
            return Clock(np.zeros(len(self.steps), dtype=np.bool_), None)
        excused = self.steps.flag("eval") | self.steps.flag("checkpoint")
        for kind in ("eval", "checkpoint", "validating"):
            excused |= self._covering(kind)
        return read_clock(self.steps, excused)

    def denied(self, *keys: str) -> list[Event]:
        """What the plan stated and the training program's own log says otherwise, of some keys; each once."""
        events = (event for event in self.events_of("plan_differs") if event.text("key") in keys)
        return list({event.message: event for event in events}.values())

    def cause(self) -> Event | None:
        """The first failure the log names, causes ahead of their echoes."""
        return first_cause(self.events_of(*FAILURES))

    @cached_property
    def changed_settings(self) -> list[tuple[str, Event]]:
        """What a log says of a setting after it said something else, by key."""
        return [(event.text("key") or "", event) for event in self.events_of("setting_changed")]

    @property
    def outlived(self) -> bool:
        """Whether it failed, was started again, and completed."""
        return self.run.status == "completed" and outlived(self.events)

    @property
    def step_rates(self) -> Floats:
        """Tokens over time over GPUs, step by step, whatever the log reports; NaN where a part is not given."""
        tokens = tokens_of(self.steps, self.planned_tokens_per_step)
        with np.errstate(all="ignore"):
            rates: Floats = tokens / self.steps.step_time_s.values
            rates /= self.world_size or np.nan
        return rates

    @cached_property
    def _marks(self) -> dict[str, Mask]:
        """Steps flagged by the reader, and steps at which an event says so."""
        marks = {}
        for mark in MARKS:
            here = self.steps.flag(mark) | self._covering(mark)
            if mark == "artefact":
                here |= self.clock.artefacts
            if here.any():
                marks[mark] = here
        return marks

    def _covering(self, kind: str) -> Mask:
        """The records that cover a step of an event of this kind."""
        at = [event.step for event in self.events_of(kind) if event.step is not None]
        steps, ends = np.unique(np.array(at, dtype=np.int64)), self.steps.step
        first = np.searchsorted(steps, ends - self.steps.steps_covered, side="right")
        inside: Mask = first < np.searchsorted(steps, ends, side="right")
        return inside

    def evidence_of_manifest(self, key: str) -> Evidence:
        """The line of run.json that holds a key."""
        lines = self._manifest_lines
        return Evidence(records.MANIFEST, next((at for at, text in enumerate(lines, 1) if f'"{key}":' in text), 1))

    @cached_property
    def _manifest_lines(self) -> list[str]:
        path = self.run.directory / records.MANIFEST
        try:
            return read_document(path).decode(errors="replace").splitlines()
        except OSError as reason:
            raise unreadable(path, reason.strerror or str(reason)) from None

    def evidence_of_step(self, row: int) -> Evidence | None:
        """Where a row of the steps was read; negative rows count from the end."""
        return self.steps.evidence(range(len(self.steps))[row]) if len(self.steps) else None

    def at(self, row: int) -> dict[str, Any]:
        """The step of a row and where it was read, for a finding about it."""
        return {"evidence": self.evidence_of_step(row), "step": int(self.steps.step[row])}


def read_subject(run: Run, thresholds: Sequence[str] = (), warmup_steps: int = 0) -> Subject:
    """Read a run, whole, once; `thresholds` stand beside the experiment's own."""
    return _subject(run, records.table(run.directory), thresholds, warmup_steps)


def read_subjects(runs: Sequence[Run], warmup_steps: int) -> list[Subject]:
    read = records.tables([run.directory for run in runs])
    return [_subject(run, steps, (), warmup_steps) for run, steps in zip(runs, read, strict=True)]


def _subject(run: Run, steps: StepTable, thresholds: Sequence[str], warmup_steps: int) -> Subject:
    asked = max(warmup_steps, policy_of(run).warmup_steps)
    subject = Subject(run, steps, tuple(records.events(run.directory)), tuple(thresholds), asked)
    own, path = run.manifest.experiment.thresholds, run.directory / records.MANIFEST
    if not isinstance(own, list | None):
        raise InputError(f"{path}: thresholds is {own!r}", key="thresholds", expected="a list")
    for text in subject.thresholds:
        try:
            parse_threshold(text)
        except (ValueError, TypeError) as reason:
            raise InputError(f"{path}: thresholds: {reason}", key="thresholds", value=str(text)) from None
    return subject


def policy_of(run: Run) -> ComparePolicy:
    """How a run's own experiment wants it weighed."""
    asked = run.manifest.experiment.compare
    try:
        return ComparePolicy.model_validate({} if asked is None else asked)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        key, value = ".".join(map(str, ("compare", *first["loc"]))), shown(first["input"])
        expected = first["msg"].removeprefix("Input should be ")
        if first["type"] == "extra_forbidden":
            expected = f"one of {', '.join(ComparePolicy.model_fields)}"
        message = f"{run.directory / records.MANIFEST}: {key} is {value}"
        raise InputError(message, key=key, value=value, expected=expected) from None
