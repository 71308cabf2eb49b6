"""What the files of a foreign run come to: whose they are, what is known of the run, and how it ended."""

import platform as system
import re
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
from steelyard.ingestion.importers import Imported
from steelyard.ingestion.knowledge import Knowledge
from steelyard.ingestion.parts import Part
from steelyard.ingestion.sources import STDIN, shown_path
from steelyard.records import Event, Failure, RunManifest
from steelyard.records.manifest import Ingested, LogFile, RunStatus
from steelyard.records.step import FAILURES, NOTICES, first_cause, outlived

_AS_A_TABLE = "steelyard ingest {path} --columns step=…,loss=…, if it is a table"
_MOST_HELD = 10_000
"""Events of one kind that are held in memory; all are in events.jsonl."""


class Recogniser(Protocol):
    """A reader, or what a piece of a log was found to be."""

    seen: dict[str, str]
    hinted: dict[str, None]
    others: dict[str, None]


@dataclass(slots=True)
class Outcome:
    """All that was read of a run's files, beside its steps."""

    paths: Sequence[str]
    knowledge: Knowledge
    asked_framework: str | None
    parts: list[Part] = field(default_factory=list)
    files: list[LogFile] = field(default_factory=list)
    imported: Imported | None = None
    seen: dict[str, str] = field(default_factory=dict)
    """Dialects whose step lines were read, each with its era."""
    hinted: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)
    failures: list[Event] = field(default_factory=list)
    cause: Event | None = None
    """The first cause among them."""
    restarts: list[Event] = field(default_factory=list)
    notices: list[Event] = field(default_factory=list)
    finished: Event | None = None
    exited_early: Event | None = None
    cut: bool = False
    """The last line of a file ends amid a step, or a compressed file breaks off."""
    interrupted: bool = False
    """By the user, while the log was followed."""

    def note(self, event: Event) -> None:
        """Keep an event that says how the run ended, or that a person should know of."""
        if event.kind in ("resumed", "restart"):
            _hold(self.restarts, event)
        if event.kind in FAILURES:
            self.cause = first_cause([self.cause, event] if self.cause is not None else [event])
            _hold(self.failures, event)
        elif event.kind in NOTICES:
            _hold(self.notices, event)
        elif event.kind == "finished":
            self.finished = event
        elif event.kind == "exited_early":
            self.exited_early = event

    def recognise(self, *readers: Recogniser) -> None:
        """Keep whose lines were read."""
        for reader in readers:
            for name, era in reader.seen.items():
                self.seen[name] = self.seen.get(name) or era
            self.hinted |= reader.hinted
            self.others |= reader.others

    def check_recognised(self) -> None:
        """Refuse what is no log, or two of them: a run without a step must at least say what it was or why it ended."""
        families = {each.mark: each.framework for each in registry.dialects() if each.name in self.seen}
        path, asked = self.paths[0], self.asked_framework
        if len(families) > 1:
            raise InputError(
                f"the files are logs of {' and '.join(families.values())}, which are two runs",
                key="PATH",
                value=" ".join(self.paths),
                expected="the files of one run",
                next=f"steelyard ingest {path}, and the other by itself",
            )
        if any(part.rows for part in self.parts) or self.failures or self.knowledge.logged.last:
            return
        if all(name != STDIN and Path(name).is_file() and not Path(name).stat().st_size for name in self.paths):
            raise InputError(f"{path} is empty", key="PATH", value=path, expected="a log", next="ls -l")
        unread, as_a_table = sum(file.unread for file in self.files), _AS_A_TABLE.format(path=path)
        if unread and (name := asked or next(iter(self.hinted), None)):
            raise InputError(
                f"no step of {name} was read, and {unread} lines look like steps",
                key="--framework" if asked else "PATH",
                value=asked or path,
                expected="whose log it is" if asked else f"step lines of {name} as a version that is read prints them",
                next=f"steelyard ingest {path}, which tells it by itself" if asked else as_a_table,
            )
        names = ", ".join(dict.fromkeys(each.framework for each in registry.dialects()))
        raise InputError(
            f"{path}: no line of a training log was recognised",
            key="PATH",
            value=path,
            expected=f"a log of {names}, a result of the comparison suite, TensorBoard events, CSV or JSONL",
            next=as_a_table,
        )

    def dialect(self) -> tuple[str, list[str]]:
        """Whose lines they are; one that prints the step lines of another is told by the lines beside them."""
        if self.imported is not None:
            return self.imported.dialect, []
        names = list(self.seen)
        for name in self.hinted:
            if (printed := _prints_lines_of(name)) in names:
                names[names.index(printed)] = name
        if not names:
            names = list(self.hinted)[:1] or [self.asked_framework or UNKNOWN]
        return names[0], [*names[1:], *self.others]

    def framework(self) -> str:
        """The framework of the run."""
        if self.asked_framework is not None:
            return self.asked_framework
        if self.imported is not None:
            return self.imported.framework or UNKNOWN
        name, _ = self.dialect()
        dialect = registry.dialect(name)
        return dialect.framework if dialect is not None else name

    def manifest(self, command: Sequence[str]) -> RunManifest:
        """All that is known of the run, as of one that still runs."""
        (dialect, others), framework = self.dialect(), self.framework()
        config = self.knowledge.config
        name = config.experiment.name if config is not None else _experiment_name(self.paths)
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
            ),
            software=self.knowledge.software(),
        )

    def status(self) -> tuple[RunStatus, Failure | None]:
        """How the log says it ended: a failure text, its last planned step or word, or neither."""
        values, _ = self.knowledge.values()
        planned, last = values.get("training.steps"), max((part.last_step for part in self.parts), default=0)
        reached = type(planned) is int and last >= planned
        ended = [self.finished] if self.finished is not None else []
        cause = self.cause
        if cause is not None and not (reached and outlived([*self.failures, *self.restarts, *ended])):
            at = cause.source
            node = f"{cause.node}: " if cause.node else ""
            return "failed", Failure(
                kind=cause.kind,
                message=f"{node}{cause.message}",
                node=cause.node,
                file=at.file if at else None,
                line=at.line if at else None,
            )
        if reached or (self.finished is not None and (self.finished.step or last) >= last):
            return "completed", None
        read = (registry.dialect(name) for name in self.seen)
        unended = any(dialect is not None and registry.facts(dialect.framework).announces_end for dialect in read)
        if self.interrupted or self.exited_early is not None or self.cut or type(planned) is int or unended:
            return "interrupted", None
        return "completed", None


def _prints_lines_of(name: str) -> str:
    dialect = registry.dialect(name)
    return dialect.prints_lines_of if dialect is not None else ""


def _hold(events: list[Event], event: Event) -> None:
    """Keep an event; of very many the first ones and the last."""
    if len(events) < _MOST_HELD:
        events.append(event)
    else:
        events[-1] = event


def _experiment_name(paths: Sequence[str]) -> str:
    stem = re.sub(r"(\.(gz|zst))?$", "", Path(paths[0]).name)
    stem = Path(stem).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:60] or "log"
