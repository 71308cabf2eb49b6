"""A run whose runner is killed at any moment is readable, read as interrupted, and leaves nothing running."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from steelyard import records

pytestmark = [pytest.mark.torch, pytest.mark.processes]

MOMENTS = int(os.environ.get("STEELYARD_KILLS", "20"))
SEED = 20261115
ENDLESS = (
    *("--set", "training.steps=1000000"),
    *("--set", "training.global_batch_size=4"),
    *("--set", "training.micro_batch_size=2"),
)


def start(experiment: Path, out: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    arguments = ["run", str(experiment), "--no-check", "--out", str(out), "--name", name, *words]
    return subprocess.Popen(
        [sys.executable, "-m", "steelyard", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=on_one_core,
    )


def on_one_core() -> None:
    """Runs beside each other wait for each other's threads otherwise, a hundred times as long."""
    os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})


def inside(directory: Path) -> list[psutil.Process]:
    """Processes that work in the run directory: the trainer and all it started."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()) == directory:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until_empty(directory: Path, seconds: float) -> list[psutil.Process]:
    deadline = time.monotonic() + seconds
    while (left := inside(directory)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def recorded(directory: Path) -> int:
    path = directory / "steps.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_one(experiment: Path, out: Path, number: int) -> str:
    """Kill a run's process group at a random moment of its life; returns how the run reads afterwards."""
    moment = random.Random(SEED + number)
    directory = out / f"run{number}"
    runner = start(experiment, out, directory.name, *ENDLESS)
    if number % 4 == 0:  # while it starts: before the directory, before the trainer, before the first step
        time.sleep(moment.uniform(0.1, 2.0))
    else:
        target = moment.randrange(1, 60)
        while recorded(directory) < target and runner.poll() is None:
            time.sleep(0.005)
        time.sleep(moment.uniform(0, 0.05))
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    if not directory.exists():
        return "never made"

    left = wait_until_empty(directory, 10)
    assert left == [], f"the trainer outlived its runner: {left}"
    run = records.load(directory)
    steps = [step.step for step in records.steps(directory)]
    assert steps == list(range(1, len(steps) + 1))
    assert run.num_steps == len(steps)
    log = directory / "logs" / "node0.log"
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    shown = [line for line in lines if line.startswith("step: ") and line.endswith("\n")]
    assert len(steps) >= len(shown), "the log shows a step that the record lacks"
    json.loads((directory / "plan.json").read_text())
    list(records.events(directory))
    return run.status


def test_a_kill_at_random_moments(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    with ThreadPoolExecutor(2) as pool:
        read_as = list(pool.map(lambda number: kill_one(tiny, out, number), range(MOMENTS)))
    assert set(read_as) <= {"interrupted", "never made"}
    assert read_as.count("interrupted") >= MOMENTS * 3 // 4
    listed = [records.load(path).status for path in records.runs_under(out)]
    assert listed == ["interrupted"] * read_as.count("interrupted")


def test_ranks_under_torchrun_die_with_their_runner(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    runner = start(tiny, out, "two", *ENDLESS, "--gpus", "2")
    while recorded(out / "two") < 2 and runner.poll() is None:
        time.sleep(0.05)
    assert len(inside(out / "two")) >= 3
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert wait_until_empty(out / "two", 20) == []
    assert records.load(out / "two").status == "interrupted"


@pytest.mark.parametrize(
    ("number", "ranks"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 2)]
)
def test_an_interrupt_ends_the_group_records_it_and_exits_130(
    tiny: Path, tmp_path: Path, number: signal.Signals, ranks: int
) -> None:
    out = tmp_path / "runs"
    runner = start(tiny, out, "run", *ENDLESS, "--gpus", str(ranks))
    while recorded(out / "run") < 3 and runner.poll() is None:
        time.sleep(0.02)
    runner.send_signal(number)
    assert runner.wait(timeout=30) == 130
    assert inside(out / "run") == []
    run = records.load(out / "run")
    assert (run.status, run.manifest.status) == ("interrupted", "interrupted")
    assert run.num_steps == len(list(records.steps(out / "run"))) >= 3
    assert [event.kind for event in records.events(out / "run")][-1] == "interrupted"


def test_a_killed_trainer_is_a_failed_run(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    runner = start(tiny, out, "run", *ENDLESS)
    while recorded(out / "run") < 3 and runner.poll() is None:
        time.sleep(0.02)
    (trainer,) = inside(out / "run")
    trainer.kill()
    assert runner.wait(timeout=30) == 1
    run = records.load(out / "run")
    assert run.status == "failed"
    assert run.manifest.failure is not None
    assert run.manifest.failure.kind == "signal"
    assert "SIGKILL" in run.manifest.failure.message


def test_ranks_whose_torchrun_is_killed_are_ended_and_the_run_failed(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    runner = start(tiny, out, "run", *ENDLESS, "--gpus", "2")
    while recorded(out / "run") < 3 and runner.poll() is None:
        time.sleep(0.05)
    (agent,) = [process for process in inside(out / "run") if "torch.distributed.run" in process.cmdline()]
    agent.kill()
    assert runner.wait(timeout=30) == 1
    assert inside(out / "run") == []
    assert records.load(out / "run").status == "failed"


def test_even_a_stopped_trainer_dies_with_its_runner(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    runner = start(tiny, out, "run", *ENDLESS)
    while recorded(out / "run") < 3 and runner.poll() is None:
        time.sleep(0.02)
    (trainer,) = inside(out / "run")
    trainer.suspend()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert wait_until_empty(out / "run", 5) == []
