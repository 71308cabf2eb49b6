"""Hosts of a fleet are held against each other: who differs is named, and drops out where it must be the same."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from execute.hosts_here import OneOfSeveral
from steelyard.cli.fleet_preflight import Looking
from steelyard.execute.host import Host, HostError
from steelyard.execute.preflight import HostFinding
from steelyard.execute.preflight.clock import CLOCK
from steelyard.execute.preflight.image import IMAGE
from steelyard.execute.preflight.versions import DRIVER
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


def looked(looking: Looking, asked: Sequence[Host]) -> tuple[dict[str, HostError], list[str]]:
    said: list[str] = []

    async def look() -> dict[str, HostError]:
        return dict(await looking.told_to(said.append)(asked))

    return asyncio.run(look()), said


def test_what_must_be_the_same_keeps_the_odd_one_from_running_and_other_differences_are_said(tmp_path: Path) -> None:
    fleet, looking = new_fleet(tmp_path, "nightly", "", "abc"), Looking(ask, [])
    unfit, said = looked(looking, hosts(tmp_path, "a", "b", "c"))
    assert set(unfit) == {"b"}
    assert "trainer:1 is sha256:2, and sha256:1 on 2 of 3 hosts" in str(unfit["b"])
    assert any("c: the driver is 550, and 570 on 2 of 3 hosts" in line for line in said)
    looking.kept(fleet).save()
    kept = load_fleet(fleet.directory).manifest.preflight
    assert [(one.host, one.check, one.required) for one in kept] == [
        ("b", "image", True),
        ("c", "driver_version", False),
    ]
    assert [one.host for one in again(load_fleet(fleet.directory), ["b"]).manifest.preflight] == ["c"]


def test_one_that_runs_again_is_held_against_the_hosts_that_do_not(tmp_path: Path) -> None:
    others = hosts(tmp_path, "a", "c")
    unfit, said = looked(Looking(ask, others), hosts(tmp_path, "b"))
    assert set(unfit) == {"b"}
    assert not any("c: the driver" in line for line in said)  # it does not run


def test_what_is_wrong_with_this_machine_keeps_all_of_them(tmp_path: Path) -> None:
    async def late(asked: Sequence[Host]) -> list[HostFinding]:
        return [CLOCK.failed(None, "the clock of this machine is 9 s behind the hosts'", "set it")]

    unfit, _ = looked(Looking(late, []), hosts(tmp_path, "a", "b"))
    assert set(unfit) == {"a", "b"}


def test_a_fleet_that_was_not_looked_at_says_nothing(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path, "nightly", "", "abc")
    assert Looking(ask, []).kept(fleet) == fleet
