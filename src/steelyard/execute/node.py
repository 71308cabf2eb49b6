"""One node of a job on hosts, from its plan to a host that is left as it was found."""

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
"""Less than that is no room for what a job prints."""
_ASK_S, _BRING_S = 10.0, 3600.0
_REST_S, _REST_BYTES = 20.0, 16 << 20
"""For what a job that we end has printed and was not read yet."""
_ONE_MORE_TRY_S = 5.0
"""For cleaning a host that was given up."""


class HostNode(JobNode):
    """One node of a job: its plan, its host, what it printed and how it stands."""

    def __init__(self, plan: NodePlan, host: Host, run: str, placement: Placement) -> None:
        assert plan.directory is not None, "a plan for hosts says where its files lie"
        self.plan, self.host = plan, host
        self.job = HostJob(host, run, plan.directory, plan.container.engine if plan.container else "")
        anybodys = VENDORS if placement.device == "gpu" else frozenset[str]()
        self._vendors = frozenset({placement.gpu.vendor}) if placement.gpu else anybodys
        """Whose GPUs the job is to use: anybody's where it names one that the catalog has not."""
        self.image_id: str | None = None
        """The digest of the config of its container's image."""
        self.touched = False
        """Whether something of ours may be on the host."""
        self.heartbeat: asyncio.Future[None] | None = None
        """Keeps the host ours, from taking it to leaving it."""
        self._state: State | None = None
        self.rest = b""
        """What it printed after we stopped reading."""
        self.before: Reading | None = None
        """What its host counted before it was started."""
        self.change: HostChange | None = None
        """And what of that had changed at its end."""

    @property
    def state(self) -> State | None:
        """How it ended; None before."""
        return self._state if self.ended_at is not None else None

    def follow(self, offset: int) -> AsyncIterator[bytes]:
        has_ended = self._state is not None and self._state.status is not None
        return self.job.rest(offset) if has_ended else self.job.follow(offset)

    async def status(self) -> int | None:
        state = await self.job.state()
        if state.gone:
            raise HostError(self.host.name, "the files of the job are gone: it was ended from elsewhere")
        if state.unwatched:
            raise HostError(self.host.name, "the process that watches the job was killed")
        self._state = state
        return state.status

    async def reach(self) -> None:
        await self.job.state()

    def telemetry(self) -> HostTelemetry | None:
        """None where the catalog has not its GPU: whose tool to ask is not known."""
        return HostTelemetry(self.host, next(iter(self._vendors), None)) if len(self._vendors) < 2 else None

    def failed(self, kind: str, message: str, phase: str = "train") -> Failure:
        """A failure of this node."""
        return Failure(kind=kind, message=message, node=self.host.name, phase=phase)

    def no_space(self) -> Failure:
        return self.failed("disk", f"No space left on the device of {self.job.directory}")

    async def bring_image(self, source: ImageSource) -> None:
        """See that the image of its container is there, or bring it where that was asked for."""
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
            expected = "the config's image on every host"
            fix = f"--pull, or --image-file FILE with what `{engine} save` wrote"
            raise HostRefusedError(self.host.name, f"image {image} is not there", expected=expected, next=fix)
        if done.status:
            raise HostRefusedError(self.host.name, f"image {image} could not be brought there ({done.reason})")
        self.image_id = await _image_id(self.host, engine, image)
        if self.image_id is None:
            message = f"{source.file} holds another image than {image}"
            raise HostRefusedError(self.host.name, message, key="--image-file", expected=image)

    async def prepare(self) -> list[bytes]:
        """Write what its program sees; the secrets among it."""
        mounts = mounts_of(self.plan.container.argv, self.job.directory) if self.plan.container else []
        files = {file.path: content_of(file).encode() for file in self.plan.files}
        await self.job.prepare(files, self.plan.secrets, mounts)
        return [await self.job.secret(name) for name in self.plan.secrets]

    async def read_counters(self, within_s: float) -> None:
        """Ask its host for its counters, before the job is started."""
        self.before = await read_host(self.host, within_s, vendors=self._vendors)

    async def start(self) -> None:
        self.started = True
        if self.plan.container is not None:
            await self.job.start(labelled(self.plan.container.argv, self.job.run))
        else:
            variables = (f"{name}={value}" for name, value in self.plan.env.items())
            await self.job.start(["env", *variables, *self.plan.argv])

    async def compare_counters(self, within_s: float) -> None:
        """What its host counted meanwhile; what it could not tell before is not waited for once more."""
        assert self.before is not None, "they are read before it is started"
        counted = {counter.group for counter in self.before.counts}
        groups = [group for group in GROUPS if group in counted or group not in self.before.unread]
        if self.is_lost:
            after = nothing_read(groups, "out of reach", "see whether the host is up")
        else:
            after = await read_host(self.host, within_s, groups, self._vendors)
        self.change = changed(self.before, after)

    async def stopped(self) -> str:
        """Its processes that somebody stopped, in words; empty where there are none."""
        name = self.host.name
        try:
            async with asyncio.timeout(_ASK_S):
                processes, state = await self.job.stopped(), await self.job.state()
        except (HostError, TimeoutError) as reason:
            return f"{name} did not say whether a process was stopped ({reason})"
        where = f"on {name} is stopped"
        words = [f"{'' if rank is None else f'rank {rank}, '}process {pid} {where}" for pid, rank in processes]
        if any(box.status == "paused" for box in state.containers):
            words.append(f"the container on {name} is paused")
        return "; ".join(words)


async def engine_answers(host: Host, engine: str) -> None:
    """Say in one sentence that an engine is not there or does not run."""
    done = await host.run([engine, "ps", "--quiet"])
    if done.status == 127:
        raise HostRefusedError(host.name, f"{engine} is not installed", expected=f"{engine} on every host")
    if done.status:
        message, fix = f"{engine} does not answer ({done.reason})", ENGINES[engine].silent_fix
        raise HostRefusedError(host.name, message, expected="a running engine", next=fix)


async def _image_id(host: Host, engine: str, image: str) -> str | None:
    """None where it is not there."""
    done = await host.run([engine, "image", "inspect", "--format", "{{.Id}}", image])
    digest = done.text.strip().removeprefix("sha256:")  # Podman leaves it out
    return f"sha256:{digest}" if done.status == 0 and digest else None


async def leave(node: HostNode, limits: Limits) -> list[str]:
    """End and remove one node's part; what is left of it."""
    if not node.touched:
        return []
    limit = _ONE_MORE_TRY_S if node.is_lost else limits.clean
    deadline = time.monotonic() + limit
    while True:
        try:
            missed = await _end(node, limits, limit) if node.started else []
            async with asyncio.timeout(limit):
                left = await node.job.clean(containers=node.started)
                return [*missed, *(_words(node, kind, name, limits) for kind, name in left)]
        except TimeoutError:
            return [f"no answer within {limit:g} s; {remains(node, limits)}"]
        except HostError as reason:
            if not isinstance(reason, LinkLostError) or time.monotonic() >= deadline:
                return [f"{reason.with_way_on(reason.complaint)}; {remains(node, limits)}"]
            await asyncio.sleep(RECONNECT_S[1])


def remains(node: HostNode, limits: Limits) -> str:
    """What stays on a host that was not cleaned, how long, and the command that ends it now."""
    if not node.touched:
        return "nothing was made there"
    lease = f"ends itself within {limits.lease} s" if limits.lease else "does not end by itself"
    holds = "the job may still run there and" if node.started else "the run still holds the host and"
    command = ["kill", str(node.job.keeper)] if node.job.keeper else ["ls", node.job.directory]
    return f"{holds} {lease}; to end it now: {node.host.typed(command)}"


def _words(node: HostNode, kind: str, name: str, limits: Limits) -> str:
    """Something that could not be removed, and the command that removes it."""
    if kind == "files":
        return f"{name} could not be removed; remove it by hand: {node.host.typed(['sudo', 'rm', '-rf', name])}"
    if kind == "containers":
        remove = node.host.typed([node.job.engine, "rm", "-f", *name.split()])
        return f"container {name} could not be removed; remove it by hand: {remove}"
    return f"{node.job.engine} does not answer ({name}); {remains(node, limits)}"


async def _end(node: HostNode, limits: Limits, limit: float) -> list[str]:
    """End one node's job and keep what it printed last; what could not be had. Either way it is cleaned up."""
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
    """What a job we ended printed last is kept too, if it is still there, as far as there is time and room."""
    if node.log is None or node.state is not None or (await node.job.state()).gone:
        return
    node.rest = b""
    async for data in node.job.rest(node.log.bytes):
        node.rest += data[: _REST_BYTES - len(node.rest)]
        if len(node.rest) >= _REST_BYTES:
            raise HostError(node.host.name, f"more than {_REST_BYTES >> 20} MiB that it printed were not read")
