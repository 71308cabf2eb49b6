"""The socket of a container engine is mounted into the container.

Why: a program that can write to it is root on the host, because it can start containers that mount anything.
Fix: remove the mount; training does not start containers.
"""

import re

from steelyard.linting.mounts import mounts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY122", "error")

_SOCKET = re.compile(r"(?:docker|podman|containerd|crio|cri-dockerd|dockershim|buildkitd)[\w-]*\.sock(?:\.\w+)?")
"""Names of the engines' sockets, in any directory."""
DIRECTORIES = (
    *("/run/docker", "/run/podman", "/run/containerd", "/run/crio", "/run/user"),
    *("/var/lib/docker", "/var/lib/containers", "/var/lib/containerd"),
)
"""Where engines keep their sockets and containers; the socket of a user's own engine is below /run/user."""


def check(case: Case) -> Problems:
    for mount in mounts(case):
        if _SOCKET.fullmatch(mount.path.rpartition("/")[2]) or any(map(mount.lies_in, DIRECTORIES)):
            message = f"the container can access {mount.path}, which controls the host's containers"
            fix = "remove the mount, or allow it: --allow SY122"
            yield RULE.at(case.reading, mount.stated, message, fix, "no socket or directory of a container engine")
