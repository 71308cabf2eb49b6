"""An ssh server of one's own on loopback, run by whoever starts it: no root, no namespaces."""

import contextlib
import getpass
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from lab.namespaces import LabError
from lab.sshd import make_key

SSHD = Path("/usr/sbin/sshd")
ADDRESS = "127.0.0.1"
PRIVILEGE_FOLDER = Path("/run/sshd")
# SHLVL keeps a shell from reading slow start-up files on every command; StrictModes is about folders that are ours.
CONFIG = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UseDNS no
PrintMotd no
PrintLastLog no
LogLevel VERBOSE
MaxStartups 1000
MaxSessions 1000
SetEnv SHLVL=2
"""
START_PATIENCE_S = 10


def why_not() -> str | None:
    """Why no server can be started here; None where one can."""
    return None if SSHD.exists() else f"{SSHD} is not installed (Debian: openssh-server)"


class LoopbackSshd:
    """One sshd with its own host key, and a client key that it accepts."""

    def __init__(self, folder: Path, settings: Sequence[str] = ()) -> None:
        """Lay out its files; `settings` are further lines of sshd_config."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.user, self.key = folder, getpass.getuser(), folder / "client_key"
        self.port = _free_port()
        self._settings = tuple(settings)
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "authorized_keys").write_text(f"{make_key(self.key, 'client')}\n")
        self.new_host_key()

    def new_host_key(self, kind: str = "ed25519") -> None:
        """Take another host key from the next start on."""
        make_key(self.folder / "host_key", "host", kind)

    @property
    def known_line(self) -> str:
        """Its host key as known_hosts has it."""
        kind, key = (self.folder / "host_key.pub").read_text().split()[:2]
        return f"[{ADDRESS}]:{self.port} {kind} {key}\n"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def start(self) -> Self:
        """Start it; it is listening when this returns."""
        text = CONFIG.format(port=self.port, address=ADDRESS, folder=self.folder)
        (self.folder / "sshd_config").write_text("\n".join((*self._settings, text)))
        if os.geteuid() == 0:
            PRIVILEGE_FOLDER.mkdir(mode=0o755, exist_ok=True)  # stays: another server may use it by then
        with (self.folder / "log").open("ab") as log:
            argv = [str(SSHD), "-D", "-e", "-f", str(self.folder / "sshd_config")]
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_PATIENCE_S
        while not _listens(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise LabError(f"sshd did not start: {self.log[-2000:].strip()}")
            time.sleep(0.01)
        return self

    def sessions(self) -> list[psutil.Process]:
        """The processes of its connections, those of commands not among them."""
        if self._process is None or self._process.poll() is not None:
            return []
        family = psutil.Process(self._process.pid).children(recursive=True)
        return [one for one in family if one.is_running() and one.name().startswith("sshd")]

    def cut(self) -> None:
        """Kill its connections; the server stays."""
        sessions = self.sessions()
        for one in sessions:
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended by itself
                one.kill()
        psutil.wait_procs(sessions, timeout=5)

    def stop(self) -> None:
        """End it and its connections."""
        if self._process is not None:
            self.cut()
            self._process.terminate()
            self._process.wait(5)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((ADDRESS, 0))
        return int(one.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((ADDRESS, port)) == 0
