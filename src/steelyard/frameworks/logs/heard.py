"""What a log says of its settings as it goes on: the last of each, and where one changed."""

import math
from dataclasses import dataclass, field
from typing import Any

from steelyard.experiment.problems import spelt
from steelyard.frameworks.logs.said import GPU_GIB, GPU_NAME, SAME_SHARE, TRAINED_SHARE, Setting
from steelyard.hardware.catalog import CPU, lookup
from steelyard.records.step import Event

SAME_CARD = 0.06
"""How far apart two figures of one card's memory may lie: drivers and tools keep some per cent of it to themselves, and
the nearest two sizes that are sold (180 and 192 GB) are 7 % apart. A part of a card is another card."""


@dataclass(slots=True)
class Heard:
    """The settings one log said, by key."""

    said: dict[str, Setting] = field(default_factory=dict)
    changed: dict[str, Event] = field(default_factory=dict)
    """The first change of each."""

    def take(self, setting: Setting) -> None:
        """The last word of a log is what holds."""
        key, value = setting.key, setting.value
        if setting.takes_back:
            self.said.pop(key, None)
            return
        before = self.said.get(key)
        if before is not None and not same(key, before.value, value) and key not in self.changed:
            message = f"{key} was {spelt(before.value)}, and is {spelt(value)} from here on"
            self.changed[key] = Event(
                kind="setting_changed", message=message, source=setting.source, details={"key": key}
            )
        self.said[key] = setting

    def whole(self, key: str) -> int | None:
        """A count the log said."""
        value = self.said[key].value if key in self.said else None
        return value if type(value) is int else None


def same(key: str, one: Any, other: Any) -> bool:
    """Whether two values of a key mean the same: numbers but for their last digits, GPUs by catalog, cards by size."""
    if key == GPU_NAME:
        return (one == CPU) == (other == CPU) and lookup(str(one)) is lookup(str(other))
    if key == GPU_GIB:
        return math.isclose(one, other, rel_tol=SAME_CARD)
    if key == TRAINED_SHARE:
        return bool(abs(one - other) <= SAME_SHARE)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)
