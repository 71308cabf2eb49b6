"""What the planner of a framework answers for: how it is launched, and what it cannot do; and what planners share."""

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from steelyard import accounting
from steelyard.experiment import Experiment
from steelyard.experiment.case import Case
from steelyard.experiment.problems import spelt


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
