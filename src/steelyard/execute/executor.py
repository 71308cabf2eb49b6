"""The interface of an executor, which is a way to run plans. Adding one is a module and a line of the table."""

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
"""Kinds of failures that are the training program's own; all others are the infrastructure's."""
RECONNECT_S = (0.5, 1.0, 2.0, 5.0)
"""Between tries to reach a node that is out of reach."""
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each phase of a run on hosts may take, and how long a silence is borne, in seconds."""

    reach: float = 30.0
    lock: float = 30.0
    preflight: float = 300.0
    image: float = 3600.0
    prepare: float = 120.0
    start: float = 180.0
    counters: float = 25.0
    """To read a host's counters, before the start and after the end."""
    first_step: float = 1800.0
    """From the start to the first step: compilation, data, rendezvous."""
    train: float | None = None
    """Of the training program from its start to its exit; None for what the plan allows at the slowest."""
    exit: float = 1800.0
    """From the last planned step to the exit of the training program: a last checkpoint takes its time."""
    stall_medians: float = 10.0
    """A step may take so many times the median of those before."""
    stall_at_least: float = 300.0
    """And so long, whatever the median: evaluation and checkpoints take their time."""
    lost: float = 120.0
    """How long a host may be out of reach before it is given up."""
    lease: int = 3600
    """A job whose runner was not heard of for so long ends itself and leaves nothing; 0 for never."""
    settle: float = 3.0
    """After the first failure, for what other nodes have to say of it."""
    grace: int = 10
    """Between asking a job to end and making it."""
    clean: float = 90.0


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where an image comes from that a host lacks; neither: it has to be there."""

    file: Path | None = None
    """What the engine's `save` wrote."""
    pull: bool = False


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How plans are run, whichever executor runs them."""

    limits: Limits = field(default_factory=Limits)
    cluster: Path | None = None
    """The cluster file; None is this machine."""
    accept_new_host_keys: bool = False
    image: ImageSource = field(default_factory=ImageSource)
    preflight: bool = True
    """Whether hosts are asked first whether they are fit."""
    required: str | None = None
    """What blocks a run if preflight finds it wanting, as --required has it."""
    hosts: Mapping[str, Host] | None = None
    """Hosts that are reached already, by name; None: each run reaches its own."""
    unfit: Mapping[str, HostError] | None = None
    """What a preflight of all hosts together found to keep which of them from running; None: each run asks its own."""


@dataclass(frozen=True, slots=True)
class Stop:
    """What was asked for while a run was under way."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """The first signal: end the job, clean up, keep the record."""
    at_once: asyncio.Event = field(default_factory=asyncio.Event)
    """The second: leave everything as it is, and say what remains."""


async def unless(asked: asyncio.Event, work: Coroutine[Any, Any, _Answer]) -> _Answer | None:
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


class Phase(NamedTuple):
    """A part of a run before it trains."""

    name: str
    limit_s: float | None
    work: Callable[[], Awaitable[None]]


class JobNode(Protocol):
    """One node's part of a job."""

    plan: NodePlan
    log: NodeRecording | None = None
    """Made before it is started."""
    link: "Link | None" = None
    started: bool = False
    ended_at: float | None = None
    """When all it printed was recorded after its end; set by the supervisor."""

    @property
    def is_running(self) -> bool:
        """Whether it was started and is not known to have ended."""
        return self.started and self.ended_at is None

    @property
    def is_lost(self) -> bool:
        """Whether it is out of reach now."""
        return self.link is not None and self.link.is_down

    def follow(self, offset: int) -> AsyncIterator[bytes]:
        """What it prints from byte `offset` on, as it comes; of one whose end was seen, the rest."""

    async def status(self) -> int | None:
        """Its exit status; None while it runs."""

    async def reach(self) -> None:
        """Raises where it is out of reach."""
        return

    def telemetry(self) -> TelemetrySource | None:
        """Its figures while it trains; None where there are none to be had."""


class Job(Protocol):
    """One run of a plan, as its executor does it. The supervisor calls, watches and records."""

    def __init__(self, planned: Planned, recording: Recording, options: RunOptions) -> None:
        """Begins nothing yet."""

    @staticmethod
    def takes(plan: Plan) -> bool:
        """Whether a plan is made for this executor."""

    @staticmethod
    def check(planned: Planned, machine: Machine, options: RunOptions) -> None:
        """Refuse before anything is made what it cannot run."""

    @property
    def nodes(self) -> Sequence[JobNode]: ...

    @property
    def exit_status(self) -> int | None:
        """Of the training program, for the record; known once it is cleaned up after."""

    def phases(self) -> Sequence[Phase]:
        """What comes before training; the last starts it. They are recorded where there are several."""

    def guards(self) -> Sequence[Awaitable[None]]:
        """What else to watch while it trains: the first that raises ends it."""

    async def explain(self, overdue: Failure) -> "RunFailedError":
        """What the executor knows of a run whose steps do not come or that does not end."""

    def failure(self) -> "RunFailedError | None":
        """Why it did not end well, once it has ended."""

    def stopping(self, phase: str) -> str:
        """What a person who stopped it waits for."""

    async def clean_up(self, stop: Stop, interrupted: bool) -> None:
        """Stop what still runs, keep what it printed last, leave nothing behind."""


def executor_of(plan: Plan) -> type[Job]:
    executors: list[type[Job]] = [importlib.import_module(module).EXECUTOR for module in MODULES.values()]
    return next(executor for executor in executors if executor.takes(plan))


def content_of(file: PlannedFile) -> str:
    """A planned file as it is written."""
    return file.content if isinstance(file.content, str) else json.dumps(file.content, indent=2) + "\n"


@dataclass(eq=False)
class RunFailedError(Exception):
    """The run cannot go on, or did not end well, for this reason."""

    failure: Failure
    expected: str | None = None
    next: str | None = None
    is_training: bool = False
    """Whether it is the training program's own failure."""
    shown: InfrastructureError | None = None
    """What a person is shown in its place."""

    @classmethod
    def within(cls, phase: str, reason: InfrastructureError) -> "RunFailedError":
        kind = "link" if isinstance(reason, LinkLostError) else phase
        host, message = (reason.host, reason.complaint) if isinstance(reason, HostError) else (None, reason.message)
        return cls(Failure(kind=kind, message=message, node=host, phase=phase), reason.expected, reason.next)

    def without_secrets(self, hidden: Callable[[str], str]) -> "RunFailedError":
        """The same, with no secret in what a host answered."""
        failure = self.failure.model_copy(update={"message": hidden(self.failure.message)})
        return replace(self, failure=failure, next=self.next and hidden(self.next))

    def error(self) -> InfrastructureError:
        """The same, for a person."""
        host, kind = self.failure.node, self.failure.kind
        message = f"{f'{host}: ' if host else ''}{self.failure.message} (in {self.failure.phase})"
        return self.shown or InfrastructureError(message, key=kind, value=host, expected=self.expected, next=self.next)


class Link:
    """Whether a node can be reached, and how long it is borne that it cannot."""

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
        assert self._lost_at is not None
        self._recording.event("link_back", f"back after {time.monotonic() - self._lost_at:.1f} s", self._host)
        self._lost_at, self._tries = None, 0

    async def broke(self, reason: Exception) -> None:
        """Wait a little longer each time, until it is given up."""
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = now
            why = reason.with_way_on(reason.complaint) if isinstance(reason, HostError) else str(reason)
            self._recording.event("link_lost", why, self._host)
        if now - self._lost_at >= self._most_s:
            raise LinkLostError(self._host, f"out of reach for {self._most_s:g} s") from None
        await asyncio.sleep(RECONNECT_S[min(self._tries, len(RECONNECT_S) - 1)])
        self._tries += 1
