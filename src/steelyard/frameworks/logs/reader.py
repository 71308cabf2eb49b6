"""Reads a log of any dialect, forward, once, in bounded memory: lines in, steps, events and settings out."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress, repeat

from steelyard.errors import SteelyardError
from steelyard.frameworks.logs import bulk
from steelyard.frameworks.logs.dialect import Dialect, Place, text_of
from steelyard.frameworks.logs.fields import DIGITS, TARGETS, Shape, UnreadError, Values, learn
from steelyard.frameworks.logs.interest import interest, names_step_and_loss
from steelyard.frameworks.logs.other_lines import OtherLines
from steelyard.frameworks.logs.prefixes import ANSI, TIME, Origin, iso, pieces, unprefixed
from steelyard.frameworks.logs.series import Job, Progress, Series, Sink, whole
from steelyard.frameworks.logs.settings import GPU_GIB, Setting
from steelyard.frameworks.registry import dialects
from steelyard.records.step import Event, Evidence
from steelyard.secrets import redact

_MOST_SHAPES = 4096
_LONGEST_SHAPE = 4096
MOST_UNREAD = 1000
"""Unread lines of one log that are recorded one by one; the others are counted."""
MOST_PROCESSES = 4096
"""Processes of one log whose steps are told apart: a series of each is held."""
_BATCH, _LENGTH = TARGETS.index("global_batch_size"), TARGETS.index("sequence_length")
_SECONDS, _TFLOPS = TARGETS.index("step_time_s"), TARGETS.index("reported_tflops_per_gpu")
_GLOBAL_STEP = TARGETS.index("global_step")
_SAID_BY_STEPS = ("training.steps", "training.global_batch_size", "training.sequence_length")


@dataclass(slots=True, eq=False)
class _Learnt:
    """A step line's shape, and whose it is."""

    dialect: Dialect
    shape: Shape
    mark_at: int
    """Where its mark stood, and most likely stands again."""
    unreset: bool
    moment_at: int | None
    """Where its moment starts, counted from the mark backwards; None where it has none."""
    moment_length: int


_NOBODYS = Dialect("", "", b"", re.compile(rb"(?!)"), None, {})
_NEVER_SEEN = _Learnt(_NOBODYS, Shape(None, (), (), frozenset(), False, 0), 0, False, None, 0)


class LogReader:
    """One log. `feed` takes its lines; `end` says that there are no more."""

    def __init__(self, name: str, sink: Sink, only: str | None = None, job: Job | None = None) -> None:
        """`name` is what evidence calls the log; `only` one framework's lines are read."""
        self._name, self._sink, self._job = name, sink, job or Job()
        every = dialects()
        self._dialects = tuple(one for one in every if only is None or one.framework == only)
        self._asked_for, self._interest = only is not None, interest(every)
        self._redrawn = [(one, one.redrawn) for one in every if one.redrawn is not None]
        self._rate_lines = [(one.name, one.rate_line) for one in every if one.rate_line is not None]
        self._shapes: dict[bytes, _Learnt | None] = {}
        self._kinds: dict[tuple[object, ...], _Learnt] = {}
        self._series: dict[Origin, Series] = {}
        self._series_by_prefix: dict[bytes, Series] = {}
        self._utilization: tuple[float, float] | None = None
        self._said: tuple[float | None, ...] = (None, None, None)
        self._progress = Progress(interval=self._job.log_interval)
        self._other_lines = OtherLines(sink, self._dialects, self._progress, every)
        self.unread = 0
        self.line = 0
        self.redacted: dict[int, bytes] = {}
        self.redacted_any = False
        self.seen: dict[str, str] = {}
        """Dialects whose step lines were read, each with its era."""
        self.hinted = self._other_lines.hinted
        self.others: dict[str, None] = {}
        """Frameworks whose step lines stand in the log of another."""
        self._first: Dialect | None = None

    # The fast path: lines of a shape that is known.

    def feed(self, lines: Sequence[bytes]) -> None:
        """The next lines, without their newline; those that held a secret are in `redacted` by number afterwards."""
        self.redacted.clear()
        if not lines:
            return
        texts = b"\n".join(lines).translate(None, DIGITS).split(b"\n")
        kinds = list(map(self._shapes.get, texts, repeat(_NEVER_SEEN)))
        found = {kind for kind in set(kinds) if kind is not None}
        if self._other_lines.tracebacks or _NEVER_SEEN in found or len(found) > 1:
            self._feed_each(lines, texts)
            return
        numbers = range(self.line + 1, self.line + len(lines) + 1)
        if found:
            self._read_alike(found.pop(), list(compress(lines, kinds)), list(compress(numbers, kinds)))
        self.line = numbers.stop - 1

    def _feed_each(self, lines: Sequence[bytes], texts: Sequence[bytes]) -> None:
        """Lines that are not all known; `texts` are those without their digits."""
        shapes, number, tracebacks = self._shapes, self.line, self._other_lines.tracebacks
        alike: list[bytes] = []
        numbers: list[int] = []
        shape = _NEVER_SEEN
        for line, text in zip(lines, texts, strict=True):
            number += 1
            known = shapes.get(text, _NEVER_SEEN)
            if known is None:  # seen, and says nothing
                if tracebacks:
                    self.line = number
                    self._look(line)
                continue
            if known is shape and known is not _NEVER_SEEN:
                alike.append(line)
                numbers.append(number)
                continue
            if alike:
                self._read_alike(shape, alike, numbers)
            shape = known
            if known is _NEVER_SEEN:
                alike, numbers, self.line = [], [], number
                self._unknown(line)
            else:
                alike, numbers = [line], [number]
        if alike:
            self._read_alike(shape, alike, numbers)
        self.line = number

    def _read_alike(self, learnt: _Learnt, lines: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Step lines of one shape, all at once where nothing about them is out of the ordinary."""
        if len(lines) >= bulk.FEWEST and bulk.can_read(learnt.dialect) and self._utilization is None:
            moment = None if learnt.moment_at is None else (learnt.moment_at, learnt.moment_length)
            self.line = numbers[-1]
            read = (learnt.dialect, learnt.shape, moment, lines, numbers, self._series_of, self._said)
            try:
                many = bulk.read_many(*read)
            except Exception:  # noqa: BLE001 - each line is read by itself below, where a failure is recorded
                many = None
            if many is not None:
                many.series.take_many(many.rows, many.last_values)
                return
        for line, number in zip(lines, numbers, strict=True):
            self.line = number
            mark = learnt.dialect.mark.match(line, learnt.mark_at) or learnt.dialect.mark.search(line)
            try:
                values = learnt.shape.read(line)
            except (ValueError, IndexError):
                mark = None
            if mark is None:
                self._look(line)
            else:
                try:  # not the context below, which takes a tenth of the time here
                    self._step_line(learnt, mark, values, line)
                except Exception as reason:  # noqa: BLE001 - recorded
                    self._record_failure(reason, line)

    @contextmanager
    def _recording_failures(self, line: bytes) -> Iterator[None]:
        """Record a line that a reader fails on, so that the lines after it are read."""
        try:
            yield
        except Exception as reason:  # noqa: BLE001 - recorded
            self._record_failure(reason, line)

    def _record_failure(self, reason: Exception, line: bytes) -> None:
        """Record a line as unread, whatever failed: the text is not ours.

        What the sink refuses (a setting that contradicts the command line, a full disk) is not a fault of the line.
        """
        if isinstance(reason, SteelyardError | OSError):
            raise reason
        message = str(reason) if isinstance(reason, UnreadError) else f"reading it failed ({type(reason).__name__})"
        self._unread(Evidence(self._name, self.line), redact(line)[0], message)

    def _unknown(self, line: bytes) -> None:
        short = len(line) <= _LONGEST_SHAPE
        text = line if short else _ends(line)
        if b"\x1b" in text:
            text = ANSI.sub(b"", text)
        # Whatever words its dialect declares, no line with its mark is passed over.
        telltale = self._interest.telltale if self._first is None else self._first.mark
        if self._interest.interesting.search(text) or telltale.search(text) or self._other_lines.tracebacks:
            self._look(line)
        elif short:
            self._remember(line, None)

    def _remember(self, line: bytes, what: _Learnt | None) -> None:
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        self._shapes[line.translate(None, DIGITS)] = what

    # The slow path: a line that has to be looked at.

    def _look(self, raw: bytes) -> None:
        raw, secret = redact(raw)
        if secret:
            self.redacted[self.line], self.redacted_any = raw, True
        line = raw.rstrip(b"\r")
        whole = len(line) <= _LONGEST_SHAPE and not secret and b"\r" not in line
        whole = whole and not any(pattern.search(line) for _, pattern in self._rate_lines)
        with self._recording_failures(raw):
            if whole and (learnt := self._learn(line)) is not None:
                self._remember(raw, learnt)
                return
            for text in pieces(raw if b"\r" in raw else _ends(raw)):
                with self._recording_failures(text):
                    self._look_at(_ends(text))

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
            self._note_card(learnt.dialect, line)
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
        missing = [name for name in dialect.required if not shape.gives(name)]
        if missing:
            raise UnreadError(f"it has no {missing[0]}")
        if self._first is None or dialect.mark is self._first.mark:
            self.seen.setdefault(dialect.name, dialect.era(shape, before))
        found = TIME.search(before)
        at = None if found is None else mark.start() - found.start()
        again = dialect.counts_first_again
        unreset = again is not None and again.search(before) is not None
        made = _Learnt(dialect, shape, mark.start(), unreset, at, 0 if found is None else found.end() - found.start())
        # Lines that differ in a sign alone (E+00, E-01) are of one kind, and are read together.
        places = (shape.parts, shape.plain, shape.others, shape.texts)
        kind = (dialect.name, *places, made.mark_at, unreset, at, made.moment_length)
        if len(self._kinds) >= _MOST_SHAPES:
            self._kinds.clear()
        return self._kinds.setdefault(kind, made)

    def _look_at(self, text: bytes) -> None:
        origin, body = unprefixed(text)
        evidence = Evidence(self._name, self.line)
        for dialect, in_its_words in self._redrawn:
            if (shown := in_its_words(body)) is not None:
                if mark := dialect.mark.search(shown):
                    self._named_step(dialect, shown, mark, evidence, repeated=True)
                return
        for name, pattern in self._rate_lines:
            if found := pattern.search(body):
                self.hinted.setdefault(name)
                self._utilization = float(found["seconds"]), float(found["tflops"])
        marks = [(one, mark) for one in self._own_marks() for mark in one.mark.finditer(text)]
        if marks:
            self._glued(text, marks, evidence)
            return
        place = Place(evidence, origin, self._progress.step)
        if self._other_lines.says_a_setting(body, place):
            return
        if self._interest.looks_like_a_step(body):
            self._unread(evidence, body, "it has no fields")
        elif not self._other_lines.take(body, place) and self._may_be_unknown_step(body):
            self._unread(evidence, body, "no reader knows it")

    def _may_be_unknown_step(self, body: bytes) -> bool:
        """Whether a log whose framework is known, and of which no step was read yet, has a line like one."""
        return bool(self._asked_for or self.hinted) and not self.seen and names_step_and_loss(body)

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
            self._unread(evidence, text, str(reason), int(mark["step"]) + dialect.zero_based)
            return
        if self._alien(learnt.dialect):
            self._unread(evidence, text, f"a line of {dialect.framework} in another's log")
            return
        if repeated and self._progress.step == (whole(given[_GLOBAL_STEP]) or 0) + 1:
            return  # a bar is drawn again and again
        self._note_card(learnt.dialect, text)
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
        if self.unread > MOST_UNREAD:
            return  # counted, and no longer said one by one
        which = f"step {step}: " if step is not None else ""
        message = f"{which}{reason}: {text_of(body, 200)!r}"
        self._sink.event(Event(kind="unread_line", message=message, step=step, source=evidence))

    # Steps.

    def _step_line(self, learnt: _Learnt, mark: re.Match[bytes], values: Values, line: bytes) -> None:
        dialect, start = learnt.dialect, mark.start()
        if dialect.number is None:
            number = reported = int(mark["step"])
            total: int | None = int(mark["total"])
        else:
            number, reported, total = dialect.number(mark, values)
        if learnt.moment_at is None:
            before, moment = line[:start], None
        else:
            begin = start - learnt.moment_at
            end = begin + learnt.moment_length
            before, moment = line[:begin] + line[end:start], iso(line[begin:end])
        if self._utilization is not None:
            self._take_utilization(values)
        if total is not None and number > total:
            self._beyond()
            total = None
        said = (total, values[_BATCH], values[_LENGTH])
        if said != self._said:
            self._note_said(said)
        series = self._series_by_prefix.get(before) or self._series_of(before, line[:start])
        flags = dialect.flags(line) if dialect.flags else ()
        words = learnt.shape.words(line) if dialect.texts else None
        series.add((dialect, number, reported, values, flags, words, moment, self.line, learnt.unreset))

    def _series_of(self, before: bytes, whole: bytes) -> Series:
        """The series of a prefix without its moment; `whole` is the prefix with it."""
        if (known := self._series_by_prefix.get(before)) is not None:
            return known
        origin = unprefixed(ANSI.sub(b"", whole))[0]
        series = self._series.get(origin)
        if series is None:
            if len(self._series) >= MOST_PROCESSES:
                raise UnreadError(f"its prefix is of process {MOST_PROCESSES + 1:,} or later")
            series = self._series[origin] = Series(origin, self._name, self._sink, self._job, self._progress)
        if len(self._series_by_prefix) < _MOST_SHAPES:
            self._series_by_prefix[before] = series
        return series

    def _note_said(self, said: tuple[float | None, ...]) -> None:
        """What every step line says again is a setting the first time, and whenever it changes."""
        before, self._said = self._said, said
        for key, value, earlier in zip(_SAID_BY_STEPS, said, before, strict=True):
            if value is not None and value != earlier and (count := whole(value)):
                self._sink.setting(Setting(key, count, Evidence(self._name, self.line)))

    def _note_card(self, dialect: Dialect, line: bytes) -> None:
        """What the card holds, by the first step line of a shape."""
        if (gib := dialect.card_gib(line)) is not None:
            self._sink.setting(Setting(GPU_GIB, gib, Evidence(self._name, self.line)))

    def _beyond(self) -> None:
        """A step beyond the total: that was an epoch's or another attempt's, and what was planned is not known."""
        if self._said[0] is not None:
            self._sink.setting(Setting("training.steps", None, Evidence(self._name, self.line)))

    def _take_utilization(self, values: Values) -> None:
        """Rank 0's line of the same step, told by its time."""
        said, self._utilization = self._utilization, None
        seconds = values[_SECONDS]
        if said is None or seconds is None or values[_TFLOPS] is not None:
            return
        if abs(said[0] - seconds) <= 0.006 + 0.001 * seconds:
            values[_TFLOPS] = said[1]

    def expect(self, interval: int) -> None:
        """Steps between records, where it is known from elsewhere; a share of tokens that are trained on is so too."""
        self._progress.interval, self._progress.share_known = interval, True

    def stand_at(self, line: int) -> None:
        """Go on as from this line of a log whose start was read elsewhere."""
        self.line, self.unread, self._progress.steps_read = line, 0, 0
        self.redacted.clear()
        for series in self._series.values():
            series.well_under_way()

    def one_series(self) -> Series | None:
        """The series, where there is one and how far apart its records are is known."""
        found = list(self._series.values())
        return found[0] if len(found) == 1 and found[0].interval is not None else None

    @property
    def steps_read(self) -> int:
        return self._progress.steps_read

    def end(self) -> None:
        """No more lines: what was held back is let go."""
        for series in self._series.values():
            with self._recording_failures(b"the end of the log"):
                series.end()
        with self._recording_failures(b"the end of the log"):
            self._other_lines.end(Evidence(self._name, self.line))


def _ends(line: bytes) -> bytes:
    """Of a long line, its beginning and its end."""
    return (
        line if len(line) <= 4 * _LONGEST_SHAPE else line[: 2 * _LONGEST_SHAPE] + b" ... " + line[-2 * _LONGEST_SHAPE :]
    )


_NEXT = re.compile(rb"\[\d{4}-\d\d-\d\d[^\]]*\] $")


def _start_of_next(body: bytes, mark: int) -> int:
    """Where a step glued to another starts: at its moment, if it has one."""
    found = _NEXT.search(body[max(0, mark - 40) : mark])
    return mark if found is None else max(0, mark - 40) + found.start()
