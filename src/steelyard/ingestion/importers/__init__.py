"""One module per format of result files. To add one: a file, and its name in `FORMATS`."""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from steelyard.frameworks.logs.settings import Setting
from steelyard.records.step import Event, Step

FORMATS = ("tensorboard", "suite_json", "trainer_state", "trainer_log", "wandb_csv", "lightning_csv", "table")
"""In order of precedence: the first that recognizes a file reads it."""

Columns = Mapping[str, str]
"""Column names of the file, by step field."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The content of a result file."""

    dialect: str
    framework: str | None
    """None if unknown."""
    steps: Iterable[Step | Event]
    """In order; an unreadable row is an `unread_line`, a truncated file a `broken_file`."""
    settings: Sequence[Setting] = ()
    events: Sequence[Event] = field(default_factory=tuple)
    memory_gib: float | None = None
    """Memory of the whole run, if the file has no memory per step."""
    memory_kind: str | None = None
    lines: int = 0
    finished: bool = False
    """Whether the file is written only when the run has completed."""


class Importer(Protocol):
    """The functions of a module of this folder."""

    def recognizes(self, path: str, columns: Columns | None) -> bool:
        """Whether the file has this format; `columns` is --columns."""
        ...

    def read(self, path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
        """Read the file; `kept` is its name in evidence. InputError if it cannot be read."""
        ...

    def keep(self, path: str, to: Path, most_unpacked: int) -> None:
        """Copy the file into the run."""
        ...


def importer_of(path: str, columns: Columns | None) -> Importer | None:
    """The importer of a result file; None for a log."""
    modules: Iterator[Any] = (importlib.import_module(f"{__name__}.{name}") for name in FORMATS)
    return next((module for module in modules if module.recognizes(path, columns)), None)
