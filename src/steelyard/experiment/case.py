"""One experiment on one platform, and the machines it is to run on."""

from dataclasses import dataclass

from steelyard.experiment.placement import Placement
from steelyard.experiment.reading import Reading
from steelyard.experiment.resolve import Resolved


@dataclass(frozen=True, slots=True)
class Case:
    """One experiment on one platform."""

    resolved: Resolved
    placement: Placement
    hosts: tuple[str, ...] = ()
    """The machines it is to run on, in rank order; none where no cluster was named."""
    head_names: tuple[str, ...] = ()
    """What else the first of them is called."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables the cluster file gives every command."""
    login: str | None = None
    """Who the hosts know us as; None for this user."""

    @property
    def reading(self) -> Reading:
        return self.resolved.reading
