"""Preflight of a fleet: all hosts are asked once, before any runs, each judged by itself and against the others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from steelyard.execute.host import Host, HostError
from steelyard.execute.preflight import HostFinding
from steelyard.records.fleet import Fleet, PreflightFinding
from steelyard.verdict import Status

Ask = Callable[[Sequence[Host]], Awaitable[list[HostFinding]]]


class FleetPreflight:
    """Which hosts of a fleet may run, and what is wrong with the others."""

    def __init__(self, ask: Ask, others: Sequence[Host], report: Callable[[HostFinding], None]) -> None:
        """`others` are hosts of the fleet that do not run again: what is the same everywhere is seen by them too.

        `report` is given what is wrong with hosts that are to run.
        """
        self._ask, self._others, self._report = ask, others, report
        self._findings: list[HostFinding] | None = None

    async def unfit(self, hosts: Sequence[Host]) -> dict[str, HostError]:
        """What keeps which host from running."""
        try:
            findings = await self._ask([*hosts, *self._others])
        finally:
            await asyncio.gather(*(host.close() for host in self._others))
        self._findings = [finding for finding in findings if finding.blocks or finding.status == Status.FAIL]
        names = [host.name for host in hosts]
        for finding in self._findings:
            if finding.host is None or finding.host in names:
                self._report(finding)
        blocking = {name: self._first_blocking(name) for name in names}
        return {
            name: HostError(name, finding.message, key=finding.check, next=finding.fix)
            for name, finding in blocking.items()
            if finding is not None
        }

    def _first_blocking(self, host: str) -> HostFinding | None:
        """What keeps a host from running; what is wrong with this machine keeps all."""
        findings = self._findings or ()
        return next((finding for finding in findings if finding.blocks and finding.host in (host, None)), None)

    def recorded_in(self, fleet: Fleet) -> Fleet:
        """The fleet with what is wrong with its hosts."""
        if self._findings is None:
            return fleet
        hosts = {run.host for run in fleet.manifest.runs}
        findings = [
            PreflightFinding(
                host=finding.host,
                check=finding.check,
                status=finding.status.value,
                required=finding.required,
                message=finding.message,
                fix=finding.fix,
            )
            for finding in self._findings
            if finding.host is None or finding.host in hosts
        ]
        return Fleet(fleet.directory, fleet.manifest.model_copy(update={"preflight": findings}))
