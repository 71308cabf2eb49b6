"""`lint --fix`, and the configs as they were published: each cell can be planned, and each can be made clean."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steelyard
from seeds import SEEDS, filled, original, published
from steelyard import execute
from steelyard.configs.rewrite import rewritten
from steelyard.experiment.problems import Edit

NODES = {name: 4 if "distributed" in name else 1 for name in SEEDS}
CELLS = [
    (name, section, model, gpu)
    for name in SEEDS
    for section, models in original(name)["model_params"].items()
    for model, gpus in models.items()
    for gpu in gpus
]


def as_rebuilt(name: str) -> Any:
    return original(name)


def as_published(name: str) -> Any:
    text = published(name)
    if text is None:
        pytest.skip("the documents the examples come from are not here")
    return json.loads(text)


def written(name: str, source: Callable[[str], Any]) -> Path:
    """The config with its placeholders filled, and nothing else changed."""
    path = Path(name)
    path.write_text(json.dumps(filled(source(name), NODES[name]), indent=4))
    return path


def test_there_are_16_cells() -> None:
    assert len(CELLS) == 16


@pytest.mark.parametrize("source", [as_rebuilt, as_published])
@pytest.mark.parametrize(("name", "section", "model", "gpu"), CELLS)
def test_each_cell_is_planned_with_allow_and_recorded(
    cli: Any, name: str, section: str, model: str, gpu: str, source: Callable[[str], Any]
) -> None:
    path, words = written(name, source), ("--model", model, "--gpu", gpu)
    problems = cli("lint", path, *words, "--json").document["problems"]
    errors = {(problem["code"], problem["pointer"]) for problem in problems if problem["severity"] == "error"}
    codes = sorted({problem["code"] for problem in problems if problem["severity"] != "info"})
    plain = cli("plan", path, *words, "--json")
    assert plain.status == (2 if errors else 0)
    planned = steelyard.plan(path, model=model, gpu=gpu, allow=codes)
    writer = execute.new_run(planned, Path("runs"), "cell", ["steelyard"])
    recorded = json.loads((writer.directory / "run.json").read_text())["allowed"]
    assert {(problem["code"], problem["pointer"]) for problem in recorded} >= errors
    assert {problem["by"] for problem in recorded} <= {"--allow"}
    assert sorted({problem["code"] for problem in recorded}) == codes


@pytest.mark.parametrize("last", [False, True], ids=["first-choice", "last-choice"])
@pytest.mark.parametrize("source", [as_rebuilt, as_published])
@pytest.mark.parametrize(("name", "section", "model", "gpu"), CELLS)
def test_each_cell_is_clean_after_fix_and_the_choices(
    cli: Any, name: str, section: str, model: str, gpu: str, source: Callable[[str], Any], last: bool
) -> None:
    path, words = written(name, source), ["--model", model, "--gpu", gpu]
    before = path.read_bytes()
    fixed = cli("lint", path, *words, "--fix", "--json").document
    (target,), problems = [Path(entry["file"]) for entry in fixed["fixed"]], fixed["problems"]
    for _ in range(2 if last else 1):  # another tokens/s than before needs other TFLOP/s too
        for problem in problems:
            if problem["severity"] != "info":
                assert problem["settings"], problem
                words += shlex.split(problem["settings"][-1 if last else 0])
        problems = cli("lint", target, *words, "--json").document["problems"]
    assert [problem["code"] for problem in problems if problem["severity"] != "info"] == []
    assert cli("plan", target, *words, "--json").status == 0
    assert path.read_bytes() == before


JAX = "mi300x_singlenode_llama3_1_70b.json"
MEGATRON = "mi35x_megatron_llama_single.json"


def test_the_corrections_are_listed_and_all_other_lines_are_kept(cli: Any) -> None:
    path = written(JAX, as_rebuilt)
    made = cli("lint", path, "--fix", "--json").document["fixed"][0]
    assert made["file"] == "mi300x_singlenode_llama3_1_70b.fixed.json"
    place = "/model_params/single_node/llama3.1-70b/mi300x"
    corrections = {each["pointer"]: (each["code"], each["was"], each["now"]) for each in made["corrections"]}
    assert corrections[f"{place}/base_emb_dim"] == ("SY303", "16384", "8192")
    assert corrections[f"{place}/precision"] == ("SY404", "TE_FP8", None)
    assert corrections[f"{place}/jax_distributed_initialization_timeout"] == ("SY114", None, "1800")
    assert f"{place}/result_dict/tflops_per_sec_per_gpu" not in corrections  # causal or not has to be decided
    old, new = path.read_text().splitlines(), Path(made["file"]).read_text().splitlines()
    assert len(set(new) - set(old)) <= len(corrections) + 4  # the last entry of a mapping loses or gets its comma


def test_a_value_that_has_to_be_decided_is_left_with_its_choices(cli: Any) -> None:
    path = written(MEGATRON, as_rebuilt)
    done = cli("lint", path, "--model", "llama3_1_70b", "--gpu", "mi350", "--fix")
    assert done.status == 2
    assert not Path("mi35x_megatron_llama_single.fixed.json").exists()
    place = "/model_params/single_node/llama3_1_70b/mi350/precision"
    assert f"--set {place}=TE_BF16" in done.out
    assert f"--set {place}=TE_FP8" in done.out


def test_a_file_is_never_overwritten(cli: Any) -> None:
    path = written(JAX, as_rebuilt)
    assert cli("lint", path, "--fix").status == 2  # errors are left
    target = Path("mi300x_singlenode_llama3_1_70b.fixed.json")
    target.write_text("mine")
    refused = cli("lint", path, "--fix", "--json")
    assert (refused.status, refused.document["error"]["value"]) == (2, str(target))
    assert target.read_text() == "mine"


def test_what_is_allowed_is_not_corrected(cli: Any) -> None:
    path = written(JAX, as_rebuilt)
    made = cli("lint", path, "--allow", "SY303,SY404", "--fix", "--json").document["fixed"][0]
    assert {"SY303", "SY404"}.isdisjoint(each["code"] for each in made["corrections"])


def test_a_key_that_appears_twice_is_not_corrected(cli: Any) -> None:
    path = written(JAX, as_rebuilt)
    twice = '"precision": "TE_BF16",\n"precision": "TE_FP8"'
    path.write_text(path.read_text().replace('"precision": "TE_FP8"', twice))
    made = cli("lint", path, "--fix", "--json").document["fixed"][0]
    assert "precision" not in {each["pointer"].rpartition("/")[2] for each in made["corrections"]}


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([Edit(("a", "x"), "2")], '{\n\t"_c": "why",\r\n\t"a": {"x": "2", "y": [1, 2]}\n}\n'),
        ([Edit(("a", "x"))], '{\n\t"_c": "why",\r\n\t"a": { "y": [1, 2]}\n}\n'),
        ([Edit(("a", "y"))], '{\n\t"_c": "why",\r\n\t"a": {"x": 1}\n}\n'),
        ([Edit(("a", "x")), Edit(("a", "y"))], '{\n\t"_c": "why",\r\n\t"a": {}\n}\n'),
        ([Edit(("a",), rename=True)], '{\n\t"_c": "why",\r\n\t"_a": {"x": 1, "y": [1, 2]}\n}\n'),
        ([Edit(("c",), rename=True), Edit(("b",), "3")], None),
        ([Edit(("b",), ["3"])], '{\n\t"_c": "why",\r\n\t"a": {"x": 1, "y": [1, 2]},\n\t"b": ["3"]\n}\n'),
    ],
)
def test_only_the_edited_bytes_change(edits: list[Edit], expected: str | None) -> None:
    text = '{\n\t"_c": "why",\r\n\t"a": {"x": 1, "y": [1, 2]}\n}\n'
    if expected is not None:
        assert rewritten(text, edits) == expected
    else:  # a key that takes the name of a disabled one gets another underscore
        both = rewritten(text.replace('"a"', '"c"'), edits)
        assert list(json.loads(both)) == ["_c", "__c", "b"]
