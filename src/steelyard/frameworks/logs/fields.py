"""Step lines by label: the first line of a shape is parsed by its labels, later lines of that shape by position.

The shape of a line is its text without digits. Lines of one shape have the same labels in the same places; only the
numbers differ. A version with another field, a value that becomes `nan` or a truncated line has another shape, and is
parsed by its labels again.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from steelyard.records.step import LOGGED

DIGITS = b"0123456789"

_NUMBER = re.compile(
    rb"\s*([-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)(?![a-z]))", re.I
)
_AFTER = re.compile(
    rb"(?:\s*(?:[KMG]i?B|%))?(?:\s*(?:/|\(avg|\()\s*[\d.,]+\s*(?:[KMG]i?B|%)?\)?)*\s*(?:\x1b\[[0-9;]*m|\s)*", re.ASCII
)
"""Text after a number: a unit, the rest of a pair, an average."""
_PLAIN = re.compile(rb"\s*[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\s*")
_PAIR = re.compile(rb"\s*[\d.]+/[\d.]+\s*$")
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


class UnreadError(ValueError):
    """Why a line that looks like a step is unreadable."""


STEP_DIGITS = 12
"""Digits of a step number; a record allows 10^15."""
SETTING_DIGITS = 18
"""Digits of a setting, such as a seed: 64 bits."""


def whole_number(text: str | bytes, digits: int = SETTING_DIGITS) -> int:
    """A count in ASCII digits; UnreadError for signs, non-ASCII digits, or more than `digits` digits."""
    if not text.isdigit() or not text.isascii() or len(text) > digits:
        raise UnreadError(f"{text.strip()[:40]!r} is not a whole number of at most {digits} digits")
    return int(text)


OTHER_LOSS = "other_loss"
TARGETS = (
    *LOGGED,
    *("global_batch_size", "sequence_length", "global_step", "consumed_samples", "trained_tokens", OTHER_LOSS),
)
"""Values of a step line in the order of `Values`, metrics of a step first."""

_SECONDS, _TFLOPS = TARGETS.index("step_time_s"), TARGETS.index("reported_tflops_per_gpu")

Values = list[float | None]
"""The values of one step line, in the order of `TARGETS`; None if missing."""


class Field(NamedTuple):
    """The meaning of a label."""

    target: str
    """One of `TARGETS`."""
    divisor: float = 1.0
    """Divisor to our unit."""
    second: bool = False
    """Whether it counts only on lines without another label of the same target."""
    units: Mapping[bytes, float] = MappingProxyType({})
    """Divisors by the unit directly after the number, of a label whose values have different units."""


_LOSS, _NOT_A_LOSS = re.compile(rb"loss", re.IGNORECASE), re.compile(rb"loss[ _-]scale", re.IGNORECASE)


def _other_loss(label: bytes) -> Field | None:
    """The field of a label without a field that names a loss, such as an auxiliary one."""
    return Field(OTHER_LOSS, second=True) if _LOSS.search(label) and not _NOT_A_LOSS.search(label) else None


class Slot(NamedTuple):
    """The position of a value in lines of one shape."""

    part: int
    offset: int
    target: int
    """Its index in `Values`."""
    divisor: float


def first_number(text: bytes) -> float:
    """The first number of a text such as `inst/avg`, `7,034` or `61.02GiB`."""
    match = _NUMBER.match(text)
    if match is None:
        raise _no_number(text)
    return float(match[1].replace(b",", b""))


def _no_number(text: bytes) -> UnreadError:
    return UnreadError(f"{text.strip()[:40]!r} is not a number")


@dataclass(frozen=True, slots=True)
class Shape:
    """The positions of values in lines of one shape."""

    separator: bytes | None
    plain: Sequence[Slot]
    """Plain numbers."""
    others: Sequence[Slot]
    """Numbers in pairs, with commas or with a unit."""
    labels: frozenset[bytes]
    paired: bool
    """Whether a value is an `inst/avg` pair."""
    parts: int
    """Number of parts of a line."""
    texts: Sequence[tuple[int, int, str]]
    """(part, offset, target) of text values."""

    def gives(self, target: str) -> bool:
        """Whether lines of this shape have a value."""
        at = TARGETS.index(target)
        return any(slot.target == at for slot in (*self.plain, *self.others))

    def words(self, line: bytes) -> dict[str, str]:
        """The text values."""
        parts = line.split(self.separator)
        return {target: parts[at][offset:].decode("utf-8", "replace").strip() for at, offset, target in self.texts}

    def read(self, line: bytes) -> Values:
        """The values of a line of this shape; ValueError or IndexError if one is unreadable."""
        parts = line.split(self.separator)
        values: Values = [None] * len(TARGETS)
        for part, offset, target, divisor in self.plain:
            values[target] = float(parts[part][offset:]) / divisor
        for part, offset, target, divisor in self.others:
            values[target] = first_number(parts[part][offset:]) / divisor
        return values


def learn(
    line: bytes, start: int, separator: bytes | None, fields: Mapping[bytes, Field], texts: Mapping[bytes, str]
) -> Shape:
    """Find labeled values from `start` on; before it are the launcher's prefix and the step number."""
    parts = line.split(separator)
    plain: dict[int, Slot] = {}
    others: dict[int, Slot] = {}
    labels: list[bytes] = []
    paired = False
    labelled: list[tuple[Field, int, bytes, int]] = []
    for index, label, offset in _labelled(line, parts, start, separator):
        labels.append(label)
        paired = paired or bool(_PAIR.match(parts[index][offset:]))
        if (field := fields.get(label) or _other_loss(label)) is not None:
            labelled.append((field, index, label, offset))
    for field, index, label, offset in sorted(labelled, key=lambda each: each[0].second):
        target, value = TARGETS.index(field.target), parts[index][offset:]
        if target in plain or target in others:
            if field.second:
                continue
            raise UnreadError(f"{label.decode('utf-8', 'replace')!r} appears twice")
        number = _NUMBER.match(value)
        if field.target == OTHER_LOSS and number is None:
            continue
        unit, divisor = _unit(value[number.end() :], field) if number is not None else (b"", 1.0)
        # A wrong byte must not truncate a number.
        if number is None or not _AFTER.fullmatch(value, number.end() + len(unit)):
            raise _no_number(value)
        slots = plain if _PLAIN.fullmatch(value) else others
        slots[target] = Slot(index, offset, target, divisor)
    words = tuple(
        (index, len(part) - len(part.lstrip()) + len(label), target)
        for label, target in texts.items()
        for index, part in enumerate(parts)
        if part.lstrip().startswith(label)
    )
    return Shape(separator, tuple(plain.values()), tuple(others.values()), frozenset(labels), paired, len(parts), words)


def _unit(text: bytes, field: Field) -> tuple[bytes, float]:
    """The unit that a text starts with, and its divisor."""
    known = ((unit, divisor) for unit, divisor in field.units.items() if text.startswith(unit))
    return next(known, (b"", field.divisor))


def add_utilization(its_seconds: float, tflops: float, values: Values) -> None:
    """Add rank 0's TFLOP/s to the step with the same step time."""
    seconds = values[_SECONDS]
    if seconds is not None and values[_TFLOPS] is None and abs(its_seconds - seconds) <= 0.006 + 0.001 * seconds:
        values[_TFLOPS] = tflops


def _labelled(
    line: bytes, parts: Sequence[bytes], start: int, separator: bytes | None
) -> Iterator[tuple[int, bytes, int]]:
    """(part, label, offset of the value) of all labeled values after `start`."""
    at = 0
    for index, part in enumerate(parts):
        begin = line.index(part, at)
        at = begin + len(part)
        if begin < start:
            continue
        if separator is None:
            if index and parts[index - 1].endswith(b":") and not part.endswith(b":"):
                yield index, _COLOUR.sub(b"", parts[index - 1])[:-1], 0
        elif (colon := part.rfind(b":")) > 0 and part[colon + 1 :].strip():
            value = part[colon + 1 :]
            offset = colon + 1 + len(value) - len(value.lstrip())
            yield index, _COLOUR.sub(b"", part[:colon]).strip(), offset
