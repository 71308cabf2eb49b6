"""One node's part of a run, on its host: held, prepared, started, followed, ended and cleaned up after.

The work on the host is done by `job.sh`, which outlives the link: the job goes on while we cannot see it, and what it
printed meanwhile is read from where we were.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, TypeVar

from steelyard.execute.host import COMMAND_S, Done, Host, HostError, HostRefusedError
from steelyard.planning.container import ENV_FILE, JOB_DIR, SECRETS

SCOPE = "machine"
"""Of two runs that hold the same scope of one machine, the later is refused."""

_LAUNCH = 'script=$(cat) && eval "$script"'
"""The script is read whole before it runs, and can put a copy of itself where it outlives the link."""
_LATEST_S = 1 << 33
"""Of a start that a process claims, in seconds since 1970: one further away is not a date that can be shown."""
_Answer = TypeVar("_Answer")


class ContainerState(NamedTuple):
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

    def __init__(self, host: Host, run: str, directory: str, engine: str = "") -> None:
        self.host, self.run, self.directory, self.engine = host, run, directory, engine
        self.keeper: int | None = None
        """The process that holds the host for us: asked to end (TERM), it ends the job and removes everything."""
        self.swept: list[str] = []
        """Dead runs whose leftovers were removed when the host was taken."""
        self._beats = 0
        self._under_way: set[asyncio.Task[Any]] = set()
        """What the host was asked to do and has not answered yet, whoever still waits for the answer."""

    async def take(self, who: str, lease_s: int) -> None:
        """Keep others off the host; HostError where another run has it.

        After `lease_s` without a beat, everything of the run ends itself and leaves nothing; with 0 it never does.
        """
        lines = (await self._ask("take", who, self.engine, str(lease_s), SCOPE)).text.split("\n")
        self.swept = [line.partition(" ")[2] for line in lines if line.startswith("swept ")]
        answers = ("taken ", "held", "twice")  # a login shell may greet first
        at = next((at for at, line in enumerate(lines) if line.startswith(answers)), len(lines) - 1)
        answer, *more = lines[at:]
        if answer.startswith("taken "):
            self.keeper = _count(answer.partition(" ")[2]) or 0
        elif answer == "twice":
            raise HostRefusedError(self.host.name, "this machine stands twice among the hosts, under two names")
        else:
            raise self._held(*[*more, *[""] * 5][:5])

    def _held(self, run: str, who: str, since: str, pid: str, login: str) -> HostError:
        """By whom: process and login by the kernel's word, the rest by that of the process and the host's clock."""
        began, process = _count(since) or 0, _count(pid) or 0
        known = 0 < began < _LATEST_S
        moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(began)) if known else "an unknown time"
        kill = self.host.typed(["kill", str(process)])
        message = f"in use by run {run or '?'} of {who or '?'} since {moment} (process {process} of login {login})"
        fix = f"wait for it; or end it and remove its files, as {login} or root: {kill}"
        return HostError(self.host.name, message, expected="a host that nobody uses", next=fix)

    async def beat(self) -> int | None:
        """Say that somebody still asks after the job; how many KiB are free for it, where the host can tell."""
        self._beats += 1
        return _count((await self._ask("beat", str(self._beats))).text.rpartition("\n")[2])

    async def prepare(self, files: Mapping[str, bytes], secrets: Mapping[str, str], mounts: Iterable[str] = ()) -> None:
        """Write what the program sees: the planned files, and a copy of each secret, by name, from a file of the host.

        `mounts` are the paths of the host that its container sees besides.
        """
        await self._ask("prepare", *(word for pair in secrets.items() for word in pair))
        await self._ask("check_mounts", *mounts)
        for name, content in files.items():
            # The engine reads the environment, and the container must not see it.
            place, mode = (name, 0o600) if name == ENV_FILE else (f"{JOB_DIR}/{name}", 0o644)
            await self._to_its_end(self.host.write(f"{self.directory}/{place}", content, mode))

    async def secret(self, name: str) -> bytes:
        """What a copied secret holds, to be hidden wherever it is printed."""
        return (await self.host.read(f"{self.directory}/{JOB_DIR}/{SECRETS}/{name}")).strip()

    async def start(self, argv: Sequence[str]) -> None:
        await self._ask("start", *argv)

    def follow(self, offset: int) -> AsyncIterator[bytes]:
        """What it prints from byte `offset` on, as it comes."""
        return self.host.follow(self._argv("follow", str(offset)), script())

    def rest(self, offset: int) -> AsyncIterator[bytes]:
        """What it printed from byte `offset` to now, however much that is."""
        return self.host.follow(self._argv("rest", str(offset)), script())

    async def state(self) -> State:
        first, *more = (await self._ask("status", self.engine)).text.split("\n")
        boxes = [line.split(" ", 3) for line in more[1:] if line.count(" ") >= 2]
        return State(
            status=_count(first),
            gone=first == "gone",
            unwatched=first == "unwatched",
            free_kib=(_count(more[0]) or 0) if more else None,
            oom_killed=any(box[0] == "true" for box in boxes),
            engine_silent="silent" in more[1:],
            containers=tuple(ContainerState(box[2], _count(box[1])) for box in boxes if box[2] != "-"),
            engine_error=next((box[3] for box in boxes if len(box) > 3 and box[3] not in ("", "-")), ""),
        )

    async def stopped(self) -> list[tuple[int, int | None]]:
        """Its processes that somebody stopped, by a debugger or SIGSTOP: each its number and, if it has one, rank."""
        lines = (await self._ask("stopped", self.engine)).text.splitlines()
        return [(_count(pid) or 0, _count(rank)) for pid, rank, *_ in ([*line.split(" ", 2), ""] for line in lines)]

    async def stop(self, grace_s: int) -> None:
        """End it: asked first, then after `grace_s` made to. What is still under way comes first, such as its start."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._ask("halt", self.engine, str(grace_s), timeout_s=grace_s * 2 + COMMAND_S)

    async def clean(self, containers: bool) -> list[tuple[str, str]]:
        """Remove all that carries the run's mark; what could not be removed: (engine, files or containers, which).

        `containers`: whether there may be any. What is under way comes first: the host would make it after we left.
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
    return resources.files(__package__).joinpath("job.sh").read_bytes()


def _count(text: str) -> int | None:
    """A count that a host printed; None for anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
