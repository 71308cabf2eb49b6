"""steelyard run FILE: runs it, records it, then checks it."""

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli import check
from steelyard.cli.options import (
    DEFAULT_OUT,
    DebugOption,
    FileArgument,
    GpuOption,
    GpusOption,
    JsonOption,
    OutOption,
    PlatformOption,
    SetOption,
)
from steelyard.errors import Exit, InfrastructureError

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.records import RunManifest
    from steelyard.verdict import Verdict

EXAMPLES = (
    "Examples: steelyard run tiny-llama.yaml | "
    "steelyard run tiny-llama.yaml --no-check --set training.steps=50 --gpus 2"
)


def run(
    file: FileArgument,
    platform: PlatformOption = None,
    settings: SetOption = None,
    gpu: GpuOption = None,
    gpus: GpusOption = None,
    out: OutOption = DEFAULT_OUT,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The run directory's name.")] = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Record only; do not judge.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Run an experiment on this machine, with progress, record it, then judge it."""
    from steelyard import records, runner, verdict
    from steelyard.cli import printing
    from steelyard.cli.inputs import asked_of, planned
    from steelyard.cli.progress import view

    made, machine = planned(file, asked_of(platform, settings, gpu, gpus))
    runner.check_machine(made.plan, made.case.placement, machine)
    writer = runner.new_run(made.plan, made.case, out, name, ["steelyard", *sys.argv[1:]])
    printing.note(f"recording {writer.directory}")
    try:
        with view(made.case.resolved.experiment.training.steps, made.plan.expected.peak_tflops_per_gpu) as observe:
            manifest = runner.execute(made.plan, made.case, writer, observe)
    except InfrastructureError as error:
        printing.show_error(error, as_json, beside=_document(writer.directory, writer.manifest, writer.steps, None))
        return error.exit
    if manifest.status == "interrupted" or no_check:
        judged, status = None, _RECORDED[manifest.status]
    else:
        judged = verdict.judge(verdict.read_subject(records.load(writer.directory)))
        check.save(judged)
        status = verdict.EXIT_OF[judged.status]
    if as_json:
        word = judged.status.value if judged else None
        printing.show_json(_document(writer.directory, manifest, writer.steps, word))
    else:
        _show(writer.directory, manifest, writer.steps, judged)
    return status


_RECORDED = {"completed": Exit.GOOD, "failed": Exit.FAILED, "interrupted": Exit.INTERRUPTED}
"""What an unjudged run ends with."""


def _document(directory: "Path", manifest: "RunManifest", steps: int, verdict: str | None) -> dict[str, Any]:
    return {
        "run": str(directory.resolve()),
        "framework": manifest.framework,
        "status": manifest.status,
        "steps": steps,
        "verdict": verdict,
        "failure": manifest.failure.model_dump() if manifest.failure else None,
    }


def _show(directory: "Path", manifest: "RunManifest", steps: int, judged: "Verdict | None") -> None:
    from steelyard.cli import printing

    printing.say(f"{manifest.status}: {steps} steps in {directory}")
    if manifest.failure:
        where = f" ({manifest.failure.file}:{manifest.failure.line})" if manifest.failure.file else ""
        printing.say(f"{manifest.failure.kind}: {printing.inert(manifest.failure.message)}{where}")
    if judged:
        check.show(judged)
    printing.say(f"next: steelyard {'report' if judged else 'check'} {shlex.quote(str(directory))}")
