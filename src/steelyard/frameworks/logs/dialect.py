"""What a reader of one dialect answers for: its step line, and the other lines it knows."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from steelyard.frameworks.logs.fields import STEP_DIGITS, Field, Shape, whole_number
from steelyard.frameworks.logs.prefixes import Origin
from steelyard.frameworks.logs.settings import Setting
from steelyard.records.step import Event, Evidence

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line was read, who printed it, and which step came last."""

    evidence: Evidence
    origin: Origin
    step: int
    """The last step read so far; 0 before the first."""

    def event(
        self, kind: str, raw: bytes, step: int | None = None, node: str | None = None, /, **details: Any
    ) -> Event:
        """An event of this line, of the machine that printed it unless it names another."""
        node = node or self.origin.node
        return Event(kind=kind, message=text_of(raw), step=step, node=node, source=self.evidence, details=details)


Entry = Event | Setting
Handler = Callable[[re.Match[bytes], Place], Iterator[Entry]]


class Dump(Protocol):
    """Gathers what a framework prints of its settings, and says what they mean."""

    @property
    def tells(self) -> str | None:
        """The dialect that its lines give away; None where relatives print the same."""
        ...

    @property
    def ended(self) -> int:
        """How many dumps were whole: what is said again after another is another event."""
        ...

    def take(self, body: bytes, place: Place) -> Iterator[Entry] | None:
        """What a line says; None for one that is not of a dump."""
        ...

    def close(self) -> Iterator[Entry]:
        """A line of another kind, or no more lines: what is only known now."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One way of printing steps."""

    name: str
    framework: str
    opening: bytes
    """How its step lines begin, as a pattern, also those that are cut or garbled: one that begins so and has no mark
    is an unread line."""
    mark: re.Pattern[bytes]
    """Where a step line starts: group `step`, and `total` where it says of how many."""
    separator: bytes | None
    """Between fields; None for blanks."""
    fields: Mapping[bytes, Field]
    texts: Mapping[bytes, str] = field(default_factory=dict)
    """Fields whose value is a word, label with its colon to what the step calls it."""
    words: tuple[bytes, ...] = ()
    """Patterns of the other lines that say something of this dialect's runs, its end and its arguments among them, each
    short and without a digit: a line that holds none of anybody's is not looked at."""
    telltales: tuple[bytes, ...] = ()
    """The same of lines that tell the dialect, as long as none is known."""
    precedence: int = 0
    """Of relatives the one that tells most of itself is asked first."""
    claims: Callable[[Shape, bytes], bool] = lambda shape, before: True
    """Whether a line of this shape, with this text before it, is of this dialect and not of a relative."""
    last_field: bytes | None = None
    """The label without which a line is cut."""
    required: tuple[str, ...] = ()
    """Values without which a line is cut or another's."""
    zero_based: bool = False
    """Whether its step lines count from 0, up to one less than the total."""
    counts_first_again: re.Pattern[bytes] | None = None
    """What stands before a step line of versions that log the first step by itself and count it again in the next."""
    flags: Callable[[bytes], tuple[str, ...]] | None = None
    """What a step is marked with."""
    era: Callable[[Shape, bytes], str] = lambda shape, before: ""
    """Which versions print a line like this."""
    interval: int | None = None
    """Steps between lines, where that is fixed."""
    first_artefacts: int = 0
    """Records after a start whose times speak of compilation and asynchronous dispatch."""
    card: re.Pattern[bytes] | None = None
    """What its step line shows of the card's memory: group `gib`, or `used` and the `share` in per cent that it is."""
    memory_kind: str | None = None
    """What its step line's memory measures."""
    absent_loss_is_nan: bool = False
    """Whether a line without a loss is one whose loss is NaN, or whose steps were all skipped."""
    timed_by_clock: bool = False
    """Whether its lines carry a moment and no step time."""
    dump: Callable[[], Dump] | None = None
    """What gathers the settings it prints of itself; relatives with the same dump share it."""
    redrawn: Callable[[bytes], bytes | None] | None = None
    """A line that is drawn again and again, such as a progress bar, in the words of a step line; b"" where it shows no
    step yet, None for any other line."""
    rate_line: re.Pattern[bytes] | None = None
    """A line of another rank beside a step line, with the `seconds` of the step and its `tflops`."""
    prints_lines_of: str = ""
    """The dialect whose step lines it prints, being told from it by the lines beside them."""
    others: Mapping[bytes, Handler] = field(default_factory=dict)
    """Patterns of other lines, each with what it says."""
    companions: tuple[bytes, ...] = ()
    """Patterns of texts that give the dialect away before, or without, a step line."""


def text_of(raw: bytes, longest: int = 500) -> str:
    """A line for an event: as text, cut."""
    return raw.decode("utf-8", "replace").strip()[:longest]


def event(kind: str, after: int = 0) -> Handler:
    """A handler that makes one event of the whole line, at the last step or so many after it."""

    def say(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        yield place.event(kind, match.string, place.step + after if place.step else None)

    return say


def at_step(kind: str, *after: int) -> Handler:
    """A handler that makes an event of the step the line names in its group `step`, or of each so many after it.

    Its `loss` is a detail, if it has one.
    """

    def say(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        loss = match.groupdict().get("loss")
        details = {"loss": float(loss)} if loss else {}
        for more in after or (0,):
            yield place.event(kind, match.string, whole_number(match["step"], STEP_DIGITS) + more, **details)

    return say


def states(convert: Callable[[bytes], Any] = whole_number, **keys: str) -> Handler:
    """A handler that makes a setting of each group it gives a key for."""

    def say(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        for group, key in keys.items():
            yield Setting(key, convert(match[group]), place.evidence)

    return say


def memory(kind: str, to_gib: Callable[[float], float] = float) -> Handler:
    """A handler that makes a reading of memory of the group `memory`."""

    def say(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        gib = to_gib(float(match["memory"]))
        yield place.event("memory", match.string, place.step or None, gib=gib, kind=kind)

    return say
