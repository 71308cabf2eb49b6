"""The interface of planners, their shared helpers, and how a framework completes a case."""

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from steelyard import accounting
from steelyard.experiment import Experiment
from steelyard.experiment.case import Case
from steelyard.experiment.keys import defaults
from steelyard.experiment.problems import spelt
from steelyard.experiment.resolve import Resolved
from steelyard.experiment.sources import DEFAULT, DERIVED, Origin, Source
from steelyard.frameworks.registry import facts, is_planned, planner


@dataclass(frozen=True, slots=True)
class Refusal:
    """A value of the experiment that the framework does not support."""

    key: str
    value: Any
    message: str
    expected: str | None
    """None if the message contains it."""
    fix: str


def refuse(key: str, value: Any, reason: str, *able: Any, expected: str | None = None) -> Refusal:
    """A refusal of a value that must be one of `able`; the message is key, value, then `reason`."""
    words = [spelt(choice) for choice in able]
    message = f"{key} is {spelt(value)}{reason}"
    return Refusal(key, value, message, expected or " or ".join(words), f"--set {key}={words[0]}")


def unable(experiment: Experiment, reason: str, able: Mapping[str, tuple[Any, ...]]) -> Iterator[Refusal]:
    """Refusals of values that are not among the supported ones, by dotted key."""
    for key, choices in able.items():
        value = value_of(experiment, key)
        if value not in choices:
            yield refuse(key, value, reason, *choices)


def value_of(experiment: Experiment, dotted: str) -> Any:
    """The experiment's value of a dotted key."""
    group, _, key = dotted.partition(".")
    return getattr(getattr(experiment, group), key)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a job."""

    rank: int
    nodes: int
    head: str
    """Address of node 0, where ranks meet."""
    port: int | None
    """None for the framework's default."""
    run_dir: str
    """Directory of the planned files when the command starts: `.`, or their mount in the container."""


@dataclass(frozen=True, slots=True)
class Command:
    """The command of one node."""

    argv: Sequence[str]
    env: Mapping[str, str]
    """Added to the node's environment."""
    files: Mapping[str, Any]
    """Files to write first, by path below the run directory: text, or a value written as JSON."""
    workdir: str | None = None
    """Working directory in the image; None for the run directory."""


class Planner(Protocol):
    def state_bytes(self, case: Case) -> accounting.StateBytes:
        """Bytes of state per parameter, by default with an fp32 master weight."""
        return accounting.state_bytes(case.resolved.experiment.precision, master_bytes=4)

    def decides(self, resolved: Resolved) -> Mapping[str, Any]:
        """Fixed values by dotted key, which the framework has no setting for."""
        return {}

    def refusals(self, case: Case) -> Iterator[Refusal]:
        """Values of the experiment that this framework does not support."""
        ...

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        """Environment variables of one node."""
        ...

    def command(self, case: Case, node: Node) -> Command:
        """The exact command of one node."""
        ...


def as_run(resolved: Resolved) -> Resolved:
    """The experiment with its framework's fixed values, for keys that the file does not set."""
    name = resolved.platform.framework
    if not is_planned(name):
        return resolved
    source, sources = Source(Origin.FRAMEWORK, name), resolved.sources
    decided = planner(name).decides(resolved).items()
    return _with_values(
        resolved, {dotted: (value, source) for dotted, value in decided if sources.get(dotted) == DEFAULT}
    )


def complete(case: Case) -> Case:
    """The case with values that follow from batch and world size, and with the framework's kernels for null."""
    experiment, layout, framework = case.resolved.experiment, layout_of(case), facts(case.resolved.platform.framework)
    values: dict[str, tuple[Any, Source]] = {
        "training.gradient_accumulation_steps": (layout.gradient_accumulation_steps, DERIVED),
        "parallelism.data_parallel_size": (layout.data_parallel_size, DERIVED),
    }
    values |= {
        f"kernels.{key}": (value, Source(Origin.FRAMEWORK, framework.name))
        for key, value in framework.chosen_kernels(experiment.kernels).items()
    }  # elsewhere null is a value: no clipping, no fp8
    open_values = {
        key: chosen for key, chosen in values.items() if value_of(experiment, key) is None and chosen[0] is not None
    }
    return replace(case, resolved=_with_values(case.resolved, open_values))


def _with_values(resolved: Resolved, values: Mapping[str, tuple[Any, Source]]) -> Resolved:
    """The experiment with these values and sources, by dotted key."""
    experiment, sources = resolved.experiment, dict(resolved.sources)
    for dotted, (value, source) in values.items():
        group, key = dotted.split(".")
        changed = getattr(experiment, group).model_copy(update={key: value})
        experiment = experiment.model_copy(update={group: changed})
        sources[dotted] = source
    return replace(resolved, experiment=experiment, sources=sources)


DEPENDENT = (
    *("training.gradient_accumulation_steps", "parallelism.data_parallel_size", "precision.loss_scale"),
    *("data.fingerprint", "data.tokenizer_fingerprint"),
)
"""Keys that follow from batch, world size and dtype in every framework, or from the content of files."""


def refusals(case: Case) -> Iterator[Refusal]:
    """Values of the experiment that its framework does not support or has no setting for."""
    name = case.resolved.platform.framework
    own, decided = list(planner(name).refusals(case)), planner(name).decides(case.resolved)
    yield from own
    for dotted, value in decided.items():
        requested = value_of(case.resolved.experiment, dotted)
        if requested != value:
            yield refuse(dotted, requested, f", but {name} has no setting for it", value)
    if (unnamed := facts(name).unnamed) is None:
        return
    settled = {*(refusal.key for refusal in own), *decided, *facts(name).always, *unnamed, *DEPENDENT}
    for dotted, default in defaults().items():
        requested = value_of(case.resolved.experiment, dotted)
        if requested != default and dotted not in settled and facts(name).spelling(dotted) is None:
            yield refuse(dotted, requested, f", but {name} has no setting for it", default)


def expected_vocabulary(case: Case) -> int:
    """The vocabulary as the framework pads it; unpadded for a framework without a planner."""
    experiment, name = case.resolved.experiment, case.resolved.platform.framework
    size, tensor = experiment.model.vocab_size, experiment.parallelism.tensor_parallel_size
    return facts(name).padded_vocabulary(size, tensor) if is_planned(name) else size


def expected_memory(case: Case) -> accounting.Memory:
    """Memory per GPU with the experiment's framework; an unknown framework has an fp32 master weight."""
    experiment, name = case.resolved.experiment, case.resolved.platform.framework
    unknown = accounting.state_bytes(experiment.precision, master_bytes=4)
    state = planner(name).state_bytes(case) if is_planned(name) else unknown
    return accounting.memory_gib(experiment, layout_of(case), expected_vocabulary(case), state)


def layout_of(case: Case) -> accounting.Layout:
    """The layout of a case."""
    experiment = case.resolved.experiment
    return accounting.layout(experiment.training, experiment.parallelism, case.placement.world_size)


FREE_OPTIONS = {
    *("num_workers", "distributed_timeout_minutes", "eval_interval", "eval_iters", "stderr_sink_level"),
    *("disable_wandb", "disable_mlflow", "trainer.limit_val_batches", "trainer.limit_test_batches"),
}
"""Options that a plan sets and a site may change: they are not part of the experiment."""


def without_options(case: Case) -> Case:
    """The case without the platform's options."""
    platform = case.resolved.platform.model_copy(update={"options": {}})
    return replace(case, resolved=replace(case.resolved, platform=platform))


def option_refusals(options: Mapping[str, Any], stated: Collection[str], title: str) -> Iterator[Refusal]:
    """Refusals of options that the plan sets itself: they would override it, and expected figures would be wrong."""
    known = {_bare(name) for name in stated} - FREE_OPTIONS
    for name in options:
        if _bare(name) in known:
            message = f"platform.options has {name}, which the plan sets from the experiment"
            expected = f"settings of {title} without an experiment key"
            fix = f"remove {name} and change the experiment: steelyard explain {_bare(name)}"
            yield Refusal("platform.options", name, message, expected, fix)


def _bare(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def as_yaml(values: Mapping[str, Any]) -> str:
    """YAML for PyYAML, which reads 1e-08 as text and 1.0e-08 as a number."""
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
