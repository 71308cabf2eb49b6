"""steelyard plan FILE: the dry run."""

import json
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import FileArgument, Fillable, Printing
from steelyard.cli.verb import verb

if TYPE_CHECKING:
    from steelyard.configs.choose import Asked
    from steelyard.planning.make import Planned
    from steelyard.planning.plan import NodePlan, Plan

EXAMPLES = (
    "Examples: steelyard plan tiny-llama.yaml | steelyard plan big.yaml --gpu h200 --gpus 8 --json | "
    "steelyard plan mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml "
    "--script"
)


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Fillable, Printing):
    file: FileArgument
    as_script: Annotated[bool, typer.Option("--script", help="Print a shell script that runs it.")] = False


@verb
def plan(options: PlanOptions) -> None:
    """Show exactly what would run, per node, and what to expect of it."""
    from steelyard.cli import printing
    from steelyard.cli.inputs import planned
    from steelyard.planning.script import script

    asked = options.asked()
    if options.fill:
        from steelyard.cli.filling import fill_file

        fill_file(options.file, asked)
    found = planned(options.file, asked)
    made = found.plan
    if (note := _not_as_run(found, asked)) is not None:
        printing.note(note)
    if options.as_json:
        printing.show_json(made.model_dump(mode="json"))
    elif options.as_script:
        sys.stdout.write(script(made, asked.login))
    else:
        _show(made)


def _not_as_run(made: "Planned", asked: "Asked") -> str | None:
    """What to say where `run --cluster` makes a fleet of what is planned here as one job."""
    reading = made.case.reading
    platform = reading.content.get("platforms", {}).get(reading.platform, {}) if reading.platform else {}
    hosted = made.plan.nodes[0].directory is not None
    if reading.family != "steelyard" or asked.hosts or not hosted or platform.get("nodes", 1) != 1:
        return None
    count = made.plan.job.nodes
    if count < 2:
        return None
    return (
        f"this is one job over {count} nodes; the file says one, so on a cluster `run` makes a fleet of it, a run on"
        f" each of {count} hosts: `nodes: {count}` under the platform makes it one job there too"
    )


def _show(plan: "Plan") -> None:
    from steelyard.cli import printing

    for line in _headline(plan):
        printing.say(line)
    for name, value in _expectations(plan):
        printing.say(printing.hang(f"  {name:<18} ", value))
    for bound in plan.thresholds:
        printing.say(f"  {'must keep':<18} {bound}")
    _show_decided(plan)
    if plan.fleet:
        printing.say(f"\na fleet: each of {len(plan.nodes)} machines runs the job by itself")
    for at, node in enumerate(plan.nodes):
        where = (
            f"in {node.container.image if node.container else node.workdir or node.directory or 'the run directory'}"
        )
        printing.say(f"\n{'machine' if plan.fleet else 'node'} {at} ({node.host}), {where}:")
        _show_node(node, plan.nodes[0] if at else None)


def _show_node(node: "NodePlan", first: "NodePlan | None") -> None:
    """The first node whole; of another only what differs from it."""
    from steelyard.cli import printing
    from steelyard.planning.container import ENV_FILE, JOB_DIR
    from steelyard.planning.script import wrapped

    if node.container:
        argv = node.container.argv
        before = first.container.argv if first and first.container else None
        if before is None:
            printing.say("  " + wrapped(argv, len(node.argv)))
        else:
            changed = [
                f"{argv[at - 1]} {shlex.quote(word)}" if argv[at - 1].startswith("--") else shlex.quote(word)
                for at, word in enumerate(argv)
                if at >= len(before) or word != before[at]
            ]
            printing.say(f"  as 0, with {' '.join(changed)}" if changed else "  as 0")
        _show_variables(node, first)
    else:
        for name, value in node.env.items():
            printing.say(f"  {name}={shlex.quote(value)} \\")
        printing.say(f"  {wrapped(node.argv) if node.directory else shlex.join(node.argv)}")
    for name, source in node.secrets.items() if first is None else ():
        printing.say(f"  {name} is read from {source} on the host and appears nowhere else")
    shown = {(planned.path, str(planned.content)) for planned in first.files} if first else set()
    for planned in node.files:
        if planned.path == ENV_FILE or (planned.path, str(planned.content)) in shown:
            continue
        printing.say(f"\n{planned.path if node.directory is None else f'{node.directory}/{JOB_DIR}/{planned.path}'}:")
        text = planned.content if isinstance(planned.content, str) else json.dumps(planned.content, indent=2)
        printing.say("  " + text.rstrip("\n").replace("\n", "\n  "))


def _headline(plan: "Plan") -> list[str]:
    job = plan.job
    unit = "ranks" if job.gpu == "cpu" else "GPUs"
    gpus = f"{job.nodes} nodes x {job.gpus_per_node} {job.gpu} = {job.nodes * job.gpus_per_node} {unit}"
    where = gpus if job.nodes > 1 else f"{job.gpus_per_node} x {job.gpu}"
    named = "" if plan.platform == job.gpu else f" on {plan.platform}"
    return [
        f"{plan.experiment}{named}: {where}, {plan.framework}, {job.precision}",
        f"  {job.steps:,} steps of {job.global_batch_size:,} x {job.sequence_length:,} tokens, "
        f"micro-batch {job.micro_batch_size}, {job.layout}",
    ]


def _show_decided(plan: "Plan") -> None:
    """What neither the file nor the person said: an image's script or a framework decided it."""
    from steelyard.cli import printing
    from steelyard.experiment.problems import spelt
    from steelyard.experiment.sources import Origin, Source

    by_source: dict[str, list[str]] = {}
    for dotted, found in plan.values.items():
        origin = Source.of(found.source).origin
        if origin in (Origin.SCRIPT, Origin.FRAMEWORK) and not dotted.startswith("kernels."):
            by_source.setdefault(found.source, []).append(f"{dotted.partition('.')[2]} {spelt(found.value)}")
    for source, values in by_source.items():
        printing.say(printing.hang(f"  {'decided elsewhere':<18} ", f"{source}: {', '.join(values)}"))


def _show_variables(node: "NodePlan", first: "NodePlan | None") -> None:
    from steelyard.cli import printing
    from steelyard.experiment.sources import Origin

    by_source: dict[str, list[str]] = {}
    for name, value in node.env.items():
        if first is None or first.env.get(name) != value:
            by_source.setdefault(node.env_sources.get(name, Origin.CONFIG.value), []).append(
                f"{name}={shlex.quote(value)}"
            )
    for source, lines in by_source.items():
        printing.say(f"  variables, from {'the config' if source == Origin.CONFIG else source}:")
        for line in lines:
            printing.say(f"    {line}")


def _expectations(plan: "Plan") -> list[tuple[str, str]]:
    expected = plan.expected
    memory = ", ".join(f"{name} {_size(gib)}" for name, gib in expected.memory_gib_by_component.items())
    card = expected.usable_gib_per_gpu
    of_card = "" if card is None else f" of {card} GiB"
    floor, peak, seconds = expected.loss_floor, expected.peak_tflops_per_gpu, expected.seconds_at_peak
    return [
        ("parameters", f"{expected.parameters:,}"),
        ("FLOPs per token", f"{expected.flops_per_token / 1e9:,.6g} GFLOP, forward and backward, causal"),
        ("tokens per step", f"{expected.tokens_per_step:,}"),
        ("memory per GPU", f"{_size(expected.memory_gib_per_gpu)}{of_card}: {memory}"),
        ("first loss", f"{expected.first_loss:.4f}"),
        ("loss floor", "unknown" if floor is None else f"{floor:.4f} nats a token"),
        ("dense peak", "unknown" if peak is None else f"{peak:,} TFLOP/s a GPU in {plan.job.precision}"),
        ("time at that peak", "unknown" if seconds is None else _at_peak(seconds, plan.job.steps)),
    ]


def _at_peak(seconds: float, steps: int) -> str:
    return f"{seconds:,.1f} s for {steps:,} steps, {seconds / steps:,.3f} s each; no run is faster"


def _size(gib: float) -> str:
    return f"{gib:.1f} GiB" if gib >= 1 else f"{gib * 1024:.1f} MiB"
