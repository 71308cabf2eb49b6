"""A directory of the host's system is mounted into the container.

Why: what a container writes there stays: programs, services and settings of the host that others, and root, go on
to use. A run of somebody else's config as root hands them the machine.
Fix: mount the one file or directory below it that the job needs. Where it is this one, permit it: `allow: [SY121]` of
the platform, or `--set platform.allow=SY121`; the plan records it.
"""

from steelyard.linting.mounts import Mount, mounts, secret_files
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY121", "error", may_be_allowed=True)

WHOLE = {
    "/": "the whole host",
    "/etc": "the host's settings, passwords and services",
    "/run": "the sockets of the host's services",
    "/dev": "every device of the host, its disks among them",
    "/home": "the homes of all users",
    **dict.fromkeys(
        ("/bin", "/sbin", "/usr", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"), "the host's programs"
    ),
    **dict.fromkeys(("/lib", "/lib64", "/usr/lib", "/usr/lib64"), "libraries that every program of the host loads"),
}
"""Directories that may not be mounted as a whole; what lies below may be a library of a network card or a home."""

TREES = {
    "/boot": "what the host starts from",
    "/proc": "the processes and the kernel's settings",
    "/sys": "the kernel's settings and devices",
    "/etc/shadow": "the passwords of the host's users",
    "/etc/gshadow": "the passwords of the host's groups",
    "/etc/sudoers": "who may become root",
    "/etc/sudoers.d": "who may become root",
    "/etc/pam.d": "who may log in",
    "/etc/ssh": "the host's own keys, and who may log in",
    "/etc/systemd": "what root starts",
    "/etc/cron.d": "what root starts",
    "/etc/ld.so.preload": "what every program of the host loads",
    "/run/systemd": "the socket of the host's services",
    "/run/dbus": "the socket of the host's services",
}
"""Directories of which nothing may be mounted."""

HARMLESS = ("/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/net")
"""Names of network cards, which some libraries of theirs look up; the kernel's settings are not among them."""


def check(case: Case) -> Problems:
    fix = "mount what the job needs of it, or permit it: --set platform.allow=SY121"
    for mount in (*mounts(case), *secret_files(case)):
        if (content := _handed_over(mount)) is not None:
            message = f"the container is given {mount.path} of the host: {content}"
            yield RULE.at(case.reading, mount.stated, message, fix, "a directory of the job's own")


def _handed_over(mount: Mount) -> str | None:
    """What of the host the container would be given; None where that is harmless."""
    if mount.path in WHOLE:
        return WHOLE[mount.path]
    if mount.path in HARMLESS:
        return None
    return next((content for tree, content in TREES.items() if mount.lies_in(tree)), None)
