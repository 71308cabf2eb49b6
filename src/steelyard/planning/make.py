"""Creates the plan of an experiment on a platform."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from steelyard import accounting
from steelyard.configs.choose import Asked
from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.experiment.control import control_parent, own_parents
from steelyard.experiment.problems import raise_errors
from steelyard.experiment.resolve import Resolved, leaves
from steelyard.frameworks.planner import (
    Command,
    Node,
    as_run,
    complete,
    expected_memory,
    expected_vocabulary,
    layout_of,
)
from steelyard.frameworks.registry import facts, planner
from steelyard.hardware.machine import Machine
from steelyard.hardware.nics import COMMON, NICS
from steelyard.linting import case_of, lint_case, lint_reading
from steelyard.linting.allowing import marked
from steelyard.linting.mounts import needed_volumes, normal
from steelyard.planning.container import ENV_FILE, JOB_DIR, RUN_DIR, TOKEN, run_argv, secret_variables
from steelyard.planning.plan import ContainerPlan, Expected, Job, NodePlan, Plan, PlannedFile, Value
from steelyard.records import AllowedProblem

LOCALHOST = "localhost"
START = "start.sh"
_START = """#!/bin/sh
# The image's own library of the network cards is older than the host's driver.
set -e
cp {copy}
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, its case, and the remaining lint problems."""

    plan: Plan
    case: Case
    warnings: tuple[Problem, ...]


def make_plan(resolved: Resolved, machine: Machine, asked: Asked | None = None) -> Planned:
    """Plan an experiment; lint errors stop it."""
    name, asked = resolved.platform.framework, asked or Asked()
    command_of = planner(name).command
    case = case_of(as_run(resolved), machine, asked)
    every = (*resolved.reading.problems, *lint_reading(resolved.reading), *lint_case(case))
    problems = tuple(marked(every, asked.allow, (*resolved.platform.allow, *asked.cell.allows)))
    raise_errors(problems)
    case = complete(case)
    plan = Plan(
        experiment=resolved.experiment.name,
        platform=platform_label(case),
        framework=name,
        fleet=_copies(case) > 1,
        job=_job(case),
        nodes=list(_nodes(case, command_of, case.login or asked.names()["user"])),
        expected=_expected(case),
        values=_values(case),
        thresholds=list(resolved.experiment.thresholds),
        allowed=[
            AllowedProblem(code=problem.code, pointer=problem.pointer, message=problem.message, by=problem.allowed_by)
            for problem in problems
            if problem.allowed_by
        ],
    )
    return Planned(plan, case, tuple(problem for problem in problems if not problem.allowed))


def _job(case: Case) -> Job:
    experiment, placement, layout = case.resolved.experiment, case.placement, layout_of(case)
    training, sizes = experiment.training, experiment.parallelism
    named = {
        "TP": sizes.tensor_parallel_size,
        "PP": sizes.pipeline_parallel_size,
        "CP": sizes.context_parallel_size,
        "DP": layout.data_parallel_size,
        "FSDP": sizes.fsdp_size,
    }
    return Job(
        gpu=placement.label,
        nodes=placement.nodes,
        gpus_per_node=placement.gpus_per_node,
        steps=training.steps,
        global_batch_size=training.global_batch_size,
        micro_batch_size=training.micro_batch_size,
        sequence_length=training.sequence_length,
        data_parallel_size=layout.data_parallel_size,
        layout=", ".join(f"{name} {size}" for name, size in named.items() if size > 1) or "one replica",
        precision="fp8" if experiment.precision.fp8 else experiment.precision.dtype,
    )


def _values(case: Case) -> dict[str, Value]:
    stated = dict(leaves(case.resolved.experiment.model_dump(mode="json")))
    return {
        dotted: Value(value=stated[dotted], source=str(source))
        for dotted, source in case.resolved.sources.items()
        if dotted in stated and "." in dotted
    }


def _copies(case: Case) -> int:
    return case.reading.copies or 1


def _nodes(case: Case, command_of: Callable[[Case, Node], Command], user: str) -> Iterator[NodePlan]:
    copies, network = _copies(case), case.resolved.platform.network
    count = copies if copies > 1 else case.placement.nodes
    hosts = case.hosts[:count] or ((LOCALHOST,) if count == 1 else tuple(f"node{rank}" for rank in range(count)))
    head = LOCALHOST if case.placement.nodes == 1 else network.head or hosts[0]
    parent = control_parent(case.resolved.platform.log_dir, _volumes(case), user) or own_parents(user)[0]
    for at, host in enumerate(hosts):
        directory: str | None = f"{parent.rstrip('/')}/{case.resolved.experiment.name}-node{at}"
        run_dir = f"{directory}/{JOB_DIR}"
        if case.resolved.platform.container is not None:
            run_dir = RUN_DIR
        elif facts(case.resolved.platform.framework).runs_here:  # it runs in the run directory
            run_dir, directory = ".", None
        node = Node(0 if copies > 1 else at, case.placement.nodes, head, network.port, run_dir)
        yield _node_plan(case, command_of(case, node), node, host, directory)


def _node_plan(case: Case, command: Command, node: Node, host: str, directory: str | None) -> NodePlan:
    platform, network = case.resolved.platform, case.resolved.platform.network
    env, sources = environment(case, command, node.run_dir)
    argv, files, workdir, container = list(command.argv), dict(command.files), command.workdir, None
    if platform.container is not None and directory is not None:
        nic = NICS[network.nic] if case.placement.nodes > 1 and network.nic else None
        if nic is not None and (copied := nic.copied(platform.container.volumes)):
            argv = ["sh", f"{RUN_DIR}/{START}", *argv]
            files[START] = _START.format(copy=shlex.join(copied))
        # The format of `--env-file`: one line per variable, without quotes.
        files[ENV_FILE] = "".join(f"{name}={value}\n" for name, value in env.items())
        workdir = workdir or RUN_DIR
        name = platform.container.name or directory.rpartition("/")[2]
        whole = run_argv(
            platform.container.model_copy(update={"volumes": _volumes(case)}),
            argv,
            name=name,
            experiment=case.resolved.experiment.name,
            control_dir=directory,
            vendor=case.placement.gpu.vendor if case.placement.gpu else None,
            nic=nic,
            workdir=workdir,
        )
        engine, image = platform.container.engine, platform.container.image
        container = ContainerPlan(engine=engine, image=image, name=name, argv=whole)
    return NodePlan(
        host=host,
        rank=node.rank,
        argv=argv,
        env=env,
        files=[PlannedFile(path=path, content=content) for path, content in files.items()],
        env_sources=sources,
        directory=directory,
        workdir=workdir,
        secrets=_secrets(case),
        container=container,
    )


def _volumes(case: Case) -> dict[str, str]:
    container = case.resolved.platform.container
    volumes = {**needed_volumes(case), **container.volumes} if container else {}
    return {normal(host): inside for host, inside in volumes.items()}  # in the form that lint and the host check


def _secrets(case: Case) -> dict[str, str]:
    platform = case.resolved.platform
    token = {TOKEN: platform.hf_token_file} if platform.hf_token_file else {}
    return {**token, **platform.secrets}


def environment(case: Case, command: Command, directory: str) -> tuple[dict[str, str], dict[str, str]]:
    """The variables of a node, with their sources. A later layer overrides an earlier one.

    The order is: cluster file, NIC family, framework, config.
    """
    platform, across = case.resolved.platform, case.placement.nodes > 1
    network = platform.network
    env: dict[str, str] = {}
    sources: dict[str, str] = {}
    layers: list[tuple[str, Mapping[str, str]]] = [("the cluster file", dict(case.env))]
    if across and network.nic is not None:
        layers += [("every NIC family", COMMON), (f"NIC family {network.nic}", NICS[network.nic].env)]
    layers.append((f"framework {platform.framework}", command.env))
    if across:
        chosen = {
            "NCCL_IB_HCA": ",".join(network.hcas) or None,
            "NCCL_SOCKET_IFNAME": network.socket_interface,
            "GLOO_SOCKET_IFNAME": network.gloo_interface or network.socket_interface,
            "NCCL_IB_GID_INDEX": str(network.gid_index) if network.gid_index is not None else None,
        }
        layers.append(("config", {name: value for name, value in chosen.items() if value is not None}))
    if platform.container is not None:
        layers.append(("config", platform.container.env))
    layers.append(("config", platform.env))
    layers.append(("the secret's file", secret_variables(_secrets(case), directory)))
    for source, layer in layers:
        env |= layer
        sources |= dict.fromkeys(layer, source)
    return env, sources


def platform_label(case: Case) -> str:
    """The name of the platform in an experiment file, else of its hardware."""
    named = case.resolved.platform_name if case.reading.family == "steelyard" else None
    return named or case.placement.label


def _expected(case: Case) -> Expected:
    experiment, placement = case.resolved.experiment, case.placement
    model, training = experiment.model, experiment.training
    layout, vocabulary, memory = layout_of(case), expected_vocabulary(case), expected_memory(case)
    flops = accounting.flops_per_token(model, training.sequence_length, vocabulary)
    sequences = training.steps * training.global_batch_size
    work, peak = flops * layout.tokens_per_step * training.steps, placement.peak_tflops(experiment.precision)
    return Expected(
        parameters=accounting.parameters(model, vocabulary).total,
        flops_per_token=flops,
        tokens_per_step=layout.tokens_per_step,
        memory_gib_per_gpu=memory.total,
        memory_gib_by_component=memory.components(),
        usable_gib_per_gpu=placement.gpu.usable_gib if placement.gpu else None,
        first_loss=accounting.first_loss(model, training.init_method_std, vocabulary),
        loss_floor=accounting.loss_floor(experiment.data, model.vocab_size, sequences),
        peak_tflops_per_gpu=peak,
        seconds_at_peak=work / (peak * 1e12 * placement.world_size) if peak is not None else None,
    )
