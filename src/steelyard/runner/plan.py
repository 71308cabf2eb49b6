"""The plan: exactly what will be executed, per node, and what is expected of it."""

from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from steelyard import accounting
from steelyard.experiment import Problem
from steelyard.experiment.problems import raise_errors
from steelyard.experiment.resolve import DERIVED, Resolved
from steelyard.frameworks import Framework, expected_memory, expected_vocabulary, framework
from steelyard.hardware.machine import Machine
from steelyard.hardware.placement import Placement, place
from steelyard.lint import Case, lint_case

SCHEMA_VERSION = 1
LOCALHOST = "localhost"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class PlannedFile(_Document):
    """A file written before the command starts."""

    path: str
    """Below the run directory."""
    content: Any
    """Text, or a value written as JSON."""


class NodePlan(_Document):
    """What one node executes, in the run directory."""

    host: str
    rank: int
    argv: list[str]
    env: dict[str, str]
    """Added to the node's own environment."""
    files: list[PlannedFile]
    container: None = None


class Expected(_Document):
    """What the arithmetic says of the run before it starts; null where it cannot say."""

    parameters: int
    flops_per_token: float
    """FLOP of forward and backward, by the causal formula."""
    tokens_per_step: int
    memory_gib_per_gpu: float
    memory_gib_by_component: dict[str, float]
    usable_gib_per_gpu: float | None
    """What the card holds."""
    first_loss: float
    loss_floor: float | None
    """Entropy rate of the data in nats a token; null for a corpus."""
    peak_tflops_per_gpu: float | None
    seconds_at_peak: float | None
    """Time of all steps at the dense peak: no run is faster."""


class Plan(_Document):
    """plan.json, and what `steelyard plan --json` prints."""

    schema_version: int = SCHEMA_VERSION
    experiment: str
    platform: str
    framework: str
    nodes: list[NodePlan]
    expected: Expected


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the case it was made from, and what lint would still have said of it."""

    plan: Plan
    case: Case
    warnings: tuple[Problem, ...]


def make_plan(resolved: Resolved, machine: Machine) -> Planned:
    """Plan an experiment; lint errors, and what the framework refuses, stop it here."""
    launched = framework(resolved.platform.framework)
    case = Case(resolved, place(resolved.platform, machine))
    problems = tuple(lint_case(case))
    raise_errors(problems)
    case = _filled_in(case, launched)
    nodes = []
    for rank in range(case.placement.nodes):
        command = launched.command(case, rank)
        files = [PlannedFile(path=path, content=content) for path, content in command.files.items()]
        nodes.append(NodePlan(host=LOCALHOST, rank=rank, argv=list(command.argv), env=dict(command.env), files=files))
    plan = Plan(
        experiment=resolved.experiment.name,
        platform=platform_label(case),
        framework=launched.name,
        nodes=nodes,
        expected=_expected(case),
    )
    return Planned(plan, case, problems)


def platform_label(case: Case) -> str:
    """The file's name for the platform, or the hardware's own."""
    return case.resolved.platform_name or case.placement.label


def _filled_in(case: Case, launched: Framework) -> Case:
    """Say what follows from batch and world, and what the framework does where the file says null."""
    resolved, layout = case.resolved, _layout(case)
    values: dict[str, tuple[Any, str]] = {
        "training.gradient_accumulation_steps": (layout.gradient_accumulation_steps, DERIVED),
        "parallelism.data_parallel_size": (layout.data_parallel_size, DERIVED),
    }
    values |= {key: (value, f"default of {launched.name}") for key, value in launched.silent_defaults.items()}
    experiment, sources = resolved.experiment, dict(resolved.sources)
    for dotted, (value, source) in values.items():
        name, key = dotted.split(".")
        group = getattr(experiment, name)
        if getattr(group, key) is None:
            experiment = experiment.model_copy(update={name: group.model_copy(update={key: value})})
            sources[dotted] = source
    return Case(replace(resolved, experiment=experiment, sources=sources), case.placement)


def _layout(case: Case) -> accounting.Layout:
    experiment = case.resolved.experiment
    return accounting.layout(experiment.training, experiment.parallelism, case.placement.world_size)


def _expected(case: Case) -> Expected:
    experiment, placement = case.resolved.experiment, case.placement
    model, training = experiment.model, experiment.training
    layout, vocabulary, memory = _layout(case), expected_vocabulary(case), expected_memory(case)
    flops = accounting.flops_per_token(model, training.sequence_length, vocabulary)
    peak = placement.peak_tflops(experiment.precision)
    return Expected(
        parameters=accounting.parameters(model, vocabulary).total,
        flops_per_token=flops,
        tokens_per_step=layout.tokens_per_step,
        memory_gib_per_gpu=memory.total,
        memory_gib_by_component=memory.components(),
        usable_gib_per_gpu=placement.gpu.usable_gib if placement.gpu else None,
        first_loss=accounting.first_loss(model, training.init_method_std, vocabulary),
        loss_floor=accounting.loss_floor(
            experiment.data, model.vocab_size, training.steps * training.global_batch_size
        ),
        peak_tflops_per_gpu=peak,
        seconds_at_peak=_seconds_at_peak(flops, layout, training.steps, placement, peak),
    )


def _seconds_at_peak(
    flops: float, layout: accounting.Layout, steps: int, placement: Placement, peak: float | None
) -> float | None:
    if peak is None:
        return None
    return flops * layout.tokens_per_step * steps / (peak * 1e12 * placement.world_size)
