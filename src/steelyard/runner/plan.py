"""The plan: exactly what will be executed, per node, and what is expected of it."""

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from steelyard import accounting
from steelyard.experiment.problems import raise_errors
from steelyard.experiment.resolve import DERIVED, Resolved
from steelyard.frameworks import Framework, framework
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


def make_plan(resolved: Resolved, machine: Machine) -> tuple[Plan, Case]:
    """Plan an experiment; lint errors and what the framework refuses stop it here."""
    launched = framework(resolved.platform.framework)
    case = Case(resolved, place(resolved.platform, machine))
    raise_errors([*lint_case(case), *launched.refusals(case)])
    case = _with_derived(case)
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
        expected=_expected(case, launched),
    )
    return plan, case


def platform_label(case: Case) -> str:
    """The file's name for the platform, or the hardware's own."""
    return case.resolved.platform_name or case.placement.label


def _with_derived(case: Case) -> Case:
    """Fill in what follows from batch and world, so that the record shows it."""
    experiment, resolved = case.resolved.experiment, case.resolved
    layout = _layout(case)
    training = experiment.training.model_copy(
        update={"gradient_accumulation_steps": layout.gradient_accumulation_steps}
    )
    parallelism = experiment.parallelism.model_copy(update={"data_parallel_size": layout.data_parallel_size})
    sources = dict(resolved.sources)
    for key, given in (
        ("training.gradient_accumulation_steps", experiment.training.gradient_accumulation_steps),
        ("parallelism.data_parallel_size", experiment.parallelism.data_parallel_size),
    ):
        if given is None:
            sources[key] = DERIVED
    filled = experiment.model_copy(update={"training": training, "parallelism": parallelism})
    return Case(replace(resolved, experiment=filled, sources=sources), case.placement)


def _layout(case: Case) -> accounting.Layout:
    experiment = case.resolved.experiment
    return accounting.layout(experiment.training, experiment.parallelism, case.placement.world_size)


def _expected(case: Case, launched: Framework) -> Expected:
    experiment, placement = case.resolved.experiment, case.placement
    model, training = experiment.model, experiment.training
    layout = _layout(case)
    vocabulary = accounting.padded_vocab_size(model.vocab_size, launched.vocabulary_multiple(experiment.parallelism))
    flops = accounting.flops_per_token(model, training.sequence_length, vocabulary)
    memory = accounting.memory_gib(experiment, layout, vocabulary, launched.master_bytes)
    peak = placement.peak_tflops(experiment.precision)
    return Expected(
        parameters=accounting.parameters(model, vocabulary).total,
        flops_per_token=flops,
        tokens_per_step=layout.tokens_per_step,
        memory_gib_per_gpu=memory.total,
        memory_gib_by_component=memory.components(),
        first_loss=accounting.first_loss(model, training.init_method_std, vocabulary),
        loss_floor=accounting.loss_floor(experiment.data, model.vocab_size),
        peak_tflops_per_gpu=peak,
        seconds_at_peak=_seconds_at_peak(flops, layout, training.steps, placement, peak),
    )


def _seconds_at_peak(
    flops: float, layout: accounting.Layout, steps: int, placement: Placement, peak: float | None
) -> float | None:
    if peak is None:
        return None
    return flops * layout.tokens_per_step * steps / (peak * 1e12 * placement.world_size)
