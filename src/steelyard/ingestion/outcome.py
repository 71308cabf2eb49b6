"""The result of reading all files of a run: its framework, its manifest, and how it ended."""

import platform as system
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from steelyard import __version__, records
from steelyard.errors import InputError
from steelyard.experiment.partial import PartialExperiment
from steelyard.frameworks import registry
from steelyard.frameworks.facts import UNKNOWN
from steelyard.frameworks.unread import unread_framework
from steelyard.ingestion.importers import Imported
from steelyard.ingestion.knowledge import Knowledge
from steelyard.ingestion.parts import Part
from steelyard.ingestion.runs import ChosenRun
from steelyard.ingestion.sources import STDIN, beginning, shown_path
from steelyard.records import Event, Failure, RunManifest
from steelyard.records.failures import FAILURES, RESTARTS, SAVES, Course, final_save, sort_failures
from steelyard.records.manifest import Ingested, LogFile, RunStatus
from steelyard.records.step import NOTICES

_AS_A_TABLE = "steelyard ingest {path} --columns step=…,loss=…, if it is a table"
_SEARCHED = 1 << 22
"""Bytes that are searched for step lines of other frameworks."""
_MOST_HELD = 10_000
"""Limit of events of one kind in memory; events.jsonl has all."""


class UnrecognizedError(InputError):
    """A file without a line of a known training log; it may be any text."""


class Recognizer(Protocol):
    """A reader, or the result of reading a piece of a log."""

    seen: dict[str, str]
    hinted: dict[str, None]
    others: dict[str, None]


@dataclass(slots=True)
class Outcome:
    """Everything read from the files of a run except its steps."""

    paths: Sequence[str]
    knowledge: Knowledge
    asked_framework: str | None
    chosen: ChosenRun | None = None
    """The run that is read, if the files hold several."""
    parts: list[Part] = field(default_factory=list)
    files: list[LogFile] = field(default_factory=list)
    imported: Imported | None = None
    seen: dict[str, str] = field(default_factory=dict)
    """Dialects of the step lines, each with its era."""
    hinted: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)
    failures: list[Event] = field(default_factory=list)
    restarts: list[Event] = field(default_factory=list)
    notices: list[Event] = field(default_factory=list)
    finished: Event | None = None
    endings: list[Event] = field(default_factory=list)
    """The end marker and the checkpoints after it."""
    exited_early: Event | None = None
    data_ended: Event | None = None
    cut: bool = False
    """A file ends within a step line, or a compressed file is truncated."""
    interrupted: bool = False
    """Interrupted by the user while following the log."""

    def note(self, event: Event) -> None:
        """Keep an event that shows how the run ended, or that the user should see."""
        if event.kind in RESTARTS:
            _hold(self.restarts, event)
        if event.kind in FAILURES:
            _hold(self.failures, event)
        elif event.kind in NOTICES:
            _hold(self.notices, event)
        elif event.kind == "finished":
            self.finished, self.endings = event, [event]
        elif event.kind in SAVES and self.finished is not None:
            _hold(self.endings, event)
        elif event.kind == "exited_early":
            self.exited_early = event
        elif event.kind == "data_ended":
            self.data_ended = event

    def recognize(self, *readers: Recognizer) -> None:
        """Keep the dialects that these readers found."""
        for reader in readers:
            for name, era in reader.seen.items():
                self.seen[name] = self.seen.get(name) or era
            self.hinted |= reader.hinted
            self.others |= reader.others

    def check_recognized(self) -> None:
        """Refuse files that are not a log, or logs of two runs. Without steps, a failure or settings are enough."""
        families = {dialect.mark: dialect.framework for dialect in registry.dialects() if dialect.name in self.seen}
        path, requested = self.paths[0], self.asked_framework
        if len(families) > 1:
            raise InputError(
                f"the files are logs of {' and '.join(families.values())}, so of two runs",
                key="PATH",
                value=" ".join(self.paths),
                expected="the files of one run at a time",
                next=f"steelyard ingest {shlex.quote(path)}",
            )
        if any(part.rows for part in self.parts) or self.failures:
            return
        self._check_framework()
        if self.knowledge.logged.last:
            return
        if all(name != STDIN and Path(name).is_file() and not Path(name).stat().st_size for name in self.paths):
            raise UnrecognizedError(f"{path} is empty", key="PATH", value=path, expected="a log", next="ls -l")
        unread, as_a_table = sum(file.unread for file in self.files), _AS_A_TABLE.format(path=path)
        if unread and (name := requested or next(iter(self.hinted), None)):
            raise InputError(
                f"no step of {name} could be read, but {unread} lines look like steps",
                key="--framework" if requested else "PATH",
                value=requested or path,
                expected="the framework of the log" if requested else f"step lines of a supported version of {name}",
                next=f"steelyard ingest {path}, which detects the framework" if requested else as_a_table,
            )
        raise UnrecognizedError(
            f"{path}: no training log recognized",
            key="PATH",
            value=path,
            expected=f"a log of {_known_frameworks()}, a result of the suite, TensorBoard files, CSV or JSONL",
            next=as_a_table,
        )

    def _check_framework(self) -> None:
        """Refuse a log without a known step if it has step lines of a framework that is not read."""
        for path in self.paths:
            if path != STDIN and Path(path).is_file() and (name := unread_framework(beginning(path, _SEARCHED))):
                raise InputError(
                    f"{path}: logs of {name} are not read",
                    key="PATH",
                    value=path,
                    expected=f"a log of {_known_frameworks()}, or a table",
                    next="write its steps and losses to curve.csv, then steelyard ingest curve.csv",
                )

    def dialect(self) -> tuple[str, list[str]]:
        """The main dialect and the others. A dialect with another's step lines is detected by its other lines."""
        if self.imported is not None:
            return self.imported.dialect, []
        names = list(self.seen)
        for name in self.hinted:
            if (printed := _prints_lines_of(name)) in names:
                names[names.index(printed)] = name
        if not names:
            names = [self._hint() or self.asked_framework or UNKNOWN]
        return names[0], [*names[1:], *self.others]

    def _hint(self) -> str | None:
        """The most specific dialect that other lines identify, among those related to the first."""
        first = next((dialect for name in self.hinted if (dialect := registry.dialect(name)) is not None), None)
        related = (dialect for dialect in registry.dialects() if first is not None and dialect.mark == first.mark)
        return next((dialect.name for dialect in related if dialect.name in self.hinted), None)

    def framework(self) -> str:
        """The framework of the run, as requested or detected."""
        if self.asked_framework is not None:
            return self.asked_framework
        if self.imported is not None:
            return self.imported.framework or UNKNOWN
        name, _ = self.dialect()
        dialect = registry.dialect(name)
        return dialect.framework if dialect is not None else name

    def manifest(self, command: Sequence[str]) -> RunManifest:
        """The manifest, with status `running`."""
        (dialect, others), framework = self.dialect(), self.framework()
        config = self.knowledge.config
        name = config.experiment.name if config is not None else experiment_name(self.paths[0])
        experiment, sources = self.knowledge.experiment(name, framework)
        gpu = self.knowledge.known_gpu
        label = (
            gpu.name if gpu else re.sub(r"[^a-z0-9]+", "-", (self.knowledge.gpu_name or framework).lower()).strip("-")
        )
        return RunManifest(
            name=records.stamped(name, label or "unknown"),
            framework=framework,
            experiment=PartialExperiment(experiment),
            sources={key: str(source) for key, source in sources.items()},
            platform=self.knowledge.platform(label or "unknown"),
            expected=self.knowledge.expected(framework),
            provenance=records.Provenance(
                steelyard=__version__,
                command=[shown_path(word) for word in command],
                file=str(config.file) if config is not None else None,
                sha256=config.reading.sha256 if config is not None else None,
                host=system.node(),
                python=sys.version.split()[0],
                system=system.platform(),
                started=records.now(),
            ),
            ingested=Ingested(
                dialect=dialect,
                era=self.seen.get(dialect) or self.seen.get(_prints_lines_of(dialect), ""),
                others=others,
                files=self.files,
                first_moment=min((part.first_time for part in self.parts if part.first_time), default=None),
                last_moment=max((part.last_time for part in self.parts if part.last_time), default=None),
                said=self.knowledge.logged_at(),
                overridden=self.knowledge.overridden,
                run=self.chosen.number if self.chosen is not None else 1,
                runs=list(self.chosen.every) if self.chosen is not None else [],
            ),
            arguments=self.knowledge.logged.arguments,
            software=self.knowledge.software(),
        )

    def status(self) -> tuple[RunStatus, Failure | None]:
        """Status and failure, from failure texts, the last planned step and the end marker."""
        values, _ = self.knowledge.values()
        planned, last = values.get("training.steps"), max((part.last_step for part in self.parts), default=0)
        reached = type(planned) is int and last >= planned
        finished = self.finished is not None and (self.finished.step or last) >= last
        cause = sort_failures(self.failures, self.restarts, self._course(finished, last)).cause
        if cause is not None:
            at = cause.source
            node = f"{cause.node}: " if cause.node else ""
            return "failed", Failure(
                kind=cause.kind,
                message=f"{node}{cause.message}",
                node=cause.node,
                file=at.file if at else None,
                line=at.line if at else None,
            )
        if reached or finished or (self.imported is not None and self.imported.finished):
            return "completed", None
        if self.data_ended is not None:
            return "ended", None
        if self.interrupted or self.exited_early is not None or self.cut or type(planned) is int:
            return "interrupted", None
        return "ended", None

    def _course(self, completed: bool, last_step: int) -> Course:
        written = [part for part in self.parts if part.rows]
        apart = [(part.last_step - part.first_step) / (part.rows - 1) for part in written if part.rows > 1]
        logs = dict[str, int]()
        for part in written:
            kept = self.files[part.file].kept
            logs[kept] = min(part.first_line, logs.get(kept, part.first_line))
        return Course(completed, last_step, max([1.0, *apart]), logs, final_save(self.endings))


def _known_frameworks() -> str:
    return ", ".join(dict.fromkeys(dialect.framework for dialect in registry.dialects()))


def _prints_lines_of(name: str) -> str:
    dialect = registry.dialect(name)
    return dialect.prints_lines_of if dialect is not None else ""


def _hold(events: list[Event], event: Event) -> None:
    """Keep an event; beyond the limit, only the first ones and the last."""
    if len(events) < _MOST_HELD:
        events.append(event)
    else:
        events[-1] = event


def experiment_name(path: str) -> str:
    """The name of a log, fit for a directory."""
    stem = re.sub(r"(\.(gz|zst))?$", "", Path(path).name)
    stem = Path(stem).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:60] or "log"
