"""From files to a run directory: read, merge, settle what is known, record."""

import gc
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from msgspec.structs import replace

from steelyard.errors import InfrastructureError, InputError
from steelyard.experiment import sources
from steelyard.experiment.resolve import Resolved
from steelyard.frameworks.logs.cutter import LineCutter
from steelyard.frameworks.logs.reader import MOST_UNREAD, LogReader
from steelyard.frameworks.logs.series import Job
from steelyard.frameworks.logs.settings import Setting
from steelyard.ingestion import parallel
from steelyard.ingestion.importers import importer_of
from steelyard.ingestion.knowledge import Knowledge
from steelyard.ingestion.outcome import Outcome
from steelyard.ingestion.parts import PARTS, Part, merge
from steelyard.ingestion.sources import (
    MOST_UNPACKED,
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
from steelyard.records.manifest import LogFile
from steelyard.records.rows import StepRows
from steelyard.records.step import FAILURES, to_line
from steelyard.records.writer import EVENTS, LOGS, STEPS, StagedRun

_QUIET_POLLS = 20
"""Of a followed log that named a failure: so often nothing more comes before it is taken to have ended."""

Observer = Callable[[Step | Event], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked of `ingest`."""

    paths: Sequence[str]
    out: Path
    name: str | None
    command: Sequence[str]
    framework: str | None = None
    config: Resolved | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    setting_sources: Mapping[str, sources.Source] = field(default_factory=dict)
    gpu: str | None = None
    gpus: int | None = None
    nodes: int | None = None
    columns: Mapping[str, str] | None = None
    follow: bool = False
    most_unpacked: int = MOST_UNPACKED
    observe: Observer = lambda record: None


def ingest(request: Request) -> tuple[RunWriter, list[Event]]:
    """Read all of it and write the run, and what a person should know of it; nothing is left if it cannot be read."""
    staged = StagedRun(request.out, request.name)
    collecting = gc.isenabled()
    signals = _ended_like_an_interrupt()
    gc.disable()  # nothing that is read makes cycles, and looking for them takes a fifth of the time
    try:
        work = _Work(request, staged)
        work.read()
        return work.finish(), work.outcome.notices
    except BaseException as ended:
        if staged.directory.exists():
            staged.remove()
        if isinstance(ended, OSError):
            raise InfrastructureError(
                f"{request.out}: the run could not be recorded ({ended.strerror or ended})",
                key="--out",
                value=str(request.out),
                expected="a disk with room",
            ) from None
        raise
    finally:
        if collecting:
            gc.enable()
        for number, before in signals.items():
            signal.signal(number, before)


def _ended_like_an_interrupt() -> dict[int, Any]:
    """A closed terminal or a kill clean up as Ctrl-C does; what was done on these signals before."""
    if threading.current_thread() is not threading.main_thread():
        return {}

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    return {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}


class _Sink:
    """Takes what one file says: steps into a part a series, the rest into the run."""

    def __init__(self, work: "_Work", file: int) -> None:
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


class _Work:
    """One ingest, from its first byte to its run."""

    def __init__(self, request: Request, staged: StagedRun) -> None:
        self.request, self.staged = request, staged
        self.directory = staged.directory
        self.live = request.follow
        self.knowledge = Knowledge(
            request.settings, request.setting_sources, request.config, request.gpu, request.gpus, request.nodes
        )
        self.job = Job()
        self.knowledge.update(self.job)
        self.outcome = Outcome(request.paths, self.knowledge, request.framework)
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
                    f"{path} is a log, beside a result", key="PATH", value=path, expected="one or the other"
                )
            elif not self._read_in_pieces(at, path, kept := self._kept_name(path)):
                self._read_in_one(at, path, kept)
        for part in self.outcome.parts:
            part.flush()
        if self.outcome.imported is None:
            self.outcome.check_recognised()

    def _import(self, importer: Any, path: str) -> None:
        if len(self.request.paths) > 1:
            raise InputError(
                f"{path} is a result, which stands for a run of its own",
                key="PATH",
                value=path,
                expected="one result, or logs",
                next=f"steelyard ingest {path}",
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
                message = f"step {step.step} comes again: the last is kept"
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
        """Read a long plain log side by side; False, with nothing taken from it yet, where it is not one."""
        if self.live or not is_plain_file(path):
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
            if "order" not in event.details or key not in recorded:  # once per file, not once per piece
                recorded.add(key)
                sink.event(event)
        self.outcome.recognise(reader, *pieces)
        self.outcome.cut |= pieces[-1].cut
        lines, steps = (sum(getattr(piece, name) for piece in pieces) for name in ("lines", "steps"))
        unread = reader.unread + sum(piece.unread for piece in pieces)
        self._count(path, kept, reader.line + lines, reader.steps_read + steps, unread)
        return True

    def _read_in_one(self, at: int, path: str, kept: str) -> None:
        sink = _Sink(self, at)
        reader = LogReader(f"{LOGS}/{kept}", sink, self.request.framework, self.job)
        cutter = LineCutter()
        with open_source(path, self.request.most_unpacked) as source, (self.directory / LOGS / kept).open("wb") as copy:
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
        reader.end()
        self.outcome.recognise(reader)
        self._count(path, kept, reader.line, reader.steps_read, reader.unread)

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
        """A log that is followed is a run from its first step on: others read it while it grows."""
        self.writer = self.staged.claim(self.outcome.manifest(self.request.command), None)
        self.directory = self.writer.directory

    def node_of(self, file: int) -> str | None:
        """The machine a file is of, by what its name has and the others' have not."""
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
        self.knowledge.learn(setting, self.job)

    # Settling.

    def finish(self) -> RunWriter:
        steps, events = merge(self.outcome.parts, self.directory, [Path(file.kept).stem for file in self.outcome.files])
        dialect, others = self.outcome.dialect()
        for event in (*events, *self.knowledge.differing.values(), *self.knowledge.logged.changed.values()):
            self.event(event)
        if others:
            message = f"lines of {', '.join([dialect, *others])} stand in the same files; the run is {dialect}'s"
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
