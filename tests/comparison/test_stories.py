"""From two logs to an answer: at most three commands, and at most two flags per side."""

import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

import written_logs

ROOT = Path(__file__).parents[2]
PRIMUS = ROOT / "tests" / "traps" / "primus" / "clean-v0.7-gib-rank-max.log"
CASE = ROOT / "docs" / "cases" / "two-frameworks" / "runs.tar.gz"
EXPERIMENT = """
schema_version: 1
name: llama
model: {preset: llama3.1-8b}
training: {micro_batch_size: 2, global_batch_size: 128, sequence_length: 8192, steps: 40, learning_rate: 3.0e-4}
precision: {dtype: bf16}
data: {source: counting}
platforms:
  megatron: {gpu: h100, nodes: 1, gpus_per_node: 8, framework: megatron}
  primus: {gpu: mi300x, nodes: 1, gpus_per_node: 8, framework: primus}
  nemo: {gpu: h100, nodes: 1, gpus_per_node: 8, framework: nemo}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def observed(cli: Any, target: str, baseline: str) -> dict[str, Any]:
    """The ratio of one run per side: an observation, with the speed of both."""
    done = cli("compare", target, baseline, "--json")
    assert done.status == 5
    ratio = done.document["throughput_speedup"]
    assert ratio["outcome"] == "single_run"
    found: dict[str, Any] = ratio
    return found


def imported(cli: Any, name: str, *flags: str) -> None:
    done = cli("ingest", f"{name}.log", "--name", name, *flags)
    assert done.status == 0, done.err


@pytest.fixture
def megatron_logs(here: Path) -> list[str]:
    """Two real logs of one job with two seeds."""
    with tarfile.open(CASE) as runs:
        runs.extractall(here, [member for member in runs if member.name.endswith(".log")], filter="data")
    return ["megatron-1", "megatron-2"]


def test_two_logs_of_megatron(cli: Any, megatron_logs: list[str]) -> None:
    for name in megatron_logs:
        imported(cli, name, "--gpu", "h200", "--gpus", "1")
    assert observed(cli, *megatron_logs)["value"] == pytest.approx(78196 / 79216, rel=1e-3)


@pytest.mark.parametrize(("name", "rate"), [("megatron", 8622), ("nemo", 7700)])
def test_one_file_for_two_frameworks(cli: Any, here: Path, name: str, rate: float) -> None:
    """Primus prints no settings, and NeMo few: both are in the file that was run."""
    Path("both.yaml").write_text(EXPERIMENT)
    Path(f"{name}.log").write_text({"megatron": written_logs.megatron, "nemo": written_logs.nemo}[name]())
    Path("primus.log").write_text(PRIMUS.read_text())
    for side in (name, "primus"):
        imported(cli, side, "--config", "both.yaml")
    assert observed(cli, name, "primus")["value"] == pytest.approx(rate / 13480, rel=1e-3)


def test_one_corpus_on_two_mounts(cli: Any, megatron_logs: list[str]) -> None:
    for name, mount in zip(megatron_logs, ("/data", "/shared"), strict=True):
        log = Path(f"{name}.log")
        text = re.sub(r"(?m)^(  data_path \.+) None$", rf"\1 ['{mount}/c4_text_document']", log.read_text())
        log.write_text(re.sub(r"(?m)^(  mock_data \.+) True$", r"\1 False", text))
        imported(cli, name, "--gpu", "h200", "--set", "data.dataset=c4")
    observed(cli, *megatron_logs)
    document = cli("compare", *megatron_logs, "--for", "convergence", "--json").document
    reasons = document["comparable"]["convergence"]["reasons"]
    effects = {key: reason["effect"] for reason in reasons for key in reason["keys"] if key.startswith("data.")}
    assert effects["data.path"] == "caveat"
    assert "blocks" not in effects.values()
