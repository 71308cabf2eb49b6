"""What `ingest --suite` prints: the cells of the imported suite."""

import shlex
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from steelyard.cli import printing
from steelyard.cli.ingest import ingest_document
from steelyard.cli.outcome import counted

if TYPE_CHECKING:
    from steelyard.campaign.suite_import import ImportedSuite
    from steelyard.records import Run
    from steelyard.records.suite import SuiteCell

_MOST_SHOWN = 8
"""Notices, and logs that were left out."""
_IN_A_FILE = "several_runs"
"""The notice that a file holds several runs, all of which the suite has."""


def show_suite(imported: "ImportedSuite", as_json: bool) -> None:
    if as_json:
        printing.show_json(_document(imported))
        return
    suite = imported.suite
    cells, runs = counted(len(suite.cells), "cell"), counted(len(imported.runs), "run")
    files = sum(len(files.names) for files in {each.files for each in imported.runs})
    left_out = sum(len(each.files) for each in imported.left_out)
    printing.say(f"imported {suite.directory}: {cells}, {runs} of {counted(files + left_out, 'file')}")
    statuses = {each.run.directory: _status(each.run) for each in imported.runs}
    heads = [axis.rpartition(".")[2].replace("_", " ") for axis in suite.manifest.axes]
    rows = [[*heads, "runs", "status"]]
    for cell in suite.cells:
        words = Counter(statuses[suite.directory / cell.directory / name] for name in cell.runs)
        status = ", ".join(words if len(words) == 1 else (f"{count} {word}" for word, count in words.items()))
        rows.append([*map(_value, cell.values.values()), str(len(cell.runs)), status])
    printing.table(rows, "  ")
    for each in islice(imported.left_out, _MOST_SHOWN):
        printing.item("  left out  ", f"{' and '.join(each.files)}: {each.error.message}")
    if len(imported.left_out) > _MOST_SHOWN:
        printing.item("  left out  ", f"{len(imported.left_out) - _MOST_SHOWN:,} more (see --json)")
    for text in _notes(imported):
        printing.item("  note      ", text)
    printing.say(f"next: steelyard check {shlex.quote(str(suite.directory))}")


def _value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _status(run: "Run") -> str:
    """The status, or the kind of a failure."""
    failure = run.manifest.failure
    if failure is None:
        return run.status
    return "OOM" if failure.kind == "oom" else f"{run.status} ({failure.kind})"


def _notes(imported: "ImportedSuite") -> list[str]:
    """The notices of the suite, and how often its runs have notices of each kind."""
    kinds = Counter(kind for each in imported.runs for kind in {event.kind for event in each.notices} - {_IN_A_FILE})
    of_runs = [f"{kind.replace('_', ' ')}: {counted(count, 'run')} (see --json)" for kind, count in kinds.items()]
    notes = [*(reason.message for reason in imported.notices), *of_runs]
    more = [f"{len(notes) - _MOST_SHOWN:,} more (see --json)"] if len(notes) > _MOST_SHOWN else []
    return [*notes[:_MOST_SHOWN], *more]


def _document(imported: "ImportedSuite") -> dict[str, Any]:
    suite = imported.suite
    return {
        "suite": str(suite.directory.resolve()),
        "axes": suite.manifest.axes,
        "cells": [_cell(cell) for cell in suite.cells],
        "runs": [ingest_document(each.run, each.notices, each.siblings) for each in imported.runs],
        "left_out": [{"files": list(each.files), **each.error.document()} for each in imported.left_out],
        "notices": [
            {"code": reason.code.name, "message": reason.message, **reason.values} for reason in imported.notices
        ],
    }


def _cell(cell: "SuiteCell") -> dict[str, Any]:
    return {
        "name": cell.name,
        "platform": cell.platform,
        "values": cell.values,
        "directory": cell.directory,
        "runs": cell.runs,
    }
