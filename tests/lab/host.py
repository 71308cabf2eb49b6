"""One host of a lab, and what can befall it."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from lab import images, network
from lab.engine import Engine
from lab.namespaces import Inside, LabError
from lab.sshd import SshServer

WATCHED = ("/tmp", "/root", "/home", "/var/tmp", "/dev/shm")
"""Where a guest might leave files."""
TOOLS = "/run/lab/bin"
FILLER = ".lab-filler"
DAEMONS = ("dockerd", "containerd", "sshd", "runc")
"""How the names of the lab's own processes begin, those of shims and sessions among them."""


class Host:
    """A machine with its own network, processes, files, ssh server and Docker engine."""

    def __init__(self, name: str, address: str, pid: int, controller: int, cgroup: str, scratch: Path) -> None:
        self.name = name
        self.address = address
        self.inside = Inside(name, pid)
        self._controller = controller
        self._scratch = scratch
        self._sshd = SshServer(self.inside)
        self._engine = Engine(self.inside, cgroup)
        self._fillers: list[Path] = []
        self._own_files = self._walk()

    def sh(
        self,
        argv: Sequence[str],
        input: str | None = None,
        check: bool = True,
        timeout: float = 30,
        stdin: IO[bytes] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the host without ssh."""
        return self.inside.sh(argv, input, check, timeout, stdin)

    def as_mallory(self, script: str, *words: str) -> "subprocess.Popen[bytes]":
        """Start a script on the host as a login that may do nothing."""
        enter = ["nsenter", "-t", str(self.inside.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"]
        login = ["setpriv", "--reuid", "4202", "--regid", "4202", "--clear-groups", "--no-new-privs", "--"]
        return subprocess.Popen([*enter, *login, "sh", "-c", script, "sh", *words], stdin=subprocess.DEVNULL)

    def path(self, path: str) -> Path:
        """A file of the host, as this process can open it; absolute links in it lead astray."""
        return self.inside.path(path)

    def cut(self) -> None:
        """Pull the host's network cable."""
        network.set_cable(self._controller, self.name, "down")

    def mend(self) -> None:
        """Plug the host's network cable in again."""
        network.set_cable(self._controller, self.name, "up")

    def start_sshd(self) -> None:
        """Start the ssh server."""
        self._sshd.start()

    def stop_sshd(self) -> None:
        """Kill the ssh server and its sessions; what they had started runs on."""
        self._sshd.stop([pid for pid, name, _ in self._all_processes() if name.startswith("sshd")])

    def new_host_key(self) -> None:
        """Restart the ssh server with a key that nobody knows."""
        self.stop_sshd()
        self._sshd.change_key()
        self.start_sshd()

    def restore_host_key(self) -> None:
        """Restart the ssh server with the key that the controller knows."""
        self.stop_sshd()
        self._sshd.restore_key(self._scratch / "seed/host_key")
        self.start_sshd()

    def start_engine(self) -> None:
        """Start the Docker engine."""
        self._engine.start()

    def stop_engine(self, crash: bool = False) -> None:
        """Stop the Docker engine and its containers; a crash leaves the containers running."""
        self._engine.stop(crash)

    def processes(self) -> list[tuple[int, str]]:
        """Number and command line of what runs here besides the lab's own daemons."""
        return [
            (pid, command)
            for pid, name, command in self._all_processes()
            if pid != 1 and command and not name.startswith(DAEMONS)
        ]

    def containers(self) -> list[dict[str, Any]]:
        """Every container, running or not, as `GET /containers/json` tells it: Id, Names, Image, State, Labels."""
        return self._engine.containers()

    def image_id(self, name: str) -> str:
        """The ID of an image."""
        return self._engine.image_id(name)

    def files(self) -> set[str]:
        """Every file and folder where a guest might leave one, besides the lab's own."""
        return self._walk() - self._own_files

    def fill_disk(self, path: str, leave_bytes: int = 0) -> None:
        """Fill the file system that holds a folder until so many bytes are left."""
        filler = self.path(path) / FILLER
        if _free(filler.parent) <= leave_bytes:
            raise LabError(f"{self.name}: {path} has fewer than {leave_bytes} bytes left already")
        self._fillers.append(filler)
        # Written, since an allocation that fails is undone: the disk would be full for a moment only.
        with filler.open("ab", buffering=0) as file:
            while (size := _free(filler.parent) - leave_bytes) > 0:
                try:
                    file.write(bytes(min(size, 2**20)))
                except OSError as reason:  # a program of the host took the rest meanwhile
                    if reason.errno != errno.ENOSPC:
                        raise

    def free_disk(self) -> None:
        """Undo every fill_disk."""
        for filler in self._fillers:
            filler.unlink(missing_ok=True)
        self._fillers.clear()

    def fake_tool(self, name: str, script: str) -> None:
        """Put a command first on the host's PATH; a script without a first line of its own is sh."""
        tool = self.path(f"{TOOLS}/{name}")
        # A new file each time: one that is being run cannot be written.
        tool.unlink(missing_ok=True)
        tool.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    def remove_tool(self, name: str) -> None:
        """Remove a command that fake_tool put there."""
        self.path(f"{TOOLS}/{name}").unlink()

    def load_image(self, source: Path, name: str, env: Mapping[str, str] | None = None, user: str | None = None) -> str:
        """Import a tree, or a tar of one, as an image of that name; return its ID."""
        packed = source if source.is_file() else images.pack(source, self._scratch / f"{self.name}.tar")
        variables = {"PATH": images.PATH, **(env or {})}
        changes = [f"--change=ENV {key}={images.quoted(value)}" for key, value in variables.items()]
        changes += [f"--change=USER {user}"] if user else []
        try:
            with packed.open("rb") as tar:
                self.sh(["docker", "import", *changes, "-", name], stdin=tar, timeout=120)
        finally:
            if packed != source:
                packed.unlink()
        return self.image_id(name)

    def save_image(self, name: str, tar: Path) -> None:
        """Write an image to an archive on the machine."""
        saved = "/srv/saved.tar"
        self.sh(["docker", "save", "--output", saved, name], timeout=120)
        shutil.move(self.path(saved), tar)

    def load_saved_image(self, tar: Path) -> None:
        """Load an archive that save_image wrote."""
        with tar.open("rb") as file:
            self.sh(["docker", "load", "--quiet"], stdin=file, timeout=120)

    def _all_processes(self) -> Iterator[tuple[int, str, str]]:
        for folder in self.path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    name = (folder / "comm").read_text().strip()
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                except (FileNotFoundError, ProcessLookupError):
                    continue  # it has ended meanwhile
                yield int(folder.name), name, command

    def _walk(self) -> set[str]:
        found: set[str] = set()
        root = self.path("/")
        for top in WATCHED:
            device = self.path(top).stat().st_dev
            for folder, folders, names in os.walk(self.path(top)):
                here = Path(folder)
                found |= {f"/{(here / name).relative_to(root)}" for name in (*folders, *names) if name != FILLER}
                folders[:] = [each for each in folders if _device(here / each) == device]
        return found


def _device(folder: Path) -> int | None:
    """Where a folder lies; None where it was removed meanwhile."""
    try:
        return folder.lstat().st_dev
    except FileNotFoundError:
        return None


def _free(folder: Path) -> int:
    """Bytes, in whole blocks."""
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize
