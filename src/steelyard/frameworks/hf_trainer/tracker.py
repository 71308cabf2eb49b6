"""Makes step lines of the Trainer's dictionaries, whose steps are in progress bars, epochs and the banner."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from steelyard.frameworks.hf_trainer.dictionaries import Values, epoch_of, number_of, values_of
from steelyard.frameworks.hf_trainer.steps import Known, Numbering, Range, Record, by_bars, by_count, by_epochs
from steelyard.frameworks.logs.dialect import Place, StepLine, Tracked
from steelyard.frameworks.logs.fields import whole_number
from steelyard.frameworks.logs.prefixes import TIME, Origin, iso
from steelyard.frameworks.logs.settings import LOG_INTERVAL, Setting
from steelyard.records.step import Event

_BAR = re.compile(
    rb"^\s*(?:Train(?:ing)?:\s*)?\d{1,3}%\s?(?:\|[^|]*\|)?\s*"
    rb"(?P<step>\d{1,9})/(?P<total>\d{1,9}) \[(?P<elapsed>(?:\d{1,5}:)?\d{1,2}:\d\d)<"
)
"""A bar without a name: of the training, or of an evaluation with another total."""
_SLURM = re.compile(rb"\*\*\* (?:JOB|STEP) \S")
"""A message of Slurm, which continues the line of a bar."""
_BANNER = re.compile(rb"\*{3,} Running (?P<what>\w+)")
_IN_BANNER = {
    "examples": re.compile(rb"Num examples ?= ?(?P<value>[\d,]{1,25})"),
    "epochs": re.compile(rb"Num Epochs ?= ?(?P<value>[\d,]{1,25})"),
    "per_device": re.compile(rb"Instantaneous batch size per device ?= ?(?P<value>[\d,]{1,15})"),
    "batch": re.compile(rb"Total train batch size \([^)]*\) ?= ?(?P<value>[\d,]{1,15})"),
    "accumulated": re.compile(rb"Gradient Accumulation steps ?= ?(?P<value>[\d,]{1,15})"),
    "total": re.compile(rb"Total optimization steps ?= ?(?P<value>[\d,]{1,15})"),
}
_SETTINGS = {
    "per_device": "training.micro_batch_size",
    "batch": "training.global_batch_size",
    "accumulated": "training.gradient_accumulation_steps",
    "total": "training.steps",
}
_BY_STEPS = re.compile(rb"max_steps is given, it will override")
_INTERVAL = re.compile(rb"\blogging_steps['\"]?(?:=|: ?)(?P<value>\d{1,9})(?:\.0)?(?![\d.])")
_RESUMED = re.compile(rb"Continuing training from global step (?P<step>\d{1,12})")
_STEP_OF_TOTAL = re.compile(r"(\d{1,12})/(\d{1,12})")
_FIELDS = ("loss", "grad_norm", "learning_rate", "memory(GiB)")
_MOST_HELD = 100_000
_MOST_ORIGINS = 4096
_MOST_STEPS = 10**12 - 1
_FEWEST_PRINTED = 3
"""Records with a step that show the interval: step 1 may be logged too."""
_LONG_ENOUGH = 20.0
"""Seconds between two records, from which a clock with whole seconds gives a step time to 5%."""
MARK = b"\x00hf-trainer step %d/%d |"
"""The start of a step line that is made here; no program prints it."""


@dataclass(slots=True)
class _Dictionary(Record):
    """A dictionary with a loss, or an evaluation, until its step is known."""

    values: Values = field(default_factory=dict)
    line: int = 0
    moment: str | None = None
    bar_total: int | None = None
    place: Place | None = None

    @property
    def evaluates(self) -> bool:
        return "loss" not in self.values


@dataclass(slots=True)
class _Training:
    """The records of one training by one process."""

    known: Known = field(default_factory=Known)
    banner: dict[str, int] = field(default_factory=dict)
    in_banner: bool = False
    prefix: bytes = b""
    """What the launcher puts before its lines."""
    latest: _Dictionary | None = None
    held: list[_Dictionary] = field(default_factory=list)
    numbering: Numbering | None = None
    last: int = 0
    """The step of the last record."""
    clock: tuple[int, float] | None = None
    """Step and clock time of the last record that has one."""
    bars: dict[tuple[int, int], float] = field(default_factory=dict)
    """Seconds in the first bar of each step, by total and step."""
    bar_now: tuple[int, int] | None = None
    """Step and total of the last bar."""
    longest_bar: float = -1.0
    bar_total: int | None = None
    """Total of the bar that has run longest: that of the training."""
    next_try: int = 4


class Tracker:
    """Holds dictionaries until their steps are known, for each process of a log."""

    def __init__(self) -> None:
        self._trainings: dict[Origin, _Training] = {}

    @property
    def holds(self) -> bool:
        return any(training.held or training.last for training in self._trainings.values())

    def take(self, body: bytes, prefix: bytes, place: Place) -> Iterator[Tracked] | None:
        """The entries that a line completes; None if it is not a line of the Trainer."""
        training = self._trainings.get(place.origin)
        if training is None:
            training = _Training()
            if len(self._trainings) < _MOST_ORIGINS:
                self._trainings[place.origin] = training
        training.prefix = prefix
        bar = _BAR.match(body)
        if bar is not None:
            _take_bar(training, bar)
        values = values_of(body)
        if values is not None:
            return _dictionary(training, values, body, place)
        if bar is not None and not _SLURM.search(body):
            return _early(training)
        return _other(training, body, place)

    def end(self) -> Iterator[Tracked]:
        """The entries that are still held."""
        for training in self._trainings.values():
            yield from _release(training, ended=False)


def _dictionary(training: _Training, values: Values, body: bytes, place: Place) -> Iterator[Tracked]:
    epoch, error = epoch_of(values)
    if "train_runtime" in values:
        yield from _finish(training, values, place, Record(epoch, error))
        return
    time = TIME.search(body)
    moment = None if time is None else iso(time[0])
    before = training.bar_now[0] if training.bar_now is not None else None
    record = _Dictionary(epoch, error, before, None, values, place.evidence.line, moment, place=place)
    last, training.latest = training.latest, record
    if last is not None and _is_printed_again(record, last):
        training.latest = last
        return
    if last is not None and epoch is not None and last.epoch is not None and epoch < last.epoch - error:
        yield from _restart(training)
    training.held.append(record)
    training.in_banner = False
    yield from _early(training)


def _seconds(elapsed: bytes) -> float:
    total = 0
    for part in elapsed.split(b":"):
        total = 60 * total + int(part)
    return float(total)


def _take_bar(training: _Training, bar: re.Match[bytes]) -> None:
    step, total, elapsed = int(bar["step"]), int(bar["total"]), _seconds(bar["elapsed"])
    if elapsed >= training.longest_bar:
        training.longest_bar, training.bar_total = elapsed, total
    training.bar_now = step, total
    last = training.held[-1] if training.held else None
    if last is not None and last.bar_after is None and step:
        last.bar_after, last.bar_total = step, total
    if len(training.bars) < _MOST_HELD:
        training.bars.setdefault((total, step), elapsed)


def _is_printed_again(record: _Dictionary, last: _Dictionary) -> bool:
    """Whether a second logger prints the same record: with other digits, and a timestamp on one of them only."""
    if (record.moment is None) == (last.moment is None) or record.epoch is None or last.epoch is None:
        return False
    loss, other = number_of(record.values, "loss"), number_of(last.values, "loss")
    near = abs(record.epoch - last.epoch) <= record.error + last.error
    return near and loss is not None and other is not None and abs(loss - other) <= 1e-4 * max(1.0, abs(other))


def _other(training: _Training, body: bytes, place: Place) -> Iterator[Tracked] | None:
    """Lines of the banner, and of a restart."""
    if banner := _BANNER.search(body):
        training.in_banner = banner["what"] == b"training"
        return _restart(training) if training.in_banner else None
    if _BY_STEPS.search(body):
        training.known.by_steps = True
        return iter(())
    if resumed := _RESUMED.search(body):
        training.known.resumed = int(resumed["step"])
        return iter((place.event("resumed", body, training.known.resumed),))
    if interval := _INTERVAL.search(body):
        training.known.interval = int(interval["value"]) or None
    if training.in_banner:
        for name, pattern in _IN_BANNER.items():
            if match := pattern.search(body):
                return _of_banner(training, name, match["value"], place)
    return None


def _of_banner(training: _Training, name: str, value: bytes, place: Place) -> Iterator[Tracked]:
    text = value.replace(b",", b"")
    if not text or len(text) > 12:  # as many epochs as an integer allows: the number of steps was given
        training.known.by_steps |= name == "epochs"
        return
    number, known, banner = whole_number(text), training.known, training.banner
    banner[name] = number
    if name in ("examples", "batch", "total", "epochs"):
        setattr(known, name, number)
    if name in _SETTINGS and number:
        yield Setting(_SETTINGS[name], number, place.evidence)
    if name == "accumulated" and "batch" in banner and "per_device" in banner:
        shared = banner["per_device"] * number
        if shared and banner["batch"] % shared == 0:
            yield Setting("parallelism.data_parallel_size", banner["batch"] // shared, place.evidence)


def _restart(training: _Training) -> Iterator[Tracked]:
    """Another training begins."""
    yield from _release(training, ended=False)
    training.numbering, training.last, training.clock, training.next_try = None, 0, None, 4


# Releasing records once their steps are known.


def _early(training: _Training) -> Iterator[Tracked]:
    """Release records as soon as their steps are certain."""
    steps = [record for record in training.held if not record.evaluates]
    if not steps:
        return
    if _printed(training, steps) is not None:
        if training.numbering is not None or len(steps) >= _FEWEST_PRINTED:
            yield from _release(training, ended=False)
        return
    if training.numbering is None and len(steps) < training.next_try:
        return
    training.next_try = 2 * len(steps)
    known = training.known
    certain = training.numbering or _of_bars(steps)
    if certain is None and (known.interval or known.per_epoch() is not None):
        certain = by_epochs(steps, known)
        certain = certain if certain is not None and certain.exact else None
    if certain is not None or len(steps) >= _MOST_HELD:
        yield from _release(training, ended=False)


def _of_bars(records: list[_Dictionary]) -> Numbering | None:
    """The steps in the bars, if all bars are of one total; after the last record, none may be drawn yet."""
    drawn = records[:-1] if records[-1].bar_after is None else records
    numbering = by_bars(drawn) if len({record.bar_total for record in drawn}) == 1 else None
    if numbering is None or len(drawn) == len(records):
        return numbering
    return Numbering([*numbering.numbers, numbering.numbers[-1] + numbering.interval], numbering.interval)


def _finish(training: _Training, values: Values, place: Place, at: Record) -> Iterator[Tracked]:
    """The summary of a training: its end."""
    known, runtime, rate = (
        training.known,
        number_of(values, "train_runtime"),
        number_of(values, "train_steps_per_second"),
    )
    known.last_epoch = at
    if runtime and rate and runtime > 0 and rate > 0.0015:
        known.steps_by_rate = Range(runtime * (rate - 0.0005), runtime * (rate + 0.0005))
    yield from _release(training, ended=True)
    interval = training.numbering.interval if training.numbering else 1
    total = known.total or training.bar_total
    if total and training.last and training.last + interval <= total:  # stopped early, as the program was asked to
        yield Setting("training.steps", None, place.evidence)
    numbers = {name: number for name in values if (number := number_of(values, name)) is not None}
    message = "{" + ", ".join(f"'{name}': {text}" for name, text in values.items() if name != "quoted")[:400] + "}"
    details: dict[str, float] = {name: numbers[name] for name in ("train_runtime", "train_loss") if name in numbers}
    yield Event(kind="finished", message=message, step=training.last or None, source=place.evidence, details=details)
    training.known = Known(interval=known.interval)
    training.numbering, training.last, training.clock, training.next_try = None, 0, None, 4
    training.longest_bar, training.bar_total = -1.0, None
    training.bars.clear()


def _release(training: _Training, ended: bool) -> Iterator[Tracked]:
    """Step lines of all held records, and evaluations between them."""
    held, training.held = training.held, []
    steps = [record for record in held if not record.evaluates]
    if not steps:
        return
    known = training.known
    known.total = known.total or training.bar_total
    known.reached = max((step for total, step in training.bars if total == training.bar_total), default=None)
    numbering = _printed(training, steps) or _continued(training, steps) or _of_bars(steps) or by_epochs(steps, known)
    numbering = numbering or by_count(steps, known, ended)
    if training.numbering is None:
        at = steps[0].place
        assert at is not None
        yield Setting(LOG_INTERVAL, numbering.interval, at.evidence)
        if not numbering.exact:
            yield _approximate(numbering, at)
    training.numbering = numbering
    total = _total(steps[-1]) or known.total or 0
    numbers = iter(numbering.numbers)
    for record in held:
        if record.evaluates:
            yield from _evaluation(record, training.last)
            continue
        number = min(next(numbers), _MOST_STEPS)
        yield StepLine(_line(training, record, number, total if total >= numbering.numbers[-1] else 0), record.line)
        training.last = number


def _total(record: _Dictionary) -> int | None:
    match = _STEP_OF_TOTAL.fullmatch(record.values.get("global_step/max_steps", ""))
    return int(match[2]) if match else None


def _printed(training: _Training, steps: list[_Dictionary]) -> Numbering | None:
    """The steps that ms-swift prints in each dictionary."""
    counts = [_STEP_OF_TOTAL.fullmatch(record.values.get("global_step/max_steps", "")) for record in steps]
    numbers = [int(match[1]) for match in counts if match]
    if len(numbers) < len(steps):
        return None
    apart = [after - before for before, after in pairwise(numbers)]
    before = training.numbering.interval if training.numbering is not None else 1
    return Numbering(numbers, max((before, *apart)))


def _continued(training: _Training, steps: list[_Dictionary]) -> Numbering | None:
    """The steps that follow those already released."""
    before = training.numbering
    if before is None or not training.last:
        return None
    last = training.last if training.last % before.interval == 0 else 0
    return Numbering([last + before.interval * at for at in range(1, len(steps) + 1)], before.interval, before.exact)


def _approximate(numbering: Numbering, at: Place) -> Event:
    """A notice that the steps are not in the log."""
    message = (
        f"steps are counted, one record every {numbering.interval} steps: the log has no step numbers, and no "
        "progress bar next to its records; trainer_state.json in the output folder has them"
    )
    return Event(kind="left_out", message=message, source=at.evidence)


def _evaluation(record: _Dictionary, last: int) -> Iterator[Tracked]:
    if record.place is not None:
        loss = number_of(record.values, "eval_loss")
        details = {} if loss is None else {"loss": loss}
        message = f"evaluation: eval_loss {loss}"
        yield Event(kind="eval", message=message, step=last + 1, source=record.place.evidence, details=details)


def _line(training: _Training, record: _Dictionary, number: int, total: int) -> bytes:
    """The step line of a record."""
    moment = b"" if record.moment is None else record.moment.encode() + b" "
    parts = [f" {name}: {record.values[name]} ".encode() for name in _FIELDS if name in record.values]
    if (seconds := _seconds_per_step(training, record, number)) is not None:
        parts.append(f" step_time_s: {seconds:.6g} ".encode())
    return training.prefix + moment + MARK % (number, total) + b"|".join(parts)


def _seconds_per_step(training: _Training, record: _Dictionary, number: int) -> float | None:
    """Step time from the clock in the bar, or else before the record; None if the records are too close."""
    now = training.bars.get((training.bar_total or 0, number))
    if now is None and record.moment is not None:
        now = _since_epoch(record.moment)
    if now is None:
        return None
    before = training.clock
    if before is not None and number > before[0] and 0 <= now - before[1] < _LONG_ENOUGH:
        return None
    training.clock = number, now
    if before is None or number <= before[0] or now < before[1]:
        return None
    return (now - before[1]) / (number - before[0])


def _since_epoch(moment: str) -> float | None:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        return None
