"""The steps one process prints: how many each record covers, restarts, doubled lines, and rates where they follow."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Protocol

from steelyard.frameworks.logs.dialect import Dialect
from steelyard.frameworks.logs.line import Origin
from steelyard.frameworks.logs.said import Setting
from steelyard.records.step import Event, Evidence, Step

_HELD = 12
"""Records held back until it is plain how far apart they are."""


@dataclass(slots=True)
class Reading:
    """A step line as read, before its place among others is known."""

    dialect: Dialect
    number: int
    reported: int
    given: Mapping[str, float]
    flags: tuple[str, ...]
    words: Mapping[str, str]
    moment: str | None
    line: int
    origin: Origin
    unreset: bool
    """Whether its version keeps counting after a first line that stands alone."""


@dataclass(slots=True)
class Job:
    """What is known of the job so far, from wherever: rates are derived where it is enough."""

    sequence_length: int | None = None
    global_batch_size: int | None = None
    world_size: int | None = None
    flops_per_token: float | None = None
    device_gib: float | None = None
    """What the card holds, for logs that give a share of it."""


class Sink(Protocol):
    """Takes what a log says, in order."""

    def step(self, series: str, step: Step) -> None: ...
    def restart(self, series: str, step: int) -> None:
        """Steps from this one on are about to be repeated."""
        ...

    def event(self, event: Event) -> None: ...
    def setting(self, setting: Setting) -> None: ...


class Gathered:
    """A sink that keeps steps and events until they are taken, for a log that is read as it is written."""

    def __init__(self) -> None:
        self._found: list[Step | Event] = []

    def step(self, series: str, step: Step) -> None:
        self._found.append(step)

    def restart(self, series: str, step: int) -> None:
        return

    def event(self, event: Event) -> None:
        self._found.append(event)

    def setting(self, setting: Setting) -> None:
        return

    def take(self) -> list[Step | Event]:
        found, self._found = self._found, []
        return found


@dataclass(slots=True)
class Progress:
    """What the series of one log have in common."""

    step: int = 0
    """The last step read."""
    steps_read: int = 0
    resumed: int | None = None
    """The step of the checkpoint the log last said it took up."""
    interval: int | None = None
    """Steps between records, once the log says so."""


class Series:
    """The steps one process prints."""

    def __init__(self, label: str, log: str, sink: Sink, job: Job, progress: Progress) -> None:
        self.label, self._log, self._sink, self._job, self._progress = label, log, sink, job, progress
        self.interval: int | None = None
        self._held: list[Reading] = []
        self._start = 0  # the step before its first record
        self._last: int | None = None
        self._last_given: Mapping[str, float] | None = None
        self._last_moment: datetime | None = None
        self._since_start = 0

    def add(self, reading: Reading) -> None:
        """The next record; it goes on once it is known how many steps it covers."""
        if self.interval is not None:
            self._emit(reading)
            return
        self._held.append(reading)
        self.interval = reading.dialect.interval or self._progress.interval
        if self.interval is None and len(self._held) >= _HELD:
            self.interval = usual_distance([one.number for one in self._held]) or 1
        if self.interval is not None:
            self._let_go()

    def end(self) -> None:
        """No more records: what was held back is let go."""
        if self._held:
            self.interval = usual_distance([one.number for one in self._held]) or 1
            self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, []
        for one in held:
            self._emit(one)

    def _emit(self, reading: Reading) -> None:
        dialect, number, given, last = reading.dialect, reading.number, reading.given, self._last
        interval = self.interval or 1
        if last is not None and number > last:
            # Where the first line after a start stands alone (core 0.16), the next one still counts its step.
            before = self._start if self._since_start == 1 and reading.unreset else last
            covered = min(number - before, interval)
        elif last is not None and number == last and given == self._last_given:
            return  # doubled
        else:
            if last is not None:
                self._restarted(reading)
            resumed = self._progress.resumed or 0
            covered = min(number - resumed if resumed < number else number, interval)
            self._start = number - covered
        covered = max(covered, 1)
        self._last, self._last_given = number, given
        self._since_start += 1
        self._progress.step = number
        self._progress.steps_read += 1
        get = given.get
        flags, loss, skipped = reading.flags, get("loss"), get("skipped")
        if self._since_start <= dialect.first_artefacts:
            flags = (*flags, "artefact")
        if dialect.absent_loss_is_nan:
            if skipped is not None and skipped >= covered:
                flags, loss = (*flags, "skipped"), loss or None
            elif loss is None:
                loss = math.nan
        tokens, seconds, tflops, memory = get("tokens"), get("step_time_s"), get("tflops"), get("memory_gib")
        job, rate = self._job, None
        if tokens is None:
            length, batch = get("sequence_length", job.sequence_length), get("global_batch_size", job.global_batch_size)
            tokens = length * batch if length and batch else None
        if dialect.timed_by_clock:
            flags = (*flags, "clocked")
            seconds = self._by_the_clock(reading.moment, covered)
        if tokens is not None and seconds and job.world_size:
            rate = tokens / seconds / job.world_size
        fraction = get("memory_fraction")
        if memory is None and fraction is not None and job.device_gib:
            memory = fraction * job.device_gib
        self._sink.step(
            self.label,
            Step(
                step=number,
                reported_step=reading.reported,
                steps_covered=covered,
                tokens=None if tokens is None else whole(tokens),
                loss=loss,
                grad_norm=get("grad_norm"),
                learning_rate=get("learning_rate"),
                step_time_s=seconds,
                tokens_per_s_per_gpu=rate,
                tflops_per_gpu=rate * job.flops_per_token / 1e12 if rate and job.flops_per_token else None,
                memory_gib=memory,
                memory_kind=None if memory is None else reading.words.get("memory_kind", dialect.memory_kind),
                memory_fraction=fraction,
                reported_tokens_per_s_per_gpu=get("tokens_per_s"),
                reported_tflops_per_gpu=tflops,
                skipped=None if skipped is None else whole(skipped),
                node=reading.origin.node,
                rank=reading.origin.rank,
                time=reading.words.get("time", reading.moment),
                source=Evidence(self._log, reading.line),
                flags=flags,
            ),
        )

    def _by_the_clock(self, time: str | None, covered: int) -> float | None:
        if time is None:
            return None
        try:
            now = datetime.fromisoformat(time)
        except ValueError:
            return None
        last, self._last_moment = self._last_moment, now
        if last is None or (last.tzinfo is None) != (now.tzinfo is None):
            return None
        seconds = (now - last).total_seconds() / covered
        return seconds if seconds > 0 else None

    def _restarted(self, reading: Reading) -> None:
        message = f"step {reading.number} comes again after step {self._last}: the last of each is kept"
        at = Evidence(self._log, reading.line)
        self._sink.event(
            Event(kind="restart", message=message, step=reading.number, node=reading.origin.node, source=at)
        )
        self._sink.restart(self.label, reading.number)
        self._since_start, self._last_moment = 0, None


def whole(value: float | None) -> int | None:
    """A count, if it is one."""
    return int(value) if value is not None and math.isfinite(value) and 0 <= value < 1e15 else None


def usual_distance(numbers: list[int]) -> int | None:
    """The commonest distance between records; the first may be shorter (1, 10, 20 …)."""
    apart = [after - before for before, after in pairwise(numbers) if after > before]
    inner = apart[1:] if len(apart) > 1 else apart
    if not inner:
        return None
    usual = max(sorted(set(inner)), key=inner.count)
    return usual if inner.count(usual) > 1 or numbers[0] in (1, usual) else 1
