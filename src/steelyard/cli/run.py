"""steelyard run FILE: runs it, records it, then checks it."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

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

EXAMPLES = (
    "Examples: steelyard run tiny-llama.yaml --no-check | "
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
    """Run an experiment on this machine, with progress, and record it."""
    from steelyard import runner
    from steelyard.cli import printing
    from steelyard.cli.inputs import planned
    from steelyard.cli.progress import view

    made, machine = planned(file, platform, settings, gpu, gpus)
    runner.check_machine(made.plan, made.case.placement, machine)
    writer = runner.new_run(made.plan, made.case, out, name, ["steelyard", *sys.argv[1:]])
    printing.note(f"recording {writer.directory}")
    try:
        with view(made.case.resolved.experiment.training.steps, made.plan.expected.peak_tflops_per_gpu) as observe:
            manifest = runner.execute(made.plan, made.case, writer, observe)
    except InfrastructureError as error:
        printing.show_error(error, as_json, beside=_document(writer.directory, writer.manifest, writer.steps, None))
        return error.exit
    verdict, status = _judged(manifest, no_check)
    if as_json:
        printing.show_json(_document(writer.directory, manifest, writer.steps, verdict))
    else:
        _show(writer.directory, manifest, writer.steps, verdict)
    return status


def _judged(manifest: "RunManifest", no_check: bool) -> tuple[str | None, Exit]:
    """The verdict and the exit status; without a check nothing passes, so a completed run is unknown."""
    if manifest.status == "interrupted":
        return None, Exit.INTERRUPTED
    if manifest.status == "failed":
        return (None if no_check else "fail"), Exit.FAILED
    return (None, Exit.GOOD) if no_check else ("unknown", Exit.UNKNOWN)


def _document(directory: "Path", manifest: "RunManifest", steps: int, verdict: str | None) -> dict[str, Any]:
    return {
        "run": str(directory.resolve()),
        "framework": manifest.framework,
        "status": manifest.status,
        "steps": steps,
        "verdict": verdict,
        "failure": manifest.failure.model_dump() if manifest.failure else None,
    }


def _show(directory: "Path", manifest: "RunManifest", steps: int, verdict: str | None) -> None:
    from steelyard.cli import printing

    printing.say(f"{manifest.status}: {steps} steps in {directory}")
    if manifest.failure:
        where = f" ({manifest.failure.file}:{manifest.failure.line})" if manifest.failure.file else ""
        printing.say(f"{manifest.failure.kind}: {manifest.failure.message}{where}")
    if verdict == "unknown":
        printing.say("verdict: unknown, since no check is built yet; --no-check records without asking for one")
    printing.say(f"next: steelyard runs show {directory}")
