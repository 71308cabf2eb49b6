"""What a person or a program sees: JSON on standard output, everything else where it belongs."""

import json
import sys
from typing import TYPE_CHECKING, Any

from steelyard.errors import SteelyardError

if TYPE_CHECKING:
    from rich.console import Console


def show_json(document: dict[str, Any]) -> None:
    """The one document of `--json`."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def out() -> "Console":
    """Standard output, where results go."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def err() -> "Console":
    """Standard error, where progress and notes go."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def show_error(error: SteelyardError, as_json: bool, beside: dict[str, Any] | None = None) -> None:
    """One sentence for a person, one document for a program."""
    if as_json:
        show_json({**(beside or {}), "error": error.document()})
    else:
        sys.stderr.write(f"steelyard: {error}\n")
