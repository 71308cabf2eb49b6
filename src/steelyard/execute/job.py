"""One node's part of a run on its host: holds the host, prepares, starts, follows, stops and cleans up the job.

`job.sh` does the work on the host and survives a lost connection: the job continues, and its output is read later from
the byte where we were.
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
"""What a run holds: a second run that wants the same scope of one machine is refused."""

_LAUNCH = 'script=$(cat) && eval "$script"'
"""The script is read completely before it runs, and can store a copy of itself on the host."""
_LATEST_S = 1 << 33
"""Latest start time in seconds since 1970; a later one cannot be shown as a date."""
_Answer = TypeVar("_Answer")


class ContainerState(NamedTuple):
    """State of a container as the engine reports it."""

    status: str
    """created, running, paused, exited, dead."""
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class State:
    """State of a job."""

    status: int | None
    """Its exit status; None while it runs."""
    gone: bool
    """Whether its directory was removed."""
    unwatched: bool
    """Whether the process that would record its exit status is gone."""
    free_kib: int | None
    oom_killed: bool = False
    """As the engine reports it."""
    engine_silent: bool = False
    """Whether the engine does not answer."""
    containers: tuple[ContainerState, ...] = ()
    engine_error: str = ""


class HostJob:
    """One run's part on one host."""

    def __init__(self, host: Host, run: str, directory: str, engine: str = "") -> None:
        self.host, self.run, self.directory, self.engine = host, run, directory, engine
        self.keeper: int | None = None
        """The process that holds the host for us: on SIGTERM it stops the job and removes everything."""
        self.swept: list[str] = []
        """Dead runs whose files were removed when the host was taken."""
        self._beats = 0
        self._pending: set[asyncio.Task[Any]] = set()
        """Commands that the host has not answered yet, whether or not somebody still waits for the answer."""

    async def take(self, who: str, lease_s: int) -> None:
        """Hold the host for this run; HostError if another run holds it.

        After `lease_s` without a beat, the run stops itself on the host and removes its files. 0: never.
        """
        lines = (await self._ask("take", who, self.engine, str(lease_s), SCOPE)).text.split("\n")
        self.swept = [line.partition(" ")[2] for line in lines if line.startswith("swept ")]
        answers = ("taken ", "held", "twice")  # a login shell may greet first
        at = next((at for at, line in enumerate(lines) if line.startswith(answers)), len(lines) - 1)
        answer, *more = lines[at:]
        if answer.startswith("taken "):
            self.keeper = _count(answer.partition(" ")[2]) or 0
        elif answer == "twice":
            message = "the cluster file lists this machine twice, under two names"
            raise HostRefusedError(self.host.name, message, next="remove one of the two names from the cluster file")
        else:
            raise self._held(*[*more, *[""] * 5][:5])

    def _held(self, run: str, who: str, since: str, pid: str, login: str) -> HostError:
        """Who holds the host. Process and login come from the kernel, the rest from the process itself."""
        began, process = _count(since) or 0, _count(pid) or 0
        known = 0 < began < _LATEST_S
        moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(began)) if known else "an unknown time"
        kill = self.host.typed(["kill", str(process)])
        message = f"in use by run {run or '?'} of {who or '?'} since {moment} (process {process}, user {login})"
        fix = f"wait for it; or stop it and remove its files, as {login} or root: {kill}"
        return HostError(self.host.name, message, expected="a free host", next=fix)

    async def beat(self) -> int | None:
        """Renew the lease; returns the free disk space in KiB, None if unknown."""
        self._beats += 1
        return _count((await self._ask("beat", str(self._beats))).text.rpartition("\n")[2])

    async def prepare(self, files: Mapping[str, bytes], secrets: Mapping[str, str], mounts: Iterable[str] = ()) -> None:
        """Write the planned files, and copy each secret, by name, from a file of the host.

        `mounts` are the other paths of the host that its container can see.
        """
        await self._ask("prepare", *(word for pair in secrets.items() for word in pair))
        await self._ask("check_mounts", *mounts)
        for name, content in files.items():
            # The engine reads the environment file; the container must not see it.
            place, mode = (name, 0o600) if name == ENV_FILE else (f"{JOB_DIR}/{name}", 0o644)
            await self._to_its_end(self.host.write(f"{self.directory}/{place}", content, mode))

    async def secret(self, name: str) -> bytes:
        """The content of a copied secret, to hide it in all output."""
        return (await self.host.read(f"{self.directory}/{JOB_DIR}/{SECRETS}/{name}")).strip()

    async def start(self, argv: Sequence[str]) -> None:
        await self._ask("start", *argv)

    def follow(self, offset: int) -> AsyncIterator[bytes]:
        """Its output from byte `offset` on, as it is printed."""
        return self.host.follow(self._argv("follow", str(offset)), script())

    def rest(self, offset: int) -> AsyncIterator[bytes]:
        """Its output from byte `offset` to now, of any size."""
        return self.host.follow(self._argv("rest", str(offset)), script())

    async def state(self) -> State:
        first, *more = (await self._ask("status", self.engine)).text.split("\n")
        containers = [line.split(" ", 3) for line in more[1:] if line.count(" ") >= 2]
        return State(
            status=_count(first),
            gone=first == "gone",
            unwatched=first == "unwatched",
            free_kib=(_count(more[0]) or 0) if more else None,
            oom_killed=any(words[0] == "true" for words in containers),
            engine_silent="silent" in more[1:],
            containers=tuple(ContainerState(words[2], _count(words[1])) for words in containers if words[2] != "-"),
            engine_error=next((words[3] for words in containers if len(words) > 3 and words[3] not in ("", "-")), ""),
        )

    async def stopped(self) -> list[tuple[int, int | None]]:
        """Process ID and rank, if any, of its processes that are stopped by a debugger or SIGSTOP."""
        lines = (await self._ask("stopped", self.engine)).text.splitlines()
        return [(_count(pid) or 0, _count(rank)) for pid, rank, *_ in ([*line.split(" ", 2), ""] for line in lines)]

    async def stop(self, grace_s: int) -> None:
        """Stop it: SIGTERM, then SIGKILL after `grace_s`. Pending commands, such as its start, are awaited first."""
        if self._pending:
            await asyncio.wait(self._pending)
        await self._ask("halt", self.engine, str(grace_s), timeout_s=grace_s * 2 + COMMAND_S)

    async def clean(self, containers: bool) -> list[tuple[str, str]]:
        """Remove all that carries the run's mark. Returns what could not be removed: (engine|files|containers, which).

        `containers`: whether there may be any. Pending commands are awaited first: they could create files after us.
        """
        if self._pending:
            await asyncio.wait(self._pending)
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
        """The result. If we stop waiting, the work still continues and `clean` waits for it."""
        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._pending.discard(task)
        if not task.cancelled():
            task.exception()  # read it, so that asyncio does not warn when no one waits for it


@cache
def script() -> bytes:
    return resources.files(__package__).joinpath("job.sh").read_bytes()


def _count(text: str) -> int | None:
    """A number that a host printed; None for anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
