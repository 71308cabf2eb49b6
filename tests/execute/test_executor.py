"""What every executor promises, whichever way it runs a plan."""

import contextlib
import importlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from execute.hosts_here import HANGS, STEP, TRAINS, OneOfSeveral, planned, with_program
from steelyard import execute, records
from steelyard.errors import InfrastructureError
from steelyard.execute import Limits
from steelyard.execute.executor import MODULES, Job, executor_of
from steelyard.planning.make import Planned
from steelyard.records import RunWriter

LAST_WORDS = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: (print('the last words', flush=True), sys.exit(0)))\n"
    f"step = 1; print(f'{STEP}', flush=True); time.sleep(600)"
)


class Way:
    """One executor, with a plan that it takes."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder
        self._host = OneOfSeveral("gpu01", folder / "lock")
        self.writer: RunWriter | None = None

    def planned(self, program: str) -> Planned:
        made = planned(self._folder, [self._host.name])
        plan = with_program(made.plan, program, self._folder)
        if self.name == "local":
            plan = plan.model_copy(update={"nodes": [plan.nodes[0].model_copy(update={"directory": None})]})
        return replace(made, plan=plan)

    def run(self, program: str, limits: Limits | None = None) -> records.RunManifest:
        made = self.planned(program)
        options = execute.RunOptions(limits or Limits(), preflight=False, hosts={self._host.name: self._host})
        self.writer = execute.new_run(made, self._folder / "runs", "run", ["steelyard"])
        return execute.execute(made, self.writer, lambda _: None, options)

    @property
    def directory(self) -> Path:
        return self._folder / "runs" / "run"

    def events(self, kind: str) -> list[str]:
        return [event.message for event in records.events(self.directory) if event.kind == kind]

    def log(self) -> str:
        return (self.directory / "logs" / "node0.log").read_text()

    def stop_once(self, is_time: Callable[[], bool]) -> threading.Thread:
        """Press Ctrl-C when it is time."""

        def stop() -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not is_time():
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=stop)
        thread.start()
        return thread

    def has_steps(self) -> bool:
        path = self.directory / "steps.jsonl"
        return path.exists() and path.stat().st_size > 0


@pytest.fixture(params=MODULES)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return Way(request.param, tmp_path)


def test_a_plan_is_taken_by_one_executor(way: Way) -> None:
    plan = way.planned(TRAINS).plan
    executors: dict[str, type[Job]] = {
        name: importlib.import_module(module).EXECUTOR for name, module in MODULES.items()
    }
    assert [name for name, executor in executors.items() if executor.takes(plan)] == [way.name]
    assert executor_of(plan) is executors[way.name]


def test_a_run_to_its_end_is_completed_with_its_steps_and_telemetry(way: Way) -> None:
    manifest = way.run(f"{TRAINS}\nimport time; time.sleep(1.5)")
    assert (manifest.status, manifest.exit_status, manifest.failure) == ("completed", 0, None)
    assert [step.step for step in records.steps(way.directory)] == [1, 2, 3]
    samples = [json.loads(line) for line in (way.directory / "telemetry.jsonl").read_text().splitlines()]
    assert {(sample["node"], sample["device"]) for sample in samples} == {("gpu01", "cpu")}


def test_a_program_that_fails_is_a_failed_run_and_no_error_of_ours(way: Way) -> None:
    manifest = way.run("import sys; sys.exit(7)")
    assert (manifest.status, manifest.exit_status) == ("failed", 7)
    assert manifest.failure is not None
    assert manifest.failure.kind == "exit"


def test_steps_that_stop_coming_are_a_failure_of_the_infrastructure(way: Way) -> None:
    limits = Limits(first_step=1.0, stall_at_least=1.0, counters=1.0)
    with pytest.raises(InfrastructureError) as raised:
        way.run(HANGS, limits)
    assert raised.value.key == "stall"
    run = records.load(way.directory)
    assert (run.status, run.manifest.failure and run.manifest.failure.phase) == ("failed", "train")
    assert run.num_steps == 1


def test_a_program_that_cannot_be_started_says_which(way: Way) -> None:
    made = way.planned(TRAINS)
    node = made.plan.nodes[0].model_copy(update={"argv": ["/no/such/program"]})
    plan = made.plan.model_copy(update={"nodes": [node]})
    way.planned = lambda program: replace(made, plan=plan)  # type: ignore[method-assign]
    with contextlib.suppress(InfrastructureError):  # on a host, the program that looks for it fails
        way.run("")
    run = records.load(way.directory)
    assert run.status == "failed"
    assert run.manifest.failure is not None
    assert "/no/such/program" in run.manifest.failure.message


def test_a_stop_ends_the_program_and_keeps_its_last_words(way: Way) -> None:
    stopping = way.stop_once(way.has_steps)
    manifest = way.run(LAST_WORDS)
    stopping.join()
    assert manifest.status == "interrupted"
    assert len(way.events("stopping")) == len(way.events("interrupted")) == 1
    assert way.log().endswith("the last words\n")
    assert not (manifest.steps or 0) > 1


def test_a_stop_at_the_very_start_leaves_nothing_running(way: Way, tmp_path: Path) -> None:
    stopping = way.stop_once(way.directory.exists)
    manifest = way.run(f"{HANGS}  # {tmp_path}")
    stopping.join()
    assert manifest.status == "interrupted"
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if any(str(tmp_path) in word for word in command)]
