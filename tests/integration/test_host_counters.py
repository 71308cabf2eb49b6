"""What hosts count of their own troubles while three of them train: found on the host it befell, and nowhere else."""

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab import Host, Lab
from lab.running import Ended

pytestmark = pytest.mark.integration

FOLDER = "/srv/counters"
LOG, ERRORS = f"{FOLDER}/dmesg", f"{FOLDER}/errors"
BOOT = "[    0.000000] Linux version 6.8.0\n"
XID = "[ 9999.000001] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
NVIDIA_SMI = f"""case $* in
*ecc*) echo "0, 00000000:1B:00.0, 0, $(cat {ERRORS})" ;;
*) echo "0, 00000000:1B:00.0, 0, 0, 0, 0" ;;
esac"""
ROCM_SMI = f"""printf 'GPU[0]: \\tRAS INFO\\n'
printf '         Block       Status    Correctable Error  Uncorrectable Error  \\n'
printf '           UMC      ENABLED                    0  %19s  \\n' "$(cat {ERRORS})" """


@pytest.fixture
def hosts(lab: Lab) -> Iterator[list[Host]]:
    """Hosts with a kernel log of their own each, where the lab's hosts have one in common."""
    for host in lab.hosts:
        host.path(FOLDER).mkdir()
        host.path(FOLDER).chmod(0o777)
        host.path(LOG).write_text(BOOT)
        host.path(ERRORS).write_text("0")
        host.fake_tool("dmesg", f"cat {LOG}")
    yield lab.hosts
    for host in lab.hosts:
        host.remove_tool("dmesg")
        shutil.rmtree(host.path(FOLDER))


@pytest.fixture
def gpu_tool(hosts: list[Host]) -> Iterator[Callable[..., None]]:
    """Give the second host a GPU whose tool is a script."""
    given: list[str] = []

    def give(name: str, script: str) -> None:
        hosts[1].fake_tool(name, script)
        given.append(name)

    yield give
    for name in given:
        hosts[1].remove_tool(name)


def of_hosts(ended: Ended) -> list[dict[str, Any]]:
    """The findings of the check."""
    assert ended.run.directory is not None
    judged = json.loads((Path(ended.run.directory) / "verdict.json").read_text())
    return [one for one in judged["findings"] if one["check"] == "hosts"]


def test_hosts_that_meet_no_trouble_pass(start: Any, experiment: Any, hosts: list[Host]) -> None:
    ended = start(experiment(nodes=3)).end()
    assert ended.status == 0, ended.err
    (passed,) = of_hosts(ended)
    assert (passed["code"], passed["status"]) == ("hosts_healthy", "pass")
    assert all(host.address in passed["message"] for host in hosts)
    looks = [one for one in ended.run.events() if one["kind"] == "host_counters"]
    assert {one["node"] for one in looks} == {host.address for host in hosts}


@pytest.mark.parametrize(("name", "script"), [("nvidia-smi", NVIDIA_SMI), ("rocm-smi", ROCM_SMI)])
def test_memory_errors_of_a_gpu_fail_the_run_and_name_its_host(
    start: Any, experiment: Any, hosts: list[Host], gpu_tool: Callable[..., None], name: str, script: str
) -> None:
    gpu_tool(name, script)
    running = start(experiment(steps=60, nodes=3)).until_step(5)
    hosts[1].path(ERRORS).write_text("3")
    ended = running.end()
    assert (ended.status, ended.document["status"], ended.document["verdict"]) == (1, "completed", "fail")
    failed = [one for one in of_hosts(ended) if one["status"] == "fail"]
    assert [(one["code"], one["observed"]) for one in failed] == [("hardware_counter_grew", 3)]
    assert failed[0]["message"].startswith(f"{hosts[1].address}: uncorrected grew during the run: gpu0")


def test_what_the_kernel_says_meanwhile_fails_and_what_it_said_before_does_not(
    start: Any, experiment: Any, hosts: list[Host]
) -> None:
    hosts[0].path(LOG).write_text(BOOT + XID)
    running = start(experiment(steps=60, nodes=3)).until_step(5)
    hosts[2].path(LOG).write_text(BOOT + XID)
    ended = running.end()
    assert ended.status == 1, ended.err
    failed = [one for one in of_hosts(ended) if one["status"] == "fail"]
    assert [(one["code"], one["observed"]) for one in failed] == [("kernel_errors", 1)]
    assert failed[0]["message"].startswith(f"{hosts[2].address}: Xid")


def test_a_tool_that_hangs_is_unknown_and_delays_a_run_once_and_little(
    start: Any, experiment: Any, hosts: list[Host], gpu_tool: Callable[..., None]
) -> None:
    gpu_tool("nvidia-smi", f"echo asked >> {FOLDER}/asked; sleep 600")
    ended = start(experiment(nodes=3)).end()
    assert (ended.status, ended.document["verdict"]) == (0, "pass"), ended.err
    unknown = [one for one in of_hosts(ended) if one["status"] == "unknown"]
    assert {one["message"].partition(":")[0] for one in unknown} == {hosts[1].address}
    assert all("nvidia-smi: timed out" in one["message"] for one in unknown)
    assert hosts[1].path(f"{FOLDER}/asked").read_text().split() == ["asked"]
    began = {
        one["message"]: datetime.fromisoformat(one["time"]) for one in ended.run.events() if one["kind"] == "phase"
    }
    assert (began["start"] - began["prepare"]).total_seconds() < 25


def test_a_run_that_failed_keeps_its_cause_and_its_hosts_are_looked_at(
    start: Any, experiment: Any, hosts: list[Host]
) -> None:
    running = start(experiment(steps=2000, nodes=3)).until_step(5)
    hosts[2].path(LOG).write_text(BOOT + XID)
    (mine,) = (one for one in hosts[2].containers() if "steelyard.run" in one["Labels"])
    hosts[2].sh(["docker", "kill", mine["Id"]])
    ended = running.end()
    assert ended.status == 3, ended.err
    assert (ended.failure["kind"], ended.failure["node"]) == ("killed", hosts[2].address)
    looks = {one["node"]: one["details"] for one in ended.run.events() if one["kind"] == "host_counters"}
    assert set(looks) == {host.address for host in hosts}
    assert [one["what"] for one in looks[hosts[2].address]["kernel"]] == ["Xid"]
    assert looks[hosts[0].address]["kernel"] == []
