"""Reads the lines of a log that are no steps: settings, memory, checkpoints, failures, the network, how it ended."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from steelyard.accounting.stragglers import LEAST_STEPS
from steelyard.frameworks.logs import failures
from steelyard.frameworks.logs.dialect import Dialect, Dump, Place, Said, text_of
from steelyard.frameworks.logs.prefixes import Origin
from steelyard.frameworks.logs.series import Progress, Sink
from steelyard.frameworks.logs.settings import LOG_INTERVAL, Setting
from steelyard.records.step import Event, Evidence

_MOST_NOTED = 10_000
"""Of each thing that is remembered by who printed it."""
_AWAITED, _OPEN, _ENDED = range(3)

NETWORK_WORDS = (rb"NCCL", rb"Using network", rb"NET/")
"""What a line of NCCL or RCCL about the network holds."""
_NETWORK = re.compile(rb"Using network (?P<network>[\w/.-]+)")
_PLUGIN = re.compile(rb"NET/(?P<network>IB|Socket|OFI|AWS Libfabric)\s*:\s*Using (?P<cards>\S.*)$")
_ASKED = re.compile(
    rb"\b(?:NCCL_IB_HCA|NCCL_NET)[\"']?(?: set by environment to| set to|\s*[=:])\s*[\"']?(?P<cards>[^\s;\"',]+)"
)
_HOST = re.compile(rb"(?P<host>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\] NCCL INFO")


class OtherLines:
    """Takes the lines of one log that are no steps, one after the other."""

    def __init__(self, sink: Sink, dialects: Sequence[Dialect], progress: Progress, every: Sequence[Dialect]) -> None:
        """`dialects` are those that are read; settings are taken in the words of `every` one."""
        self._sink, self._dialects, self._progress = sink, dialects, progress
        dumps: list[Dump] = [make() for make in dict.fromkeys(one.dump for one in every if one.dump)]
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
        for dump in self._dumps:
            lines = dump.take(body, place)
            if lines is not None:
                break
        else:
            dump, lines = None, None
        for other in self._dumps:
            if other is not dump:
                self._say(other.close())
        if dump is None or lines is None:
            return False
        if dump.tells is not None:
            self.hinted.setdefault(dump.tells)
        self._say(lines)
        return True

    @property
    def _starts(self) -> int:
        """What is said again by another start is another event."""
        return sum(dump.ended for dump in self._dumps)

    def take(self, body: bytes, place: Place) -> bool:
        """Take a line of any other kind; False where it says nothing."""
        for dialect in self._dialects:
            if dialect.name not in self.hinted and any(one.search(body) for one in dialect.companions):
                self.hinted.setdefault(dialect.name)
            for known in dialect.others:
                if found := known.pattern.search(body):
                    self._say(known.say(found, place))
                    return True
        telling = self._failure(body, place)
        if any(word in body for word in NETWORK_WORDS):
            for event in _network(body, place):
                self._once(event, ("fabric", event.node or "", *map(str, event.details.items())))
                telling = True
        return telling

    def _failure(self, body: bytes, place: Place) -> bool:
        if self._of_exit_barrier(body, place):
            return True
        if failures.TRACEBACK.search(body):
            self._open_traceback(place.origin)
            return True
        raised = failures.raised(body, place) if place.origin in self.tracebacks else None
        events = [raised] if raised is not None else list(failures.named(body, place))
        for event in events:
            self.tracebacks.discard(place.origin)
            self._once(
                event, (event.kind, event.node or "", str(place.origin.rank), event.message[:80], str(self._starts))
            )
        return bool(events)

    def _open_traceback(self, origin: Origin) -> None:
        if len(self.tracebacks) < _MOST_NOTED:
            self.tracebacks.add(origin)

    def _of_exit_barrier(self, body: bytes, place: Place) -> bool:
        """Take a line of what torchrun says of its exit barrier, up to the last exception; False where it is none."""
        origin = place.origin
        if failures.EXIT_BARRIER.search(body):
            if len(self._barriers) < _MOST_NOTED:
                self._barriers[origin] = _AWAITED
            at, message = place.evidence, text_of(body)
            event = Event(kind="exit_barrier", message=message, step=place.step or None, node=origin.node, source=at)
            self._once(event, (event.kind, event.node or "", str(origin.rank)))
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

    def _once(self, event: Event, key: tuple[str, ...]) -> None:
        """What is said again and again is recorded once."""
        if key not in self._noted and len(self._noted) < _MOST_NOTED:
            self._noted.add(key)
            self._sink.event(event)

    def _say(self, said: Iterator[Said]) -> None:
        for one in said:
            if isinstance(one, Setting):
                if one.key == LOG_INTERVAL and one.value:
                    self._progress.interval = one.value
                self._sink.setting(one)
            elif one.kind == "memory":
                key = (str(one.details["kind"]), one.node)
                known = key in self._most_memory or len(self._most_memory) < _MOST_NOTED
                if known and one.details["gib"] > self._most_memory.get(key, 0.0):
                    self._most_memory[key] = one.details["gib"]
                    self._sink.event(one)
            elif one.kind == "nodes_differ":
                if len(self._slowest) >= _MOST_NOTED:
                    self._slowest.clear()
                self._slowest[one.details["rank"]] += 1
                if self._slowest[one.details["rank"]] == LEAST_STEPS:  # a rank that is slow now and then is none
                    self._sink.event(one)
            elif one.kind == "resumed":
                self._progress.resumed = one.step
                self._once(one, (one.kind, str(one.step), str(self._starts)))
            elif one.kind in ("validating", "checkpoint", "eval"):
                self._once(one, (one.kind, str(one.step)))
            else:
                self._sink.event(one)

    def end(self, at: Evidence) -> None:
        """No more lines."""
        for dump in self._dumps:
            self._say(dump.close())
        for origin in self.tracebacks:
            if self._barriers.get(origin) == _OPEN:
                continue
            place = Place(at, origin, self._progress.step)
            self._sink.event(failures.failed("error", b"a traceback whose end is not in the log", place, failures.ECHO))
        self.tracebacks.clear()


def _network(text: bytes, place: Place) -> Iterator[Event]:
    """Which network NCCL or RCCL uses, and which cards it was asked to use, by one of its lines."""
    host = _HOST.search(text)
    node = host["host"].decode("ascii", "replace") if host else place.origin.node
    for pattern, name in ((_ASKED, "asked"), (_PLUGIN, "network"), (_NETWORK, "network")):
        found = pattern.search(text)
        if found is None:
            continue
        value = found["cards" if name == "asked" else "network"].decode("utf-8", "replace")
        yield Event(kind="fabric", message=text_of(text), node=node, source=place.evidence, details={name: value})
        return
