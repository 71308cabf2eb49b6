"""Every framework of the table is under the same contract."""

from pathlib import Path
from typing import get_args

import pytest

from steelyard import frameworks
from steelyard.errors import InputError
from steelyard.experiment.keys import KEYS
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.frameworks.facts import ShareOf
from steelyard.frameworks.registry import dialects, facts, flop_conventions, is_planned, memory_kind, planned, planner

SHARED = {"logs", "megatron_family"}
"""Folders of what several frameworks share."""


def test_the_table_and_the_folders_hold_the_same_frameworks() -> None:
    (here,) = frameworks.__path__
    folders = {path.parent.name for path in Path(here).glob("*/__init__.py")} - SHARED
    assert folders == {name.replace("-", "_") for name in FRAMEWORKS}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_answers_to_its_name_and_is_read(name: str) -> None:
    assert facts(name).name == name
    assert name in {one.framework for one in dialects()}


@pytest.mark.parametrize("name", [name for name in FRAMEWORKS if is_planned(name)])
def test_one_that_is_planned_names_the_experiment_s_keys(name: str) -> None:
    assert planner(name)
    assert facts(name).spelling("training.learning_rate") is not None


def test_one_that_can_only_be_read_is_not_planned() -> None:
    assert set(FRAMEWORKS) - set(planned()) == {"torchtitan", "megatron-bridge", "gpt-neox", "hf-trainer", "mlperf"}
    with pytest.raises(InputError) as refused:
        planner("torchtitan")
    assert (refused.value.key, refused.value.value) == ("framework", "torchtitan")
    assert refused.value.next == "set `framework: native` on the platform"


def test_of_one_that_is_not_known_nothing_is_claimed() -> None:
    unknown = facts("acme")
    assert unknown.pads_vocabulary is None
    assert unknown.silent_defaults == {}
    assert {std for name in FRAMEWORKS for std in facts(name).init_stds} == set(unknown.init_stds)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_default_is_a_value_of_its_key_or_typed(name: str) -> None:
    """Text may only be the default of a key that takes text."""
    for dotted, default in facts(name).silent_defaults.items():
        if isinstance(default, str):
            parts = get_args(KEYS[dotted].type)
            choices = {*parts, *(choice for part in parts for choice in get_args(part))}
            assert "str" in str(KEYS[dotted].type) or default in choices, dotted
        if isinstance(default, ShareOf):
            assert KEYS[default.key].type in (int, float), dotted


def test_a_vocabulary_is_padded_by_the_tensor_parallel_size_or_not_at_all() -> None:
    assert [facts("megatron").padded_vocabulary(50257, size) for size in (1, 4)] == [50304, 50688]
    assert facts("maxtext").padded_vocabulary(50257, 4) == 50257


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_memory_of_a_log_is_of_a_declared_kind(name: str) -> None:
    kind = facts(name).memory_kind
    assert not kind or kind in {each.name for each in facts(name).memory_kinds}


def test_a_kind_of_memory_is_what_its_framework_says() -> None:
    kinds = ("device_used", "torch_allocated_peak", "nobody_s", "torch_reserved_peak")
    assert min(kinds, key=lambda kind: memory_kind(kind).rank) == "torch_reserved_peak"
    assert [memory_kind(kind).is_peak for kind in ("xla_in_use", "nobody_s", None)] == [False, True, True]
    assert memory_kind("process_rss_peak").of_host


def test_a_framework_s_own_formula_is_among_those_of_one_that_is_not_known() -> None:
    every = flop_conventions("unknown")
    assert {"causal", "noncausal", "six_n", "nemo_causal", "torchtitan"} < {each.name for each in every}
    assert len({each.name for each in every}) == len(every)
    assert set(flop_conventions("megatron-deepspeed")) < set(every)
