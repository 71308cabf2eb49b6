"""What a report can be about, one module per kind: the runs and files that belong to it, and how it is made."""

import hashlib
import importlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from steelyard import verdict
from steelyard.records import Run
from steelyard.records.contents import records_digest
from steelyard.reporting.page import Cell, Table
from steelyard.reporting.rendering import Report
from steelyard.verdict import Subject, Verdict

KINDS = ("run", "fleet", "suite", "comparison", "suite_comparison")
"""A kind is a module with `layout` and `read`, and its name here."""
RUNS = "runs"
"""The directory of the runs in a bundle."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What a report is about."""

    kind: str
    directory: Path
    target: tuple[Run, ...] | None = None
    """The runs of a ladder's target, in place of those that the ladder names."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What belongs to a document, and where it is in a bundle."""

    home: str
    """The place of the document itself."""
    runs: Mapping[Path, str]
    """The place of each run, by its directory."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents of other files by their places; they name runs by these places."""
    as_checked: bool = True
    """Whether the thresholds of the last check of each run count."""


@dataclass(frozen=True, slots=True)
class Document:
    """A report, and the files that follow from the same records."""

    report: Report
    judged: Sequence[Verdict]
    manifests: Mapping[Path, str] = field(default_factory=dict)
    """Contents of fleet.json and suite.json."""
    made: Callable[[], Mapping[Path, str]] = dict
    """Makes the file of a comparison."""

    def derived(self) -> dict[Path, str]:
        """Contents of the files that follow from the records."""
        verdicts = {judged.run / verdict.FILE: verdict.file_text(judged) for judged in self.judged}
        return {**verdicts, **self.manifests, **self.made()}


class Kind(Protocol):
    def layout(self, topic: Topic) -> Layout: ...

    def read(self, topic: Topic, linked: bool, unchanged: bool) -> Document: ...


def layout_of(topic: Topic) -> Layout:
    """What belongs to a document. Reads no steps."""
    return _module(topic).layout(topic)


def read(topic: Topic, linked: bool = False, unchanged: bool = True) -> Document:
    """Make a report; `linked` to those next to it. `unchanged`: an error if a run has changed since it was compared."""
    document = _module(topic).read(topic, linked, unchanged)
    rows = _digests(layout_of(topic), document)
    page = replace(document.report.page, blocks=[*document.report.page.blocks, _records(rows)])
    return replace(document, report=replace(document.report, page=page, records=_of_all(rows)))


def _module(topic: Topic) -> Kind:
    return cast("Kind", importlib.import_module(f"{__name__}.{topic.kind}"))


def _digests(layout: Layout, document: Document) -> list[tuple[str, str, str]]:
    """Every run and manifest with the digest of its records, and how the run was checked."""
    limits = {judged.run.resolve(): _limits(judged) for judged in document.judged if layout.as_checked}
    rows = [(place, _digest(run), limits.get(run.resolve(), "")) for run, place in layout.runs.items()]
    for path, text in document.manifests.items():
        name = f"{path.parent.resolve().name}/{path.name}"
        rows.append((name, hashlib.sha256(text.encode()).hexdigest(), ""))
    return rows


def _records(rows: Sequence[tuple[str, str, str]]) -> Table:
    """The digests of all records that the report is made from, so that others do not fit it."""
    used = 3 if any(limits for *_, limits in rows) else 2
    cells: list[list[str | Cell]] = [list(row[:used]) for row in (*rows, ("all of these lines", _of_all(rows), ""))]
    note = "SHA-256 of the checksums of the records and logs of each run, in the format of sha256sum."
    return Table("Records", ["run", "SHA-256", "checked with"][:used], cells, note, folded=True)


def _of_all(rows: Sequence[tuple[str, str, str]]) -> str:
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest, _ in rows).encode()).hexdigest()


def _digest(run: Path) -> str:
    try:
        return records_digest(run)
    except OSError as reason:
        return f"unknown: {reason.strerror}"


def _limits(judged: Verdict) -> str:
    warm_up = f"--warmup-steps {judged.warmup_steps}" if judged.warmup_steps else ""
    return "; ".join(filter(None, (*judged.thresholds, warm_up)))


def as_last_judged(run: Run) -> Subject:
    """A run with the thresholds and the window of its last check."""
    saved = verdict.saved(run.directory) or {"thresholds": (), "warmup_steps": 0}
    return verdict.read_subject(run, saved["thresholds"], saved["warmup_steps"])


def tree(directories: Sequence[Path]) -> dict[Path, str]:
    """Places in a bundle that are to each other as the directories are, since sides are called after directories."""
    above = os.path.commonpath([directory.parent for directory in directories])
    return {directory: f"{RUNS}/{directory.relative_to(above)}" for directory in directories}


def json_text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False) + "\n"
