"""What once got through: wrong files called clean, right ones called wrong, values lost on the way to a plan."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from seeds import filled, packaged_content

MEG, MEG_N = "mi3xx_megatron_llama_single.json", "mi3xx_megatron_llama_distributed.json"
JAX_N = "mi300x_distributed_llama3_1_70b.json"
ONE = ("--model", "llama3_1_8b", "--gpu", "mi300x")
YAML = """
schema_version: 1
name: x
model: {preset: llama3.1-8b}
training: {micro_batch_size: 1, global_batch_size: 64, sequence_length: 2048, steps: 30, learning_rate: 1e-4, seed: 7}
data: {source: counting, seed: 7}
platforms:
  p: {gpu: mi300x, gpus_per_node: 8, framework: megatron}
"""


def config(name: str, nodes: int = 1, **edits: Any) -> Path:
    """A filled config with `a__b__c=value` put at a/b/c."""
    content = filled(packaged_content(name), nodes)
    for place, value in edits.items():
        *parents, last = place.split("__")
        here = content
        for key in parents:
            here = here.setdefault(key, {})
        here[last] = value
    path = Path("c.json")
    path.write_text(json.dumps(content))
    return path


def yaml(**edits: str) -> Path:
    """The experiment with lines put into its platform, or replaced."""
    text = YAML
    for old, new in edits.items():
        text = text.replace({"platform": "framework: megatron", "training": "steps: 30"}[old], new)
    path = Path("x.yaml")
    path.write_text(text)
    return path


def errors(cli: Any, *words: Any) -> set[tuple[str, str]]:
    problems = cli("lint", *words, "--json").document["problems"]
    return {(problem["code"], problem["pointer"]) for problem in problems if problem["severity"] == "error"}


def node(cli: Any, *words: Any) -> dict[str, Any]:
    document = cli("plan", *words, "--json").document
    assert "error" not in document, document["error"]["message"]
    found: dict[str, Any] = document["nodes"][0]
    return found


def test_variables_of_a_container_reach_the_plan(cli: Any) -> None:
    env = {"NCCL_ALGO": "Ring", "HOME_OF": "{user}", "MASTER_PORT": "7777"}
    path = config(MEG_N, 2, config__container_config__env_dict=env)
    found = node(cli, path, *ONE, "--set", "training.seed=1234")
    assert found["env"]["NCCL_ALGO"] == "Ring"
    assert "{" not in found["env"]["HOME_OF"]
    assert found["env"]["MASTER_PORT"] == "7777"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"FOO": "<changeme>"}, "SY110"),
        ({"FOO": "{nobody}"}, "SY110"),
        ({"FOO": None}, "SY103"),
        ({"FOO": ["x"]}, "SY103"),
        ({"F O": "x"}, "SY103"),
        ({"FOO": "a\nLD_PRELOAD=/x"}, "SY103"),
        ({"HF_TOKEN": "hf_abc"}, "SY119"),
        ({"BS": "64"}, "SY120"),
    ],
)
def test_a_variable_that_cannot_be_passed_on_is_an_error(cli: Any, env: dict[str, Any], expected: str) -> None:
    found = errors(cli, config(MEG, config__container_config__env_dict=env), *ONE)
    assert {code for code, _ in found} == {expected}
    assert all(pointer.startswith("/config/container_config/env_dict") for _, pointer in found)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("config__container_image", "--privileged"),
        ("config__container_image", "a b"),
        ("config__container_name", "a b"),
        ("config__shm_size", "lots"),
        ("config__log_dir", "~/logs"),
        ("config__hf_token_file", "token"),
        ("config__container_config__device_list", ["<changeme>"]),
        ("config__container_config__device_list", ["--privileged"]),
        ("config__container_config__volume_dict", {"/a": None}),
        ("config__container_config__volume_dict", {"/data/<changeme>": "/data"}),
        ("config__container_config__volume_dict", {"relative": "/data"}),
    ],
)
def test_what_an_engine_or_a_shell_would_misread_is_an_error(cli: Any, key: str, value: Any) -> None:
    assert {code for code, _ in errors(cli, config(MEG, **{key: value}), *ONE)} <= {"SY103", "SY110"}
    assert errors(cli, config(MEG, **{key: value}), *ONE)


def test_a_variable_s_name_is_never_shell_text(cli: Any) -> None:
    path = yaml(platform="framework: megatron, env: {'A; touch x; B': y}")
    refused = cli("plan", path, "--script")
    assert refused.status == 2
    assert "is not the name of a variable" in refused.err


@pytest.mark.parametrize(
    ("bound", "code"),
    [
        ("tokens_per_s_per_gpu<=100000", None),
        ("step_time_s>=0.001", None),
        ("mfu<=1.5", None),
        ("tokens_per_s_per_gpu>=100000", "SY501"),
        ("step_time_s<=0.001", "SY501"),
        ("mfu>=1.5", "SY501"),
        ("memory_peak_gib>=500", "SY501"),
        ("memory_peak_gib<=500", None),
    ],
)
def test_a_bound_is_held_to_the_peak_in_its_direction(cli: Any, bound: str, code: str | None) -> None:
    path = yaml()
    path.write_text(f"{path.read_text()}thresholds: ['{bound}']\n")
    assert {found for found, _ in errors(cli, path)} == ({code} if code else set())


def test_a_looser_time_beside_a_throughput_is_no_contradiction(cli: Any) -> None:
    results = {"tokens_per_gpu": "6500", "elapsed_time_per_iteration": "30000"}
    place = "model_params__single_node__llama3_1_8b__mi300x__result_dict"
    assert errors(cli, config(MEG, **{place: results}), *ONE) == set()


def test_the_head_may_be_called_by_its_other_address(cli: Any) -> None:
    Path("cluster.json").write_text(json.dumps({"node_dict": {"gpuA": {"vpc_ip": "10.0.0.1"}, "gpuB": {}}}))
    assert errors(cli, config(MEG_N, 2), *ONE, "--cluster", "cluster.json") == set()


def test_variables_of_the_cluster_file_reach_the_plan(cli: Any) -> None:
    Path("cluster.json").write_text(json.dumps({"node_dict": {"10.0.0.1": {}, "b": {}}, "env_vars": {"ROCM": "/opt"}}))
    found = node(cli, config(MEG_N, 2), *ONE, "--cluster", "cluster.json")
    assert (found["env"]["ROCM"], found["env_sources"]["ROCM"]) == ("/opt", "the cluster file")


def test_a_fleet_of_another_size_than_the_file_says_is_refused(cli: Any) -> None:
    Path("cluster.yaml").write_text("hosts: [a, b]\n")
    path = config(MEG, 4)
    assert errors(cli, path, *ONE, "--cluster", "cluster.yaml") == {("SY601", "/config/nnodes")}
    wrong = ("--set", "parallelism.tensor_parallel_size=3")
    refused = cli("plan", path, *ONE, "--cluster", "cluster.yaml", *wrong).err
    assert " more problem" in refused
    assert refused.endswith(f": steelyard lint {path} {shlex.join((*ONE, '--cluster', 'cluster.yaml', *wrong))}\n")


def test_a_file_of_both_sections_may_call_itself_distributed(cli: Any) -> None:
    path = config(MEG_N, 4, config__distributed_training="True")
    content = json.loads(path.read_text())
    content["model_params"]["single_node"] = filled(packaged_content(MEG), 1)["model_params"]["single_node"]
    path.write_text(json.dumps(content))
    assert errors(cli, path) == set()


@pytest.mark.parametrize(
    "edits",
    [
        {"model_params__single_node__llama3_1_8b__mi300x__global_batch_size": "256"},
    ],
)
def test_copies_are_held_together_on_one_node_too(cli: Any, edits: dict[str, str]) -> None:
    assert {code for code, _ in errors(cli, config(MEG, **edits), *ONE)} == {"SY113"}


@pytest.mark.parametrize(
    "env",
    [
        {"NCCL_SOCKET_IFNAME": "eth9"},
        {"NCCL_IB_HCA": "mlx5_0"},
        {"MASTER_ADDR": "9.9.9.9"},
    ],
)
def test_a_variable_and_a_key_of_one_fact_are_held_together(cli: Any, env: dict[str, str]) -> None:
    path = config(MEG_N, 2, config__container_config__env_dict=env)
    assert ("SY113", f"/config/container_config/env_dict/{next(iter(env))}") in errors(cli, path, *ONE)


def test_a_duplicate_is_said_beside_what_stops_the_reading(cli: Any) -> None:
    Path("c.json").write_text('{"config":{},"config":{"training_iterations":"1"},"model_params":{}}')
    assert {code for code, _ in errors(cli, "c.json")} == {"SY109", "SY104"}


def test_a_tokenizer_of_another_vocabulary_is_an_error(cli: Any) -> None:
    for name in ("gpt2", "Qwen/Qwen2.5-7B"):
        assert ("SY305", "/data/tokenizer") in errors(cli, yaml(), "--set", f"data.tokenizer={name}")
    assert errors(cli, yaml(), "--set", "data.tokenizer=meta-llama/Llama-3.1-8B") == set()


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        (["training.checkpointing=true", "training.tracking=true"], ["--save", "--tensorboard-dir"]),
        (
            ["precision.dtype=fp16", "precision.loss_scale=dynamic", "precision.grad_reduce_in_fp32=true"],
            ["--fp16", "--accumulate-allreduce-grads-in-fp32"],
        ),
        (["training.learning_rate=1.23456789e-4"], ["0.000123456789"]),
    ],
)
def test_megatron_is_told_all_of_it(cli: Any, settings: list[str], flags: list[str]) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    argv = node(cli, yaml(), *words)["argv"]
    assert set(flags) <= set(argv)


@pytest.mark.parametrize(
    "setting",
    [
        "parallelism.fsdp_size=4",
        "kernels.use_turbo_attention=true",
        "data.tokenizer_type=Bogus",
        "data.samples=64",
        "model.rope_scaling.low_freq_factor=2",
    ],
)
def test_megatron_refuses_what_it_has_no_argument_for(cli: Any, setting: str) -> None:
    assert "SY107" in {code for code, _ in errors(cli, yaml(), "--set", setting)}


@pytest.mark.parametrize(
    ("platform", "pointer"),
    [
        ("framework: megatron, options: {lr: 5}", "/platforms/p/options"),
        ("framework: primus, options: {train_iters: 7}", "/platforms/p/options"),
        ("framework: maxtext, script: train_llama3.sh", "/platforms/p/script"),
        ("framework: native, cache_dir: /c", "/platforms/p/cache_dir"),
    ],
)
def test_what_a_framework_would_ignore_or_take_twice_is_refused(cli: Any, platform: str, pointer: str) -> None:
    assert ("SY107", pointer) in errors(cli, yaml(platform=platform))


def test_a_problem_of_an_override_points_at_the_override(cli: Any) -> None:
    path = yaml(platform="framework: megatron, overrides: {training: {global_batch_size: 63}}")
    assert errors(cli, path) == {("SY203", "/platforms/p/overrides/training/global_batch_size")}


def test_messages_name_the_file_s_own_keys(cli: Any) -> None:
    path = config(JAX_N, 2, **{"model_params__multi_node__llama3.1-70b__mi300x__max_target_length": "0"})
    problems = cli("lint", path, "--json").document["problems"]
    (message,) = [one["message"] for one in problems if one["code"] == "SY103"]
    assert message.startswith("max_target_length is 0")


def test_the_change_that_fits_does_fit(cli: Any) -> None:
    path = yaml()
    words = ("--set", "model.preset=llama3.1-70b")
    (problem,) = [one for one in cli("lint", path, *words, "--json").document["problems"] if one["code"] == "SY402"]
    fix = problem["fix"].partition(", which needs")[0].split()
    after = cli("lint", path, *words, *fix, "--json").document["problems"]
    assert "SY402" not in {one["code"] for one in after}, problem["fix"]


def cluster(**others: Any) -> Path:
    path = Path("cluster.json")
    path.write_text(json.dumps({"node_dict": {"10.0.0.1": {}, "10.0.0.2": {}}, **others}))
    return path


def test_the_cluster_file_s_variables_are_the_weakest_and_hold_no_secret(cli: Any) -> None:
    where = cluster(env_vars={"BS": "1", "MASTER_ADDR": "localhost", "NCCL_IB_TIMEOUT": "5", "MINE": "x"})
    env = node(cli, config(MEG_N, 2), *ONE, "--cluster", where)["env"]
    assert (env["BS"], env["MASTER_ADDR"], env["NCCL_IB_TIMEOUT"], env["MINE"]) == ("128", "10.0.0.1", "30", "x")
    secret = cluster(env_vars={"HF_TOKEN": "hf_abc"})
    assert errors(cli, secret) == {("SY119", "/env_vars/HF_TOKEN")}
    refused = cli("plan", config(MEG_N, 2), *ONE, "--cluster", secret, "--json")
    assert (refused.status, refused.document["error"]["key"]) == (2, "env_vars.HF_TOKEN")
    assert "hf_abc" not in refused.out
    assert cli("lint", cluster(env_vars={"A": "x\nB=y"})).status == 2


def test_the_config_s_variables_beat_the_network_cards_own(cli: Any) -> None:
    env = {"NCCL_IB_TIMEOUT": "22", "NCCL_CUMEM_ENABLE": "0"}
    found = node(cli, config(MEG_N, 2, config__container_config__env_dict=env), *ONE)["env"]
    assert {name: found[name] for name in env} == env


def test_a_variable_that_differs_by_node_cannot_be_given(cli: Any) -> None:
    path = yaml(platform="framework: primus, nodes: 2, env: {NODE_RANK: '0', MASTER_ADDR: localhost}")
    found = errors(cli, path)
    assert {("SY120", "/platforms/p/env/NODE_RANK"), ("SY120", "/platforms/p/env/MASTER_ADDR")} <= found


@pytest.mark.parametrize(
    "setting",
    [
        "training.recompute=selective",
        "precision.fp8=e4m3",
        "kernels.nvte_fused_attn=1",
        "kernels.persist_layer_norm=false",
        "precision.fp32_residual_connection=true",
        "training.tracking=true",
        "model.norm_epsilon=1e-6",
        "model.num_layers=16",
        "data.split='90,5,5'",
        "parallelism.overlap_param_gather=false",
        "parallelism.distributed_optimizer=false",
        "model.rope_theta=500000.0",
    ],
)
def test_a_launch_script_refuses_what_it_cannot_be_told(cli: Any, setting: str) -> None:
    assert "SY107" in {code for code, _ in errors(cli, config(MEG), *ONE, "--set", setting)}


@pytest.mark.parametrize(
    "setting",
    ["training.init_method_std=0.5", "parallelism.overlap_grad_reduce=true", "parallelism.distributed_optimizer=true"],
)
def test_maxtext_refuses_what_it_has_no_knob_for(cli: Any, setting: str) -> None:
    assert "SY107" in {code for code, _ in errors(cli, config(JAX_N, 2), "--set", setting)}


@pytest.mark.parametrize(
    "options",
    [
        "framework: megatron, options: {hidden-dropout: 0.5}",
        "framework: megatron, options: {make_vocab_size_divisible_by: 1}",
        "framework: primus, options: {group_query_attention: false}",
    ],
)
def test_an_option_may_not_say_what_the_plan_says(cli: Any, options: str) -> None:
    assert ("SY107", "/platforms/p/options") in errors(cli, yaml(platform=options))


@pytest.mark.parametrize(
    "lines",
    [
        'framework: megatron, network: {head: "h\\nE=1"}',
        'framework: megatron, network: {hcas: ["x\\nE=2"]}',
        'framework: megatron, overrides: {data: {tokenizer: "a/b\\nE=1"}}',
        "framework: megatron, log_dir: '/a:b'",
    ],
)
def test_no_value_is_two_lines_or_two_paths(cli: Any, lines: str) -> None:
    assert "SY103" in {code for code, _ in errors(cli, yaml(platform=lines))}


def test_a_host_is_never_shell_text(cli: Any) -> None:
    path = Path("cluster.yaml")
    path.write_text('hosts: ["fe80::1%a\\ntouch PWNED #", gpu02]\n')
    assert cli("lint", path).status == 2


def test_a_suite_config_in_yaml_is_read_and_its_odd_keys_refused(cli: Any) -> None:
    from ruamel.yaml import YAML

    path = Path("c.yaml")
    with path.open("w") as file:
        YAML(typ="safe", pure=True).dump(filled(packaged_content(MEG), 1), file)
    assert errors(cli, path) == set()
    assert "--fill needs a JSON config" in cli("lint", path, "--fill").err
    path.write_text("config: {7: 8, training_iterations: 3}\nmodel_params: {}\n")
    assert {code for code, _ in errors(cli, path)} == {"SY101"}


def test_a_next_step_never_leads_back(cli: Any) -> None:
    unknown = config(MEG, config__log_dir="/{foo}/x")
    assert cli("lint", unknown, *ONE).out.splitlines()[-1] == "next: steelyard explain SY110"
    open_host = cluster(node_dict={"<changeme>": {}})
    assert cli("lint", open_host).out.splitlines()[-1] == "next: steelyard explain SY110"
    (problem,) = cli("lint", yaml(platform="framework: primus, options: {lr: 5}"), "--json").document["problems"]
    assert problem["fix"].endswith("steelyard explain lr")
    assert "training.learning_rate" in cli("explain", "lr").out


def test_the_lines_that_start_a_script_log_in_as_the_cluster_says(cli: Any) -> None:
    path = Path("cluster.yaml")
    path.write_text("hosts: [10.0.0.1, b]\nuser: me\nport: 2222\nkey_file: /k\n")
    told = cli("plan", config(MEG_N, 2), *ONE, "--cluster", path, "--script").out
    assert "#   ssh -p 2222 -i /k -l me b bash -s 1 < run.sh" in told
