"""Each rule fires on the line it is for and nowhere else, and is explained."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from bounds import bounded
from seeds import filled, packaged_content
from steelyard.configs.choose import Asked
from steelyard.experiment import packaged, problems
from steelyard.hardware.machine import Machine
from steelyard.linting import RULES, lint_file
from steelyard.linting import rules as folder
from steelyard.linting.explain import explanations

LAPTOP = Machine((), cpu_count=2)
GOOD = """
schema_version: 1
name: good
model: {preset: tiny-llama}
training: {micro_batch_size: 2, global_batch_size: 32, sequence_length: 64, steps: 10, learning_rate: 1e-3}
platforms:
  p: {gpu: a100, gpus_per_node: 8, framework: megatron}
data: {source: counting}
"""
FRAMEWORKS = {"SY107": "native", "SY209": "native", "SY211": "torchtitan"}
"""For codes whose fault Megatron, the framework of the good file, would refuse as well."""
CASES = {
    "SY102": ("steps: 10", "steps: 10, step: 3", "/training/step"),
    "SY103": ("steps: 10", "steps: '10'", "/training/steps"),
    "SY104": ("steps: 10, ", "", "/training/steps"),
    "SY105": ("preset: tiny-llama", "preset: tiny-lama", "/model/preset"),
    "SY106": ("data: {source: counting}", "data: {source: tokens}", "/data/path"),
    "SY107": ("steps: 10", "steps: 10, recompute: selective", "/training/recompute"),
    "SY108": ("source: counting", "source: counting, dataset: wiki", "/data/dataset"),
    "SY201": ("platforms", "parallelism: {context_parallel_size: 16}\nplatforms", "/parallelism/context_parallel_size"),
    "SY202": ("platforms", "parallelism: {data_parallel_size: 4}\nplatforms", "/parallelism/data_parallel_size"),
    "SY203": ("global_batch_size: 32", "global_batch_size: 33", "/training/global_batch_size"),
    "SY204": ("steps: 10", "steps: 10, gradient_accumulation_steps: 8", "/training/gradient_accumulation_steps"),
    "SY205": ("sequence_length: 64", "sequence_length: 1024", "/training/sequence_length"),
    "SY206": ("steps: 10", "steps: 10, warmup_steps: 10", "/training/warmup_steps"),
    "SY117": ("p: {", "p: {container: {image: i, privileged: true}, ", "/platforms/p/container/privileged"),
    "SY121": ("p: {", "p: {container: {image: i, volumes: {/etc/: /e}}, ", "/platforms/p/container/volumes/~1etc~1"),
    "SY122": (
        "p: {",
        "p: {container: {image: i, volumes: {//var/./run/docker.sock: /s}}, ",
        "/platforms/p/container/volumes/~1~1var~1.~1run~1docker.sock",
    ),
    "SY123": (
        "p: {",
        "p: {container: {image: i, volumes: {/var/tmp: /l}}, ",
        "/platforms/p/container/volumes/~1var~1tmp",
    ),
    "SY124": ("p: {", "p: {container: {image: i, devices: [/dev/sda]}, ", "/platforms/p/container/devices/0"),
    "SY125": (
        "p: {",
        "p: {container: {image: i, volumes: {/home/nobody-here/x: /x}}, ",
        "/platforms/p/container/volumes/~1home~1nobody-here~1x",
    ),
    "SY119": ("p: {", "p: {env: {WANDB_API_KEY: abc}, ", "/platforms/p/env/WANDB_API_KEY"),
    "SY120": ("p: {", "p: {env: {CUDA_DEVICE_MAX_CONNECTIONS: '8'}, ", "/platforms/p/env/CUDA_DEVICE_MAX_CONNECTIONS"),
    "SY702": ("steps: 10", "steps: 10, adam_epsilon: '-'", "/training/adam_epsilon"),
    "SY209": ("source: counting", "source: counting, samples: 64", "/data/samples"),
    "SY211": (
        "platforms",
        "parallelism: {fsdp_size: 3, distributed_optimizer: false}\nplatforms",
        "/parallelism/fsdp_size",
    ),
    "SY603": ("p: {", "p: {network: {nic: cx7, hcas: [bnxt_re0]}, ", "/platforms/p/network/hcas"),
    "SY604": ("p: {", "p: {env: {NCCL_P2P_DISABLE: '1'}, ", "/platforms/p/env/NCCL_P2P_DISABLE"),
    "SY207": ("steps: 10", "steps: 10, min_learning_rate: 0.1", "/training/min_learning_rate"),
    "SY302": ("preset: tiny-llama", "preset: tiny-llama, hidden_size: 96", "/model/head_dim"),
    "SY402": ("preset: tiny-llama", "preset: llama3.1-405b", "/parallelism/tensor_parallel_size"),
    "SY301": ("platforms", "parallelism: {tensor_parallel_size: 8}\nplatforms", "/parallelism/tensor_parallel_size"),
    "SY401": ("platforms", "precision: {dtype: bf16, fp8: hybrid}\nplatforms", "/precision/fp8"),
}


MEGATRON, MEGATRON_N = "mi3xx_megatron_llama_single.json", "mi3xx_megatron_llama_distributed.json"
JAX, JAX_N = "mi300x_singlenode_llama3_1_70b.json", "mi300x_distributed_llama3_1_70b.json"
M = ("model_params", "single_node", "llama3_1_8b", "mi300x")
M70 = ("model_params", "single_node", "llama3_1_70b", "mi300x")
J = ("model_params", "single_node", "llama3.1-70b", "mi300x")
JN = ("model_params", "multi_node", "llama3.1-70b", "mi300x")

# a packaged config filled for four nodes, what is put where (`...` takes it out), and what lint then says, no more
JSON_CASES: dict[str, tuple[str, dict[tuple[str, ...], object], set[tuple[str, str]]]] = {
    "SY110": (JAX, {("config", "hf_token_file"): "/home/{nobody}/x"}, {("SY110", "/config/hf_token_file")}),
    "SY112": (JAX, {(*J, "micro_batch_size"): "2"}, {("SY112", "/".join(("", *J, "micro_batch_size")))}),
    "SY113": (
        JAX_N,
        {("config", "container_config", "env_dict", "NNODES"): "2"},
        {("SY113", "/config/container_config/env_dict/NNODES")},
    ),
    "SY114": (
        JAX,
        {("config", "container_config", "env_dict", "JAX_DISTRIBUTED_HEARTBEAT_TIMEOUT_SECONDS"): "9"},
        {("SY114", "/config/container_config/env_dict/JAX_DISTRIBUTED_HEARTBEAT_TIMEOUT_SECONDS")},
    ),
    "SY115": (JAX, {}, set()),
    "SY116": (JAX, {(*J, "hf_train_files"): "c4/*"}, {("SY116", "/".join(("", *J, "hf_train_files")))}),
    "SY118": (
        JAX,
        {(*J, "xla_flags", "xla_gpu_graph_level"): "0"},
        {("SY118", "/".join(("", *J, "xla_flags", "xla_gpu_graph_level")))},
    ),
    "SY208": (
        JAX,
        {(*J, "ici_fsdp_parallelism"): "4"},
        {("SY208", "/".join(("", *J, "ici_fsdp_parallelism")))},
    ),
    "SY210": (
        JAX_N,
        {(*JN, "batch_size"): "128"},
        {("SY210", "/".join(("", *JN, "batch_size")))},
    ),
    "SY303": (MEGATRON, {(*M, "model_size"): "70"}, {("SY303", "/".join(("", *M, "model_size")))}),
    "SY304": (JAX, {(*J, "vocab_size"): "128526"}, {("SY304", "/".join(("", *J, "vocab_size")))}),
    "SY305": (
        MEGATRON,
        {(*M, "tokenizer_model"): "meta-llama/Llama-2-7b-hf"},
        {("SY305", "/".join(("", *M, "tokenizer_model")))},
    ),
    "SY306": (MEGATRON, {}, set()),
    "SY403": (MEGATRON, {(*M, "precision"): "TE_F16"}, {("SY403", "/".join(("", *M, "precision")))}),
    "SY404": (
        JAX,
        {(*J, "precision"): "TE_FP8"},
        {("SY404", "/".join(("", *J, "precision")))},
    ),
    "SY501": (
        MEGATRON,
        {(*M70, "result_dict"): {"tokens_per_gpu": "6000"}},
        {("SY501", "/".join(("", *M70, "result_dict", "tokens_per_gpu")))},
    ),
    "SY502": (
        MEGATRON,
        {(*M, "result_dict", "throughput_per_gpu"): "300"},
        {("SY502", "/".join(("", *M, "result_dict", "throughput_per_gpu")))},
    ),
    "SY503": (
        MEGATRON,
        {(*M, "result_dict", "elapsed_time_per_iteration"): "12000"},
        {("SY503", "/".join(("", *M, "result_dict", "elapsed_time_per_iteration")))},
    ),
    "SY504": (
        JAX_N,
        {("config", "_example_nnodes"): "8", ("config", "nnodes"): "<changeme>"},
        {("SY504", "/".join(("", *JN, "result_dict", "tflops_per_sec_per_gpu")))},
    ),
    "SY701": ("", {}, set()),
    "SY109": ("", {}, set()),
}


def put(content: Any, changes: dict[tuple[str, ...], object]) -> None:
    for path, value in changes.items():
        here = content
        for key in path[:-1]:
            here = here.setdefault(key, {})
        if value is ...:
            del here[path[-1]]
        else:
            here[path[-1]] = value


@pytest.mark.parametrize("code", [code for code, case in JSON_CASES.items() if case[2]])
def test_a_rule_fires_on_its_own_fault_in_a_json_config(code: str, tmp_path: Path) -> None:
    name, changes, expected = JSON_CASES[code]
    content = filled(packaged_content(name), 4)
    put(content, changes)
    path = tmp_path / name
    path.write_text(json.dumps(content))
    asked = Asked(nodes=4 if code == "SY504" else None)
    found = {
        (problem.code, problem.pointer) for problem in lint_file(path, asked, LAPTOP) if problem.severity != "info"
    }
    assert found == expected
    assert code in {each for each, _ in expected}


def test_what_only_informs_is_said_too(tmp_path: Path) -> None:
    for name, code in ((JAX, "SY115"), (MEGATRON, "SY306")):
        path = tmp_path / name
        path.write_text(json.dumps(filled(packaged_content(name), 1)))
        assert (code, "info") in {(problem.code, problem.severity) for problem in lint_file(path, Asked(), LAPTOP)}


def test_a_key_that_stands_twice_is_found_and_the_rest_is_still_looked_at(tmp_path: Path) -> None:
    path = tmp_path / MEGATRON
    text = json.dumps(filled(packaged_content(MEGATRON), 1), indent=1)
    path.write_text(text.replace('"shm_size": "128G",', '"shm_size": "128G",\n "shm_size": "64G",\n "shm": "1",', 1))
    found = {
        (problem.code, problem.pointer) for problem in lint_file(path, Asked(), LAPTOP) if problem.severity == "error"
    }
    assert found == {("SY109", "/config/shm_size"), ("SY102", "/config/shm")}


def test_what_two_frameworks_do_with_a_parameter_nobody_states_is_said(tmp_path: Path) -> None:
    """Masked softmax fused on one side, not on the other, and the file says nothing: the difference is named."""
    text = GOOD.replace("  p:", "  q: {gpu: h100, gpus_per_node: 8, framework: primus}\n  p:")
    path = tmp_path / "two.yaml"
    path.write_text(text)
    found = [problem for problem in lint_file(path, Asked(), LAPTOP) if problem.code == "SY701"]
    masked = [problem for problem in found if problem.pointer == "/kernels/masked_softmax_fusion"]
    assert len(masked) == 1
    assert "primus defaults to false, megatron defaults to true" in masked[0].message
    stated = text.replace("data:", "kernels: {masked_softmax_fusion: true}\ndata:")
    path.write_text(stated)
    assert "/kernels/masked_softmax_fusion" not in {problem.pointer for problem in lint_file(path, Asked(), LAPTOP)}


def test_hosts_that_are_not_the_nodes_and_a_head_that_is_not_the_first_are_refused(tmp_path: Path) -> None:
    path = tmp_path / MEGATRON_N
    path.write_text(json.dumps(filled(packaged_content(MEGATRON_N), 4)))

    def codes(*hosts: str) -> set[str]:
        asked = Asked(model="llama3_1_8b", gpu="mi300x", hosts=hosts)
        return {problem.code for problem in lint_file(path, asked, LAPTOP)}

    assert codes("10.0.0.1", "b", "c", "d") == set()
    assert codes("10.0.0.1", "b") == {"SY601"}
    assert codes("a", "10.0.0.1", "c", "d") == {"SY602"}


def found_in(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    path = tmp_path / "case.yaml"
    path.write_text(text)
    found = lint_file(path, Asked(user="alice"), LAPTOP)
    return [(problem.code, problem.pointer) for problem in found if problem.severity != "info"]


def test_a_good_file_has_no_problem(tmp_path: Path) -> None:
    assert found_in(tmp_path, GOOD) == []


@pytest.mark.parametrize("code", CASES)
def test_a_rule_fires_on_its_own_fault_alone(code: str, tmp_path: Path) -> None:
    old, new, pointer = CASES[code]
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    text = text.replace("framework: megatron", f"framework: {FRAMEWORKS.get(code, 'megatron')}")
    assert found_in(tmp_path, text) == [(code, pointer)]


def test_an_unparsable_file_is_a_problem_too(tmp_path: Path) -> None:
    assert found_in(tmp_path, "a: [") == [("SY101", "")]


def test_the_table_and_the_folder_hold_the_same_rules() -> None:
    assert folder.__file__ is not None
    files = {path.stem for path in Path(folder.__file__).parent.glob("sy*.py")}
    assert files == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_named_by_its_code_and_explained(name: str) -> None:
    module = importlib.import_module(f"steelyard.linting.rules.{name}")
    assert name.startswith(module.RULE.code.lower())
    assert re.search(r"^Why: .+^Fix: .+", module.__doc__, re.S | re.M)


def test_every_code_is_tried() -> None:
    assert set(explanations()) == {*CASES, *JSON_CASES, problems.UNREADABLE, problems.FOREIGN_FAMILY, "SY601", "SY602"}


@pytest.mark.parametrize("name", [name for name in packaged.DESCRIPTIONS if not name.startswith("mi3")])
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
    assert problem.expected == "at most 79.1 GiB, the memory of h100"


def test_what_the_command_line_says_is_linted_too(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(GOOD)
    assert [problem.code for problem in lint_file(path, Asked(settings=[("training.steps", 0)]), LAPTOP)] == ["SY103"]
    assert [problem.code for problem in lint_file(path, Asked(gpus=3), LAPTOP)] == ["SY203"]


def test_a_platform_whose_name_is_no_name_is_a_problem(tmp_path: Path) -> None:
    assert found_in(tmp_path, GOOD.replace("  p:", "  1:")) == [("SY103", "/platforms")]


def test_a_parallel_size_without_bound_gets_one_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    path.write_text(GOOD.replace("platforms:", f"parallelism: {{tensor_parallel_size: {2**62}}}\nplatforms:", 1))
    with bounded():
        found = next(problem for problem in lint_file(path, Asked(), LAPTOP) if problem.code == "SY201")
    assert found.fix == "--set parallelism.tensor_parallel_size=8"
