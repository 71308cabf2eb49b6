"""Reads a log of any dialect once, forward, in bounded memory, into steps, events and settings."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress, groupby, repeat
from operator import itemgetter
from typing import Any

from steelyard.errors import SteelyardError
from steelyard.frameworks.logs import bulk
from steelyard.frameworks.logs.attempts import Attempts
from steelyard.frameworks.logs.dialect import Dialect, Place, StepLine, StepShape, Tracked, text_of
from steelyard.frameworks.logs.fields import DIGITS, STEP_DIGITS, TARGETS, UnreadError, Values, add_utilization, learn
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
"""Unread lines of one log that are recorded; the others are only counted."""
MOST_PROCESSES = 4096
"""Processes of one log with their own series."""
_MOST_STEPS = 10**STEP_DIGITS
_BATCH, _LENGTH = TARGETS.index("global_batch_size"), TARGETS.index("sequence_length")
_GLOBAL_STEP = TARGETS.index("global_step")
_STATED_BY_STEPS = ("training.steps", "training.global_batch_size", "training.sequence_length")


_NEVER_SEEN: Any = object()
"""Marks an unknown shape; None marks the shape of lines without content."""


class LogReader:
    """Reads one log: `feed` takes lines, `end` finishes."""

    def __init__(self, name: str, sink: Sink, only: str | None = None, job: Job | None = None) -> None:
        """`name` is the log's name in evidence; `only` restricts to one framework."""
        self._name, self._sink, self._job = name, sink, job or Job()
        every = dialects()
        self._dialects = tuple(dialect for dialect in every if only is None or dialect.framework == only)
        self._by_mark: dict[re.Pattern[bytes], Dialect] = {}
        for dialect in self._dialects:
            self._by_mark.setdefault(dialect.mark, dialect)
        self._asked_for, self._interest = only is not None, interest(every)
        self._trackers = [(dialect, dialect.tracker()) for dialect in every if dialect.tracker is not None]
        self._rate_lines = [(dialect.name, dialect.rate_line) for dialect in every if dialect.rate_line is not None]
        self._shapes: dict[bytes, StepShape | None] = {}
        self._kinds: dict[tuple[object, ...], StepShape] = {}
        self._series: dict[Origin, Series] = {}
        self._series_by_prefix: dict[bytes, Series] = {}
        self._utilization: tuple[float, float] | None = None
        self._stated: tuple[float | None, ...] = (None, None, None)
        self._progress = Progress(interval=self._job.log_interval)
        self.attempts = Attempts()
        self._last_step = 0  # of the last step line, whose record may still be held back
        self._other_lines = OtherLines(sink, self._dialects, self._progress, self.attempts, every)
        self.unread = 0
        self.line = 0
        self.redacted: dict[int, bytes] = {}
        self.redacted_any = False
        self.seen: dict[str, str] = {}
        """Dialects of the step lines, each with its era."""
        self.hinted = self._other_lines.hinted
        self.others: dict[str, None] = {}
        """Other dialects whose step lines appear in this log."""
        self._first: Dialect | None = None

    @property
    def _here(self) -> Evidence:
        return Evidence(self._name, self.line)

    # The fast path: lines of a known shape.

    def feed(self, lines: Sequence[bytes]) -> None:
        """Take the next lines, without newlines. `redacted` then has the lines with secrets, by number."""
        self.redacted.clear()
        if not lines:
            return
        numbers = range(self.line + 1, self.line + len(lines) + 1)
        texts = b"\n".join(lines).translate(None, DIGITS).split(b"\n")
        kinds = list(map(self._shapes.get, texts, repeat(_NEVER_SEEN)))
        shapes = {kind for kind in set(kinds) if kind is not None}
        if self._other_lines.awaits_lines or _NEVER_SEEN in shapes or len(shapes) > 1:
            self._feed_each(lines, texts, numbers)
        elif shapes:
            self._read_alike(shapes.pop(), list(compress(lines, kinds)), list(compress(numbers, kinds)))
        self.line = numbers.stop - 1

    def _feed_each(self, lines: Sequence[bytes], texts: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Take lines of different or unknown shapes; `texts` are the lines without digits."""
        for step_shape, alike in groupby(self._worth_reading(lines, texts, numbers), itemgetter(0)):
            if step_shape is _NEVER_SEEN:  # until a line has a shape that an earlier line made known
                for _, line, number in alike:
                    self.line = number
                    self._unknown(line)
            else:
                _, its_lines, its_numbers = zip(*alike, strict=True)
                self._read_alike(step_shape, its_lines, its_numbers)

    def _worth_reading(
        self, lines: Sequence[bytes], texts: Sequence[bytes], numbers: Sequence[int]
    ) -> Iterator[tuple[StepShape, bytes, int]]:
        shapes, others = self._shapes, self._other_lines
        for line, text, number in zip(lines, texts, numbers, strict=True):
            step_shape = shapes.get(text, _NEVER_SEEN)
            if step_shape is not None:
                yield step_shape, line, number
            elif others.awaits_lines:
                self.line = number
                self._look(line)

    def _read_alike(self, step_shape: StepShape, lines: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Take step lines of one shape, all at once if they are ordinary."""
        dialect, shape = step_shape.dialect, step_shape.shape
        if len(lines) >= bulk.FEWEST and bulk.can_read(dialect) and self._utilization is None:
            self.line = numbers[-1]
            try:
                many = bulk.read_many(dialect, shape, step_shape.moment, lines, numbers, self._series_of, self._stated)
            except Exception:  # noqa: BLE001 - each line is read alone below, and failures are recorded
                many = None
            if many is not None:
                series, rows, last_values = many
                series.take_many(rows, last_values)
                self._last_step = self._progress.step
                return
        for line, number in zip(lines, numbers, strict=True):
            self.line = number
            mark = dialect.mark.match(line, step_shape.mark_at) or dialect.mark.search(line)
            try:
                values = shape.read(line)
            except (ValueError, IndexError):
                mark = None
            if mark is None:
                self._look(line)
            else:
                try:  # not the context manager below, which would take a tenth of the time
                    self._step_line(step_shape, mark, values, line)
                except Exception as reason:  # noqa: BLE001 - recorded
                    self._record_failure(reason, line)

    @contextmanager
    def _recording_failures(self, line: bytes) -> Iterator[None]:
        """Record a line that a reader fails on, so that later lines are read."""
        try:
            yield
        except Exception as reason:  # noqa: BLE001 - recorded
            self._record_failure(reason, line)

    def _record_failure(self, reason: Exception, line: bytes) -> None:
        """Record a line as unread after any failure, since the text is untrusted.

        Errors of the sink (a setting that contradicts the command line, a full disk) are raised.
        """
        if isinstance(reason, SteelyardError | OSError):
            raise reason
        message = str(reason) if isinstance(reason, UnreadError) else f"unreadable ({type(reason).__name__})"
        self._unread(redact(line)[0], message)

    def _unknown(self, line: bytes) -> None:
        short = len(line) <= _LONGEST_SHAPE
        text = ANSI.sub(b"", ends(line))
        # A line with the dialect's mark is never skipped.
        telltale = self._interest.telltale if self._first is None else self._first.mark
        if self._interest.interesting.search(text) or telltale.search(text) or self._other_lines.awaits_lines:
            self._look(line)
        elif short:
            self._remember(line, None)

    def _remember(self, line: bytes, step_shape: StepShape | None) -> None:
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        self._shapes[line.translate(None, DIGITS)] = step_shape

    # The slow path: a line that needs parsing.

    def _look(self, raw: bytes) -> None:
        raw, secret = redact(raw)
        if secret:
            self.redacted[self.line], self.redacted_any = raw, True
        line = raw.rstrip(b"\r")
        whole = len(line) <= _LONGEST_SHAPE and not secret and b"\r" not in line
        whole = whole and not any(pattern.search(line) for _, pattern in self._rate_lines)
        with self._recording_failures(raw):
            if whole and (step_shape := self._learn(line)) is not None:
                self._remember(raw, step_shape)
                return
            for text in pieces(raw):
                with self._recording_failures(text):
                    self._look_at(text)

    def _learn(self, line: bytes) -> StepShape | None:
        """Parse and remember a whole step line of one dialect; None for any other line."""
        marks = ((dialect, mark) for dialect in self._by_mark.values() if (mark := dialect.mark.search(line)))
        dialect, mark = next(marks, (None, None))
        if dialect is None or mark is None or dialect.mark.search(line, mark.end()):  # none, or two joined lines
            return None
        try:
            step_shape, values = self._by_name(dialect, line, mark)
        except (ValueError, IndexError):
            return None
        if self._alien(step_shape.dialect):
            return None
        self._first_of_shape(step_shape, mark, values, line)
        return step_shape

    def _by_name(self, dialect: Dialect, line: bytes, mark: re.Match[bytes]) -> tuple[StepShape, Values]:
        """Shape and values of a step line; ValueError or IndexError if unreadable."""
        shape = learn(line, mark.end(), dialect.separator, dialect.fields, dialect.texts)
        before = line[: mark.start()]
        relatives = (relative for relative in self._dialects if relative.mark is dialect.mark)
        dialect = next((relative for relative in relatives if relative.claims(shape, before)), dialect)
        if dialect.last_field is not None and dialect.last_field not in shape.labels:
            raise UnreadError(f"ends before {dialect.last_field.decode()!r}")
        missing = [name for name in dialect.required if not shape.gives(name)]
        if missing:
            raise UnreadError(f"{missing[0]} missing")
        if self._first is None or dialect.mark is self._first.mark:
            self.seen.setdefault(dialect.name, dialect.era(shape, before))
        time, again = TIME.search(before), dialect.counts_first_again
        moment = (mark.start() - time.start(), len(time[0])) if time else None
        unreset = again is not None and again.search(before) is not None
        if len(self._kinds) >= _MOST_SHAPES:
            self._kinds.clear()
        # Lines that differ only in a sign (E+00, E-01) are of one kind and read together.
        kind = (dialect, shape, mark.start(), unreset, moment)
        return self._kinds.setdefault(kind, StepShape(*kind)), shape.read(line)

    def _look_at(self, text: bytes) -> None:
        origin, body = unprefixed(text)
        place = Place(self._here, origin, self._last_step)
        prefix = text[: len(text) - len(body)]
        tracked = any(self._tracked(of, tracker.take(body, prefix, place)) for of, tracker in self._trackers)
        if self._interest.start.search(body) and self.attempts.begin(self.line):
            self._shapes.clear()  # so that its first step is read alone
        if tracked:
            return
        for name, pattern in self._rate_lines:
            if rate := pattern.search(body):
                self.hinted.setdefault(name)
                self._utilization = float(rate["seconds"]), float(rate["tflops"])
        if self._glued(text) or self._other_lines.says_a_setting(body, place):
            return
        if self._interest.looks_like_a_step(body):
            self._unread(body, "no fields")
            return
        # If the framework is known but no step was read yet, steps may have an unknown format.
        waiting = (self._asked_for or self.hinted) and not self.seen
        if not self._other_lines.take(body, place) and waiting and names_step_and_loss(body):
            self._unread(body, "unknown format")

    def _glued(self, body: bytes) -> bool:
        """Read all steps of a line; False if it has none."""
        marks = [(mark.start(), dialect) for dialect in self._by_mark.values() for mark in dialect.mark.finditer(body)]
        if not marks:
            return False
        marks.sort(key=itemgetter(0))
        for (_, dialect), part in zip(marks, unglued(body, [at for at, _ in marks]), strict=True):
            if mark := dialect.mark.search(part):
                self._named_step(dialect, part, mark)
        return True

    def _named_step(self, dialect: Dialect, text: bytes, mark: re.Match[bytes]) -> None:
        try:
            step_shape, values = self._by_name(dialect, text, mark)
        except (ValueError, IndexError) as reason:
            self._unread(text, str(reason), int(mark["step"]) + dialect.zero_based)
            return
        if self._alien(step_shape.dialect):
            self._unread(text, f"a line of {dialect.framework} in the log of another framework")
        else:
            self._first_of_shape(step_shape, mark, values, text)

    def _tracked(self, dialect: Dialect, entries: Iterable[Tracked] | None) -> bool:
        """Take what a tracker made of a line; False if the line is not one of its own."""
        here = self.line
        for entry in entries or ():
            if not isinstance(entry, StepLine):
                self._other_lines.note(entry)
            elif not self._alien(dialect) and (mark := dialect.mark.search(entry.text)):
                self.line = entry.line
                self._named_step(dialect, entry.text, mark)
                self.line = here
        return entries is not None

    def _alien(self, dialect: Dialect) -> bool:
        """Whether a step line is of another framework than the first step line, so not part of this run."""
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

    def _first_of_shape(self, step_shape: StepShape, mark: re.Match[bytes], values: Values, line: bytes) -> None:
        """Take a step line and the GPU's memory size in it, if any."""
        card = step_shape.dialect.card
        if card is not None and (match := card.search(line)):
            shown = match.groupdict()
            gib, used, share = (float(shown.get(name) or 0) for name in ("gib", "used", "share"))
            if min(used, share) >= 1:  # below 1, two decimals are not precise enough
                gib = used / share * 100
            if gib:
                self._sink.setting(Setting(GPU_GIB, gib, self._here))
        self._step_line(step_shape, mark, values, line)

    def _step_line(self, step_shape: StepShape, mark: re.Match[bytes], values: Values, line: bytes) -> None:
        dialect, start = step_shape.dialect, mark.start()
        reported = int(mark["step"])
        total = int(mark["total"]) + dialect.zero_based if "total" in dialect.mark.groupindex else None
        if (step := values[_GLOBAL_STEP]) is not None and 0 <= step < _MOST_STEPS:
            reported = int(step)  # the line's own count may restart with each epoch
        number = reported + dialect.zero_based
        if step_shape.moment is None:
            before, moment = line[:start], None
        else:
            begin = start - step_shape.moment[0]
            end = begin + step_shape.moment[1]
            before, moment = line[:begin] + line[end:start], iso(line[begin:end])
        if self._utilization is not None:
            add_utilization(*self._utilization, values)
            self._utilization = None
        if total is not None and number > total:  # the total of an epoch or of another attempt
            total = None
            if self._stated[0] is not None:
                self._sink.setting(Setting("training.steps", None, self._here))
        stated = (total, values[_BATCH], values[_LENGTH])
        if stated != self._stated:
            self._note_stated(stated)
        self.attempts.step(number)
        self._last_step = number
        series = self._series_by_prefix.get(before) or self._series_of(before, line[:start])
        flags = dialect.flags(line) if dialect.flags else ()
        words = step_shape.shape.words(line) if dialect.texts else None
        series.add((dialect, number, reported, values, flags, words, moment, self.line, step_shape.unreset))

    def _series_of(self, before: bytes, whole: bytes) -> Series:
        """The series of a prefix without its timestamp; `whole` is the prefix with it."""
        if (known := self._series_by_prefix.get(before)) is not None:
            return known
        origin = unprefixed(ANSI.sub(b"", whole))[0]
        if origin not in self._series:
            if len(self._series) >= MOST_PROCESSES:
                raise UnreadError(f"more than {MOST_PROCESSES:,} processes")
            self._series[origin] = Series(origin, self._name, self._sink, self._job, self._progress)
        if len(self._series_by_prefix) < _MOST_SHAPES:
            self._series_by_prefix[before] = self._series[origin]
        return self._series[origin]

    def _note_stated(self, stated: tuple[float | None, ...]) -> None:
        """Record the values that each step line repeats, at first and when they change."""
        before, self._stated = self._stated, stated
        for key, value, earlier in zip(_STATED_BY_STEPS, stated, before, strict=True):
            if value is not None and value != earlier and (count := whole(value)):
                self._sink.setting(Setting(key, count, self._here))

    def expect(self, interval: int) -> None:
        """Set the known log interval, and skip the share of trained tokens, which is known too."""
        self._progress.interval, self._progress.share_known = interval, True

    def stand_at(self, line: int) -> None:
        """Continue at this line of a log whose start was read elsewhere."""
        self.line, self.unread, self._progress.steps_read = line, 0, 0
        self.redacted.clear()
        for series in self._series.values():
            series.well_under_way()

    def one_series(self) -> Series | None:
        """The series, if there is exactly one and its interval is known."""
        series, held = list(self._series.values()), any(tracker.holds for _, tracker in self._trackers)
        return series[0] if len(series) == 1 and series[0].interval is not None and not held else None

    @property
    def steps_read(self) -> int:
        return self._progress.steps_read

    def end(self) -> None:
        """Finish: release records that were held back."""
        for dialect, tracker in self._trackers:
            with self._recording_failures(b"the end of the log"):
                self._tracked(dialect, tracker.end())
        for series in self._series.values():
            with self._recording_failures(b"the end of the log"):
                series.end()
        with self._recording_failures(b"the end of the log"):
            self._other_lines.end(self._here)
