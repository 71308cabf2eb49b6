"""Reads the lines of a log that are no steps: settings, memory, checkpoints, failures, the network, how it ended."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from steelyard import secrets
from steelyard.accounting.stragglers import LEAST_STEPS
from steelyard.frameworks.logs import failures
from steelyard.frameworks.logs.dialect import Dialect, Dump, Entry, Place
from steelyard.frameworks.logs.prefixes import Origin
from steelyard.frameworks.logs.series import Progress, Sink
from steelyard.frameworks.logs.settings import LOG_INTERVAL, Setting
from steelyard.records.step import Event, Evidence

_MOST_NOTED = 10_000
"""Of each kind of fact that is remembered by who printed it."""
_AWAITED, _OPEN, _ENDED = range(3)

_NETWORK_WORDS = (rb"NCCL", rb"Using network", rb"NET/")
"""What a line of NCCL or RCCL about the network holds."""
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
    """Tells at a glance which lines are worth looking at, by what dialects, failures and secrets declare of theirs."""

    interesting: re.Pattern[bytes]
    """What a line that says anything holds. It looks at no digit, so one answer serves every line of a shape."""
    telltale: re.Pattern[bytes]
    """What tells a dialect, marks a step or may be a step that nobody knows; asked as long as no step was read."""
    opening: re.Pattern[bytes]

    def looks_like_a_step(self, body: bytes) -> bool:
        """Whether a line starts as step lines do; one that then cannot be read is not passed over."""
        return bool(self.opening.search(body)) and not _NOT_A_STEP.search(body)


def names_step_and_loss(body: bytes) -> bool:
    """Whether a line gives a step's number and its loss, as step lines of a version nobody knows still do."""
    return bool(_STEP.search(body) and _LOSS.search(body) and not _NOT_OF_TRAINING.search(body))


@cache
def interest(dialects: tuple[Dialect, ...]) -> Interest:
    """Built once for each set of dialects."""
    words = (pattern for dialect in dialects for pattern in dialect.words)
    marks = (_GROUP_NAME.sub(b"?:", dialect.mark.pattern) for dialect in dialects)
    telltales = (pattern for dialect in dialects for pattern in dialect.telltales)
    return Interest(
        _any((*words, *failures.WORDS, *_NETWORK_WORDS, *secrets.LOG_WORDS)),
        _any((*telltales, *marks, _LOSS.pattern)),
        _any(dialect.opening for dialect in dialects),
    )


def _any(patterns: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(dict.fromkeys(patterns)) or rb"(?!)")


class OtherLines:
    """Takes the lines of one log that are no steps, one after the other."""

    def __init__(self, sink: Sink, dialects: Sequence[Dialect], progress: Progress, every: Sequence[Dialect]) -> None:
        """`dialects` are those that are read; settings are taken in the words of `every` one."""
        self._sink, self._progress = sink, progress
        self._dialects = [
            (dialect.name, _any(dialect.companions), [(re.compile(line), say) for line, say in dialect.others.items()])
            for dialect in dialects
        ]
        dumps: list[Dump] = [make() for make in dict.fromkeys(dialect.dump for dialect in every if dialect.dump)]
        self._dumps = sorted(dumps, key=lambda dump: dump.tells is None)
        self._most_memory: dict[tuple[str, str | None], float] = {}
        self._slowest: Counter[int] = Counter()
        """How often each rank was said to be much slower than the fastest."""
        self._noted: set[tuple[str, ...]] = set()
        self.tracebacks: set[Origin] = set()
        """Whose traceback has begun and not ended: every line may be its end."""
        self._barriers: dict[Origin, int] = {}
        """How far the traceback is that is of a wait for the others to exit, and of no failure."""
        self.hinted: dict[str, None] = {}
        """Dialects that these lines gave away."""

    def says_a_setting(self, body: bytes, place: Place) -> bool:
        """Take a line of a dump of settings; False where it is none."""
        taken = ((dump, entries) for dump in self._dumps if (entries := dump.take(body, place)) is not None)
        its_dump, settings = next(taken, (None, None))
        for dump in self._dumps:
            if dump is not its_dump:
                self._record(dump.close())
        if its_dump is None or settings is None:
            return False
        if its_dump.tells is not None:
            self.hinted.setdefault(its_dump.tells)
        self._record(settings)
        return True

    @property
    def _starts(self) -> str:
        """What is said again by another start is another event."""
        return str(sum(dump.ended for dump in self._dumps))

    def take(self, body: bytes, place: Place) -> bool:
        """Take a line of any other kind; False where it says nothing."""
        for name, companions, others in self._dialects:
            if name not in self.hinted and companions.search(body):
                self.hinted.setdefault(name)
            for pattern, say in others:
                if match := pattern.search(body):
                    self._record(say(match, place))
                    return True
        telling = self._failure(body, place)
        if any(word in body for word in _NETWORK_WORDS) and (event := _network(body, place)) is not None:
            self._once(event, "fabric", event.node or "", *map(str, event.details.items()))
            telling = True
        return telling

    def _failure(self, body: bytes, place: Place) -> bool:
        origin = place.origin
        if self._of_exit_barrier(body, place):
            return True
        if failures.TRACEBACK.search(body):
            self._open_traceback(origin)
            return True
        event = failures.raised(body, place) if origin in self.tracebacks else None
        event = event or failures.named(body, place)
        if event is not None:
            self.tracebacks.discard(origin)
            self._once(event, event.kind, event.node or "", str(origin.rank), event.message[:80], self._starts)
        return event is not None

    def _open_traceback(self, origin: Origin) -> None:
        if len(self.tracebacks) < _MOST_NOTED:
            self.tracebacks.add(origin)

    def _of_exit_barrier(self, body: bytes, place: Place) -> bool:
        """Take a line of what torchrun says of its exit barrier, up to the last exception; False where it is none."""
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
            if state != _AWAITED:  # another failure's
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
        """What is said again and again is recorded once."""
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
                if known and gib > self._most_memory.get(key, 0.0):
                    self._most_memory[key] = gib
                    self._sink.event(record)
            elif record.kind == "nodes_differ":
                if len(self._slowest) >= _MOST_NOTED:
                    self._slowest.clear()
                self._slowest[record.details["rank"]] += 1
                if self._slowest[record.details["rank"]] == LEAST_STEPS:  # a rank that is slow now and then is none
                    self._sink.event(record)
            elif record.kind == "resumed":
                self._progress.resumed = record.step
                self._once(record, record.kind, str(record.step), self._starts)
            elif record.kind in ("validating", "checkpoint", "eval"):
                self._once(record, record.kind, str(record.step))
            else:
                self._sink.event(record)

    def end(self, at: Evidence) -> None:
        """No more lines."""
        for dump in self._dumps:
            self._record(dump.close())
        for origin in self.tracebacks:
            if self._barriers.get(origin) != _OPEN:
                place = Place(at, origin, self._progress.step)
                cut = b"a traceback whose end is not in the log"
                self._sink.event(failures.failed("error", cut, place, failures.ECHO))
        self.tracebacks.clear()


def _network(text: bytes, place: Place) -> Event | None:
    """Which network NCCL or RCCL uses, and which cards it was asked to use, by one of its lines."""
    for name, pattern in _NETWORK:
        if match := pattern.search(text):
            host = _NETWORK_HOST.search(text)
            node = host[1].decode("ascii", "replace") if host else None
            return place.event("fabric", text, None, node, **{name: match[1].decode("utf-8", "replace")})
    return None
