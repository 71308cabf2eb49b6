"""steelyard lint as a person meets it."""

import json
from pathlib import Path
from typing import Any

import pytest

from seeds import filled, packaged_content
from steelyard.experiment import packaged

MEGATRON, MEGATRON_N = "mi3xx_megatron_llama_single.json", "mi3xx_megatron_llama_distributed.json"


def write(name: str, content: Any) -> Path:
    path = Path(name)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return path


def test_a_missing_file_among_others_is_a_problem_and_the_others_are_still_linted(cli: Any) -> None:
    good = write(MEGATRON, filled(packaged_content(MEGATRON), 1))
    told = cli("lint", good, "gone.json", "--json")
    assert told.status == 2
    assert [
        (problem["file"], problem["code"]) for problem in told.document["problems"] if problem["severity"] == "error"
    ] == [("gone.json", "SY101")]
    alone = cli("lint", "gone.json", "--json")
    assert alone.document["error"]["message"].startswith("gone.json: no such file")


def test_broken_syntax_names_its_line(cli: Any) -> None:
    broken = write("broken.json", '{\n "config": {},\n}')
    (problem,) = cli("lint", broken, "--json").document["problems"]
    assert (problem["code"], problem["line"]) == ("SY101", 3)


def test_what_is_no_training_config_is_not_taken_for_one(cli: Any) -> None:
    package = write("package.json", {"name": "x", "version": "1.0.0", "scripts": {}})
    (problem,) = cli("lint", package, "--json").document["problems"]
    assert problem["code"] == "SY111"


def test_a_misspelt_key_is_one_problem(cli: Any) -> None:
    content = filled(packaged_content(MEGATRON_N), 4)
    content["config"]["nccl_socket_ifnam"] = content["config"].pop("nccl_socket_ifname")
    problems = cli("lint", write("c.json", content), "--json").document["problems"]
    assert [problem["code"] for problem in problems if problem["severity"] == "error"] == ["SY102"]


@pytest.mark.parametrize("name", ["10.0.0.1", "eth0;rm", "<eth0>"])
def test_an_interface_is_a_name(cli: Any, name: str) -> None:
    content = filled(packaged_content(MEGATRON_N), 4, nccl_socket_ifname=name)
    told = cli("lint", write("c.json", content), "--model", "llama3_1_8b", "--gpu", "mi300x", "--json")
    (problem,) = [one for one in told.document["problems"] if one["severity"] == "error"]
    assert (problem["code"], problem["pointer"]) == ("SY103", "/config/nccl_socket_ifname")


def test_the_next_step_is_one_that_works(cli: Any) -> None:
    """Open places are filled, else the most frequent error explained, else the plan asked for with the same options."""
    open_places = write(MEGATRON, packaged.text(MEGATRON.removesuffix(".json")))
    words = ("--model", "llama3_1_8b", "--gpu", "mi300x")
    last = cli("lint", open_places, *words).out.splitlines()[-1]
    assert last == f"next: steelyard lint {MEGATRON} --model llama3_1_8b --gpu mi300x --fill"
    clean = write(MEGATRON, filled(packaged_content(MEGATRON), 1))
    last = cli("lint", clean, *words, "--set", "training.steps=3").out.splitlines()[-1]
    assert last == f"next: steelyard plan {MEGATRON} --model llama3_1_8b --gpu mi300x --set training.steps=3"
    assert cli(*last.split()[2:]).status == 0


def test_a_cluster_file_is_shown_and_is_no_config(cli: Any) -> None:
    cluster = write("cluster.yaml", "hosts: [10.0.0.1-3]\nuser: me\n")
    assert cli("lint", cluster).out.splitlines() == [
        "cluster.yaml: 3 hosts, user me: 10.0.0.1, 10.0.0.2, 10.0.0.3",
        "next: steelyard preflight --cluster cluster.yaml",
    ]
    refused = cli("plan", cluster)
    assert refused.status == 2
    assert "is a cluster file, expected a training config" in refused.err


def test_what_the_cluster_file_says_need_not_be_filled(cli: Any) -> None:
    content = filled(packaged_content(MEGATRON_N), 4, master_address="<changeme>", nnodes="<changeme>")
    cluster = write("cluster.yaml", "hosts: [10.0.0.5-8]\n")
    words = ("--model", "llama3_1_8b", "--gpu", "mi300x", "--cluster", cluster)
    planned = cli("plan", write("c.json", content), *words, "--json").document
    assert {node["env"]["MASTER_ADDR"] for node in planned["nodes"]} == {"10.0.0.5"}
    assert planned["job"]["nodes"] == 4


def test_a_framework_of_one_vendor_refuses_the_other_s_gpus(cli: Any) -> None:
    table = write("apples-to-apples.yaml", packaged.text("apples-to-apples"))
    told = cli("lint", table, "--platform", "nvidia", "--gpu", "mi300x", "--json")
    (problem,) = [one for one in told.document["problems"] if one["severity"] == "error"]
    assert (problem["code"], problem["pointer"]) == ("SY107", "/platforms/nvidia/gpu")


def test_a_plan_says_what_decided_each_value(cli: Any) -> None:
    clean = write(MEGATRON, filled(packaged_content(MEGATRON), 1))
    words = ("--model", "llama3_1_8b", "--gpu", "mi300x")
    values = cli("plan", clean, *words, "--json").document["values"]
    assert values["training.learning_rate"] == {"value": 0.0001, "source": "script train_llama3.sh"}
    assert values["training.global_batch_size"] == {"value": 128, "source": "config"}
    shown = cli("plan", clean, *words).out
    assert "llama3_1_8b: 8 x mi300x, megatron, fp8" in shown
    assert "  steps             30\n" in shown
    assert "  batch per step    128 sequences x 8,192 tokens = 1,048,576 tokens\n" in shown
    assert "  layout            DP 8, micro-batch 2\n" in shown
    assert "not in the file, set by train_llama3.sh: " in shown
