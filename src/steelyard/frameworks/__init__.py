"""One module a framework; adding one is a file and a word in the table."""

import importlib

from steelyard.errors import InputError
from steelyard.frameworks.framework import Command, Framework, LogReader

MODULES = {name: f"{__name__}.{name}" for name in ("native",)}


def framework(name: str) -> Framework:
    """The framework of that name."""
    if name not in MODULES:
        raise InputError(
            f"framework {name!r} can be named in a file, but not launched yet",
            key="framework",
            value=name,
            expected=f"one of {', '.join(MODULES)}",
            next="give the platform `framework: native`",
        )
    found: Framework = importlib.import_module(MODULES[name]).FRAMEWORK
    return found


__all__ = ["MODULES", "Command", "Framework", "LogReader", "framework"]
