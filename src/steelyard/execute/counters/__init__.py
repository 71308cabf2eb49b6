"""What a host counts of its own troubles: asked before a run and after it, and what changed between."""

from steelyard.execute.counters.asking import TOOL_S, look
from steelyard.execute.counters.change import changed
from steelyard.execute.counters.counter import HostCounter
from steelyard.execute.counters.gpus import VENDORS
from steelyard.execute.counters.reading import GROUPS, KernelLog, Reading, nothing_read, read_counters

__all__ = [
    "GROUPS",
    "TOOL_S",
    "VENDORS",
    "HostCounter",
    "KernelLog",
    "Reading",
    "changed",
    "look",
    "nothing_read",
    "read_counters",
]
