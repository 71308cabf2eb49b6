"""The steps of one process: steps per record, restarts, repeated lines, and computed rates."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from operator import itemgetter
from statistics import median, median_low
from typing import Any, Protocol

from steelyard.frameworks.logs.dialect import Dialect
from steelyard.frameworks.logs.fields import OTHER_LOSS, TARGETS, Values
from steelyard.frameworks.logs.prefixes import Origin
from steelyard.frameworks.logs.settings import TRAINED_SHARE, Setting
from steelyard.records.rows import StepRows
from steelyard.records.step import COUNTS, Event, Evidence, Step

_WELL_UNDER_WAY = 1000
_NEAR_A_START = 4
_MOST = 1e15
_LOSS, _SECONDS, _TOKENS, _SKIPPED = map(TARGETS.index, ("loss", "step_time_s", "tokens", "skipped"))
_MEMORY, _MEMORY_FRACTION = TARGETS.index("memory_gib"), TARGETS.index("memory_fraction")
_BATCH, _LENGTH = TARGETS.index("global_batch_size"), TARGETS.index("sequence_length")
_CONSUMED, _TRAINED = TARGETS.index("consumed_samples"), TARGETS.index("trained_tokens")
_OTHER_LOSS = TARGETS.index(OTHER_LOSS)
_COUNTS = tuple(map(TARGETS.index, COUNTS))
_OWN = ("step", "reported_step", "steps_covered", "tokens_per_s_per_gpu", "tflops_per_gpu", "memory_kind", "flags")
_PLACE = ("time", "node", "rank", "source")
_as_fields = itemgetter(*map((*TARGETS, *_OWN, *_PLACE).index, Step.__struct_fields__))
"""Step fields from the values of a line, `_OWN` and `_PLACE`, by position: twice as fast as by name."""
_SHARES = 8
"""Records after which the share of trained tokens is recorded."""
_HELD = 12
"""Records held back until the log interval is clear."""
_ENOUGH_APART = 5
"""Distances between records; a single odd one, such as at the end of an epoch, is ignored."""
_FEWEST_APART = 2
_UNLIKE = 0.02

Reading = tuple[Dialect, int, int, Values, tuple[str, ...], Mapping[str, str] | None, str | None, int, bool]
"""A step line before its interval is known: dialect, step, printed step, values, flags, texts, timestamp, line, and
whether its version counts a separate first step again. A tuple, since there are millions."""


@dataclass(slots=True)
class Job:
    """What is known about the job so far; rates are computed from it."""

    sequence_length: int | None = None
    global_batch_size: int | None = None
    world_size: int | None = None
    flops_per_token: float | None = None
    device_gib: float | None = None
    """Memory size of the GPU, for logs with shares."""
    log_interval: int | None = None
    """Steps between records, if the plan sets it; then no record is held back."""


class Sink(Protocol):
    """Receives the content of a log, in order."""

    def step(self, series: str, step: Step) -> None: ...
    def steps(self, series: str, steps: StepRows) -> None: ...
    def restart(self, series: str, step: int) -> None:
        """Steps from this one on will be repeated."""
        ...

    def event(self, event: Event) -> None: ...
    def setting(self, setting: Setting) -> None: ...


class Gathered:
    """A sink that keeps steps and events until they are taken, for a log that is read while written."""

    def __init__(self, events_of: Callable[[Setting], Iterable[Event]] = lambda setting: ()) -> None:
        """`events_of` makes events of each setting, before the steps that follow."""
        self._records: list[Step | Event] = []
        self._events_of = events_of

    def step(self, series: str, step: Step) -> None:
        self._records.append(step)

    def steps(self, series: str, steps: StepRows) -> None:
        self._records.extend(steps)

    def restart(self, series: str, step: int) -> None:
        return

    def event(self, event: Event) -> None:
        self._records.append(event)

    def setting(self, setting: Setting) -> None:
        self._records.extend(self._events_of(setting))

    def take(self) -> list[Step | Event]:
        records, self._records = self._records, []
        return records


@dataclass(slots=True)
class Progress:
    """State that all series of one log share."""

    step: int = 0
    """The last step read."""
    steps_read: int = 0
    resumed: int | None = None
    """The step of the last loaded checkpoint."""
    interval: int | None = None
    """Steps between records, if logged."""
    share_known: bool = False
    """Whether the share of trained tokens is recorded."""


class _Consumed:
    """Checks that consumed samples grow by the logged batch size, over the first records after a start."""

    def __init__(self) -> None:
        self._before: tuple[int, float, float] | None = None
        self._grown: list[float] = []
        self._records = 0
        self.settled = False

    @property
    def pending(self) -> bool:
        """Whether more records are needed."""
        return self._before is not None and not self.settled

    def take(self, step: int, batch: float | None, consumed: float | None) -> float | None:
        """Take a record; once clear, return the samples per step if they differ from the batch size."""
        if batch is None or consumed is None or (self._before is not None and step == self._before[0]):
            return None
        before, self._before = self._before, (step, batch, consumed)
        if before is None or step < before[0] or batch != before[1]:
            self._grown, self._records, self.settled = [], 0, False
            return None
        if self.settled:
            return None
        self._records += 1
        if consumed > before[2]:  # ignore a counter that was reset or does not change
            self._grown.append((consumed - before[2]) / (step - before[0]))
        return self.end() if self._records >= _ENOUGH_APART else None

    def end(self) -> float | None:
        """Finish: the samples per step if they differ from the batch size."""
        if self._before is None or self.settled:
            return None
        self.settled = True
        if len(self._grown) < _FEWEST_APART:
            return None
        samples_per_step = median_low(self._grown)
        return samples_per_step if abs(samples_per_step - self._before[1]) > _UNLIKE * self._before[1] else None


class Series:
    """The steps of one process."""

    def __init__(self, origin: Origin, log: str, sink: Sink, job: Job, progress: Progress) -> None:
        self.label, self.origin = origin.label, origin
        self.log, self._sink, self.job, self._progress = log, sink, job, progress
        self.interval: int | None = None
        self._held: list[Reading] = []
        self._start = 0  # the step before its first record
        self._last: int | None = None
        self._last_values: Values | None = None
        self._last_line = 0
        self._last_moment: datetime | None = None
        self._last_covered = 1
        self._since_start = 0
        self._repeated = False
        self._had_loss = False
        self._consumed = _Consumed()
        self._shares: list[float] = []

    def add(self, reading: Reading) -> None:
        """Take a record; it is emitted once the number of covered steps is known."""
        if self.interval is not None and not self._held:
            self._emit(reading)
            return
        self._held.append(reading)
        self.interval = self.interval or reading[0].interval or self._progress.interval
        if self.interval is not None or len(self._held) >= _HELD:
            self._let_go()

    def end(self) -> None:
        """Finish: emit held-back records."""
        self._let_go()
        self._note_consumed(self._consumed.end())
        if self._shares:
            self._note_share()

    def well_under_way(self) -> None:
        """Skip the checks at the start of a series."""
        self._since_start = max(self._since_start, _WELL_UNDER_WAY)
        self._consumed.settled = True

    def ordinary(self, step: int) -> int | None:
        """The interval, if this step follows the last one at that distance, not near a start; else None."""
        if self.interval is None or self._last is None or self._since_start <= _NEAR_A_START or self._consumed.pending:
            return None
        return self.interval if step == self._last + self.interval else None

    def take_many(self, steps: StepRows, last_values: Values) -> None:
        """Take many ordinary records."""
        last = steps[-1]
        self._last, self._last_values = last.step, last_values
        self._since_start += len(steps)
        self._last_covered = last.steps_covered
        self._progress.step = last.step
        self._progress.steps_read += len(steps)
        self._sink.steps(self.label, steps)

    def _let_go(self) -> None:
        if self._held and self.interval is None:
            self.interval = _usual_distance([reading[1] for reading in self._held])
        while self._held:  # if one record fails, the others are still emitted
            self._emit(self._held.pop(0))

    def _steps_covered(self, reading: Reading) -> int | None:
        """Number of steps of a record; None if it is the last record printed twice."""
        dialect, number, _, values, _, _, _, line, unreset = reading
        last, interval = self._last, number if dialect.interval_varies else self.interval or 1
        if last is not None and number > last:
            # If the first step is logged alone (core 0.16), the next record counts it again.
            covered = number - (self._start if unreset and self._since_start == 1 else last)
        elif number == last:
            if values == self._last_values:
                return None
            self._print_again(number, line)
            covered = self._last_covered
        else:
            if last is not None:
                self._restart(number, line)
            resumed = self._progress.resumed or 0
            covered = number - resumed if resumed < number else number
            self._start = number - min(covered, interval)
        covered = max(min(covered, interval), 1)
        skips = values[_SKIPPED] or 0.0
        return int(skips) if covered < skips <= number else covered  # more skipped steps than assumed covered

    def _emit(self, reading: Reading) -> None:
        dialect, number, reported, values, flags, words, moment, line, _ = reading
        last, before, covered = self._last, self._last_values, self._steps_covered(reading)
        if covered is None:
            return
        self._last_covered = covered
        self._last, self._last_values, self._last_line = number, values, line
        self._note_consumed(self._consumed.take(number, values[_BATCH], values[_CONSUMED]))
        self._since_start += 1
        self._progress.step = number
        self._progress.steps_read += 1
        row: list[Any] = values.copy()
        if before is not None and last is not None and number - last == covered:
            row[_BATCH] = _mean_batch(before, values, covered)
        if self._since_start <= dialect.first_artefacts:
            flags = (*flags, "artefact")
        if dialect.absent_loss_is_nan:
            if (skipped := values[_SKIPPED]) is not None and skipped >= covered:
                flags, row[_LOSS] = (*flags, "skipped"), values[_LOSS] or None
            elif values[_LOSS] is None and (self._had_loss or not math.isfinite(values[_OTHER_LOSS] or math.nan)):
                row[_LOSS] = math.nan
        self._had_loss = self._had_loss or values[_LOSS] is not None
        if dialect.negative_loss_is_none and (values[_LOSS] or 0.0) < 0:
            row[_LOSS] = None
        if dialect.timed_by_clock:
            flags, row[_SECONDS] = (*flags, "clocked"), self._by_the_clock(moment, covered)
        rate, tflops = self._derive(row, flags)
        kind = None if row[_MEMORY] is None else dialect.memory_kind
        if words is not None:
            kind, moment = words.get("memory_kind", kind), words.get("time", moment)
        for at in _COUNTS:
            row[at] = whole(row[at])
        own = (number, reported, covered, rate, tflops, kind, flags)
        place = (moment, self.origin.node, self.origin.rank, Evidence(self.log, line))
        self._sink.step(self.label, Step(*_as_fields((*row, *own, *place))))

    def _derive(self, row: list[Any], flags: tuple[str, ...]) -> tuple[float | None, float | None]:
        """Fill in tokens and memory of a step from the job; return computed rates."""
        job = self.job
        if row[_TOKENS] is None:
            length, batch = row[_LENGTH] or job.sequence_length, row[_BATCH] or job.global_batch_size
            row[_TOKENS] = length * batch if length and batch else None
        if row[_MEMORY] is None and row[_MEMORY_FRACTION] is not None and job.device_gib:
            row[_MEMORY] = row[_MEMORY_FRACTION] * job.device_gib
        tokens, seconds = row[_TOKENS], row[_SECONDS]
        if tokens and row[_TRAINED] and "rampup" not in flags and not self._progress.share_known:
            self._shares.append(row[_TRAINED] / tokens)
            if len(self._shares) >= _SHARES:
                self._note_share()
        if tokens is None or not seconds or not job.world_size:
            return None, None
        rate = tokens / job.world_size / seconds
        return rate, rate * (job.flops_per_token / 1e12) if rate and job.flops_per_token else None

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

    def _print_again(self, number: int, line: int) -> None:
        """Handle a step printed again with other values, probably by two processes writing to one file."""
        self._since_start -= 1
        if not self._repeated:
            message = f"step {number:,} repeats with other values; the last record of each step is used"
            self._event("repeated", message, number, line)
        self._repeated = True
        self._sink.restart(self.label, number)

    def _restart(self, number: int, line: int) -> None:
        message = f"step {number:,} follows step {self._last:,}; the last record of each step is used"
        self._event("restart", message, number, line)
        self._sink.restart(self.label, number)
        self._since_start, self._last_moment = 0, None
        self._consumed = _Consumed()

    def _note_share(self) -> None:
        """Record the share of trained tokens: rates also count padding and masked tokens."""
        share, self._shares = median(self._shares), []
        if share <= 1 and not self._progress.share_known:
            self._sink.setting(Setting(TRAINED_SHARE, round(share, 3), Evidence(self.log, self._last_line)))
        self._progress.share_known = True

    def _note_consumed(self, samples_per_step: float | None) -> None:
        """Report consumed samples that contradict the batch size: one of them is wrong."""
        if samples_per_step is None or self._last_values is None:
            return
        batch = self._last_values[_BATCH]
        message = (
            f"consumed samples grow by {samples_per_step:,.10g} per step, but the logged batch size is {batch:,.10g}"
        )
        self._event("samples_differ", message, self._last, self._last_line, consumed=samples_per_step, said=batch)

    def _event(self, kind: str, message: str, step: int | None, line: int, **details: float | None) -> None:
        at, node = Evidence(self.log, line), self.origin.node
        self._sink.event(Event(kind=kind, message=message, step=step, node=node, source=at, details=details))


def _mean_batch(before: Values, values: Values, covered: int) -> float | None:
    """The mean batch size of a record during a ramp-up, from consumed samples."""
    batch, consumed, already = values[_BATCH], values[_CONSUMED], before[_CONSUMED]
    if batch == before[_BATCH] or consumed is None or already is None or not consumed > already:
        return batch
    return (consumed - already) / covered


def whole(value: float | None) -> int | None:
    """A count as an integer; None if it is not one."""
    return int(value) if value is not None and 0 <= value < _MOST else None


def _usual_distance(numbers: list[int]) -> int:
    """The most common distance between records; the first may be shorter (1, 10, 20 …)."""
    apart = [after - before for before, after in pairwise(numbers) if after > before]
    inner = apart[1:] or apart or [1]
    usual = max(sorted(set(inner)), key=inner.count)
    return usual if inner.count(usual) > 1 or numbers[0] in (1, usual) else 1
