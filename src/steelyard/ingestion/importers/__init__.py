"""One module per format of results that are not logs; adding one is a file and a word in the table."""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from steelyard.frameworks.logs.settings import Setting
from steelyard.records.step import Event, Step

FORMATS = ("tensorboard", "suite_json", "wandb_csv", "table")
"""In the order they are asked; the first that recognises a file reads it."""

Columns = Mapping[str, str]
"""By our name of a step's field, the file's."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file of results says."""

    dialect: str
    framework: str | None
    """None where the file does not say."""
    steps: Iterable[Step | Event]
    """In order; a row that cannot be read is an `unread_line`, a file that breaks off a `broken_file`."""
    settings: Sequence[Setting] = ()
    events: Sequence[Event] = field(default_factory=tuple)
    memory_gib: float | None = None
    """Of the run as a whole, where that is all the file gives."""
    memory_kind: str | None = None
    lines: int = 0


class Importer(Protocol):
    """What a module of this folder has."""

    def recognises(self, path: str, columns: Columns | None) -> bool:
        """Whether the file is of this format; `columns` is what --columns says."""
        ...

    def read(self, path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
        """What it says; `kept` is what evidence calls the file. One that cannot be read is an InputError."""
        ...

    def keep(self, path: str, to: Path, most_unpacked: int) -> None:
        """Copy it into the run."""
        ...


def importer_of(path: str, columns: Columns | None) -> Importer | None:
    """The format of a file of results; None for a log."""
    modules: Iterator[Any] = (importlib.import_module(f"{__name__}.{name}") for name in FORMATS)
    return next((module for module in modules if module.recognises(path, columns)), None)
