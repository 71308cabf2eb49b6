"""steelyard plan FILE: the dry run."""

import json
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.diff import EQUAL, FOR
from steelyard.cli.options import Fillable, Kept, argument, examples, option
from steelyard.cli.printing import Style
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InputError, SteelyardError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steelyard.api import PlacedSelection
    from steelyard.planning.make import Planned
    from steelyard.planning.plan import NodePlan, Plan

EXAMPLES = examples(
    "steelyard plan tiny-llama.yaml",
    "steelyard plan apples-to-apples.yaml --platform nvidia --script",
    "steelyard plan apples-to-apples.yaml --platform nvidia,amd --for convergence",
    "steelyard plan --ladder runs/mi300x runs/h100 -o ladder.yaml",
    "steelyard plan mi3xx_megatron_llama_distributed.json --model llama3_1_8b --gpu mi300x --cluster cluster.yaml",
)
_LABEL = 16


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Fillable, Kept):
    file: Path = argument("FILE", "A training config, YAML or JSON; with --ladder also runs: the target.")
    baseline: str | None = argument("BASELINE", "With --ladder: the config or the runs to compare with.", None)
    platform: str | None = option("--platform NAME", "Platform of the file; a,b shows two next to each other.")
    as_script: bool = option("--script", "Print a shell script that runs it without Steelyard.")
    ladder: bool = option("--ladder", "Plan a suite that measures how much each setting makes of a gap.")
    output: Path | None = option("-o FILE", "With --ladder: write the experiment file here.")
    metrics: str = option(FOR[0], "For two platforms: throughput, memory, flops, convergence.", "throughput")
    verbose: bool = option(EQUAL[0], "For two platforms: print the equal settings too.")


@verb
def plan(options: PlanOptions) -> int:
    """Show what would run on each node, and what to expect.

    Exit status: 0; for two platforms 4 if a setting that must match differs.
    """
    from steelyard.planning.script import script

    if options.ladder:
        from steelyard.cli.ladder import plan_ladder

        return plan_ladder(options)
    _check_no_ladder(options)
    if options.fill:
        from steelyard.cli.filling import fill_file

        fill_file(options.file, options.asked())
    if options.platform is not None and "," in options.platform:
        return _side_by_side(options)
    result = planned(options.file, options.selection())
    _note_fleet(result)
    if options.as_json:
        printing.show_json(result.plan.model_dump(mode="json"))
    elif options.as_script:
        sys.stdout.write(script(result.plan, options.asked().login))
    else:
        _show(result.plan)
        printing.say(f"next: {_next(result, options)}")
    return Exit.GOOD


def _check_no_ladder(options: PlanOptions) -> None:
    """Refuse a second side and a file to write without --ladder."""
    for key, value in (("BASELINE", options.baseline), ("-o", options.output)):
        if value is not None:
            sides = shlex.join([str(options.file), options.baseline or "BASELINE"])
            complaint, expected = f"plan prints one plan, but {key} is given ({value})", "--ladder, or one FILE"
            way_on = f"steelyard plan --ladder {sides}, or steelyard diff {sides}"
            raise InputError(complaint, key=key, value=str(value), expected=expected, next=way_on)


def _side_by_side(options: PlanOptions) -> int:
    """Two platforms of a file: their settings, and what to expect of each."""
    from steelyard.cli.diff import differences_of_cases, naming, per_side, show

    if options.as_script:
        complaint, expected = "--script prints the script of one platform", "one platform"
        name = str(options.platform).partition(",")[0]
        way_on = f"--platform {shlex.quote(name)} --script"
        raise InputError(complaint, key="--platform", value=options.platform, expected=expected, next=way_on)
    first, second = per_side(options)
    if first["platform"] == second["platform"]:
        complaint, expected = f"--platform {options.platform} names one platform twice", "two platforms"
        way_on = f"--platform {shlex.quote(str(first['platform']))}"
        raise InputError(complaint, key="--platform", value=options.platform, expected=expected, next=way_on)
    plans = []
    for selection in (first, second):
        with naming(selection):
            plans.append(planned(options.file, selection))
    made = differences_of_cases([each.case for each in plans], options.metrics)
    if options.as_json:
        documents = {side.name: each.plan.model_dump(mode="json") for side, each in zip(made.sides, plans, strict=True)}
        printing.show_json({**made.document(), "plans": documents})
        return made.exit
    show(made, options.verbose)
    printing.say("\nexpected:", Style.STRONG)
    columns = [(side.called, *_expected_cells(each.plan)) for side, each in zip(made.sides, plans, strict=True)]
    printing.table(list(zip(("", *_EXPECTED), *columns, strict=True)), "  ")
    if made.exit == Exit.GOOD:
        printing.say(f"next: steelyard run {shlex.quote(str(options.file))}{options.typed_again()} --repeats 5")
    return made.exit


_EXPECTED = ("parameters", "FLOPs per token", "memory per GPU", "first loss", "GPU peak", "shortest time per step")


def _expected_cells(plan: "Plan") -> tuple[str, ...]:
    """What to expect of a plan, by the rows of _EXPECTED."""
    expected, unknown = plan.expected, "unknown"
    peak, seconds = expected.peak_tflops_per_gpu, expected.seconds_at_peak
    limit = "" if expected.usable_gib_per_gpu is None else f" of {expected.usable_gib_per_gpu}"
    return (
        f"{expected.parameters:,}",
        _flops(expected.flops_per_token),
        f"{expected.memory_gib_per_gpu:.1f}{limit} GiB",
        f"{expected.first_loss:.4f}",
        unknown if peak is None else f"{peak:,} TFLOP/s, dense {plan.job.precision}",
        unknown if seconds is None else f"{seconds / plan.job.steps:,.3g} s",
    )


def planned(file: Path, selection: "PlacedSelection") -> "Planned":
    """The plan of a file; prints what a person should know of it."""
    from steelyard import api

    result = api.plan(file, **selection)
    for note in notes(result):
        printing.note(note)
    return result


def notes(result: "Planned") -> "Iterator[str]":
    """What a person should know of a plan."""
    plan, case = result.plan, result.case
    if len(plan.nodes) > 1 and not case.hosts:
        yield f"no --cluster: using the host names {plan.nodes[0].host}, {plan.nodes[1].host}, ..."
    if not case.hosts and case.reading.family != "steelyard":
        yield f"no --cluster: {{user-id}} = {case.login}, the login here; a cluster file sets another"
    if plan.allowed:
        yield f"allowed: {'; '.join(problem.words for problem in plan.allowed)}"
    for warning in result.warnings:
        if warning.severity == "warning":
            yield f"warning: {warning.code} {warning.message}; fix: {warning.fix}"


def _note_fleet(result: "Planned") -> None:
    """Explain that `run --cluster` starts a fleet for what is planned here as one job."""
    reading, count = result.case.reading, result.plan.job.nodes
    platform = reading.content.get("platforms", {}).get(reading.platform, {}) if reading.platform else {}
    hosted = result.plan.nodes[0].directory is not None and not result.case.hosts
    if reading.family == "steelyard" and hosted and platform.get("nodes", 1) == 1 and count > 1:
        printing.note(
            f"this plan is one job over {count} nodes, but the platform in the file has 1 node: `run --cluster` would "
            f"start {count} separate runs (a fleet). For one job write `nodes: {count}` in the platform"
        )


def _next(result: "Planned", options: PlanOptions) -> str:
    """`run` if nothing known prevents it, else the script, which a person can take to the right machine."""
    from steelyard import execute
    from steelyard.hardware.machine import discover

    command, machine = f"{shlex.quote(str(options.file))}{options.typed_again()}", discover()
    node, can_run = result.plan.nodes[0], True
    try:
        execute.check(result, machine, execute.RunOptions(cluster=options.cluster))
    except SteelyardError as error:
        if error.key == "framework" and error.next is not None:
            return error.next
        can_run = False
    if options.cluster is None and result.case.placement.device == "gpu":
        can_run = can_run and bool(machine.gpu_names or machine.unasked_amd_gpus)
    if options.cluster is None and node.container is not None:
        can_run = can_run and shutil.which(node.container.engine) is not None
    elif options.cluster is None and node.workdir is not None:
        can_run = can_run and Path(node.workdir).is_dir()
    return f"steelyard run {command}" if can_run else f"steelyard plan {command} --script > run.sh"


def _show(plan: "Plan") -> None:
    """What runs on each node, then what to expect: the end is what a terminal shows."""
    if plan.fleet:
        printing.say(f"a fleet: each of {len(plan.nodes)} hosts runs its own job\n")
    for at, node in enumerate(plan.nodes):
        where = node.container.image if node.container else node.workdir or node.directory or "the run directory"
        printing.say(f"{'host' if plan.fleet else 'node'} {at} ({node.host}), in {where}:", Style.STRONG)
        _show_node(node, plan.nodes[0] if at else None)
        printing.say("")
    job = plan.job
    unit = "ranks" if job.gpu == "cpu" else "GPUs"
    gpus = f"{job.gpus_per_node} x {job.gpu}"
    if job.nodes > 1:
        gpus = f"{job.nodes} nodes x {job.gpus_per_node} {job.gpu} = {job.nodes * job.gpus_per_node} {unit}"
    named = "" if plan.platform == job.gpu else f" on {plan.platform}"
    title = f"{plan.experiment}{named}"
    _show_decided(plan)
    printing.say(f"{title}: {gpus}, {plan.framework}, {job.precision}", Style.STRONG, len(title))
    for label, value in _expectations(plan):
        printing.item(f"  {label:<{_LABEL}}  ", value)


def _show_node(node: "NodePlan", first: "NodePlan | None") -> None:
    """The first node in full; of another node only what differs."""
    from steelyard.planning.container import ENV_FILE, JOB_DIR
    from steelyard.planning.script import wrapped

    if node.container:
        argv = node.container.argv
        before = first.container.argv if first and first.container else None
        if before is None:
            printing.say("  " + wrapped(argv, len(node.argv), _width()))
        else:
            changed = [
                f"{argv[at - 1]} {shlex.quote(word)}" if argv[at - 1].startswith("--") else shlex.quote(word)
                for at, word in enumerate(argv)
                if at >= len(before) or word != before[at]
            ]
            printing.say(f"  like the first, but {' '.join(changed)}" if changed else "  like the first")
        _show_variables(node, first.env if first else {})
    else:
        for name, value in node.env.items():
            printing.say(f"  {name}={shlex.quote(value)} \\")
        printing.say(f"  {wrapped(node.argv, width=_width()) if node.directory else shlex.join(node.argv)}")
    for name, source in node.secrets.items() if first is None else ():
        printing.say(f"  {name} is copied from {source} on the host; the plan does not contain it")
    shown = {(file.path, str(file.content)) for file in first.files} if first else set()
    for file in node.files:
        if file.path == ENV_FILE or (file.path, str(file.content)) in shown:
            continue
        printing.say(f"\n{file.path if node.directory is None else f'{node.directory}/{JOB_DIR}/{file.path}'}:")
        text = file.content if isinstance(file.content, str) else json.dumps(file.content, indent=2)
        printing.say("  " + text.rstrip("\n").replace("\n", "\n  "))


def _show_decided(plan: "Plan") -> None:
    """The values that are not in the file, but set by a script of the image or by the framework."""
    from steelyard.experiment.problems import spelt
    from steelyard.experiment.sources import Origin, Source

    by_source: dict[str, dict[str, list[str]]] = {}
    for dotted, value in plan.values.items():
        source, (group, _, key) = Source.of(value.source), dotted.partition(".")
        if source.origin in (Origin.SCRIPT, Origin.FRAMEWORK) and group != "kernels":
            by_source.setdefault(source.name, {}).setdefault(group, []).append(f"{key}={spelt(value.value)}")
    for name, groups in by_source.items():
        values = "; ".join(f"{group} {', '.join(settings)}" for group, settings in groups.items())
        printing.item(f"not in the file, set by {name}: ", values, 2)
    if by_source:
        printing.say("")


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
    job, expected, on_cpu = plan.job, plan.expected, plan.job.gpu == "cpu"
    unit, per_gib = ("GiB", 1) if expected.memory_gib_per_gpu >= 1 else ("MiB", 1024)
    parts = ", ".join(f"{name} {gib * per_gib:.1f}" for name, gib in expected.memory_gib_by_component.items())
    limit = "" if expected.usable_gib_per_gpu is None else f" of {expected.usable_gib_per_gpu} GiB"
    tokens = (
        f"{job.global_batch_size:,} sequences x {job.sequence_length:,} tokens = {expected.tokens_per_step:,} tokens"
    )
    floor, peak, at_peak = expected.loss_floor, expected.peak_tflops_per_gpu, "unknown"
    if (seconds := expected.seconds_at_peak) is not None:
        at_peak = f"{seconds:,.1f} s at that peak, {seconds / job.steps:,.3f} s per step"
    speed = [
        ("GPU peak", "unknown" if peak is None else f"{peak:,} TFLOP/s per GPU, dense {job.precision}"),
        ("shortest time", at_peak),
    ]
    return [
        ("steps", f"{job.steps:,}"),
        ("batch per step", tokens),
        ("layout", f"{job.layout}, micro-batch {job.micro_batch_size}"),
        ("parameters", f"{expected.parameters:,}"),
        ("FLOPs per token", f"{_flops(expected.flops_per_token)}, forward and backward, causal attention"),
        (
            f"memory per {'rank' if on_cpu else 'GPU'}",
            f"{expected.memory_gib_per_gpu * per_gib:.1f} {unit}{limit}: {parts}",
        ),
        ("first loss", f"{expected.first_loss:.4f} nats per token, for an untrained model"),
        ("loss floor", "unknown" if floor is None else f"{floor:.4f} nats per token, the entropy of the data"),
        *([] if on_cpu else speed),
        *(("threshold", bound) for bound in plan.thresholds),
    ]


def _flops(count: float) -> str:
    return f"{count / 1e9:.3g} GFLOP" if count >= 1e9 else f"{count / 1e6:.3g} MFLOP"


def _width() -> int:
    """Characters of a command per line: 110, or less on a narrow terminal."""
    return min(110, shutil.get_terminal_size().columns - 6) if sys.stdout.isatty() else 110
