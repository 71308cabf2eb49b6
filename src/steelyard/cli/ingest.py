"""steelyard ingest PATH…: a foreign log or result becomes a run."""

import difflib
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.cli import printing
from steelyard.cli.options import Kept, argument, option
from steelyard.cli.run import run_document, say_failure
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InputError

if TYPE_CHECKING:
    from steelyard.records import Event, Run

EXAMPLES = (
    "Examples: steelyard ingest train.log | steelyard ingest node0.log node1.log --gpu mi300x --gpus 8 --nodes 2 | "
    "steelyard ingest curve.csv --columns step=step,loss=loss,step_time_s=seconds"
)
_PATHS = "Logs of one run (its nodes, ranks, restarts; gz, zst, - for a pipe), or a result."
_SET = "What the log does not say: model.preset=llama3.1-8b, training.sequence_length=8192; may be repeated."
_MOST_NOTICES = 8


@dataclass(frozen=True, kw_only=True)
class IngestOptions(Kept):
    paths: list[str] = argument("PATH", _PATHS)
    gpu: str | None = option("--gpu GPU", "What it ran on: a GPU of the catalog, or cpu.")
    gpus: int | None = option("--gpus N", "GPUs of one node.", min=1, max=10**5)
    nodes: int | None = option("--nodes N", "Machines it ran on.", min=1, max=10**5)
    settings: list[str] | None = option("--set GROUP.KEY=VALUE", _SET)
    config: Path | None = option("--config FILE", "The config it was run with, for what the log leaves out.")
    platform: str | None = option("--platform NAME", "Which of the config's platforms.")
    model: str | None = option("--model MODEL", "Which of a JSON config's models.")
    framework: str | None = option("--framework NAME", "Whose log it is, where that cannot be told.")
    columns: str | None = option("--columns FIELD=COLUMN,…", "Of a table: our step fields, and its columns.")
    follow: bool = option("--follow", "Go on reading while the file grows, until the log says it ended.")
    max_unpacked: str = option(
        "--max-unpacked SIZE", "Refuse a compressed file that unpacks to more: 512MiB, 64GiB, 2TiB.", "64GiB"
    )
    name: str | None = option("--name NAME", "The run directory's name.")


@verb
def ingest(options: IngestOptions) -> int:
    """Make a run of a foreign log or result: whoever trained it, it is judged and compared like ours."""
    from steelyard import api
    from steelyard.cli.progress import RunView

    _check(options)
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
        framework=options.framework,
        columns=_columns(options.columns),
        follow=options.follow,
        most_unpacked=_size(options.max_unpacked),
        observe=RunView(0, None) if options.follow else lambda record: None,
        notice=notices.append,
        command=["steelyard", *sys.argv[1:]],
        out=options.out,
        name=options.name,
    )
    if options.as_json:
        printing.show_json(_document(run, notices))
    else:
        _show(run, notices)
    return Exit.INTERRUPTED if options.follow and run.manifest.status == "interrupted" else Exit.GOOD


def _document(run: "Run", notices: "list[Event]") -> dict[str, Any]:
    made = run.manifest.ingested
    assert made is not None
    return {
        **run_document(run.directory, run.manifest, run.num_steps, None),
        "dialect": made.dialect,
        "era": made.era or None,
        "other_dialects": made.others,
        "files": [file.model_dump() for file in made.files],
        "settings": _logged_settings(run),
        "notices": [{"kind": event.kind, "message": event.message} for event in notices],
    }


def _logged_settings(run: "Run") -> dict[str, str]:
    from steelyard.experiment.sources import Origin

    return {key: source for key, source in run.manifest.sources.items() if source == Origin.LOG}


def _show(run: "Run", notices: "list[Event]") -> None:
    from steelyard import records

    manifest, directory, made = run.manifest, run.directory, run.manifest.ingested
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
    if settings := _logged_settings(run):
        printing.say(f"settings the log says were in force: {len(settings)}, in run.json with their lines")
    for event in notices[:_MOST_NOTICES]:
        printing.item(f"{event.kind.replace('_', ' ')}: ", event.message, 2)
    if len(notices) > _MOST_NOTICES:
        printing.say(f"and {len(notices) - _MOST_NOTICES} more such events, in {directory / 'events.jsonl'}")
    say_failure(manifest)
    printing.say(f"next: steelyard check {shlex.quote(str(directory))}")


def _check(options: IngestOptions) -> None:
    first, *others = options.paths
    if options.follow and not others and first != "-" and not Path(first).exists():
        raise InputError(f"{first} cannot be read (No such file or directory)", key="PATH", value=first)
    if options.follow and (others or not (first == "-" or Path(first).is_file())):
        complaint = f"--follow reads one file that grows, and {' '.join(options.paths)} is not one"
        way_on = f"steelyard ingest {shlex.quote(first)} --follow"
        raise InputError(complaint, key="--follow", value=first, expected="one log", next=way_on)
    for name, value in (("--platform", options.platform), ("--model", options.model)):
        if options.config is None and value is not None:
            complaint = f"{name} {value} says which of a config's, and no config is given"
            expected, way_on = "--config FILE beside it", f"steelyard ingest … --config FILE {name} {value}"
            raise InputError(complaint, key=name, value=value, expected=expected, next=way_on)


def _size(text: str) -> int:
    from steelyard.ingestion.sources import size_of

    size = size_of(text)
    if size is None:
        complaint, expected = f"--max-unpacked {text!r} is not a size", "a whole number with KiB, MiB, GiB or TiB"
        raise InputError(complaint, key="--max-unpacked", value=text, expected=expected, next="--max-unpacked 64GiB")
    return size


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
            meant = f"; our field stands on the left: {column}={field}" if column.strip() in KNOWN else meant
            complaint = f"--columns: {pair!r} names no field of a step{meant}"
            expected, way_on = f"FIELD=COLUMN with a field of {', '.join(KNOWN)}", "--columns step=step,loss=loss"
            raise InputError(complaint, key="--columns", value=pair, expected=expected, next=way_on)
        columns[field.strip()] = column.strip()
    return columns
