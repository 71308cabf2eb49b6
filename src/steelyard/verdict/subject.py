"""A run with its steps, events and figures, read once for all checks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from steelyard.experiment.keys import KEYS, UNSTATED
from steelyard.experiment.model import Model
from steelyard.experiment.partial import product_format
from steelyard.experiment.problems import shown
from steelyard.experiment.sources import Source
from steelyard.experiment.thresholds import parse_threshold
from steelyard.files import place_of, read_document
from steelyard.frameworks.logs.settings import PADDED_VOCABULARY
from steelyard.frameworks.registry import facts
from steelyard.hardware.catalog import CPU, Gpu
from steelyard.records import Event, Evidence, Run, StepTable
from steelyard.records.failures import FAILURES, RESTARTS, SAVES, Failures, final_save, sort_failures
from steelyard.records.failures import Course as RunCourse
from steelyard.records.strict import unreadable
from steelyard.verdict.figures import Clock, Figure, Figures, figures, read_clock, tokens_of
from steelyard.verdict.gpu_telemetry import GpuTelemetry, gpu_telemetry


@dataclass(frozen=True)
class Subject:
    """One run as checks and comparisons use it. None means unknown."""

    run: Run
    steps: StepTable
    events: Sequence[Event]
    extra_thresholds: tuple[str, ...]
    """Thresholds in addition to those of the experiment."""
    asked_warmup_steps: int
    trusts_step_times: bool = False
    """Whether step times count although the timestamps of the log contradict them."""
    memory_gib: tuple[float, str] | None = None
    """Peak memory and its kind, in place of the log's: what both sides of a comparison have."""

    @property
    def thresholds(self) -> tuple[str, ...]:
        """All thresholds: first those of the experiment, then the extra ones."""
        return tuple(dict.fromkeys([*(self.run.manifest.experiment.thresholds or ()), *self.extra_thresholds]))

    def value(self, dotted: str) -> Any:
        """A value of the experiment; None if unknown or null."""
        return self.known(dotted)[1]

    def source(self, dotted: str) -> Source | None:
        """The source of a value of the experiment; None if not recorded."""
        text = self.run.manifest.sources.get(dotted)
        return Source.of(text) if text else None

    def known(self, dotted: str) -> tuple[bool, Any]:
        """Whether a key of the experiment is known, and its value."""
        manifest = self.run.manifest
        known, value = manifest.experiment.known(dotted)
        if known or manifest.ingested is not None or dotted not in KEYS or manifest.experiment.states(dotted):
            return known, value
        planned = KEYS[dotted].planned  # the run was recorded before the key existed
        return (False, None) if planned is UNSTATED else (True, planned)

    def whole(self, dotted: str) -> int | None:
        """A positive whole number of the experiment."""
        return self.run.manifest.experiment.whole(dotted)

    def expected(self, name: str) -> float | None:
        """An expected figure of the plan."""
        figure = self.run.manifest.expected.get(name)
        if not isinstance(figure, int | float) or isinstance(figure, bool) or not abs(figure) < 1e30:
            return None
        return float(figure)

    @cached_property
    def log_interval(self) -> int:
        """Steps between records: the framework's, else the smallest inner distance (records 1, 10, 20 … 55: 10)."""
        known = facts(self.run.manifest.framework).log_interval or int(self.expected("log_interval") or 0)
        if known or not len(self.steps):
            return known or 1
        step, apart = self.steps.step, np.diff(self.steps.step)
        few = apart[-1:] if len(step) == 3 or step[0] == apart[:1].sum() else apart[:0]
        inner = apart[1:-1] if len(step) > 3 else few
        inner = inner[inner > 0]
        return int(inner.min()) if len(inner) else int(self.steps.steps_covered.max())

    def events_of(self, *kinds: str) -> list[Event]:
        """Events of these kinds, in any spelling (case, spaces)."""
        return [event for event in self.events if event.kind.lower().replace(" ", "_") in kinds]

    @property
    def on_cpu(self) -> bool:
        return self.run.manifest.platform.gpu is None and self.run.manifest.platform.gpu_name == CPU

    @cached_property
    def gpu(self) -> Gpu | None:
        """The GPU with its recorded figures; None on a CPU and for a GPU without known figures."""
        return self.run.manifest.platform.card

    @property
    def world_size(self) -> int | None:
        return self.run.manifest.platform.world_size

    @cached_property
    def model(self) -> Model | None:
        """The model, if all dimensions that FLOPs are counted from are known."""
        return countable(self.dimensions, self.padded_vocab_size)

    @property
    def dimensions(self) -> dict[str, Any]:
        """The known dimensions of the model, and parts that FLOPs are not counted for."""
        dimensions = self.value("model")
        return dimensions if isinstance(dimensions, dict) else {}

    @property
    def padded_vocab_size(self) -> int | None:
        """The padded vocabulary in the log."""
        ingested = self.run.manifest.ingested
        logged = ingested.whole(PADDED_VOCABULARY) if ingested is not None else None
        return logged or self.whole(f"model.{PADDED_VOCABULARY}")

    @property
    def precision(self) -> str | None:
        """The format of the matrix products: fp8 if used, else the dtype."""
        return product_format(self.known)

    @property
    def peak_tflops(self) -> float | None:
        return self.gpu.peak_tflops(self.precision) if self.gpu and self.precision else None

    @property
    def flops_per_token(self) -> float | None:
        """By our causal formula from the model, else as the plan expects."""
        length = self.whole("training.sequence_length")
        if self.model is None or length is None:
            return self.expected("flops_per_token")
        try:
            return accounting.flops_per_token(self.model, length)
        except OverflowError:  # impossible dimensions
            return None

    @property
    def planned_tokens_per_step(self) -> int | None:
        batch, length = self.whole("training.global_batch_size"), self.whole("training.sequence_length")
        return batch * length if batch and length and batch * length < 2**53 else None

    @cached_property
    def figures(self) -> Figures:
        made = figures(self, self.steps, self._marks, self.events_of("memory"))
        if self.memory_gib is None:
            return made
        return replace(made, memory_peak_gib=Figure(self.memory_gib[0]), memory_kind=self.memory_gib[1])

    @property
    def tells_times(self) -> bool:
        """Whether the record contains step times or rates."""
        steps = self.steps
        given = (steps.step_time_s, steps.reported_tokens_per_s_per_gpu, steps.reported_tflops_per_gpu)
        return any(column.given.any() for column in given)

    @property
    def learning_rows(self) -> Mask:
        """Rows with a finite, positive loss of a step that was not skipped."""
        loss = self.steps.loss
        return loss.finite & (loss.values > 0) & ~self.steps.flag("skipped")

    @cached_property
    def course(self) -> Course | None:
        """The course of the loss; None if too few losses are recorded."""
        rows, steps = self.learning_rows, self.steps
        known = rows.sum() >= FEWEST_LOSSES
        return course(chosen(steps.step, rows), chosen(steps.loss.values, rows)) if known else None

    @cached_property
    def node_tables(self) -> dict[str, StepTable]:
        """The steps of each node or rank that reports its own; empty if only one reports."""
        return records.node_tables(self.run.directory)

    @cached_property
    def figures_by_node(self) -> dict[str, Figures]:
        """The figures of each node or rank that reports its own steps."""
        return {
            name: figures(self, steps, {mark: steps.flag(mark) for mark in MARKS if mark in steps.flagged}, ())
            for name, steps in self.node_tables.items()
        }

    @property
    def foreign(self) -> bool:
        """Whether the run was imported. Reported rates then replace ours where ours cannot be computed."""
        return self.run.manifest.ingested is not None

    @property
    def as_printed(self) -> bool:
        """Whether figures are rounded and timed by another program; those of the built-in trainer are exact."""
        return self.foreign or facts(self.run.manifest.framework).runs_here is None

    @cached_property
    def clock(self) -> Clock:
        """Timestamps against step times; empty for dialects whose step times come from the timestamps."""
        if not self.as_printed:
            return Clock(np.zeros(len(self.steps), dtype=np.bool_), None)
        excused = self.steps.flag("eval") | self.steps.flag("checkpoint")
        for kind in ("eval", "checkpoint", "validating"):
            excused |= self._covering(kind)
        clock = read_clock(self.steps, excused)
        if self.trusts_step_times and clock.contradicts:
            return replace(clock, artefacts=np.zeros(len(self.steps), dtype=np.bool_))
        return clock

    def contradictions(self, *keys: str) -> list[Event]:
        """Events about these keys whose value in the log differs from the plan; each once."""
        events = (event for event in self.events_of("plan_differs") if event.text("key") in keys)
        return list({event.message: event for event in events}.values())

    @cached_property
    def gpu_telemetry(self) -> GpuTelemetry | None:
        """Figures of the run's GPUs by telemetry; None without telemetry of exactly these."""
        if self.on_cpu or self.world_size is None:
            return None
        return gpu_telemetry(self.run.directory, self.steps, self.world_size)

    @cached_property
    def failures(self) -> Failures:
        """The error that ended the run, and those that it survived."""
        ingested = self.run.manifest.ingested
        logs = {file.kept: 0 for file in ingested.files if file.steps} if ingested is not None else {}
        if (first := self.evidence_of_step(0)) is not None:
            logs[first.file] = first.line
        last = int(self.steps.step.max()) if len(self.steps) else 0
        finished = self.run.status == "completed" and bool(self.events_of("finished"))
        failures, restarts = self.events_of(*FAILURES), self.events_of(*RESTARTS)
        save = final_save(self.events_of("finished", *SAVES))
        return sort_failures(failures, restarts, RunCourse(finished, last, self.log_interval, logs, save))

    @cached_property
    def changed_settings(self) -> list[tuple[str, Event]]:
        """Settings whose value changes within the log, by key."""
        return [(event.text("key") or "", event) for event in self.events_of("setting_changed")]

    @property
    def restarted(self) -> bool:
        """Whether the run failed and restarted from a checkpoint."""
        return bool(self.failures.survived) and bool(self.events_of("resumed", "restart"))

    @property
    def step_rates(self) -> Floats:
        """Tokens / step time / GPUs for each step; NaN if one of them is unknown."""
        tokens = tokens_of(self.steps, self.planned_tokens_per_step)
        with np.errstate(all="ignore"):
            rates: Floats = tokens / self.steps.step_time_s.values
            rates /= self.world_size or np.nan
        return rates

    @cached_property
    def _marks(self) -> dict[str, Mask]:
        """Steps with a flag, and steps with an event of that kind."""
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
        """The line of run.json with this key."""
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
        """The source line of a row; negative rows count from the end."""
        return self.steps.evidence(range(len(self.steps))[row]) if len(self.steps) else None

    def logged_step(self, row: int) -> int | None:
        """The number of a row's step in a log that counts from 0; None if the log counts from 1."""
        first, _ = records.first_and_last(self.run.directory)
        from_zero = first is not None and first.reported_step == first.step - 1
        return int(self.steps.step[row]) - 1 if from_zero else None

    def at(self, row: int) -> dict[str, Any]:
        """The step of a row and its source line, for a finding about it."""
        return {"evidence": self.evidence_of_step(row), "step": int(self.steps.step[row])}


def read_subject(run: Run, thresholds: Sequence[str] = (), warmup_steps: int = 0) -> Subject:
    """Read a whole run once; `thresholds` are added to those of the experiment."""
    return _subject(run, records.table(run.directory), thresholds, warmup_steps)


def read_subjects(runs: Sequence[Run], warmup_steps: int) -> list[Subject]:
    read = records.tables([run.directory for run in runs])
    return [_subject(run, steps, (), warmup_steps) for run, steps in zip(runs, read, strict=True)]


def _subject(run: Run, steps: StepTable, thresholds: Sequence[str], warmup_steps: int) -> Subject:
    warmup = max(warmup_steps, policy_of(run).warmup_steps)
    subject = Subject(run, steps, tuple(records.events(run.directory)), tuple(thresholds), warmup)
    own, path = run.manifest.experiment.thresholds, run.directory / records.MANIFEST
    if not isinstance(own, list | None):
        raise InputError(f"{place_of(path)}: thresholds is {own!r}", key="thresholds", expected="a list")
    for text in subject.thresholds:
        try:
            parse_threshold(text)
        except (ValueError, TypeError) as reason:
            raise InputError(f"{place_of(path)}: thresholds: {reason}", key="thresholds", value=str(text)) from None
    return subject


def policy_of(run: Run) -> ComparePolicy:
    """The comparison policy of the run's experiment."""
    policy = run.manifest.experiment.compare
    try:
        return ComparePolicy.model_validate({} if policy is None else policy)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        key, value = ".".join(map(str, ("compare", *first["loc"]))), shown(first["input"])
        expected = first["msg"].removeprefix("Input should be ")
        if first["type"] == "extra_forbidden":
            expected = f"one of {', '.join(ComparePolicy.model_fields)}"
        message = f"{place_of(run.directory / records.MANIFEST)}: {key} is {value}"
        raise InputError(message, key=key, value=value, expected=expected) from None
