"""steelyard run FILE: runs it, records it, then checks it."""

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli import check
from steelyard.cli.options import (
    FileArgument,
    Kept,
    NewKeysOption,
    Printing,
    Selection,
)
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InfrastructureError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from steelyard.campaign import CampaignRequest
    from steelyard.execute import Limits, RunOptions
    from steelyard.execute.recording import Observer
    from steelyard.planning.make import Planned
    from steelyard.records import RunManifest
    from steelyard.verdict import Verdict

EXAMPLES = (
    "Examples: steelyard run tiny-llama.yaml | "
    "steelyard run tiny-llama.yaml --no-check --set training.steps=50 --gpus 2 | "
    "steelyard run both.yaml --platform nvidia,amd --repeats 5 --name nightly && "
    "steelyard compare nightly/amd nightly/nvidia | "
    "steelyard run mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml"
)

PlatformsOption = Annotated[
    str | None,
    typer.Option("--platform", metavar="NAME", help="Which of the file's platforms; several, by commas, in turn."),
]
PullOption = Annotated[bool, typer.Option("--pull", help="Pull the image where a host lacks it.")]
ImageFileOption = Annotated[
    Path | None,
    typer.Option(
        "--image-file",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Load the image from it where a host lacks it.",
    ),
]
RequiredOption = Annotated[
    str | None,
    typer.Option(
        "--required",
        metavar="CHECKS",
        help="What blocks the run if preflight finds it wanting: all, none, or names of checks.",
    ),
]
NoPreflightOption = Annotated[bool, typer.Option("--no-preflight", help="Do not look at the hosts first.")]
TimeLimitOption = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        min=1,
        help="Longest time from the start of the training program to its exit. Default: from the plan.",
    ),
]
ExitWithinOption = Annotated[
    float,
    typer.Option(
        "--exit-within",
        metavar="SECONDS",
        min=1,
        help="Longest time from the last planned step to the exit of the training program.",
    ),
]
FirstStepOption = Annotated[
    float, typer.Option("--first-step-within", metavar="SECONDS", min=1, help="The most the first step may take.")
]
StallAfterOption = Annotated[
    float,
    typer.Option(
        "--stall-after", metavar="SECONDS", min=1, help="A step that takes so long, and ten medians, is a stall."
    ),
]
LostAfterOption = Annotated[
    float, typer.Option("--lost-after", metavar="SECONDS", min=1, help="Give up a host out of reach for so long.")
]
AbandonAfterOption = Annotated[
    int,
    typer.Option(
        "--abandon-after",
        metavar="SECONDS",
        min=0,
        help="Stop the remote job and remove its files after so long without contact from here; 0: never.",
    ),
]
RerunOption = Annotated[
    str | None,
    typer.Option("--rerun-failed", metavar="FLEET", help="Run again the hosts of a fleet that did not pass."),
]
RepeatsOption = Annotated[
    int | None,
    typer.Option(
        "--repeats", metavar="N", min=1, max=1000, help="Make N runs, one after the other, with the same seed."
    ),
]
SeedsOption = Annotated[
    str | None,
    typer.Option("--seeds", metavar="SEEDS", help="Make a run of each training.seed, such as 1,2,3."),
]
NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The run directory's name, or that of all repeats.")
]
NoCheckOption = Annotated[bool, typer.Option("--no-check", help="Record only; do not judge.")]


@dataclass(frozen=True, kw_only=True)
class RunVerbOptions(Selection, Kept, Printing):
    file: FileArgument
    platform: PlatformsOption = None
    accept_new_host_keys: NewKeysOption = False
    pull: PullOption = False
    image_file: ImageFileOption = None
    required: RequiredOption = None
    no_preflight: NoPreflightOption = False
    time_limit: TimeLimitOption = None
    exit_within: ExitWithinOption = 1800.0
    first_step: FirstStepOption = 1800.0
    stall_after: StallAfterOption = 300.0
    lost_after: LostAfterOption = 120.0
    abandon_after: AbandonAfterOption = 3600
    rerun_failed: RerunOption = None
    repeats: RepeatsOption = None
    seeds: SeedsOption = None
    name: NameOption = None
    no_check: NoCheckOption = False


@verb
def run(asked: RunVerbOptions) -> int:
    """Run an experiment here or on a cluster, with progress, record it, then judge it.

    Several repeats lie in one directory, which `steelyard compare` takes for a side. Ends with 0 pass, 1 fail, 2 wrong
    input, 3 infrastructure, 5 not known, 130 interrupted: Ctrl-C stops it, cleans every host and keeps the record.
    """
    from steelyard import execute
    from steelyard.campaign import CampaignRequest
    from steelyard.cli.inputs import planned
    from steelyard.hardware.machine import discover

    image = execute.ImageSource(asked.image_file, asked.pull)
    options = execute.RunOptions(
        _limits(asked), asked.cluster, asked.accept_new_host_keys, image, not asked.no_preflight, asked.required
    )

    def plan(platform: str | None, own: "Sequence[str]" = (), aloud: bool = True) -> "Planned":
        wanted = replace(asked, platform=platform, settings=[*(asked.settings or []), *own])
        checked = planned(asked.file, wanted.asked(), aloud)
        execute.check(checked, discover(), options)
        return checked

    request = CampaignRequest(asked.out, asked.name, ["steelyard", *sys.argv[1:]], not asked.no_check)
    if asked.repeats is not None or asked.seeds is not None:
        from steelyard.cli.repeats import repeat, series_of

        series = series_of(asked.platform, asked.repeats, asked.seeds, asked.settings or [], asked.rerun_failed)
        return repeat(series, plan, options, request, asked.as_json)
    _check_one(asked.platform)
    if (checked := plan(asked.platform)).plan.fleet or asked.rerun_failed is not None:
        from steelyard.cli.fleet import launch_fleet

        return launch_fleet(checked, options, request, asked.rerun_failed, asked.as_json)
    return _run_one(checked, options, request, asked.as_json)


def _run_one(planned: "Planned", options: "RunOptions", request: "CampaignRequest", as_json: bool) -> int:
    from steelyard import execute, verdict
    from steelyard.campaign.fleet_verdict import judge_run
    from steelyard.cli import printing

    writer = execute.new_run(planned, request.out, request.name, request.command)
    printing.note(f"recording {writer.directory}")
    try:
        with view_of(planned) as observe:
            manifest = execute.execute(planned, writer, observe, options)
    except InfrastructureError as error:
        printing.show_error(error, as_json, beside=document(writer.directory, writer.manifest, writer.steps, None))
        return error.exit
    if manifest.status == "interrupted" or not request.judges:
        judged, status = None, RECORDED[manifest.status]
    else:
        judged = judge_run(writer.directory, check.not_saved)
        status = verdict.EXIT_OF[judged.status]
    if as_json:
        word = judged.status.value if judged else None
        printing.show_json(document(writer.directory, manifest, writer.steps, word))
    else:
        _show(writer.directory, manifest, writer.steps, judged)
    return status


def view_of(planned: "Planned") -> "AbstractContextManager[Observer]":
    """The live view of one run."""
    from steelyard.cli.progress import view

    return view(planned.case.resolved.experiment.training.steps, planned.plan.expected.peak_tflops_per_gpu)


def _limits(asked: RunVerbOptions) -> "Limits":
    from steelyard.execute import Limits

    least = asked.lost_after + _LEASE_MARGIN_S
    if 0 < asked.abandon_after < least:
        raise InputError(
            f"--abandon-after {asked.abandon_after} ends a job before --lost-after {asked.lost_after:g} has passed",
            key="--abandon-after",
            value=asked.abandon_after,
            expected=f"0, or {least:g} at least",
        )
    return Limits(
        train=asked.time_limit,
        first_step=asked.first_step,
        exit=asked.exit_within,
        stall_at_least=asked.stall_after,
        lost=asked.lost_after,
        lease=asked.abandon_after,
    )


def _check_one(platform: str | None) -> None:
    """Several platforms make sense for repeats alone."""
    if platform is not None and "," in platform:
        raise InputError(
            f"--platform {platform} names several platforms",
            key="--platform",
            value=platform,
            expected="one, or repeats of each in turn",
            next=f"--platform {platform} --repeats 3",
        )


_LEASE_MARGIN_S = 10.0
"""Beats come every few seconds, and the last may have come just before the link broke."""

RECORDED = {"completed": Exit.GOOD, "failed": Exit.FAILED, "interrupted": Exit.INTERRUPTED}
"""What an unjudged run ends with."""


def document(directory: Path, manifest: "RunManifest", steps: int, verdict: str | None) -> dict[str, Any]:
    """What `run --json` prints of one run."""
    return {
        "run": str(directory.resolve()),
        "framework": manifest.framework,
        "status": manifest.status,
        "steps": steps,
        "verdict": verdict,
        "failure": manifest.failure.model_dump() if manifest.failure else None,
    }


def _show(directory: Path, manifest: "RunManifest", steps: int, judged: "Verdict | None") -> None:
    from steelyard.cli import printing

    printing.say(f"{manifest.status}: {steps} steps in {directory}")
    if manifest.failure:
        where = f" ({manifest.failure.file}:{manifest.failure.line})" if manifest.failure.file else ""
        printing.say(f"{manifest.failure.kind}: {printing.inert(manifest.failure.message)}{where}")
    if judged:
        check.show(judged)
    printing.say(f"next: steelyard {'report' if judged else 'check'} {shlex.quote(str(directory))}")
