"""From files to a run directory: read, merge, settle what is known, record."""

import gc
import platform as system
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from msgspec.structs import replace

from steelyard import __version__, records
from steelyard.errors import InputError
from steelyard.experiment.resolve import Resolved
from steelyard.frameworks.logs.failures import order_of
from steelyard.frameworks.logs.reader import DIALECTS, LogReader
from steelyard.frameworks.logs.said import Setting
from steelyard.frameworks.logs.series import Job
from steelyard.ingest import parallel
from steelyard.ingest.importers import Imported, importer_of
from steelyard.ingest.knowledge import Knowledge
from steelyard.ingest.lines import LineCutter
from steelyard.ingest.merging import merge
from steelyard.ingest.parts import Part
from steelyard.ingest.sources import (
    STDIN,
    BrokenFileError,
    blocks,
    copy_of,
    following,
    is_plain_file,
    open_source,
)
from steelyard.records import Event, Evidence, Failure, RunManifest, RunWriter, Step
from steelyard.records.manifest import Ingested, LogFile, RunStatus
from steelyard.records.step import FAILURES, NOTICES, to_line
from steelyard.records.writer import EVENTS, LOGS, STEPS, StagedRun

PARTS = ".parts"

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
    setting_sources: Mapping[str, str] = field(default_factory=dict)
    gpu: str | None = None
    gpus: int | None = None
    nodes: int | None = None
    columns: Mapping[str, str] | None = None
    follow: bool = False
    observe: Observer = lambda found: None


def ingest(request: Request) -> tuple[RunWriter, list[Event]]:
    """Read all of it and write the run, and what a person should know of it; nothing is left if it cannot be read."""
    staged = StagedRun(request.out, request.name)
    collecting = gc.isenabled()
    gc.disable()  # nothing that is read makes cycles, and looking for them takes a fifth of the time
    try:
        work = _Work(request, staged)
        work.read()
        return work.finish(), work.notices
    except BaseException:
        if staged.directory.exists():
            staged.remove()
        raise
    finally:
        if collecting:
            gc.enable()


class _Sink:
    """Takes what one file says: steps into a part a series, the rest into the run."""

    def __init__(self, work: "_Work", file: int) -> None:
        self._work, self._file, self._live = work, file, work.live
        self.parts: dict[str, Part] = {}

    def step(self, series: str, step: Step) -> None:
        try:
            self.parts[series].append(step)
        except KeyError:
            part = self.parts[series] = self._work.new_part(self._file, series, step.node)
            part.append(step)
        if self._live:
            self._work.request.observe(step)

    def steps(self, series: str, steps: Sequence[Step]) -> None:
        if series not in self.parts:
            self.parts[series] = self._work.new_part(self._file, series, steps[0].node)
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
        self.parts: list[Part] = []
        self.files: list[LogFile] = []
        self.seen: dict[str, str] = {}
        self.hinted: dict[str, None] = {}
        self.others: dict[str, None] = {}
        self.failures: list[Event] = []
        self.finished: Event | None = None
        self.exited_early: Event | None = None
        self.imported: Imported | None = None
        self.last_line_cut = False
        self.interrupted = False
        self.writer: RunWriter | None = None
        self.notices: list[Event] = []
        self._events: IO[bytes] = (self.directory / EVENTS).open("ab")
        (self.directory / PARTS).mkdir()
        self._kept: set[str] = set()

    # Reading.

    def read(self) -> None:
        for at, path in enumerate(self.request.paths):
            found = importer_of(path, self.request.columns)
            if found is not None:
                self._import(found, path)
            elif self.imported is not None:
                raise InputError(
                    f"{path} is a log, beside a result", key="PATH", value=path, expected="one or the other"
                )
            else:
                self._read_log(at, path)
        for part in self.parts:
            part.close()
        if self.imported is None:
            self._check_recognised()

    def _check_recognised(self) -> None:
        """Refuse what is no log, or two of them: a run without a step must at least say what it was or why it ended."""
        families = {one.mark: one.framework for one in DIALECTS if one.name in self.seen}
        if len(families) > 1:
            names = " and ".join(families.values())
            raise InputError(
                f"the files are logs of {names}, which are two runs",
                key="PATH",
                value=" ".join(self.request.paths),
                expected="the files of one run",
                next=f"steelyard ingest {self.request.paths[0]}, and the other by itself",
            )
        if any(part.rows for part in self.parts) or self.failures or self.knowledge.said:
            return
        unread = sum(file.unread for file in self.files)
        if self.request.framework is not None and unread:
            raise InputError(
                f"no step of {self.request.framework} was read, and {unread} lines look like steps",
                key="--framework",
                value=self.request.framework,
                expected="whose log it is",
                next=f"steelyard ingest {self.request.paths[0]}, which tells it by itself",
            )
        raise _not_recognised(self.request.paths)

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
        self.imported = imported = importer.read(path, f"{LOGS}/{kept}", self.request.columns)
        for setting in imported.settings:
            self.learn(setting)
        if imported.memory_gib is not None and imported.memory_kind:
            details = {"gib": imported.memory_gib, "kind": imported.memory_kind}
            message = f"{imported.memory_gib:.2f} GiB ({imported.memory_kind})"
            self.event(Event(kind="memory", message=message, details=details))
        for event in imported.events:
            self.event(event)
        part = self.new_part(0, "", None)
        world, flops = self.job.world_size, self.job.flops_per_token
        count = unread = 0
        for step in imported.steps:
            if isinstance(step, Event):
                self.event(step)
                unread += step.kind == "unread_line"
                continue
            if count and step.step <= part.last_step:
                self.event(
                    Event(kind="restart", message=f"step {step.step} comes again: the last is kept", step=step.step)
                )
                count -= part.drop_from(step.step)
            part.append(self._with_tokens(step).derived(world, flops) if world else self._with_tokens(step))
            count += 1
        self.files.append(LogFile(path=path, kept=f"{LOGS}/{kept}", lines=imported.lines, steps=count, unread=unread))
        importer.keep(path, self.directory / LOGS / kept)

    def _with_tokens(self, step: Step) -> Step:
        if step.tokens is not None or not self.job.sequence_length or not self.job.global_batch_size:
            return step
        return replace(step, tokens=self.job.sequence_length * self.job.global_batch_size)

    def _read_log(self, at: int, path: str) -> None:
        kept = self._kept_name(path)
        if not self._read_in_pieces(at, path, kept):
            self._read_in_one(at, path, kept)

    def _read_in_pieces(self, at: int, path: str, kept: str) -> bool:
        """Read a long plain log side by side; False, with nothing taken from it yet, where it is not one."""
        if self.live or not is_plain_file(path):
            return False
        log = f"{LOGS}/{kept}"
        plan = parallel.plan(path, log, self.request.framework, self.knowledge, self.directory / PARTS)
        if plan is None:
            return False
        with parallel.pool() as readers:
            found = parallel.read_all(readers, plan)
        if found is None:
            return False
        sink = _Sink(self, at)
        reader = LogReader(log, sink, self.request.framework, self.job)
        with Path(path).open("rb") as source:
            reader.feed(source.read(plan.head).split(b"\n")[:-1])
        for one in found:
            for event in one.events:
                sink.event(event)
            sink.parts[plan.label].extend(one.part)
        self._note_dialects(reader, *found)
        self.last_line_cut = self.last_line_cut or found[-1].cut
        copy_of(path, self.directory / LOGS / kept, plan.size)
        self.files.append(
            LogFile(
                path=path,
                kept=log,
                lines=reader.line + sum(one.lines for one in found),
                steps=reader.steps_read + sum(one.steps for one in found),
                unread=reader.unread + sum(one.unread for one in found),
            )
        )
        return True

    def _note_dialects(self, *readers: LogReader | parallel.Found) -> None:
        for one in readers:
            for name, era in one.seen.items():
                self.seen[name] = self.seen.get(name) or era
            self.hinted |= one.hinted
            self.others |= one.others

    def _read_in_one(self, at: int, path: str, kept: str) -> None:
        sink = _Sink(self, at)
        reader = LogReader(f"{LOGS}/{kept}", sink, self.request.framework, self.job)
        cutter = LineCutter()
        with open_source(path) as source, (self.directory / LOGS / kept).open("wb") as copy:
            try:
                for block in self._blocks(path, source, reader):
                    lines = cutter.feed(block)
                    first = reader.line
                    reader.feed(lines)
                    copy.write(_kept(cutter.raw, lines, first, reader.redacted))
            except KeyboardInterrupt:
                if not self.live:
                    raise
                self.interrupted = True
            except BrokenFileError as broken:
                message = str(broken)
                self.event(Event(kind="broken_file", message=message, source=Evidence(f"{LOGS}/{kept}", reader.line)))
                self.last_line_cut = True
            unread = reader.unread
            for rest in cutter.rest():
                first = reader.line
                reader.feed([rest])
                copy.write(reader.redacted.get(first + 1, rest))
            self.last_line_cut = self.last_line_cut or reader.unread > unread
        reader.end()
        self._note_dialects(reader)
        self.files.append(
            LogFile(path=path, kept=f"{LOGS}/{kept}", lines=reader.line, steps=reader.steps_read, unread=reader.unread)
        )

    def _blocks(self, path: str, source: Any, reader: LogReader) -> Iterator[bytes]:
        if not self.live:
            return blocks(path, source)

        def ended() -> bool:
            return self.finished is not None or bool(self.failures)

        def idle() -> None:
            for part in self.parts:
                part.flush()
            self._events.flush()

        return following(source, ended, idle)

    def _kept_name(self, path: str) -> str:
        stem = "stdin.log" if path == STDIN else re.sub(r"[^\w.+-]+", "_", Path(path).name).lstrip(".") or "log"
        stem = re.sub(r"\.(gz|zst)$", "", stem)[-150:]
        name, number = stem, 1
        while name in self._kept:
            number += 1
            name = f"{number}-{stem}"
        self._kept.add(name)
        return name

    def new_part(self, file: int, series: str, node: str | None) -> Part:
        if self.live and not self.parts:
            self._show_early()
            part = Part(self.directory / STEPS, file, series, node)
        else:
            part = Part(self.directory / PARTS / f"{len(self.parts)}.jsonl", file, series, node)
        self.parts.append(part)
        return part

    def _show_early(self) -> None:
        """A log that is followed is a run from its first step on: others read it while it grows."""
        dialect, others = self._dialect()
        self.writer = self.staged.claim(self._manifest(dialect, others), None)
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
        if event.kind in FAILURES:
            self.failures.append(event)
        elif event.kind in NOTICES:
            self.notices.append(event)
        elif event.kind == "finished":
            self.finished = event
        elif event.kind == "exited_early":
            self.exited_early = event
        if self.live:
            self.request.observe(event)

    def learn(self, setting: Setting) -> None:
        self.knowledge.learn(setting)
        self.knowledge.update(self.job)

    # Settling.

    def finish(self) -> RunWriter:
        steps, events = merge(self.parts, self.directory, [Path(one.kept).stem for one in self.files])
        dialect, others = self._dialect()
        for event in (*events, *self.knowledge.differing.values(), *self.knowledge.changed.values()):
            self.event(event)
        if others:
            message = f"lines of {', '.join([dialect, *others])} stand in the same files; {dialect} has the most"
            self.event(Event(kind="dialects", message=message))
        self._events.close()
        for part in self.parts:
            part.path.unlink(missing_ok=True)
        (self.directory / PARTS).rmdir()
        manifest = self._manifest(dialect, others)
        if self.writer is None:
            self.writer = self.staged.claim(manifest, None)
        else:
            kept = {"name": self.writer.manifest.name, "provenance": self.writer.manifest.provenance}
            self.writer.learn(**{**dict(manifest), **kept})
        self.writer.steps = steps
        status, failure = self._status()
        self.writer.finish(status, None, failure)
        return self.writer

    def _dialect(self) -> tuple[str, list[str]]:
        """Whose lines they are; Bridge prints Megatron's, and is told by the lines beside them."""
        if self.imported is not None:
            return self.imported.dialect, []
        names = list(self.seen)
        if "megatron" in names and "megatron-bridge" in self.hinted:
            names[names.index("megatron")] = "megatron-bridge"
        if not names:
            names = list(self.hinted)[:1] or [self.request.framework or "unknown"]
        return names[0], [*names[1:], *self.others]

    def _framework(self, dialect: str) -> str:
        if self.request.framework is not None:
            return self.request.framework
        if self.imported is not None:
            return self.imported.framework or "unknown"
        return next((one.framework for one in DIALECTS if one.name == dialect), dialect)

    def _manifest(self, dialect: str, others: list[str]) -> RunManifest:
        framework = self._framework(dialect)
        config = self.request.config
        name = config.experiment.name if config is not None else _experiment_name(self.files)
        experiment, sources = self.knowledge.experiment(name)
        gpu = self.knowledge.known_gpu
        label = (
            gpu.name if gpu else re.sub(r"[^a-z0-9]+", "-", (self.knowledge.gpu_name or framework).lower()).strip("-")
        )
        return RunManifest(
            name=records.run_name(name, label or "unknown"),
            framework=framework,
            experiment=experiment,
            sources=sources,
            platform=self.knowledge.platform(label or "unknown"),
            expected=self.knowledge.expected(framework),
            provenance=records.Provenance(
                steelyard=__version__,
                command=list(self.request.command),
                file=str(config.file) if config is not None else None,
                sha256=config.reading.sha256 if config is not None else None,
                host=system.node(),
                python=sys.version.split()[0],
                system=system.platform(),
                started=records.now(),
            ),
            ingested=Ingested(
                dialect=dialect,
                era=self.seen.get(dialect) or self.seen.get("megatron" if dialect == "megatron-bridge" else "", ""),
                others=others,
                files=self.files,
                first_moment=min((part.first_time for part in self.parts if part.first_time), default=None),
                last_moment=max((part.last_time for part in self.parts if part.last_time), default=None),
                said=self.knowledge.said_at(),
            ),
            software=self.knowledge.software(),
        )

    def _status(self) -> tuple[RunStatus, Failure | None]:
        """How the log says it ended: a failure text, its last planned step or word, or neither."""
        cause = min(self.failures, key=order_of, default=None)
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
        values, _ = self.knowledge.values()
        planned, last = values.get("training.steps"), max((part.last_step for part in self.parts), default=0)
        if type(planned) is int and last >= planned:
            return "completed", None
        if self.finished is not None:
            return "completed", None
        unended = any(one.announces_end for one in DIALECTS if one.name in self.seen)
        if self.interrupted or self.exited_early is not None or self.last_line_cut or type(planned) is int or unended:
            return "interrupted", None
        return "completed", None


def _kept(raw: bytes, lines: Sequence[bytes], first: int, redacted: Mapping[int, bytes]) -> bytes:
    """What was read is kept as it was read, but for secrets."""
    if not redacted:
        return raw
    return b"".join(redacted.get(number, line) + b"\n" for number, line in enumerate(lines, start=first + 1))


def _experiment_name(files: Sequence[LogFile]) -> str:
    stem = Path(files[0].kept).stem if files else "log"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:60] or "log"


def _not_recognised(paths: Sequence[str]) -> InputError:
    if all(path != STDIN and Path(path).is_file() and not Path(path).stat().st_size for path in paths):
        return InputError(f"{paths[0]} is empty", key="PATH", value=paths[0], expected="a log", next="ls -l")
    names = ", ".join(dict.fromkeys(one.framework for one in DIALECTS))
    return InputError(
        f"{paths[0]}: no line of a training log was recognised",
        key="PATH",
        value=paths[0],
        expected=f"a log of {names}, a result of the comparison suite, TensorBoard events, CSV or JSONL",
        next=f"steelyard ingest {paths[0]} --columns step=…,loss=…, if it is a table",
    )
