"""What a machine must have before a lab can be made on it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

INSTALL = Path(__file__).with_name("install.sh")
COMMANDS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "findmnt": "util-linux",
    "pivot_root": "util-linux",
    "/usr/sbin/dockerd": "docker.io",
    "/usr/bin/docker": "docker.io",
    "/usr/sbin/runc": "runc",
    "podman": "podman",
    "catatonit": "catatonit",
    "busybox": "busybox-static",
    "/usr/sbin/sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
}
"""Commands and the Debian packages they come from."""
TRIAL = (
    *("unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-ec"),
    "mount -t proc proc /proc; mount -t tmpfs lab /mnt; mknod /mnt/null c 1 3; ls /sys/fs/cgroup/* >/mnt/null",
)
"""The rights a host needs, tried in namespaces that end with it."""


def reasons_not_to() -> str | None:
    """Why no lab can be made here; None where one can."""
    if sys.platform != "linux":
        return f"a lab needs Linux namespaces, this is {sys.platform}"
    if os.geteuid() != 0:
        return "a lab needs root"
    missing = sorted({package for command, package in COMMANDS.items() if shutil.which(command) is None})
    if missing:
        return f"packages are missing: {', '.join(missing)}; next: sh {INSTALL}"
    tried = subprocess.run(TRIAL, capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"a lab needs namespaces, mounts and device files: {tried.stderr.strip()}"
    return None
