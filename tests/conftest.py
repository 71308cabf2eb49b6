"""What tests share: the command line in this process and in its own, and small experiments."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from steelyard import demo
from steelyard.cli.main import main
from steelyard.errors import InfrastructureError
from steelyard.experiment import packaged
from steelyard.records import Failure, RunManifest, RunWriter, Step

TINY = packaged.text("tiny-llama")


def pytest_configure() -> None:
    _keep_to_one_core()
    _pass_signals_on()


def _keep_to_one_core() -> None:
    """Each worker of pytest-xdist has its own: torch takes a thread per core it sees, and the threads of two trainings
    that share cores wait for each other, a hundred times as long."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


def _pass_signals_on() -> None:
    """Children inherit an ignored signal but not a handler, so that tests can interrupt what they start even where
    the suite runs in the background of a script (SIGINT ignored) or under nohup (SIGHUP)."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("torch") and not importlib.util.find_spec("torch"):
        pytest.skip("torch is not installed: pip install 'steelyard[train]'")


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out)

    def reasons(self, metric: str = "throughput", code: str | None = None) -> list[dict[str, Any]]:
        """Why a comparison rules as it does of a metric; those of one code alone, where it is named."""
        given = self.document["comparable"][metric]["reasons"]
        return [reason for reason in given if code in (None, reason["code"])]


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STEELYARD_RUNS", raising=False)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the command line in this process."""

    def call(*arguments: str | Path) -> Result:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return call


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "steelyard", *map(str, arguments)]


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Result]:
    """Run the command line as a user does, in a process of its own."""

    def call(*arguments: str | Path, **env: str) -> Result:
        done = subprocess.run(
            command(*arguments), cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True, check=False
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The packaged tiny Llama, cut to five small steps."""
    path = tmp_path / "tiny.yaml"
    path.write_text(
        TINY.replace("steps: 200", "steps: 5", 1)
        .replace("warmup_steps: 20", "warmup_steps: 2")
        .replace("global_batch_size: 64", "global_batch_size: 16")
    )
    return path


class Recorded:
    """A copy of a run that was recorded on an H200, to be spoilt at will."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __fspath__(self) -> str:
        return str(self.directory)

    def __str__(self) -> str:
        return str(self.directory)

    def edit_steps(self, edit: Callable[[dict[str, Any]], dict[str, Any] | None]) -> "Recorded":
        """Replace each step by what `edit` makes of it; None leaves it out."""
        path = self.directory / "steps.jsonl"
        edited = [edit(json.loads(line)) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(step) + "\n" for step in edited if step is not None))
        return self

    def without_telemetry(self) -> "Recorded":
        """As an imported log: the memory it prints is all that is known of memory."""
        (self.directory / "telemetry.jsonl").unlink()
        return self

    def slower(self, factor: float) -> "Recorded":
        """Each step takes so many times as long, so that it is another run than what it was copied from."""
        rates = ("tokens_per_s_per_gpu", "tflops_per_gpu", "reported_tokens_per_s_per_gpu")
        return self.edit_steps(
            lambda step: {
                **step,
                "step_time_s": step["step_time_s"] * factor,
                **{name: step[name] / factor for name in rates if name in step},
            }
        )

    def set(self, dotted: str, value: Any) -> "Recorded":
        """Set a key of run.json; `...` removes it."""
        path = self.directory / "run.json"
        content = json.loads(path.read_text())
        *parents, last = dotted.split("/")
        here = content
        for parent in parents:
            here = here[parent]
        if value is ...:
            del here[last]
        else:
            here[last] = value
        path.write_text(json.dumps(content, indent=2))
        return self

    def without_events(self, kind: str) -> "Recorded":
        path = self.directory / "events.jsonl"
        kept = [line for line in path.read_text().splitlines() if json.loads(line)["kind"] != kind]
        path.write_text("".join(line + "\n" for line in kept))
        return self

    def add_event(self, **event: Any) -> "Recorded":
        with (self.directory / "events.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\n")
        return self


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Recorded]:
    """Copy a recorded run (baseline, again, half-batch) under runs/, by its own name or another."""

    def copy(name: str = "baseline", to: str | None = None) -> Recorded:
        directory = tmp_path / "runs" / (to or name)
        shutil.copytree(demo.RECORDED / name, directory)
        return Recorded(directory)

    return copy


class Trains:
    """Stands in for the training program: each run ends as told, in the order of the runs, and later ones complete."""

    def __init__(self, *endings: str) -> None:
        self.endings, self.names = list(endings), []

    def __call__(self, planned: Any, writer: RunWriter, observe: Any, options: Any) -> RunManifest:
        self.names.append(f"{writer.directory.parent.name}/{writer.directory.name}")
        ending = self.endings.pop(0) if self.endings else "completed"
        match ending:
            case "passes":
                training = planned.case.resolved.experiment.training
                tokens = training.global_batch_size * training.sequence_length
                for step in range(1, training.steps + 1):
                    loss = planned.plan.expected.first_loss - step / 100
                    writer.append_step(Step(step=step, loss=loss, tokens=tokens, step_time_s=0.5))
                writer.finish("completed", 0, None)
            case "oom":
                writer.finish("failed", 1, Failure(kind="oom", message="CUDA out of memory", phase="train"))
            case "completed" | "interrupted":
                writer.finish(ending, 0, None)  # type: ignore[arg-type]
            case "crash":
                writer.finish("failed", 1, Failure(kind="exit", message="it crashed"))
            case "ctrl-c":
                raise KeyboardInterrupt
            case "disk full":
                writer.finish("failed", None, Failure(kind="record", message="no space left"))
                raise InfrastructureError("no space left", key="--out")
            case phase:
                writer.finish("failed", None, Failure(kind="reach", message="no route to host", phase=phase))
                raise InfrastructureError(f"no route to host (in {phase})", key="reach", next="ping it")
        return writer.manifest


@pytest.fixture
def trains(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(*endings: str) -> Trains:
        stand_in = Trains(*endings)
        monkeypatch.setattr("steelyard.execute.execute", stand_in)
        monkeypatch.setattr("steelyard.execute.check", lambda *_: None)
        return stand_in

    return install
