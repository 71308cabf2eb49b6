"""Processes that hold namespaces open, and commands run inside them."""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

CLONE_NEWNET = 0x40000000
KINDS = ("net", "pid", "mnt")
HOST_PATH = "/run/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"
HOST_ENV = {"PATH": HOST_PATH, "HOME": "/root", "USER": "root", "LANG": "C.UTF-8", "SHLVL": "2"}


class LabError(Exception):
    """The lab could not be built, used or removed."""


class Keeper:
    """A process whose namespaces last until its standard input is closed, so at most as long as this process."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        try:
            self.pid = self._first_word(log)
            self.namespaces = _namespaces(str(self.pid)) - _namespaces("self")
        except BaseException:
            self.release()
            raise

    def _first_word(self, log: Path) -> int:
        assert self._process.stdout is not None
        with self._process.stdout as out:
            line = out.readline()
        if not line:
            raise LabError(f"a host or the controller did not start: {log.read_text()[-2000:].strip()}")
        return int(line)

    def release(self) -> None:
        """Let the namespaces go, and everything in them."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)


@contextlib.contextmanager
def joined_network(pid: int) -> Iterator[None]:
    """Move this thread, and the threads it starts meanwhile, into the network of a process."""
    with Path("/proc/thread-self/ns/net").open() as here, Path(f"/proc/{pid}/ns/net").open() as there:
        _set_network(there.fileno())
        try:
            yield
        finally:
            _set_network(here.fileno())


class Inside:
    """The inside of one host: its commands and its files."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid

    def path(self, path: str) -> Path:
        """A file of the host, as this process can open it."""
        return Path(f"/proc/{self.pid}/root", path.lstrip("/"))

    def sh(
        self,
        argv: Sequence[str],
        input: str | None = None,
        check: bool = True,
        timeout: float = 30,
        stdin: IO[bytes] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in all of the host's namespaces; one that takes too long is killed."""
        enter = ["nsenter", "-t", str(self.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--", *argv]
        source = subprocess.PIPE if input is not None else stdin or subprocess.DEVNULL
        with subprocess.Popen(
            enter,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=HOST_ENV,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                # nsenter forks, so its child would outlive it.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        if check and process.returncode:
            raise LabError(f"{self.name}: {' '.join(argv)} ended with {process.returncode}: {(err or out).strip()}")
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)

    def kill(self, pids: Sequence[int]) -> None:
        """Kill processes by the numbers they have on the host."""
        if pids:
            self.sh(["kill", "-KILL", *map(str, pids)], check=False)


def _set_network(descriptor: int) -> None:
    # os.setns is Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _namespaces(pid: str) -> set[str]:
    return {str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in KINDS}
