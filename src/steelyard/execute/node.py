"""One node of a job on hosts: its plan, the way to it, what it printed and how it stands."""

import asyncio
import json
import time
from collections.abc import Collection

from steelyard.execute.counters import GROUPS, Reading, changed, look, nothing_read
from steelyard.execute.host import Host, HostError, LinkLostError
from steelyard.execute.job import HostJob, State
from steelyard.execute.recording import NodeRecording, Recording
from steelyard.planning.container import labelled, mounts_of
from steelyard.planning.plan import NodePlan
from steelyard.records.host_change import HostChange

RECONNECT_S = (0.5, 1.0, 2.0, 5.0)
_ASK_S = 10.0


class Node:
    """One node of the job: its plan, its host, what it printed and how it stands."""

    def __init__(self, plan: NodePlan, job: HostJob) -> None:
        self.plan, self.job = plan, job
        self.log: NodeRecording | None = None
        self.link: Link | None = None
        self.touched = self.started = False
        self.beating: asyncio.Future[None] | None = None
        """Says that somebody still asks after the job, from taking the host to leaving it."""
        self.state: State | None = None
        self.rest = b""
        """What it printed after we stopped reading."""
        self.ended_at = 0.0
        self.before: Reading | None = None
        """What its host counted before it was started."""
        self.change: HostChange | None = None
        """And what of that had changed at its end."""

    @property
    def host(self) -> Host:
        return self.job.host

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be heard now."""
        return self.link is not None and self.link.is_down

    def argv(self) -> list[str]:
        """What the host executes."""
        if self.plan.container is not None:
            return labelled(self.plan.container.argv, self.job.run)
        return ["env", *(f"{name}={value}" for name, value in self.plan.env.items()), *self.plan.argv]

    def files(self) -> dict[str, bytes]:
        """The planned files as they are written."""
        return {
            file.path: (
                file.content if isinstance(file.content, str) else json.dumps(file.content, indent=2) + "\n"
            ).encode()
            for file in self.plan.files
        }

    def mounts(self) -> list[str]:
        """Paths of the host that its container sees, besides what the run makes itself."""
        return mounts_of(self.plan.container.argv, self.job.directory) if self.plan.container else []

    async def look(self, within_s: float, vendors: Collection[str]) -> None:
        """Ask its host for its counters, before the job is started on GPUs of these vendors."""
        self.before = await look(self.host, within_s, vendors=vendors)

    async def look_again(self, within_s: float, vendors: Collection[str]) -> None:
        """What its host counted meanwhile; what it could not tell before is not waited for once more."""
        assert self.before is not None, "it is looked at before it is started"
        told = {one.group for one in self.before.counts}
        groups = [group for group in GROUPS if group in told or group not in self.before.unread]
        if self.is_lost:
            after = nothing_read(groups, "out of reach", "see whether the host is up")
        else:
            after = await look(self.host, within_s, groups, vendors)
        self.change = changed(self.before, after)

    async def stopped(self) -> str:
        """Its processes that somebody stopped, in words; empty where there are none."""
        name = self.host.name
        try:
            async with asyncio.timeout(_ASK_S):
                processes, state = await self.job.stopped(), await self.job.state()
        except (HostError, TimeoutError) as reason:
            return f"{name} did not say whether a process was stopped ({reason})"
        ranks = [f"rank {one.rank}, " if one.rank is not None else "" for one in processes]
        words = [f"{rank}process {one.pid} on {name} is stopped" for rank, one in zip(ranks, processes, strict=True)]
        return "; ".join(
            [*words, *[f"the container on {name} is paused"] * any(box.status == "paused" for box in state.containers)]
        )


class Link:
    """Whether a host can be heard, and how long it is borne that it cannot."""

    def __init__(self, recording: Recording, host: str, most_s: float) -> None:
        self._recording, self._host, self._most_s = recording, host, most_s
        self._lost_at: float | None = None
        self._tries = 0

    @property
    def is_down(self) -> bool:
        return self._lost_at is not None

    def left_s(self) -> float:
        """Until it is given up."""
        assert self._lost_at is not None
        return max(0.1, self._lost_at + self._most_s - time.monotonic())

    def works(self) -> None:
        """It is back."""
        assert self._lost_at is not None
        self._recording.event("link_back", f"back after {time.monotonic() - self._lost_at:.1f} s", self._host)
        self._lost_at, self._tries = None, 0

    async def broke(self, reason: Exception) -> None:
        """Wait a little longer each time, until it is given up."""
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = now
            self._recording.event("link_lost", str(reason), self._host)
        if now - self._lost_at >= self._most_s:
            raise LinkLostError(self._host, f"out of reach for {self._most_s:g} s") from None
        await asyncio.sleep(RECONNECT_S[min(self._tries, len(RECONNECT_S) - 1)])
        self._tries += 1


def job_of(node: NodePlan, host: Host, run: str) -> HostJob:
    """One node's part of a run, on its host."""
    assert node.directory is not None, "a plan for hosts says where its files lie"
    return HostJob(host, run, node.directory, node.container.engine if node.container else None)
