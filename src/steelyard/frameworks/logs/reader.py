"""Reads a log of any dialect, forward, once, in bounded memory: lines in, steps, events and settings out."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from steelyard.frameworks.logs import (
    fabric,
    failures,
    maxtext,
    megatron,
    megatron_bridge,
    megatron_deepspeed,
    megatron_family,
    native,
    nemo,
    primus,
    rocm_megatron,
    torchtitan,
)
from steelyard.frameworks.logs.dialect import Dialect, Place, Said, text_of
from steelyard.frameworks.logs.fields import DIGITS, Shape, UnreadError, learn
from steelyard.frameworks.logs.interest import INTERESTING, TELLTALE, looks_like_a_step
from steelyard.frameworks.logs.line import ANSI, TIME, Origin, iso, pieces, unprefixed
from steelyard.frameworks.logs.said import LOG_INTERVAL, Setting
from steelyard.frameworks.logs.secrets import redact
from steelyard.frameworks.logs.series import Job, Progress, Reading, Series, Sink, whole
from steelyard.records.step import Event, Evidence

DIALECTS: tuple[Dialect, ...] = tuple(
    module.DIALECT
    for module in (
        primus,
        megatron_deepspeed,
        megatron_bridge,
        rocm_megatron,
        megatron,
        nemo,
        maxtext,
        torchtitan,
        native,
    )
)
"""Relatives in the order they are asked: the one that tells most of itself first."""

_MOST_SHAPES = 4096
_LONGEST_SHAPE = 4096
_BORING = object()
_UNRESET = ("megatron", "primus")
_MICROSECONDS = re.compile(rb"\d\d:\d\d:\d\d\.\d{6}\]")
_NO_WORDS: Mapping[str, str] = MappingProxyType({})
_SAID_BY_STEPS = ("training.steps", "training.global_batch_size", "training.sequence_length")


@dataclass(slots=True)
class _Learnt:
    """A step line's shape, and whose it is."""

    dialect: Dialect
    shape: Shape
    unreset: bool
    moment_at: int | None
    """Where its moment starts, counted from the mark backwards; None where it has none."""
    moment_length: int


class LogReader:
    """One log. `feed` takes its lines; `end` says that there are no more."""

    def __init__(self, name: str, sink: Sink, only: str | None = None, job: Job | None = None) -> None:
        """`name` is what evidence calls the log; `only` one framework's lines are read."""
        self._name, self._sink, self._job = name, sink, job or Job()
        self._dialects = tuple(one for one in DIALECTS if only is None or one.framework == only)
        self._shapes: dict[bytes, object] = {}
        self._series: dict[str, Series] = {}
        self._origins: dict[bytes, Origin] = {}
        self._arguments = megatron_family.Arguments()
        self._configuration = maxtext.Configuration()
        self._configuring = False
        self._tracebacks: set[Origin] = set()
        self._utilization: tuple[float, float] | None = None
        self._said: tuple[float | None, ...] = (None, None, None)
        self._most_memory: dict[tuple[str, str | None], float] = {}
        self._noted: set[tuple[str, ...]] = set()
        self._progress = Progress()
        self.unread = 0
        self.line = 0
        self.redacted: dict[int, bytes] = {}
        self.seen: dict[str, str] = {}
        """Dialects whose step lines were read, each with its era."""
        self.hinted: dict[str, None] = {}
        """Dialects that other lines gave away."""
        self.others: dict[str, None] = {}
        """Frameworks whose step lines stand in the log of another."""
        self._first: Dialect | None = None

    # The fast path: lines of a shape that is known.

    def feed(self, lines: Iterable[bytes]) -> None:
        """The next lines, without their newline; those that held a secret are in `redacted` by number afterwards."""
        self.redacted.clear()
        shapes, boring, number = self._shapes, _BORING, self.line
        for line in lines:
            number += 1
            known = shapes.get(line.translate(None, DIGITS))
            if known is boring:
                continue
            self.line = number
            if known is None:
                self._unknown(line)
            else:
                self._known(known, line)  # type: ignore[arg-type]
        self.line = number

    def _known(self, learnt: _Learnt, line: bytes) -> None:
        mark = learnt.dialect.mark.search(line)
        if mark is None:
            self._look(line)
            return
        try:
            given = learnt.shape.read(line)
        except (ValueError, IndexError):
            self._look(line)
            return
        self._step_line(learnt, mark, given, line)

    def _unknown(self, line: bytes) -> None:
        short = len(line) <= _LONGEST_SHAPE
        text = line if short else line[: 8 * _LONGEST_SHAPE]
        if b"\x1b" in text:
            text = ANSI.sub(b"", text)
        if INTERESTING.search(text) or (not self.seen and TELLTALE.search(text)):
            self._look(line)
        elif short:
            self._remember(line, _BORING)

    def _remember(self, line: bytes, what: object) -> None:
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        self._shapes[line.translate(None, DIGITS)] = what

    # The slow path: a line that has to be looked at.

    def _look(self, raw: bytes) -> None:
        raw, secret = redact(raw)
        if secret:
            self.redacted[self.line] = raw
        line = raw.rstrip(b"\r")
        whole = len(line) <= _LONGEST_SHAPE and not secret and b"\r" not in line and b"MODEL_TFLOP" not in line
        if whole and (learnt := self._learn(line)) is not None:
            self._remember(raw, learnt)
            return
        for text in pieces(raw[: 16 * _LONGEST_SHAPE]):
            self._look_at(text)

    def _learn(self, line: bytes) -> _Learnt | None:
        """A whole step line of one dialect, read by name and remembered; None for anything else."""
        for dialect in self._dialects:
            mark = dialect.mark.search(line)
            if mark is None:
                continue
            if dialect.mark.search(line, mark.end()):
                return None  # glued
            try:
                learnt = self._shape_of(dialect, line, mark)
                given = learnt.shape.read(line)
            except (ValueError, IndexError):
                return None
            if self._alien(learnt.dialect):
                return None
            self._step_line(learnt, mark, given, line)
            return learnt
        return None

    def _shape_of(self, dialect: Dialect, line: bytes, mark: re.Match[bytes]) -> _Learnt:
        shape = learn(line, mark.end(), dialect.separator, dialect.fields, dialect.texts)
        before = line[: mark.start()]
        dialect = next(
            (one for one in self._dialects if one.mark is dialect.mark and one.claims(shape, before)), dialect
        )
        if dialect.last_field is not None and dialect.last_field not in shape.labels:
            raise UnreadError(f"it ends before {dialect.last_field.decode()!r}")
        given = {slot.target for slot in shape.slots}
        missing = [name for name in dialect.required if name not in given]
        if missing and not (dialect.name == "maxtext" and missing == ["step_time_s"]):
            raise UnreadError(f"it has no {missing[0]}")
        if self._first is None or dialect.mark is self._first.mark:
            self.seen.setdefault(dialect.name, dialect.era(shape, before))
        found = TIME.search(before)
        at = None if found is None else mark.start() - found.start()
        unreset = dialect.name in _UNRESET and bool(_MICROSECONDS.search(before))
        return _Learnt(dialect, shape, unreset, at, 0 if found is None else found.end() - found.start())

    def _look_at(self, text: bytes) -> None:
        origin, body = unprefixed(text)
        evidence = Evidence(self._name, self.line)
        if found := nemo.PROGRESS_BAR.search(body):
            shown = nemo.from_progress_bar(found)
            if shown is not None and (mark := nemo.DIALECT.mark.search(shown)):
                self._named_step(nemo.DIALECT, shown, mark, evidence, repeated=True)
            return
        if found := megatron_bridge.UTILIZATION.search(body):
            self.hinted.setdefault("megatron-bridge")
            self._utilization = float(found["seconds"]), float(found["tflops"])
        marks = [(one, mark) for one in self._own_marks() for mark in one.mark.finditer(text)]
        if marks:
            self._glued(text, marks, evidence)
            return
        place = Place(evidence, origin, self._progress.step)
        if self._configuring and not maxtext.PARAMETER.search(body):
            self._configuring = False
            self._say(self._configuration.end())
        if found := maxtext.PARAMETER.search(body):
            self._configuring = True
            self.hinted.setdefault("maxtext")
            self._say(self._configuration.one(found, place))
        elif found := megatron_family.ARGUMENT.match(body):
            self._say(self._arguments.one(found, place))
        elif found := megatron_family.END.search(body):
            self._say(self._arguments.end(found, place))
        elif looks_like_a_step(body):
            self._unread(evidence, body, "it has no fields")
        else:
            self._other(body, place)

    def _own_marks(self) -> Iterator[Dialect]:
        """One dialect for each way a step line starts."""
        seen: set[re.Pattern[bytes]] = set()
        for one in self._dialects:
            if one.mark not in seen:
                seen.add(one.mark)
                yield one

    def _glued(self, body: bytes, marks: list[tuple[Dialect, re.Match[bytes]]], evidence: Evidence) -> None:
        """Every step of a line, each up to where the next one starts."""
        marks.sort(key=lambda one: one[1].start())
        bounds = [mark.start() for _, mark in marks]
        starts = [0, *(_start_of_next(body, at) for at in bounds[1:])]
        for at, (dialect, _) in enumerate(marks):
            end = starts[at + 1] if at + 1 < len(starts) else len(body)
            part = body[starts[at] : end]
            mark = dialect.mark.search(part)
            if mark is not None:
                self._named_step(dialect, part, mark, evidence)

    def _named_step(
        self, dialect: Dialect, text: bytes, mark: re.Match[bytes], evidence: Evidence, repeated: bool = False
    ) -> None:
        try:
            learnt = self._shape_of(dialect, text, mark)
            given = learnt.shape.read(text)
        except (ValueError, IndexError) as reason:
            self._unread(evidence, text, str(reason), int(mark["step"]) + (dialect.name in ("nemo", "maxtext")))
            return
        if self._alien(learnt.dialect):
            self._unread(evidence, text, f"a line of {dialect.framework} in another's log")
            return
        if repeated and self._progress.step == int(given.get("global_step", -1)) + 1:
            return  # a bar is drawn again and again
        self._step_line(learnt, mark, given, text)

    def _alien(self, dialect: Dialect) -> bool:
        """Whether a step line is of another framework than the log's first: it belongs to no step of this run."""
        if self._first is None:
            self._first = dialect
        if dialect.mark is self._first.mark:
            return False
        self.others.setdefault(dialect.name)
        return True

    def _unread(self, evidence: Evidence, body: bytes, reason: str, step: int | None = None) -> None:
        self.unread += 1
        which = f"step {step}: " if step is not None else ""
        message = f"{which}{reason}: {text_of(body, 200)!r}"
        self._sink.event(Event(kind="unread_line", message=message, step=step, source=evidence))

    def _other(self, body: bytes, place: Place) -> None:
        for dialect in self._dialects:
            if dialect.name not in self.hinted and any(one.search(body) for one in dialect.companions):
                self.hinted.setdefault(dialect.name)
            for known in dialect.others:
                if found := known.pattern.search(body):
                    self._say(known.say(found, place))
                    return
        self._failure(body, place)
        if b"NCCL" in body or b"NET/" in body or b"Using network" in body:
            for event in fabric.evidence(body, place):
                self._once(event, ("fabric", event.node or "", *map(str, event.details.items())))

    def _failure(self, body: bytes, place: Place) -> None:
        if failures.TRACEBACK.search(body):
            self._tracebacks.add(place.origin)
            return
        if place.origin in self._tracebacks and (event := failures.raised(body, place)) is not None:
            self._tracebacks.discard(place.origin)
            self._once(event, (event.kind, event.node or "", str(place.origin.rank), event.message[:80]))
            return
        for event in failures.named(body, place):
            self._tracebacks.discard(place.origin)
            self._once(event, (event.kind, event.node or "", str(place.origin.rank), event.message[:80]))

    def _once(self, event: Event, key: tuple[str, ...]) -> None:
        """What is said again and again is recorded once."""
        if key not in self._noted and len(self._noted) < 10_000:
            self._noted.add(key)
            self._sink.event(event)

    def _say(self, said: Iterator[Said]) -> None:
        for one in said:
            if isinstance(one, Setting):
                if one.key == LOG_INTERVAL:
                    self._progress.interval = int(one.value)
                self._sink.setting(one)
            elif one.kind == "memory":
                key = (str(one.details["kind"]), one.node)
                if one.details["gib"] > self._most_memory.get(key, 0.0):
                    self._most_memory[key] = one.details["gib"]
                    self._sink.event(one)
            elif one.kind == "resumed":
                self._progress.resumed = one.step
                self._once(one, (one.kind, str(one.step)))
            elif one.kind in ("validating", "checkpoint", "eval"):
                self._once(one, (one.kind, str(one.step)))
            else:
                self._sink.event(one)

    # Steps.

    def _step_line(self, learnt: _Learnt, mark: re.Match[bytes], given: dict[str, float], line: bytes) -> None:
        dialect, start = learnt.dialect, mark.start()
        if dialect.number is None:
            number = reported = int(mark["step"])
            total: int | None = int(mark["total"])
        else:
            number, reported, total = dialect.number(mark, given)
        before, moment = line[:start], None
        if learnt.moment_at is not None:
            begin = start - learnt.moment_at
            end = begin + learnt.moment_length
            moment = iso(line[begin:end])
            before = line[:begin] + line[end:start]
        origin = self._origins.get(before)
        if origin is None:
            origin = self._origin_of(before, line[:start])
        reading = Reading(
            dialect,
            number,
            reported,
            given,
            dialect.flags(given, line) if dialect.flags else (),
            learnt.shape.words(line) if dialect.texts else _NO_WORDS,
            moment,
            self.line,
            origin,
            learnt.unreset,
        )
        if self._utilization is not None and "tflops" not in given:
            self._take_utilization(given)
        said = (total, given.get("global_batch_size"), given.get("sequence_length"))
        if said != self._said:
            self._note_said(said)
        series = self._series.get(origin.label)
        if series is None:
            series = self._series[origin.label] = Series(
                origin.label, self._name, self._sink, self._job, self._progress
            )
        series.add(reading)

    def _origin_of(self, before: bytes, whole: bytes) -> Origin:
        origin = unprefixed(ANSI.sub(b"", whole))[0]
        if len(self._origins) < _MOST_SHAPES:
            self._origins[before] = origin
        return origin

    def _note_said(self, said: tuple[float | None, ...]) -> None:
        """What every step line says again is a setting the first time, and whenever it changes."""
        for key, value, before in zip(_SAID_BY_STEPS, said, self._said, strict=True):
            if value is not None and value != before and (count := whole(value)):
                self._sink.setting(Setting(key, count, Evidence(self._name, self.line)))
        self._said = said

    def _take_utilization(self, given: dict[str, float]) -> None:
        """Rank 0's line of the same step, told by its time."""
        said, self._utilization = self._utilization, None
        seconds = given.get("step_time_s")
        if said is not None and seconds is not None and abs(said[0] - seconds) <= 0.006 + 0.001 * seconds:
            given["tflops"] = said[1]

    @property
    def steps_read(self) -> int:
        return self._progress.steps_read

    def end(self) -> None:
        """No more lines: what was held back is let go."""
        if self._configuring:
            self._say(self._configuration.end())
        for series in self._series.values():
            series.end()


_NEXT = re.compile(rb"\[\d{4}-\d\d-\d\d[^\]]*\] $")


def _start_of_next(body: bytes, mark: int) -> int:
    """Where a step glued to another starts: at its moment, if it has one."""
    found = _NEXT.search(body[max(0, mark - 40) : mark])
    return mark if found is None else max(0, mark - 40) + found.start()
