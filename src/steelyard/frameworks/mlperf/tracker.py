"""Makes step lines of MLPerf events: their step follows from the samples so far and the batch size."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from steelyard.experiment.presets import PRESETS
from steelyard.frameworks.logs.dialect import Place, StepLine, Tracked
from steelyard.frameworks.logs.failures import CAUSE
from steelyard.frameworks.logs.prefixes import Origin
from steelyard.frameworks.logs.settings import GPU_NAME, OPTIMIZER, Setting
from steelyard.hardware.catalog import lookup
from steelyard.records.step import Event

MARK = b"\x00mlperf step %d/0 |"
"""The start of a step line that is made here; no program prints it."""
_START = b":::MLLOG "
_MOST = 10**12
_HELD = 64
"""Records held back, until it is clear whether the log has step lines of a framework too."""
_MOST_ORIGINS = 4096

_COUNTS = {
    "global_batch_size": "training.global_batch_size",
    "micro_batch_size": "training.micro_batch_size",
    "gradient_accumulation_steps": "training.gradient_accumulation_steps",
    "max_sequence_length": "training.sequence_length",
    "opt_learning_rate_warmup_steps": "training.warmup_steps",
    "seed": "training.seed",
    "tensor_parallelism": "parallelism.tensor_parallel_size",
    "pipeline_parallelism": "parallelism.pipeline_parallel_size",
    "context_parallelism": "parallelism.context_parallel_size",
}
_NUMBERS = {
    "opt_base_learning_rate": "training.learning_rate",
    "opt_end_learning_rate": "training.min_learning_rate",
    **{f"opt_{name}_beta_{at}": f"training.adam_beta{at}" for name in ("adam", "adamw") for at in (1, 2)},
    **{f"opt_{name}_epsilon": "training.adam_epsilon" for name in ("adam", "adamw")},
    **dict.fromkeys(("opt_weight_decay", "opt_adamw_weight_decay"), "training.weight_decay"),
    "opt_gradient_clip_norm": "training.clip_grad_norm",
}
_OPTIMIZERS = {"adam": "adam", "adamw": "adam"}
"""Adam with decoupled weight decay is the only kind that language models use."""
_PRESETS = {"llama31_8b": "llama3.1-8b", "llama31_405b": "llama3.1-405b"}
"""Models of benchmarks that train the published architecture."""
_IN_TOKENS = ("gpt3",)
"""Benchmarks whose events count tokens instead of samples."""
_LOSSES = ("reduced_train_loss", "train_loss", "loss")
_GPU = re.compile(r"[A-Za-z]+\d+[A-Za-z]*")


@dataclass(slots=True)
class _Record:
    """Values of some steps; the number is None if the batch size is unknown."""

    number: int
    line: int
    moment: float
    """Seconds since 1970."""
    loss: float | None = None
    learning_rate: float | None = None
    seconds: float | None = None


@dataclass(slots=True)
class _Run:
    """The events of one process."""

    prefix: bytes = b""
    batch: int | None = None
    length: int | None = None
    benchmark: str = ""
    held: list[_Record] = field(default_factory=list)
    evaluations: list[_Record] = field(default_factory=list)
    releasing: bool = False
    has_losses: bool = False
    zero_based: bool = False
    in_samples: bool = False
    """Whether the step of an event counts samples."""
    last: int = 0
    """The last step with a record."""
    clock: tuple[int, float] | None = None


class Tracker:
    """Takes the events of each process of a log."""

    def __init__(self) -> None:
        self._runs: dict[Origin, _Run] = {}

    @property
    def holds(self) -> bool:
        return bool(self._runs)

    def take(self, body: bytes, prefix: bytes, place: Place) -> Iterator[Tracked] | None:
        """The entries of a line; None if it has no MLPerf event."""
        if _START not in body:
            return None
        run = self._runs.get(place.origin)
        if run is None:
            run = _Run()
            if len(self._runs) < _MOST_ORIGINS:
                self._runs[place.origin] = run
        run.prefix = prefix
        return _entries(run, body, place)

    def end(self) -> Iterator[Tracked]:
        """The entries that are still held."""
        for run in self._runs.values():
            yield from _release(run)


def _entries(run: _Run, body: bytes, place: Place) -> Iterator[Tracked]:
    for text in body.split(_START)[1:]:
        try:
            event, _ = json.JSONDecoder().raw_decode(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            message = f"not an MLPerf event: {text[:200].decode('utf-8', 'replace')!r}"
            yield Event(kind="unread_line", message=message, source=place.evidence)
            continue
        if isinstance(event, dict) and isinstance(event.get("key"), str):
            yield from _event(run, event, place)


def _event(run: _Run, event: Mapping[str, Any], place: Place) -> Iterator[Tracked]:
    key, value = event["key"], event.get("value")
    details = event.get("metadata")
    metadata = details if isinstance(details, dict) else {}
    moment = _number(event.get("time_ms")) or 0.0
    if key == "run_start":
        run.clock = 0, moment / 1000
    elif key == "train_loss":
        yield from _stats(run, {"train_loss": value}, metadata, moment / 1000, place)
    elif key == "tracked_stats" and isinstance(value, dict):
        yield from _stats(run, value, metadata, moment / 1000, place)
    elif key == "eval_accuracy":
        yield from _evaluated(run, value, metadata, moment / 1000, place)
    elif key == "run_stop":
        yield from _stopped(run, metadata, place)
    else:
        yield from _setting(run, key, value, place)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else math.inf


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < _MOST and number == int(number) else None


def _setting(run: _Run, key: str, value: Any, place: Place) -> Iterator[Tracked]:
    """An event that states a setting."""
    count, number = _count(value), _number(value)
    if key == "global_batch_size":
        run.batch = count or None
    elif key == "max_sequence_length":
        run.length = count or None
    if key in _COUNTS and count is not None and (count or key in ("seed", "opt_learning_rate_warmup_steps")):
        yield Setting(_COUNTS[key], count, place.evidence)
    elif key in _NUMBERS and number is not None and math.isfinite(number):
        yield Setting(_NUMBERS[key], number, place.evidence)
    elif key == "opt_name" and value in _OPTIMIZERS:
        yield Setting(OPTIMIZER, _OPTIMIZERS[value], place.evidence)
    elif key == "submission_benchmark" and isinstance(value, str):
        run.benchmark = value
        if value in _PRESETS:
            for name, dimension in PRESETS[_PRESETS[value]].items():
                yield Setting(f"model.{name}", dimension, place.evidence)
    elif key == "submission_platform" and isinstance(value, str):
        gpus = (lookup(name) for text in _GPU.findall(value) for name in (text, text.removeprefix("x")))
        if (gpu := next(filter(None, gpus), None)) is not None:
            yield Setting(GPU_NAME, gpu.name, place.evidence)


def _step(run: _Run, metadata: Mapping[str, Any], step_is_samples: bool) -> int | None:
    """The step of an event, from samples so far or its own step; None if it has neither."""
    samples = _count(metadata.get("samples_count"))
    if samples is None and (epoch := _count(metadata.get("epoch_num"))) is not None:
        samples = epoch // run.length if run.benchmark in _IN_TOKENS and run.length else epoch
    if samples is None and step_is_samples:
        samples = _count(metadata.get("step"))
    if samples is not None and run.batch:
        return -(-samples // run.batch)
    return next((step for name in ("step_num", "step") if (step := _count(metadata.get(name))) is not None), None)


def _stats(
    run: _Run, values: Mapping[str, Any], metadata: Mapping[str, Any], moment: float, place: Place
) -> Iterator[Tracked]:
    """An event with a loss; or with a throughput only, where the log has no losses."""
    loss = next((values[name] for name in _LOSSES if name in values), None)
    throughput = _number(values.get("throughput"))
    if loss is None and (throughput is None or run.has_losses):
        return
    number = _step(run, metadata, loss is None)
    if number is None:
        return
    if loss is not None and not run.has_losses:
        run.has_losses, run.zero_based = True, number == 0
        run.held.clear()  # throughputs of whole blocks
    rate = _number(values.get("lr", metadata.get("lr")))
    seconds = _number(values.get("train_step_time"))
    if seconds is None and throughput and run.batch:
        seconds = run.batch / throughput
    if run.in_samples and run.batch:
        number //= run.batch
    record = _Record(number + run.zero_based, place.evidence.line, moment, _number(loss), rate, seconds)
    if loss is not None and record.loss is None:
        yield Event(kind="unread_line", message=f"loss is {str(loss)[:40]!r}", source=place.evidence)
        return
    run.held.append(record)
    if run.has_losses and (run.releasing or len(run.held) >= _HELD):
        yield from _release(run)


def _evaluated(run: _Run, value: Any, metadata: Mapping[str, Any], moment: float, place: Place) -> Iterator[Tracked]:
    number, result = _step(run, metadata, True), _number(value)
    if number is None:
        return
    run.evaluations.append(_Record(number, place.evidence.line, moment))
    details = {} if result is None else {"value": result}
    step = number + 1 if run.has_losses else None  # other records are of the time between evaluations
    yield Event(kind="eval", message=f"eval_accuracy {value}", step=step, source=place.evidence, details=details)


def _stopped(run: _Run, metadata: Mapping[str, Any], place: Place) -> Iterator[Tracked]:
    """The end of the run: the quality was reached, or not."""
    status = metadata.get("status")
    yield from _release(run)
    message = f"run_stop with status {str(status)[:100]!r}"
    if status == "success":
        yield Event(kind="finished", message=message, step=run.last or None, source=place.evidence)
    elif status == "aborted":
        details = {"order": CAUSE}
        yield Event(kind="fatal", message=message, step=run.last or None, source=place.evidence, details=details)


def _release(run: _Run) -> Iterator[Tracked]:
    """Step lines of the held records, or else of the evaluations."""
    if not run.held and not run.releasing:
        run.held, run.evaluations = run.evaluations, []
    held, run.held = run.held, []
    if not run.releasing and run.batch and _count_samples(held, run.batch):
        run.in_samples = True
        for record in held:
            record.number //= run.batch
    run.releasing = run.releasing or bool(held)
    for record in held:
        parts = {"loss": record.loss, "learning_rate": record.learning_rate, "step_time_s": record.seconds}
        before, run.clock = run.clock, (record.number, record.moment)
        if record.seconds is None and before is not None and record.number > before[0] and record.moment > before[1]:
            parts["clock_s"] = (record.moment - before[1]) / (record.number - before[0])
        text = b"|".join(f" {name}: {value!r} ".encode() for name, value in parts.items() if value is not None)
        yield StepLine(run.prefix + _moment(record.moment) + MARK % record.number + text, record.line)
        run.last = max(run.last, record.number)


def _count_samples(records: Sequence[_Record], batch: int) -> bool:
    """Whether the steps of events are samples so far: multiples of the batch, much closer together than their times."""
    if not records or records[0].number != batch or any(record.number % batch for record in records):
        return False
    pairs = [(before, record) for before, record in pairwise(records) if record.seconds is not None]
    close = [
        record.moment - before.moment < (record.number - before.number) * (record.seconds or 0.0) / 2
        for before, record in pairs
    ]
    return bool(close) and sum(close) > len(close) / 2


def _moment(seconds: float) -> bytes:
    """The time of an event, as a timestamp before the step line."""
    try:
        moment = datetime.fromtimestamp(seconds, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return b""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f").encode()[:-3] + b"Z " if seconds > 0 else b""
