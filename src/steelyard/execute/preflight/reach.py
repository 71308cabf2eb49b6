"""Every host is reached and answers in time."""

from collections.abc import Iterator, Mapping

from steelyard.execute.host import HostError
from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.secrets import redacted

REACH = Check("reach", required=True)
CHECKS = (REACH,)


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    """Those that gave facts; those that did not are `unreached`."""
    for host in facts:
        yield REACH.passed(host, "it answers", "reached", "reached")


def unreached(host: str, error: HostError) -> HostFinding:
    """A host that gave none."""
    message = redacted(error.complaint)
    fix = error.next or "see that the host is on and that ssh gets there, or leave it out of the cluster file"
    return REACH.failed(host, message, fix, "not reached", "reached")
