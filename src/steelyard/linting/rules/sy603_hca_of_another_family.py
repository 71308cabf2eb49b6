"""RDMA devices or libraries of another family of network cards.

Why: the family decides libraries and variables of the container; devices of another are not found, and the job falls
back to sockets or stops. A library that a host does not have is mounted as an empty directory.
Fix: name the family of the devices, or the devices and libraries of the family.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.hardware.nics import NICS
from steelyard.linting.rule import Rule

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
    container = case.resolved.platform.container
    for host in container.volumes if container else ():
        other = next((one for one in NICS.values() if one is not nic and f"lib{one.driver}" in host), None)
        if other is not None and case.placement.nodes > 1:
            path = case.reading.volumes_path or ("platforms", case.resolved.platform_name or "", "container", "volumes")
            yield RULE.at(
                case.reading,
                (*path, host),
                message=f"{host} is a library of {other.name} ({other.product}), and the cards are {nic.name}",
                fix="remove it: the plan mounts what the family needs",
                value=host,
                expected=f"libraries of {nic.name}",
            )
