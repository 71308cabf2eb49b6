"""The socket of a container engine is mounted into the container.

Why: whoever may write to it is root on the host: it starts containers that mount anything.
Fix: take it out; training starts no containers. Where it must be there, permit it: `allow: [SY122]` of the platform, or
`--set platform.allow=SY122`; the plan records it.
"""

import re

from steelyard.linting.mounts import mounts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY122", "error", may_be_allowed=True)

_SOCKET = re.compile(r"(?:docker|podman|containerd|crio|cri-dockerd|dockershim|buildkitd)[\w-]*\.sock(?:\.\w+)?")
"""Names of the engines' sockets, wherever they lie."""
DIRECTORIES = (
    *("/run/docker", "/run/podman", "/run/containerd", "/run/crio", "/run/user"),
    *("/var/lib/docker", "/var/lib/containers", "/var/lib/containerd"),
)
"""Where the engines keep their sockets and the containers of others; a user's engine has its socket below /run/user."""


def check(case: Case) -> Problems:
    for mount in mounts(case):
        if _SOCKET.fullmatch(mount.path.rpartition("/")[2]) or any(map(mount.lies_in, DIRECTORIES)):
            message = f"the container is given {mount.path}, which controls the host's containers"
            fix = "take it out, or permit it: --set platform.allow=SY122"
            yield RULE.at(case.reading, mount.stated, message, fix, "no socket or directory of a container engine")
