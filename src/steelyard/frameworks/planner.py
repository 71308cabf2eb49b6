"""What the planner of a framework answers for, what planners share, and what a framework makes of a case."""

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from steelyard import accounting
from steelyard.experiment import Experiment
from steelyard.experiment.case import Case
from steelyard.experiment.problems import spelt
from steelyard.experiment.sources import DEFAULT, DERIVED, Origin, Source
from steelyard.frameworks.registry import facts, is_planned, planner


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing an experiment asks that the framework does not do."""

    key: str
    value: Any
    message: str
    expected: str | None
    """None where the message says it."""
    fix: str


def refuse(key: str, value: Any, reason: str, *able: Any, expected: str | None = None) -> Refusal:
    """A value that must be one of `able`; the reason continues the sentence that begins with key and value."""
    words = [spelt(choice) for choice in able]
    message = f"{key} is {spelt(value)}{reason}"
    return Refusal(key, value, message, expected or " or ".join(words), f"--set {key}={words[0]}")


def unable(experiment: Experiment, reason: str, able: Mapping[str, tuple[Any, ...]]) -> Iterator[Refusal]:
    """The values, by dotted key, that are none of those a framework is able to do."""
    for key, choices in able.items():
        value = value_of(experiment, key)
        if value not in choices:
            yield refuse(key, value, reason, *choices)


def value_of(experiment: Experiment, dotted: str) -> Any:
    """The experiment's value of a key."""
    group, _, key = dotted.partition(".")
    return getattr(getattr(experiment, group), key)


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a job as a framework sees it."""

    rank: int
    nodes: int
    head: str
    """Address of the first machine, where ranks meet."""
    port: int | None
    """None for the framework's own."""
    run_dir: str
    """Where the planned files lie when the command starts: `.`, or where the container sees them."""


@dataclass(frozen=True, slots=True)
class Command:
    """What one node executes."""

    argv: Sequence[str]
    env: Mapping[str, str]
    """Added to the node's own environment."""
    files: Mapping[str, Any]
    """Files to write first, by path below the run directory; content is text, or a value written as JSON."""
    workdir: str | None = None
    """Directory of the image the command starts in; None for the run directory."""


class Planner(Protocol):
    def state_bytes(self, case: Case) -> accounting.StateBytes:
        """What it keeps per parameter; an fp32 master weight among it, unless it says otherwise."""
        return accounting.state_bytes(case.resolved.experiment.precision, master_bytes=4)

    def decides(self, case: Case) -> Mapping[str, Any]:
        """What it does, by dotted key, whatever is asked, having no knob for it."""
        return {}

    def refusals(self, case: Case) -> Iterator[Refusal]:
        """What the experiment asks that this framework cannot do as asked."""
        ...

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        """What it is told through the environment of one node."""
        ...

    def command(self, case: Case, node: Node) -> Command:
        """The exact command of one node."""
        ...


def as_run(case: Case) -> Case:
    """The case with what its framework decides by itself, where the file says nothing of it."""
    name = case.resolved.platform.framework
    if not is_planned(name):
        return case
    source, sources = Source(Origin.FRAMEWORK, name), case.resolved.sources
    decided = planner(name).decides(case).items()
    return _with_values(case, {dotted: (value, source) for dotted, value in decided if sources.get(dotted) == DEFAULT})


def complete(case: Case) -> Case:
    """The case with what follows from batch and world, and what its framework does where the file says null."""
    experiment, layout, framework = case.resolved.experiment, layout_of(case), facts(case.resolved.platform.framework)
    values: dict[str, tuple[Any, Source]] = {
        "training.gradient_accumulation_steps": (layout.gradient_accumulation_steps, DERIVED),
        "parallelism.data_parallel_size": (layout.data_parallel_size, DERIVED),
    }
    values |= {
        key: (value, Source(Origin.FRAMEWORK, framework.name))
        for key, value in framework.silent_defaults.items()
        if key.startswith("kernels.")  # elsewhere null is a value of its own: no clipping, no fp8
    }
    return _with_values(case, {key: made for key, made in values.items() if value_of(experiment, key) is None})


def _with_values(case: Case, values: Mapping[str, tuple[Any, Source]]) -> Case:
    """The case with other values of its experiment by dotted key, each with what decided it."""
    experiment, sources = case.resolved.experiment, dict(case.resolved.sources)
    for dotted, (value, source) in values.items():
        group, key = dotted.split(".")
        changed = getattr(experiment, group).model_copy(update={key: value})
        experiment = experiment.model_copy(update={group: changed})
        sources[dotted] = source
    return replace(case, resolved=replace(case.resolved, experiment=experiment, sources=sources))


def refusals(case: Case) -> Iterator[Refusal]:
    """What the experiment asks that its framework does not do, has no knob for, or does otherwise."""
    name = case.resolved.platform.framework
    yield from planner(name).refusals(case)
    for dotted, value in planner(name).decides(case).items():
        asked = value_of(case.resolved.experiment, dotted)
        if asked != value:
            yield refuse(dotted, asked, f", and {name} has no knob for it", value)


def expected_vocabulary(case: Case) -> int:
    """The vocabulary as the experiment's framework pads it; as it stands for one that is not planned here."""
    experiment, name = case.resolved.experiment, case.resolved.platform.framework
    size, tensor = experiment.model.vocab_size, experiment.parallelism.tensor_parallel_size
    return facts(name).padded_vocabulary(size, tensor) if is_planned(name) else size


def expected_memory(case: Case) -> accounting.Memory:
    """Memory per GPU under the experiment's framework; an fp32 master weight where we do not know it."""
    experiment, name = case.resolved.experiment, case.resolved.platform.framework
    unknown = accounting.state_bytes(experiment.precision, master_bytes=4)
    state = planner(name).state_bytes(case) if is_planned(name) else unknown
    return accounting.memory_gib(experiment, layout_of(case), expected_vocabulary(case), state)


def layout_of(case: Case) -> accounting.Layout:
    """How the batch of a case is laid out over its ranks."""
    experiment = case.resolved.experiment
    return accounting.layout(experiment.training, experiment.parallelism, case.placement.world_size)


FREE_OPTIONS = {
    *("num_workers", "distributed_timeout_minutes", "eval_interval", "eval_iters", "stderr_sink_level"),
    *("disable_wandb", "disable_mlflow", "trainer.limit_val_batches", "trainer.limit_test_batches"),
}
"""What a plan states for itself and a site may change: none of it is the experiment's."""


def without_options(case: Case) -> Case:
    """The case as its plan is before the platform's options."""
    platform = case.resolved.platform.model_copy(update={"options": {}})
    return replace(case, resolved=replace(case.resolved, platform=platform))


def option_refusals(options: Mapping[str, Any], stated: Collection[str], title: str) -> Iterator[Refusal]:
    """Options under names that the plan states itself: the last of two would win, and the plan's figures would lie."""
    known = {_bare(name) for name in stated} - FREE_OPTIONS
    for name in options:
        if _bare(name) in known:
            message = f"platform.options has {name}, which the plan states from the experiment"
            expected = f"settings of {title} that the experiment has no word for"
            fix = f"take {name} out, and change the experiment: steelyard explain {_bare(name)}"
            yield Refusal("platform.options", name, message, expected, fix)


def _bare(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def as_yaml(values: Mapping[str, Any]) -> str:
    """The file as PyYAML reads it, to which 1e-08 is text and 1.0e-08 a number."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.representer import SafeRepresenter

    class Dotted(SafeRepresenter):
        def represent_float(self, data: Any) -> ScalarNode:
            node = super().represent_float(data)
            if "e" in node.value and "." not in node.value:
                node.value = node.value.replace("e", ".0e", 1)
            return node

    Dotted.add_representer(float, Dotted.represent_float)
    writer = YAML(typ="safe", pure=True)
    writer.Representer = Dotted
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = io.StringIO()
    writer.dump(dict(values), text)
    return text.getvalue()
