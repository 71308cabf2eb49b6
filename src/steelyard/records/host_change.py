"""What a host counted of its own troubles between the start of a run and its end, as an event keeps it."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from steelyard.records.step import Event

HOST_COUNTERS = "host_counters"
"""The kind of those events, one a host."""

KERNEL_LOG, ECC, THROTTLE, NETWORK = "kernel_log", "gpu_ecc", "gpu_throttle", "network"

Count = Annotated[int, msgspec.Meta(ge=0)]


class CounterChange(msgspec.Struct, frozen=True, kw_only=True):
    """A counter that grew, or of which there is no telling whether it did."""

    group: str
    device: str
    name: str
    before: Count | None
    """None where it was not there."""
    after: Count | None

    @property
    def growth(self) -> int | None:
        """By how much it grew; None where that is not known."""
        if self.before is None or self.after is None or self.after <= self.before:
            return None
        return self.after - self.before

    @property
    def words(self) -> str:
        """What became of it."""
        if self.before is None:
            return f"was not counted before, and is {self.after:,}"
        if self.after is None:
            return f"was {self.before:,}, and is not counted any more"
        if self.after < self.before:
            return f"went back from {self.before:,} to {self.after:,}"
        return f"{self.before:,} to {self.after:,}" if self.growth else f"stands at its ceiling of {self.after:,}"


class KernelComplaint(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel complained of meanwhile, and had not before."""

    what: str
    fix: str
    count: Count
    lines: tuple[str, ...]
    """The last of them."""


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """What could not be read, before the run or after it."""

    group: str
    reason: str
    fix: str


class HostChange(msgspec.Struct, frozen=True, kw_only=True):
    """All that changed on one host."""

    compared: Mapping[str, Count]
    """How many counters of each group were held against what they were; lines of the kernel's log."""
    counters: tuple[CounterChange, ...] = ()
    kernel: tuple[KernelComplaint, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def words(self) -> str:
        """For the event's message."""
        grown = [f"{change.name} of {change.device} grew" for change in self.counters if change.growth]
        complaints = [f"{complaint.count:,} x {complaint.what}" for complaint in self.kernel]
        missing = [f"{unread.group} not known" for unread in self.unread]
        more = f", and {len(grown) - 3:,} more counters" if len(grown) > 3 else ""
        return (", ".join([*complaints, *grown[:3], *missing]) or "no counter of trouble grew") + more

    def details(self) -> dict[str, Any]:
        """As an event holds it."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


def read_change(event: Event) -> HostChange:
    """What such an event holds; ValueError where it is something else."""
    return msgspec.convert(event.details, HostChange)
