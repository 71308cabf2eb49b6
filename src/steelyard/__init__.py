"""Steelyard weighs LLM training: it runs it, judges it against physics, and compares platforms."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["check", "compare", "ingest", "ingest_suite", "lint", "load", "plan", "report", "run", "verify"]

if TYPE_CHECKING:
    from steelyard.api import check, compare, ingest, ingest_suite, lint, load, plan, report, run, verify


def __getattr__(name: str) -> Any:
    """The functions of the API, imported when they are first asked for: a verb needs few of the packages."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from steelyard import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
