"""A system directory of the host is mounted into the container.

Why: what a container writes there stays on the host: programs, services and settings that root and others use.
Somebody else's config that runs as root can take over the machine.
Fix: mount only the file or directory below it that the job needs.
"""

from steelyard.linting.mounts import Mount, mounts, secret_files
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY121", "error")

WHOLE = {
    "/": "the whole host",
    "/etc": "the host's settings, passwords and services",
    "/run": "the sockets of the host's services",
    "/dev": "every device of the host, including its disks",
    "/home": "the homes of all users",
    **dict.fromkeys(
        ("/bin", "/sbin", "/usr", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"), "the host's programs"
    ),
    **dict.fromkeys(("/lib", "/lib64", "/usr/lib", "/usr/lib64"), "libraries that every program of the host loads"),
}
"""Directories that must not be mounted as a whole. Below them may be a library of a network card, or a home."""

TREES = {
    "/boot": "the host's boot files",
    "/proc": "the host's processes and kernel settings",
    "/sys": "the host's kernel settings and devices",
    "/etc/shadow": "the passwords of the host's users",
    "/etc/gshadow": "the passwords of the host's groups",
    "/etc/sudoers": "who can become root",
    "/etc/sudoers.d": "who can become root",
    "/etc/pam.d": "who can log in",
    "/etc/ssh": "the host's keys, and who can log in",
    "/etc/systemd": "programs that root starts",
    "/etc/cron.d": "programs that root starts",
    "/etc/ld.so.preload": "libraries that every program of the host loads",
    "/run/systemd": "the socket of the host's services",
    "/run/dbus": "the socket of the host's services",
}
"""Directories from which nothing may be mounted."""

HARMLESS = ("/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/net")
"""Names of network cards, which their libraries look up; they contain no kernel settings."""


def check(case: Case) -> Problems:
    fix = "mount only what the job needs, or allow it: --allow SY121"
    for mount in (*mounts(case), *secret_files(case)):
        if (content := _exposed(mount)) is not None:
            message = f"the container can access {mount.path} of the host: {content}"
            yield RULE.at(case.reading, mount.stated, message, fix, "a directory of the job")


def _exposed(mount: Mount) -> str | None:
    """What the container could access; None if that is harmless."""
    if mount.path in WHOLE:
        return WHOLE[mount.path]
    if mount.path in HARMLESS:
        return None
    return next((content for tree, content in TREES.items() if mount.lies_in(tree)), None)
