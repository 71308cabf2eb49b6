"""Reads all lines that are not steps: settings, memory, checkpoints, failures, network, end of the run."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from steelyard import secrets
from steelyard.accounting.stragglers import LEAST_STEPS
from steelyard.frameworks.logs import failures
from steelyard.frameworks.logs.attempts import Attempts
from steelyard.frameworks.logs.dialect import Dialect, Dump, Entry, Place
from steelyard.frameworks.logs.prefixes import Origin
from steelyard.frameworks.logs.series import Progress, Sink
from steelyard.frameworks.logs.settings import LOG_INTERVAL, Setting
from steelyard.records.step import Event, Evidence

_MOST_NOTED = 10_000
"""Limit of remembered facts of each kind."""
_AWAITED, _OPEN, _ENDED = range(3)
_LONGEST_CUT = 1000
ENDS = ("finished", "exited_early", "data_ended", "launcher_finished")
"""Events of the end of a program."""

_NETWORK_WORDS = (rb"NCCL", rb"Using network", rb"NET/")
"""Texts in lines of NCCL or RCCL about the network."""
_NETWORK = (
    (
        "asked",
        re.compile(
            rb"\b(?:NCCL_IB_HCA|NCCL_NET)[\"']?(?: set by environment to| set to|\s*[=:])\s*[\"']?([^\s;\"',]+)"
        ),
    ),
    ("network", re.compile(rb"NET/(IB|Socket|OFI|AWS Libfabric)\s*:\s*Using \S")),
    ("network", re.compile(rb"Using network ([\w/.-]+)")),
)
_NETWORK_HOST = re.compile(rb"([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] NCCL INFO")

_NOT_A_STEP = re.compile(rb"\bsaved|\bsaving|checkpoint", re.I)
_STEP = re.compile(rb"(?i:\b(?:global_?)?(?:steps?|it|iter|iterations?)\b[^A-Za-z]{0,4}\d)")
_LOSS = re.compile(rb"(?i:loss\b[^A-Za-z]{0,4}(?:\d|nan\b|inf\b))")
_NOT_OF_TRAINING = re.compile(rb"\bsaved|\bsaving|checkpoint|ckpt|eval|valid|\bval_|\btest", re.I)
_GROUP_NAME = re.compile(rb"\?P<\w+>")


@dataclass(frozen=True, slots=True)
class Interest:
    """Quick tests for lines that need parsing, from the patterns of dialects, failures and secrets."""

    interesting: re.Pattern[bytes]
    """Matches lines with content. It ignores digits, so that the result holds for all lines of a shape."""
    telltale: re.Pattern[bytes]
    """Matches lines that identify a dialect, and possible steps of unknown versions; used until the first step."""
    opening: re.Pattern[bytes]
    start: re.Pattern[bytes]
    """Matches what a program prints when it starts."""

    def looks_like_a_step(self, body: bytes) -> bool:
        """Whether a line starts like a step line; if it is unreadable, it is reported."""
        return bool(self.opening.search(body)) and not _NOT_A_STEP.search(body)


def names_step_and_loss(body: bytes) -> bool:
    """Whether a line contains a step number and a loss, as step lines of unknown versions do."""
    return bool(_STEP.search(body) and _LOSS.search(body) and not _NOT_OF_TRAINING.search(body))


@cache
def interest(dialects: tuple[Dialect, ...]) -> Interest:
    """The quick tests for these dialects."""
    words = (pattern for dialect in dialects for pattern in dialect.words)
    marks = (_GROUP_NAME.sub(b"?:", dialect.mark.pattern) for dialect in dialects)
    telltales = (pattern for dialect in dialects for pattern in dialect.telltales)
    starts = [dialect.start for dialect in dialects]
    return Interest(
        _any((*words, *starts, *failures.WORDS, *_NETWORK_WORDS, *secrets.LOG_WORDS)),
        _any((*telltales, *marks, _LOSS.pattern)),
        _any(dialect.opening for dialect in dialects),
        _any(starts),
    )


def _any(patterns: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(dict.fromkeys(patterns)) or rb"(?!)")


class OtherLines:
    """Takes the lines of one log that are not steps, in order."""

    def __init__(
        self,
        sink: Sink,
        dialects: Sequence[Dialect],
        progress: Progress,
        attempts: Attempts,
        every: Sequence[Dialect],
    ) -> None:
        """`dialects` are read; settings are recognized in the format of `every` dialect."""
        self._sink, self._progress, self._attempts = sink, progress, attempts
        self._dialects = [
            (
                dialect.name,
                _any(dialect.companions),
                [(re.compile(line), handler) for line, handler in dialect.others.items()],
            )
            for dialect in dialects
        ]
        dumps: list[Dump] = [make() for make in dict.fromkeys(dialect.dump for dialect in every if dialect.dump)]
        self._dumps = sorted(dumps, key=lambda dump: dump.identifies is None)
        self._most_memory: dict[tuple[str, str | None], float] = {}
        self._memory_again: dict[tuple[str, str | None], Event] = {}
        self._slowest: Counter[int] = Counter()
        """How often each rank was reported as much slower than the fastest."""
        self._noted: set[tuple[str, ...]] = set()
        self.tracebacks: set[Origin] = set()
        """Origins with an open traceback; any line may end it."""
        self._barriers: dict[Origin, int] = {}
        """The state of tracebacks of a failed exit barrier, which are not failures."""
        self._cut_pattern = _any(dialect.cut for dialect in dialects)
        self._cut = (b"", 0)
        """The start of a line that was broken in two, and its number."""
        self.hinted: dict[str, None] = {}
        """Dialects that these lines identify."""

    def says_a_setting(self, body: bytes, place: Place) -> bool:
        """Take a line of a dump of settings; False for any other line."""
        taken = ((dump, entries) for dump in self._dumps if (entries := dump.take(body, place)) is not None)
        its_dump, settings = next(taken, (None, None))
        for dump in self._dumps:
            if dump is not its_dump:
                self._record(dump.close())
        if its_dump is None or settings is None:
            return False
        if its_dump.identifies is not None:
            self.hinted.setdefault(its_dump.identifies)
        self._record(settings)
        return True

    @property
    def _starts(self) -> str:
        """The number of starts; a repeated line after another start is a new event."""
        return str(sum(dump.ended for dump in self._dumps))

    def take(self, body: bytes, place: Place) -> bool:
        """Take a line of any other kind; False if it has no content."""
        whole = self._joined(body, place.evidence.line)
        for name, companions, others in self._dialects:
            if name not in self.hinted and companions.search(body):
                self.hinted.setdefault(name)
            for pattern, handler in others:
                if match := pattern.search(whole):
                    self._record(handler(match, place))
                    return True
        has_content = self._failure(body, place)
        if any(word in body for word in _NETWORK_WORDS) and (event := _network(body, place)) is not None:
            self._once(event, "fabric", event.node or "", *map(str, event.details.items()))
            has_content = True
        return has_content

    @property
    def awaits_lines(self) -> bool:
        """Whether the next lines must be read, whatever they contain."""
        return bool(self.tracebacks or self._cut[0])

    def _joined(self, body: bytes, number: int) -> bytes:
        """The line, after the start of it on the line before."""
        before, at = self._cut
        whole = before + body if before and number == at + 1 else body
        self._cut = (whole, number) if len(whole) < _LONGEST_CUT and self._cut_pattern.search(whole) else (b"", 0)
        return whole

    def note(self, entry: Entry) -> None:
        """Take an entry that a tracker made."""
        self._record((entry,))

    def _failure(self, body: bytes, place: Place) -> bool:
        origin = place.origin
        if self._of_exit_barrier(body, place):
            return True
        event = failures.in_one_line(body, place)
        if event is None and failures.TRACEBACK.search(body):
            self._open_traceback(origin)
            return True
        if event is None and origin in self.tracebacks:
            event = failures.raised(body, place)
        event = event or failures.named(body, place)
        if event is not None:
            self.tracebacks.discard(origin)
            self._attempts.last.ended = True
            self._once(event, event.kind, event.node or "", str(origin.rank), event.message[:80], self._starts)
        return event is not None

    def _open_traceback(self, origin: Origin) -> None:
        if len(self.tracebacks) < _MOST_NOTED:
            self.tracebacks.add(origin)

    def _of_exit_barrier(self, body: bytes, place: Place) -> bool:
        """Take a line of torchrun's exit barrier, up to the last exception; False for any other line."""
        origin = place.origin
        if failures.EXIT_BARRIER.search(body):
            if len(self._barriers) < _MOST_NOTED:
                self._barriers[origin] = _AWAITED
            event = place.event("exit_barrier", body, place.step or None)
            self._once(event, event.kind, event.node or "", str(origin.rank))
            return True
        state = self._barriers.get(origin)
        if state is None:
            return False
        if failures.TRACEBACK.search(body):
            if state != _AWAITED:  # of another failure
                del self._barriers[origin]
                return False
            self._barriers[origin] = _OPEN
            self._open_traceback(origin)
            return True
        if state == _OPEN and failures.raised(body, place) is not None:
            self._barriers[origin] = _ENDED
            self.tracebacks.discard(origin)
            return True
        if state == _ENDED and failures.CHAINED.search(body):
            self._barriers[origin] = _AWAITED
            return True
        if state == _AWAITED and body.strip():  # no traceback followed
            del self._barriers[origin]
        return False

    def _once(self, event: Event, *key: str) -> None:
        """Record repeated events once."""
        if key not in self._noted and len(self._noted) < _MOST_NOTED:
            self._noted.add(key)
            self._sink.event(event)

    def _record(self, entries: Iterable[Entry]) -> None:
        for record in entries:
            if isinstance(record, Setting):
                if record.key == LOG_INTERVAL and record.value:
                    self._progress.interval = record.value
                self._sink.setting(record)
            elif record.kind == "memory":
                gib, key = record.details["gib"], (str(record.details["kind"]), record.node)
                known = key in self._most_memory or len(self._most_memory) < _MOST_NOTED
                most = self._most_memory.get(key, 0.0)
                if known and gib > most:
                    self._most_memory[key] = gib
                    self._sink.event(record)
                elif known and gib == most:  # a maximum that is printed again holds until then
                    self._memory_again[key] = record
            elif record.kind == "nodes_differ":
                if len(self._slowest) >= _MOST_NOTED:
                    self._slowest.clear()
                self._slowest[record.details["rank"]] += 1
                if self._slowest[record.details["rank"]] == LEAST_STEPS:  # ignore ranks that are slow now and then
                    self._sink.event(record)
            elif record.kind == "resumed":
                self._progress.resumed = record.step
                self._attempts.last.resumed = True
                self._once(record, record.kind, str(record.step), self._starts)
            elif record.kind in ("validating", "checkpoint", "eval"):
                self._once(record, record.kind, str(record.step))
            else:
                self._attempts.last.ended |= record.kind in ENDS
                self._sink.event(record)

    def end(self, at: Evidence) -> None:
        """No more lines."""
        for dump in self._dumps:
            self._record(dump.close())
        for (kind, node), event in self._memory_again.items():
            if event.details["gib"] == self._most_memory[kind, node]:
                self._sink.event(event)
        for origin in self.tracebacks:
            if self._barriers.get(origin) != _OPEN:
                place = Place(at, origin, self._progress.step)
                message = b"a traceback without its end"
                self._sink.event(failures.failed("error", message, place, failures.ECHO))
        self.tracebacks.clear()


def _network(text: bytes, place: Place) -> Event | None:
    """The network that NCCL or RCCL uses, or the requested network cards, from one of its lines."""
    for name, pattern in _NETWORK:
        if match := pattern.search(text):
            host = _NETWORK_HOST.search(text)
            node = host[1].decode("ascii", "replace") if host else None
            return place.event("fabric", text, None, node, **{name: match[1].decode("utf-8", "replace")})
    return None
