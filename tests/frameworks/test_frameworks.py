"""Every framework of the table is under the same contract."""

from pathlib import Path

import pytest

from steelyard import frameworks
from steelyard.errors import InputError
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.frameworks.registry import dialects, facts, is_planned, planned, planner

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
    assert set(FRAMEWORKS) - set(planned()) == {"torchtitan", "megatron-bridge"}
    with pytest.raises(InputError) as refused:
        planner("torchtitan")
    assert (refused.value.key, refused.value.value) == ("framework", "torchtitan")
    assert refused.value.next == "give the platform `framework: native`"


def test_of_one_that_is_not_known_nothing_is_claimed() -> None:
    unknown = facts("acme")
    assert unknown.pads_vocabulary is None
    assert unknown.silent_defaults == {}
    assert {std for name in FRAMEWORKS for std in facts(name).init_stds} == set(unknown.init_stds)


def test_a_vocabulary_is_padded_by_the_tensor_parallel_size_or_not_at_all() -> None:
    assert [facts("megatron").padded_vocabulary(50257, size) for size in (1, 4)] == [50304, 50688]
    assert facts("maxtext").padded_vocabulary(50257, 4) == 50257
