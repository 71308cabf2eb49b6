"""Each rule fires on the line it is for and nowhere else, and is explained."""

import importlib
import re
from pathlib import Path

import pytest

from steelyard.experiment import packaged, problems
from steelyard.hardware.machine import Machine
from steelyard.lint import RULES, Asked, lint_file
from steelyard.lint import rules as folder

LAPTOP = Machine((), cpu_count=2)
GOOD = """
schema_version: 1
name: good
model: {preset: tiny-llama}
training: {micro_batch_size: 2, global_batch_size: 32, sequence_length: 64, steps: 10, learning_rate: 1e-3}
platforms:
  p: {gpu: a100, gpus_per_node: 8, framework: megatron}
"""
NATIVE = {"SY107"}
"""Codes that speak of a framework we launch."""
CASES = {
    "SY102": ("steps: 10", "steps: 10, step: 3", "/training/step"),
    "SY103": ("steps: 10", "steps: '10'", "/training/steps"),
    "SY104": ("steps: 10, ", "", "/training/steps"),
    "SY105": ("preset: tiny-llama", "preset: tiny-lama", "/model/preset"),
    "SY106": ("platforms", "data: {source: tokens}\nplatforms", "/data/path"),
    "SY107": ("steps: 10", "steps: 10, recompute: selective", "/training/recompute"),
    "SY108": ("platforms", "data: {source: markov, dataset: wiki}\nplatforms", "/data/dataset"),
    "SY201": ("platforms", "parallelism: {context_parallel_size: 16}\nplatforms", "/parallelism/context_parallel_size"),
    "SY202": ("platforms", "parallelism: {data_parallel_size: 4}\nplatforms", "/parallelism/data_parallel_size"),
    "SY203": ("global_batch_size: 32", "global_batch_size: 33", "/training/global_batch_size"),
    "SY204": ("steps: 10", "steps: 10, gradient_accumulation_steps: 8", "/training/gradient_accumulation_steps"),
    "SY205": ("sequence_length: 64", "sequence_length: 1024", "/training/sequence_length"),
    "SY206": ("steps: 10", "steps: 10, warmup_steps: 10", "/training/warmup_steps"),
    "SY207": ("steps: 10", "steps: 10, min_learning_rate: 0.1", "/training/min_learning_rate"),
    "SY302": ("preset: tiny-llama", "preset: tiny-llama, hidden_size: 96", "/model/head_dim"),
    "SY402": ("preset: tiny-llama", "preset: llama3.1-405b", "/parallelism/tensor_parallel_size"),
    "SY301": ("platforms", "parallelism: {tensor_parallel_size: 8}\nplatforms", "/parallelism/tensor_parallel_size"),
    "SY401": ("platforms", "precision: {dtype: bf16, fp8: hybrid}\nplatforms", "/precision/fp8"),
}


def found_in(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    path = tmp_path / "case.yaml"
    path.write_text(text)
    return [(problem.code, problem.pointer) for problem in lint_file(path, Asked(), LAPTOP)]


def test_a_good_file_has_no_problem(tmp_path: Path) -> None:
    assert found_in(tmp_path, GOOD) == []


@pytest.mark.parametrize("code", CASES)
def test_a_rule_fires_on_its_own_fault_alone(code: str, tmp_path: Path) -> None:
    old, new, pointer = CASES[code]
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if code in NATIVE:
        text = text.replace("framework: megatron", "framework: native")
    assert found_in(tmp_path, text) == [(code, pointer)]


def test_an_unparsable_file_is_a_problem_too(tmp_path: Path) -> None:
    assert found_in(tmp_path, "a: [") == [("SY101", "")]


def test_the_table_and_the_folder_hold_the_same_rules() -> None:
    assert folder.__file__ is not None
    files = {path.stem for path in Path(folder.__file__).parent.glob("sy*.py")}
    assert files == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_named_by_its_code_and_explained(name: str) -> None:
    module = importlib.import_module(f"steelyard.lint.rules.{name}")
    assert name.startswith(module.RULE.code.lower())
    assert re.search(r"^Why: .+^Fix: .+", module.__doc__, re.S | re.M)


def test_every_code_is_tried_and_documented() -> None:
    codes = {name[:5].upper() for name in RULES}
    codes |= {problems.UNKNOWN_KEY, problems.WRONG_VALUE, problems.MISSING_KEY, problems.UNKNOWN_NAME}
    assert codes == set(CASES)
    page = (Path(__file__).parents[2] / "docs" / "lint.md").read_text()
    assert {problems.UNREADABLE, *codes} <= set(re.findall(r"SY\d{3}", page))


@pytest.mark.parametrize("name", packaged.DESCRIPTIONS)
def test_packaged_files_have_no_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / packaged.file_name(name)
    path.write_text(packaged.text(name))
    assert [problem for problem in lint_file(path, Asked(), LAPTOP) if problem.severity == "error"] == []


def test_a_problem_of_every_platform_is_said_once(tmp_path: Path) -> None:
    text = GOOD.replace("steps: 10", "steps: 0").replace("  p:", "  q: {gpu: h100, gpus_per_node: 8}\n  p:")
    assert found_in(tmp_path, text) == [("SY103", "/training/steps")]


def test_memory_that_only_the_activations_exceed_is_a_warning(tmp_path: Path) -> None:
    text = GOOD.replace("tiny-llama", "llama3.1-8b").replace("sequence_length: 64", "sequence_length: 8192")
    path = tmp_path / "case.yaml"
    path.write_text(text.replace("gpu: a100", "gpu: h100"))
    (problem,) = lint_file(path, Asked(), LAPTOP)
    assert (problem.code, problem.severity) == ("SY402", "warning")
    assert "activations" in problem.message
    assert problem.expected == "at most the 79.1 GiB of the h100"


def test_what_the_command_line_says_is_linted_too(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(GOOD)
    assert [problem.code for problem in lint_file(path, Asked(settings=[("training.steps", 0)]), LAPTOP)] == ["SY103"]
    assert [problem.code for problem in lint_file(path, Asked(gpus=3), LAPTOP)] == ["SY203"]


def test_a_platform_whose_name_is_no_name_is_a_problem(tmp_path: Path) -> None:
    assert found_in(tmp_path, GOOD.replace("  p:", "  1:")) == [("SY103", "/platforms")]
