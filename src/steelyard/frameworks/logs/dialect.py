"""The description of a dialect: its step line and its other lines."""

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
    """The place of a line: evidence, origin and last step."""

    evidence: Evidence
    origin: Origin
    step: int
    """The last step so far; 0 before the first."""

    def event(
        self, kind: str, raw: bytes, step: int | None = None, node: str | None = None, /, **details: Any
    ) -> Event:
        """An event of this line, on the host that printed it unless `node` is given."""
        node = node or self.origin.node
        return Event(kind=kind, message=text_of(raw), step=step, node=node, source=self.evidence, details=details)


Entry = Event | Setting
Handler = Callable[[re.Match[bytes], Place], Iterator[Entry]]


class Dump(Protocol):
    """Collects the settings that a framework prints, and interprets them."""

    @property
    def identifies(self) -> str | None:
        """The dialect that these lines identify; None if related dialects print the same."""
        ...

    @property
    def ended(self) -> int:
        """Number of complete dumps; a repeated line after a new dump is a new event."""
        ...

    def take(self, body: bytes, place: Place) -> Iterator[Entry] | None:
        """The entries of a line; None if it does not belong to a dump."""
        ...

    def close(self) -> Iterator[Entry]:
        """The remaining entries, at a line of another kind or at the end."""
        ...


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step line that a tracker made."""

    text: bytes
    line: int
    """The line of the log with its values."""


Tracked = Event | Setting | StepLine


class Tracker(Protocol):
    """Makes step lines of other lines, such as progress bars."""

    @property
    def holds(self) -> bool:
        """Whether the step of a record depends on lines before it."""
        ...

    def take(self, body: bytes, prefix: bytes, place: Place) -> Iterator[Tracked] | None:
        """The entries that a line completes; None if it belongs to another reader. `prefix` is the launcher's."""
        ...

    def end(self) -> Iterator[Tracked]:
        """The remaining entries."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One way of printing steps."""

    name: str
    framework: str
    opening: bytes
    """Pattern of the start of a step line, also of a truncated one; a line that matches but has no mark is unread."""
    mark: re.Pattern[bytes]
    """The start of a step line: group `step`, and `total` for the total number of steps."""
    separator: bytes | None
    """Field separator; None for whitespace."""
    fields: Mapping[bytes, Field]
    texts: Mapping[bytes, str] = field(default_factory=dict)
    """Fields with a text value: label with colon, and step field."""
    words: tuple[bytes, ...] = ()
    """Short patterns without digits of all other lines with content. A line without any dialect's words is skipped."""
    telltales: tuple[bytes, ...] = ()
    """Such patterns of lines that identify the dialect, used until it is known."""
    precedence: int = 0
    """Among related dialects, the most specific has the highest precedence."""
    claims: Callable[[Shape, bytes], bool] = lambda shape, before: True
    """Whether a line of this shape, with this text before it, belongs to this dialect rather than a related one."""
    last_field: bytes | None = None
    """The label of the last field; a line without it is truncated."""
    required: tuple[str, ...] = ()
    """Required values; a line without them is truncated or of another dialect."""
    zero_based: bool = False
    """Whether its step lines count from 0, up to one less than the total."""
    counts_first_again: re.Pattern[bytes] | None = None
    """Pattern before step lines of versions that log step 1 alone and count it again in the next record."""
    flags: Callable[[bytes], tuple[str, ...]] | None = None
    """Flags of a step."""
    era: Callable[[Shape, bytes], str] = lambda shape, before: ""
    """The versions that print such a line."""
    interval: int | None = None
    """Steps between lines, if fixed."""
    interval_varies: bool = False
    """Whether its records are unequally far apart; each covers all steps since the one before."""
    first_artefacts: int = 0
    """First records after a start whose times contain compilation and asynchronous dispatch."""
    card: re.Pattern[bytes] | None = None
    """GPU memory size in a step line: group `gib`, or groups `used` and `share` (in percent)."""
    memory_kind: str | None = None
    """The kind of memory in a step line."""
    absent_loss_is_nan: bool = False
    """Whether a line without a loss means a NaN loss, or that all its steps were skipped."""
    negative_loss_is_none: bool = False
    """Whether ranks without the loss, such as early pipeline stages, print a negative number."""
    timed_by_clock: bool = False
    """Whether its lines have timestamps and no step time."""
    dump: Callable[[], Dump] | None = None
    """Makes the collector of its settings; related dialects with the same dump share it."""
    tracker: Callable[[], Tracker] | None = None
    """Makes the tracker of one log."""
    rate_line: re.Pattern[bytes] | None = None
    """A line of another rank next to a step line, with `seconds` and `tflops` of the step."""
    prints_lines_of: str = ""
    """The dialect whose step lines it also prints; its other lines identify it."""
    others: Mapping[bytes, Handler] = field(default_factory=dict)
    """Handlers of other lines, by pattern."""
    companions: tuple[bytes, ...] = ()
    """Patterns of texts that identify the dialect before, or without, a step line."""
    cut: bytes = rb"(?!)"
    """Pattern of a line of `others` without its end: a launcher may break long lines in two."""
    start: bytes = rb"(?!)"
    """Pattern, without digits, of a text that the program prints when it starts: one file may hold several runs."""


@dataclass(slots=True, eq=False)
class StepShape:
    """The shape of a step line, and its dialect."""

    dialect: Dialect
    shape: Shape
    mark_at: int
    """The position of the mark, which is likely the same in the next line."""
    unreset: bool
    """Whether its version logs step 1 alone and counts it again."""
    moment: tuple[int, int] | None
    """Start of the timestamp, counted back from the mark, and its length; None without a timestamp."""


def text_of(raw: bytes, longest: int = 500) -> str:
    """A line as text for an event, shortened."""
    return raw.decode("utf-8", "replace").strip()[:longest]


def event(kind: str, after: int = 0) -> Handler:
    """A handler that makes an event of the line, `after` steps after the last step."""

    def handle(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        yield place.event(kind, match.string, place.step + after if place.step else None)

    return handle


def at_step(kind: str, *after: int) -> Handler:
    """A handler that makes an event at step `step` of the line, or at each of `after` steps later.

    The event has the `loss` of the line, if any.
    """

    def handle(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        loss = match.groupdict().get("loss")
        details = {"loss": float(loss)} if loss else {}
        for more in after or (0,):
            yield place.event(kind, match.string, whole_number(match["step"], STEP_DIGITS) + more, **details)

    return handle


def states(convert: Callable[[bytes], Any] = whole_number, **keys: str) -> Handler:
    """A handler that makes a setting of each group with a key."""

    def handle(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        for group, key in keys.items():
            yield Setting(key, convert(match[group]), place.evidence)

    return handle


def memory(kind: str, to_gib: Callable[[float], float] = float) -> Handler:
    """A handler that makes a memory event of group `memory`, at step `step` of the line if it has one."""

    def handle(match: re.Match[bytes], place: Place) -> Iterator[Entry]:
        gib, step = to_gib(float(match["memory"])), match.groupdict().get("step")
        at = place.step or None if step is None else whole_number(step, STEP_DIGITS)
        yield place.event("memory", match.string, at, gib=gib, kind=kind)

    return handle
