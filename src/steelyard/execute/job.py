"""One node's part of a run, on its host: held, prepared, started, followed, ended and cleaned up after.

The work on the host is done by `job.sh`, which outlives the link: the job goes on while we cannot see it, and what it
printed meanwhile is read from where we were.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from steelyard.execute.host import COMMAND_S, Done, Host, HostRefusedError
from steelyard.planning.container import ENV_FILE, JOB_DIR, SECRETS
from steelyard.planning.plan import NodePlan

SCOPE = "machine"
"""Of two runs that hold the same scope of one machine, the later is refused."""

_SCRIPT = "job.sh"
_LAUNCH = 'script=$(cat) && eval "$script"'
"""The script is read whole before it runs, and can put a copy of itself where it outlives the link."""
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a host: the process and its login by the kernel's word, the rest by that of the process."""

    run: str
    who: str
    since: int
    """Seconds since 1970, by the host's clock."""
    pid: int
    login: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a request for a host."""

    holder: Holder | None
    """Who has it, where that is not us."""
    keeper: int | None
    """The process that holds it for us: asked to end (TERM), it ends the job and removes everything."""
    swept: tuple[str, ...]
    """Dead runs whose leftovers were removed first."""


@dataclass(frozen=True, slots=True)
class StoppedProcess:
    """A process of the job that somebody stopped: a debugger, or SIGSTOP."""

    pid: int
    rank: int | None
    command: str


@dataclass(frozen=True, slots=True)
class ContainerState:
    """What the engine says of a container."""

    status: str
    """created, running, paused, exited, dead."""
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class State:
    """How a job stands."""

    status: int | None
    """Its exit status; None while it runs."""
    gone: bool
    """Whether its directory is there no more."""
    unwatched: bool
    """Whether nobody is left on the host who would learn its exit status."""
    free_kib: int | None
    oom_killed: bool = False
    """By the engine's word."""
    engine_silent: bool = False
    """Whether the engine does not answer."""
    containers: tuple[ContainerState, ...] = ()
    engine_error: str = ""


class HostJob:
    """One run's part on one host."""

    def __init__(self, host: Host, run: str, directory: str, engine: str | None, scope: str = SCOPE) -> None:
        self.host, self.run, self.directory, self.engine, self.scope = host, run, directory, engine or "", scope
        self.keeper: int | None = None
        """The process that holds the host for us."""
        self._beats = 0
        self._under_way: set[asyncio.Task[Any]] = set()
        """What the host was asked to do and has not answered yet, whoever still waits for the answer."""

    @classmethod
    def of(cls, node: NodePlan, host: Host, run: str) -> "HostJob":
        """The part that a plan's node has."""
        assert node.directory is not None, "a plan for hosts says where its files lie"
        return cls(host, run, node.directory, node.container.engine if node.container else None)

    async def take(self, who: str, lease_s: int) -> Taken:
        """Keep others off the host.

        From here on, after `lease_s` without a beat, everything of the run ends itself and leaves nothing; with 0 it
        never does.
        """
        lines = (await self._ask("take", who, self.engine, str(lease_s), self.scope)).text.split("\n")
        swept = tuple(line.partition(" ")[2] for line in lines if line.startswith("swept "))
        answers = ("taken ", "held", "twice")  # a login shell may greet first
        at = next((at for at, line in enumerate(lines) if line.startswith(answers)), len(lines) - 1)
        answer, *more = lines[at:]
        if answer.startswith("taken "):
            self.keeper = count_of(answer.partition(" ")[2])
            return Taken(None, self.keeper, swept)
        if answer == "twice":
            raise HostRefusedError(self.host.name, "this machine stands twice among the hosts, under two names")
        run, holder, since, pid, login, *_ = [*more, *[""] * 5]
        return Taken(Holder(run, holder, count_of(since), count_of(pid), login), None, swept)

    async def beat(self) -> int | None:
        """Say that somebody still asks after the job; how many KiB are free for it, where the host can tell."""
        self._beats += 1
        last = (await self._ask("beat", str(self._beats))).text.rpartition("\n")[2]
        return count_of(last) if _is_count(last) else None

    async def prepare(self, files: Mapping[str, bytes], secrets: Mapping[str, str], mounts: Iterable[str] = ()) -> None:
        """Write what the program sees: the planned files, and a copy of each secret, by name, from a file of the host.

        `mounts` are the paths of the host that its container sees besides.
        """
        await self._ask("prepare", *(word for pair in secrets.items() for word in pair))
        await self._ask("check_mounts", *mounts)
        for name, content in files.items():
            if name == ENV_FILE:  # read by the engine, so the container must not see it
                await self._to_its_end(self.host.write(f"{self.directory}/{name}", content))
            else:
                await self._to_its_end(self.host.write(f"{self.directory}/{JOB_DIR}/{name}", content, 0o644))

    async def secret(self, name: str) -> bytes:
        """What a copied secret holds, to be hidden wherever it is printed."""
        return (await self.host.read(f"{self.directory}/{JOB_DIR}/{SECRETS}/{name}")).strip()

    async def start(self, argv: Sequence[str]) -> None:
        """Start it."""
        await self._ask("start", *argv)

    def follow(self, offset: int) -> AsyncIterator[bytes]:
        """What it prints from byte `offset` on, as it comes."""
        return self.host.follow(self._argv("follow", str(offset)), script())

    def rest(self, offset: int) -> AsyncIterator[bytes]:
        """What it printed from byte `offset` to now, however much that is."""
        return self.host.follow(self._argv("rest", str(offset)), script())

    async def state(self) -> State:
        """How it stands."""
        first, *more = (await self._ask("status", self.engine)).text.split("\n")
        free = count_of(more[0]) if more else None
        boxes = [line.split(" ", 3) for line in more[1:] if line.count(" ") >= 2]
        return State(
            status=count_of(first) if _is_count(first) else None,
            gone=first == "gone",
            unwatched=first == "unwatched",
            free_kib=free,
            oom_killed=any(box[0] == "true" for box in boxes),
            engine_silent="silent" in more[1:],
            containers=tuple(
                ContainerState(box[2], count_of(box[1]) if _is_count(box[1]) else None)
                for box in boxes
                if box[2] != "-"
            ),
            engine_error=next((box[3] for box in boxes if len(box) > 3 and box[3] not in ("", "-")), ""),
        )

    async def stopped(self) -> list[StoppedProcess]:
        """Its processes that somebody stopped."""
        processes = []
        for line in (await self._ask("stopped", self.engine)).text.splitlines():
            pid, rank, command = [*line.split(" ", 2), "", ""][:3]
            processes.append(StoppedProcess(count_of(pid), count_of(rank) if _is_count(rank) else None, command))
        return processes

    async def stop(self, grace_s: int) -> None:
        """End it: asked first, then after `grace_s` made to. What is still under way comes first, such as its start."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._ask("halt", self.engine, str(grace_s), timeout_s=grace_s * 2 + COMMAND_S)

    async def clean(self, containers: bool) -> list[tuple[str, str]]:
        """Remove all that carries the run's mark; what could not be removed: (engine, files or containers, which).

        `containers`: whether there may be any. What is still under way comes first: a host goes on with what it was
        asked, and would make it after we left.
        """
        if self._under_way:
            await asyncio.wait(self._under_way)
        lines = (await self._ask("clean", self.engine if containers else "")).text.splitlines()
        left = [line.split(" ", 2) for line in lines if line.startswith("left ")]
        return [(kind, which) for _, kind, which in left]

    def _argv(self, verb: str, *words: str) -> list[str]:
        return ["sh", "-c", _LAUNCH, "sh", verb, self.run, self.directory, *words]

    async def _ask(self, verb: str, *words: str, timeout_s: float = COMMAND_S) -> Done:
        done = await self._to_its_end(self.host.run(self._argv(verb, *words), script(), timeout_s))
        if done.status:
            raise HostRefusedError(self.host.name, done.reason)
        return done

    async def _to_its_end(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Its answer; where we stop waiting for it, it still goes on, and `clean` waits for it."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited may have gone: then it is nobody's, and no warning of asyncio's


@cache
def script() -> bytes:
    """What runs on the host."""
    return resources.files(__package__).joinpath(_SCRIPT).read_bytes()


def count_of(text: str) -> int:
    """A count that a host printed; 0 for anything else."""
    return int(text) if _is_count(text.strip()) else 0


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20
