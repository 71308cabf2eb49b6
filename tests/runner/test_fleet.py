"""A fleet is runs that know nothing of each other, but for one stop."""

import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from steelyard import records, runner
from steelyard.cluster.host import COMMAND_S, Done, HostRefusedError
from steelyard.cluster.job import LOCK
from steelyard.cluster.this_host import ThisHost
from steelyard.experiment import Asked, one_reading, packaged, parse_settings, read_config, resolve
from steelyard.hardware.machine import Machine
from steelyard.records import RunManifest
from steelyard.runner import Plan, Planned, make_plan
from steelyard.runner.fleet import FleetJob, execute_fleet, split

STEP = (
    "step: {step}/3 | loss: 5.0 | grad_norm: 1.0 | learning_rate: 0.001 | step_time_s: 0.1 | tokens: 8192"
    " | tokens_per_s_per_gpu: 81920.0 | memory_gib: 0.5 | memory_kind: process_rss_peak"
    " | time: 2026-11-15T01:42:33+00:00"
)
TRAINS = f"for step in range(1, 4): print(f'{STEP}', flush=True)"
HANGS = f"import time; step = 1; print(f'{STEP}', flush=True); time.sleep(600)"


class OneOfSeveral(ThisHost):
    """This machine under several names, each with a lock of its own."""

    def __init__(self, name: str, lock: Path) -> None:
        super().__init__(name)
        self._lock = str(lock)

    def _own(self, argv: Sequence[str]) -> list[str]:
        return [self._lock if word == LOCK else word for word in argv]

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        return await super().run(self._own(argv), stdin, timeout_s)

    async def follow(self, argv: Sequence[str], stdin: bytes = b"") -> AsyncIterator[bytes]:
        async for data in super().follow(self._own(argv), stdin):
            yield data


class Broken(OneOfSeveral):
    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        raise HostRefusedError(self.name, "nobody is let in")


def planned(tmp_path: Path, hosts: Sequence[str], *settings: str) -> Planned:
    path = tmp_path / "tiny.yaml"
    text = packaged.text("tiny-llama")
    path.write_text(text + "\nplatforms:\n  lab: {gpu: cpu, gpus_per_node: 1, container: {image: none}}\n")
    asked = Asked(
        settings=parse_settings(["training.steps=3", "training.warmup_steps=1", *settings]), hosts=tuple(hosts)
    )
    reading = one_reading(read_config(path), asked)
    return make_plan(resolve(reading, asked.settings, None, None), Machine((), cpu_count=2), asked)


def with_program(plan: Plan, program: str, folder: Path) -> Plan:
    """The same plan without a container, with a program that only prints."""
    node = plan.nodes[0].model_copy(
        update={
            "argv": [sys.executable, "-c", program],
            "env": {},
            "files": [],
            "container": None,
            "workdir": None,
            "directory": str(folder / f"files-{plan.nodes[0].host}"),
        }
    )
    return plan.model_copy(update={"nodes": [node]})


class Fleet:
    """Jobs over hosts of this machine, and how each ended."""

    def __init__(self, tmp_path: Path, programs: dict[str, str | None]) -> None:
        self.made = planned(tmp_path, list(programs))
        self.out, self.ended = tmp_path / "fleet", dict[str, RunManifest]()
        self.at_once = self.most = 0
        self.jobs = [self._job(tmp_path, plan, programs[plan.nodes[0].host]) for plan in split(self.made.plan)]

    def _job(self, folder: Path, plan: Plan, program: str | None) -> FleetJob:
        name = plan.nodes[0].host
        plan = with_program(plan, program or TRAINS, folder)
        host = (OneOfSeveral if program else Broken)(name, folder / f"lock-{name}")

        def create() -> records.RunWriter:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            return runner.new_run(plan, self.made.case, self.out, name, ["steelyard"], f"{name}-{os.getpid()}")

        def ended(name: str, manifest: RunManifest) -> None:
            self.at_once -= 1
            self.ended[name] = manifest

        return FleetJob(plan, host, runner.Options(), create, lambda _: None, partial(ended, name))

    def run(self, at_once: int = 64) -> bool:
        return execute_fleet(self.jobs, self.made.case, at_once)

    def statuses(self) -> dict[str, str]:
        return {name: manifest.status for name, manifest in self.ended.items()}


def test_a_fleet_plan_is_split_into_plans_of_one_node(tmp_path: Path) -> None:
    whole = planned(tmp_path, ["a", "b", "c"]).plan
    assert whole.fleet
    parts = split(whole)
    assert [(part.fleet, [node.host for node in part.nodes], part.nodes[0].rank) for part in parts] == [
        (False, ["a"], 0),
        (False, ["b"], 0),
        (False, ["c"], 0),
    ]
    assert parts[1].nodes[0] == whole.nodes[1]
    assert parts[1].nodes[0].directory != parts[2].nodes[0].directory


def test_one_host_of_a_cluster_is_a_plain_run(tmp_path: Path) -> None:
    assert not planned(tmp_path, ["a"]).plan.fleet


def test_one_run_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"a": TRAINS, "b": None, "c": "import sys; sys.exit(7)"})
    assert fleet.run() is False
    assert fleet.statuses() == {"a": "completed", "b": "failed", "c": "failed"}
    failures = {name: manifest.failure for name, manifest in fleet.ended.items()}
    assert failures["b"] is not None
    assert (failures["b"].kind, failures["b"].node) == ("reach", "b")
    assert failures["c"] is not None
    assert failures["c"].kind == "exit"
    assert [step.step for step in records.steps(fleet.out / "a")] == [1, 2, 3]
    assert not list(tmp_path.glob("lock-*"))
    assert not list(tmp_path.glob("files-*"))


def test_no_more_run_at_once_than_may(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, dict.fromkeys("abcd", TRAINS))
    assert fleet.run(at_once=2) is False
    assert set(fleet.statuses().values()) == {"completed"}
    assert fleet.most == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_stop_ends_and_cleans_all_and_begins_no_more(tmp_path: Path, number: signal.Signals) -> None:
    fleet = Fleet(tmp_path, {"a": HANGS, "b": HANGS, "c": TRAINS})

    def stop() -> None:
        deadline = time.monotonic() + 60
        paths = [fleet.out / name / "steps.jsonl" for name in "ab"]
        while time.monotonic() < deadline and not all(path.exists() and path.stat().st_size for path in paths):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    stopping = threading.Thread(target=stop)
    stopping.start()
    assert fleet.run(at_once=2) is True
    stopping.join()
    assert fleet.statuses() == {"a": "interrupted", "b": "interrupted"}
    assert not (fleet.out / "c").exists()
    assert not list(tmp_path.glob("lock-*"))
    assert not list(tmp_path.glob("files-*"))
