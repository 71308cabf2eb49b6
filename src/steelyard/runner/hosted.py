"""Executes a plan on hosts: each phase on all of them, one record of what they print, and nothing left behind."""

import asyncio
import contextlib
import getpass
import platform as system
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from steelyard import records
from steelyard.cluster.counters import VENDORS
from steelyard.cluster.host import Host, HostError, LinkLostError
from steelyard.cluster.image import ImageSource, bring, check_equal
from steelyard.cluster.job import Holder
from steelyard.cluster.telemetry import sample
from steelyard.errors import InfrastructureError
from steelyard.lint import Case
from steelyard.records import Failure, RunManifest, RunWriter
from steelyard.records.host_change import HOST_COUNTERS
from steelyard.runner import causes
from steelyard.runner.execute import unrecordable
from steelyard.runner.interrupts import on_signals
from steelyard.runner.leaving import leave
from steelyard.runner.limits import Limits
from steelyard.runner.node import RECONNECT_S, Link, Node, job_of
from steelyard.runner.plan import Plan
from steelyard.runner.recording import Observer, Recording
from steelyard.runner.watch import EVERY_S, Watch

_BEAT_S = 5.0
_SAMPLE_S = 10.0
"""Between two samples of a host's telemetry: AMD's tool alone takes a second of a core."""
TRAINING = ("exit", "oom", "nan_abort", "error", "crash", "xla", "fatal", "signal")
"""Kinds of failures that are the training program's own; all others are the infrastructure's."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a run on hosts is made, beside its plan."""

    limits: Limits = field(default_factory=Limits)
    image: ImageSource = field(default_factory=ImageSource)
    preflight: Callable[[Sequence[Host]], Awaitable[None]] | None = None
    """Looks at the hosts once they are ours; raises where one is not fit."""


def new_job_id(plan: Plan) -> str:
    """A mark that no other run has, whoever starts it."""
    return f"{plan.experiment}-{secrets.token_hex(6)}"


def execute_on_hosts(
    plan: Plan, case: Case, writer: RunWriter, observe: Observer, hosts: Sequence[Host], options: Options
) -> RunManifest:
    """Run the plan on its hosts to its end; the manifest says how it ended."""

    async def alone() -> RunManifest:
        asked_to_stop = asyncio.Event()
        with on_signals(asked_to_stop.set):
            return await HostedRun(plan, case, writer, observe, hosts, options).run(asked_to_stop)

    try:
        return asyncio.run(alone())
    except OSError as reason:
        raise unrecordable(writer, reason) from None


class _FailedError(Exception):
    """The run cannot go on, for this reason."""

    def __init__(self, failure: Failure, expected: str | None = None, next: str | None = None) -> None:
        super().__init__(failure.message)
        self.failure, self.expected, self.next = failure, expected, next

    def without(self, hidden: Callable[[str], str]) -> "_FailedError":
        """The same, with no secret in what a host said."""
        failure = self.failure.model_copy(update={"message": hidden(self.failure.message)})
        return _FailedError(failure, self.expected, self.next and hidden(self.next))

    def error(self) -> InfrastructureError:
        """The same, for a person."""
        failure = self.failure
        where = f"{failure.node}: " if failure.node else ""
        return InfrastructureError(
            f"{where}{failure.message} (in {failure.phase})",
            key=failure.kind,
            value=failure.node,
            expected=self.expected,
            next=self.next,
        )


class HostedRun:
    """One job over all its hosts, from reaching them to leaving them as they were."""

    def __init__(
        self, plan: Plan, case: Case, writer: RunWriter, observe: Observer, hosts: Sequence[Host], options: Options
    ) -> None:
        self.plan, self.writer, self.options, self.limits = plan, writer, options, options.limits
        self.recording = Recording(plan, case, writer, observe)
        self.phase = "reach"
        self.nodes = [
            Node(node, job_of(node, host, writer.manifest.job or writer.manifest.name))
            for node, host in zip(plan.nodes, hosts, strict=True)
        ]
        self._vendors = _vendors(case)
        self._vendor = case.placement.gpu.vendor if case.placement.gpu else None
        self._on_gpus = case.placement.device == "gpu"
        self.stopped = False
        """Whether it was asked to stop while there was something to stop."""
        self._internal: Failure | None = None
        self._asked_to_stop = asyncio.Event()
        self.watch = Watch(self.limits, self.recording)

    async def run(self, asked_to_stop: asyncio.Event) -> RunManifest:
        """To the end, whatever the end; InfrastructureError where that was not the training program's own."""
        failed: _FailedError | None = None
        self._asked_to_stop = asked_to_stop
        work = asyncio.ensure_future(self._work())
        stopping = asyncio.ensure_future(asked_to_stop.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        self.stopped = not work.done()  # a stop that comes later finds nothing to stop
        if self.stopped:
            self.recording.ending = True
            work.cancel()
        try:
            await work
        except asyncio.CancelledError:
            pass
        except _FailedError as reason:
            failed = reason.without(self.recording.hidden)
        except OSError:
            raise  # the record cannot be written
        except Exception as reason:  # a fault of our own: the hosts are left clean and the record does not stay open
            found = _first_of(reason)
            self._internal = found.model_copy(update={"message": self.recording.hidden(found.message)})
            raise
        finally:
            stopping.cancel()
            await self._clean()
            if self._internal is not None:
                self.writer.finish("failed", None, self._internal)
        if self.stopped:
            self.recording.event("interrupted", f"stopped in {self.phase}, after step {self.recording.last_step}")
            self.writer.finish("interrupted", None, None)
            return self.writer.manifest
        status = next((node.state.status for node in self.nodes if node.state and node.state.status), None)
        if failed is None:
            self.writer.finish("completed", 0, None)
            return self.writer.manifest
        self.writer.finish("failed", status, failed.failure)
        if failed.failure.kind not in TRAINING:
            raise failed.error()
        return self.writer.manifest

    # Phases.

    async def _work(self) -> None:
        phases: list[tuple[str, float | None, Callable[[], Awaitable[None]]]] = [
            ("reach", self.limits.reach, self._reach),
            ("lock", self.limits.lock, self._lock),
            *([("preflight", self.limits.preflight, self._preflight)] if self.options.preflight else []),
            ("image", self.limits.image, self._bring_images),
            ("prepare", self.limits.prepare, self._prepare),
            ("start", self.limits.start, self._start),
            ("train", None, self._train),
        ]
        for name, limit, work in phases:
            self.phase = name
            self.recording.event("phase", name)
            try:
                async with asyncio.timeout(limit):
                    await work()
            except TimeoutError:
                raise _FailedError(
                    Failure(kind="time_limit", message=f"{name} took longer than {limit:g} s", phase=name)
                ) from None
            except HostError as reason:
                message = reason.message.removeprefix(f"{reason.host}: ")
                kind = "link" if isinstance(reason, LinkLostError) else name
                failure = Failure(kind=kind, message=message, node=reason.host, phase=name)
                raise _FailedError(failure, reason.expected, reason.next) from None
            except InfrastructureError as reason:
                failure = Failure(kind=name, message=reason.message, phase=name)
                raise _FailedError(failure, reason.expected, reason.next) from None

    async def _on_all(self, work: Callable[[Node], Awaitable[None]]) -> None:
        """On all nodes at once; the first that fails ends it for all."""
        try:
            async with asyncio.TaskGroup() as group:
                for node in self.nodes:
                    group.create_task(_as_coroutine(work(node)))
        except* InfrastructureError as several:
            raise several.exceptions[0] from None

    async def _reach(self) -> None:
        async def reach(node: Node) -> None:
            await node.host.run(["true"])

        await self._on_all(reach)

    async def _lock(self) -> None:
        who = f"{getpass.getuser()}@{system.node()}"

        async def lock(node: Node) -> None:
            node.touched = True  # from here on something of ours may be there, whatever we hear of it
            holder = await node.job.take_lock(who)
            if holder is not None and holder.is_stale:
                self.recording.event("stale_lock", f"{holder.run} is dead: what it left is removed", node.host.name)
                await node.job.clean_after(holder)
                holder = await node.job.take_lock(who)
            if holder is not None:
                raise _held(node, holder)

        await self._on_all(lock)

    async def _preflight(self) -> None:
        if self.options.preflight is not None:
            await self.options.preflight([node.host for node in self.nodes])

    async def _bring_images(self) -> None:
        ids: dict[str, str] = {}

        async def one(node: Node) -> None:
            container = node.plan.container
            if container is not None:
                found = await bring(node.host, container.engine, container.image, self.options.image)
                ids[node.host.name] = found

        await self._on_all(one)
        first = self.plan.nodes[0].container
        if first is not None:
            self.recording.event("image", f"{first.image} is {next(iter(ids.values()))}", image=first.image, ids=ids)
            check_equal(first.image, ids)

    async def _prepare(self) -> None:
        async def prepare(node: Node) -> None:
            await node.job.prepare(node.files(), node.plan.secrets)
            hide = [await node.job.secret(name) for name in node.plan.secrets]
            node.log = self.recording.of_node(node.plan, hide)
            await node.look(self.limits.look, self._vendors)

        await self._on_all(prepare)

    async def _start(self) -> None:
        async def start(node: Node) -> None:
            node.started = True
            await node.job.start(node.argv(), self.limits.lease)

        await self._on_all(start)

    # Training.

    async def _train(self) -> None:
        self.watch.started()
        beats = [asyncio.ensure_future(self._beat(node)) for node in self.nodes]
        watch = asyncio.ensure_future(self._watch())
        samples = [asyncio.ensure_future(self._sample(node)) for node in self.nodes]
        following = {asyncio.ensure_future(self._follow(node)): node for node in self.nodes}
        try:
            await self._until_the_end(set(following), {watch, *beats})
        finally:
            for task in (*beats, *samples, watch, *following):
                task.cancel()
            await asyncio.gather(*beats, *samples, watch, *following, return_exceptions=True)
        failure = self._judge_ends()
        if failure is not None:
            raise _FailedError(failure)

    async def _until_the_end(
        self, following: set["asyncio.Future[None]"], watching: set["asyncio.Future[None]"]
    ) -> None:
        """Until all nodes have ended, or one has failed and the others had a moment to say why."""
        waiting = set(following)
        while waiting:
            done, waiting = await asyncio.wait({*waiting, *watching}, return_when=asyncio.FIRST_COMPLETED)
            waiting -= watching
            for task in done:
                task.result()  # raises: a stall, a full disk, or a host that is lost
            if waiting and any(node.state is not None and node.state.status for node in self.nodes):
                await asyncio.wait(waiting, timeout=self.limits.settle)
                return

    async def _beat(self, node: Node) -> None:
        """Say that somebody asks after the job, and hear whether there is room for what it prints."""
        while True:
            with contextlib.suppress(LinkLostError):
                free_kib = await node.job.beat()
                if free_kib < causes.FULL_KIB:
                    raise _FailedError(causes.no_space(node))
            await asyncio.sleep(_BEAT_S)

    async def _sample(self, node: Node) -> None:
        """Telemetry is beside the run: where a host cannot tell it, the run goes on and the record says so, once."""
        if self._on_gpus and self._vendor is None:
            return  # a GPU that the catalog has not: whose tool to ask is not known
        while True:
            try:
                for one in await sample(node.host, self._vendor):
                    self.writer.append_telemetry({"time": records.now(), "node": node.host.name, **one})
            except LinkLostError:
                pass  # which is told by who follows the job
            except (HostError, ValueError) as reason:
                self.recording.event("telemetry_lost", str(reason), node.host.name)
                return
            await asyncio.sleep(_SAMPLE_S)

    async def _follow(self, node: Node) -> None:
        """Read what a node prints, each byte once, over every link that can be had."""
        assert node.log is not None
        link = node.link = Link(self.recording, node.host.name, self.limits.lost)
        while True:
            try:
                if link.is_down:
                    async with asyncio.timeout(link.left_s()):
                        await node.job.state()
                    link.works()
                    self.watch.not_looking()
                async for data in node.job.follow(node.log.bytes):
                    self._feed(node, data)
                state = await node.job.state()
                if state.gone:
                    raise HostError(node.host.name, "the job's files are gone: it was ended from elsewhere")
                if state.status is not None:
                    async for data in node.job.rest(node.log.bytes):
                        self._feed(node, data)
                    node.log.end()
                    node.state, node.ended_at = state, time.monotonic()
                    return
                await asyncio.sleep(RECONNECT_S[0])
            except (LinkLostError, TimeoutError) as reason:
                await link.broke(reason)

    def _feed(self, node: Node, data: bytes) -> None:
        assert node.log is not None
        node.log.feed(data)
        self.watch.heard()

    async def _watch(self) -> None:
        """Until the steps stop coming, or there is no time left for more."""
        while True:
            await asyncio.sleep(EVERY_S)
            if (late := self.watch.too_long()) is not None:
                raise _FailedError(late)
            lost = self.recording.last_step and any(node.is_lost for node in self.nodes)
            if not lost and (words := self.watch.stalled()) is not None:
                raise _FailedError(self._stalled(words))

    def _stalled(self, words: str) -> Failure:
        running = [node.host.name for node in self.nodes if node.state is None]
        named = self.recording.named_failure()
        return Failure(
            kind="stall",
            message=f"{words}, and {', '.join(running)} still run" + (f"; {named.message}" if named else ""),
            node=named.node if named else None,
            phase="train",
        )

    # The end.

    def _judge_ends(self) -> Failure | None:
        """The first cause of a run that did not end well."""
        ended = sorted((node for node in self.nodes if node.state is not None), key=lambda node: node.ended_at)
        bad = [node for node in ended if node.state is not None and node.state.status]
        for node in self.nodes:
            if node.is_lost and bad:  # the others failed because they could not hear it either
                return Failure(kind="link", message="out of reach", node=node.host.name, phase="train")
        for cause in (causes.out_of_memory, causes.disk_full, causes.engine_failed):
            for node in bad:
                if (failure := cause(node)) is not None:
                    return failure
        killed = [failure for node in bad if (failure := causes.killed(node, self.recording)) is not None]
        named = self.recording.named_failure(echoes=not killed)
        if bad and named is not None:
            return named.model_copy(update={"phase": "train"})
        if bad:
            return killed[0] if killed else causes.exited(bad[0], self.recording)
        if self.recording.last_step < self.recording.planned_steps:
            message = f"training ended with status 0 after step {self.recording.last_step}"
            return Failure(kind="exit", message=f"{message} of {self.recording.planned_steps}", phase="train")
        return None

    async def _clean(self) -> None:
        """Leave every host as it was found; what cannot be cleaned is said.

        The record is written last: one that cannot be must not keep a host from being cleaned.
        """
        if any(node.started and node.state is None for node in self.nodes):
            self.recording.ending = True
        left = await asyncio.gather(*(self._leave(node) for node in self.nodes))
        await asyncio.gather(*(node.host.close() for node in self.nodes))
        for node, found in zip(self.nodes, left, strict=True):
            if node.log is not None and node.state is None:
                node.log.feed(node.rest)
                node.log.end()
            if node.change is not None:
                self.recording.event(HOST_COUNTERS, node.change.words, node.host.name, **node.change.details())
            for one in found:
                self.recording.event("left_behind", one, node.host.name)

    async def _leave(self, node: Node) -> list[str]:
        """Look at a host again, then clean it: what our own ending stirs up there is not the run's doing."""
        try:
            if node.started and not self.stopped:
                await self._unless_asked_to_stop(node.look_again(self.limits.look, self._vendors))
        finally:
            left = await leave(node, self.limits)
        return left

    async def _unless_asked_to_stop(self, work: Awaitable[None]) -> None:
        doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self._asked_to_stop.wait())
        try:
            await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            doing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await doing


def _first_of(reason: Exception) -> Failure:
    while isinstance(reason, ExceptionGroup):
        reason = reason.exceptions[0]
    return Failure(kind="internal", message=f"{type(reason).__name__}: {reason}"[:500])


def _vendors(case: Case) -> frozenset[str]:
    """Whose GPUs the job is to use: anybody's where it names one that the catalog has not."""
    placement = case.placement
    if placement.device == "cpu":
        return frozenset()
    return frozenset({placement.gpu.vendor}) if placement.gpu else VENDORS


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


def _held(node: Node, holder: Holder) -> HostError:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder.since)) if holder.since else "an unknown time"
    return HostError(
        node.host.name,
        f"in use by run {holder.run or '?'} of {holder.who or '?'} since {since}",
        expected="a host that nobody uses",
        next="wait for it, or stop it",
    )
