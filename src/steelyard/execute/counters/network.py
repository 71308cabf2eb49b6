"""What the kernel counts of network cards: errors, drops, retries, and links that went down."""

import re

from steelyard.execute.counters.counter import HostCounter
from steelyard.execute.preflight.sections import Sections
from steelyard.execute.preflight.smi import count
from steelyard.records.host_change import NETWORK, Unread

_LINE = re.compile(
    r"(net/(?P<link>[^/]+)/(statistics/)?|infiniband/(?P<card>[^/]+)/ports/(?P<port>\d+)/(hw_)?counters/)"
    r"(?P<name>\w+):(?P<value>\d+)"
)
_TROUBLE = re.compile(
    r"err|drop|discard|retr[ay]|restart|nak|timeout|duplicate|out_of_(buffer|seq)|oos|missing|integrity|overrun|crc"
    r"|fifo|collisions|link_down|carrier_down"
)
"""Names of what goes wrong. Traffic, congestion marks (CNP, ECN) and waiting are no trouble: they grow in every job."""


def read(sections: Sections) -> tuple[dict[HostCounter, int], list[Unread]]:
    """By interface, and by port of an RDMA card."""
    section = sections["nic_counters"]
    if not section.answered:
        return {}, [Unread(group=NETWORK, reason=section.reason, fix="see whether /sys/class/net is there")]
    counts = dict[HostCounter, int]()
    for line in section.lines:
        found = _LINE.fullmatch(line)
        value = count(found["value"]) if found else None
        if found is None or value is None or not _TROUBLE.search(found["name"].lower()):
            continue
        device = found["link"] or f"{found['card']} port {found['port']}"
        counts[HostCounter(NETWORK, device, found["name"])] = value
    return counts, []
