"""MaxText is told what the experiment means, whatever the file says under MaxText's own names."""

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from seeds import filled, packaged_content
from steelyard.frameworks.facts import ShareOf
from steelyard.frameworks.maxtext.facts import FACTS
from steelyard.frameworks.maxtext.plan import warmup_fraction

NAME = "mi300x_distributed_llama3_1_70b.json"
BASE = """
schema_version: 1
name: x
model: {preset: llama3.1-8b}
training: {micro_batch_size: 1, global_batch_size: %d, sequence_length: 2048, steps: 30, learning_rate: 1e-4,
           warmup_steps: 10, recompute: full}
parallelism: {tensor_parallel_size: %d, fsdp_size: %d}
data: {source: uniform}
platforms: {p: {gpu: mi300x, nodes: %d, gpus_per_node: 8, framework: maxtext}}
"""


def told(cli: Any, path: Path, *settings: str) -> dict[str, Any]:
    words = [word for setting in settings for word in ("--set", setting)]
    document = cli("plan", path, *words, "--json").document
    assert "error" not in document, document["error"]["message"]
    text = next(file["content"] for file in document["nodes"][0]["files"] if file["path"] == "maxtext.yml")
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return found


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    path.write_text(json.dumps(filled(packaged_content(NAME), 2)))
    return path


def put(path: Path, **params: Any) -> None:
    content = json.loads(path.read_text())
    content["model_params"]["multi_node"]["llama3.1-70b"]["mi300x"] |= params
    path.write_text(json.dumps(content))


def test_what_the_file_says_is_passed_on_as_it_stands(cli: Any, config: Path) -> None:
    put(config, quantization="nanoo_fp8", warmup_steps_fraction="0.25", learning_rate_schedule_steps="100")
    found = told(cli, config)
    assert found["quantization"] == "nanoo_fp8"
    assert found["warmup_steps_fraction"] == 0.25
    assert found["learning_rate_schedule_steps"] == 100
    assert "attention" in found
    assert "learning_rate" not in found  # left to MaxText, which the plan says


def test_a_share_that_the_file_leaves_open_is_the_one_of_the_facts(
    cli: Any, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads(config.read_text())
    params = content["model_params"]["multi_node"]["llama3.1-70b"]["mi300x"]
    for name in ("learning_rate_final_fraction", "cosine_learning_rate_final_fraction", "warmup_steps_fraction"):
        params.pop(name, None)
    config.write_text(json.dumps(content))
    rate, steps = ShareOf("training.learning_rate", 0.25), ShareOf("training.steps", 0.5)
    defaults: Any = FACTS.silent_defaults
    monkeypatch.setitem(defaults, "training.min_learning_rate", rate)
    monkeypatch.setitem(defaults, "training.warmup_steps", steps)
    values = {key: value["value"] for key, value in cli("plan", config, "--json").document["values"].items()}
    assert values["training.min_learning_rate"] == pytest.approx(values["training.learning_rate"] / 4)
    assert values["training.warmup_steps"] == values["training.steps"] // 2


def test_a_setting_beats_the_file_s_own_name_for_it(cli: Any, config: Path) -> None:
    assert told(cli, config, "training.recompute=selective")["remat_policy"] == "minimal_with_context"
    assert told(cli, config, "kernels.use_flash_attn=false")["attention"] == "dot_product"
    corpus = told(cli, config, "data.source=tokens", "data.path=/data/c4/*.parquet")
    assert (corpus["dataset_type"], corpus["hf_train_files"]) == ("hf", "/data/c4/*.parquet")
    meshed = told(cli, config, "parallelism.tensor_parallel_size=8", "parallelism.fsdp_size=2")
    assert (meshed["ici_tensor_parallelism"], meshed["ici_fsdp_parallelism"], meshed["dcn_fsdp_parallelism"]) == (
        8,
        1,
        2,
    )
    assert cli("plan", config, "--set", "training.recompute=none").status == 2


def test_a_key_that_the_plan_states_cannot_be_an_option(cli: Any, config: Path) -> None:
    put(config, steps="7")
    refused = cli("lint", config, "--json")
    assert refused.status == 2
    assert [(one["code"], one["pointer"]) for one in refused.document["problems"] if one["severity"] == "error"] == [
        ("SY113", "/model_params/multi_node/llama3.1-70b/mi300x/steps")
    ]


@pytest.mark.parametrize(
    ("nodes", "tensor", "sharded", "mesh"),
    [
        (1, 1, 8, (1, 8, 1, 1, 1)),
        (1, 2, 4, (2, 4, 1, 1, 1)),
        (3, 1, 12, (1, 4, 2, 3, 1)),
        (3, 1, 6, (1, 2, 4, 3, 1)),
        (4, 8, 1, (8, 1, 1, 1, 4)),
        (2, 1, 16, (1, 8, 1, 2, 1)),
    ],
)
def test_the_meshes_are_the_hardware(
    cli: Any, tmp_path: Path, nodes: int, tensor: int, sharded: int, mesh: tuple[int, ...]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(BASE % (8 * nodes, tensor, sharded, nodes))
    found = told(cli, path)
    keys = ("ici_tensor", "ici_fsdp", "ici_data", "dcn_fsdp", "dcn_data")
    assert tuple(found[f"{key}_parallelism"] for key in keys) == mesh


@pytest.mark.parametrize(("nodes", "tensor", "sharded"), [(2, 16, 1), (3, 1, 16)])
def test_a_mesh_that_cannot_be_is_refused(cli: Any, tmp_path: Path, nodes: int, tensor: int, sharded: int) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(BASE % (8 * nodes, tensor, sharded, nodes))
    assert cli("plan", path).status == 2


def test_what_is_expected_is_what_maxtext_does(cli: Any, tmp_path: Path) -> None:
    """Weights start by fan-in, one batch is given every step, and only fsdp_size shards the optimizer."""
    path = tmp_path / "x.yaml"
    path.write_text(BASE % (8, 1, 1, 1))
    planned = cli("plan", path, "--json").document
    assert planned["expected"]["first_loss"] == pytest.approx(12.262, abs=1e-3)
    assert planned["expected"]["loss_floor"] is None
    parts = planned["expected"]["memory_gib_by_component"]
    assert parts["optimizer"] == pytest.approx(2 * parts["weights"])
    assert planned["values"]["training.init_method_std"]["source"] == "default of maxtext"
    assert told(cli, path)["model_name"] == "llama3.1-8b"  # under which MaxText stretches rotary frequencies
    assert told(cli, path, "model.rope_scaling=null")["rope_use_scale"] is False


@pytest.mark.parametrize(("warmup", "steps"), [(10, 30), (1, 3), (7, 100), (0, 5), (29, 30), (333, 1000)])
def test_a_share_of_the_steps_rounds_down_to_the_steps_meant(warmup: int, steps: int) -> None:
    assert int(warmup_fraction(warmup, steps) * steps) == warmup


def test_on_cpus_a_config_for_gpus_gets_the_mesh_and_the_variables_of_cpus(cli: Any, config: Path) -> None:
    """MaxText sees one slice of CPUs on however many nodes, and finds its peers under names of its own."""
    put(config, result_dict={})
    small = ("num_layers=2", "hidden_size=64", "ffn_hidden_size=96", "num_attention_heads=8", "head_dim=8")
    settings = [word for setting in small for word in ("--set", f"model.{setting}")]
    arguments = ("plan", config, "--gpu", "cpu", "--set", "kernels.use_flash_attn=false", *settings)
    nodes = cli(*arguments, "--json").document["nodes"]
    yaml = YAML(typ="safe").load(next(one["content"] for one in nodes[0]["files"] if one["path"] == "maxtext.yml"))
    axes = {key: value for key, value in yaml.items() if key.startswith(("ici_", "dcn_"))}
    assert (yaml["hardware"], axes.pop("ici_fsdp_parallelism")) == ("cpu", 16)
    assert set(axes.values()) == {1}
    assert "ici_sequence_parallelism" not in axes  # the file's own, whose place ours takes
    assert [node["env"]["JOB_COMPLETION_INDEX"] for node in nodes] == ["0", "1"]
    assert {node["env"]["JAX_NUM_CPU_DEVICES"] for node in nodes} == {"8"}
    assert {node["env"]["JAX_PROCESS_COUNT"] for node in nodes} == {"2"}
    assert "2 nodes x 8 cpu = 16 ranks, maxtext" in cli(*arguments).out
