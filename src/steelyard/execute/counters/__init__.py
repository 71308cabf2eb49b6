"""What a host counts of its own troubles: read before a run and after it, and what changed between."""

from steelyard.execute.counters.change import changed
from steelyard.execute.counters.counts import VENDORS, HostCounter
from steelyard.execute.counters.reading import (
    GROUPS,
    TOOL_S,
    KernelLog,
    Reading,
    nothing_read,
    read_counters,
    read_host,
)

__all__ = [
    "GROUPS",
    "TOOL_S",
    "VENDORS",
    "HostCounter",
    "KernelLog",
    "Reading",
    "changed",
    "nothing_read",
    "read_counters",
    "read_host",
]
