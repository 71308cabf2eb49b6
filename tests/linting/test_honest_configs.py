"""What an honest config has and a rule once got wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from seeds import filled, packaged_content
from steelyard.configs.choose import Asked
from steelyard.experiment.presets import PRESETS
from steelyard.hardware.machine import Machine
from steelyard.linting import lint_file
from steelyard.linting.rules.sy305_tokenizer_of_another_model import RELEASED

LAPTOP = Machine((), cpu_count=2)
MEGATRON, MEGATRON_N = "mi3xx_megatron_llama_single.json", "mi3xx_megatron_llama_distributed.json"
JAX, JAX_N = "mi300x_singlenode_llama3_1_70b.json", "mi300x_distributed_llama3_1_70b.json"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libibverbs/libbnxt_re-rdmav34.so"


def found(name: str, content: Any, **asked: Any) -> list[tuple[str, str, str]]:
    path = Path("config.json")
    path.write_text(json.dumps(content))
    problems = lint_file(path, Asked(**asked), LAPTOP)
    return [(problem.code, problem.severity, problem.pointer) for problem in problems if problem.severity != "info"]


def config(name: str, nodes: int = 1, **keys: Any) -> Any:
    content = filled(packaged_content(name), nodes)
    content["config"] |= keys
    return content


def model_of(content: Any) -> Any:
    """The parameters of its first model and GPU."""
    here = content["model_params"]
    for _ in range(3):
        here = next(iter(here.values()))
    return here


def test_keys_that_the_suite_reads_are_no_unread_keys() -> None:
    keys = {
        "megatron_root": "/workspace/Megatron-LM",
        "training_scripts": {
            "llama-3": "examples/llama/train_llama3.sh",
            "llama-2": "examples/llama/train_llama2.sh",
        },
        "scripts_dir": "/home/{user-id}/SCRIPTS",
        "hca_id_pattern": "bnxt_|rocep",
        "rocm_dir": "",
        "verify_network_errors": "False",
    }
    assert found(MEGATRON, config(MEGATRON, **keys)) == []
    rdma = {"host_source_file": "/l.so", "container_mount_file": f"{LIBRARY}.host", "container_dest_file": LIBRARY}
    assert found(JAX_N, config(JAX_N, 4, rdma_lib=rdma, scripts_dir="/s")) == []


def test_a_script_that_a_plan_cannot_start_is_an_error() -> None:
    scripts = {"llama-3": "examples/llama/train_other.sh"}
    codes = found(MEGATRON, config(MEGATRON, training_scripts=scripts))
    assert set(codes) == {("SY103", "error", "/config/training_scripts/llama-3")}


def test_a_variable_that_the_plan_sets_need_not_be_filled_in() -> None:
    content = config(JAX_N, 4)
    open_places = ("NNODES", "NODE_RANK", "JAX_COORDINATOR_IP")
    content["config"]["container_config"]["env_dict"] |= dict.fromkeys(open_places, "<changeme>")
    assert found(JAX_N, content) == []


@pytest.mark.parametrize(
    ("hosts", "head", "codes"),
    [
        (("gpu01", "gpu02"), "10.0.0.1", []),  # an address next to names: it may be the first host's
        (("10.1.0.1", "10.1.0.2"), "gpu01", []),
        (("gpu01", "gpu02"), "gpu02", ["SY602"]),
        (("10.0.0.2", "10.0.0.1"), "10.0.0.1", ["SY602"]),
        (("10.0.0.2", "10.0.0.3"), "10.0.0.1", ["SY602"]),
        (("gpu01", "gpu02"), "localhost", ["SY602"]),
    ],
)
def test_the_head_is_compared_with_hosts_only_where_it_can_be(
    hosts: tuple[str, ...], head: str, codes: list[str]
) -> None:
    content = config(MEGATRON_N, 2, master_address=head)
    asked = {"model": "llama3_1_8b", "gpu": "mi300x", "hosts": hosts}
    assert [code for code, severity, _ in found(MEGATRON_N, content, **asked) if severity == "error"] == codes


@pytest.mark.parametrize("preset", [name for name in PRESETS if name.startswith("llama3.1-")])
@pytest.mark.parametrize(
    "tokenizer", ["NousResearch/Meta-Llama-3-405B", "meta-llama/Llama-2-7b", "x/Llama-3.3-8B", "x/Llama-3.2-1B"]
)
def test_a_suggested_tokenizer_was_released(preset: str, tokenizer: str) -> None:
    path = Path("x.yaml")
    path.write_text(
        f"""schema_version: 1
name: x
model: {{preset: {preset}}}
training: {{micro_batch_size: 1, global_batch_size: 8, sequence_length: 2048, steps: 9, learning_rate: 1e-4, seed: 7}}
data: {{source: counting, seed: 7, tokenizer: {tokenizer}}}
platforms: {{p: {{gpu: mi355x, gpus_per_node: 8, framework: megatron}}}}
"""
    )
    (problem,) = [problem for problem in lint_file(path, Asked(), LAPTOP) if problem.code == "SY305"]
    for suggestion in (problem.fix, *problem.settings, *(edit.value for edit in problem.corrections)):
        version, size = suggestion.partition("/Llama-")[2].strip('"').removesuffix("B").split("-")
        assert (size, version) == (preset.removeprefix("llama3.1-").removesuffix("b"), "3.1")
        assert size in RELEASED[version]


@pytest.mark.parametrize("repository", ["meta-llama/Llama-3.2-11B-Vision", "meta-llama/Llama-3.1-8B-Instruct"])
def test_a_tokenizer_of_the_same_vocabulary_is_at_most_a_warning(repository: str) -> None:
    content = config(MEGATRON)
    model_of(content)["tokenizer_model"] = repository
    assert all(severity == "warning" for _, severity, _ in found(MEGATRON, content, model="llama3_1_8b", gpu="mi300x"))


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("attention", "banana", "SY103"),
        ("attention", "cudnn_flash_te", None),
        ("attention", "autoselected", None),
        ("remat_policy", "ful", "SY103"),
        ("remat_policy", "minimal_offloaded", None),
        ("decoder_block", "mixtral", "SY303"),
        ("decoder_block", "llama2", None),
        ("mlp_activations", ["gelu"], "SY303"),
        ("mlp_activations", ["silu", "linear"], None),
    ],
)
def test_the_layer_of_a_model_is_checked(key: str, value: Any, code: str | None) -> None:
    content = config(JAX)
    model_of(content)[key] = value
    errors = {(each, pointer.rpartition("/")[2]) for each, _, pointer in found(JAX, content)}
    errors -= {("SY402", "per_device_batch_size")}  # with less recomputation it needs more memory
    assert errors == ({(code, key)} if code else set())


def limits(results: dict[str, str]) -> list[tuple[str, str]]:
    content = config(MEGATRON)
    model_of(content)["result_dict"] = results
    problems = found(MEGATRON, content, model="llama3_1_8b", gpu="mi300x")
    return [(code, severity) for code, severity, _ in problems]


def test_two_limits_that_a_run_can_meet_are_a_warning() -> None:
    assert limits({"tokens_per_gpu": "6500", "elapsed_time_per_iteration": "12000"}) == [("SY503", "warning")]
    assert limits({"tokens_per_gpu": "6500", "elapsed_time_per_iteration": "20165"}) == []
    assert limits({"tokens_per_gpu": "6500", "elapsed_time_per_iteration": "30000"}) == []


@pytest.mark.parametrize(
    ("bounds", "severity"),
    [
        # 128 x 8192 tokens on 8 GPUs: 20.16 s at 6,500 tokens/s per GPU, 12 s at 10,923
        (["tokens_per_s_per_gpu>=6500", "step_time_s<=12"], "warning"),
        (["tokens_per_s_per_gpu within 6500 +- 5%", "step_time_s<=12"], "error"),
        (["tokens_per_s_per_gpu<=6500", "step_time_s<=12"], "error"),
        (["tokens_per_s_per_gpu>=6500", "step_time_s>=30"], "error"),
        (["tokens_per_s_per_gpu within 6500 +- 5%", "step_time_s within 20.16 +- 5%"], None),
        (["tokens_per_s_per_gpu<=6500", "step_time_s>=12"], None),
    ],
)
def test_two_limits_that_no_run_can_meet_are_an_error(bounds: list[str], severity: str | None) -> None:
    path = Path("x.yaml")
    path.write_text(
        f"""schema_version: 1
name: x
model: {{preset: llama3.1-8b}}
training: {{micro_batch_size: 2, global_batch_size: 128, sequence_length: 8192, steps: 9, learning_rate: 1e-4, seed: 7}}
data: {{source: counting, seed: 7}}
thresholds: {json.dumps(bounds)}
platforms: {{p: {{gpu: mi300x, gpus_per_node: 8, framework: megatron}}}}
"""
    )
    problems = [problem.severity for problem in lint_file(path, Asked(), LAPTOP) if problem.code == "SY503"]
    assert problems == ([severity] if severity else [])


def start_of(cli: Any, volumes: dict[str, str]) -> tuple[str | None, list[str]]:
    """What start.sh copies, and the mounted libraries."""
    content = config(MEGATRON_N, 2)
    content["config"]["container_config"]["volume_dict"] = volumes
    path = Path("config.json")
    path.write_text(json.dumps(content))
    node = cli("plan", path, "--model", "llama3_1_8b", "--gpu", "mi300x", "--json").document["nodes"][0]
    script = next((file["content"] for file in node["files"] if file["path"] == "start.sh"), "")
    copied = next((line for line in script.splitlines() if line.startswith("cp ")), None)
    return copied, [word for word in node["container"]["argv"] if "libbnxt_re" in word]


def test_the_library_that_the_config_mounts_is_the_one_that_is_copied(cli: Any) -> None:
    fixed = (f"cp {LIBRARY}.host {LIBRARY}", [f"/usr/local/lib/libbnxt_re-rdmav34.so:{LIBRARY}.host"])
    assert start_of(cli, {"/data": "/data"}) == fixed
    assert start_of(cli, {"/usr/local/lib/libbnxt_re-rdmav34.so": f"{LIBRARY}.host"}) == fixed
    newer = "/usr/lib64/libibverbs/libbnxt_re-rdmav59.so"
    mount = {"/opt/bnxt/libbnxt_re-rdmav59.so": f"{newer}.host"}
    assert start_of(cli, mount) == (f"cp {newer}.host {newer}", [f"/opt/bnxt/libbnxt_re-rdmav59.so:{newer}.host"])
    in_place = {"/opt/bnxt/libbnxt_re-rdmav34.so": LIBRARY}
    assert start_of(cli, in_place) == (None, [f"/opt/bnxt/libbnxt_re-rdmav34.so:{LIBRARY}"])
