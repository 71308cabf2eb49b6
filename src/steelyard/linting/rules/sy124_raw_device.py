"""A disk, the machine's memory, or a path that is not a device is given to the container as a device.

Why: raw disks and memory hold everything of every user, and are written past all permissions; GPUs and network cards
are given by the plan itself.
Fix: take it out. Where the job needs it, permit it: `allow: [SY124]` of the platform, or `--set platform.allow=SY124`;
the plan records it.
"""

import re
from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.mounts import Mount, devices
from steelyard.linting.rule import Rule

RULE = Rule("SY124", "error", may_be_allowed=True)

_RAW = (
    (re.compile(r"/dev/(?:[shv]d|xvd)[a-z]+\d*|/dev/nvme\d.*|/dev/mmcblk\d.*|/dev/(?:sg|sr|n?st)\d+"), "a disk"),
    (re.compile(r"/dev/(?:dm-|md|loop|zd|nbd|rbd|ram)\d.*|/dev/loop-control"), "a disk"),
    (re.compile(r"/dev/(?:disk|mapper|block|md|zvol|bsg)(?:/.*)?"), "disks"),
    (re.compile(r"/dev/(?:mem|kmem|port|kcore)"), "the machine's memory"),
    (re.compile(r"/dev/kmsg"), "the kernel's log"),
    (re.compile(r"/dev/(?:vfio|cpu|uio\d+)(?:/.*)?"), "control of the machine"),
)


def check(case: Case) -> Iterator[Problem]:
    for device in devices(case):
        if (what := _what(device)) is not None:
            yield RULE.at(
                case.reading,
                device.place,
                message=f"the container is given {device.typed}: {what}",
                fix="take it out, or permit it: --set platform.allow=SY124",
                value=device.typed,
                expected="a device of a GPU or a network card",
            )


def _what(device: Mount) -> str | None:
    if device.path == "/dev":
        return "every device of the host"
    if not device.path.startswith("/dev/"):
        return f"{device.path}, which is not a device"
    if ".." in device.typed.split("/"):
        return f"{device.path} by another way"
    return next((what for pattern, what in _RAW if pattern.fullmatch(device.path)), None)
