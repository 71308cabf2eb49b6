"""What a report can be about, one module per kind: its runs and files, and the report made from them."""

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from steelyard import verdict
from steelyard.records import Run
from steelyard.reporting.page import Page
from steelyard.verdict import Subject, Verdict

KINDS = ("run", "fleet", "comparison")
"""A kind is a module with `layout` and `read`, and its name here."""
RUNS = "runs"
"""The directory of the runs in a bundle."""


@dataclass(frozen=True, slots=True)
class Document:
    """A report, and the files that follow from the same records."""

    kind: str
    directory: Path
    page: Page
    derived: Callable[[], dict[Path, str]]
    """Makes the verdict of each run and the file of a comparison or a fleet: contents by their paths."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What belongs to a document, and where it is in a bundle."""

    home: str
    """The place of the document itself."""
    runs: Mapping[Path, str]
    """The place of each run, by its directory."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents by their places; they name runs by these places."""


class Kind(Protocol):
    def layout(self, directory: Path) -> Layout:
        """What belongs to the document of a directory. Reads no run."""
        ...

    def read(self, directory: Path, linked: bool = False, unchanged: bool = True) -> Document:
        """Make the report; `linked` to reports next to it. `unchanged`: an error if a run has changed since."""
        ...


def kind_of(name: str) -> Kind:
    return cast("Kind", importlib.import_module(f"{__name__}.{name}"))


def as_last_judged(run: Run) -> Subject:
    """A run with the thresholds and the window of its last check."""
    saved = verdict.saved(run.directory) or {"thresholds": (), "warmup_steps": 0}
    return verdict.read_subject(run, saved["thresholds"], saved["warmup_steps"])


def json_text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def verdict_files(verdicts: Iterable[Verdict]) -> dict[Path, str]:
    return {judged.run / verdict.FILE: verdict.file_text(judged) for judged in verdicts}
