"""Preflight of a fleet: all hosts are asked once, before any runs, each judged by itself and against the others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from steelyard.campaign.fleet import Look
from steelyard.execute.host import Host, HostError
from steelyard.execute.preflight import HostFinding
from steelyard.records.fleet import Fleet, Wanting
from steelyard.verdict import Status

Ask = Callable[[Sequence[Host]], Awaitable[list[HostFinding]]]


class Looking:
    """Who of a fleet may run, and what is to be said of the others."""

    def __init__(self, ask: Ask, others: Sequence[Host]) -> None:
        """`others` are hosts of the fleet that do not run again: what is the same everywhere is told by them too."""
        self._ask, self._others = ask, others
        self._found: list[HostFinding] | None = None

    def told_to(self, say: Callable[[str], None]) -> Look:
        """As the runner asks for it: what keeps which host from running."""

        async def look(hosts: Sequence[Host]) -> dict[str, HostError]:
            try:
                findings = await self._ask([*hosts, *self._others])
            finally:
                await asyncio.gather(*(host.close() for host in self._others))
            self._found = [one for one in findings if one.blocks or one.status == Status.FAIL]
            names = [host.name for host in hosts]
            for one in self._found:
                if one.host is None or one.host in names:
                    say(f"preflight: {one.host or 'this machine'}: {one.message}")
            return {name: _error(name, first) for name in names if (first := self._first(name)) is not None}

        return look

    def _first(self, host: str) -> HostFinding | None:
        """What keeps a host from running; what is wrong with this machine keeps all."""
        return next((one for one in self._found or () if one.blocks and one.host in (host, None)), None)

    def kept(self, fleet: Fleet) -> Fleet:
        """The fleet with what was found of its hosts."""
        if self._found is None:
            return fleet
        hosts = {one.host for one in fleet.manifest.runs}
        wanting = [
            Wanting(
                host=one.host,
                check=one.check,
                status=one.status.value,
                required=one.required,
                message=one.message,
                fix=one.fix,
            )
            for one in self._found
            if one.host is None or one.host in hosts
        ]
        return Fleet(fleet.directory, fleet.manifest.model_copy(update={"preflight": wanting}))


def _error(host: str, found: HostFinding) -> HostError:
    return HostError(host, found.message, key=found.check, next=found.fix)
