"""The cells of a suite: combinations of the values of its axes, and what may be written there."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.experiment import InvalidExperimentError, Problem
from steelyard.experiment.cells import MOST_CELLS, Cell, expand, section_of
from steelyard.experiment.parsing import parse_yaml
from steelyard.records.suite import cell_directories

FILE = Path("a.yaml")
BATCH, STEPS, SEED = "training.micro_batch_size", "training.steps", "training.seed"


def cells(text: str) -> list[Cell]:
    return expand(FILE, section_of(FILE, parse_yaml(text)[0]))


def problems(text: str) -> list[Problem]:
    with pytest.raises(InvalidExperimentError) as refused:
        cells(text)
    assert str(refused.value).count("\n") == 0
    return list(refused.value.problems)


def values(every: list[Cell]) -> list[list[Any]]:
    return [[value for _, value in cell.values] for cell in every]


def test_the_first_axis_varies_slowest() -> None:
    every = cells(f"axes: {{{BATCH}: [1, 2], {STEPS}: [10, 20]}}")
    assert values(every) == [[1, 10], [1, 20], [2, 10], [2, 20]]
    assert [cell.name for cell in every] == ["mbs1-steps10", "mbs1-steps20", "mbs2-steps10", "mbs2-steps20"]
    assert dict(every[3].settings) == {BATCH: 2, STEPS: 20}


def test_a_label_stands_for_several_settings_and_an_option_selects() -> None:
    every = cells("axes: {gpus: [1, 2], length: {short: {training.sequence_length: 64, training.steps: 9}, usual: {}}}")
    assert values(every) == [[1, "short"], [1, "usual"], [2, "short"], [2, "usual"]]
    assert [dict(cell.settings) for cell in every[:2]] == [{"training.sequence_length": 64, STEPS: 9}, {}]
    assert [dict(cell.selectors) for cell in every] == [{"gpus": 1}] * 2 + [{"gpus": 2}] * 2
    assert dict(every[0].places) == {
        "platform.gpus_per_node": ("suite", "axes", "gpus"),
        "training.sequence_length": ("suite", "axes", "length", "short", "training.sequence_length"),
        STEPS: ("suite", "axes", "length", "short", STEPS),
    }


def test_exclude_leaves_out_and_include_changes_or_adds() -> None:
    every = cells(f"""
axes: {{{BATCH}: [1, 2], {STEPS}: [10, 20]}}
exclude: [{{{BATCH}: 2, {STEPS}: 20}}]
include:
  - {{{BATCH}: 2, {SEED}: 7}}
  - {{{BATCH}: 4, {STEPS}: 5, expect: oom}}
  - {{{STEPS}: 10, {SEED}: 8}}
""")
    assert values(every) == [[1, 10], [1, 20], [2, 10], [4, 5]]
    assert [dict(cell.settings).get(SEED) for cell in every] == [8, None, 8, None]
    assert [cell.expect for cell in every] == [None, None, None, "oom"]
    assert [cell.allows for cell in every] == [(), (), (), ("SY402",)]
    assert dict(every[0].places)[SEED] == ("suite", "include", "2", SEED)


def test_an_added_cell_may_leave_axes_to_the_file() -> None:
    assert cells(f"axes: {{{BATCH}: [1], {STEPS}: [2]}}\ninclude: [{{{STEPS}: 9}}]")[1].by_axis == {STEPS: 9}


def test_anchors_and_merge_keys_are_values_as_any() -> None:
    every = cells(f"""
axes:
  {STEPS}: &few [2, 3]
  {SEED}: *few
  length:
    short: &short {{training.sequence_length: 64}}
    shorter: {{<<: *short, training.warmup_steps: 1}}
""")
    assert len(every) == 8
    assert dict(every[1].settings)["training.sequence_length"] == 64


@pytest.mark.parametrize(
    ("text", "pointer", "code"),
    [
        ("", "/suite", "SY103"),
        ("[1, 2]", "/suite", "SY103"),
        ("repeats: 2", "/suite/axes", "SY104"),
        ("axes: {}", "/suite/axes", "SY103"),
        ("axes: []", "/suite/axes", "SY103"),
        (f"axes: {{{STEPS}: []}}", f"/suite/axes/{STEPS}", "SY103"),
        (f"axes: {{{STEPS}: 4}}", f"/suite/axes/{STEPS}", "SY103"),
        (f"axes: {{{STEPS}: [[1]]}}", f"/suite/axes/{STEPS}/0", "SY103"),
        (f"axes: {{{STEPS}: [1, {{a: 1}}]}}", f"/suite/axes/{STEPS}/1", "SY103"),
        (f"axes: {{{STEPS}: [2020-01-01]}}", f"/suite/axes/{STEPS}/0", "SY103"),
        ("axes: {training.learning_rate: [.inf]}", "/suite/axes/training.learning_rate/0", "SY103"),
        (f"axes: {{{STEPS}: [4, 4]}}", f"/suite/axes/{STEPS}", "SY103"),
        (f"axes: {{{STEPS}: [4, 4.0]}}", f"/suite/axes/{STEPS}", "SY103"),
        ("axes: {training.stepz: [4]}", "/suite/axes/training.stepz", "SY102"),
        ("axes: {training: [4]}", "/suite/axes/training", "SY102"),
        ("axes: {model: [tiny-llama]}", "/suite/axes/model", "SY102"),
        ("axes: {name: [a]}", "/suite/axes/name", "SY102"),
        ("axes: {thresholds: [a]}", "/suite/axes/thresholds", "SY102"),
        ("axes: {model.rope_scaling.factors: [1]}", "/suite/axes/model.rope_scaling.factors", "SY102"),
        ("axes: {platform.gpu: [h100]}", "/suite/axes/platform.gpu", "SY102"),
        ("axes: {platform.sript: [a]}", "/suite/axes/platform.sript", "SY102"),
        ("axes: {gpus: [two]}", "/suite/axes/gpus", "SY103"),
        ("axes: {nodes: [0]}", "/suite/axes/nodes", "SY103"),
        ("axes: {gpus: [true]}", "/suite/axes/gpus", "SY103"),
        ("axes: {platform: [3]}", "/suite/axes/platform", "SY103"),
        ("axes: {3: [1]}", "/suite/axes/3", "SY103"),
        ("axes: {size: {}}", "/suite/axes/size", "SY103"),
        ("axes: {size: {a: 3}}", "/suite/axes/size/a", "SY103"),
        ("axes: {size: {a: {training.stepz: 1}}}", "/suite/axes/size/a/training.stepz", "SY102"),
        ("axes: {size: {../../x: {training.steps: 1}}}", "/suite/axes/size/..~1..~1x", "SY103"),
        ("axes: {size: {.: {}}}", "/suite/axes/size/.", "SY103"),
        ("axes: {size: {'': {}}}", "/suite/axes/size/", "SY103"),
        ("axes: {size: {ä: {}}}", "/suite/axes/size/ä", "SY103"),
        ('axes: {size: {"a\\u001b[31m": {}}}', "/suite/axes/size/a\x1b[31m", "SY103"),
        ("axes: {platform: {a: {training.steps: 1}}}", "/suite/axes/platform", "SY103"),
        (f"axes: {{{STEPS}: {{a: {{training.seed: 1}}}}}}", f"/suite/axes/{STEPS}", "SY103"),
        (f"axes: {{{STEPS}: [1], size: {{a: {{{STEPS}: 2}}}}}}", "/suite/axes/size", "SY103"),
        (f"axes: {{{STEPS}: [1]}}\nrepeats: 0", "/suite/repeats", "SY103"),
        (f"axes: {{{STEPS}: [1]}}\nrepeats: 2.0", "/suite/repeats", "SY103"),
        (f"axes: {{{STEPS}: [1]}}\nrepeat: 2", "/suite/repeat", "SY102"),
        (f"axes: {{{STEPS}: [1]}}\nexclude: [{{{STEPS}: 2}}]", "/suite/exclude/0", "SY103"),
        (f"axes: {{{STEPS}: [1]}}\nexclude: [{{{STEPS}: true}}]", "/suite/exclude/0", "SY103"),
        (f"axes: {{{STEPS}: [1]}}\nexclude: [{{}}]", "/suite/exclude/0", "SY103"),
        (f"axes: {{{STEPS}: [1]}}\nexclude: [{{{SEED}: 2}}]", f"/suite/exclude/0/{SEED}", "SY103"),
        (f"axes: {{{STEPS}: [1]}}\ninclude: [{{{STEPS}: 1}}]", "/suite/include/0", "SY103"),
        (
            f"axes: {{{STEPS}: [1]}}\ninclude: [{{{STEPS}: 1, training.sed: 2}}]",
            "/suite/include/0/training.sed",
            "SY102",
        ),
        (f"axes: {{{STEPS}: [1]}}\ninclude: [{{{STEPS}: 1, expect: pass}}]", "/suite/include/0/expect", "SY103"),
        ("axes: {size: {a: {}}}\ninclude: [{size: b}]", "/suite/include/0/size", "SY103"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, pointer: str, code: str) -> None:
    assert (problems(text)[0].pointer, problems(text)[0].code) == (pointer, code)


def test_every_problem_of_a_section_is_reported() -> None:
    found = problems(f"axes: {{{STEPS}: [1, 1], training.sed: [2]}}\ninclude: [{{expect: no}}]")
    assert [problem.pointer for problem in found] == [
        f"/suite/axes/{STEPS}",
        "/suite/axes/training.sed",
        "/suite/include/0/expect",
    ]
    assert found[1].fix == "write training.seed, or remove it"


def test_combinations_are_bounded_before_they_are_made() -> None:
    axes = {f"axis{number}": {label: {} for label in "abcdefghij"} for number in range(300)}
    assert [problem.key for problem in problems(json.dumps({"axes": axes}))] == ["suite.axes"]
    numbers = [*range(1, MOST_CELLS + 1)]
    assert len(cells(json.dumps({"axes": {STEPS: numbers}}))) == MOST_CELLS
    assert problems(json.dumps({"axes": {STEPS: numbers, SEED: [1, 2]}}))[0].key == "suite.axes"


def test_every_cell_has_a_directory_of_its_own() -> None:
    text = "axes: {model.preset: [../../etc, .., '', ä, A, a, tiny-llama], size: {X: {}, x: {}}}"
    directories = cell_directories([(None, cell.name) for cell in cells(text)])
    assert len({directory.casefold() for directory in directories}) == 14
    assert all("/" not in directory and directory.strip(".") == directory for directory in directories)
    assert directories[:4] == ["etc-X", "etc-x-2", "empty-X", "empty-x-2"]
    long = ["a" * 300, "a" * 299 + "b"]
    shortened = cell_directories([(None, cell.name) for cell in cells(f"axes: {{model.preset: {long}}}")])
    assert [len(directory) for directory in shortened] == [100, 102]
