"""Reads a log of any dialect, forward, once, in bounded memory: lines in, steps, events and settings out."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress, groupby, repeat
from operator import itemgetter
from typing import Any

from steelyard.errors import SteelyardError
from steelyard.frameworks.logs import bulk
from steelyard.frameworks.logs.dialect import Dialect, Place, text_of
from steelyard.frameworks.logs.fields import DIGITS, STEP_DIGITS, TARGETS, Shape, UnreadError, Values, learn
from steelyard.frameworks.logs.other_lines import OtherLines, interest, names_step_and_loss
from steelyard.frameworks.logs.prefixes import ANSI, TIME, Origin, ends, iso, pieces, unglued, unprefixed
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
_MOST_STEPS = 10**STEP_DIGITS
_BATCH, _LENGTH = TARGETS.index("global_batch_size"), TARGETS.index("sequence_length")
_SECONDS, _TFLOPS = TARGETS.index("step_time_s"), TARGETS.index("reported_tflops_per_gpu")
_GLOBAL_STEP = TARGETS.index("global_step")
_STATED_BY_STEPS = ("training.steps", "training.global_batch_size", "training.sequence_length")


@dataclass(slots=True, eq=False)
class _Learnt:
    """A step line's shape, and whose it is."""

    dialect: Dialect
    shape: Shape
    mark_at: int
    """Where its mark stood, and most likely stands again."""
    unreset: bool
    """Whether its version counts a first step that was logged by itself again."""
    moment: tuple[int, int] | None
    """Where its moment starts, counted from the mark backwards, and its length; None where it has none."""


_NEVER_SEEN: Any = object()
"""In the place of the shape of a line; None is there for one that says nothing."""


class LogReader:
    """One log. `feed` takes its lines; `end` says that there are no more."""

    def __init__(self, name: str, sink: Sink, only: str | None = None, job: Job | None = None) -> None:
        """`name` is what evidence calls the log; `only` one framework's lines are read."""
        self._name, self._sink, self._job = name, sink, job or Job()
        every = dialects()
        self._dialects = tuple(dialect for dialect in every if only is None or dialect.framework == only)
        self._by_mark: dict[re.Pattern[bytes], Dialect] = {}
        for dialect in self._dialects:
            self._by_mark.setdefault(dialect.mark, dialect)
        self._asked_for, self._interest = only is not None, interest(every)
        self._redrawn = [(dialect, dialect.redrawn) for dialect in every if dialect.redrawn is not None]
        self._rate_lines = [(dialect.name, dialect.rate_line) for dialect in every if dialect.rate_line is not None]
        self._shapes: dict[bytes, _Learnt | None] = {}
        self._kinds: dict[tuple[object, ...], _Learnt] = {}
        self._series: dict[Origin, Series] = {}
        self._series_by_prefix: dict[bytes, Series] = {}
        self._utilization: tuple[float, float] | None = None
        self._stated: tuple[float | None, ...] = (None, None, None)
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

    @property
    def _here(self) -> Evidence:
        return Evidence(self._name, self.line)

    # The fast path: lines of a shape that is known.

    def feed(self, lines: Sequence[bytes]) -> None:
        """The next lines, without their newline; those that held a secret are in `redacted` by number afterwards."""
        self.redacted.clear()
        if not lines:
            return
        numbers = range(self.line + 1, self.line + len(lines) + 1)
        texts = b"\n".join(lines).translate(None, DIGITS).split(b"\n")
        kinds = list(map(self._shapes.get, texts, repeat(_NEVER_SEEN)))
        shapes = {kind for kind in set(kinds) if kind is not None}
        if self._other_lines.tracebacks or _NEVER_SEEN in shapes or len(shapes) > 1:
            self._feed_each(lines, texts, numbers)
        elif shapes:
            self._read_alike(shapes.pop(), list(compress(lines, kinds)), list(compress(numbers, kinds)))
        self.line = numbers.stop - 1

    def _feed_each(self, lines: Sequence[bytes], texts: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Lines that are not all known; `texts` are those without their digits."""
        for learnt, alike in groupby(self._worth_reading(lines, texts, numbers), itemgetter(0)):
            if learnt is _NEVER_SEEN:  # until a line is read whose shape is known by those before it
                for _, line, number in alike:
                    self.line = number
                    self._unknown(line)
            else:
                _, its_lines, its_numbers = zip(*alike, strict=True)
                self._read_alike(learnt, its_lines, its_numbers)

    def _worth_reading(
        self, lines: Sequence[bytes], texts: Sequence[bytes], numbers: Sequence[int]
    ) -> Iterator[tuple[_Learnt, bytes, int]]:
        shapes, tracebacks = self._shapes, self._other_lines.tracebacks
        for line, text, number in zip(lines, texts, numbers, strict=True):
            learnt = shapes.get(text, _NEVER_SEEN)
            if learnt is not None:
                yield learnt, line, number
            elif tracebacks:
                self.line = number
                self._look(line)

    def _read_alike(self, learnt: _Learnt, lines: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Step lines of one shape, all at once where nothing about them is out of the ordinary."""
        dialect, shape = learnt.dialect, learnt.shape
        if len(lines) >= bulk.FEWEST and bulk.can_read(dialect) and self._utilization is None:
            self.line = numbers[-1]
            try:
                many = bulk.read_many(dialect, shape, learnt.moment, lines, numbers, self._series_of, self._stated)
            except Exception:  # noqa: BLE001 - each line is read by itself below, where a failure is recorded
                many = None
            if many is not None:
                series, rows, last_values = many
                series.take_many(rows, last_values)
                return
        for line, number in zip(lines, numbers, strict=True):
            self.line = number
            mark = dialect.mark.match(line, learnt.mark_at) or dialect.mark.search(line)
            try:
                values = shape.read(line)
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
        self._unread(redact(line)[0], message)

    def _unknown(self, line: bytes) -> None:
        short = len(line) <= _LONGEST_SHAPE
        text = ANSI.sub(b"", ends(line))
        # Whatever words its dialect declares, no line with its mark is passed over.
        telltale = self._interest.telltale if self._first is None else self._first.mark
        if self._interest.interesting.search(text) or telltale.search(text) or self._other_lines.tracebacks:
            self._look(line)
        elif short:
            self._remember(line, None)

    def _remember(self, line: bytes, learnt: _Learnt | None) -> None:
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        self._shapes[line.translate(None, DIGITS)] = learnt

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
            for text in pieces(raw):
                with self._recording_failures(text):
                    self._look_at(text)

    def _learn(self, line: bytes) -> _Learnt | None:
        """A whole step line of one dialect, read by name and remembered; None for anything else."""
        marks = ((dialect, mark) for dialect in self._by_mark.values() if (mark := dialect.mark.search(line)))
        dialect, mark = next(marks, (None, None))
        if dialect is None or mark is None or dialect.mark.search(line, mark.end()):  # none, or two glued together
            return None
        try:
            learnt, values = self._by_name(dialect, line, mark)
        except (ValueError, IndexError):
            return None
        if self._alien(learnt.dialect):
            return None
        self._first_of_shape(learnt, mark, values, line)
        return learnt

    def _by_name(self, dialect: Dialect, line: bytes, mark: re.Match[bytes]) -> tuple[_Learnt, Values]:
        """The shape and the values of a step line; ValueError or IndexError where it cannot be read."""
        shape = learn(line, mark.end(), dialect.separator, dialect.fields, dialect.texts)
        before = line[: mark.start()]
        relatives = (relative for relative in self._dialects if relative.mark is dialect.mark)
        dialect = next((relative for relative in relatives if relative.claims(shape, before)), dialect)
        if dialect.last_field is not None and dialect.last_field not in shape.labels:
            raise UnreadError(f"it ends before {dialect.last_field.decode()!r}")
        missing = [name for name in dialect.required if not shape.gives(name)]
        if missing:
            raise UnreadError(f"it has no {missing[0]}")
        if self._first is None or dialect.mark is self._first.mark:
            self.seen.setdefault(dialect.name, dialect.era(shape, before))
        time, again = TIME.search(before), dialect.counts_first_again
        moment = (mark.start() - time.start(), len(time[0])) if time else None
        unreset = again is not None and again.search(before) is not None
        if len(self._kinds) >= _MOST_SHAPES:
            self._kinds.clear()
        # Lines that differ in a sign alone (E+00, E-01) are of one kind, and are read together.
        kind = (dialect, shape, mark.start(), unreset, moment)
        return self._kinds.setdefault(kind, _Learnt(*kind)), shape.read(line)

    def _look_at(self, text: bytes) -> None:
        origin, body = unprefixed(text)
        for dialect, in_its_words in self._redrawn:
            if (shown := in_its_words(body)) is not None:
                if mark := dialect.mark.search(shown):
                    self._named_step(dialect, shown, mark, repeated=True)
                return
        for name, pattern in self._rate_lines:
            if rate := pattern.search(body):
                self.hinted.setdefault(name)
                self._utilization = float(rate["seconds"]), float(rate["tflops"])
        if self._glued(text):
            return
        place = Place(self._here, origin, self._progress.step)
        if self._other_lines.says_a_setting(body, place):
            return
        if self._interest.looks_like_a_step(body):
            self._unread(body, "it has no fields")
            return
        # A log whose framework is known, and of which no step was read yet, may have steps that nobody knows.
        waiting = (self._asked_for or self.hinted) and not self.seen
        if not self._other_lines.take(body, place) and waiting and names_step_and_loss(body):
            self._unread(body, "no reader knows it")

    def _glued(self, body: bytes) -> bool:
        """Read every step of a line, each up to where the next one starts; False where it has none."""
        marks = [(mark.start(), dialect) for dialect in self._by_mark.values() for mark in dialect.mark.finditer(body)]
        if not marks:
            return False
        marks.sort(key=itemgetter(0))
        for (_, dialect), part in zip(marks, unglued(body, [at for at, _ in marks]), strict=True):
            if mark := dialect.mark.search(part):
                self._named_step(dialect, part, mark)
        return True

    def _named_step(self, dialect: Dialect, text: bytes, mark: re.Match[bytes], repeated: bool = False) -> None:
        try:
            learnt, values = self._by_name(dialect, text, mark)
        except (ValueError, IndexError) as reason:
            self._unread(text, str(reason), int(mark["step"]) + dialect.zero_based)
            return
        if self._alien(learnt.dialect):
            self._unread(text, f"a line of {dialect.framework} in another's log")
        elif not repeated or self._progress.step != (whole(values[_GLOBAL_STEP]) or 0) + 1:  # a bar is drawn again
            self._first_of_shape(learnt, mark, values, text)

    def _alien(self, dialect: Dialect) -> bool:
        """Whether a step line is of another framework than the log's first: it belongs to no step of this run."""
        self._first = self._first or dialect
        if dialect.mark is self._first.mark:
            return False
        self.others.setdefault(dialect.name)
        return True

    def _unread(self, body: bytes, reason: str, step: int | None = None) -> None:
        self.unread += 1
        if self.unread <= MOST_UNREAD:
            which = f"step {step}: " if step is not None else ""
            message = f"{which}{reason}: {text_of(body, 200)!r}"
            self._sink.event(Event(kind="unread_line", message=message, step=step, source=self._here))

    # Steps.

    def _first_of_shape(self, learnt: _Learnt, mark: re.Match[bytes], values: Values, line: bytes) -> None:
        """Take a step line and, where it shows it, what the card holds."""
        card = learnt.dialect.card
        if card is not None and (match := card.search(line)):
            shown = match.groupdict()
            gib, used, share = (float(shown.get(name) or 0) for name in ("gib", "used", "share"))
            if min(used, share) >= 1:  # else not to 1 %: both are printed with two digits after the point
                gib = used / share * 100
            if gib:
                self._sink.setting(Setting(GPU_GIB, gib, self._here))
        self._step_line(learnt, mark, values, line)

    def _step_line(self, learnt: _Learnt, mark: re.Match[bytes], values: Values, line: bytes) -> None:
        dialect, start = learnt.dialect, mark.start()
        reported = int(mark["step"])
        total = int(mark["total"]) + dialect.zero_based if "total" in dialect.mark.groupindex else None
        if (step := values[_GLOBAL_STEP]) is not None and 0 <= step < _MOST_STEPS:
            reported = int(step)  # what the line counts may start again with every epoch
        number = reported + dialect.zero_based
        if learnt.moment is None:
            before, moment = line[:start], None
        else:
            begin = start - learnt.moment[0]
            end = begin + learnt.moment[1]
            before, moment = line[:begin] + line[end:start], iso(line[begin:end])
        if self._utilization is not None:
            self._take_utilization(*self._utilization, values)
        if total is not None and number > total:  # an epoch's or another attempt's: what was planned is not known
            total = None
            if self._stated[0] is not None:
                self._sink.setting(Setting("training.steps", None, self._here))
        stated = (total, values[_BATCH], values[_LENGTH])
        if stated != self._stated:
            self._note_stated(stated)
        series = self._series_by_prefix.get(before) or self._series_of(before, line[:start])
        flags = dialect.flags(line) if dialect.flags else ()
        words = learnt.shape.words(line) if dialect.texts else None
        series.add((dialect, number, reported, values, flags, words, moment, self.line, learnt.unreset))

    def _series_of(self, before: bytes, whole: bytes) -> Series:
        """The series of a prefix without its moment; `whole` is the prefix with it."""
        if (known := self._series_by_prefix.get(before)) is not None:
            return known
        origin = unprefixed(ANSI.sub(b"", whole))[0]
        if origin not in self._series:
            if len(self._series) >= MOST_PROCESSES:
                raise UnreadError(f"its prefix is of process {MOST_PROCESSES + 1:,} or later")
            self._series[origin] = Series(origin, self._name, self._sink, self._job, self._progress)
        if len(self._series_by_prefix) < _MOST_SHAPES:
            self._series_by_prefix[before] = self._series[origin]
        return self._series[origin]

    def _note_stated(self, stated: tuple[float | None, ...]) -> None:
        """What every step line says again is a setting the first time, and whenever it changes."""
        before, self._stated = self._stated, stated
        for key, value, earlier in zip(_STATED_BY_STEPS, stated, before, strict=True):
            if value is not None and value != earlier and (count := whole(value)):
                self._sink.setting(Setting(key, count, self._here))

    def _take_utilization(self, its_seconds: float, tflops: float, values: Values) -> None:
        """Rank 0's line of the same step, told by its time."""
        self._utilization, seconds = None, values[_SECONDS]
        if seconds is not None and values[_TFLOPS] is None and abs(its_seconds - seconds) <= 0.006 + 0.001 * seconds:
            values[_TFLOPS] = tflops

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
        series = list(self._series.values())
        return series[0] if len(series) == 1 and series[0].interval is not None else None

    @property
    def steps_read(self) -> int:
        return self._progress.steps_read

    def end(self) -> None:
        """No more lines: what was held back is let go."""
        for series in self._series.values():
            with self._recording_failures(b"the end of the log"):
                series.end()
        with self._recording_failures(b"the end of the log"):
            self._other_lines.end(self._here)
