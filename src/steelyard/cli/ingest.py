"""steelyard ingest PATH…: a foreign log or result becomes a run."""

import difflib
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.options import Kept, Printing
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InputError

if TYPE_CHECKING:
    from steelyard.records import Event, RunManifest

EXAMPLES = (
    "Examples: steelyard ingest train.log | steelyard ingest node0.log node1.log --gpu mi300x --gpus 8 --nodes 2 | "
    "steelyard ingest curve.csv --columns step=step,loss=loss,step_time_s=seconds"
)


_MOST_NOTICES = 8


@dataclass(frozen=True, kw_only=True)
class IngestOptions(Kept, Printing):
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH", help="Logs of one run (its nodes, ranks, restarts; gz, zst, - for a pipe), or a result."
        ),
    ]
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="GPU", help="What it ran on: a GPU of the catalog, or cpu.")
    ] = None
    gpus: Annotated[int | None, typer.Option("--gpus", metavar="N", min=1, max=10**5, help="GPUs of one node.")] = None
    nodes: Annotated[int | None, typer.Option("--nodes", metavar="N", min=1, max=10**5, help="Machines it ran on.")] = (
        None
    )
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="GROUP.KEY=VALUE",
            help="What the log does not say: model.preset=llama3.1-8b, training.sequence_length=8192; may be repeated.",
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The config it was run with, for what the log leaves out."),
    ] = None
    platform: Annotated[
        str | None, typer.Option("--platform", metavar="NAME", help="Which of the config's platforms.")
    ] = None
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="Which of a JSON config's models.")] = (
        None
    )
    framework: Annotated[
        str | None, typer.Option("--framework", metavar="NAME", help="Whose log it is, where that cannot be told.")
    ] = None
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="FIELD=COLUMN,…", help="Of a table: our step fields, and its columns."),
    ] = None
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on reading while the file grows, until the log says it ended.")
    ] = False
    max_unpacked: Annotated[
        str,
        typer.Option(
            "--max-unpacked",
            metavar="SIZE",
            help="Refuse a compressed file that unpacks to more: 512MiB, 64GiB, 2TiB.",
        ),
    ] = "64GiB"
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The run directory's name.")] = None


@verb
def ingest(options: IngestOptions) -> int:
    """Make a run of a foreign log or result: whoever trained it, it is judged and compared like ours."""
    from steelyard import api
    from steelyard.cli import printing
    from steelyard.cli.progress import following_view
    from steelyard.configs.choose import check_gpu

    check_gpu(options.gpu)
    _check_follow(options.paths, options.follow)
    _check_config(options)
    notices: list[Event] = []
    run = api.ingest(
        *options.paths,
        gpu=options.gpu,
        gpus=options.gpus,
        nodes=options.nodes,
        settings=options.settings or [],
        config=options.config,
        platform=options.platform,
        model=options.model,
        framework=_framework(options.framework),
        columns=_columns(options.columns),
        follow=options.follow,
        most_unpacked=_size(options.max_unpacked),
        observe=following_view() if options.follow else lambda record: None,
        notice=notices.append,
        command=["steelyard", *sys.argv[1:]],
        out=options.out,
        name=options.name,
    )
    if options.as_json:
        printing.show_json(_document(run.directory, run.manifest, notices))
    else:
        _show(run.directory, run.manifest, notices)
    return Exit.INTERRUPTED if options.follow and run.manifest.status == "interrupted" else Exit.GOOD


def _document(directory: Path, manifest: "RunManifest", notices: "list[Event]") -> dict[str, Any]:
    from steelyard.experiment.sources import Origin

    made = manifest.ingested
    assert made is not None
    return {
        "run": str(directory.resolve()),
        "framework": manifest.framework,
        "status": manifest.status,
        "steps": manifest.steps,
        "verdict": None,
        "failure": manifest.failure.model_dump() if manifest.failure else None,
        "dialect": made.dialect,
        "era": made.era or None,
        "other_dialects": made.others,
        "files": [file.model_dump() for file in made.files],
        "settings": {key: value for key, value in manifest.sources.items() if value == Origin.LOG},
        "notices": [{"kind": event.kind, "message": event.message} for event in notices],
    }


def _show(directory: Path, manifest: "RunManifest", notices: "list[Event]") -> None:
    from steelyard import records
    from steelyard.cli import printing
    from steelyard.experiment.sources import Origin

    made = manifest.ingested
    assert made is not None
    era = f", {made.era}" if made.era else ""
    first, last = records.first_and_last(directory)
    up_to = f" up to step {last.step:,}" if last is not None and last.step != manifest.steps else ""
    records_of = "step records" if up_to else f"step{'s' * (manifest.steps != 1)}"
    printing.say(f"{manifest.status}: {manifest.steps:,} {records_of}{up_to} in {directory}")
    also = f"; also lines of {', '.join(made.others)}" if made.others else ""
    printing.say(f"read as {made.dialect}{era}{also}")
    for file in made.files:
        printing.say(f"  {printing.inert(file.path)}: {file.words}")
    if first is not None and first.reported_step == first.step - 1:
        printing.say(f"its steps count from {first.reported_step}: they are {first.step} and on here, as updates made")
    printing.say(f"platform: {printing.inert(manifest.platform.words)}")
    said = [key for key, source in manifest.sources.items() if source == Origin.LOG]
    if said:
        printing.say(f"settings the log says were in force: {len(said)}, in run.json with their lines")
    for event in notices[:_MOST_NOTICES]:
        printing.say(printing.hang(f"{event.kind.replace('_', ' ')}: ", printing.inert(event.message), 2))
    if len(notices) > _MOST_NOTICES:
        printing.say(f"and {len(notices) - _MOST_NOTICES} more such events, in {directory / 'events.jsonl'}")
    if manifest.failure:
        where = f" ({manifest.failure.file}:{manifest.failure.line})" if manifest.failure.file else ""
        printing.say(f"{manifest.failure.kind}: {printing.inert(manifest.failure.message)}{where}")
    printing.say(f"next: steelyard check {shlex.quote(str(directory))}")


def _check_follow(paths: list[str], follow: bool) -> None:
    if follow and len(paths) == 1 and paths[0] != "-" and not Path(paths[0]).exists():
        raise InputError(f"{paths[0]} cannot be read (No such file or directory)", key="PATH", value=paths[0])
    if follow and (len(paths) > 1 or not (paths[0] == "-" or Path(paths[0]).is_file())):
        raise InputError(
            f"--follow reads one file that grows, and {' '.join(paths)} is not one",
            key="--follow",
            value=paths[0],
            expected="one log",
            next=f"steelyard ingest {shlex.quote(paths[0])} --follow",
        )


def _framework(name: str | None) -> str | None:
    from steelyard.frameworks.registry import dialects

    known = list(dict.fromkeys(one.framework for one in dialects()))
    if name is not None and name not in known:
        raise InputError(
            f"--framework {name!r} is not known",
            key="--framework",
            value=name,
            expected=f"one of {', '.join(known)}",
            next="without --framework, which tells it by itself",
        )
    return name


def _size(text: str) -> int:
    from steelyard.ingestion.sources import size_of

    size = size_of(text)
    if size is None:
        raise InputError(
            f"--max-unpacked {text!r} is not a size",
            key="--max-unpacked",
            value=text,
            expected="a whole number with KiB, MiB, GiB or TiB",
            next="--max-unpacked 64GiB",
        )
    return size


def _columns(text: str | None) -> Mapping[str, str] | None:
    from steelyard.ingestion.importers.fields import KNOWN

    if text is None:
        return None
    found: dict[str, str] = {}
    for pair in text.split(","):
        ours, equals, theirs = pair.partition("=")
        if not equals or ours.strip() not in KNOWN or not theirs:
            near = difflib.get_close_matches(ours.strip(), KNOWN, n=1, cutoff=0.5)
            meant = f"; did you mean {near[0]}={theirs}?" if near and theirs else ""
            meant = f"; our field stands on the left: {theirs}={ours}" if theirs.strip() in KNOWN else meant
            raise InputError(
                f"--columns: {pair!r} names no field of a step{meant}",
                key="--columns",
                value=pair,
                expected=f"FIELD=COLUMN with a field of {', '.join(KNOWN)}",
                next="--columns step=step,loss=loss",
            )
        found[ours.strip()] = theirs.strip()
    return found


def _check_config(options: IngestOptions) -> None:
    for option, value in (("--platform", options.platform), ("--model", options.model)):
        if options.config is None and value is not None:
            raise InputError(
                f"{option} {value} says which of a config's, and no config is given",
                key=option,
                value=value,
                expected="--config FILE beside it",
                next=f"steelyard ingest … --config FILE {option} {value}",
            )
