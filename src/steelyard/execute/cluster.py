"""Executes a plan on the hosts of a cluster over ssh, or in a container here: each phase on all of them at once."""

import asyncio
import contextlib
import getpass
import platform as system
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from steelyard.configs.inventory import read_inventory
from steelyard.errors import InfrastructureError, InputError
from steelyard.execute import causes
from steelyard.execute.executor import TRAINING, Phase, RunFailedError, RunOptions, Stop, unless
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
"""Between two looks at a container, and how many in a row must miss it."""
_LIVE = ("created", "running", "paused", "restarting", "stopping")
_LIMIT_OPTIONS = {"time_limit": "--time-limit", "hang_at_exit": "--exit-within"}


def hosts_for(names: Sequence[str], options: RunOptions) -> list[Host]:
    """Hosts by name: those that are reached already, those of the cluster file, or this machine where there is none."""
    if options.hosts is not None:
        return [options.hosts[name] for name in names]
    if options.cluster is None:
        return [ThisHost(name) for name in names]
    from steelyard.execute.ssh import Login, ssh_hosts  # asyncssh takes its time to import

    inventory = read_inventory(options.cluster)
    login = Login(inventory.user, inventory.key_file, inventory.port, options.accept_new_host_keys)
    return [*ssh_hosts(names, login)]


async def preflight_findings(hosts: Sequence[Host], planned: Planned, options: RunOptions) -> list[HostFinding]:
    """Whether hosts are fit for a plan, weighed as it was asked."""
    needs = needs_of(planned)
    if options.image.file is not None or options.image.pull:
        needs = replace(needs, image=None)  # it is brought where it is missing, and held to be one everywhere then
    return weighed(await preflight(hosts, needs), parse_required(options.required))


class ClusterJob:
    """One job over all its hosts, be it this one in a container, from reaching them to leaving them as they were."""

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
            message = f"{file} is planned for {len(nodes)} machines and no cluster is named"
            fix = f"steelyard run {shlex.quote(str(file))} --cluster cluster.yaml"
            raise InputError(message, key="--cluster", expected="the cluster's hosts", next=fix)
        if options.preflight:
            parse_required(options.required)

    def phases(self) -> list[Phase]:
        limits, asks = self._limits, self._options.preflight or self._options.unfit is not None
        return [
            Phase("reach", limits.reach, partial(self._on_all, lambda node: node.host.run(["true"]))),
            Phase("lock", limits.lock, partial(self._on_all, self._lock)),
            *([Phase("preflight", limits.preflight, self._preflight)] if asks else []),
            Phase("image", limits.image, self._bring_images),
            Phase("prepare", limits.prepare, partial(self._on_all, self._prepare)),
            Phase("start", limits.start, partial(self._on_all, HostNode.start)),
        ]

    async def _on_all(self, work: Callable[[HostNode], Coroutine[Any, Any, object]]) -> None:
        """On all nodes at once; the first that fails ends it for all."""
        try:
            async with asyncio.TaskGroup() as group:
                for node in self.nodes:
                    group.create_task(work(node))
        except* InfrastructureError as several:
            raise several.exceptions[0] from None

    async def _lock(self, node: HostNode) -> None:
        node.touched = True  # from here on, whatever is answered
        try:
            await node.job.take(f"{getpass.getuser()}@{system.node()}", self._limits.lease)
        finally:
            for run in node.job.swept:
                self._recording.event("stale_lock", f"run {run} is dead: what it left is removed", node.host.name)
        node.heartbeat = asyncio.ensure_future(_beat(node))

    async def _preflight(self) -> None:
        """Ask the hosts once they are ours; whatever blocks is reported, and the first of it ends the run."""
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
        """The image of the containers on every host; hosts that call different images by one name are refused."""
        await self._on_all(lambda node: node.bring_image(self._options.image))
        if (first := self.nodes[0].plan.container) is None:
            return
        image, ids = first.image, {node.host.name: node.image_id for node in self.nodes if node.image_id is not None}
        self._recording.event("image", f"{image} is {next(iter(ids.values()))}", image=image, ids=ids)
        usual = Counter(ids.values()).most_common(1)[0][0]
        if odd := [host for host, digest in ids.items() if digest != usual]:
            message = f"image {image} is {ids[odd[0]][:19]} there and {usual[:19]} elsewhere"
            fix = f"load the same file on {', '.join(odd)}"
            raise HostRefusedError(odd[0], message, expected="one image on all hosts", next=fix)

    async def _prepare(self, node: HostNode) -> None:
        node.log = self._recording.of_node(node.plan, hide=await node.prepare())
        await node.read_counters(self._limits.counters)

    def guards(self) -> list[Awaitable[None]]:
        # Each heartbeat goes on after training.
        heartbeats = [asyncio.shield(node.heartbeat) for node in self.nodes if node.heartbeat is not None]
        return [*heartbeats, *(_watch_container(node) for node in self.nodes if node.plan.container is not None)]

    async def explain(self, overdue: Failure) -> RunFailedError:
        """Which hosts still run; of a stall, which of their processes somebody stopped, and what the logs name."""
        running = [node for node in self.nodes if node.state is None]
        names = ", ".join(node.host.name for node in running)
        if overdue.kind in _LIMIT_OPTIONS:
            fix = f"{_LIMIT_OPTIONS[overdue.kind]} SECONDS allows more; the steps that were done are recorded"
            message = f"{overdue.message}; still running: {names}"
            return RunFailedError(overdue.model_copy(update={"message": message}), next=fix)
        named, stopped = self._recording.named_failure(), await asyncio.gather(*(node.stopped() for node in running))
        host = next((node.host.name for node, why in zip(running, stopped, strict=True) if why), None)
        more = [*(why for why in stopped if why), *([named.message] if named else [])]
        message = "; ".join([f"{overdue.message}, and {names} still run", *more])
        node = host or (named.node if named else None)
        return RunFailedError(overdue.model_copy(update={"message": message, "node": node}))

    def failure(self) -> RunFailedError | None:
        cause = causes.first_cause(self.nodes, self._recording)
        return RunFailedError(cause, is_training=cause.kind in TRAINING) if cause is not None else None

    def stopping(self, phase: str) -> str:
        if names := [node.host.name for node in self.nodes if node.touched]:
            ending = f"ending the job on {', '.join(names)} and removing its files"
            return f"in {phase}: {ending}; Ctrl-C again leaves at once"
        return f"in {phase}: nothing was begun on any host"

    async def clean_up(self, stop: Stop, interrupted: bool) -> None:
        """Leave every host as it was found; what cannot be cleaned is reported.

        The record is written last: one that cannot be must not keep a host from being cleaned.
        """
        leaving = [asyncio.ensure_future(self._leave(node, stop, interrupted)) for node in self.nodes]
        await asyncio.gather(*leaving, return_exceptions=True)
        remainders = [task.result() for task in leaving]  # raises, only once no host is left alone
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
        """Read a host's counters again, then clean it: what our own ending stirs up there is not the run's doing."""
        if node.started and not interrupted:
            await unless(stop.asked, node.compare_counters(self._limits.counters))
        left = await unless(stop.at_once, leave(node, self._limits))
        if node.heartbeat is not None:  # until here: a host that takes long to clean is still ours
            node.heartbeat.cancel()
            await asyncio.gather(node.heartbeat, return_exceptions=True)
        return [remains(node, self._limits)] if left is None else left


async def _beat(node: HostNode) -> None:
    """From taking a host to leaving it: say that somebody asks after the job, and learn whether there is room."""
    while True:
        with contextlib.suppress(LinkLostError, HostTimeoutError):
            free_kib = await node.job.beat()
            if free_kib is not None and free_kib < FULL_KIB:
                raise RunFailedError(node.no_space())
        await asyncio.sleep(_HEARTBEAT_S)


async def _watch_container(node: HostNode) -> None:
    """Until a container that was seen is gone and nobody says how it ended: the engine's client may wait on."""
    seen, missed = False, 0
    while node.state is None:
        await asyncio.sleep(_INSPECT_S)
        with contextlib.suppress(LinkLostError, HostTimeoutError):
            state = await node.job.state()
            runs = any(box.status in _LIVE for box in state.containers)
            seen = seen or runs
            missed = 0 if runs or state.status is not None or state.engine_silent else missed + 1
        if seen and missed >= _MISSES:
            message = "its container is gone, and the engine does not say how it ended"
            raise RunFailedError(node.failed("container", message))


EXECUTOR = ClusterJob
