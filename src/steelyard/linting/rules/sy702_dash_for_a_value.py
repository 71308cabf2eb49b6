"""A dash is used instead of a value.

Why: in a table `-` reads as "the same", but each framework then uses its own default.
Fix: write the value.
"""

from collections.abc import Iterator
from typing import Any

from steelyard.experiment.reading import PointerPath
from steelyard.frameworks.registry import facts, is_planned
from steelyard.linting.rule import Problems, Reading, Rule, Stated

RULE = Rule("SY702", "error", on="reading")


def check(reading: Reading) -> Problems:
    if reading.family != "steelyard":
        return
    platforms = reading.content.get("platforms")
    stated = platforms.values() if isinstance(platforms, dict) else ()
    frameworks = [platform.get("framework") for platform in stated if isinstance(platform, dict)]
    names = dict.fromkeys(name for name in frameworks if isinstance(name, str) and is_planned(name))
    for path in _dashes(reading.content):
        dotted = ".".join(path[3:] if path[:1] == ("platforms",) and "overrides" in path else path)
        defaults = [
            f"{name} defaults to {facts(name).silent_defaults[dotted]}"
            for name in names
            if dotted in facts(name).silent_defaults
        ]
        message = f"{dotted} is '-', which is not a value" + (f": {', '.join(defaults)}" if defaults else "")
        yield RULE.at(reading, Stated("-", path), message, "write the value", "a value")


def _dashes(value: Any, at: PointerPath = ()) -> Iterator[PointerPath]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _dashes(inner, (*at, str(key)))
    elif value == "-":
        yield at
