"""RDMA devices named after another family of network cards.

Why: the family decides libraries and variables of the container; devices of another are not found, and the job falls
back to sockets or stops.
Fix: name the family of the devices, or the devices of the family.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.hardware.nics import NICS
from steelyard.lint.rule import Case, Rule

RULE = Rule("SY603", "warning")


def check(case: Case) -> Iterator[Problem]:
    network = case.resolved.platform.network
    if network.nic is None:
        return
    nic = NICS[network.nic]
    foreign = [name for name in network.hcas if not name.startswith(nic.hca_prefixes)]
    if foreign:
        yield RULE.problem(
            case,
            "platform.network.hcas",
            message=f"{', '.join(foreign)} are no devices of {nic.name} ({nic.product})",
            fix="correct the family or the devices",
            value=",".join(foreign),
            expected=f"names that start with {' or '.join(nic.hca_prefixes)}",
        )
