"""One node of a remote job, from its plan to the clean-up of its host."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial

from steelyard.execute.counters import GROUPS, VENDORS, Reading, changed, nothing_read, read_host
from steelyard.execute.executor import RECONNECT_S, ImageSource, JobNode, Limits, content_of
from steelyard.execute.host import Host, HostError, HostRefusedError, LinkLostError
from steelyard.execute.job import HostJob, State
from steelyard.execute.telemetry import HostTelemetry
from steelyard.experiment.case import Placement
from steelyard.planning.container import ENGINES, labelled, mounts_of
from steelyard.planning.plan import NodePlan
from steelyard.records import Failure
from steelyard.records.host_change import HostChange

FULL_KIB = 1024
"""Below this the disk counts as full: the job's output needs space."""
_ASK_S, _BRING_S = 10.0, 3600.0
_REST_S, _REST_BYTES = 20.0, 16 << 20
"""Limits for reading the last output of a job that we stop."""
_ONE_MORE_TRY_S = 5.0
"""For cleaning a host whose connection is lost."""


class HostNode(JobNode):
    """One node of a job: its plan, host, output and state."""

    def __init__(self, plan: NodePlan, host: Host, run: str, placement: Placement) -> None:
        assert plan.directory is not None, "a plan for hosts has a directory"
        self.plan, self.host = plan, host
        self.job = HostJob(host, run, plan.directory, plan.container.engine if plan.container else "")
        any_vendor = VENDORS if placement.device == "gpu" else frozenset[str]()
        self._vendors = frozenset({placement.gpu.vendor}) if placement.gpu else any_vendor
        """Vendors of the GPUs that the job uses: all vendors for a GPU that is not in the catalog."""
        self.image_id: str | None = None
        """Digest of the config of its container image."""
        self.touched = False
        """Whether files or processes of ours may be on the host."""
        self.heartbeat: asyncio.Future[None] | None = None
        """Renews our lease of the host until it is released."""
        self._state: State | None = None
        self.rest = b""
        """Output after we stopped reading."""
        self.before: Reading | None = None
        """Counters of the host before the start."""
        self.change: HostChange | None = None
        """Changes of these counters at the end."""

    @property
    def state(self) -> State | None:
        """How it ended; None before its end."""
        return self._state if self.ended_at is not None else None

    def follow(self, offset: int) -> AsyncIterator[bytes]:
        has_ended = self._state is not None and self._state.status is not None
        return self.job.rest(offset) if has_ended else self.job.follow(offset)

    async def status(self) -> int | None:
        state = await self.job.state()
        if state.gone:
            raise HostError(self.host.name, "the job's files are gone: it was stopped by someone else")
        if state.unwatched:
            raise HostError(self.host.name, "the process that watches the job was killed")
        self._state = state
        return state.status

    async def reach(self) -> None:
        await self.job.state()

    def telemetry(self) -> HostTelemetry | None:
        """None for a GPU that is not in the catalog: its vendor's tool is unknown."""
        return HostTelemetry(self.host, next(iter(self._vendors), None)) if len(self._vendors) < 2 else None

    def failed(self, kind: str, message: str, phase: str = "train") -> Failure:
        """A failure of this node."""
        return Failure(kind=kind, message=message, node=self.host.name, phase=phase)

    def no_space(self) -> Failure:
        return self.failed("disk", f"No space left on device for {self.job.directory}")

    async def bring_image(self, source: ImageSource) -> None:
        """Make sure that the host has its container image; load or pull it if that was requested."""
        if self.plan.container is None:
            return
        engine, image = self.plan.container.engine, self.plan.container.image
        await engine_answers(self.host, engine)
        self.image_id = await _image_id(self.host, engine, image)
        if self.image_id is not None:
            return
        if source.file is not None:
            done = await self.host.pour(source.file, [engine, "load"], _BRING_S)
        elif source.pull:
            done = await self.host.run([engine, "pull", "--quiet", image], timeout_s=_BRING_S)
        else:
            fix = f"--pull, or --image-file FILE with a file written by `{engine} save`"
            raise HostRefusedError(self.host.name, f"image {image} not found", next=fix)
        if done.status:
            action = "load" if source.file is not None else "pull"
            raise HostRefusedError(self.host.name, f"cannot {action} image {image} ({done.reason})")
        self.image_id = await _image_id(self.host, engine, image)
        if self.image_id is None:
            message = f"{source.file} contains a different image"
            raise HostRefusedError(self.host.name, message, key="--image-file", expected=image)

    async def prepare(self) -> list[bytes]:
        """Write the files of its program; return its secrets, to hide them in its output."""
        mounts = mounts_of(self.plan.container.argv, self.job.directory) if self.plan.container else []
        files = {file.path: content_of(file).encode() for file in self.plan.files}
        await self.job.prepare(files, self.plan.secrets, mounts)
        return [await self.job.secret(name) for name in self.plan.secrets]

    async def read_counters(self, within_s: float) -> None:
        """Read the counters of its host before the start."""
        self.before = await read_host(self.host, within_s, vendors=self._vendors)

    async def start(self) -> None:
        self.started = True
        if self.plan.container is not None:
            await self.job.start(labelled(self.plan.container.argv, self.job.run))
        else:
            variables = (f"{name}={value}" for name, value in self.plan.env.items())
            await self.job.start(["env", *variables, *self.plan.argv])

    async def compare_counters(self, within_s: float) -> None:
        """Read the counters again and compare; groups that could not be read before are left out."""
        assert self.before is not None, "they are read before the start"
        counted = {counter.group for counter in self.before.counts}
        groups = [group for group in GROUPS if group in counted or group not in self.before.unread]
        if self.is_lost:
            after = nothing_read(groups, "connection lost", "check that the host is up")
        else:
            after = await read_host(self.host, within_s, groups, self._vendors)
        self.change = changed(self.before, after)

    async def stopped(self) -> str:
        """Its stopped processes (SIGSTOP, a debugger), in words; empty without any."""
        name = self.host.name
        try:
            async with asyncio.timeout(_ASK_S):
                processes, state = await self.job.stopped(), await self.job.state()
        except (HostError, TimeoutError) as reason:
            return f"cannot list the stopped processes on {name} ({reason})"
        where = f"on {name} is stopped (SIGSTOP or a debugger)"
        words = [f"{'' if rank is None else f'rank {rank}, '}process {pid} {where}" for pid, rank in processes]
        if any(container.status == "paused" for container in state.containers):
            words.append(f"the container on {name} is paused")
        return "; ".join(words)


async def engine_answers(host: Host, engine: str) -> None:
    """Raise if a container engine is not installed or does not run."""
    done = await host.run([engine, "ps", "--quiet"])
    if done.status == 127:
        raise HostRefusedError(host.name, f"{engine} is not installed", next=f"install {engine} on every host")
    if done.status:
        message, fix = f"{engine} does not answer ({done.reason})", ENGINES[engine].silent_fix
        raise HostRefusedError(host.name, message, next=fix)


async def _image_id(host: Host, engine: str, image: str) -> str | None:
    """None if the host does not have it."""
    done = await host.run([engine, "image", "inspect", "--format", "{{.Id}}", image])
    digest = done.text.strip().removeprefix("sha256:")  # Podman leaves it out
    return f"sha256:{digest}" if done.status == 0 and digest else None


async def leave(node: HostNode, limits: Limits) -> list[str]:
    """Stop and remove one node's part; returns what could not be removed."""
    if not node.touched:
        return []
    limit = _ONE_MORE_TRY_S if node.is_lost else limits.clean
    deadline = time.monotonic() + limit
    while True:
        try:
            missed = await _end(node, limits, limit) if node.started else []
            async with asyncio.timeout(limit):
                left = await node.job.clean(containers=node.started)
                return [*missed, *(_not_removed(node, kind, name, limits) for kind, name in left)]
        except TimeoutError:
            return [f"no answer within {limit:g} s; {remains(node, limits)}"]
        except HostError as reason:
            if not isinstance(reason, LinkLostError) or time.monotonic() >= deadline:
                return [f"{reason.with_way_on(reason.complaint)}; {remains(node, limits)}"]
            await asyncio.sleep(RECONNECT_S[1])


def remains(node: HostNode, limits: Limits) -> str:
    """What stays on a host that was not cleaned, for how long, and the command that removes it now."""
    if not node.touched:
        return "nothing was created there"
    lease = f"stops by itself within {limits.lease} s" if limits.lease else "does not stop by itself"
    subject = "the job may still run there and" if node.started else "the run still holds the host and"
    if not node.job.keeper:
        return f"{subject} {lease}; to see its files: {node.host.typed(['ls', node.job.directory])}"
    return f"{subject} {lease}; to stop it now: {node.host.typed(['kill', str(node.job.keeper)])}"


def _not_removed(node: HostNode, kind: str, name: str, limits: Limits) -> str:
    """Something that could not be removed, and the command that removes it."""
    if kind == "files":
        return f"cannot remove {name}; remove it by hand: {node.host.typed(['sudo', 'rm', '-rf', name])}"
    if kind == "containers":
        remove = node.host.typed([node.job.engine, "rm", "-f", *name.split()])
        return f"cannot remove container {name}; remove it by hand: {remove}"
    return f"{node.job.engine} does not answer ({name}); {remains(node, limits)}"


async def _end(node: HostNode, limits: Limits, limit: float) -> list[str]:
    """Stop one node's job and keep its last output; returns what failed. Clean-up continues either way."""
    missed = []
    for work, within in ((partial(node.job.stop, limits.grace), limit), (partial(_fetch_the_rest, node), _REST_S)):
        try:
            async with asyncio.timeout(within):
                await work()
        except TimeoutError:
            missed.append(f"no answer within {within:g} s")
        except LinkLostError:
            raise
        except HostError as reason:
            missed.append(str(reason))
    return missed


async def _fetch_the_rest(node: HostNode) -> None:
    """Read the last output of a job that we stopped, within the limits."""
    if node.log is None or node.state is not None or (await node.job.state()).gone:
        return
    node.rest = b""
    async for data in node.job.rest(node.log.bytes):
        node.rest += data[: _REST_BYTES - len(node.rest)]
        if len(node.rest) >= _REST_BYTES:
            raise HostError(node.host.name, f"output after the first {_REST_BYTES >> 20} MiB was not read")
