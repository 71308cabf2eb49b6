"""One node's part of a run, on its host: locked, prepared, started, followed, ended and cleaned up after.

The work on the host is done by `job.sh`, which outlives the link: the job goes on while we cannot see it, and what it
printed meanwhile is read from where we were.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeVar

from steelyard.cluster.engines import ENGINES
from steelyard.cluster.host import COMMAND_S, Done, Host, HostRefusedError

LOCK = "/tmp/steelyard.lock"
"""What keeps two runs off one host, whoever started them."""
STALE_S = 60
"""A lock whose run is dead is another's to take after so long without a beat."""

_SCRIPT = "job.sh"
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a host."""

    run: str
    who: str
    since: int
    """Seconds since 1970, by the host's clock."""
    quiet_s: int
    """Since its runner was last heard of."""
    alive: bool
    """Whether its job still runs on the host."""
    directory: str
    engine: str
    mine: bool
    """Whether the lock is of the login we have there: what another wrote into one is not believed."""

    @property
    def is_stale(self) -> bool:
        """Whether nobody works for it any more, and it says enough to be cleaned up after."""
        told = bool(self.run) and self.directory.startswith("/") and self.mine
        return told and not self.alive and self.quiet_s >= STALE_S


@dataclass(frozen=True, slots=True)
class State:
    """How a job stands."""

    status: int | None
    """Its exit status; None while it runs."""
    gone: bool
    """Whether its directory is there no more."""
    free_kib: int | None
    oom_killed: bool = False
    """By the engine's word."""
    engine_error: str = ""


class HostJob:
    """One run's part on one host."""

    def __init__(self, host: Host, run: str, directory: str, engine: str | None, lock: str = LOCK) -> None:
        self.host, self.run, self.directory, self.engine, self.lock = host, run, directory, engine or "", lock
        self._beats = 0
        self._under_way: set[asyncio.Task[Any]] = set()
        """What the host was asked to do and has not answered yet, whoever still waits for the answer."""

    async def take_lock(self, who: str) -> Holder | None:
        """Keep others off the host; None when it is ours, else who has it."""
        said = (await self._ask("take", who, self.engine)).text.split("\n")
        if said[0] == "taken":
            return None
        run, holder, since, quiet, alive, directory, engine, mine, *_ = [*said[1:], *[""] * 8]
        return Holder(run, holder, _count(since), _count(quiet), alive == "alive", directory, engine, mine == "mine")

    async def clean_after(self, stale: Holder) -> None:
        """Remove what a dead run of ours left: what carries its mark, by the engine it had, and its lock."""
        engine = stale.engine if stale.engine in ENGINES else None
        await HostJob(self.host, stale.run, stale.directory, engine, self.lock).clean(containers=True)

    async def beat(self) -> int:
        """Say that somebody still asks after the job; how many KiB are free for it."""
        self._beats += 1
        return _count((await self._ask("beat", str(self._beats))).text)

    async def prepare(self, files: Mapping[str, bytes], secrets: Mapping[str, str]) -> None:
        """Make its directory with the planned files, and a copy of each secret, by name, from a file of the host."""
        await self._ask("prepare", *(word for pair in secrets.items() for word in pair))
        for name, content in {_SCRIPT: script(), **files}.items():
            await self._to_its_end(self.host.write(f"{self.directory}/{name}", content))

    async def secret(self, name: str) -> bytes:
        """What a copied secret holds, to be hidden wherever it is printed."""
        return (await self.host.read(f"{self.directory}/secrets/{name}")).strip()

    async def start(self, argv: Sequence[str], lease_s: int) -> None:
        """Start it; after `lease_s` without a beat it ends itself and leaves nothing, with 0 it never does."""
        await self._ask("start", str(lease_s), self.engine, *argv)

    def follow(self, offset: int) -> AsyncIterator[bytes]:
        """What it prints from byte `offset` on, as it comes."""
        return self.host.follow(self._argv("follow", str(offset)), script())

    def rest(self, offset: int) -> AsyncIterator[bytes]:
        """What it printed from byte `offset` to now, however much that is."""
        return self.host.follow(self._argv("rest", str(offset)), script())

    async def state(self) -> State:
        """How it stands."""
        first, *more = (await self._ask("status", self.engine)).text.split("\n")
        free = _count(more[0]) if more else None
        boxes = [line.split(" ", 3) for line in more[1:] if line.count(" ") >= 2]
        return State(
            status=int(first) if first.isdigit() else None,
            gone=first == "gone",
            free_kib=free,
            oom_killed=any(box[0] == "true" for box in boxes),
            engine_error=next((box[3] for box in boxes if len(box) > 3 and box[3]), ""),
        )

    async def stop(self, grace_s: int) -> None:
        """End it: asked first, then after `grace_s` made to."""
        await self._ask("halt", self.engine, str(grace_s), timeout_s=grace_s * 2 + COMMAND_S)

    async def clean(self, containers: bool) -> list[str]:
        """Remove all that carries the run's mark; what could not be removed. `containers`: whether there may be any.

        What is still under way comes first: a host goes on with what it was asked, and would make it after we left.
        """
        if self._under_way:
            await asyncio.wait(self._under_way)
        said = (await self._ask("clean", self.engine if containers else "")).text.splitlines()
        return [line for line in said if line.startswith("left:")]

    def _argv(self, verb: str, *words: str) -> list[str]:
        return ["sh", "-s", "--", verb, self.lock, self.run, self.directory, *words]

    async def _ask(self, verb: str, *words: str, timeout_s: float = COMMAND_S) -> Done:
        done = await self._to_its_end(self.host.run(self._argv(verb, *words), script(), timeout_s))
        if done.status:
            raise HostRefusedError(self.host.name, done.reason)
        return done

    async def _to_its_end(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Its answer; where we stop waiting for it, it still goes on, and `clean` waits for it."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)


def script() -> bytes:
    """What runs on the host."""
    return resources.files(__package__).joinpath(_SCRIPT).read_bytes()


def _count(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0
