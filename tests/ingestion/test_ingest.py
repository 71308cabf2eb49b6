"""steelyard ingest: whatever comes in becomes a run, or one clear sentence."""

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
import zstandard

from steelyard import records

CORPUS = Path(__file__).parents[1] / "traps"
CLEAN = CORPUS / "megatron" / "clean-v0.8-interval-1.log"
ARGUMENTS = CORPUS / "megatron" / "clean-v0.12-arguments-validation-memory.log"

Cli = Callable[..., Any]


def step_lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if b" iteration " in line and b"consumed" in line]


def test_the_document_says_what_was_read(cli: Cli) -> None:
    done = cli("ingest", CLEAN, "--json")
    assert done.status == 0
    made = done.document
    assert (made["framework"], made["status"], made["verdict"]) == ("megatron", "completed", None)
    assert made["steps"] == len(step_lines(CLEAN)) == len(list(records.steps(made["run"])))
    assert made["dialect"] == "megatron"
    assert made["era"] == "core 0.6 to 0.15"
    assert [file["unread"] for file in made["files"]] == [0]


def test_a_step_says_where_it_was_read_and_the_log_is_kept(cli: Cli) -> None:
    run = Path(cli("ingest", CLEAN, "--json").document["run"])
    for step in records.steps(run):
        assert step.source is not None
        kept = (run / step.source.file).read_bytes().split(b"\n")[step.source.line - 1]
        assert b"iteration %8d/" % step.step in kept
    assert (run / "logs" / CLEAN.name).read_bytes() == CLEAN.read_bytes()


def test_the_log_s_own_settings_are_in_the_manifest_with_their_line(cli: Cli) -> None:
    run = Path(cli("ingest", ARGUMENTS, "--json").document["run"])
    manifest = json.loads((run / "run.json").read_text())
    assert manifest["experiment"]["training"]["sequence_length"] > 0
    assert manifest["sources"]["training.sequence_length"] == "log"
    at = manifest["ingested"]["said"]["training.sequence_length"]
    assert b"seq_length" in (run / at["file"]).read_bytes().split(b"\n")[at["line"] - 1]


@pytest.mark.parametrize("form", ["plain", "gz", "zst", "pipe"])
@pytest.mark.processes
def test_every_form_gives_the_same_steps(cli: Cli, shell: Cli, tmp_path: Path, form: str) -> None:
    expected = [step.loss for step in records.steps(cli("ingest", CLEAN, "--json").document["run"])]
    data = CLEAN.read_bytes()
    if form == "pipe":
        argv = [sys.executable, "-m", "steelyard", "ingest", "-", "--json"]
        done = subprocess.run(argv, input=data, capture_output=True, check=True, cwd=tmp_path)
        run = json.loads(done.stdout)["run"]
    else:
        packed = {"plain": data, "gz": gzip.compress(data), "zst": zstandard.compress(data)}[form]
        path = tmp_path / f"train.log.{form}"
        path.write_bytes(packed)
        run = cli("ingest", path, "--json").document["run"]
    assert [step.loss for step in records.steps(run)] == expected


def test_a_compressed_log_that_breaks_off_is_read_as_far_as_it_goes(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "train.log.gz"
    path.write_bytes(gzip.compress(CLEAN.read_bytes())[:-400])
    made = cli("ingest", path, "--json").document
    assert made["status"] == "interrupted"
    assert 0 < made["steps"] < len(step_lines(CLEAN))
    assert "broken_file" in {event.kind for event in records.events(made["run"])}


def test_a_log_cut_short_is_interrupted_and_one_that_failed_is_failed(cli: Cli, tmp_path: Path) -> None:
    lines = step_lines(CLEAN)
    (tmp_path / "cut.log").write_bytes(b"\n".join(lines[:9]) + b"\n")
    (tmp_path / "failed.log").write_bytes(
        b"\n".join([*lines[:9], b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."])
    )
    assert cli("ingest", "cut.log", "--json").document["status"] == "interrupted"
    failed = cli("ingest", "failed.log", "--json").document
    assert (failed["status"], failed["failure"]["kind"], failed["failure"]["line"]) == ("failed", "oom", 10)


RESUMED = Path(__file__).parents[1] / "frameworks" / "logs" / "real" / "megatron_ckpt_resume.log.gz"
WATCHDOG = (
    b"[rank1]:[E810 03:04:11.061727749 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeout:"
    b" WorkNCCL(SeqNum=78, OpType=BROADCAST, NumelIn=80, NumelOut=80, Timeout(ms)=600000) ran for 600096 milliseconds"
)


@pytest.mark.parametrize(
    ("before", "ends", "survived"),
    [
        ([b"- arguments -"], True, True),
        ([b"loading distributed checkpoint"], True, True),
        ([b"iteration       39/"], True, True),
        ([b"- arguments -", None], True, True),  # after the end marker
        ([b"using world size"], True, True),
        ([b"- arguments -"], False, True),
        ([b"using world size"], False, True),
        ([b"iteration       39/"], False, False),
        ([None], False, False),
    ],
)
def test_a_failure_counts_unless_the_end_a_restart_or_the_first_step_comes_after_it(
    cli: Cli, tmp_path: Path, before: list[bytes | None], ends: bool, survived: bool
) -> None:
    """A text before the last line that holds each of these, or after all; one is also before the first start."""
    lines = gzip.decompress(RESUMED.read_bytes()).rstrip(b"\n").split(b"\n")
    if not ends:
        lines = [line for line in lines if b"after training is done" not in line]
    for mark in before:
        found = [at for at, line in enumerate(lines) if mark is not None and mark in line]
        at = len(lines) if mark is None else found[0] if mark == b"using world size" else found[-1]
        lines.insert(at, WATCHDOG)
    (tmp_path / "train.log").write_bytes(b"\n".join(lines) + b"\n")
    made = cli("ingest", "train.log", "--json").document
    assert made["status"] == ("completed" if survived else "failed")
    found = {one["check"]: one for one in cli("check", made["run"], "--json").document["findings"]}
    assert found["completed"]["status"] == ("pass" if survived else "fail")
    assert (found["errors"]["status"], found["errors"]["code"]) == (
        ("pass", "errors_survived") if survived else ("fail", "error_in_log")
    )


def test_a_restart_keeps_the_last_of_each_step_and_says_so(cli: Cli, tmp_path: Path) -> None:
    lines = step_lines(CLEAN)
    again = [line.replace(b"lm loss: ", b"lm loss: 4") for line in lines[5:]]
    (tmp_path / "train.log").write_bytes(b"\n".join([*lines[:9], *again]) + b"\n")
    run = cli("ingest", "train.log", "--json").document["run"]
    steps = list(records.steps(run))
    assert [step.step for step in steps] == list(range(1, len(lines) + 1))
    assert all((step.loss or 0) > 40 for step in steps[5:])
    (event,) = (event for event in records.events(run) if event.kind == "restart")
    assert (event.step, event.source and event.source.line) == (6, 10)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_files_of_restarts_are_put_in_their_order(cli: Cli, tmp_path: Path, order: tuple[int, int]) -> None:
    lines = step_lines(CLEAN)
    names = ["first.log", "second.log"]
    (tmp_path / names[0]).write_bytes(b"\n".join(lines[:9]) + b"\n")
    (tmp_path / names[1]).write_bytes(b"\n".join(lines[7:]) + b"\n")
    made = cli("ingest", *(names[at] for at in order), "--json").document
    steps = list(records.steps(made["run"]))
    assert [step.step for step in steps] == list(range(1, len(lines) + 1))
    assert {step.source.file for step in steps[7:] if step.source} == {"logs/second.log"}


def test_a_node_whose_steps_take_longer_is_named(cli: Cli, tmp_path: Path) -> None:
    """Also where the lines are read by columns, and after a restart that printed some of them twice."""
    lines = [line for line in step_lines(CLEAN) if line]
    slower = re.compile(rb"(iteration \(ms\): )([\d.]+)")
    slow = [slower.sub(lambda found: found[1] + b"%.1f" % (float(found[2]) * 1.2), line) for line in lines]
    (tmp_path / "node0.log").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "node1.log").write_bytes(b"\n".join([*slow[:-3], *slow[-12:]]) + b"\n")
    run = cli("ingest", "node0.log", "node1.log", "--json").document["run"]
    (event,) = (event for event in records.events(run) if event.kind == "nodes_differ")
    assert event.node == "node1"
    assert event.details["factor"] == pytest.approx(1.2, rel=0.01)
    assert event.message.startswith("node1 takes 1.2 times as long per step as the others")
    assert event.details["steps"] == 35
    named = [one for one in cli("check", run, "--json").document["findings"] if one["check"] == "stragglers"]
    assert [(one["code"], one["status"], one["required"]) for one in named] == [("slow_nodes", "unknown", False)]


def test_nodes_are_merged_by_step_and_kept_apart_beside(cli: Cli, tmp_path: Path) -> None:
    lines = b"".join(
        b"completed step: %d, seconds: 2.000, TFLOP/s/device: 400.000, Tokens/s/device: 8192.000, "
        b"total_weights: 9, loss: %.3f\n" % (at, 12 - at / 4)
        for at in range(30)
    )
    (tmp_path / "node0.log").write_bytes(lines)
    (tmp_path / "node1.log").write_bytes(lines.replace(b"400.000", b"100.000").replace(b"2.000", b"8.000"))
    made = cli("ingest", "node0.log", "node1.log", "--set", "training.steps=30", "--json").document
    assert made["steps"] == 30
    assert set(records.node_tables(made["run"])) == {"node0", "node1"}
    judged = cli("check", made["run"], "--threshold", "tflops_per_gpu>=300", "--json").document
    (bound,) = (one for one in judged["findings"] if one["check"].startswith("threshold"))
    assert (bound["code"], bound["status"]) == ("threshold_missed_on_node", "fail")
    assert "node1" in bound["message"]


@pytest.mark.processes
def test_following_ends_when_the_log_does(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    lines = CLEAN.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:10]))

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            for line in lines[10:]:
                file.write(line[:20])
                time.sleep(0.01)
                file.write(line[20:])

    writer = threading.Thread(target=grow)
    argv = [sys.executable, "-m", "steelyard", "ingest", "train.log", "--follow", "--json"]
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE)
    writer.start()
    out, _ = process.communicate(timeout=60)
    writer.join()
    made = json.loads(out)
    assert (process.returncode, made["status"], made["steps"]) == (0, "completed", len(step_lines(CLEAN)))
    assert [step.step for step in records.steps(made["run"])] == list(range(1, len(step_lines(CLEAN)) + 1))


@pytest.mark.processes
@pytest.mark.quick
def test_an_interrupt_while_following_keeps_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_bytes(b"\n".join(step_lines(CLEAN)[:14]) + b"\n")
    argv = [sys.executable, "-m", "steelyard", "ingest", "train.log", "--follow", "--json", "--name", "followed"]
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    steps = tmp_path / "runs" / "followed" / "steps.jsonl"
    while not (steps.exists() and steps.read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert records.load(steps.parent).status == "running"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    made = json.loads(out)
    assert (process.returncode, made["status"], made["steps"]) == (130, "interrupted", 14)
    assert len(list(records.steps(made["run"]))) == 14
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["followed"]


def test_a_followed_log_of_two_processes_keeps_both(cli: Cli, tmp_path: Path) -> None:
    lines = [
        prefix + line
        for line in [*step_lines(CLEAN), b"[after training is done]"]
        for prefix in (b"node1: ", b"node2: ")
    ]
    (tmp_path / "train.log").write_bytes(b"\n".join(lines) + b"\n")
    run = Path(cli("ingest", "train.log", "--follow", "--json").document["run"])
    assert [step.step for step in records.steps(run)] == list(range(1, len(step_lines(CLEAN)) + 1))
    assert set(records.node_tables(run)) == {"node1", "node2"}
    assert not [path.name for path in run.iterdir() if path.name.startswith(".")]


def open_to_write(path: Path, reader: "subprocess.Popen[bytes]") -> IO[bytes]:
    """A pipe that somebody reads; opened plainly, one whose reader died at once is waited for for ever."""
    deadline = time.monotonic() + 60
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert reader.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            os.set_blocking(descriptor, True)
            return os.fdopen(descriptor, "wb", buffering=0)


@pytest.mark.processes
def test_an_interrupt_amid_a_log_leaves_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    argv = [sys.executable, "-m", "steelyard", "ingest", "pipe"]
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with open_to_write(tmp_path / "pipe", process) as pipe:
        pipe.write(b"\n".join(step_lines(CLEAN)) + b"\n")
        deadline = time.monotonic() + 30
        while not list((tmp_path / "runs").glob(".new-run-*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello\nworld\n", "no training log recognized"),
        (bytes(range(256)) * 64, "no training log recognized"),
        (b"\x28\xb5\x2f\xfdgarbage", "no training log recognized"),
    ],
)
def test_what_is_no_log_is_one_sentence(cli: Cli, tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "odd").write_bytes(content)
    done = cli("ingest", "odd", "--json")
    assert done.status == 2
    assert words in done.document["error"]["message"]
    assert done.document["error"]["next"]
    assert not (tmp_path / "runs").exists() or list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("path", ["missing.log", "folder"])
def test_what_cannot_be_read_is_one_sentence(cli: Cli, tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    done = cli("ingest", path)
    assert done.status == 2
    assert f"{path} cannot be read" in done.err


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (["--set", "training.sequence_length=4096"], "training.sequence_length"),
        (["--set", "training.stepz=3"], "training.stepz"),
        (["--set", "model.preset=llama9"], "model.preset"),
        (["--gpus", "3"], "--gpus"),
        (["--gpu", "h900"], "--gpu"),
        (["--framework", "keras"], "--framework"),
        (["--columns", "velocity=3"], "--columns"),
        (["--follow", "another.log"], "--follow"),
    ],
)
def test_what_contradicts_the_log_or_makes_no_sense_is_refused(
    cli: Cli, tmp_path: Path, options: list[str], key: str
) -> None:
    done = cli("ingest", ARGUMENTS, *options, "--json")
    assert (done.status, done.document["error"]["key"]) == (2, key)
    assert not (tmp_path / "runs").exists() or list((tmp_path / "runs").iterdir()) == []


def test_what_the_config_asked_and_the_log_denies_is_said(cli: Cli, tmp_path: Path) -> None:
    cli("init", "tiny-llama")
    made = cli("ingest", ARGUMENTS, "--config", "tiny-llama.yaml", "--gpu", "h100", "--gpus", "8", "--json")
    assert made.status == 0
    run = made.document["run"]
    differing = [event.message for event in records.events(run) if event.kind == "config_differs"]
    assert any(message.startswith("training.sequence_length") for message in differing)
    assert json.loads((Path(run) / "run.json").read_text())["sources"]["training.seed"] in ("log", "config")


def test_a_preset_stands_for_its_dimensions(cli: Cli) -> None:
    options = (
        "--set",
        "model.preset=llama3.1-8b",
        "--set",
        "training.sequence_length=8192",
        "--gpu",
        "h100",
        "--gpus",
        "8",
    )
    run = cli("ingest", CLEAN, *options, "--json").document["run"]
    manifest = records.load(run).manifest
    assert manifest.experiment.value("model.hidden_size") == 4096
    assert manifest.sources["model.hidden_size"] == "preset llama3.1-8b"
    assert manifest.expected["parameters"] == 8_030_261_248


def test_missing_facts_are_listed_with_a_command_that_adds_them(cli: Cli) -> None:
    done = cli("ingest", CLEAN, "--gpus", 8)
    assert "missing    GPU type, sequence length, precision, model" in done.out
    _, _, command = done.out.partition("add with   ")
    words = shlex.split(command.partition("next: ")[0].replace("\\\n", " "))
    known = {"GPU": "h100", "N": "8192", "NAME": "llama3.1-8b"}
    options = [re.sub(r"\b(GPU|NAME|N)$", lambda placeholder: known[placeholder[0]], word) for word in words]
    assert options[:2] == ["steelyard", "ingest"]
    again = cli(*options[1:])
    assert again.status == 0
    assert "missing" not in again.out
    assert "platform   1 node x 8 h100" in again.out


def test_a_name_that_exists_is_refused(cli: Cli) -> None:
    assert cli("ingest", CLEAN, "--name", "mine").status == 0
    assert cli("ingest", CLEAN, "--name", "mine").status == 2


def test_secrets_reach_no_file_of_the_run(cli: Cli, tmp_path: Path) -> None:
    token = "hf_" + "a1B2c3D4e5F6g7H8" * 2
    lines = step_lines(CLEAN)
    lines[3:3] = [f"export HF_TOKEN={token}".encode(), f"RuntimeError: 401 for token {token}".encode()]
    (tmp_path / "train.log").write_bytes(b"\n".join(lines) + b"\n")
    done = cli("ingest", "train.log", "--json")
    for path in Path(done.document["run"]).rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes(), path
    assert token not in done.out + done.err


HOSTILE = '<script>alert(1)</script>\x1b[31m$(reboot)`reboot`{{7*7}}\u202e"><img src=x onerror=alert(2)>'


def test_hostile_text_is_inert_in_terminal_and_report(cli: Cli, tmp_path: Path) -> None:
    lines = ARGUMENTS.read_bytes().split(b"\n")
    text = HOSTILE.encode()
    spoilt = [line.replace(b"meta-llama/Llama-3.1-8B", text) for line in lines]
    spoilt[0:0] = [b"[" + text + b"]: hello", b"  tokenizer_model ................... " + text]
    spoilt.append(b"Traceback (most recent call last):")
    spoilt.append(b"ValueError: " + text)
    spoilt.append(b"[rank0]: torch.OutOfMemoryError: CUDA out of memory. " + text)
    (tmp_path / "<b>&train.log").write_bytes(b"\n".join(spoilt) + b"\n")
    done = cli("ingest", "<b>&train.log", "--name", "hostile", "--framework", "megatron")
    assert done.status == 0
    shown = done.out + "".join(
        cli(*words).out for words in (("check", "runs/hostile"), ("runs", "show", "runs/hostile"), ("runs", "list"))
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert cli("report", "runs/hostile", "--to", "html", "-o", "page.html").status in (0, 1)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    assert "\x1b" not in page


def test_a_log_that_stops_leads_to_the_file_of_errors_beside_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "job.out").write_bytes(b"\n".join(step_lines(CLEAN)[:9]) + b"\n")
    (tmp_path / "job.err").write_text("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 10:05 DUE TO TIME LIMIT ***\n")
    assert "job.err is next to the log" in cli("ingest", "job.out").out
    both = cli("ingest", "job.out", "job.err")
    assert "is next to the log" not in both.out
    assert "TIME LIMIT" in both.out
