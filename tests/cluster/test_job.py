"""One node's part of a run, on this machine: what it makes, what it says, and that nothing is left."""

import asyncio
import os
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from steelyard.cluster.host import Done, HostError
from steelyard.cluster.job import HostJob
from steelyard.cluster.this_host import ThisHost

SAYS = ["sh", "-c", "for i in 1 2 3 4; do echo line $i; sleep 0.1; done; exit 3"]


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., HostJob]:
    def make(run: str = "one", directory: str = "made/by us/exp-node0") -> HostJob:
        return HostJob(ThisHost(), run, str(tmp_path / directory), None, str(tmp_path / "lock"))

    return make


async def read(stream: AsyncIterator[bytes]) -> bytes:
    return b"".join([data async for data in stream])


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
        said += await read(one.rest(len(said)))
        assert said == b"line 1\nline 2\nline 3\nline 4\n"
        assert await read(one.rest(7)) == said[7:]
        state = await one.state()
        assert (state.status, state.gone) == (3, False)
        assert await one.beat() > 0
        assert await one.clean(containers=True) == []

    doing(work())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["token"]
    assert processes_of(one) == ""


def test_what_is_asked_too_late_makes_nothing(job: Callable[..., HostJob], tmp_path: Path) -> None:
    one = job()

    async def work() -> None:
        await one.take_lock("me@here")
        assert await one.clean(containers=True) == []
        with pytest.raises(HostError, match="the lock is no longer ours"):
            await one.prepare({}, {})

    doing(work())
    assert list(tmp_path.iterdir()) == []


class SlowHost(ThisHost):
    """A host that comes to one thing it was asked only after a while, as one under load does."""

    def __init__(self, slow: str) -> None:
        super().__init__()
        self.slow, self.asked = slow, asyncio.Event()

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0) -> Done:
        async def later() -> Done:
            if self.slow in argv:
                self.asked.set()
                await asyncio.sleep(1)
            return await ThisHost.run(self, argv, stdin, timeout_s)

        return await asyncio.shield(asyncio.ensure_future(later()))  # ending a command over ssh ends nothing there


@pytest.mark.parametrize("asked", ["take", "prepare"])
def test_nothing_is_made_after_a_host_was_left(tmp_path: Path, asked: str) -> None:
    host = SlowHost(asked)
    one = HostJob(host, "one", str(tmp_path / "made/exp-node0"), None, str(tmp_path / "lock"))

    async def work() -> None:
        async def phases() -> None:
            await one.take_lock("me@here")
            await one.prepare({"a.txt": b"text"}, {})

        stopped = asyncio.ensure_future(phases())
        await host.asked.wait()
        stopped.cancel()
        assert await one.clean(containers=False) == []
        await asyncio.sleep(1.5)

    doing(work())
    assert list(tmp_path.iterdir()) == []


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
        await second.clean(containers=True)

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
        await one.clean(containers=True)

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
        await one.clean(containers=True)

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
        assert said + await read(one.rest(len(said))) == hostile.encode()
        await one.clean(containers=True)

    doing(work())
    assert not (tmp_path / "pwned").exists()


def lay_lock(tmp_path: Path, **files: str) -> None:
    """A lock as somebody else may have laid it, long ago."""
    lock = tmp_path / "lock"
    lock.mkdir()
    for name, text in {"holder": "who", "since": "1", "beat": "0", **files}.items():
        (lock / name).write_text(f"{text}\n")
        os.utime(lock / name, (time.time() - 600,) * 2)


def test_a_lock_without_a_run_is_believed_in_nothing(job: Callable[..., HostJob], tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "weights").write_text("a month's work")
    lay_lock(tmp_path, directory=str(precious))
    one = job()

    async def work() -> None:
        held = await one.take_lock("me")
        assert held is not None
        assert not held.is_stale
        await one.clean_after(held)  # even if it were asked to
        await one.clean(containers=True)

    doing(work())
    assert (precious / "weights").read_text() == "a month's work"
    assert (tmp_path / "lock").exists()


def test_a_process_that_is_not_the_run_s_is_not_ended_for_its_pid_file(
    job: Callable[..., HostJob], tmp_path: Path
) -> None:
    theirs = subprocess.Popen(["sleep", "99"], start_new_session=True)
    folder = tmp_path / "dead"
    folder.mkdir()
    (folder / "run").write_text("dead\n")
    (folder / "made").write_text(f"{folder}\n")
    (folder / "pid").write_text(f"{theirs.pid}\n")
    lay_lock(tmp_path, run="dead", directory=str(folder), engine="")
    one = job()

    async def work() -> None:
        held = await one.take_lock("me")
        assert held is not None
        assert held.is_stale
        await one.clean_after(held)
        assert await one.take_lock("me") is None
        await one.clean(containers=True)

    try:
        doing(work())
        assert theirs.poll() is None
        assert not folder.exists()
    finally:
        theirs.kill()
        theirs.wait()


def test_another_login_s_lock_and_files_are_not_ours_to_take(job: Callable[..., HostJob], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another login")
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "run").write_text("dead\n")
    lay_lock(tmp_path, run="dead", directory=str(folder))
    one = job()

    async def held_stale() -> bool:
        held = await one.take_lock("me")
        assert held is not None
        return held.is_stale

    os.chown(tmp_path / "lock", 65534, 65534)
    assert not asyncio.run(held_stale())
    os.chown(tmp_path / "lock", 0, 0)
    os.chown(folder, 65534, 65534)

    async def work() -> None:
        held = await one.take_lock("me")
        assert held is not None
        await one.clean_after(held)

    doing(work())
    assert folder.exists()


def test_one_machine_under_two_names_is_refused(job: Callable[..., HostJob]) -> None:
    first, second = job("one", "node0"), job("one", "node1")

    async def work() -> None:
        assert await first.take_lock("me") is None
        with pytest.raises(HostError, match="stands twice among the hosts"):
            await second.take_lock("me")
        await first.clean(containers=True)

    doing(work())


def test_an_engine_that_does_not_answer_keeps_lock_and_files_until_it_does(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\necho 'cannot connect to the engine' >&2\nexit 1\n")
    engine.chmod(0o755)
    one = HostJob(ThisHost(), "one", str(tmp_path / "dir"), str(engine), str(tmp_path / "lock"))

    async def work() -> None:
        await one.take_lock("me")
        await one.prepare({}, {})
        (left,) = await one.clean(containers=True)
        assert "cannot connect to the engine" in left
        assert (tmp_path / "lock").exists()
        assert (tmp_path / "dir").exists()
        engine.write_text("#!/bin/sh\nexit 0\n")
        assert await one.clean(containers=True) == []

    doing(work())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine"]


def test_what_is_printed_at_the_very_end_is_read_however_much_it_is(job: Callable[..., HostJob]) -> None:
    one, size = job(), 30_000_000

    async def work() -> None:
        await one.take_lock("me")
        await one.prepare({}, {})
        await one.start(["head", "-c", str(size), "/dev/zero"], 0)
        count = 0
        async for data in one.follow(0):
            count += len(data)
        async for data in one.rest(count):
            count += len(data)
        assert count == size
        await one.clean(containers=True)

    doing(work())
