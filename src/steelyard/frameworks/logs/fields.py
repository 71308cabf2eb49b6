"""Step lines by name: a line is learnt from its labels once, and lines of the same shape are then read by place.

The shape of a line is its text without digits. Two lines of one shape have the same labels in the same places, so what
was learnt of the first holds for the second; only the numbers differ. A version that adds or moves a field, a value
that turns `nan` or a line cut short has another shape, and is learnt again or not read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from steelyard.records.step import LOGGED

DIGITS = b"0123456789"

_NUMBER = re.compile(
    rb"\s*([-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)(?![a-z]))", re.I
)
_AFTER = re.compile(
    rb"(?:\s*(?:[KMG]i?B|%))?(?:\s*(?:/|\(avg|\()\s*[\d.,]+\s*(?:[KMG]i?B|%)?\)?)*\s*(?:\x1b\[[0-9;]*m|\s)*", re.ASCII
)
"""What may follow a number: its unit, the rest of a pair, an average."""
_PLAIN = re.compile(rb"\s*[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\s*")
_PAIR = re.compile(rb"\s*[\d.]+/[\d.]+\s*$")
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


class UnreadError(ValueError):
    """Why a line that looks like a step cannot be read as one."""


STEP_DIGITS = 12
"""Of a step's number: no run takes 10^12 steps, and a record allows 10^15."""
SETTING_DIGITS = 18
"""Of a setting, such as a seed: what fits into 64 bits."""


def whole_number(text: str | bytes, digits: int = SETTING_DIGITS) -> int:
    """A count in ASCII digits; UnreadError for a sign, another script's digits, or more than `digits` of them."""
    if not text.isdigit() or not text.isascii() or len(text) > digits:
        raise UnreadError(f"{text.strip()[:40]!r} is not a whole number of at most {digits} digits")
    return int(text)


TARGETS = (*LOGGED, "global_batch_size", "sequence_length", "global_step", "consumed_samples", "trained_tokens")
"""What a step line may give, the metrics of a step first, in the order `Values` has it."""

Values = list[float | None]
"""What one step line gives, by the order of `TARGETS`; None where it does not."""


class Field(NamedTuple):
    """What one label of a step line means."""

    target: str
    """Of `TARGETS`."""
    divisor: float = 1.0
    """To our unit."""


class Slot(NamedTuple):
    """Where a value stands in lines of one shape."""

    part: int
    offset: int
    target: int
    """Its place in `Values`."""
    divisor: float


def first_number(text: bytes) -> float:
    """The number a text starts with: of `inst/avg` the first, `7,034` without its comma, `61.02GiB` without unit."""
    match = _NUMBER.match(text)
    if match is None:
        raise _no_number(text)
    return float(match[1].replace(b",", b""))


def _no_number(text: bytes) -> UnreadError:
    return UnreadError(f"{text.strip()[:40]!r} is no number")


@dataclass(frozen=True, slots=True)
class Shape:
    """The places of the values in lines of one shape."""

    separator: bytes | None
    plain: Sequence[Slot]
    """Lone numbers."""
    others: Sequence[Slot]
    """The first of a pair, or a number with commas or a unit."""
    labels: frozenset[bytes]
    paired: bool
    """Whether a value is an `inst/avg` pair."""
    parts: int
    """Into how many a line is split."""
    texts: Sequence[tuple[int, int, str]]
    """(part, offset, target) of values that are words."""

    def gives(self, target: str) -> bool:
        """Whether lines of this shape give a value."""
        at = TARGETS.index(target)
        return any(slot.target == at for slot in (*self.plain, *self.others))

    def words(self, line: bytes) -> dict[str, str]:
        """The values that are words."""
        parts = line.split(self.separator)
        return {target: parts[at][offset:].decode("utf-8", "replace").strip() for at, offset, target in self.texts}

    def read(self, line: bytes) -> Values:
        """The values of a line of this shape; ValueError or IndexError where one is none."""
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
    """Find the labelled values from `start` on; what comes before is the launcher's and the step's own number."""
    parts = line.split(separator)
    plain: dict[int, Slot] = {}
    others: dict[int, Slot] = {}
    labels: list[bytes] = []
    paired = False
    for index, label, offset in _labelled(line, parts, start, separator):
        labels.append(label)
        value = parts[index][offset:]
        paired = paired or bool(_PAIR.match(value))
        if (field := fields.get(label)) is None:
            continue
        target = TARGETS.index(field.target)
        if target in plain or target in others:
            raise UnreadError(f"{label.decode('utf-8', 'replace')!r} stands there twice")
        number = _NUMBER.match(value)
        if number is None or not _AFTER.fullmatch(value, number.end()):  # a wrong byte inside must not cut it short
            raise _no_number(value)
        slots = plain if _PLAIN.fullmatch(value) else others
        slots[target] = Slot(index, offset, target, field.divisor)
    words = tuple(
        (index, len(part) - len(part.lstrip()) + len(label), target)
        for label, target in texts.items()
        for index, part in enumerate(parts)
        if part.lstrip().startswith(label)
    )
    return Shape(separator, tuple(plain.values()), tuple(others.values()), frozenset(labels), paired, len(parts), words)


def _labelled(
    line: bytes, parts: Sequence[bytes], start: int, separator: bytes | None
) -> Iterator[tuple[int, bytes, int]]:
    """(part, label, offset of the value in it) of everything after `start` that has a label."""
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
