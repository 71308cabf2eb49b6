"""Every packaged config, on one node and on four, plans what it planned before.

After a change that is meant: STEELYARD_WRITE_GOLDEN=1 pytest tests/cli/test_golden_plans.py, and read the difference.
"""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from seeds import SEEDS, filled, packaged_content
from steelyard.configs.choose import Asked, readings
from steelyard.configs.files import read_config
from steelyard.experiment import packaged

GOLDEN = Path(__file__).parents[1] / "golden" / "plans"
CONFIGS = [name for name in packaged.DESCRIPTIONS if name != packaged.CLUSTER]


FITTING = {
    ("apples-to-apples", 4): [
        "--set",
        "parallelism.data_parallel_size=32",
        "--set",
        "training.gradient_accumulation_steps=1",
    ],
    ("gpt3_6.7b_megatron_deepspeed", 4): ["--set", "parallelism.data_parallel_size=16"],
}
"""What a file that states the layout of one node must be told for four."""


@pytest.fixture(autouse=True)
def _as_alice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "alice")


def written(name: str, nodes: int) -> Path:
    path = Path(packaged.file_name(name))
    if path.name in SEEDS:
        path.write_text(json.dumps(filled(packaged_content(path.name), nodes), indent=2))
    else:
        path.write_text(packaged.text(name))
    return path


def planned(cli: Any, name: str, nodes: int, *others: str) -> str:
    path = written(name, nodes)
    parts = []
    for reading in readings(read_config(path), Asked()):
        words = ["plan", path, *(["--platform", reading.platform] if reading.platform else [])]
        words += [] if path.name in SEEDS or nodes == 1 else ["--nodes", str(nodes)]
        words += FITTING.get((name, nodes), [])
        if reading.platform is None:
            words += ["--gpu", "cpu", "--gpus", "2"]
        told = cli(*words, *others)
        shown = shlex.join(["steelyard", *map(str, words), *others])
        page = re.split(r"(?m)^next: ", told.out)[0]  # what comes next depends on this machine
        parts.append(f"$ {shown}\n{page}{told.err}(status {told.status})\n")
    return "\n".join(parts).replace(sys.executable, "python")


@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_plan_is_the_one_that_is_kept(cli: Any, name: str, nodes: int) -> None:
    golden = GOLDEN / f"{name}-{nodes}.txt"
    text = planned(cli, name, nodes)
    if os.environ.get("STEELYARD_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize(
    "name", ["mi3xx_megatron_llama_distributed", "mi300x_singlenode_llama3_1_70b", "apples-to-apples"]
)
def test_the_script_is_the_one_that_is_kept(cli: Any, name: str) -> None:
    golden = GOLDEN / f"{name}-script.txt"
    text = planned(cli, name, 4 if "distributed" in name else 1, "--script")
    if os.environ.get("STEELYARD_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_the_folder_holds_no_plan_that_is_not_tested() -> None:
    kept = {path.name for path in GOLDEN.glob("*.txt") if not path.name.endswith("-script.txt")}
    assert kept == {f"{name}-{nodes}.txt" for name in CONFIGS for nodes in (1, 4)}


@pytest.mark.parametrize("name", SEEDS)
def test_every_node_has_its_own_command_in_the_document(cli: Any, name: str) -> None:
    path = written(name.removesuffix(".json"), 4)
    for reading in readings(read_config(path), Asked()):
        document = cli("plan", path, "--platform", reading.platform, "--json").document
        assert [node["host"] for node in document["nodes"]] == [f"node{rank}" for rank in range(4)]
        fleet = reading.section == "single_node"
        assert document["fleet"] is fleet
        assert [node["rank"] for node in document["nodes"]] == ([0] * 4 if fleet else [0, 1, 2, 3])
        for node in document["nodes"]:
            assert node["container"]["argv"][-len(node["argv"]) :] == node["argv"]
            assert node["secrets"] == {"HF_TOKEN": "/home/alice/.hf_token"}
            assert "HF_TOKEN" not in node["env"]
            listed = next(file["content"] for file in node["files"] if file["path"] == "environment")
            assert dict(line.split("=", 1) for line in listed.splitlines()) == node["env"]
