"""One node's part of a run, on this machine: what it makes, what it says, and that nothing is left."""

import asyncio
import os
import stat
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from steelyard.cluster.host import HostError
from steelyard.cluster.job import HostJob
from steelyard.cluster.this_host import ThisHost

SAYS = ["sh", "-c", "for i in 1 2 3 4; do echo line $i; sleep 0.1; done; exit 3"]


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., HostJob]:
    def make(run: str = "one", directory: str = "made/by us/exp-node0") -> HostJob:
        return HostJob(ThisHost(), run, str(tmp_path / directory), None, str(tmp_path / "lock"))

    return make


def doing(work: Awaitable[None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(limited())


def processes_of(job: HostJob) -> str:
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in listed.splitlines() if job.directory in line)


def test_from_the_lock_to_nothing(job: Callable[..., HostJob], tmp_path: Path) -> None:
    one = job()
    (tmp_path / "token").write_text("s3cret-s3cret\n")

    async def work() -> None:
        assert await one.take_lock("me@here") is None
        await one.prepare({"a.txt": b"text"}, {"HF_TOKEN": str(tmp_path / "token")})
        folder = Path(one.directory)
        assert (folder / "a.txt").read_bytes() == b"text"
        for path, mode in ((folder, 0o700), (folder / "secrets", 0o700), (folder / "secrets/HF_TOKEN", 0o600)):
            assert stat.S_IMODE(path.stat().st_mode) == mode
        assert await one.secret("HF_TOKEN") == b"s3cret-s3cret"
        await one.start(SAYS, 0)
        said = b"".join([data async for data in one.follow(0)])
        said += await one.rest(len(said))
        assert said == b"line 1\nline 2\nline 3\nline 4\n"
        assert await one.rest(7) == said[7:]
        state = await one.state()
        assert (state.status, state.gone) == (3, False)
        assert await one.beat() > 0
        assert await one.clean() == []

    doing(work())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["token"]
    assert processes_of(one) == ""


def test_a_lock_names_its_holder_and_a_stale_one_is_taken_over(job: Callable[..., HostJob], tmp_path: Path) -> None:
    first, second = job("first"), job("second", "other/exp-node0")

    async def work() -> None:
        await first.take_lock("me@here")
        await first.prepare({}, {})
        await first.start(["sleep", "60"], 0)
        held = await second.take_lock("you@there")
        assert held is not None
        assert (held.run, held.who, held.alive, held.is_stale) == ("first", "me@here", True, False)
        assert abs(held.since - time.time()) < 60
        await first.stop(1)
        pid = int((Path(first.directory) / "pid").read_text())
        os.killpg(pid, 9)  # as after a power cut: nobody is left to clean up
        os.utime(tmp_path / "lock" / "beat", (time.time() - 120,) * 2)
        held = await second.take_lock("you@there")
        assert held is not None
        assert held.is_stale
        await second.clean_after(held)
        assert not Path(first.directory).exists()
        assert await second.take_lock("you@there") is None
        await second.clean()

    doing(work())
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_there_is_not_taken(job: Callable[..., HostJob], tmp_path: Path) -> None:
    one = job(directory="theirs")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "results").write_text("a week's work")

    async def work() -> None:
        await one.take_lock("me")
        with pytest.raises(HostError, match="is there already"):
            await one.prepare({}, {})
        await one.clean()

    doing(work())
    assert (tmp_path / "theirs" / "results").read_text() == "a week's work"
    assert not (tmp_path / "lock").exists()


def test_what_does_not_heed_the_asking_is_made_to_end(job: Callable[..., HostJob]) -> None:
    one = job()

    async def work() -> None:
        await one.take_lock("me")
        await one.prepare({}, {})
        await one.start(["sh", "-c", "trap '' TERM; setsid sleep 77 & while :; do sleep 1; done"], 0)
        await one.stop(1)
        deadline = time.monotonic() + 10
        while (await one.state()).status is None and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        assert (await one.state()).status == 137
        await one.clean()

    doing(work())
    assert "sleep 77" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_a_job_nobody_asks_after_ends_itself(job: Callable[..., HostJob], tmp_path: Path) -> None:
    one = job()

    async def work() -> None:
        await one.take_lock("me")
        await one.prepare({}, {})
        await one.start(["sleep", "66"], 2)
        deadline = time.monotonic() + 20
        while not (await one.state()).gone and time.monotonic() < deadline:
            await asyncio.sleep(0.2)

    doing(work())
    deadline = time.monotonic() + 10
    while (list(tmp_path.iterdir()) or processes_of(one)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []
    assert processes_of(one) == ""


def test_values_are_never_shell_text(job: Callable[..., HostJob], tmp_path: Path) -> None:
    hostile = f"x'; touch {tmp_path}/pwned; $(touch {tmp_path}/pwned) `touch {tmp_path}/pwned`\n\""
    one = HostJob(
        ThisHost(), hostile.splitlines()[0], str(tmp_path / "dir$(touch pwned)"), None, str(tmp_path / "lock")
    )

    async def work() -> None:
        assert await one.take_lock(hostile) is None
        await one.prepare({}, {})
        await one.start(["printf", "%s", hostile], 0)
        said = b"".join([data async for data in one.follow(0)])
        assert said + await one.rest(len(said)) == hostile.encode()
        await one.clean()

    doing(work())
    assert not (tmp_path / "pwned").exists()
