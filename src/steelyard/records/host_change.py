"""Changes of a host's error counters between start and end of a run, as stored in an event."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from steelyard.records.step import Event

HOST_COUNTERS = "host_counters"
"""The kind of these events, one per host."""

KERNEL_LOG, ECC, THROTTLE, NETWORK = "kernel_log", "gpu_ecc", "gpu_throttle", "network"

Count = Annotated[int, msgspec.Meta(ge=0)]


class CounterChange(msgspec.Struct, frozen=True, kw_only=True):
    """A counter that grew, or whose growth is unknown."""

    group: str
    device: str
    name: str
    before: Count | None
    """None if the counter did not exist."""
    after: Count | None

    @property
    def growth(self) -> int | None:
        """The growth; None if unknown."""
        if self.before is None or self.after is None or self.after <= self.before:
            return None
        return self.after - self.before

    @property
    def words(self) -> str:
        """The change in words."""
        if self.before is None:
            return f"new, {self.after:,}"
        if self.after is None:
            return f"was {self.before:,}, now missing"
        if self.after < self.before:
            return f"reset from {self.before:,} to {self.after:,}"
        return f"{self.before:,} to {self.after:,}" if self.growth else f"at its maximum of {self.after:,}"


class KernelComplaint(msgspec.Struct, frozen=True, kw_only=True):
    """New errors in the kernel log."""

    what: str
    fix: str
    count: Count
    lines: tuple[str, ...]
    """The last of these lines."""


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """Counters that could not be read before or after the run."""

    group: str
    reason: str
    fix: str


class HostChange(msgspec.Struct, frozen=True, kw_only=True):
    """All changes on one host."""

    compared: Mapping[str, Count]
    """Number of compared counters by group; for the kernel log, of lines."""
    counters: tuple[CounterChange, ...] = ()
    kernel: tuple[KernelComplaint, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def words(self) -> str:
        """The message of the event."""
        grown = [f"{change.name} of {change.device} grew" for change in self.counters if change.growth]
        complaints = [f"{complaint.count:,} x {complaint.what}" for complaint in self.kernel]
        missing = [f"{unread.group} unknown" for unread in self.unread]
        more = f", and {len(grown) - 3:,} more counters" if len(grown) > 3 else ""
        return (", ".join([*complaints, *grown[:3], *missing]) or "no error counter grew") + more

    def details(self) -> dict[str, Any]:
        """The details of the event."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields


def read_change(event: Event) -> HostChange:
    """The changes in such an event; ValueError if its details are invalid."""
    return msgspec.convert(event.details, HostChange)
