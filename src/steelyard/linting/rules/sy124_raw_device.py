"""A disk, the machine's memory, or a path that is not a device is passed to the container as a device.

Why: raw disks and memory contain the data of all users, and writes to them bypass all permissions. The plan itself
passes GPUs and network cards.
Fix: remove it.
"""

import re

from steelyard.linting.mounts import Mount, devices
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY124", "error")

_RAW = (
    (re.compile(r"/dev/(?:[shv]d|xvd)[a-z]+\d*|/dev/nvme\d.*|/dev/mmcblk\d.*|/dev/(?:sg|sr|n?st)\d+"), "a disk"),
    (re.compile(r"/dev/(?:dm-|md|loop|zd|nbd|rbd|ram)\d.*|/dev/loop-control"), "a disk"),
    (re.compile(r"/dev/(?:disk|mapper|block|md|zvol|bsg)(?:/.*)?"), "disks"),
    (re.compile(r"/dev/(?:mem|kmem|port|kcore)"), "the machine's memory"),
    (re.compile(r"/dev/kmsg"), "the kernel's log"),
    (re.compile(r"/dev/(?:vfio|cpu|uio\d+)(?:/.*)?"), "control of the machine"),
)


def check(case: Case) -> Problems:
    for device in devices(case):
        if (content := _content(device)) is not None:
            message = f"the container can access {device.stated.value}: {content}"
            fix = "remove it, or allow it: --allow SY124"
            yield RULE.at(case.reading, device.stated, message, fix, "a device of a GPU or a network card")


def _content(device: Mount) -> str | None:
    """What the container could access through it; None if that is harmless."""
    if device.path == "/dev":
        return "every device of the host"
    if not device.path.startswith("/dev/"):
        return f"{device.path}, which is not a device"
    if ".." in device.stated.value.split("/"):
        return f"another path to {device.path}"
    return next((content for pattern, content in _RAW if pattern.fullmatch(device.path)), None)
