"""Runs one job to its end with any executor: phases, watchdog, telemetry, record."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from steelyard.errors import InfrastructureError
from steelyard.execute.executor import RECONNECT_S, JobNode, Link, RunFailedError, RunOptions, Stop, executor_of
from steelyard.execute.host import HostTimeoutError, LinkLostError
from steelyard.execute.recording import Observer, Recording
from steelyard.execute.telemetry import record_telemetry
from steelyard.execute.watchdog import EVERY_S, Watchdog
from steelyard.planning.make import Planned
from steelyard.records import Failure, RunManifest, RunWriter


class Supervisor:
    """One run, from its first phase to the record of its end."""

    def __init__(self, planned: Planned, writer: RunWriter, observe: Observer, options: RunOptions) -> None:
        plan = planned.plan
        self.writer, self.limits = writer, options.limits
        self.recording = Recording(plan, planned.case, writer, observe)
        self.job = executor_of(plan)(planned, self.recording, options)
        self.watchdog = Watchdog(options.limits, self.recording, plan.expected.seconds_at_peak)
        self._phases = self.job.phases()
        self._phase, self._records_phases = self._phases[0].name, len(self._phases) > 1
        self._interrupted = False
        """Whether a stop was requested before the work was done."""

    async def run(self, stop: Stop) -> RunManifest:
        """Run to the end. InfrastructureError if it failed for another reason than the training program."""
        failed: RunFailedError | None = None
        internal: Failure | None = None
        work = asyncio.ensure_future(self._work())
        stopping = asyncio.ensure_future(stop.asked.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        self._interrupted = not work.done()  # a later stop has nothing to stop
        if self._interrupted:
            self.recording.ending = True
            self.recording.event("stopping", self.job.stopping(self._phase))
            work.cancel()
        try:
            await work
        except asyncio.CancelledError:
            pass
        except RunFailedError as reason:
            failed = reason.without_secrets(self.recording.hidden)
        except OSError:
            raise  # the record cannot be written
        except Exception as reason:  # a bug of ours: clean up and close the record all the same
            cause = reason
            while isinstance(cause, ExceptionGroup):
                cause = cause.exceptions[0]
            message = self.recording.hidden(f"{type(cause).__name__}: {cause}"[:500])
            internal = Failure(kind="internal", message=message)
            raise
        finally:
            stopping.cancel()
            if any(node.is_running for node in self.job.nodes):
                self.recording.ending = True
            await self.job.clean_up(stop, self._interrupted)
            if internal is not None:
                self.writer.finish("failed", None, internal)
        return self._end(failed)

    def _end(self, failed: RunFailedError | None) -> RunManifest:
        if self._interrupted:
            where = f" (phase: {self._phase})" if self._records_phases else ""
            self.recording.event("interrupted", f"stopped after step {self.recording.last_step}{where}")
            self.writer.finish("interrupted", self.job.exit_status, None)
        elif failed is None:
            self.writer.finish("completed", 0, None)
        else:
            self.writer.finish("failed", self.job.exit_status, failed.failure)
            if not failed.is_training:
                raise failed.error()
        return self.writer.manifest

    async def _work(self) -> None:
        for name, limit_s, work in self._phases:
            await self._within(name, limit_s, work)
        self.watchdog.started()
        await self._within("train", None, self._train)

    async def _within(self, phase: str, limit_s: float | None, work: Callable[[], Awaitable[None]]) -> None:
        """Run a phase within its limit; for training, the watchdog has the limits."""
        self._phase, shown_s = phase, limit_s or self.watchdog.time_limit_s
        if self._records_phases:
            self.recording.event("phase", phase, limit_s=shown_s)
        try:
            async with asyncio.timeout(limit_s):
                await work()
        except TimeoutError:
            message = f"{phase} took longer than {shown_s:g} s"
            raise RunFailedError(Failure(kind="time_limit", message=message, phase=phase)) from None
        except InfrastructureError as reason:
            raise RunFailedError.within(phase, reason) from None

    async def _train(self) -> None:
        nodes = self.job.nodes
        sources = [(node.plan.host, source) for node in nodes if (source := node.telemetry()) is not None]
        sampling = [asyncio.ensure_future(record_telemetry(source, host, self.recording)) for host, source in sources]
        guards = [asyncio.ensure_future(guard) for guard in (self._watch(), *self.job.guards())]
        following = [asyncio.ensure_future(self._follow(node)) for node in nodes]
        try:
            await self._until_the_end(following, set(guards))
        finally:
            tasks: list[asyncio.Future[Any]] = [*guards, *sampling, *following]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if (failed := self.job.failure()) is not None:
            raise failed

    async def _until_the_end(self, following: Sequence[asyncio.Future[int]], guards: set[asyncio.Future[None]]) -> None:
        """Until all nodes have ended, or one has failed and the others had time to print their errors."""
        waiting = set(following)
        while waiting:
            tasks: set[asyncio.Future[Any]] = {*waiting, *guards}
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            waiting, guards = waiting - done, guards - done
            for task in done:
                task.result()  # raises: a stall, a full disk, or a host that is lost
            if waiting and any(task.result() for task in following if task.done()):
                await asyncio.wait(waiting, timeout=self.limits.settle)
                return

    async def _follow(self, node: JobNode) -> int:
        """Record the output of a node, each byte once, and reconnect if needed; returns its exit status."""
        link = node.link = Link(self.recording, node.plan.host, self.limits.lost)
        while True:
            try:
                if link.is_down:
                    async with asyncio.timeout(link.left_s()):
                        await node.reach()
                    link.works()
                    self.watchdog.not_looking()
                await self._record(node)
                if (status := await node.status()) is not None:
                    await self._record(node)
                    assert node.log is not None
                    node.log.end()
                    node.ended_at = time.monotonic()
                    return status
                await asyncio.sleep(RECONNECT_S[0])
            except (LinkLostError, HostTimeoutError, TimeoutError) as reason:
                await link.broke(reason)

    async def _record(self, node: JobNode) -> None:
        assert node.log is not None, "set before the start"
        async for data in node.follow(node.log.bytes):
            node.log.feed(data)
            self.watchdog.steps_may_have_come()

    async def _watch(self) -> None:
        """Raise when no more steps come, or a time limit is over."""
        while True:
            await asyncio.sleep(EVERY_S)
            if (overdue := self.watchdog.too_long()) is not None:
                raise await self.job.explain(overdue)
            if self.recording.last_step and any(node.is_lost for node in self.job.nodes):
                continue
            if (stall := self.watchdog.stalled()) is not None:
                raise await self.job.explain(stall)
