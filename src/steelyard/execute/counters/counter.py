"""The name of one counter of a host."""

from typing import NamedTuple


class HostCounter(NamedTuple):
    """Whose it is, and what it counts."""

    group: str
    device: str
    name: str
