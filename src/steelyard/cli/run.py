"""steelyard run FILE: runs it, records it, then checks it."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli import check
from steelyard.cli.hosts import NewKeysOption, hosts_of
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
    PlatformOption,
    SetOption,
)
from steelyard.errors import Exit, InfrastructureError, InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from steelyard.cluster.host import Host
    from steelyard.cluster.preflight import HostFinding
    from steelyard.records import RunManifest
    from steelyard.runner import ImageSource, Planned
    from steelyard.verdict import Verdict

    Look = Callable[[Sequence[Host]], Awaitable[list[HostFinding]]]

EXAMPLES = (
    "Examples: steelyard run tiny-llama.yaml | "
    "steelyard run tiny-llama.yaml --no-check --set training.steps=50 --gpus 2 | "
    "steelyard run mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml"
)
REQUIRED_HELP = "What blocks the run if preflight finds it wanting: all, none, or names of checks."


def run(
    file: FileArgument,
    platform: PlatformOption = None,
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
        float | None, typer.Option("--time-limit", metavar="SECONDS", min=1, help="The most all steps may take.")
    ] = None,
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
            help="A job that nobody asked after for so long ends itself and leaves nothing; 0: never.",
        ),
    ] = 3600,
    rerun_failed: Annotated[
        str | None,
        typer.Option("--rerun-failed", metavar="FLEET", help="Run again the hosts of a fleet that did not pass."),
    ] = None,
    out: OutOption = DEFAULT_OUT,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The run directory's name.")] = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Record only; do not judge.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Run an experiment here or on a cluster, with progress, record it, then judge it."""
    from steelyard import records, runner, verdict
    from steelyard.cli import printing
    from steelyard.cli.inputs import asked_of, planned
    from steelyard.cli.progress import view
    from steelyard.runner.limits import Limits

    made, machine = planned(file, asked_of(platform, settings, gpu, gpus, model, nodes, cluster))
    hosted = made.plan.nodes[0].directory is not None
    if 0 < abandon_after < lost_after + _LEASE_MARGIN_S:
        raise InputError(
            f"--abandon-after {abandon_after} ends a job before --lost-after {lost_after:g} has passed",
            key="--abandon-after",
            value=abandon_after,
            expected=f"0, or {lost_after + _LEASE_MARGIN_S:g} at least",
        )
    if hosted:
        _check_cluster(file, made, cluster)
    else:
        _check_here(made, cluster)
        runner.check_machine(made.plan, made.case.placement, machine)
    limits = Limits(
        train=time_limit, first_step=first_step, stall_at_least=stall_after, lost=lost_after, lease=abandon_after
    )

    source = runner.ImageSource(image_file, pull)
    look = None if no_preflight or not hosted else _look(made, required, source)

    def reach(names: "Sequence[str]") -> "list[Host]":
        return hosts_of(names, cluster, accept_new_host_keys)

    if made.plan.fleet or rerun_failed is not None:
        from steelyard.cli.fleet import run_fleet

        return run_fleet(
            made,
            reach,
            runner.Options(limits, source),
            look,
            out=out,
            name=name,
            rerun=rerun_failed,
            no_check=no_check,
            as_json=as_json,
        )
    options = runner.Options(limits, source, _refusing(look) if look else None) if hosted else None
    job = runner.new_job_id(made.plan) if hosted else None
    writer = runner.new_run(made.plan, made.case, out, name, ["steelyard", *sys.argv[1:]], job)
    printing.note(f"recording {writer.directory}")
    try:
        with view(made.case.resolved.experiment.training.steps, made.plan.expected.peak_tflops_per_gpu) as observe:
            if options is not None:
                hosts = reach([node.host for node in made.plan.nodes])
                manifest = runner.execute_on_hosts(made.plan, made.case, writer, observe, hosts, options)
            else:
                manifest = runner.execute(made.plan, made.case, writer, observe)
    except InfrastructureError as error:
        printing.show_error(error, as_json, beside=document(writer.directory, writer.manifest, writer.steps, None))
        return error.exit
    if manifest.status == "interrupted" or no_check:
        judged, status = None, RECORDED[manifest.status]
    else:
        judged = verdict.judge(verdict.read_subject(records.load(writer.directory)))
        check.save(judged)
        status = verdict.EXIT_OF[judged.status]
    if as_json:
        word = judged.status.value if judged else None
        printing.show_json(document(writer.directory, manifest, writer.steps, word))
    else:
        _show(writer.directory, manifest, writer.steps, judged)
    return status


def _check_cluster(file: Path, made: "Planned", cluster: Path | None) -> None:
    if cluster is None and len(made.plan.nodes) > 1:
        raise InputError(
            f"{file} is planned for {len(made.plan.nodes)} machines and no cluster is named",
            key="--cluster",
            expected="the cluster's hosts",
            next=f"steelyard run {shlex.quote(str(file))} --cluster cluster.yaml",
        )


def _check_here(made: "Planned", cluster: Path | None) -> None:
    if cluster is not None:
        raise InputError(
            f"{made.plan.framework} without a container runs where Steelyard does",
            key="--cluster",
            value=str(cluster),
            expected="a platform with a container",
            next="give the platform `container: {image: …}` with steelyard[train] in it",
        )


def _look(made: "Planned", required: str | None, source: "ImageSource") -> "Look":
    """Ask hosts whether they are fit for a plan, weighed as it was asked."""
    from dataclasses import replace

    from steelyard.cluster.preflight import needs_of, parse_required, preflight, weighed

    needs, weights = needs_of(made), parse_required(required)
    if source.file is not None or source.pull:
        needs = replace(needs, image=None)  # it is brought where it is missing, and held to be one everywhere then

    async def look(hosts: "Sequence[Host]") -> "list[HostFinding]":
        return weighed(await preflight(hosts, needs), weights)

    return look


def _refusing(look: "Look") -> "Callable[[Sequence[Host]], Awaitable[None]]":
    """Look at the hosts once they are ours; whatever blocks is said, and the first of it ends the run."""
    from steelyard.cli import printing
    from steelyard.cluster.host import HostError

    async def refuse(hosts: "Sequence[Host]") -> None:
        found = [one for one in await look(hosts) if one.blocks]
        for one in found[1:]:
            printing.note(f"preflight: {one.host or 'the hosts'}: {one.message}")
        if found:
            first = found[0]
            raise HostError(first.host or "the hosts", first.message, key=first.check, next=first.fix)

    return refuse


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
