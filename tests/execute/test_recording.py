"""What nodes print becomes one record: whose steps count, which are kept beside, and what is hidden."""

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from steelyard import execute, records, verdict
from steelyard.configs.choose import Asked, one_reading, readings
from steelyard.configs.files import read_config, read_mapping, with_family
from steelyard.execute.recording import Recording
from steelyard.experiment import packaged, resolve
from steelyard.hardware.machine import Machine
from steelyard.planning.make import make_plan
from steelyard.planning.plan import Plan

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


def planned(tmp_path: Path, config: str, *hosts: str) -> Any:
    (tmp_path / "config.yaml").write_text(config)
    reading = one_reading(with_family(read_mapping(tmp_path / "config.yaml")), Asked(hosts=hosts))
    return make_plan(resolve(reading, (), None, None), Machine((), 2), Asked(hosts=hosts))


@pytest.fixture
def made(tmp_path: Path) -> Any:
    return planned(tmp_path, CONFIG, "gpu01", "gpu02")


def recorded(made: Any, tmp_path: Path) -> tuple[Recording, Plan, Any]:
    writer = execute.new_run(made, tmp_path / "runs", "one", ["steelyard"])
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


def test_what_a_host_says_is_recorded_without_secrets(made: Any, tmp_path: Path) -> None:
    recording, plan, writer = recorded(made, tmp_path)
    recording.of_node(plan.nodes[0], [b"kanarienvogel", b"abc"])
    recording.of_node(plan.nodes[1], [b"kanarienvogelbauer"])
    token = "hf_" + "abcdefgh" * 4
    details = {"kernel": ({"lines": (f"Xid, token {token}", "kanarienvogelbauer")},), "count": 3, "share": None}
    recording.event("host_counters", f"kanarienvogel abc \ud800 {token}", "gpu02", **details)
    writer.finish("failed", 1, None)
    (event,) = [one for one in records.events(writer.directory) if one.kind == "host_counters"]
    assert event.message == "[redacted] abc ? [redacted]"
    assert event.details["kernel"] == [{"lines": ["Xid, token [redacted]", "[redacted]"]}]
    assert (event.details["count"], event.details["share"]) == (3, None)
    held = [path for path in writer.directory.rglob("*") if path.is_file() and b"bauer" in path.read_bytes()]
    assert held == []


def test_a_job_that_ended_well_is_not_failed_by_an_agent_that_left_first(tmp_path: Path) -> None:
    """torchrun's agents wait for one another; one that finds the store gone says so in a traceback and ends with 0."""
    steps = b"".join(line(step, 1.0) for step in (1, 2, 3))
    found, run = judged(tmp_path, CONFIG, steps, steps + real("torchrun_exit_barrier"))
    assert (found["completed"].status, found["errors"].status) == ("pass", "pass")
    (barrier,) = events(run, "exit_barrier")
    assert (barrier.node, barrier.source.file if barrier.source else None) == ("gpu02", "logs/node1.log")
    assert barrier.message.startswith("Error waiting on exit barrier.")


# What the log says of its settings, against the plan.

REAL = Path(__file__).parents[1] / "frameworks" / "logs" / "real"
MEGATRON = """
schema_version: 1
name: live
model: {architecture: llama, num_layers: 12, hidden_size: 1024, ffn_hidden_size: 2816, num_attention_heads: 16,
  num_key_value_heads: 4, head_dim: 64, vocab_size: 32000, max_position_embeddings: 2048, rope_theta: 500000,
  tied_embeddings: false, norm_epsilon: 1e-5, qkv_bias: false}
training: {seed: 1234, micro_batch_size: 4, global_batch_size: 16, sequence_length: 2048, steps: 60,
  learning_rate: 3e-4, min_learning_rate: 3e-5, warmup_steps: 5, weight_decay: 0.1}
precision: {dtype: bf16, grad_reduce_in_fp32: true}
parallelism: {distributed_optimizer: false}
kernels: {transformer_impl: local}
data: {source: counting, split: "99,1,0", seed: 1234}
platforms:
  lab: {gpu: h200, nodes: 1, gpus_per_node: 1, framework: megatron, container: {image: "trainer:1"}}
"""
MAXTEXT = """
schema_version: 1
name: live
model: {architecture: llama, num_layers: 4, hidden_size: 128, ffn_hidden_size: 384, num_attention_heads: 8,
  num_key_value_heads: 4, head_dim: 16, vocab_size: 1024, max_position_embeddings: 2048, rope_theta: 10000,
  tied_embeddings: false, norm_epsilon: 1e-5, qkv_bias: false}
training: {seed: 0, micro_batch_size: 4, global_batch_size: 8, sequence_length: 128, steps: 30, learning_rate: 1e-3,
  min_learning_rate: 1e-4, warmup_steps: 3, weight_decay: 0.1, recompute: full}
precision: {dtype: bf16}
parallelism: {tensor_parallel_size: 2, fsdp_size: 2}
data: {source: uniform, seed: 0}
platforms:
  lab: {gpu: cpu, nodes: 1, gpus_per_node: 4, framework: maxtext, container: {image: "trainer:1"}}
"""


def real(name: str) -> bytes:
    return gzip.decompress((REAL / f"{name}.log.gz").read_bytes())


def judged(tmp_path: Path, config: str, *logs: bytes) -> tuple[dict[str, verdict.Finding], Path]:
    """The findings of a run whose nodes print these logs, in blocks as they come over a link."""
    made = planned(tmp_path, config, *(f"gpu{at:02}" for at, _ in enumerate(logs, start=1)))
    recording, plan, writer = recorded(made, tmp_path)
    nodes = [recording.of_node(node) for node in plan.nodes]
    for at in range(0, max(map(len, logs)), 4096):
        for node, log in zip(nodes, logs, strict=True):
            node.feed(log[at : at + 4096])
    for node in nodes:
        node.end()
    writer.finish("completed", 0, None)
    found = verdict.judge(verdict.read_subject(records.load(writer.directory))).findings
    return {finding.check: finding for finding in found}, writer.directory


def events(run: Path, kind: str) -> list[records.Event]:
    return [event for event in records.events(run) if event.kind == kind]


@pytest.mark.parametrize(
    ("log", "config", "known"),
    [
        ("megatron_clean_int1", MEGATRON, ("--gpu", "h200", "--gpus", "1")),
        ("maxtext_clean", MAXTEXT, ("--gpus", "4")),
    ],
)
def test_a_live_run_is_founded_as_well_as_its_ingested_log(
    cli: Any, tmp_path: Path, log: str, config: str, known: tuple[str, ...]
) -> None:
    live, run = judged(tmp_path, config, real(log))
    foreign = cli("ingest", REAL / f"{log}.log.gz", *known, "--json").document["run"]
    ingested = {one["check"]: one["status"] for one in cli("check", foreign, "--json").document["findings"]}
    passed = {name for name, status in ingested.items() if status == "pass"} - {
        "loss_falling"
    }  # uniform data is not learnt
    assert {name: live[name].status for name in passed} == dict.fromkeys(passed, "pass")
    assert (live["batch_identity"].status, live["world_identity"].status) == ("pass", "pass")
    assert live["plan_identity"].status == "pass"
    assert events(run, "plan_differs") == []
    assert [step.tokens for step in records.steps(run)] == [step.tokens for step in records.steps(foreign)]


@pytest.mark.parametrize(
    ("said", "instead", "check", "words"),
    [
        (
            b"global_batch_size ............................... 16",
            b"global_batch_size ............................... 8",
            "batch_identity",
            "training.global_batch_size is 16 in the plan but 8 in the log",
        ),
        (
            b"world_size ...................................... 1\n",
            b"world_size ...................................... 8\n",
            "world_identity",
            "platform.world_size is 1 in the plan but 8 in the log",
        ),
        (
            b"fp8 ............................................. None",
            b"fp8 ............................................. hybrid",
            "plan_identity",
            "precision.fp8 is null in the plan but hybrid in the log",
        ),
    ],
)
def test_a_setting_that_is_not_the_plan_s_fails_with_both_values(
    tmp_path: Path, said: bytes, instead: bytes, check: str, words: str
) -> None:
    log = real("megatron_clean_int1")
    assert said in log
    found, run = judged(tmp_path, MEGATRON, log.replace(said, instead))
    assert (found[check].status, found[check].message) == ("fail", words)
    evidence = found[check].evidence
    assert evidence is not None
    line = (run / evidence.file).read_bytes().split(b"\n")[evidence.line - 1]
    assert instead.strip() in line


def test_a_batch_that_only_the_step_lines_deny_fails(tmp_path: Path) -> None:
    log = real("megatron_clean_int1").replace(b"global batch size:    16", b"global batch size:     8")
    found, _ = judged(tmp_path, MEGATRON, log)
    assert found["batch_identity"].status == "fail"
    assert "16 in the plan but 8 in the log" in found["batch_identity"].message


def test_a_program_that_fell_back_to_the_cpu_is_not_the_plan_s(tmp_path: Path) -> None:
    found, _ = judged(tmp_path, MAXTEXT.replace("gpu: cpu", "gpu: h100"), real("maxtext_clean"))
    assert found["plan_identity"].status == "fail"
    assert found["plan_identity"].message == "platform.gpu_name is h100 in the plan but cpu in the log"


def test_a_path_spelt_in_another_way_is_said_and_fails_nothing(tmp_path: Path) -> None:
    log = real("megatron_clean_int1").replace(b" 99,1,0", b" 98,2,0")
    found, run = judged(tmp_path, MEGATRON, log)
    assert (found["plan_identity"].status, found["plan_identity"].required) == ("unknown", False)
    assert [event.details["said"] for event in events(run, "plan_differs")] == ["98,2,0"]


def test_what_every_node_says_is_recorded_once(tmp_path: Path) -> None:
    log = real("maxtext_clean").replace(b"Num_devices: 4", b"Num_devices: 6")
    config = MAXTEXT.replace("nodes: 1, gpus_per_node: 4", "nodes: 2, gpus_per_node: 2")
    found, run = judged(tmp_path, config, log, log)
    assert len(events(run, "plan_differs")) == len(events(run, "settings")) == 1
    assert found["world_identity"].message == "platform.world_size is 4 in the plan but 6 in the log"


def test_version_and_log_interval_are_the_log_s(tmp_path: Path) -> None:
    _, run = judged(tmp_path, MAXTEXT, real("maxtext_clean"))
    assert records.load(run).manifest.software["version"].startswith("jax ")
    shutil.rmtree(run)
    _, run = judged(tmp_path, MEGATRON, real("megatron_clean_int10"))
    assert records.load(run).manifest.expected["log_interval"] == 10


def test_a_plan_s_own_arguments_printed_back_contradict_nothing(tmp_path: Path) -> None:
    reading = readings(read_config(packaged.path("gpt3_6.7b_megatron_deepspeed")), Asked(platform="target"))[0]
    made = make_plan(resolve(reading, ()), Machine((), 2), Asked())
    arguments = " ".join(made.plan.nodes[0].argv).split(" --")[1:]
    pairs = [(words.split(" ", 1)[0].replace("-", "_"), words.partition(" ")[2] or "True") for words in arguments]
    lines = [f"  {name} {'.' * max(2, 48 - len(name))} {value}" for name, value in pairs]
    recording, plan, writer = recorded(made, tmp_path)
    log = recording.of_node(plan.nodes[0])
    log.feed("\n".join([*lines, "--- end of arguments ---", ""]).encode())
    log.end()
    (settings,) = records.events(writer.directory)
    assert settings.kind == "settings"
    assert settings.details["held"] > 25


def test_sockets_where_the_plan_asks_for_network_cards_fail(tmp_path: Path) -> None:
    config = CONFIG.replace("gpu: cpu", "gpu: h100").replace(
        'container: {image: "trainer:1"}',
        'container: {image: "trainer:1"}, network: {nic: cx7, hcas: [mlx5_0]}',
    )
    network = b"gpu%02d:123:456 [0] NCCL INFO Using network %b\n"
    lines = b"".join(line(step, 1.0) for step in (1, 2, 3))
    found, _ = judged(tmp_path, config, network % (1, b"Socket") + lines, network % (2, b"Socket") + lines)
    assert found["fabric"].status == "fail"
    assert found["fabric"].expected == "mlx5_0"


# Slow nodes.


def steps_of(count: int, factor: float, stalls: Sequence[int] = ()) -> bytes:
    text = "completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: 1.0, Tokens/s/device: 9.0, loss: 5.0\n"
    return b"".join(
        text.format(step=at, seconds=(9.0 if at in stalls else 0.5 + 0.001 * (at % 7)) * factor).encode()
        for at in range(count)
    )


def test_a_slow_node_is_named_while_it_runs_and_in_the_verdict(tmp_path: Path) -> None:
    config = MAXTEXT.replace("nodes: 1, gpus_per_node: 4", "nodes: 4, gpus_per_node: 1")
    config = config.replace("tensor_parallel_size: 2, fsdp_size: 2", "fsdp_size: 1").replace("steps: 30", "steps: 300")
    config = config.replace("micro_batch_size: 4", "micro_batch_size: 2")
    slow = steps_of(300, 1.3)
    found, run = judged(tmp_path, config, steps_of(300, 1.0), steps_of(300, 1.01), slow, steps_of(300, 0.99, (20, 200)))
    (event,) = events(run, "nodes_differ")
    assert (event.node, event.step) == ("gpu03", 100)  # long before the end
    assert event.details["factor"] == pytest.approx(1.3, rel=0.02)
    assert event.details["median_s"] == pytest.approx(1.3 * event.details["others_median_s"], rel=0.02)
    assert (found["stragglers"].status, found["stragglers"].code.name) == ("fail", "nodes_clearly_slow")
    assert found["stragglers"].message.startswith("gpu03 takes 1.3 times as long per step as the others: 0.65")


def test_nodes_that_step_together_are_alike_however_they_stall(tmp_path: Path) -> None:
    config = MAXTEXT.replace("nodes: 1, gpus_per_node: 4", "nodes: 2, gpus_per_node: 2")
    found, run = judged(tmp_path, config, steps_of(30, 1.0), steps_of(30, 1.02, (10, 11, 12)))
    assert events(run, "nodes_differ") == []
    assert found["stragglers"].status == "pass"


@pytest.mark.parametrize(("reports", "named"), [(9, []), (10, ["gpu02"]), (40, ["gpu02"])])
def test_megatron_s_own_straggler_line_names_the_node_of_the_rank(
    tmp_path: Path, reports: int, named: list[str]
) -> None:
    report = (
        b"INFO:megatron.core.utils:[2024-03-14 23:07:56] | MnRtt/Rnk: 3453.08ms/1 | MxRtt/Rnk: 4468.20ms/3 | MnPwr\n"
    )
    config = MEGATRON.replace("nodes: 1, gpus_per_node: 1", "nodes: 2, gpus_per_node: 2")
    found, run = judged(tmp_path, config, report * reports, real("megatron_clean_int1"))
    assert [event.node for event in events(run, "nodes_differ")] == named
    assert ("stragglers" in found) == bool(named)
    if named:
        assert "rank 3 takes 1.29 times as long per step as rank 1 (4.47 s, 3.45 s)" in found["stragglers"].message


PEM = b"""-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACBvCrn2rUVCT8wN1h4ELPHgEVHFdmRFSUnWv8f
Zw==
-----END OPENSSH PRIVATE KEY-----
"""
ACCOUNT = (
    b'{\n  "type": "service_account",\n  "project_id": "training",\n  "private_key_id": "0123456789abcdef0123",\n'
    b'  "private_key": "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQ\\nEFAASCBKcwggSjAgEAAoIBAQ\\n'
    b'-----END PRIVATE KEY-----\\n"\n}\n'
)


@pytest.mark.parametrize(
    ("secret", "printed", "parts"),
    [
        (PEM, PEM, [b"b3BlbnNzaC1rZXktdjE", b"QyNTUxOQAAACBv"]),
        (PEM, PEM.replace(b"\n", b"\r\n"), [b"b3BlbnNzaC1rZXktdjE", b"QyNTUxOQAAACBv"]),
        (PEM, b"KEY=" + repr(PEM.decode()).encode(), [b"b3BlbnNzaC1rZXktdjE", b"QyNTUxOQAAACBv", b"Zw=="]),
        (PEM, json.dumps({"key": PEM.decode().strip()}).encode(), [b"b3BlbnNzaC1rZXktdjE", b"Zw=="]),
        (PEM, b"key: " + PEM.replace(b"\n", b" "), [b"b3BlbnNzaC1rZXktdjE", b"QyNTUxOQAAACBv"]),
        (ACCOUNT, ACCOUNT, [b"MIIEvQIBADANBgkqhkiG9w0BAQ", b"EFAASCBKcwggSjAgEAAoIBAQ", b"0123456789abcdef0123"]),
        (ACCOUNT, json.dumps(json.loads(ACCOUNT)).encode(), [b"MIIEvQIBADANBgkqhkiG9w0BAQ", b"0123456789abcdef0123"]),
        (ACCOUNT, str(json.loads(ACCOUNT)).encode(), [b"EFAASCBKcwggSjAgEAAoIBAQ", b"0123456789abcdef0123"]),
        (ACCOUNT, json.loads(ACCOUNT)["private_key"].encode(), [b"EFAASCBKcwggSjAgEAAoIBAQ"]),
        (b"machine api.wandb.ai\n  login user\n  password swordfish7\n", b"got swordfish7", [b"swordfish7"]),
        (b'pass"wo\\rd', json.dumps('x pass"wo\\rd').encode(), [b"wo\\\\rd"]),
    ],
)
def test_a_secret_of_several_lines_is_hidden_line_by_line(
    made: Any, tmp_path: Path, secret: bytes, printed: bytes, parts: list[bytes]
) -> None:
    recording, plan, writer = recorded(made, tmp_path)
    log = recording.of_node(plan.nodes[0], [secret])
    log.feed(printed + b"\n")
    log.feed(b"RuntimeError: " + printed.splitlines()[-1] + b"\n")
    log.end()
    recording.event("host_counters", printed.decode(), "gpu01", lines=printed.decode().splitlines())
    writer.finish("failed", 1, recording.named_failure())
    for path in (path for path in writer.directory.rglob("*") if path.is_file()):
        for part in parts:
            assert part not in path.read_bytes(), path.name


def test_what_stands_beside_a_secret_of_several_lines_is_kept(made: Any, tmp_path: Path) -> None:
    recording, plan, writer = recorded(made, tmp_path)
    log = recording.of_node(plan.nodes[0], [PEM, ACCOUNT])
    kept = b"{\n}\ntraining starts\n-----BEGIN CERTIFICATE-----\n" + line(1, 2.0)
    log.feed(kept)
    log.end()
    assert (writer.directory / "logs" / "node0.log").read_bytes() == kept
