"""The suite's own examples: each numeric error in them is found, by its code and place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seeds import SEEDS, filled, original, packaged_content, published
from steelyard.configs.choose import Asked
from steelyard.hardware.machine import Machine
from steelyard.linting import lint_file

LAPTOP = Machine((), cpu_count=2)

MEGATRON_1 = "mi3xx_megatron_llama_single.json"
MEGATRON_35 = "mi35x_megatron_llama_single.json"
MEGATRON_N = "mi3xx_megatron_llama_distributed.json"
JAX_1, JAX_35 = "mi300x_singlenode_llama3_1_70b.json", "mi35x_singlenode_llama_3_1_70b.json"
JAX_N, JAX_405 = "mi300x_distributed_llama3_1_70b.json", "mi300x_distributed_llama_3_1_405b.json"

_8B, _70B = "/model_params/single_node/llama3_1_8b", "/model_params/single_node/llama3_1_70b"
_N = "/model_params/multi_node"
_ENV = "/config/container_config/env_dict"

# number of the error as it was first listed: (file, code, severity, place)
ERRORS: dict[str, list[tuple[str, str, str, str]]] = {
    "1 a time that contradicts the throughput": [
        (MEGATRON_1, "SY503", "warning", f"{_8B}/{gpu}/result_dict/elapsed_time_per_iteration")
        for gpu in ("mi300x", "mi325")
    ],
    "3 a pair of examples below the matrix products": [
        (MEGATRON_N, "SY502", "warning", f"{_N}/llama3_1_8b/mi325/result_dict/_example_throughput_per_gpu")
    ],
    "5 a precision that is none": [
        *((MEGATRON_35, "SY403", "error", f"{_70B}/{gpu}/precision") for gpu in ("mi350", "mi355")),
        *((MEGATRON_N, "SY403", "error", f"{_N}/llama3_1_70b/{gpu}/precision") for gpu in ("mi300x", "mi325")),
    ],
    "15 a 70b with the dimensions of the 405B": [
        (file, "SY303", "error", f"/model_params/{section}/llama3.1-70b/{gpu}/{key}")
        for file, section, gpu in (
            (JAX_1, "single_node", "mi300x"),
            (JAX_35, "single_node", "mi355"),
            (JAX_N, "multi_node", "mi300x"),
        )
        for key in ("base_emb_dim", "base_num_query_heads", "base_num_decoder_layers", "base_mlp_dim")
    ],
    "16 above the peak, and a quotient of no model": [
        (JAX_1, code, "error", "/model_params/single_node/llama3.1-70b/mi300x/result_dict/tflops_per_sec_per_gpu")
        for code in ("SY501", "SY502")
    ],
    "17 a quotient below the causal formula": [
        (JAX_35, "SY502", "error", "/model_params/single_node/llama3.1-70b/mi355/result_dict/tflops_per_sec_per_gpu")
    ],
    "18 FP8 beside bfloat16, recompute and fsdp against what runs": [
        (file, code, "error", f"/model_params/{section}/{model}/{gpu}/{key}")
        for file, section, model, gpu in (
            (JAX_1, "single_node", "llama3.1-70b", "mi300x"),
            (JAX_35, "single_node", "llama3.1-70b", "mi355"),
            (JAX_N, "multi_node", "llama3.1-70b", "mi300x"),
            (JAX_405, "multi_node", "llama3.1-405b", "mi300x"),
        )
        for code, key in (("SY404", "precision"), ("SY113", "recompute"), ("SY113", "fsdp"))
    ],
    "19 a batch that is not trained": [
        (file, "SY210", "error", f"{_N}/{model}/mi300x/batch_size")
        for file, model in ((JAX_N, "llama3.1-70b"), (JAX_405, "llama3.1-405b"))
    ],
    "24 one node in a job of several, and time limits nobody reads": [
        (file, code, severity, f"{_ENV}/{key}")
        for file in (JAX_N, JAX_405)
        for code, severity, key in (
            ("SY113", "error", "NNODES"),
            ("SY114", "warning", "JAX_DISTRIBUTED_INITIALIZATION_TIMEOUT_SECONDS"),
            ("SY114", "warning", "JAX_DISTRIBUTED_HEARTBEAT_TIMEOUT_SECONDS"),
        )
    ],
    "25 distributed on a single node": [
        (file, "SY113", "error", "/config/distributed_training") for file in (JAX_1, JAX_35)
    ],
    "32 a tokenizer of a model that never was": [
        (JAX_405, "SY305", "error", f"{_N}/llama3.1-405b/mi300x/tokenizer_model")
    ],
}


def as_rebuilt(name: str) -> str:
    return json.dumps(original(name), indent=1)


def as_published(name: str) -> str:
    text = published(name)
    if text is None:
        pytest.skip("the documents the examples come from are not here")
    return text


@pytest.mark.parametrize("source", [as_rebuilt, as_published])
@pytest.mark.parametrize("error", ERRORS)
def test_each_error_is_found_where_it_stands(error: str, source: Callable[[str], str], tmp_path: Path) -> None:
    for name in {file for file, _, _, _ in ERRORS[error]}:
        path = tmp_path / name
        path.write_text(source(name))
        found = {(problem.code, problem.severity, problem.pointer) for problem in lint_file(path, Asked(), LAPTOP)}
        expected = {(code, severity, pointer) for file, code, severity, pointer in ERRORS[error] if file == name}
        assert expected <= found


@pytest.mark.parametrize("name", SEEDS)
def test_the_page_of_corrections_says_all_that_was_changed(name: str) -> None:
    assert json.loads(as_published(name)) == original(name)


@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("name", SEEDS)
def test_a_packaged_config_has_no_problem_once_it_is_filled(name: str, nodes: int, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(json.dumps(filled(packaged_content(name), nodes)))
    found = [problem for problem in lint_file(path, Asked(), LAPTOP) if problem.severity != "info"]
    too_large = {"mi300x_distributed_llama_3_1_405b.json": ["SY402"]}  # 405B do not fit one node
    expected: list[str] = too_large.get(name, []) if nodes == 1 else []
    allowed = {"SY504", "SY402"} if nodes == 1 else set()  # one node of a file whose thresholds are four's
    assert [problem.code for problem in found if problem.severity == "error"] == expected
    assert {problem.code for problem in found} - set(expected) <= allowed


@pytest.mark.parametrize("name", SEEDS)
def test_only_what_is_selected_must_be_filled(name: str, tmp_path: Path) -> None:
    """The thresholds of the models and GPUs that are not run may stay open."""
    content = filled(packaged_content(name), 4)
    section, models = next(iter(content["model_params"].items()))
    model, gpus = next(iter(models.items()))
    gpu = next(iter(gpus))
    for other_model, others in models.items():
        for other_gpu, params in others.items():
            if (other_model, other_gpu) != (model, gpu):
                params["result_dict"] = {"tokens_per_gpu": "<changeme>"}
    path = tmp_path / name
    path.write_text(json.dumps(content))
    left = len(models) * len(gpus) - 1
    placeholders = [problem for problem in lint_file(path, Asked(), LAPTOP) if problem.code == "SY110"]
    assert len(placeholders) == left
    selected = lint_file(path, Asked(model=model, gpu=gpu), LAPTOP)
    assert [problem for problem in selected if problem.severity == "error"] == []
    assert section in ("single_node", "multi_node")


def test_a_problem_names_its_line(tmp_path: Path, cli: Any) -> None:
    path = tmp_path / MEGATRON_35
    path.write_text(as_rebuilt(MEGATRON_35))
    problems = cli("lint", path, "--json").document["problems"]
    lines = path.read_text().splitlines()
    found = [problem for problem in problems if problem["code"] == "SY403"]
    assert len(found) == 2
    for problem in found:
        assert '"precision": "TE_FP16"' in lines[problem["line"] - 1]
