"""Runs a plan on the hosts of a cluster over ssh, or in a container on this machine, phase by phase."""

import asyncio
import contextlib
import getpass
import platform as system
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from steelyard.configs.inventory import read_inventory
from steelyard.errors import InfrastructureError, InputError
from steelyard.execute import causes
from steelyard.execute.executor import TRAINING, Phase, RunFailedError, RunOptions, Stop, longer_limit, unless
from steelyard.execute.host import Host, HostError, HostRefusedError, HostTimeoutError, LinkLostError, ThisHost
from steelyard.execute.node import FULL_KIB, HostNode, leave, remains
from steelyard.execute.preflight import HostFinding, needs_of, parse_required, preflight, weighed
from steelyard.execute.recording import Recording
from steelyard.hardware.machine import Machine
from steelyard.planning.make import Planned
from steelyard.planning.plan import Plan
from steelyard.records import Event, Failure
from steelyard.records.host_change import HOST_COUNTERS

_HEARTBEAT_S = 5.0
_INSPECT_S, _MISSES = 15.0, 2
"""Seconds between two looks at a container, and how many looks in a row must miss it."""
_LIVE = ("created", "running", "paused", "restarting", "stopping")


def hosts_for(names: Sequence[str], options: RunOptions) -> list[Host]:
    """Hosts by name: those already connected, those of the cluster file, or this machine without a cluster file."""
    if options.hosts is not None:
        return [options.hosts[name] for name in names]
    if options.cluster is None:
        return [ThisHost(name) for name in names]
    from steelyard.execute.ssh import Login, ssh_hosts  # asyncssh is slow to import

    inventory = read_inventory(options.cluster)
    login = Login(inventory.user, inventory.key_file, inventory.port, options.accept_new_host_keys)
    return [*ssh_hosts(names, login)]


async def preflight_findings(hosts: Sequence[Host], planned: Planned, options: RunOptions) -> list[HostFinding]:
    """Check hosts for a plan, with the required checks of the options."""
    needs = needs_of(planned)
    if options.image.file is not None or options.image.pull:
        needs = replace(needs, image=None)  # copied to hosts that lack it, then compared between hosts
    return weighed(await preflight(hosts, needs), parse_required(options.required))


class ClusterJob:
    """One job on all its hosts, or in a container on this machine, from connecting to cleaning up."""

    def __init__(self, planned: Planned, recording: Recording, options: RunOptions) -> None:
        self._planned, self._recording, self._options, self._limits = planned, recording, options, options.limits
        hosts = hosts_for([node.host for node in planned.plan.nodes], options)
        run = recording.writer.manifest.job or recording.writer.manifest.name
        pairs = zip(planned.plan.nodes, hosts, strict=True)
        self.nodes = [HostNode(node, host, run, planned.case.placement) for node, host in pairs]
        self.exit_status: int | None = None

    @staticmethod
    def takes(plan: Plan) -> bool:
        return plan.nodes[0].directory is not None

    @staticmethod
    def check(planned: Planned, machine: Machine, options: RunOptions) -> None:
        nodes, file = planned.plan.nodes, planned.case.resolved.file
        if options.cluster is None and len(nodes) > 1:
            message = f"{file} needs {len(nodes)} hosts, but no cluster file was given"
            expected = "--cluster with a cluster file"
            raise InputError(message, key="--cluster", expected=expected, next="steelyard init cluster")
        if options.preflight:
            parse_required(options.required)

    def phases(self) -> list[Phase]:
        limits, checks_hosts = self._limits, self._options.preflight or self._options.unfit is not None
        return [
            Phase("reach", limits.reach, partial(self._on_all, lambda node: node.host.run(["true"]))),
            Phase("lock", limits.lock, partial(self._on_all, self._lock)),
            *([Phase("preflight", limits.preflight, self._preflight)] if checks_hosts else []),
            Phase("image", limits.image, self._bring_images),
            Phase("prepare", limits.prepare, partial(self._on_all, self._prepare)),
            Phase("start", limits.start, partial(self._on_all, HostNode.start)),
        ]

    async def _on_all(self, work: Callable[[HostNode], Coroutine[Any, Any, object]]) -> None:
        """On all nodes at once; the first failure ends it for all."""
        try:
            async with asyncio.TaskGroup() as group:
                for node in self.nodes:
                    group.create_task(work(node))
        except* InfrastructureError as several:
            raise several.exceptions[0] from None

    async def _lock(self, node: HostNode) -> None:
        node.touched = True  # from here on, whatever the host answers
        try:
            await node.job.take(f"{getpass.getuser()}@{system.node()}", self._limits.lease)
        finally:
            for run in node.job.swept:
                self._recording.event("stale_lock", f"removed the files of the dead run {run}", node.host.name)
        node.heartbeat = asyncio.ensure_future(_beat(node))

    async def _preflight(self) -> None:
        """Check the hosts while we hold them. Every blocking finding is reported; the first ends the run."""
        hosts = [node.host for node in self.nodes]
        if self._options.unfit is not None:
            for host in hosts:
                if (reason := self._options.unfit.get(host.name)) is not None:
                    raise reason
            return
        findings = await preflight_findings(hosts, self._planned, self._options)
        findings = [finding for finding in findings if finding.blocks]
        for finding in findings[1:]:
            where = finding.host or "the hosts"
            self._recording.observe(Event(kind="preflight", message=finding.message, node=where))
        if findings:
            first = findings[0]
            raise HostError(first.host or "the hosts", first.message, key=first.check, next=first.fix)

    async def _bring_images(self) -> None:
        """Get the container image onto every host; refuse hosts that have different images under one name."""
        await self._on_all(lambda node: node.bring_image(self._options.image))
        if (first := self.nodes[0].plan.container) is None:
            return
        image, ids = first.image, {node.host.name: node.image_id for node in self.nodes if node.image_id is not None}
        self._recording.event("image", f"{image} is {next(iter(ids.values()))}", image=image, ids=ids)
        usual = Counter(ids.values()).most_common(1)[0][0]
        if differing := [host for host, digest in ids.items() if digest != usual]:
            message = f"image {image} is {ids[differing[0]][:19]} here but {usual[:19]} on other hosts"
            fix = f"load the same image on {', '.join(differing)}"
            raise HostRefusedError(differing[0], message, expected="the same image on all hosts", next=fix)

    async def _prepare(self, node: HostNode) -> None:
        node.log = self._recording.of_node(node.plan, hide=await node.prepare())
        await node.read_counters(self._limits.counters)

    def guards(self) -> list[Awaitable[None]]:
        # Each heartbeat continues after training.
        heartbeats = [asyncio.shield(node.heartbeat) for node in self.nodes if node.heartbeat is not None]
        return [*heartbeats, *(_watch_container(node) for node in self.nodes if node.plan.container is not None)]

    async def explain(self, overdue: Failure) -> RunFailedError:
        """Add the hosts that still run; for a stall also stopped processes and the failure that the logs name."""
        running = [node for node in self.nodes if node.state is None]
        names = ", ".join(node.host.name for node in running)
        fix = longer_limit(overdue, self._recording.last_step)
        if overdue.kind in ("time_limit", "hang_at_exit"):
            message = f"{overdue.message}; still running: {names}"
            return RunFailedError(overdue.model_copy(update={"message": message}), next=fix)
        named, stopped = self._recording.named_failure(), await asyncio.gather(*(node.stopped() for node in running))
        host = next((node.host.name for node, why in zip(running, stopped, strict=True) if why), None)
        more = [*(why for why in stopped if why), *([named.message] if named else [])]
        message = "; ".join([overdue.message, f"still running: {names}", *more])
        node = host or (named.node if named else None)
        return RunFailedError(overdue.model_copy(update={"message": message, "node": node}), next=None if more else fix)

    def failure(self) -> RunFailedError | None:
        cause = causes.first_cause(self.nodes, self._recording)
        return RunFailedError(cause, is_training=cause.kind in TRAINING) if cause is not None else None

    def stopping(self, phase: str) -> str:
        if names := [node.host.name for node in self.nodes if node.touched]:
            ending = f"stopping the job on {', '.join(names)} and removing its files"
            return f"{ending} (during {phase}); press Ctrl-C again to leave at once"
        return f"stopping during {phase}; nothing was started on the hosts"

    async def clean_up(self, stop: Stop, interrupted: bool) -> None:
        """Leave every host as it was before, and report what cannot be removed.

        The record is written last, so that a failure to write it does not keep a host from being cleaned.
        """
        leaving = [asyncio.ensure_future(self._leave(node, stop, interrupted)) for node in self.nodes]
        await asyncio.gather(*leaving, return_exceptions=True)
        remainders = [task.result() for task in leaving]  # raises only after every host is done
        await asyncio.gather(*(node.host.close() for node in self.nodes))
        for node, left in zip(self.nodes, remainders, strict=True):
            if node.log is not None and node.state is None:
                node.log.feed(node.rest)
                node.log.end()
            if node.change is not None:
                self._recording.event(HOST_COUNTERS, node.change.words, node.host.name, **node.change.details())
            for words in left:
                self._recording.event("left_behind", words, node.host.name)
        if not interrupted:
            statuses = (node.state.status for node in self.nodes if node.state)
            self.exit_status = next((status for status in statuses if status), None)

    async def _leave(self, node: HostNode, stop: Stop, interrupted: bool) -> list[str]:
        """Read a host's counters again, then clean it: our own clean-up must not be counted."""
        if node.started and not interrupted:
            await unless(stop.asked, node.compare_counters(self._limits.counters))
        left = await unless(stop.at_once, leave(node, self._limits))
        if node.heartbeat is not None:  # until here, because cleaning may take long
            node.heartbeat.cancel()
            await asyncio.gather(node.heartbeat, return_exceptions=True)
        return [remains(node, self._limits)] if left is None else left


async def _beat(node: HostNode) -> None:
    """Keep the lease of a job alive and watch the free disk space, until the host is released."""
    while True:
        with contextlib.suppress(LinkLostError, HostTimeoutError):
            free_kib = await node.job.beat()
            if free_kib is not None and free_kib < FULL_KIB:
                raise RunFailedError(node.no_space())
        await asyncio.sleep(_HEARTBEAT_S)


async def _watch_container(node: HostNode) -> None:
    """Raise if a running container disappears without an exit status; the engine's client may hang then."""
    seen, missed = False, 0
    while node.state is None:
        await asyncio.sleep(_INSPECT_S)
        with contextlib.suppress(LinkLostError, HostTimeoutError):
            state = await node.job.state()
            is_live = any(container.status in _LIVE for container in state.containers)
            seen = seen or is_live
            missed = 0 if is_live or state.status is not None or state.engine_silent else missed + 1
        if seen and missed >= _MISSES:
            message = "the container is gone and the engine reports no exit status"
            raise RunFailedError(node.failed("container", message))


EXECUTOR = ClusterJob
