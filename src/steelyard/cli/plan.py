"""steelyard plan FILE: the dry run."""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import CONFIG, Fillable, Printing, argument, option
from steelyard.cli.verb import verb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.api import PlacedSelection
    from steelyard.planning.make import Planned
    from steelyard.planning.plan import NodePlan, Plan

EXAMPLES = (
    "Examples: steelyard plan tiny-llama.yaml | steelyard plan big.yaml --gpu h200 --gpus 8 --json | "
    "steelyard plan mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml "
    "--script"
)


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Fillable, Printing):
    file: Path = argument(*CONFIG)
    as_script: bool = option("--script", "Print a shell script that runs it.")


@verb
def plan(options: PlanOptions) -> None:
    """Show exactly what would run, per node, and what to expect of it."""
    from steelyard.planning.script import script

    if options.fill:
        from steelyard.cli.filling import fill_file

        fill_file(options.file, options.asked())
    made = planned(options.file, options.selection())
    _note_fleet(made)
    if options.as_json:
        printing.show_json(made.plan.model_dump(mode="json"))
    elif options.as_script:
        sys.stdout.write(script(made.plan, options.asked().login))
    else:
        _show(made.plan)


def planned(file: Path, selection: "PlacedSelection", aloud: bool = True) -> "Planned":
    """The plan of a file, with what a person should know of it; not aloud: that was noted before."""
    from steelyard import api

    made = api.plan(file, **selection)
    if not aloud:
        return made
    plan, case = made.plan, made.case
    if len(plan.nodes) > 1 and not case.hosts:
        user = "" if case.reading.family == "steelyard" else f", and {{user-id}} is {case.login}"
        printing.note(f"no --cluster: the hosts are called {plan.nodes[0].host}, {plan.nodes[1].host}, …{user}")
    if plan.allowed:
        listed = "; ".join(f"{allowed.code} {allowed.message}" for allowed in plan.allowed)
        printing.note(f"allowed by the platform: {listed}")
    for warning in made.warnings:
        if warning.severity == "warning":
            printing.note(f"warning: {warning.code} {warning.message}; {warning.fix}")
    return made


def _note_fleet(made: "Planned") -> None:
    """Say where `run --cluster` makes a fleet of what is planned here as one job."""
    reading, count = made.case.reading, made.plan.job.nodes
    platform = reading.content.get("platforms", {}).get(reading.platform, {}) if reading.platform else {}
    hosted = made.plan.nodes[0].directory is not None and not made.case.hosts
    if reading.family == "steelyard" and hosted and platform.get("nodes", 1) == 1 and count > 1:
        printing.note(
            f"this is one job over {count} nodes; the file says one, so on a cluster `run` makes a fleet of it, a run"
            f" on each of {count} hosts: `nodes: {count}` under the platform makes it one job there too"
        )


def _show(plan: "Plan") -> None:
    job = plan.job
    gpus = f"{job.gpus_per_node} x {job.gpu}"
    if job.nodes > 1:
        unit = "ranks" if job.gpu == "cpu" else "GPUs"
        gpus = f"{job.nodes} nodes x {job.gpus_per_node} {job.gpu} = {job.nodes * job.gpus_per_node} {unit}"
    named = "" if plan.platform == job.gpu else f" on {plan.platform}"
    printing.say(f"{plan.experiment}{named}: {gpus}, {plan.framework}, {job.precision}")
    tokens = f"{job.global_batch_size:,} x {job.sequence_length:,} tokens"
    printing.say(f"  {job.steps:,} steps of {tokens}, micro-batch {job.micro_batch_size}, {job.layout}")
    for name, value in _expectations(plan):
        printing.item(f"  {name:<18} ", value)
    for bound in plan.thresholds:
        printing.say(f"  {'must keep':<18} {bound}")
    _show_decided(plan)
    if plan.fleet:
        printing.say(f"\na fleet: each of {len(plan.nodes)} machines runs the job by itself")
    for at, node in enumerate(plan.nodes):
        where = node.container.image if node.container else node.workdir or node.directory or "the run directory"
        printing.say(f"\n{'machine' if plan.fleet else 'node'} {at} ({node.host}), in {where}:")
        _show_node(node, plan.nodes[0] if at else None)


def _show_node(node: "NodePlan", first: "NodePlan | None") -> None:
    """The first node whole; of another only what differs from it."""
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
        _show_variables(node, first.env if first else {})
    else:
        for name, value in node.env.items():
            printing.say(f"  {name}={shlex.quote(value)} \\")
        printing.say(f"  {wrapped(node.argv) if node.directory else shlex.join(node.argv)}")
    for name, source in node.secrets.items() if first is None else ():
        printing.say(f"  {name} is read from {source} on the host and appears nowhere else")
    shown = {(file.path, str(file.content)) for file in first.files} if first else set()
    for file in node.files:
        if file.path == ENV_FILE or (file.path, str(file.content)) in shown:
            continue
        printing.say(f"\n{file.path if node.directory is None else f'{node.directory}/{JOB_DIR}/{file.path}'}:")
        text = file.content if isinstance(file.content, str) else json.dumps(file.content, indent=2)
        printing.say("  " + text.rstrip("\n").replace("\n", "\n  "))


def _show_decided(plan: "Plan") -> None:
    """What neither the file nor the person said: an image's script or a framework decided it."""
    from steelyard.experiment.problems import spelt
    from steelyard.experiment.sources import Origin, Source

    by_source: dict[str, list[str]] = {}
    for dotted, value in plan.values.items():
        origin = Source.of(value.source).origin
        if origin in (Origin.SCRIPT, Origin.FRAMEWORK) and not dotted.startswith("kernels."):
            by_source.setdefault(value.source, []).append(f"{dotted.partition('.')[2]} {spelt(value.value)}")
    for source, values in by_source.items():
        printing.item(f"  {'decided elsewhere':<18} ", f"{source}: {', '.join(values)}")


def _show_variables(node: "NodePlan", known: "Mapping[str, str]") -> None:
    from steelyard.experiment.sources import Origin

    by_source: dict[str, list[str]] = {}
    for name, value in node.env.items():
        if known.get(name) != value:
            source = node.env_sources.get(name, Origin.CONFIG.value)
            by_source.setdefault(source, []).append(f"    {name}={shlex.quote(value)}")
    for source, lines in by_source.items():
        printing.say(f"  variables, from {'the config' if source == Origin.CONFIG else source}:")
        printing.say("\n".join(lines))


def _expectations(plan: "Plan") -> list[tuple[str, str]]:
    expected = plan.expected
    memory = ", ".join(f"{name} {_size(gib)}" for name, gib in expected.memory_gib_by_component.items())
    of_card = "" if expected.usable_gib_per_gpu is None else f" of {expected.usable_gib_per_gpu} GiB"
    floor, peak, at_peak = expected.loss_floor, expected.peak_tflops_per_gpu, "unknown"
    if (seconds := expected.seconds_at_peak) is not None:
        each = seconds / plan.job.steps
        at_peak = f"{seconds:,.1f} s for {plan.job.steps:,} steps, {each:,.3f} s each; no run is faster"
    return [
        ("parameters", f"{expected.parameters:,}"),
        ("FLOPs per token", f"{expected.flops_per_token / 1e9:,.6g} GFLOP, forward and backward, causal"),
        ("tokens per step", f"{expected.tokens_per_step:,}"),
        ("memory per GPU", f"{_size(expected.memory_gib_per_gpu)}{of_card}: {memory}"),
        ("first loss", f"{expected.first_loss:.4f}"),
        ("loss floor", "unknown" if floor is None else f"{floor:.4f} nats a token"),
        ("dense peak", "unknown" if peak is None else f"{peak:,} TFLOP/s a GPU in {plan.job.precision}"),
        ("time at that peak", at_peak),
    ]


def _size(gib: float) -> str:
    return f"{gib:.1f} GiB" if gib >= 1 else f"{gib * 1024:.1f} MiB"
