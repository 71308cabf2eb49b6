"""What the container is to see of a host is there: Docker makes what is missing, and leaves it; Podman gives up."""

from collections.abc import Iterator, Mapping

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs

VOLUMES = Check("volumes", required=True)
CHECKS = (VOLUMES,)


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    for at, path in enumerate(needs.volumes):
        fix = f"make {path} there, or take it out of the config's volumes"
        for host, seen in facts.items():
            there = seen.volumes[at] if at < len(seen.volumes) else None
            if there is None:
                yield VOLUMES.unknown(host, f"whether {path} is there is not known", fix, None, "present")
            elif not there:
                yield VOLUMES.failed(host, f"{path}, a volume of the container, is missing", fix, "missing", "present")
            else:
                yield VOLUMES.passed(host, f"{path} is present", "present", "present")
