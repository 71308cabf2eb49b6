"""Step fields by the names files of results give them."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from steelyard.frameworks.registry import every_facts
from steelyard.records.step import DERIVED, METRICS, WHOLE_NUMBERS, Event, Evidence, Step

_LONGEST_WORD = 500
_MOST_COVERED = 10**9
"""What a record may cover."""

REPORTED = MappingProxyType({name: f"reported_{name}" for name in DERIVED})
"""A rate that somebody else worked out is reported; ours is derived."""
NUMBERS = tuple(name for name in METRICS if name not in (*DERIVED, *WHOLE_NUMBERS, "memory_fraction"))
WORDS = ("time", "node", "memory_kind")
KNOWN = (*WHOLE_NUMBERS, *NUMBERS, *WORDS, *REPORTED)
"""What may stand on the left of --columns."""

_COMMON_TAGS: Mapping[str, str] = MappingProxyType(
    {
        "loss": "loss",
        "train_loss": "loss",
        "train/loss": "loss",
        "grad_norm": "grad_norm",
        "train/grad_norm": "grad_norm",
        "learning_rate": "learning_rate",
        "lr": "learning_rate",
        "train/learning_rate": "learning_rate",
        "step_time_s": "step_time_s",
        "tflops": "reported_tflops_per_gpu",
    }
)
"""What several frameworks and common trainers tell trackers."""


def tags() -> dict[str, str]:
    """Our step field by what trackers are told, by anybody."""
    return {**_COMMON_TAGS, **{tag: ours for each in every_facts() for tag, ours in each.tracker_tags.items()}}


def framework_of() -> dict[str, str]:
    """The framework by a name of the loss that only it gives."""
    return {tag: each.name for each in every_facts() for tag, ours in each.tracker_tags.items() if ours == "loss"}


def step_of(values: Mapping[str, Any], zero_based: bool, source: Evidence, place: str) -> Step | Event:
    """A step of named values as text or numbers; an event says where, and which of them is none."""
    try:
        return _step(values, zero_based, source)
    except ValueError as reason:
        return unread(source, place, str(reason))


def unread(source: Evidence, place: str, reason: str) -> Event:
    return Event(kind="unread_line", message=f"{place}: {reason}", source=source)


def _step(values: Mapping[str, Any], zero_based: bool, source: Evidence) -> Step:
    made: dict[str, Any] = {}
    for name, value in values.items():
        target = REPORTED.get(name, name)
        if value is None or value == "":
            continue
        if target in WORDS:
            made[target] = _word(name, value)
        else:
            made[target] = _whole(name, value) if target in WHOLE_NUMBERS else number_of(value, name)
    if "step" not in made:
        raise ValueError("it has no step")
    if not 1 <= made.get("steps_covered", 1) <= _MOST_COVERED:
        raise ValueError(f"steps_covered is {made['steps_covered']}, which is not 1 to {_MOST_COVERED:,}")
    reported = made["step"]
    made.setdefault("reported_step", reported)
    made["step"] = reported + 1 if zero_based else reported
    return Step(**made, source=source)


def readable(text: str) -> str:
    """A text that can be written: JSON may hold half of a character."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise ValueError(f"{name} is {_shown(value)}, which is not a word")
    return readable(str(value)[:_LONGEST_WORD])


def _shown(value: Any) -> str:
    """A value in a message; of a list or a mapping its kind, since it may be nested without end."""
    return repr(readable(str(value)[:40])) if isinstance(value, str | int | float) else f"a {type(value).__name__}"


def number_of(value: Any, name: str) -> float:
    """A number as text or as a number; ValueError says what it is instead."""
    try:
        if isinstance(value, str):
            return float(value.replace(",", ""))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{name} is {_shown(value)}, expected a number")


def _whole(name: str, value: Any) -> int:
    number = number_of(value, name)
    if not math.isfinite(number) or number != int(number) or not 0 <= number < 1e15:
        raise ValueError(f"{name} is {_shown(value)}, expected a count")
    return int(number)
