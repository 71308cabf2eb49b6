"""Hosts of a fleet are held against each other: who differs is named, and drops out where it must be the same."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from execute.hosts_here import OneOfSeveral
from steelyard.campaign.fleet import Ask, FleetPreflight
from steelyard.execute.host import Host, HostError
from steelyard.execute.preflight import HostFinding
from steelyard.execute.preflight.gpus import DRIVER
from steelyard.execute.preflight.image import IMAGE
from steelyard.execute.preflight.reach import CLOCK, OWN_CLOCK_OFF
from steelyard.records.fleet import again, load_fleet, new_fleet

IMAGES = {"a": "sha256:1", "b": "sha256:2", "c": "sha256:1"}
DRIVERS = {"a": "570", "b": "570", "c": "550"}


def hosts(tmp_path: Path, *names: str) -> list[Host]:
    return [OneOfSeveral(name, tmp_path / f"lock-{name}") for name in names]


def findings(asked: Sequence[Host]) -> list[HostFinding]:
    names = [host.name for host in asked]
    return [
        *IMAGE.compared({name: IMAGES[name] for name in names}, "trainer:1", "", "pull it"),
        *DRIVER.compared({name: DRIVERS[name] for name in names}, "the driver", "", "install the same"),
    ]


async def ask(asked: Sequence[Host]) -> list[HostFinding]:
    return findings(asked)


class Preflight:
    """A preflight of hosts, what keeps which of them from running, and what was reported."""

    def __init__(self, ask: Ask, others: Sequence[Host], asked: Sequence[Host]) -> None:
        self.reported: list[HostFinding] = []
        self.preflight = FleetPreflight(ask, others, self.reported.append)
        self.unfit: dict[str, HostError] = asyncio.run(self.preflight.unfit(asked))


def test_what_must_be_the_same_keeps_the_odd_one_from_running_and_other_differences_are_said(tmp_path: Path) -> None:
    fleet, asked = new_fleet(tmp_path, "nightly", "", "abc"), Preflight(ask, [], hosts(tmp_path, "a", "b", "c"))
    assert set(asked.unfit) == {"b"}
    assert (asked.unfit["b"].key, asked.unfit["b"].next) == ("image", "pull it")
    assert ("c", "driver_version", "550") in [(one.host, one.check, one.observed) for one in asked.reported]
    asked.preflight.recorded_in(fleet).save()
    kept = load_fleet(fleet.directory).manifest.preflight
    assert [(one.host, one.check, one.required) for one in kept] == [
        ("b", "image", True),
        ("c", "driver_version", False),
    ]
    assert [one.host for one in again(load_fleet(fleet.directory), ["b"]).manifest.preflight] == ["c"]


def test_one_that_runs_again_is_held_against_the_hosts_that_do_not(tmp_path: Path) -> None:
    others = hosts(tmp_path, "a", "c")
    asked = Preflight(ask, others, hosts(tmp_path, "b"))
    assert set(asked.unfit) == {"b"}
    assert {finding.host for finding in asked.reported} == {"b"}  # c does not run


def test_what_is_wrong_with_this_machine_keeps_all_of_them(tmp_path: Path) -> None:
    async def late(asked: Sequence[Host]) -> list[HostFinding]:
        return [CLOCK.failed(OWN_CLOCK_OFF, None, "set it", seconds=9, way="behind")]

    assert set(Preflight(late, [], hosts(tmp_path, "a", "b")).unfit) == {"a", "b"}


def test_a_fleet_that_was_not_asked_records_nothing(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path, "nightly", "", "abc")
    assert FleetPreflight(ask, [], print).recorded_in(fleet) == fleet
