"""Executes a plan on hosts: each phase on all of them, one record of what they print, and nothing left behind."""

import asyncio
import contextlib
import getpass
import platform as system
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from steelyard import records
from steelyard.errors import InfrastructureError
from steelyard.execute import causes
from steelyard.execute.causes import RunFailedError
from steelyard.execute.counters import VENDORS
from steelyard.execute.here import unrecordable
from steelyard.execute.host import Host, HostError, HostTimeoutError, LinkLostError
from steelyard.execute.image import ImageSource, bring, check_equal
from steelyard.execute.interrupts import Stop, on_signals
from steelyard.execute.job import Holder
from steelyard.execute.leaving import leave, remains
from steelyard.execute.limits import Limits
from steelyard.execute.node import RECONNECT_S, Link, Node, job_of
from steelyard.execute.recording import Observer, Recording
from steelyard.execute.telemetry import sample
from steelyard.execute.watch import EVERY_S, Watch
from steelyard.experiment.case import Case
from steelyard.planning.plan import Plan
from steelyard.records import Failure, RunManifest, RunWriter
from steelyard.records.host_change import HOST_COUNTERS

_BEAT_S = 5.0
_LOOK_S, _MISSES = 15.0, 2
"""Between two looks at a container, and how many in a row must miss it."""
_LIVE = ("created", "running", "paused", "restarting", "stopping")
_LIMIT_OPTIONS = {"time_limit": "--time-limit", "hang_at_exit": "--exit-within"}
_SAMPLE_S = 10.0
"""Between two samples of a host's telemetry: AMD's tool alone takes a second of a core."""
_Answer = TypeVar("_Answer")
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
        with on_signals() as stop:
            return await HostedRun(plan, case, writer, observe, hosts, options).run(stop)

    try:
        return asyncio.run(alone())
    except OSError as reason:
        raise unrecordable(writer, reason) from None


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
        self._stop = Stop()
        self.watch = Watch(self.limits, self.recording, plan.expected.seconds_at_peak)

    async def run(self, stop: Stop) -> RunManifest:
        """To the end, whatever the end; InfrastructureError where that was not the training program's own."""
        failed: RunFailedError | None = None
        self._stop = stop
        work = asyncio.ensure_future(self._work())
        stopping = asyncio.ensure_future(stop.asked.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        self.stopped = not work.done()  # a stop that comes later finds nothing to stop
        if self.stopped:
            self.recording.ending = True
            self._tell_stopping()
            work.cancel()
        try:
            await work
        except asyncio.CancelledError:
            pass
        except RunFailedError as reason:
            failed = reason.without(self.recording.hidden)
        except OSError:
            raise  # the record cannot be written
        except Exception as reason:  # a fault of our own: the hosts are left clean and the record does not stay open
            found = causes.internal(reason)
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
            limit = limit or self.watch.time_limit_s
            self.recording.event("phase", name, limit_s=limit)
            try:
                async with asyncio.timeout(None if name == "train" else limit):  # which ends by its own watch
                    await work()
            except TimeoutError:
                raise RunFailedError(
                    Failure(kind="time_limit", message=f"{name} took longer than {limit:g} s", phase=name)
                ) from None
            except HostError as reason:
                message = reason.message.removeprefix(f"{reason.host}: ")
                kind = "link" if isinstance(reason, LinkLostError) else name
                failure = Failure(kind=kind, message=message, node=reason.host, phase=name)
                raise RunFailedError(failure, reason.expected, reason.next) from None
            except InfrastructureError as reason:
                failure = Failure(kind=name, message=reason.message, phase=name)
                raise RunFailedError(failure, reason.expected, reason.next) from None

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
            taken = await node.job.take(who, self.limits.lease)
            for run in taken.swept:
                self.recording.event("stale_lock", f"run {run} is dead: what it left is removed", node.host.name)
            if taken.holder is not None:
                raise _held(node, taken.holder)
            node.beating = asyncio.ensure_future(self._beat(node))

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
            await node.job.prepare(node.files(), node.plan.secrets, node.mounts())
            hide = [await node.job.secret(name) for name in node.plan.secrets]
            node.log = self.recording.of_node(node.plan, hide)
            await node.look(self.limits.look, self._vendors)

        await self._on_all(prepare)

    async def _start(self) -> None:
        async def start(node: Node) -> None:
            node.started = True
            await node.job.start(node.argv())

        await self._on_all(start)

    # Training.

    async def _train(self) -> None:
        self.watch.started()
        watch = asyncio.ensure_future(self._watch())
        looks = [asyncio.ensure_future(self._look_at_container(node)) for node in self.nodes]
        samples = [asyncio.ensure_future(self._sample(node)) for node in self.nodes]
        following = [asyncio.ensure_future(self._follow(node)) for node in self.nodes]
        beats = {node.beating for node in self.nodes if node.beating is not None}
        try:
            await self._until_the_end(set(following), {watch, *looks, *beats})
        finally:
            for task in (*looks, *samples, watch, *following):
                task.cancel()
            await asyncio.gather(*looks, *samples, watch, *following, return_exceptions=True)
        failure = causes.first_cause(self.nodes, self.recording)
        if failure is not None:
            raise RunFailedError(failure)

    async def _until_the_end(
        self, following: set["asyncio.Future[None]"], watching: set["asyncio.Future[None]"]
    ) -> None:
        """Until all nodes have ended, or one has failed and the others had a moment to say why."""
        waiting = set(following)
        while waiting:
            done, waiting = await asyncio.wait({*waiting, *watching}, return_when=asyncio.FIRST_COMPLETED)
            waiting -= watching
            watching -= done
            for task in done:
                task.result()  # raises: a stall, a full disk, or a host that is lost
            if waiting and any(node.state is not None and node.state.status for node in self.nodes):
                await asyncio.wait(waiting, timeout=self.limits.settle)
                return

    async def _beat(self, node: Node) -> None:
        """From taking a host to leaving it: say that somebody asks after the job, and hear whether there is room."""
        while True:
            with contextlib.suppress(LinkLostError, HostTimeoutError):
                free_kib = await node.job.beat()
                if free_kib is not None and free_kib < causes.FULL_KIB:
                    raise RunFailedError(causes.no_space(node))
            await asyncio.sleep(_BEAT_S)

    async def _look_at_container(self, node: Node) -> None:
        """Until a container that was seen is gone and nobody says how it ended: the engine's client may wait on."""
        if node.plan.container is None:
            return
        seen, missed = False, 0
        while node.state is None:
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(LinkLostError, HostTimeoutError):
                state = await node.job.state()
                runs = any(box.status in _LIVE for box in state.containers)
                seen, missed = (
                    seen or runs,
                    0 if runs or state.status is not None or state.engine_silent else missed + 1,
                )
            if seen and missed >= _MISSES:
                message = "its container is gone, and the engine does not say how it ended"
                raise RunFailedError(Failure(kind="container", message=message, node=node.host.name, phase="train"))

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
                    raise HostError(node.host.name, "the files of the job are gone: it was ended from elsewhere")
                if state.unwatched and state.free_kib is not None and state.free_kib < causes.FULL_KIB:
                    raise RunFailedError(causes.no_space(node))  # nor could its exit status be written
                if state.unwatched:
                    raise HostError(node.host.name, "the process that watches the job was killed")
                if state.status is not None:
                    async for data in node.job.rest(node.log.bytes):
                        self._feed(node, data)
                    node.log.end()
                    node.state, node.ended_at = state, time.monotonic()
                    return
                await asyncio.sleep(RECONNECT_S[0])
            except (LinkLostError, HostTimeoutError, TimeoutError) as reason:
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
                running = ", ".join(node.host.name for node in self.nodes if node.state is None)
                raise RunFailedError(
                    late.model_copy(update={"message": f"{late.message}; still running: {running}"}),
                    next=f"{_LIMIT_OPTIONS[late.kind]} SECONDS allows more; the steps that were done are recorded",
                )
            lost = self.recording.last_step and any(node.is_lost for node in self.nodes)
            if not lost and (words := self.watch.stalled()) is not None:
                raise RunFailedError(await self._stalled(words))

    async def _stalled(self, words: str) -> Failure:
        """Which hosts still run, which of their processes somebody stopped, and what the logs name."""
        running = [node for node in self.nodes if node.state is None]
        named, stopped = self.recording.named_failure(), await asyncio.gather(*(node.stopped() for node in running))
        host = next((node.host.name for node, why in zip(running, stopped, strict=True) if why), None)
        more = [*(why for why in stopped if why), *([named.message] if named else [])]
        return Failure(
            kind="stall",
            message="; ".join([f"{words}, and {', '.join(node.host.name for node in running)} still run", *more]),
            node=host or (named.node if named else None),
            phase="train",
        )

    # The end.

    def _tell_stopping(self) -> None:
        hosts = [node.host.name for node in self.nodes if node.touched]
        what = (
            f"ending the job on {', '.join(hosts)} and removing its files" if hosts else "nothing was begun on any host"
        )
        again = "; Ctrl-C again leaves at once" if hosts else ""
        self.recording.event("stopping", f"in {self.phase}: {what}{again}")

    async def _clean(self) -> None:
        """Leave every host as it was found; what cannot be cleaned is said.

        The record is written last: one that cannot be must not keep a host from being cleaned.
        """
        if any(node.started and node.state is None for node in self.nodes):
            self.recording.ending = True
        outcomes = await asyncio.gather(*(self._leave(node) for node in self.nodes), return_exceptions=True)
        for outcome in outcomes:  # only once no host is left alone
            if isinstance(outcome, BaseException):
                raise outcome
        left = [outcome for outcome in outcomes if isinstance(outcome, list)]
        await asyncio.gather(*(node.host.close() for node in self.nodes))
        for node, found in zip(self.nodes, left, strict=True):
            if node.log is not None and node.state is None:
                node.log.feed(node.rest)
                node.log.end()
            if node.change is not None:
                self.recording.event(HOST_COUNTERS, node.change.words, node.host.name, **node.change.details())
            for words in found:
                self.recording.event("left_behind", words, node.host.name)

    async def _leave(self, node: Node) -> list[str]:
        """Look at a host again, then clean it: what our own ending stirs up there is not the run's doing."""
        if node.started and not self.stopped:
            await _unless(self._stop.asked, node.look_again(self.limits.look, self._vendors))
        left = await _unless(self._stop.at_once, leave(node, self.limits))
        if node.beating is not None:  # until here: a host that takes long to clean is still ours
            node.beating.cancel()
            await asyncio.gather(node.beating, return_exceptions=True)
        return [remains(node, self.limits)] if left is None else left


async def _unless(asked: asyncio.Event, work: Coroutine[Any, Any, _Answer]) -> _Answer | None:
    """What some work comes to; None where that was asked for before it was done."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(asked.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        doing.cancel()
    try:
        return await doing
    except asyncio.CancelledError:
        return None


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
        f"in use by run {holder.run or '?'} of {holder.who or '?'} since {since}"
        f" (process {holder.pid} of login {holder.login})",
        expected="a host that nobody uses",
        next=f"wait for it; or end it and remove its files, as {holder.login} or root: "
        f"{node.host.typed(['kill', str(holder.pid)])}",
    )
