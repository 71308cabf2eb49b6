"""steelyard run FILE: runs it, records it, then checks it."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli import check
from steelyard.cli.hosts import NewKeysOption
from steelyard.cli.options import (
    DEFAULT_OUT,
    ClusterOption,
    DebugOption,
    FileArgument,
    GpuOption,
    GpusOption,
    JsonOption,
    ModelOption,
    NodesOption,
    OutOption,
    SetOption,
)
from steelyard.errors import Exit, InfrastructureError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.cli.launch import Launch
    from steelyard.planning.plan import Planned
    from steelyard.records import RunManifest
    from steelyard.verdict import Verdict

EXAMPLES = (
    "Examples: steelyard run tiny-llama.yaml | "
    "steelyard run tiny-llama.yaml --no-check --set training.steps=50 --gpus 2 | "
    "steelyard run both.yaml --platform nvidia,amd --repeats 5 --name nightly && "
    "steelyard compare nightly/amd nightly/nvidia | "
    "steelyard run mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml"
)
REQUIRED_HELP = "What blocks the run if preflight finds it wanting: all, none, or names of checks."


def run(
    file: FileArgument,
    platform: Annotated[
        str | None,
        typer.Option("--platform", metavar="NAME", help="Which of the file's platforms; several, by commas, in turn."),
    ] = None,
    model: ModelOption = None,
    settings: SetOption = None,
    gpu: GpuOption = None,
    gpus: GpusOption = None,
    nodes: NodesOption = None,
    cluster: ClusterOption = None,
    accept_new_host_keys: NewKeysOption = False,
    pull: Annotated[bool, typer.Option("--pull", help="Pull the image where a host lacks it.")] = False,
    image_file: Annotated[
        Path | None,
        typer.Option(
            "--image-file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Load the image from it where a host lacks it.",
        ),
    ] = None,
    required: Annotated[str | None, typer.Option("--required", metavar="CHECKS", help=REQUIRED_HELP)] = None,
    no_preflight: Annotated[bool, typer.Option("--no-preflight", help="Do not look at the hosts first.")] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="SECONDS",
            min=1,
            help="Longest time from the start of the training program to its exit. Default: from the plan.",
        ),
    ] = None,
    exit_within: Annotated[
        float,
        typer.Option(
            "--exit-within",
            metavar="SECONDS",
            min=1,
            help="Longest time from the last planned step to the exit of the training program.",
        ),
    ] = 1800.0,
    first_step: Annotated[
        float, typer.Option("--first-step-within", metavar="SECONDS", min=1, help="The most the first step may take.")
    ] = 1800.0,
    stall_after: Annotated[
        float,
        typer.Option(
            "--stall-after", metavar="SECONDS", min=1, help="A step that takes so long, and ten medians, is a stall."
        ),
    ] = 300.0,
    lost_after: Annotated[
        float, typer.Option("--lost-after", metavar="SECONDS", min=1, help="Give up a host out of reach for so long.")
    ] = 120.0,
    abandon_after: Annotated[
        int,
        typer.Option(
            "--abandon-after",
            metavar="SECONDS",
            min=0,
            help="Stop the remote job and remove its files after so long without contact from here; 0: never.",
        ),
    ] = 3600,
    rerun_failed: Annotated[
        str | None,
        typer.Option("--rerun-failed", metavar="FLEET", help="Run again the hosts of a fleet that did not pass."),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats", metavar="N", min=1, max=1000, help="Make N runs, one after the other, with the same seed."
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="SEEDS", help="Make a run of each training.seed, such as 1,2,3."),
    ] = None,
    out: OutOption = DEFAULT_OUT,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The run directory's name, or that of all repeats.")
    ] = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Record only; do not judge.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Run an experiment here or on a cluster, with progress, record it, then judge it.

    Several repeats lie in one directory, which `steelyard compare` takes for a side. Ends with 0 pass, 1 fail, 2 wrong
    input, 3 infrastructure, 5 not known, 130 interrupted: Ctrl-C stops it, cleans every host and keeps the record.
    """
    from steelyard import execute
    from steelyard.cli.inputs import asked_of, planned
    from steelyard.cli.launch import Launch
    from steelyard.execute.limits import Limits

    _check_lease(abandon_after, lost_after)
    limits = Limits(
        train=time_limit,
        first_step=first_step,
        exit=exit_within,
        stall_at_least=stall_after,
        lost=lost_after,
        lease=abandon_after,
    )
    launch = Launch(
        cluster, accept_new_host_keys, limits, execute.ImageSource(image_file, pull), required, not no_preflight
    )

    def plan(name: str | None, own: "Sequence[str]" = (), aloud: bool = True) -> "Planned":
        asked = asked_of(name, [*(settings or []), *own], gpu, gpus, model, nodes, cluster)
        made, machine = planned(file, asked, aloud)
        launch.check(made, machine)
        return made

    if repeats is not None or seeds is not None:
        from steelyard.cli.repeats import Series, run_repeats

        series = Series.of(platform, repeats, seeds, settings or [], rerun_failed)
        return run_repeats(series, plan, launch, out=out, name=name, no_check=no_check, as_json=as_json)
    _check_one(platform)
    made = plan(platform)
    if made.plan.fleet or rerun_failed is not None:
        from steelyard.cli.fleet import run_fleet

        return run_fleet(
            made,
            launch.reach,
            execute.Options(launch.limits, launch.image),
            launch.look(made),
            out=out,
            name=name,
            rerun=rerun_failed,
            no_check=no_check,
            as_json=as_json,
        )
    return _run_one(made, launch, out, name, no_check, as_json)


def _run_one(made: "Planned", launch: "Launch", out: Path, name: str | None, no_check: bool, as_json: bool) -> int:
    from steelyard import verdict
    from steelyard.cli import printing

    writer = launch.begin(made, out, name)
    printing.note(f"recording {writer.directory}")
    try:
        manifest = launch.execute(made, writer)
    except InfrastructureError as error:
        printing.show_error(error, as_json, beside=document(writer.directory, writer.manifest, writer.steps, None))
        return error.exit
    if manifest.status == "interrupted" or no_check:
        judged, status = None, RECORDED[manifest.status]
    else:
        judged = judge(writer.directory)
        status = verdict.EXIT_OF[judged.status]
    if as_json:
        word = judged.status.value if judged else None
        printing.show_json(document(writer.directory, manifest, writer.steps, word))
    else:
        _show(writer.directory, manifest, writer.steps, judged)
    return status


def judge(directory: Path) -> "Verdict":
    """Judge a run that has ended, and keep the verdict beside it."""
    from steelyard import records, verdict

    judged = verdict.judge(verdict.read_subject(records.load(directory)))
    check.save(judged)
    return judged


def _check_lease(abandon_after: int, lost_after: float) -> None:
    if 0 < abandon_after < lost_after + _LEASE_MARGIN_S:
        raise InputError(
            f"--abandon-after {abandon_after} ends a job before --lost-after {lost_after:g} has passed",
            key="--abandon-after",
            value=abandon_after,
            expected=f"0, or {lost_after + _LEASE_MARGIN_S:g} at least",
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
