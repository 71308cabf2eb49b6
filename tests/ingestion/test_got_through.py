"""What once got through: each a log that was judged wrongly, or broke something."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bounds import bounded
from steelyard import records
from steelyard.ingestion import parallel

Cli = Callable[..., Any]


def step_line(step: int, loss: float | None = None, total: int = 50) -> str:
    value = 12 * 0.97**step if loss is None else loss
    return (
        f" iteration {step:8d}/{total:8d} | consumed samples: {step * 64:12d} | "
        f"elapsed time per iteration (ms): 1690.0 | learning rate: 2.9E-04 | global batch size:    64 | "
        f"lm loss: {value:.6E} | loss scale: 1.0 | grad norm: 1.1 | "
        f"number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


OK = "".join(step_line(step) for step in range(1, 51))


def status_of(cli: Cli, tmp_path: Path, *texts: str, options: tuple[str, ...] = ()) -> int:
    names = [f"node{at}.log" if len(texts) > 1 else "train.log" for at in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text)
    made = cli("ingest", *names, *options, "--json")
    assert made.status == 0, made.document
    return int(cli("check", made.document["run"]).status)


def test_the_plain_log_passes(cli: Cli, tmp_path: Path) -> None:
    assert status_of(cli, tmp_path, OK) == 0


PREFIXES = [
    "",
    "[1,0]<stderr>:",
    "2026-01-20T10:05:00Z ",
    "2026-01-20T10:05:00Z [rank3]: ",
    "[pod/llama-0/trainer] ",
    "worker-0: ",
    "gpu001: ",
    "Jan 20 10:05:00 node1 train[1]: ",
    "2026-01-20 10:05:00 ",
    "[2026-01-20 10:05:00] ",
    "(RayTrainWorker pid=123) ",
    "[stderr] ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "raised",
    ["OSError: [Errno 28] No space left on device", "RuntimeError: [../gloo] Connection closed", "Exception: x"],
)
def test_a_crash_is_seen_behind_any_prefix(cli: Cli, tmp_path: Path, prefix: str, raised: str) -> None:
    lines = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "    raise error", raised]
    assert status_of(cli, tmp_path, OK + "".join(f"{prefix}{line}\n" for line in lines)) == 1


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_dump_of_arguments_is_read_behind_any_prefix(cli: Cli, tmp_path: Path, prefix: str) -> None:
    dump = [
        "------------------------ arguments ------------------------",
        "  seq_length ........ 8192",
        "  world_size .... 8",
    ]
    text = "".join(f"{prefix}{line}\n" for line in [*dump, *OK.splitlines()])
    (tmp_path / "train.log").write_text(text)
    manifest = records.load(cli("ingest", "train.log", "--json").document["run"]).manifest
    assert manifest.experiment.value("training.sequence_length") == 8192
    assert manifest.platform.world_size == 8


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "[rank0]:[E115] ProcessGroupNCCL's watchdog got stuck for 480 seconds",
        "terminate called after throwing an instance of 'c10::Error'",
        "gpu001:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.1 with status=12",
        "NVRM: GPU at PCI:0000:17:00 has fallen off the bus",
        "amdgpu 0000:05:00.0: amdgpu: HWS hang",
        "Queue at 0x7f aborting with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION",
        "run.sh: line 12: 98765 Killed                  python pretrain.py",
        "srun: error: gpu001: task 3: Out Of Memory",
        "mpirun noticed that process rank 3 with PID 0 on node a exited on signal 9 (Killed).",
        "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore.",
        "x " * 20000 + " torch.OutOfMemoryError: CUDA out of memory.",
    ],
)
def test_a_failure_text_fails(cli: Cli, tmp_path: Path, text: str) -> None:
    assert status_of(cli, tmp_path, OK + text + "\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "        Uncorrectable Error                   : 0",
        "        GPU Reset Status",
        "No uncorrectable errors found",
        "NCCL timeout: 1800",
        "NCCL timeout is 600 s",
        "faulthandler enabled for SIGSEGV, SIGFPE and SIGABRT",
        "NCCL error handling is on",
        "Retry after OutOfMemoryError: trying a batch of 4",
    ],
)
def test_a_harmless_text_passes(cli: Cli, tmp_path: Path, text: str) -> None:
    assert status_of(cli, tmp_path, f"{OK}{text}\n") == 0


def test_a_node_s_own_nan_and_early_end_are_seen(cli: Cli, tmp_path: Path) -> None:
    lines = OK.splitlines(keepends=True)
    vanished = [line.replace("lm loss", "lm los") if at > 20 else line for at, line in enumerate(lines)]
    assert status_of(cli, tmp_path, OK, "".join(vanished)) == 1
    assert status_of(cli, tmp_path, OK, "".join(lines[:12])) == 1


def test_a_total_that_is_passed_is_no_plan(cli: Cli, tmp_path: Path) -> None:
    text = "".join(
        f"Training epoch {at // 20}, iteration {at % 20}/19 | lr: 0.0001 | global_batch_size: 128 | "
        f"global_step: {at} | reduced_train_loss: {11.99 - at / 100} | train_step_timing in s: 3.258\n"
        for at in range(26)
    )
    assert status_of(cli, tmp_path, text) == 5


def test_the_log_s_own_interval_tells_a_gap(cli: Cli, tmp_path: Path) -> None:
    dump = "  log_interval .................................... 1\n"
    assert status_of(cli, tmp_path, dump + "".join(step_line(step) for step in range(2, 51, 2))) == 1


def test_a_ramp_up_of_the_batch_is_no_contradiction(cli: Cli, tmp_path: Path) -> None:
    text = "".join(
        step_line(at)
        if at <= 20
        else step_line(at).replace("size:    64", "size:   128").replace(f"{at * 64:12d}", f"{at * 128 - 1280:12d}")
        for at in range(1, 51)
    )
    assert (
        status_of(
            cli, tmp_path, text, options=("--set", "training.sequence_length=2048", "--gpu", "h100", "--gpus", "8")
        )
        == 0
    )


def test_a_batch_that_grows_between_two_records_is_counted_by_what_was_consumed(cli: Cli, tmp_path: Path) -> None:
    """64 samples a step up to step 25, then 128, in records of ten steps."""
    lines = []
    for step in range(10, 101, 10):
        consumed = 64 * min(step, 25) + 128 * max(step - 25, 0)
        line = step_line(step, total=100).replace(f"{step * 64:12d}", f"{consumed:12d}")
        lines.append(line.replace("size:    64", f"size: {64 if step <= 20 else 128:5d}"))
    (tmp_path / "train.log").write_text("".join(lines))
    made = cli("ingest", "train.log", "--set", "training.sequence_length=100", "--json").document
    tokens = [(one.step, one.tokens) for one in records.steps(Path(made["run"]))]
    assert tokens == [(10, 6400), (20, 6400), (30, 9600), *((step, 12800) for step in range(40, 101, 10))]


def test_a_long_progress_bar_is_read_whole(cli: Cli, tmp_path: Path) -> None:
    bars = "\r".join(
        f"Epoch 0:  1%|# | {at + 1}/1000 [00:01<00:09, v_num=0, reduced_train_loss={9 - at / 200:.3f}, "
        f"global_step={at}.000, consumed_samples={at}.0, train_step_timing in s=1.500]"
        for at in range(1000)
    )
    (tmp_path / "train.log").write_text(bars + "\n")
    assert cli("ingest", "train.log", "--json").document["steps"] == 1000


def test_a_piece_without_a_step_leaves_nothing_behind(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chatter = "node0:1:1 [0] NCCL INFO chatter\n" * 3000
    (tmp_path / "train.log").write_text("".join(step_line(at, total=200) for at in range(1, 201)) + chatter)
    for name, value in (("WORTH_IT", 1 << 14), ("HEAD_BYTES", 1 << 14), ("PIECE_BYTES", 20_000)):
        monkeypatch.setattr(parallel, name, value)
    made = cli("ingest", "train.log", "--json").document
    assert made["steps"] == 200
    assert not (Path(made["run"]) / ".parts").exists()


def test_a_name_that_is_no_text_is_still_a_run(cli: Cli, tmp_path: Path) -> None:
    name = b"na\xffme.log"
    Path(str(tmp_path / name.decode("utf-8", "surrogateescape"))).write_text(OK)
    assert cli("ingest", name.decode("utf-8", "surrogateescape"), "--json").status == 0


@pytest.mark.processes
def test_a_kill_cleans_up_like_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(OK[:4000])
    argv = [sys.executable, "-m", "steelyard", "ingest", "train.log", "--follow", "--name", "followed"]
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    steps = tmp_path / "runs" / "followed" / "steps.jsonl"
    deadline = time.monotonic() + 30
    while not steps.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.terminate()
    assert process.wait(timeout=30) == 130
    assert records.load(steps.parent).status == "interrupted"


@pytest.mark.processes
def test_a_followed_log_that_is_replaced_ends(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(step_line(at) for at in range(1, 30)))
    argv = [sys.executable, "-m", "steelyard", "ingest", "train.log", "--follow", "--name", "followed"]
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    steps = tmp_path / "runs" / "followed" / "steps.jsonl"
    deadline = time.monotonic() + 30
    while not (steps.exists() and steps.read_bytes()) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    path.rename(tmp_path / "train.log.1")
    path.write_text(step_line(1))
    assert process.wait(timeout=30) == 130
    assert "broken_file" in {event.kind for event in records.events(steps.parent)}


def test_no_content_makes_a_line_endless() -> None:
    from steelyard.frameworks.logs.reader import LogReader
    from steelyard.frameworks.logs.series import Gathered

    rng = random.Random(1)
    units = [
        "1",
        "A",
        "a_",
        "-",
        "node",
        "CUDA capacity: ",
        "srun: error: ",
        "token ",
        "Basic ",
        "password=",
        "eyJaaaaaaaaaaaa.",
    ]
    units.append("".join(rng.choices("abcdef0123456789", k=4096)))
    for unit in units:
        for before in ("", "error ", "iteration 1/1 | a"):
            line = (before + unit * (65536 // len(unit))).encode()
            reader = LogReader("train.log", Gathered())
            with bounded():
                reader.feed([line])
            assert reader.line == 1
