"""One reading of all files: their steps, events and settings, recorded as a run."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from msgspec.structs import replace

from steelyard.errors import InputError
from steelyard.frameworks.logs.cutter import LineCutter
from steelyard.frameworks.logs.reader import MOST_UNREAD, LogReader
from steelyard.frameworks.logs.series import Job
from steelyard.frameworks.logs.settings import Setting
from steelyard.ingestion import parallel
from steelyard.ingestion.importers import importer_of
from steelyard.ingestion.knowledge import Knowledge
from steelyard.ingestion.outcome import Outcome
from steelyard.ingestion.parts import PARTS, Part, merge
from steelyard.ingestion.request import Request
from steelyard.ingestion.runs import ChosenRun, LinesOfRun, Runs
from steelyard.ingestion.sources import (
    STDIN,
    BrokenFileError,
    Source,
    blocks,
    following,
    is_plain_file,
    open_source,
    shown_path,
)
from steelyard.records import Event, Evidence, RunWriter, Step
from steelyard.records.failures import FAILURES
from steelyard.records.manifest import LogFile
from steelyard.records.rows import StepRows
from steelyard.records.step import to_line
from steelyard.records.writer import EVENTS, LOGS, STEPS, StagedRun

_QUIET_POLLS = 20
"""Polls without new lines after which a followed log with a failure counts as ended."""


class _Sink:
    """Receives the content of one file: steps go into one part per series, the rest into the run."""

    def __init__(self, work: "Work", file: int) -> None:
        self._work, self._file, self._live = work, file, work.live
        self.parts: dict[str, Part] = {}

    def step(self, series: str, step: Step) -> None:
        try:
            self.parts[series].append(step)
        except KeyError:
            part = self.parts[series] = self._work.new_part(self._file, series)
            part.append(step)
        if self._live:
            self._work.request.observe(step)

    def steps(self, series: str, steps: StepRows) -> None:
        if series not in self.parts:
            self.parts[series] = self._work.new_part(self._file, series)
        self.parts[series].extend_by(steps)
        if self._live:
            for step in steps:
                self._work.request.observe(step)

    def restart(self, series: str, step: int) -> None:
        if series in self.parts:
            self.parts[series].drop_from(step)

    def event(self, event: Event) -> None:
        if event.node is None and event.kind in FAILURES:
            event = replace(event, node=self._work.node_of(self._file))
        self._work.event(event)

    def setting(self, setting: Setting) -> None:
        self._work.learn(setting)


class Work:
    """One reading, from the first byte to the run."""

    def __init__(self, request: Request, staged: StagedRun, chosen: ChosenRun | None = None) -> None:
        """`chosen` is the run to read, if the files hold several."""
        self.request, self.staged, self.chosen = request, staged, chosen
        self.directory = staged.directory
        self.live = request.follow
        self.knowledge = Knowledge(
            request.settings,
            request.setting_sources,
            request.config,
            request.gpu,
            request.gpus,
            request.nodes,
            request.stated,
            request.override,
            request.folder_gpu,
        )
        self.job = Job()
        self.knowledge.update(self.job)
        self.outcome = Outcome(request.paths, self.knowledge, request.framework, chosen)
        self.found = Runs()
        self.contradiction: InputError | None = None
        """Of the command line by the log: an error only if it is in the run that is recorded."""
        self.writer: RunWriter | None = None
        self._events: IO[bytes] = (self.directory / EVENTS).open("ab")
        (self.directory / PARTS).mkdir()
        self._kept: set[str] = set()

    # Reading.

    def read(self) -> None:
        for at, path in enumerate(self.request.paths):
            importer = importer_of(path, self.request.columns)
            if importer is not None:
                self._import(importer, path)
            elif self.outcome.imported is not None:
                raise InputError(
                    f"{path} is a log, and another file is a result",
                    key="PATH",
                    value=path,
                    expected="either logs of one run, or one result",
                    next=f"steelyard ingest {shlex.quote(path)}",
                )
            elif not self._read_in_pieces(at, path, kept := self._kept_name(path)):
                self._read_in_one(at, path, kept)
        for part in self.outcome.parts:
            part.flush()
        if self.outcome.imported is None:
            self.outcome.check_recognized()

    def _import(self, importer: Any, path: str) -> None:
        if len(self.request.paths) > 1:
            raise InputError(
                f"{path} is a result file, which is a run by itself",
                key="PATH",
                value=path,
                expected="one result, or logs of one run",
                next=f"steelyard ingest {shlex.quote(path)}",
            )
        kept = self._kept_name(path)
        self.outcome.imported = imported = importer.read(
            path, f"{LOGS}/{kept}", self.request.columns, self.request.most_unpacked
        )
        for setting in imported.settings:
            self.learn(setting)
        if imported.memory_gib is not None and imported.memory_kind:
            details = {"gib": imported.memory_gib, "kind": imported.memory_kind}
            message = f"{imported.memory_gib:.2f} GiB ({imported.memory_kind})"
            self.event(Event(kind="memory", message=message, details=details))
        for event in imported.events:
            self.event(event)
        part = self.new_part(0, "")
        world, flops = self.job.world_size, self.job.flops_per_token
        count = unread = 0
        for step in imported.steps:
            if isinstance(step, Event):
                unread += step.kind == "unread_line"
                self.outcome.cut |= step.kind == "broken_file"
                if step.kind != "unread_line" or unread <= MOST_UNREAD:
                    self.event(step)
                continue
            if count and step.step <= part.last_step:
                message = f"step {step.step:,} repeats; the last record is used"
                self.event(Event(kind="restart", message=message, step=step.step))
                count -= part.drop_from(step.step)
            part.append(self._with_tokens(step).derived(world, flops) if world else self._with_tokens(step))
            count += 1
        self._count(path, kept, imported.lines, count, unread)
        importer.keep(path, self.directory / LOGS / kept, self.request.most_unpacked)

    def _with_tokens(self, step: Step) -> Step:
        if step.tokens is not None or not self.job.sequence_length or not self.job.global_batch_size:
            return step
        return replace(step, tokens=self.job.sequence_length * self.job.global_batch_size)

    def _read_in_pieces(self, at: int, path: str, kept: str) -> bool:
        """Read a long plain log in parallel; False, with nothing recorded, if it is not one."""
        if self.live or self.chosen is not None or not is_plain_file(path):
            return False
        log = f"{LOGS}/{kept}"
        plan = parallel.plan(path, log, self.request.framework, self.knowledge, self.directory / PARTS, at)
        if plan is None:
            return False
        with parallel.pool() as readers:
            pieces = parallel.read_all(readers, plan, self.directory / LOGS / kept)
        if pieces is None:
            return False
        sink, reader = _Sink(self, at), plan.reader
        self.outcome.parts.append(plan.part)
        for entry in plan.head.entries:
            if isinstance(entry, Setting):
                self.learn(entry)
            else:
                sink.event(entry)
        recorded: set[tuple[str, str | None, str]] = set()
        unread = reader.unread
        for event in (event for piece in pieces for event in piece.events):
            key = (event.kind, event.node, event.message[:80])
            unread += event.kind == "unread_line"
            if event.kind == "unread_line" and unread > MOST_UNREAD:
                continue
            if "order" not in event.details or key not in recorded:  # failures: once per file, not per piece
                recorded.add(key)
                sink.event(event)
        self.outcome.recognize(reader, *pieces)
        self.found.add(at, reader.attempts, reader.line + sum(piece.lines for piece in pieces))
        self.outcome.cut |= pieces[-1].cut
        lines, steps = (sum(getattr(piece, name) for piece in pieces) for name in ("lines", "steps"))
        unread = reader.unread + sum(piece.unread for piece in pieces)
        self._count(path, kept, reader.line + lines, reader.steps_read + steps, unread)
        return True

    def _read_in_one(self, at: int, path: str, kept: str) -> None:
        sink = _Sink(self, at)
        log_reader = LogReader(f"{LOGS}/{kept}", sink, self.request.framework, self.job)
        lines_of_run = None if self.chosen is None else self.chosen.lines.get(at)
        reader = log_reader if lines_of_run is None else LinesOfRun(log_reader, lines_of_run)
        cutter = LineCutter()
        opened, copied = path if self.chosen is None else self.chosen.paths[at], self.directory / LOGS / kept
        with open_source(opened, self.request.most_unpacked) as source, copied.open("wb") as copy:
            try:
                for block in self._blocks(path, source):
                    lines = cutter.feed(block)
                    first = reader.line + 1
                    reader.feed(lines)
                    if secrets := reader.redacted:
                        copy.writelines(secrets.get(at, line) + b"\n" for at, line in enumerate(lines, first))
                    else:
                        copy.write(cutter.raw)
            except KeyboardInterrupt:
                if not self.live:
                    raise
                self.outcome.interrupted = True
            except BrokenFileError as broken:
                end = Evidence(f"{LOGS}/{kept}", reader.line)
                self.event(Event(kind="broken_file", message=str(broken), source=end))
                self.outcome.cut = True
            unread = reader.unread
            for rest in cutter.rest():
                reader.feed([rest])
                copy.write(reader.redacted.get(reader.line, rest))
            self.outcome.cut |= reader.unread > unread
        log_reader.end()
        self.outcome.recognize(log_reader)
        self.found.add(at, log_reader.attempts, reader.line)
        self._count(path, kept, reader.line, reader.steps_read, reader.unread)

    def discard(self) -> None:
        """Remove what was read, unless it is recorded."""
        self._events.close()
        if self.staged.directory.exists():
            self.staged.remove()

    def _count(self, path: str, kept: str, lines: int, steps: int, unread: int) -> None:
        file = LogFile(path=shown_path(path), kept=f"{LOGS}/{kept}", lines=lines, steps=steps, unread=unread)
        self.outcome.files.append(file)

    def _blocks(self, path: str, source: Source) -> Iterator[bytes]:
        if not self.live:
            return blocks(source)

        quiet = 0

        def ended() -> bool:
            return self.outcome.finished is not None or (bool(self.outcome.failures) and quiet >= _QUIET_POLLS)

        def idle() -> None:
            nonlocal quiet
            quiet += 1
            for part in self.outcome.parts:
                part.flush()
            self._events.flush()

        return following(path, source, ended, idle)

    def _kept_name(self, path: str) -> str:
        stem = "stdin.log" if path == STDIN else re.sub(r"[^\w.+-]+", "_", Path(path).name).lstrip(".") or "log"
        stem = re.sub(r"\.(gz|zst)$", "", stem)[-150:]
        name, number = stem, 1
        while name in self._kept:
            number += 1
            name = f"{number}-{stem}"
        self._kept.add(name)
        return name

    def new_part(self, file: int, series: str) -> Part:
        if self.live and not self.outcome.parts:
            self._show_early()
            part = Part(self.directory / STEPS, file, series)
        else:
            part = Part(self.directory / PARTS / f"{len(self.outcome.parts)}.jsonl", file, series)
        self.outcome.parts.append(part)
        return part

    def _show_early(self) -> None:
        """Make the run visible at its first step, so that a followed log can be read while it grows."""
        self.writer = self.staged.claim(self.outcome.manifest(self.request.command), None)
        self.directory = self.writer.directory

    def node_of(self, file: int) -> str | None:
        """The host of a file: the part of its name that the other names do not have."""
        if len(self.request.paths) < 2:
            return None
        parts = [re.split(r"[._]", Path(path).name) for path in self.request.paths]
        common = set(parts[0]).intersection(*map(set, parts[1:]))
        own = [part for part in parts[file] if part not in common]
        return own[-1] if own else None

    def event(self, event: Event) -> None:
        self._events.write(to_line(event))
        self.outcome.note(event)
        if self.live:
            self.request.observe(event)

    def learn(self, setting: Setting) -> None:
        try:
            self.knowledge.learn(setting, self.job)
        except InputError as contradiction:
            if self.live:
                raise
            self.contradiction = self.contradiction or contradiction

    # Finishing.

    def finish(self) -> RunWriter:
        if self.contradiction is not None:
            raise self.contradiction
        steps, events = merge(self.outcome.parts, self.directory, [Path(file.kept).stem for file in self.outcome.files])
        dialect, others = self.outcome.dialect()
        for event in (
            *events,
            *self.knowledge.differing.values(),
            *self.knowledge.override_events(),
            *self.knowledge.logged.changed.values(),
        ):
            self.event(event)
        if self.chosen is not None:
            self.event(self.chosen.notice())
        if others:
            message = f"the files contain lines of {', '.join([dialect, *others])}; the run is read as {dialect}"
            self.event(Event(kind="dialects", message=message))
        self._events.close()
        shutil.rmtree(self.directory / PARTS)
        manifest = self.outcome.manifest(self.request.command)
        if self.writer is None:
            self.writer = self.staged.claim(manifest, None)
        else:
            kept = {"name": self.writer.manifest.name, "provenance": self.writer.manifest.provenance}
            self.writer.learn(**{**dict(manifest), **kept})
        self.writer.steps = steps
        status, failure = self.outcome.status()
        self.writer.finish(status, None, failure)
        return self.writer
