"""The interface of an executor, which is a way to run plans. A new one needs a module and a line of the table."""

import asyncio
import importlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from steelyard.errors import InfrastructureError
from steelyard.execute.host import Host, HostError, LinkLostError
from steelyard.execute.recording import NodeRecording, Recording
from steelyard.execute.telemetry import TelemetrySource
from steelyard.hardware.machine import Machine
from steelyard.planning.make import Planned
from steelyard.planning.plan import NodePlan, Plan, PlannedFile
from steelyard.records import Failure

MODULES = {"local": "steelyard.execute.local", "cluster": "steelyard.execute.cluster"}
"""Each module has an EXECUTOR, the class of its jobs."""

TRAINING = ("exit", "oom", "nan_abort", "error", "crash", "xla", "fatal", "signal")
"""Kinds of failures of the training program itself; all other kinds are infrastructure failures."""
RECONNECT_S = (0.5, 1.0, 2.0, 5.0)
"""Waits between attempts to reconnect to a node."""
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of a run, in seconds."""

    reach: float = 30.0
    lock: float = 30.0
    preflight: float = 300.0
    image: float = 3600.0
    prepare: float = 120.0
    start: float = 180.0
    counters: float = 25.0
    """For reading a host's counters, before the start and after the end."""
    first_step: float = 1800.0
    """From the start to the first step: compilation, data, rendezvous."""
    train: float | None = None
    """From the start of the training program to its exit. None: computed from the plan."""
    exit: float = 1800.0
    """From the last planned step to the exit of the training program, which may write a checkpoint."""
    stall_medians: float = 10.0
    """A step longer than this multiple of the median step time is a stall,"""
    stall_at_least: float = 300.0
    """if it is also longer than this: evaluation and checkpoints are slow."""
    lost: float = 120.0
    """How long the connection to a host may be lost before the run fails."""
    lease: int = 3600
    """Stop the remote job and remove its files after this long without contact from the controller. 0: never."""
    settle: float = 3.0
    """Wait after the first failure for errors of the other nodes."""
    grace: int = 10
    """From SIGTERM to SIGKILL."""
    clean: float = 90.0


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where to get an image that a host lacks; with neither field set, a missing image is an error."""

    file: Path | None = None
    """Written by the engine's `save`."""
    pull: bool = False


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a plan; the same for all executors."""

    limits: Limits = field(default_factory=Limits)
    cluster: Path | None = None
    """The cluster file; None: this machine."""
    accept_new_host_keys: bool = False
    image: ImageSource = field(default_factory=ImageSource)
    preflight: bool = True
    """Whether to check the hosts before the run."""
    required: str | None = None
    """Preflight checks that must pass, in the form of --required."""
    hosts: Mapping[str, Host] | None = None
    """Connected hosts, by name; None: the run connects itself."""
    unfit: Mapping[str, HostError] | None = None
    """Hosts that a preflight of the whole fleet rejected; None: the run checks its hosts itself."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Requests to stop a run."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """First signal: stop the job, clean up, keep the record."""
    at_once: asyncio.Event = field(default_factory=asyncio.Event)
    """Second signal: leave everything as it is and report what remains."""


async def unless(asked: asyncio.Event, work: Coroutine[Any, Any, _Answer]) -> _Answer | None:
    """The result of the work; None if the event was set before the work was done."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(asked.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        working.cancel()
    try:
        return await working
    except asyncio.CancelledError:
        return None


class Phase(NamedTuple):
    """A part of a run before training starts."""

    name: str
    limit_s: float | None
    work: Callable[[], Awaitable[None]]


class JobNode(Protocol):
    """One node of a job."""

    plan: NodePlan
    log: NodeRecording | None = None
    """Set before the node is started."""
    link: "Link | None" = None
    started: bool = False
    ended_at: float | None = None
    """When the node had ended and all its output was recorded; set by the supervisor."""

    @property
    def is_running(self) -> bool:
        """Whether it was started and no end was seen."""
        return self.started and self.ended_at is None

    @property
    def is_lost(self) -> bool:
        """Whether the connection to it is lost now."""
        return self.link is not None and self.link.is_down

    def follow(self, offset: int) -> AsyncIterator[bytes]:
        """Its output from byte `offset` on, as it is printed; after its end, the rest."""

    async def status(self) -> int | None:
        """Its exit status; None while it runs."""

    async def reach(self) -> None:
        """Raise if it cannot be reached."""
        return

    def telemetry(self) -> TelemetrySource | None:
        """Where to sample its GPUs and memory while it trains; None if nothing can be sampled."""


class Job(Protocol):
    """One run of a plan by an executor. The supervisor calls, watches and records it."""

    def __init__(self, planned: Planned, recording: Recording, options: RunOptions) -> None:
        """Starts nothing yet."""

    @staticmethod
    def takes(plan: Plan) -> bool:
        """Whether a plan was made for this executor."""

    @staticmethod
    def check(planned: Planned, machine: Machine, options: RunOptions) -> None:
        """Refuse a plan that it cannot run, before anything is created."""

    @property
    def nodes(self) -> Sequence[JobNode]: ...

    @property
    def exit_status(self) -> int | None:
        """Exit status of the training program, for the record; known after clean-up."""

    def phases(self) -> Sequence[Phase]:
        """The phases before training; the last one starts it. Recorded if there are several."""

    def guards(self) -> Sequence[Awaitable[None]]:
        """What else to watch during training; the first that raises ends the run."""

    async def explain(self, overdue: Failure) -> "RunFailedError":
        """Add to a missed time limit what the executor can find out about it."""

    def failure(self) -> "RunFailedError | None":
        """Why the run failed; called after its end."""

    def stopping(self, phase: str) -> str:
        """What happens now, for the user who stopped the run."""

    async def clean_up(self, stop: Stop, interrupted: bool) -> None:
        """Stop what still runs, keep its last output, leave nothing behind."""


def executor_of(plan: Plan) -> type[Job]:
    executors: list[type[Job]] = [importlib.import_module(module).EXECUTOR for module in MODULES.values()]
    return next(executor for executor in executors if executor.takes(plan))


def longer_limit(overdue: Failure, last_step: int) -> str:
    """The option that allows more time for what took too long."""
    options = {"time_limit": "--time-limit", "hang_at_exit": "--exit-within"}
    option = options.get(overdue.kind, "--stall-after" if last_step else "--first-step-within")
    return f"{option} SECONDS for a longer limit; the finished steps are recorded"


def content_of(file: PlannedFile) -> str:
    """The text of a planned file."""
    return file.content if isinstance(file.content, str) else json.dumps(file.content, indent=2) + "\n"


@dataclass(eq=False)
class RunFailedError(Exception):
    """The run cannot continue, or has failed."""

    failure: Failure
    expected: str | None = None
    next: str | None = None
    is_training: bool = False
    """Whether the training program itself failed."""
    shown: InfrastructureError | None = None
    """The error to show in its place."""

    @classmethod
    def within(cls, phase: str, reason: InfrastructureError) -> "RunFailedError":
        kind = "link" if isinstance(reason, LinkLostError) else phase
        host, message = (reason.host, reason.complaint) if isinstance(reason, HostError) else (None, reason.message)
        return cls(Failure(kind=kind, message=message, node=host, phase=phase), reason.expected, reason.next)

    def without_secrets(self, hidden: Callable[[str], str]) -> "RunFailedError":
        """The same, with secrets removed from what a host answered."""
        failure = self.failure.model_copy(update={"message": hidden(self.failure.message)})
        return replace(self, failure=failure, next=self.next and hidden(self.next))

    def error(self) -> InfrastructureError:
        """The error to show to the user."""
        host, kind = self.failure.node, self.failure.kind
        message = f"{f'{host}: ' if host else ''}{self.failure.message} (phase: {self.failure.phase})"
        return self.shown or InfrastructureError(message, key=kind, value=host, expected=self.expected, next=self.next)


class Link:
    """The connection to a node: whether it works, and for how long it has not."""

    def __init__(self, recording: Recording, host: str, limit_s: float) -> None:
        self._recording, self._host, self._limit_s = recording, host, limit_s
        self._lost_at: float | None = None
        self._tries = 0

    @property
    def is_down(self) -> bool:
        return self._lost_at is not None

    def left_s(self) -> float:
        """Seconds until the limit."""
        assert self._lost_at is not None
        return max(0.1, self._lost_at + self._limit_s - time.monotonic())

    def works(self) -> None:
        assert self._lost_at is not None
        seconds = time.monotonic() - self._lost_at
        self._recording.event("link_back", f"connection restored after {seconds:.1f} s", self._host)
        self._lost_at, self._tries = None, 0

    async def broke(self, reason: Exception) -> None:
        """Wait before the next attempt, longer each time; LinkLostError after the limit."""
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = now
            why = reason.with_way_on(reason.complaint) if isinstance(reason, HostError) else str(reason)
            self._recording.event("link_lost", why, self._host)
        if now - self._lost_at >= self._limit_s:
            message, fix = f"no connection for {self._limit_s:g} s", "--lost-after SECONDS for a longer limit"
            raise LinkLostError(self._host, message, next=fix) from None
        await asyncio.sleep(RECONNECT_S[min(self._tries, len(RECONNECT_S) - 1)])
        self._tries += 1
