"""What nodes print becomes one record: whose steps count, which are kept beside, and what is hidden."""

from pathlib import Path
from typing import Any

import pytest

from steelyard import records, runner
from steelyard.experiment import Asked, one_reading, resolve
from steelyard.experiment.files import read_mapping, with_family
from steelyard.hardware.machine import Machine
from steelyard.runner.plan import Plan
from steelyard.runner.recording import Recording

CONFIG = """
schema_version: 1
name: two
model: {preset: tiny-llama}
training: {micro_batch_size: 2, global_batch_size: 8, sequence_length: 64, steps: 3, learning_rate: 1e-3}
precision: {dtype: fp32}
data: {source: markov, samples: 100}
platforms:
  lab: {gpu: cpu, nodes: 2, gpus_per_node: 1, container: {image: "trainer:1"}}
"""
LINE = (
    "step: {step}/3 | loss: {loss} | grad_norm: 1.0 | learning_rate: 0.001 | step_time_s: 0.5 | tokens: 512 |"
    " tokens_per_s_per_gpu: 512.0 | memory_gib: 0.1 | memory_kind: process_rss_peak | time: 2026-01-20T10:00:00+00:00\n"
)


@pytest.fixture
def made(tmp_path: Path) -> Any:
    (tmp_path / "two.yaml").write_text(CONFIG)
    reading = one_reading(with_family(read_mapping(tmp_path / "two.yaml")), Asked(hosts=("gpu01", "gpu02")))
    return runner.make_plan(resolve(reading, (), None, None), Machine((), 2), Asked(hosts=("gpu01", "gpu02")))


def recorded(made: Any, tmp_path: Path) -> tuple[Recording, Plan, Any]:
    writer = runner.new_run(made.plan, made.case, tmp_path / "runs", "one", ["steelyard"])
    return Recording(made.plan, made.case, writer, lambda found: None), made.plan, writer


def line(step: int, loss: float) -> bytes:
    return LINE.format(step=step, loss=loss).encode()


def test_the_first_node_that_reports_speaks_for_the_run_whoever_is_heard_first(made: Any, tmp_path: Path) -> None:
    recording, plan, writer = recorded(made, tmp_path)
    first, second = (recording.of_node(node) for node in plan.nodes)
    for step in (1, 2, 3):
        second.feed(line(step, 2.0))
        first.feed(line(step, 1.0))
    first.end()
    second.end()
    writer.finish("completed", 0, None)
    run = tmp_path / "runs" / "one"
    assert [(step.step, step.loss, step.node) for step in records.steps(run)] == [
        (step, 1.0, "gpu01") for step in (1, 2, 3)
    ]
    tables = records.node_tables(run)
    assert {name: table.loss.values.tolist() for name, table in tables.items()} == {
        "gpu01": [1.0] * 3,
        "gpu02": [2.0] * 3,
    }


def test_a_node_that_alone_reports_is_the_run(made: Any, tmp_path: Path) -> None:
    recording, plan, writer = recorded(made, tmp_path)
    first, second = (recording.of_node(node) for node in plan.nodes)
    second.feed(line(1, 2.0))
    first.end()
    second.end()
    writer.finish("failed", 1, None)
    run = tmp_path / "runs" / "one"
    assert [step.node for step in records.steps(run)] == ["gpu02"]
    assert not (run / "nodes.jsonl").exists()


def test_a_secret_is_hidden_wherever_it_stands(made: Any, tmp_path: Path) -> None:
    recording, plan, writer = recorded(made, tmp_path)
    log = recording.of_node(plan.nodes[0], [b"kanarienvogel", b"abc"])
    log.feed(b"x=kanarienvogel abc\nRuntimeError: CUDA error: kanarienvogel\nlast kanarien")
    log.feed(b"vogel")
    log.end()
    writer.finish("failed", 1, recording.named_failure())
    held = [path for path in (tmp_path / "runs").rglob("*") if path.is_file() and b"kanarienvogel" in path.read_bytes()]
    assert held == []
    assert (tmp_path / "runs" / "one" / "logs" / "node0.log").read_text() == (
        "x=[redacted] abc\nRuntimeError: CUDA error: [redacted]\nlast [redacted]"
    )
