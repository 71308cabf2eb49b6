"""Podman on a host of a lab: images and containers of its own, run by the lab's runc."""

import json
import os
from pathlib import Path
from typing import Any

from lab.host import Host
from lab.leftovers import CGROUPS

# Locks in files: those in /dev/shm would be taken for something a guest left.
CONTAINERS = """\
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
image_copy_tmp_dir = "storage"
lock_type = "file"
runtime = "lab"
[engine.runtimes]
lab = ["/run/lab/engine/runc"]
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "/srv/podman"
runroot = "/run/podman"
"""


class Podman:
    """The Podman of one host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        for name, text in (("containers.conf", CONTAINERS), ("storage.conf", STORAGE)):
            host.path(f"/etc/containers/{name}").write_text(text)
        # It locks a file there to look a short name up, and without it knows none.
        host.sh(["mount", "-t", "tmpfs", "-o", "size=1m", "podman", "/var/cache"])

    def load(self, tar: Path) -> None:
        """Load an archive that Docker or Podman saved."""
        with tar.open("rb") as file:
            self.host.sh(["podman", "load", "--quiet"], stdin=file, timeout=120)

    def containers(self) -> list[dict[str, Any]]:
        """Every container, running or not: Id, Names, State, Labels."""
        found: list[dict[str, Any]] = json.loads(self.host.sh(["podman", "ps", "--all", "--format", "json"]).stdout)
        return found

    def one_of_ours(self) -> str:
        """The ID of the only container of a run."""
        (one,) = (one for one in self.containers() if "steelyard.run" in (one["Labels"] or {}))
        return str(one["Id"])

    def remove(self, *containers: str) -> None:
        """Remove containers, by default all."""
        self.host.sh(["podman", "rm", "--force", "--time", "0", *(containers or ("--all",))])


def remove_cgroups() -> None:
    """Remove the control groups that Podman makes for all hosts of the machine alike, and leaves."""
    for top in (*CGROUPS.glob("libpod_parent"), *CGROUPS.glob("*/libpod_parent")):
        for group in (top / "conmon", top):
            # Another lab's containers may still be in it.
            if group.is_dir() and not any(each.is_dir() for each in os.scandir(group)) and not _holds(group):
                group.rmdir()


def _holds(group: Path) -> bool:
    return bool((group / "cgroup.procs").read_text())
