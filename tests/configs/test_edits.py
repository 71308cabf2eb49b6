"""--set reaches every key of every family of configs, so that no file has to be edited."""

import json
from pathlib import Path
from typing import Any

import pytest

import steelyard
from seeds import packaged_content
from steelyard.errors import InputError
from steelyard.experiment import packaged

MEGATRON = "mi3xx_megatron_llama_distributed.json"
JAX = "mi300x_distributed_llama3_1_70b.json"
ONE = ("--model", "llama3_1_8b", "--gpu", "mi300x")
OPEN = {
    "config.nnodes": "2",
    "config.master_address": "10.0.0.9",
    "config.training_iterations": "30",
    "config.nic_type": "thor2",
    "config.nccl_ib_hca_list": "bnxt_re0,bnxt_re1",
    "config.nccl_socket_ifname": "ens1",
    "config.gloo_socket_ifname": "ens1",
    "config.nccl_ib_gid_index": "3",
    "config.hf_token_file": "/secrets/hf",
    "config.log_dir": "/var/log/steelyard",
    "model_params.multi_node.llama3_1_8b.mi300x.result_dict": "null",
}


def words(settings: dict[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    path = tmp_path / MEGATRON
    path.write_text(packaged.text(MEGATRON.removesuffix(".json")))
    return path


def test_a_config_with_open_places_is_planned_without_an_edit(cli: Any, published: Path) -> None:
    before = published.read_bytes()
    assert cli("plan", published, *ONE).status == 2
    planned = cli("plan", published, *ONE, *words(OPEN), "--json")
    assert planned.status == 0, planned.document["error"]
    node, document = planned.document["nodes"][1], planned.document
    assert (len(document["nodes"]), document["job"]["steps"], document["thresholds"]) == (2, 30, [])
    assert node["env"]["NCCL_IB_HCA"] == "bnxt_re0,bnxt_re1"
    assert node["env"]["NCCL_SOCKET_IFNAME"] == "ens1"
    assert node["secrets"] == {"HF_TOKEN": "/secrets/hf"}
    assert node["directory"].startswith("/var/log/steelyard/")
    assert "10.0.0.9" in node["env"].values()
    assert document["values"]["training.steps"] == {"value": 30, "source": "set"}
    assert published.read_bytes() == before


def test_a_pointer_as_lint_prints_it_is_a_key(cli: Any, published: Path) -> None:
    volume = "/config/container_config/volume_dict/~1scratch~1a.b=/data"
    planned = cli("plan", published, *ONE, *words(OPEN), "--set", volume, "--json")
    assert "/scratch/a.b:/data" in planned.document["nodes"][0]["container"]["argv"]


def test_a_model_whose_name_has_dots_is_reached(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / JAX
    path.write_text(json.dumps(packaged_content(JAX)))
    key = "model_params.multi_node.llama3.1-70b.mi300x.decoder_block=mixtral"
    problems = cli("lint", path, "--set", key, "--json").document["problems"]
    assert "/model_params/multi_node/llama3.1-70b/mi300x/decoder_block" in [each["pointer"] for each in problems]


@pytest.mark.parametrize(
    "key",
    [
        "model_params.multi_node.llama3_8b.mi300x.precision",  # another model
        "model_params.multi_node.llama3_1_8b.mi355.precision",  # another GPU
        "thresholds",  # a key of the other family
        "/config/container_config/device_list/99",
    ],
)
def test_a_place_that_the_file_does_not_have_is_refused(cli: Any, published: Path, key: str) -> None:
    refused = cli("plan", published, *ONE, "--set", f"{key}=x", "--json")
    assert (refused.status, refused.document["error"]["key"]) == (2, key)


def test_a_misspelled_key_is_an_error_with_the_nearest_one(cli: Any, published: Path) -> None:
    refused = cli("plan", published, *ONE, *words(OPEN), "--set", "config.nic_typ=cx7", "--json")
    assert "nic_type" in refused.document["error"]["expected"]
    assert cli("plan", published, *ONE, "--set", "config.nic_typ=null").status == 2


def test_the_keys_outside_the_groups_of_an_experiment_file_are_reached(cli: Any) -> None:
    cli("init", "tiny-llama")
    settings = {"name": "other", "thresholds": "[tokens_per_s_per_gpu>=1]", "/training/steps": "7"}
    document = cli("plan", "tiny-llama.yaml", *words(settings), "--json").document
    assert (document["experiment"], document["thresholds"]) == ("other", ["tokens_per_s_per_gpu>=1"])
    assert document["values"]["training.steps"] == {"value": 7, "source": "set"}


def test_the_api_takes_the_same_keys(published: Path) -> None:
    planned = steelyard.plan(published, model="llama3_1_8b", gpu="mi300x", settings=OPEN)
    assert planned.plan.job.nodes == 2


def test_a_secret_is_refused_before_it_is_repeated(cli: Any, published: Path) -> None:
    refused = cli("plan", published, *ONE, "--set", "/config/container_config/env_dict/HF_TOKEN=hf_abcdefgh", "--json")
    assert refused.status == 2
    assert "hf_abcdefgh" not in refused.out + refused.err


def test_a_key_of_a_config_needs_the_config_when_a_log_is_imported() -> None:
    with pytest.raises(InputError) as refused:
        steelyard.ingest("train.log", settings={"config.nnodes": 2})
    assert refused.value.key == "config.nnodes"
