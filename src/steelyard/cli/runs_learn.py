"""steelyard runs learn RUNS…: a threshold from runs that were made."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.options import DEFAULT_OUT, DebugOption, JsonOption, OutOption
from steelyard.errors import Exit, InputError

EXAMPLES = (
    "Examples: steelyard runs learn nightly | steelyard runs learn nightly --metric step_time_s -o learnt.yaml && "
    "steelyard check tonight --thresholds learnt.yaml"
)

RunsArgument = Annotated[
    list[str], typer.Argument(metavar="RUNS…", help="Runs, comma-separated lists of them, or directories of runs.")
]


def learn_threshold(
    runs: RunsArgument,
    metric: Annotated[
        str, typer.Option("--metric", metavar="METRIC", help="A metric of thresholds.")
    ] = "tokens_per_s_per_gpu",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write it as YAML to append to an experiment file."),
    ] = None,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Learn a threshold from five repeats or more.

    It is a bound that 95 of 100 further runs keep. Ends with 5 where the runs are too few, or vary too much to tell.
    """
    from steelyard import records
    from steelyard.campaign.learn import learn, lines, snippet
    from steelyard.cli import printing
    from steelyard.comparison.files import load_each
    from steelyard.verdict import read_subjects

    if output is not None and os.path.lexists(output):
        raise _exists(output)
    found = learn(read_subjects(load_each("RUNS", runs, out), 0), metric, records.now())
    written = output if output is not None and found.threshold is not None else None
    if written is not None:
        _write(written, snippet(found))
    if as_json:
        printing.show_json({**found.document(), "file": str(written.resolve()) if written else None})
    else:
        why = f"no threshold: {found.reason.message}" if found.reason else ""
        printing.say(f'thresholds: ["{found.threshold}"]' if found.threshold else why)
        for line in lines(found):
            printing.say(printing.hang("  ", printing.inert(line)))
        if written is not None:
            printing.say(f"wrote {written}; next: steelyard check RUN --thresholds {shlex.quote(str(written))}")
    return Exit.GOOD if found.threshold else Exit.UNKNOWN


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as reason:
        raise InputError(
            f"-o {path}: cannot be written ({reason.strerror})", key="-o", value=str(path), expected="a new file"
        ) from None


def _exists(path: Path) -> InputError:
    return InputError(f"{path} exists already", key="-o", value=str(path), expected="a new file")
