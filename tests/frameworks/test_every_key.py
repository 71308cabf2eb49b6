"""Every planner maps, fixes or refuses every key of an experiment, so that none is ignored in silence."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest

from steelyard.configs.choose import Asked, readings
from steelyard.configs.files import read_config
from steelyard.experiment import resolve
from steelyard.experiment.case import Case, place
from steelyard.experiment.keys import KEYS, defaults
from steelyard.experiment.model import RopeScaling
from steelyard.frameworks.planner import DEPENDENT, Node, as_run, refusals, value_of
from steelyard.frameworks.registry import facts, planned, planner
from steelyard.hardware.machine import Machine

NODE = Node(rank=0, nodes=1, head="localhost", port=None, run_dir="/run/steelyard")
FILE = """
schema_version: 1
name: x
model: {preset: llama3.1-8b}
training: {micro_batch_size: 1, global_batch_size: 16, sequence_length: 2048, steps: 30, learning_rate: 1e-4,
           recompute: %s}
platforms: {p: {gpu: %s, nodes: 1, gpus_per_node: 8, framework: %s}}
"""
BASES: tuple[dict[str, Any], ...] = (
    {"data.source": "tokens", "data.path": "/data/corpus"},
    {"data.source": "counting"},
    {"data.source": "uniform", "data.tokenizer": "a/b"},
    {"data.source": "tokens", "data.path": "/data/corpus", "data.tokenizer": "a/b"},
)
"""Some keys mean something beside another value only."""


@pytest.fixture
def case(tmp_path: Path, framework: str) -> Case:
    path = tmp_path / "x.yaml"
    gpu, recompute = "h200" if framework == "nemo" else "mi300x", "full" if framework == "maxtext" else "none"
    path.write_text(FILE % (recompute, gpu, framework))
    resolved = resolve(readings(read_config(path), Asked(platform="p"))[0], {})
    made = Case(resolved, place(resolved.platform, Machine((), cpu_count=2)))
    return with_value(made, "model.rope_scaling", None) if framework == "megatron-deepspeed" else made


def with_value(case: Case, dotted: str, value: Any) -> Case:
    group, _, key = dotted.partition(".")
    experiment = case.resolved.experiment
    changed = getattr(experiment, group).model_copy(update={key: value})
    return replace(case, resolved=replace(case.resolved, experiment=experiment.model_copy(update={group: changed})))


def others(kind: Any, value: Any) -> Iterator[Any]:
    """Other values of a key's type than the one it has."""
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        yield from (choice for choice in parts if choice != value)
    elif parts:
        for part in parts:
            yield from others(part, value)
    elif kind is bool:
        yield from (choice for choice in (True, False) if choice != value)
    elif kind in (int, float):
        yield kind(2 * (value or 1))
    elif kind is NoneType:
        yield from () if value is None else (None,)
    elif isinstance(value, RopeScaling):
        yield value.model_copy(update={"factor": 2 * value.factor})
    elif kind is str:
        yield "70,20,10" if value == "100,0,0" else "another"


def outcome(case: Case) -> Any:
    """What is refused, by key, or else the whole plan of a node."""
    refused = {refusal.key for refusal in refusals(case)}
    if refused:
        return refused
    command = planner(case.resolved.platform.framework).command(case, NODE)
    return (command.argv, command.env, command.files)


def answers(case: Case, dotted: str) -> bool:
    """Whether another value of the key changes the plan, or is refused."""
    for base in BASES:
        based = case
        for key, value in base.items():
            based = with_value(based, key, value)
        based = replace(based, resolved=as_run(based.resolved))
        before = outcome(based)
        for value in others(KEYS[dotted].type, value_of(based.resolved.experiment, dotted)):
            if outcome(with_value(based, dotted, value)) != before:
                return True
    return False


@pytest.mark.parametrize("framework", planned())
def test_every_key_is_mapped_fixed_or_refused(case: Case, framework: str) -> None:
    silent = [
        key
        for key in defaults()
        if key not in {*(facts(framework).unnamed or ()), *facts(framework).ignores, *DEPENDENT}
    ]
    assert [key for key in silent if not answers(case, key)] == []


@pytest.mark.parametrize("framework", planned())
def test_what_a_framework_has_no_name_for_is_an_experiment_s_key(framework: str) -> None:
    unnamed = facts(framework).unnamed
    assert unnamed is not None
    assert unnamed <= defaults().keys()
    assert not unnamed & (facts(framework).names or {}).keys()


@pytest.mark.parametrize("framework", planned())
def test_the_ports_of_a_plan_are_those_the_facts_name(case: Case, framework: str) -> None:
    variables = planner(framework).variables(case, NODE)
    assert {name for name in variables if name.endswith("_PORT")} <= {*facts(framework).port_variables}
