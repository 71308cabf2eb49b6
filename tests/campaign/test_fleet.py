"""A fleet is runs that know nothing of each other, but for one stop."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from execute.hosts_here import HANGS, TRAINS, OneOfSeveral, StoppedAtTheEnd, planned, with_program
from steelyard import execute, records
from steelyard.campaign.fleet import FleetJob, execute_fleet, split
from steelyard.execute.host import COMMAND_S, Done, Host, HostError, HostRefusedError
from steelyard.planning.plan import Plan
from steelyard.records import RunManifest


class Broken(OneOfSeveral):
    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        raise HostRefusedError(self.name, "nobody is let in")


class Fleet:
    """Jobs over hosts of this machine, and how each ended."""

    kind: type[OneOfSeveral] = OneOfSeveral

    def __init__(self, tmp_path: Path, programs: dict[str, str | None]) -> None:
        self.made = planned(tmp_path, list(programs))
        self.out, self.ended = tmp_path / "fleet", dict[str, RunManifest]()
        self.at_once = self.most = 0
        self.jobs = [self._job(tmp_path, plan, programs[plan.nodes[0].host]) for plan in split(self.made.plan)]

    def _job(self, folder: Path, plan: Plan, program: str | None) -> FleetJob:
        name = plan.nodes[0].host
        made = replace(self.made, plan=with_program(plan, program or TRAINS, folder))
        host = (self.kind if program else Broken)(name, folder / f"lock-{name}")

        def create() -> records.RunWriter:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            return execute.new_run(made, self.out, name, ["steelyard"])

        def ended(name: str, manifest: RunManifest) -> None:
            self.at_once -= 1
            self.ended[name] = manifest

        return FleetJob(made, host, create, lambda _: None, partial(ended, name))

    def run(self, at_once: int = 64) -> bool:
        return execute_fleet(self.jobs, execute.RunOptions(), at_once)

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


def test_a_stop_that_finds_nothing_left_to_stop_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fleet, "kind", StoppedAtTheEnd)
    fleet = Fleet(tmp_path, {"a": TRAINS})
    assert fleet.run() is False
    assert fleet.statuses() == {"a": "completed"}


def test_a_host_that_is_unfit_fails_by_itself_after_all_were_asked_once(tmp_path: Path) -> None:
    fleet, asked = Fleet(tmp_path, dict.fromkeys("abc", TRAINS)), list[list[str]]()

    async def preflight(hosts: Sequence[Host]) -> dict[str, HostError]:
        asked.append([host.name for host in hosts])
        assert not fleet.out.exists()  # before anything is made
        return {"b": HostError("b", "the driver is 550, and 570 on 2 of 3 hosts", next="install the same driver")}

    assert execute_fleet(fleet.jobs, execute.RunOptions(), preflight=preflight) is False
    assert asked == [["a", "b", "c"]]
    assert fleet.statuses() == {"a": "completed", "b": "failed", "c": "completed"}
    failure = fleet.ended["b"].failure
    assert failure is not None
    assert (failure.kind, failure.phase, failure.node) == ("preflight", "preflight", "b")
    assert failure.message == "the driver is 550, and 570 on 2 of 3 hosts"
    phases = {name: [one.message for one in records.events(fleet.out / name) if one.kind == "phase"] for name in "ab"}
    assert phases["a"][:3] == phases["b"] == ["reach", "lock", "preflight"]
    assert not list(tmp_path.glob("lock-*"))


def test_a_stop_while_the_hosts_are_asked_begins_no_run(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, dict.fromkeys("ab", TRAINS))

    async def preflight(hosts: Sequence[Host]) -> dict[str, HostError]:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
        return {}

    began = time.monotonic()
    assert execute_fleet(fleet.jobs, execute.RunOptions(), preflight=preflight) is True
    assert time.monotonic() - began < 30
    assert fleet.ended == {}
    assert not fleet.out.exists()
