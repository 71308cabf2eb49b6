"""A run on a host that is this machine: looked at before and after, stopped, judged."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from execute.hosts_here import HANGS, TRAINS, OneOfSeveral, StoppedAtTheEnd, planned, with_program
from steelyard import execute, records, verdict
from steelyard.execute.host import COMMAND_S, Done, LinkLostError
from steelyard.records import Event, RunManifest
from steelyard.records.host_change import KERNEL_LOG, read_change
from steelyard.verdict import Finding, NotApplicable
from steelyard.verdict.checks import hosts

QUIET = "echo '[    1.0] Linux version 6.8.0'"


class WithTools(OneOfSeveral):
    """This machine with other tools ahead of its own."""

    def __init__(self, folder: Path, **tools: str) -> None:
        super().__init__("gpu01", folder / "lock")
        self.tools = folder / "tools"
        self.tools.mkdir()
        for name, script in tools.items():
            path = self.tools / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        return await super().run(["env", f"PATH={self.tools}:/usr/bin:/bin", *argv], stdin, timeout_s)


class Ran:
    """A run of one program, and what was recorded of it."""

    def __init__(self, folder: Path, host: OneOfSeveral, program: str = TRAINS) -> None:
        made = planned(folder, [host.name])
        made = replace(made, plan=with_program(made.plan, program, folder))
        writer = execute.new_run(made, folder / "runs", None, ["steelyard"])
        self.directory = writer.directory
        options = execute.RunOptions(preflight=False, hosts={host.name: host})
        self.manifest: RunManifest = execute.execute(made, writer, lambda _: None, options)

    def looks(self) -> list[Event]:
        return [event for event in records.events(self.directory) if event.kind == "host_counters"]

    def findings(self) -> list[Finding | NotApplicable]:
        judged = verdict.judge(verdict.read_subject(records.load(self.directory)))
        return [one for one in (*judged.findings, *judged.not_applicable) if one.check == "hosts"]


def nvidia_smi(errors: Path) -> str:
    """One GPU whose uncorrected errors a file counts."""
    address = "0, 00000000:1B:00.0"
    return f"case $* in *ecc*) echo \"{address}, 0, $(cat {errors})\" ;; *) echo '{address}, 0, 0, 0, 0' ;; esac"


@pytest.fixture
def errors(tmp_path: Path) -> Path:
    path = tmp_path / "errors"
    path.write_text("0")
    return path


def counting(errors: Path, program: str = TRAINS) -> str:
    """A program in whose course the GPU meets two errors."""
    return f"open({str(errors)!r}, 'w').write('2')\n{program}"


def test_a_quiet_host_passes(tmp_path: Path, errors: Path) -> None:
    ran = Ran(tmp_path, WithTools(tmp_path, dmesg=QUIET, nvidia_smi=nvidia_smi(errors)))
    assert ran.manifest.status == "completed"
    passed = ran.findings()[0]
    assert (passed.code, passed.reason.values["hosts"]) == (hosts.HOSTS_HEALTHY, ("gpu01",))
    (look,) = ran.looks()
    assert look.node == "gpu01"
    assert read_change(look).compared["gpu_ecc"] == 2


def test_errors_that_memory_met_meanwhile_fail_and_name_the_host(tmp_path: Path, errors: Path) -> None:
    ran = Ran(tmp_path, WithTools(tmp_path, dmesg=QUIET, nvidia_smi=nvidia_smi(errors)), counting(errors))
    assert ran.manifest.status == "completed"
    failed = ran.findings()[0]
    assert failed.code is hosts.HARDWARE_COUNTER_GREW
    assert failed.message.startswith("gpu01: uncorrected grew during the run: gpu0 at 00000000:1B:00.0 (0 to 2); drain")


def test_a_run_that_failed_is_looked_at_too_and_keeps_its_cause(tmp_path: Path, errors: Path) -> None:
    host = WithTools(tmp_path, dmesg=QUIET, nvidia_smi=nvidia_smi(errors))
    ran = Ran(tmp_path, host, counting(errors, "import sys; sys.exit(7)"))
    assert ran.manifest.status == "failed"
    assert ran.manifest.failure is not None
    assert (ran.manifest.failure.kind, ran.manifest.exit_status) == ("exit", 7)
    assert [one.code for one in ran.findings()] == [hosts.HARDWARE_COUNTER_GREW]


def test_a_kernel_log_that_hangs_is_unknown_and_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.execute.counters.TOOL_S", 1)
    calls = tmp_path / "calls"
    began = time.monotonic()
    ran = Ran(tmp_path, WithTools(tmp_path, dmesg=f"echo asked >> {calls}; sleep 60"))
    assert time.monotonic() - began < 20
    assert ran.manifest.status == "completed"
    assert calls.read_text().split() == ["asked"]
    first, *others = ran.findings()
    assert (first.code, first.reason.values["why"]) == (hosts.COUNTERS_UNREAD, "timed out")
    assert not any(isinstance(one, Finding) and one.status == "fail" for one in others)


class LostAtTheEnd(OneOfSeveral):
    """The way to it breaks when it is looked at again."""

    looks = 0

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        if "nic_counters" in argv:
            self.looks += 1
            if self.looks == 2:
                raise LinkLostError(self.name, "the link broke")
        return await super().run(argv, stdin, timeout_s)


def test_a_host_that_cannot_be_looked_at_again_is_unknown_and_cleaned(tmp_path: Path) -> None:
    ran = Ran(tmp_path, LostAtTheEnd("gpu01", tmp_path / "lock"))
    assert ran.manifest.status == "completed"
    found = ran.findings()
    assert {one.code for one in found} == {hosts.COUNTERS_UNREAD}
    assert {one.reason.values["why"] for one in found} == {"the link broke"}
    assert KERNEL_LOG in {one.group for one in read_change(ran.looks()[0]).unread}
    assert not list(tmp_path.glob("lock*"))
    assert not list(tmp_path.glob("files-*"))


def test_a_stop_while_a_finished_run_is_cleaned_leaves_it_completed(tmp_path: Path) -> None:
    ran = Ran(tmp_path, StoppedAtTheEnd("gpu01", tmp_path / "lock"))
    assert (ran.manifest.status, ran.manifest.exit_status) == ("completed", 0)
    assert not any(event.kind == "interrupted" for event in records.events(ran.directory))
    assert not list(tmp_path.glob("lock*"))


def test_a_run_that_is_stopped_ends_at_once_and_is_not_looked_at_again(tmp_path: Path) -> None:
    host = OneOfSeveral("gpu01", tmp_path / "lock")

    def stop() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not any(path.stat().st_size for path in tmp_path.rglob("steps.jsonl")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    stopping = threading.Thread(target=stop)
    stopping.start()
    ran = Ran(tmp_path, host, HANGS)
    stopping.join()
    assert ran.manifest.status == "interrupted"
    assert [one.code for one in ran.findings()] == [hosts.HOSTS_NOT_READ]
