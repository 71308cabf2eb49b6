"""What the framework of a case makes of it: what it decides, refuses, pads and keeps in memory."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from steelyard import accounting
from steelyard.experiment.case import Case
from steelyard.experiment.sources import DEFAULT, Origin, Source
from steelyard.frameworks.planner import Refusal, refuse, value_of
from steelyard.frameworks.registry import facts, is_planned, planner


def as_run(case: Case) -> Case:
    """The case with what its framework decides by itself, where the file says nothing of it."""
    name = case.resolved.platform.framework
    if not is_planned(name):
        return case
    source, sources = Source(Origin.FRAMEWORK, name), case.resolved.sources
    decided = planner(name).decides(case).items()
    return with_values(case, {dotted: (value, source) for dotted, value in decided if sources.get(dotted) == DEFAULT})


def with_values(case: Case, values: Mapping[str, tuple[Any, Source]]) -> Case:
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
    layout = accounting.layout(experiment.training, experiment.parallelism, case.placement.world_size)
    common = accounting.state_bytes(experiment.precision, master_bytes=4)
    state = planner(name).state_bytes(case) if is_planned(name) else common
    return accounting.memory_gib(experiment, layout, expected_vocabulary(case), state)
