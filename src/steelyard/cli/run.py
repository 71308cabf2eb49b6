"""steelyard run FILE: runs it, records it, then checks it."""

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.cli import check, printing
from steelyard.cli.options import CONFIG, NEW_HOST_KEYS, Kept, Selection, argument, option
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InfrastructureError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.campaign import CampaignRequest
    from steelyard.cli.progress import RunView
    from steelyard.execute import Limits, RunOptions
    from steelyard.planning.make import Planned
    from steelyard.records import RunManifest

EXAMPLES = (
    "Examples: steelyard run tiny-llama.yaml | "
    "steelyard run tiny-llama.yaml --no-check --set training.steps=50 --gpus 2 | "
    "steelyard run both.yaml --platform nvidia,amd --repeats 5 --name nightly && "
    "steelyard compare nightly/amd nightly/nvidia | "
    "steelyard run mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml"
)
RECORDED = {"completed": Exit.GOOD, "failed": Exit.FAILED, "interrupted": Exit.INTERRUPTED}
"""What an unjudged run ends with."""
_LEASE_MARGIN_S = 10.0
"""Beats come every few seconds, and the last may have come just before the link broke."""


@dataclass(frozen=True, kw_only=True)
class RunVerbOptions(Selection, Kept):
    file: Path = argument(*CONFIG)
    platform: str | None = option("--platform NAME", "Which of the file's platforms; several, by commas, in turn.")
    accept_new_host_keys: bool = option(*NEW_HOST_KEYS)
    pull: bool = option("--pull", "Pull the image where a host lacks it.")
    image_file: Path | None = option(
        "--image-file FILE", "Load the image from it where a host lacks it.", exists=True, dir_okay=False
    )
    required: str | None = option(
        "--required CHECKS", "What blocks the run if preflight finds it wanting: all, none, or names of checks."
    )
    no_preflight: bool = option("--no-preflight", "Do not look at the hosts first.")
    time_limit: float | None = option(
        "--time-limit SECONDS",
        "Longest time from the start of the training program to its exit. Default: from the plan.",
        min=1,
    )
    exit_within: float = option(
        "--exit-within SECONDS",
        "Longest time from the last planned step to the exit of the training program.",
        1800.0,
        min=1,
    )
    first_step: float = option("--first-step-within SECONDS", "The most the first step may take.", 1800.0, min=1)
    stall_after: float = option(
        "--stall-after SECONDS", "A step that takes so long, and ten medians, is a stall.", 300.0, min=1
    )
    lost_after: float = option("--lost-after SECONDS", "Give up a host out of reach for so long.", 120.0, min=1)
    abandon_after: int = option(
        "--abandon-after SECONDS",
        "Stop the remote job and remove its files after so long without contact from here; 0: never.",
        3600,
        min=0,
    )
    rerun_failed: str | None = option("--rerun-failed FLEET", "Run again the hosts of a fleet that did not pass.")
    repeats: int | None = option(
        "--repeats N", "Make N runs, one after the other, with the same seed.", min=1, max=1000
    )
    seeds: str | None = option("--seeds SEEDS", "Make a run of each training.seed, such as 1,2,3.")
    name: str | None = option("--name NAME", "The run directory's name, or that of all repeats.")
    no_check: bool = option("--no-check", "Record only; do not judge.")


@verb
def run(asked: RunVerbOptions) -> int:
    """Run an experiment here or on a cluster, with progress, record it, then judge it.

    Several repeats lie in one directory, which `steelyard compare` takes for a side. Ends with 0 pass, 1 fail, 2 wrong
    input, 3 infrastructure, 5 not known, 130 interrupted: Ctrl-C stops it, cleans every host and keeps the record.
    """
    from steelyard import execute
    from steelyard.campaign import CampaignRequest
    from steelyard.cli.plan import planned
    from steelyard.hardware.machine import discover

    image = execute.ImageSource(asked.image_file, asked.pull)
    options = execute.RunOptions(
        _limits(asked), asked.cluster, asked.accept_new_host_keys, image, not asked.no_preflight, asked.required
    )

    def plan(platform: str | None, own: "Sequence[str]", aloud: bool) -> "Planned":
        turn = replace(asked, platform=platform, settings=[*(asked.settings or []), *own])
        checked = planned(asked.file, turn.selection(), aloud)
        execute.check(checked, discover(), options)
        return checked

    request = CampaignRequest(asked.out, asked.name, ["steelyard", *sys.argv[1:]], not asked.no_check)
    if asked.repeats is not None or asked.seeds is not None:
        from steelyard.cli.repeats import repeat, series_of

        series = series_of(asked.platform, asked.repeats, asked.seeds, asked.settings or [], asked.rerun_failed)
        return repeat(series, plan, options, request, asked.as_json)
    if (platform := asked.platform) is not None and "," in platform:
        complaint, expected = f"--platform {platform} names several platforms", "one, or repeats of each in turn"
        way_on = f"--platform {platform} --repeats 3"
        raise InputError(complaint, key="--platform", value=platform, expected=expected, next=way_on)
    made = planned(asked.file, asked.selection())
    if made.plan.fleet or asked.rerun_failed is not None:
        from steelyard.cli.fleet import launch_fleet

        execute.check(made, discover(), options)
        return launch_fleet(made, options, request, asked.rerun_failed, asked.as_json)
    return _run_one(made, options, request, asked.as_json)


def _run_one(planned: "Planned", options: "RunOptions", request: "CampaignRequest", as_json: bool) -> int:
    from steelyard import api, verdict

    view = view_of(planned)
    try:
        with view:
            out, name, command = request.out, request.name, request.command
            made = api.run(
                planned, options=options, begun=view.begin, observe=view, command=command, out=out, name=name
            )
    except InfrastructureError as error:
        if (writer := view.writer) is None:
            raise
        printing.show_error(error, as_json, extra=run_document(writer.directory, writer.manifest, writer.steps, None))
        return error.exit
    judged = None
    if made.status != "interrupted" and request.judges:
        judged = api.check(made, not_saved=check.not_saved)
    if as_json:
        printing.show_json(
            run_document(made.directory, made.manifest, made.num_steps, judged.status.value if judged else None)
        )
    else:
        printing.say(f"{made.status}: {made.num_steps} steps in {made.directory}")
        say_failure(made.manifest)
        if judged:
            check.show(judged)
        printing.say(f"next: steelyard {'report' if judged else 'check'} {shlex.quote(str(made.directory))}")
    return verdict.EXIT_OF[judged.status] if judged else RECORDED[made.manifest.status]


def view_of(planned: "Planned", label: str = "recording") -> "RunView":
    from steelyard.cli.progress import RunView

    return RunView(planned.case.resolved.experiment.training.steps, planned.plan.expected.peak_tflops_per_gpu, label)


def _limits(asked: RunVerbOptions) -> "Limits":
    from steelyard.execute import Limits

    least = asked.lost_after + _LEASE_MARGIN_S
    if 0 < asked.abandon_after < least:
        lost = f"--lost-after {asked.lost_after:g}"
        complaint = f"--abandon-after {asked.abandon_after} ends a job before {lost} has passed"
        expected = f"0, or {least:g} at least"
        raise InputError(complaint, key="--abandon-after", value=asked.abandon_after, expected=expected)
    return Limits(
        train=asked.time_limit,
        first_step=asked.first_step,
        exit=asked.exit_within,
        stall_at_least=asked.stall_after,
        lost=asked.lost_after,
        lease=asked.abandon_after,
    )


def run_document(directory: Path, manifest: "RunManifest", steps: int, verdict: str | None) -> dict[str, Any]:
    return {
        "run": str(directory.resolve()),
        "framework": manifest.framework,
        "status": manifest.status,
        "steps": steps,
        "verdict": verdict,
        "failure": manifest.failure.model_dump() if manifest.failure else None,
    }


def say_failure(manifest: "RunManifest") -> None:
    if manifest.failure:
        where = f" ({manifest.failure.file}:{manifest.failure.line})" if manifest.failure.file else ""
        printing.say(f"{manifest.failure.kind}: {printing.inert(manifest.failure.message)}{where}")
