"""A run of Steelyard in the lab that can be watched and disturbed, and what it leaves on hosts."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.host import Host

IMAGE = "steelyard/trainer:lab"
"""Holds the built-in trainer."""


@dataclass
class Running:
    """`steelyard` in the controller's network, and the run it makes."""

    process: "subprocess.Popen[bytes]"
    out: Path
    folder: Path
    seen: list[str] = field(default_factory=list)

    @property
    def directory(self) -> Path | None:
        found = sorted(path for path in self.out.glob("*/run.json"))
        return found[-1].parent if found else None

    def events(self) -> list[dict[str, Any]]:
        return self._lines("events.jsonl")

    def steps(self) -> list[dict[str, Any]]:
        return self._lines("steps.jsonl")

    def telemetry(self) -> list[dict[str, Any]]:
        return self._lines("telemetry.jsonl")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        if self.directory is None or not (self.directory / name).exists():
            return []
        return [json.loads(line) for line in (self.directory / name).read_text().splitlines() if line.endswith("}")]

    def until(self, what: Callable[["Running"], bool], timeout_s: float = 180) -> "Running":
        deadline = time.monotonic() + timeout_s
        while not what(self):
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)
        return self

    def until_step(self, step: int) -> "Running":
        return self.until(lambda run: bool(run.steps()) and run.steps()[-1]["step"] >= step)

    def until_phase(self, name: str) -> "Running":
        return self.until(lambda run: any(one["kind"] == "phase" and one["message"] == name for one in run.events()))

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def said(self) -> str:
        return "".join(
            (self.folder / name).read_text(errors="replace")
            for name in ("stdout", "stderr")
            if (self.folder / name).exists()
        )

    def end(self, timeout_s: float = 120) -> "Ended":
        status = self.process.wait(timeout_s)
        return Ended(status, (self.folder / "stdout").read_text(), (self.folder / "stderr").read_text(), self)


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str
    run: Running

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def failure(self) -> dict[str, Any]:
        found = self.document["failure"]
        assert isinstance(found, dict), self.document
        return found


def wait_for_nothing(host: Host, timeout_s: float = 20) -> list[str]:
    """What is left on a host after a while."""
    deadline = time.monotonic() + timeout_s
    while left := leftovers(host):
        if time.monotonic() > deadline:
            return left
        time.sleep(0.25)
    return []


def leftovers(host: Host) -> list[str]:
    found = [f"process {pid} {words}" for pid, words in host.processes()]
    found += [f"container {one['Names']}" for one in host.containers() if "steelyard.run" in one["Labels"]]
    return found + [f"file {path}" for path in sorted(host.files())]


def pid_of_trainer(host: Host) -> str:
    """The rank itself, not torchrun."""
    found = [
        pid for pid, words in host.processes() if "-m steelyard.trainer" in words and "distributed.run" not in words
    ]
    assert found, host.processes()
    return str(found[-1])


def purge(host: Host) -> None:
    """Remove what a test that failed left on a host."""
    for one in host.containers():
        host.sh(["docker", "rm", "-f", one["Id"]])
    for pid, _ in host.processes():
        host.sh(["kill", "-KILL", str(pid)], check=False)
    host.sh(["sh", "-c", "rm -rf /root/.local /var/tmp/steelyard-* /tmp/labs*"])
