"""The RDMA devices or libraries belong to another family of network cards.

Why: the family decides the libraries and variables of the container. Devices of another family are not found: the job
uses sockets or stops. A library that the host does not have is mounted as an empty directory.
Fix: correct the family, or the devices and libraries.
"""

from steelyard.hardware.nics import NICS
from steelyard.linting.rule import Case, Problems, Rule, Stated

RULE = Rule("SY603", "warning")


def check(case: Case) -> Problems:
    network, container = case.resolved.platform.network, case.resolved.platform.container
    if network.nic is None:
        return
    nic = NICS[network.nic]
    foreign = [name for name in network.hcas if not name.startswith(nic.hca_prefixes)]
    if foreign:
        message = f"{', '.join(foreign)} do not belong to {nic.name} ({nic.product})"
        expected = f"names that start with {' or '.join(nic.hca_prefixes)}"
        fix = "correct nic or hcas"
        yield RULE.problem(case, "platform.network.hcas", message, fix, ",".join(foreign), expected)
    own = ("platforms", case.resolved.platform_name or "", "container", "volumes")
    path = case.reading.paths.get("platform.container.volumes", own)
    for host in container.volumes if container and case.placement.nodes > 1 else ():
        other = next((family for family in NICS.values() if family is not nic and f"lib{family.driver}" in host), None)
        if other is not None:
            message = f"{host} is a library of {other.name} ({other.product}), but the cards are {nic.name}"
            fix = "remove it: the plan mounts what the family needs"
            yield RULE.at(case.reading, Stated(host, (*path, host)), message, fix, f"libraries of {nic.name}")
