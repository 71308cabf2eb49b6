"""steelyard ingest PATH…: import a log or result as a run."""

import difflib
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.cli import printing
from steelyard.cli.options import Kept, OwnGpu, argument, examples, option, size_of
from steelyard.cli.outcome import run_document
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InputError

if TYPE_CHECKING:
    from steelyard.experiment.partial import PartialExperiment
    from steelyard.ingesting import LogOptions
    from steelyard.ingestion import RunChoice
    from steelyard.records import Event, Run, RunManifest, Step
    from steelyard.records.manifest import RunInFiles

EXAMPLES = examples(
    "steelyard ingest train.log",
    "steelyard ingest node0.log node1.log --gpu mi300x --gpus 8 --nodes 2",
    "steelyard ingest curve.csv --columns step=step,loss=loss,step_time_s=seconds",
    "steelyard ingest --suite logs --gpus 8 --name seed",
)
_PATHS = "Logs of one run (all nodes, ranks and restarts; gz, zst, - for stdin), or one result file."
_SET = "A setting missing from the log, such as model.preset=llama3.1-8b; with --suite also FILE:KEY=VALUE."
_RUN = "If the files hold several runs: last, a number from 1, or all (NAME-1, …); with --suite all, else last."
_MOST_NOTICES = 8
_WIDEST = 62
"""Characters of a line of a command."""


@dataclass(frozen=True, kw_only=True)
class IngestOptions(OwnGpu, Kept):
    paths: list[str] | None = argument("PATH", _PATHS, None)
    suite: Path | None = option("--suite DIR", "Import every log of a folder: runs with equal settings are repeats.")
    gpu: str | None = option("--gpu GPU", "GPU type, such as h100, or cpu.")
    gpus: int | None = option("--gpus N", "GPUs per node.", min=1, max=10**5)
    nodes: int | None = option("--nodes N", "Number of nodes.", min=1, max=10**5)
    settings: list[str] | None = option("--set GROUP.KEY=VALUE", _SET)
    override: bool = option("--override", "Let --set replace values in the log; both are recorded.")
    config: Path | None = option("--config FILE", "The run's config, for settings missing from the log.")
    platform: str | None = option("--platform NAME", "Platform of the config.")
    model: str | None = option("--model MODEL", "Model of a JSON config.")
    framework: str | None = option("--framework NAME", "Framework of the log, if it is not detected.")
    columns: str | None = option("--columns FIELD=COLUMN,…", "Columns of a table, by step field.")
    follow: bool = option("--follow", "Keep reading a growing file until the log ends.")
    max_unpacked: str = option(
        "--max-unpacked SIZE", "Largest unpacked size of a compressed file: 512MiB, 64GiB, 2TiB.", "64GiB"
    )
    run: str | None = option("--run RUN", _RUN)
    name: str | None = option("--name NAME", "Name of the directory of the run or the suite.")


@verb
def ingest(options: IngestOptions) -> int:
    """Import a log or result as a run, or a folder of them as a suite, to be checked and compared."""
    from steelyard import api
    from steelyard.cli.progress import FilesView, RunView

    _check(options)
    known: LogOptions = {
        "gpu": options.gpu,
        "gpus": options.gpus,
        "nodes": options.nodes,
        "settings": options.settings or [],
        "override": options.override,
        "config": options.config,
        "platform": options.platform,
        "model": options.model,
        "framework": options.framework,
        "columns": _columns(options.columns),
        "most_unpacked": size_of(options.max_unpacked),
        "gpu_peak": options.gpu_peak,
        "gpu_memory": options.gpu_memory,
    }
    command = ["steelyard", *sys.argv[1:]]
    if options.suite is not None:
        from steelyard.cli.imported_suite import show_suite

        with FilesView() as progress:
            suite = api.ingest_suite(
                options.suite,
                run=_run(options.run or "all"),
                progress=progress,
                command=command,
                out=options.out,
                name=options.name,
                **known,
            )
        show_suite(suite, options.as_json)
        return Exit.GOOD
    notices: list[Event] = []
    run = api.ingest(
        *(options.paths or ()),
        follow=options.follow,
        run=_run(options.run or "last"),
        observe=RunView(0, None) if options.follow else lambda record: None,
        notice=notices.append,
        command=command,
        out=options.out,
        name=options.name,
        **known,
    )
    if options.as_json:
        printing.show_json(_document(run, notices, options))
    else:
        _show(run, notices, options)
    return Exit.INTERRUPTED if options.follow and run.manifest.status == "interrupted" else Exit.GOOD


def _document(run: "Run", notices: "list[Event]", options: IngestOptions) -> dict[str, Any]:
    source = run.manifest.ingested
    assert source is not None
    directory = run.directory.resolve()
    recorded = {source.run: directory}
    if options.run == "all":
        base = directory.name.rpartition("-")[0]
        recorded = {each.number: directory.with_name(f"{base}-{each.number}") for each in _runs_in_files(run)}
    return ingest_document(run, notices, recorded)


def ingest_document(run: "Run", notices: "Sequence[Event]", recorded: Mapping[int, Path]) -> dict[str, Any]:
    """An imported run; `recorded` are the directories of the runs in its files, by number."""
    source = run.manifest.ingested
    assert source is not None
    return {
        **run_document(run.directory, run.manifest, run.num_steps, None),
        "dialect": source.dialect,
        "era": source.era or None,
        "other_dialects": source.others,
        "files": [file.model_dump() for file in source.files],
        "runs": [
            {**each.model_dump(), "run": str(recorded[each.number].resolve()) if each.number in recorded else None}
            for each in _runs_in_files(run)
        ],
        "settings": _logged_settings(run),
        "notices": [{"kind": event.kind, "message": event.message} for event in notices],
    }


def _runs_in_files(run: "Run") -> "list[RunInFiles]":
    from steelyard import records
    from steelyard.records.manifest import RunInFiles

    source = run.manifest.ingested
    assert source is not None
    first, last = (step.step if step else None for step in records.first_and_last(run.directory))
    lines = max((file.lines for file in source.files), default=0)
    return source.runs or [RunInFiles(number=1, first_line=1, last_line=lines, first_step=first, last_step=last)]


def _logged_settings(run: "Run") -> dict[str, str]:
    from steelyard.experiment.sources import Origin

    return {key: source for key, source in run.manifest.sources.items() if source == Origin.LOG}


def _show(run: "Run", notices: "list[Event]", options: IngestOptions) -> None:
    from steelyard import records

    manifest, directory, source = run.manifest, run.directory, run.manifest.ingested
    assert source is not None
    first, last = records.first_and_last(directory)
    printing.say(f"imported {directory}: {_steps(run.num_steps, first, last)}, {manifest.status}")
    for file in source.files:
        _item("file", f"{file.path}: {file.words}")
    era = f" ({source.era})" if source.era else ""
    also = f"; also found lines of {', '.join(source.others)}" if source.others else ""
    _item("format", f"{source.dialect}{era}{also}")
    if first is not None and first.reported_step == first.step - 1:
        _item("numbering", f"step {first.reported_step} in the log is step {first.step} here")
    _item("platform", manifest.platform.words)
    if settings := _logged_settings(run):
        _item("settings", f"{len(settings)} from the log (see run.json)")
    if failure := manifest.failure:
        where = f" ({failure.file}:{failure.line})" if failure.file else ""
        _item("failure", f"{failure.kind}: {failure.message}{where}")
    if errors := _errors_beside(options.paths or [], manifest):
        _item("note", f"{errors} is next to the log and may contain the cause: add it to the command")
    notes = Counter(f"{event.kind.replace('_', ' ')}: {event.message}" for event in notices)
    for note, count in islice(notes.items(), _MOST_NOTICES):
        _item("note", f"{note}{f' ({count} times)' if count > 1 else ''}")
    if len(notes) > _MOST_NOTICES:
        _item("note", f"{len(notes) - _MOST_NOTICES:,} more in {directory / 'events.jsonl'}")
    if missing := _missing_facts(manifest, _is_timed(last)):
        _item("missing", ", ".join(missing))
        first_line, *lines = _command(options, missing.values())
        _item("add with", first_line)
        for line in lines:
            printing.say(f"{' ' * 15}{line}")
    printing.say(f"next: steelyard check {shlex.quote(str(directory))}")


def _errors_beside(paths: list[str], manifest: "RunManifest") -> Path | None:
    """Slurm's file of errors next to the only log of a run that did not complete."""
    errors = Path(paths[0]).with_suffix(".err")
    unclear = manifest.status != "completed" and manifest.failure is None
    return errors if unclear and len(paths) == 1 and paths[0].endswith(".out") and errors.is_file() else None


def _item(name: str, text: str) -> None:
    printing.item(f"  {name:<9}  ", text)


def _steps(records: int, first: "Step | None", last: "Step | None") -> str:
    if first is None or last is None:
        return "no steps"
    if last.step == records:
        return f"{records:,} step{'s' * (records != 1)}"
    if records == 1:
        return f"1 record, step {last.step:,}"
    return f"{records:,} records, steps {first.step:,} to {last.step:,}"


_NEEDED = ("training.global_batch_size", "training.sequence_length", "training.steps")
"""Settings that checks need."""


def _missing_facts(manifest: "RunManifest", timed: bool) -> dict[str, str]:
    """Facts that checks need and the log does not contain, each with the option of `ingest` that adds it."""
    from steelyard.accounting.flops import missing_dimensions
    from steelyard.experiment.absent import name_of
    from steelyard.frameworks.logs.settings import PADDED_VOCABULARY
    from steelyard.hardware.catalog import CPU

    experiment, platform = manifest.experiment, manifest.platform
    facts: dict[str, str] = {}
    if platform.gpu_name is None and not platform.peaks_tflops:
        facts["GPU type"] = "--gpu GPU"
    elif platform.gpu_name != CPU and not platform.peaks_tflops:
        facts[f"peak of {platform.gpu_name}"] = "--gpu-peak bf16=TFLOPS"
    if platform.world_size is None:
        facts["GPU count"] = "--gpus N"
    missing = [f"{key}=N" for key in _NEEDED if experiment.whole(key) is None]
    if platform.gpu_name != CPU and (timed or platform.gpu_name):
        missing += _missing_formats(experiment)
    model, ingested = experiment.value("model"), manifest.ingested
    padded = ingested.whole(PADDED_VOCABULARY) if ingested is not None else None
    missing += missing_dimensions(model if isinstance(model, dict) else {}, padded)
    return facts | {name_of(setting): f"--set {setting}" for setting in missing}


def _is_timed(step: "Step | None") -> bool:
    """Whether a step has a time or a rate."""
    if step is None:
        return False
    timed = (step.step_time_s, step.reported_tokens_per_s_per_gpu, step.reported_tflops_per_gpu)
    return any(figure is not None for figure in timed)


def _missing_formats(experiment: "PartialExperiment") -> list[str]:
    """Number formats, which the peak of a GPU depends on; one setting is enough."""
    if not experiment.known("precision.dtype")[0]:
        return ["precision.dtype=bf16"]
    return [] if experiment.known("precision.fp8")[0] else ["precision.fp8=null"]


def _command(options: IngestOptions, added: Iterable[str]) -> list[str]:
    """The command that imports the same files with more options, as short lines."""
    words = [shlex.join(["steelyard", "ingest", *(options.paths or [])])]
    for name in ("gpu", "gpus", "nodes", "config", "platform", "model", "framework", "columns"):
        if (value := getattr(options, name)) is not None:
            words.append(shlex.join([f"--{name}", str(value)]))
    words += [shlex.join(["--gpu-peak", peak]) for peak in options.gpu_peak or []]
    words += [f"--gpu-memory {gib:g}" for gib in (options.gpu_memory,) if gib is not None]
    words += [shlex.join(["--set", setting]) for setting in options.settings or []]
    words += ["--override"] * options.override
    words += [f"--run {options.run}"] * (options.run not in (None, "last"))
    words += [shlex.join(["--out", str(options.out)])] * (str(options.out) != "runs")
    lines = words[:1]
    for word in (*words[1:], *added):
        if len(lines[-1]) + len(word) < _WIDEST:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(word)
    return lines


def _check(options: IngestOptions) -> None:
    if (options.suite is None) == (not options.paths):
        complaint = "ingest got both PATH and --suite" if options.paths else "ingest got no PATH"
        expected, fix = "logs of one run, or --suite with a folder of logs", "steelyard ingest train.log"
        raise InputError(complaint, key="PATH", expected=expected, next=fix)
    if options.suite is not None and options.follow:
        complaint, fix = "--follow reads one growing file, not a folder", "steelyard ingest FILE --follow"
        raise InputError(complaint, key="--follow", value=str(options.suite), expected="one log", next=fix)
    first, *others = options.paths or [""]
    if options.follow and not others and first != "-" and not Path(first).exists():
        raise InputError(f"{first} cannot be read (No such file or directory)", key="PATH", value=first)
    if options.follow and (others or not (first == "-" or Path(first).is_file())):
        complaint = f"--follow reads one growing file, not {' '.join([first, *others])}"
        fix = f"steelyard ingest {shlex.quote(first)} --follow"
        raise InputError(complaint, key="--follow", value=first, expected="one log", next=fix)
    for name, value in (("--platform", options.platform), ("--model", options.model)):
        if options.config is None and value is not None:
            complaint = f"{name} {value} without --config"
            expected, fix = "--config FILE", f"steelyard ingest … --config FILE {name} {value}"
            raise InputError(complaint, key=name, value=value, expected=expected, next=fix)


def _run(text: str) -> "RunChoice":
    if text == "last":
        return "last"
    if text == "all":
        return "all"
    if text.isascii() and text.isdigit() and 0 < len(text) < 10:
        return int(text)
    complaint, expected = f"--run {text!r} does not select a run", "last, all, or a number from 1"
    raise InputError(complaint, key="--run", value=text, expected=expected, next="--run last")


def _columns(text: str | None) -> Mapping[str, str] | None:
    from steelyard.ingestion.importers.fields import KNOWN

    if text is None:
        return None
    columns: dict[str, str] = {}
    for pair in text.split(","):
        field, equals, column = pair.partition("=")
        if not equals or field.strip() not in KNOWN or not column:
            near = difflib.get_close_matches(field.strip(), KNOWN, n=1, cutoff=0.5)
            meant = f"; did you mean {near[0]}={column}?" if near and column else ""
            meant = f"; did you mean {column}={field}?" if column.strip() in KNOWN else meant
            complaint = f"--columns: {pair!r} does not start with a step field{meant}"
            expected, fix = f"FIELD=COLUMN with a field of {', '.join(KNOWN)}", "--columns step=step,loss=loss"
            raise InputError(complaint, key="--columns", value=pair, expected=expected, next=fix)
        columns[field.strip()] = column.strip()
    return columns
