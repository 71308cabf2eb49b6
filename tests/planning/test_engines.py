"""Docker or Podman: the config says which, and the plan's commands are that engine's."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from seeds import filled, packaged_content
from steelyard.experiment import packaged
from steelyard.experiment.platform import EngineName
from steelyard.planning.container import ENGINES

SUITE = "mi3xx_megatron_llama_distributed.json"


def test_every_engine_that_a_config_may_name_is_in_the_table() -> None:
    assert tuple(ENGINES) == get_args(EngineName)


@pytest.fixture
def plan(cli: Any, tmp_path: Path) -> Any:
    def make(gpu: str, engine: str, *more: str) -> Any:
        platform = {
            "gpu": gpu,
            "gpus_per_node": 8,
            "framework": "megatron",
            "container": {"image": "lab/megatron:1", "engine": engine},
        }
        text = packaged.text("tiny-llama").partition("\nplatforms:")[0]
        (tmp_path / "job.yaml").write_text(f"{text}\nplatforms: {json.dumps({'here': platform})}\n")
        settings = ("--set", "training.global_batch_size=64", "--set", "data.source=counting")
        return cli("plan", tmp_path / "job.yaml", *settings, *more)

    return make


@pytest.mark.parametrize(
    ("gpu", "engine", "given"),
    [
        ("h100", "docker", ["--gpus all"]),
        ("h100", "podman", ["--device nvidia.com/gpu=all"]),
        ("mi300x", "docker", ["--group-add video --group-add render", "--device /dev/kfd"]),
        ("mi300x", "podman", ["--group-add keep-groups", "--device /dev/kfd"]),
    ],
)
def test_each_engine_gives_the_gpus_its_own_way(plan: Any, gpu: str, engine: str, given: list[str]) -> None:
    told = plan(gpu, engine, "--json")
    assert told.status == 0, told.err
    (node,) = json.loads(told.out)["nodes"]
    argv = " ".join(node["container"]["argv"])
    assert node["container"]["engine"] == engine
    assert argv.startswith(f"{engine} run --pull never")
    assert all(words in argv for words in given)
    assert ("--gpus" in argv) == (given == ["--gpus all"])


def test_what_podman_limits_and_passes_on_by_itself_is_said_otherwise(plan: Any) -> None:
    told = plan("h100", "podman", "--script")
    assert "\npodman run --rm" in told.out.replace(" \\\n    ", " ")
    for option in ("--security-opt label=disable", "--pids-limit -1", "--http-proxy=false"):
        assert option in told.out
    assert "--pids-limit" not in plan("h100", "docker", "--script").out


@pytest.mark.parametrize("given", [None, "podman"])
def test_a_config_of_the_suite_has_docker_unless_it_says_otherwise(cli: Any, tmp_path: Path, given: str | None) -> None:
    content = filled(packaged_content(SUITE), 2)
    if given is not None:
        content["config"]["container_config"]["engine"] = given
    (tmp_path / SUITE).write_text(json.dumps(content))
    told = cli("plan", tmp_path / SUITE, "--model", "llama3_1_8b", "--gpu", "mi300x", "--json")
    assert told.status == 0, told.err
    assert {node["container"]["argv"][0] for node in json.loads(told.out)["nodes"]} == {given or "docker"}


def test_an_engine_that_is_not_known_is_an_error(plan: Any) -> None:
    told = plan("h100", "enroot", "--json")
    assert told.status == 2
    assert "container.engine is 'enroot', expected one of docker, podman" in json.loads(told.out)["error"]["message"]
