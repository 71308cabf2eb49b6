"""Step fields by their names in result files."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from steelyard.frameworks.registry import every_facts
from steelyard.records.step import DERIVED, METRICS, WHOLE_NUMBERS, Event, Evidence, Step

_LONGEST_WORD = 500
_MOST_COVERED = 10**9
"""Limit of steps per record."""

REPORTED = MappingProxyType({name: f"reported_{name}" for name in DERIVED})
"""Rates of other programs are reported values; ours are derived."""
NUMBERS = tuple(name for name in METRICS if name not in (*DERIVED, *WHOLE_NUMBERS, "memory_fraction"))
WORDS = ("time", "node", "memory_kind")
KNOWN = (*WHOLE_NUMBERS, *NUMBERS, *WORDS, *REPORTED)
"""Step fields that --columns accepts."""

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
"""Tags of several frameworks and common trainers in trackers."""


def tags() -> dict[str, str]:
    """Step fields by tag, of all frameworks."""
    return {
        **_COMMON_TAGS,
        **{tag: ours for framework in every_facts() for tag, ours in framework.tracker_tags.items()},
    }


def framework_of() -> dict[str, str]:
    """Frameworks by the tag of the loss that only they use."""
    return {
        tag: framework.name
        for framework in every_facts()
        for tag, ours in framework.tracker_tags.items()
        if ours == "loss"
    }


def step_of(values: Mapping[str, Any], zero_based: bool, source: Evidence, place: str) -> Step | Event:
    """A step of named values, as text or numbers; an event with the reason if a value is invalid."""
    try:
        return _step(values, zero_based, source)
    except ValueError as reason:
        return unread(source, place, str(reason))


def unread(source: Evidence, place: str, reason: str) -> Event:
    return Event(kind="unread_line", message=f"{place}: {reason}", source=source)


def _step(values: Mapping[str, Any], zero_based: bool, source: Evidence) -> Step:
    fields: dict[str, Any] = {}
    for name, value in values.items():
        target = REPORTED.get(name, name)
        if value is None or value == "":
            continue
        if target in WORDS:
            fields[target] = _word(name, value)
        else:
            fields[target] = _whole(name, value) if target in WHOLE_NUMBERS else number_of(value, name)
    if "step" not in fields:
        raise ValueError("no step")
    if not 1 <= fields.get("steps_covered", 1) <= _MOST_COVERED:
        raise ValueError(f"steps_covered is {fields['steps_covered']}, expected 1 to {_MOST_COVERED:,}")
    reported = fields["step"]
    fields.setdefault("reported_step", reported)
    fields["step"] = reported + 1 if zero_based else reported
    return Step(**fields, source=source)


def readable(text: str) -> str:
    """Text that can be encoded: JSON may contain half a character."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise ValueError(f"{name} is {_shown(value)}, expected text")
    return readable(str(value)[:_LONGEST_WORD])


def _shown(value: Any) -> str:
    """A value for a message; of a list or a mapping only its type, since it may be nested deeply."""
    return repr(readable(str(value)[:40])) if isinstance(value, str | int | float) else f"a {type(value).__name__}"


def number_of(value: Any, name: str) -> float:
    """A number from text or a number; ValueError for anything else."""
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
