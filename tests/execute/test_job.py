"""One node's part of a run, on this machine: what it makes, what it says, and that nothing is left."""

import asyncio
import getpass
import os
import signal
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from execute.hosts_here import OneOfSeveral
from steelyard.execute.host import Done, HostError
from steelyard.execute.job import HostJob

pytestmark = pytest.mark.processes

ONE, FIRST, SECOND = (f"{name}-{os.getpid()}" for name in ("one", "first", "second"))
"""Runs; cleaning up after one ends every process on the machine that carries its name, another worker's too."""
SAYS = ["sh", "-c", "for i in 1 2 3 4; do echo line $i; sleep 0.1; done; exit 3"]


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., HostJob]:
    def make(run: str = ONE, directory: str = "made/by us/exp-node0") -> HostJob:
        return HostJob(OneOfSeveral("localhost", tmp_path), run, str(tmp_path / directory))

    return make


def this_host() -> str:
    """As the control directory of a run names it."""
    machine = Path("/etc/machine-id")
    return f"{os.uname().nodename} {machine.read_text().strip() if machine.exists() else ''}"


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
        await one.take("me@here", 0)
        await one.prepare({"a.txt": b"text", "environment": b"A=1"}, {"HF_TOKEN": str(tmp_path / "token")})
        folder = Path(one.directory)
        assert (folder / "job/a.txt").read_bytes() == b"text"
        assert (folder / "environment").read_bytes() == b"A=1"
        modes = {path: stat.S_IMODE((folder / path).stat().st_mode) for path in (".", "environment", "job/output")}
        assert modes == {".": 0o700, "environment": 0o600, "job/output": 0o1777}
        assert await one.secret("HF_TOKEN") == b"s3cret-s3cret"
        await one.start(SAYS)
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
        await one.take("me@here", 0)
        assert await one.clean(containers=True) == []
        with pytest.raises(HostError, match="no longer holds"):
            await one.prepare({}, {})

    doing(work())
    assert list(tmp_path.iterdir()) == []


class SlowHost(OneOfSeveral):
    """A host that comes to one thing it was asked only after a while, as one under load does."""

    def __init__(self, slow: str, scope: Path) -> None:
        super().__init__("localhost", scope)
        self.slow, self.asked = slow, asyncio.Event()

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0) -> Done:
        async def later() -> Done:
            if self.slow in argv:
                self.asked.set()
                await asyncio.sleep(1)
            return await OneOfSeveral.run(self, argv, stdin, timeout_s)

        return await asyncio.shield(asyncio.ensure_future(later()))  # ending a command over ssh ends nothing there


@pytest.mark.parametrize("asked", ["take", "prepare"])
def test_nothing_is_made_after_a_host_was_left(tmp_path: Path, asked: str) -> None:
    host = SlowHost(asked, tmp_path)
    one = HostJob(host, ONE, str(tmp_path / "made/exp-node0"))

    async def work() -> None:
        async def phases() -> None:
            await one.take("me@here", 0)
            await one.prepare({"a.txt": b"text"}, {})

        stopped = asyncio.ensure_future(phases())
        await host.asked.wait()
        stopped.cancel()
        assert await one.clean(containers=False) == []
        await asyncio.sleep(1.5)

    doing(work())
    assert list(tmp_path.iterdir()) == []


def test_a_held_host_names_its_holder_until_that_is_gone(job: Callable[..., HostJob], tmp_path: Path) -> None:
    first, second = job(FIRST), job(SECOND, "other/exp-node0")

    async def work() -> None:
        await first.take("me@here", 0)
        await first.prepare({}, {})
        await first.start(["sleep", "60"])
        with pytest.raises(HostError, match=f"in use by run {FIRST} of me@here since") as held:
            await second.take("you@there", 0)
        assert f"(process {first.keeper}, user {getpass.getuser()})" in held.value.complaint
        assert held.value.next is not None
        assert held.value.next.endswith(f"as {getpass.getuser()} or root: kill {first.keeper}")
        since = datetime.strptime(held.value.complaint.split("since ")[1][:19], "%Y-%m-%d %H:%M:%S")
        assert abs(since.replace(tzinfo=UTC).timestamp() - time.time()) < 60
        assert not Path(second.directory).exists()
        await first.clean(containers=True)
        await second.take("you@there", 0)
        await second.clean(containers=True)

    doing(work())
    assert list(tmp_path.iterdir()) == []


def test_a_holder_whose_start_is_no_date_is_still_named(tmp_path: Path) -> None:
    class Held(OneOfSeveral):
        async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0) -> Done:
            return Done(0, b"held\nother\nyou@there\n9999999999999999999\n42\nnobody\n", b"")

    with pytest.raises(HostError, match=r"since an unknown time \(process 42, user nobody\)"):
        asyncio.run(HostJob(Held("gpu01", tmp_path), ONE, str(tmp_path / "dir")).take("me", 0))


def test_what_a_dead_run_left_is_removed_by_the_next_in_the_same_place(
    job: Callable[..., HostJob], tmp_path: Path
) -> None:
    first, second = job(FIRST), job(SECOND, "made/by us/other-node0")

    async def work() -> None:
        await first.take("me@here", 0)
        await first.prepare({}, {})
        await first.start(["sleep", "60"])
        assert first.keeper is not None
        watcher = int((Path(first.directory) / "watcher").read_text())
        for process in (first.keeper, watcher):
            os.killpg(process, 9)  # as after a power cut: nobody is left to clean up
        await second.take("you@there", 0)
        assert second.swept == [FIRST]
        assert not Path(first.directory).exists()
        await second.clean(containers=True)

    doing(work())
    assert list(tmp_path.iterdir()) == []


def test_another_host_s_files_in_a_shared_place_are_not_swept(job: Callable[..., HostJob], tmp_path: Path) -> None:
    theirs = tmp_path / "made/by us/theirs-node0"
    theirs.mkdir(parents=True, mode=0o700)
    (theirs / "run").write_text("theirs\n")
    (theirs / "host").write_text("another-machine 1234\n")
    one = job()

    async def work() -> None:
        await one.take("me", 0)
        assert one.swept == []
        await one.clean(containers=True)

    doing(work())
    assert (theirs / "run").exists()


def test_a_keeper_that_is_asked_to_end_leaves_nothing(job: Callable[..., HostJob], tmp_path: Path) -> None:
    one = job()

    async def work() -> None:
        await one.take("me", 0)
        await one.prepare({}, {})
        await one.start(["sleep", "68"])
        assert one.keeper is not None
        os.kill(one.keeper, signal.SIGTERM)  # what a person is told to do by hand

    doing(work())
    wait_for_nothing(tmp_path, one)


def test_secrets_go_with_the_lease_though_nothing_was_started(job: Callable[..., HostJob], tmp_path: Path) -> None:
    one = job()
    (tmp_path.parent / "token").write_text("s3cret-s3cret")

    async def work() -> None:
        await one.take("me", 2)
        await one.prepare({}, {"HF_TOKEN": str(tmp_path.parent / "token")})

    doing(work())
    wait_for_nothing(tmp_path, one)


@pytest.mark.parametrize("killed", ["keeper", "watcher"])
def test_a_process_of_ours_that_was_killed_is_noticed(job: Callable[..., HostJob], killed: str) -> None:
    one = job()

    async def work() -> None:
        await one.take("me", 0)
        await one.prepare({}, {})
        await one.start(["sleep", "67"])
        os.kill(int((Path(one.directory) / killed).read_text()), signal.SIGKILL)
        if killed == "keeper":
            with pytest.raises(HostError, match="was killed"):
                await one.beat()
        else:
            assert await read(one.follow(0)) == b""
            assert (await one.state()).unwatched
        await one.clean(containers=True)

    doing(work())


def wait_for_nothing(folder: Path, job: HostJob) -> None:
    deadline = time.monotonic() + 20
    while (list(folder.iterdir()) or processes_of(job)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(folder.iterdir()) == []
    assert processes_of(job) == ""


def test_a_directory_that_is_there_is_not_taken(job: Callable[..., HostJob], tmp_path: Path) -> None:
    one = job(directory="theirs")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "results").write_text("a week's work")

    async def work() -> None:
        with pytest.raises(HostError, match="already exists"):
            await one.take("me", 0)
        await one.clean(containers=True)

    doing(work())
    assert (tmp_path / "theirs" / "results").read_text() == "a week's work"
    assert processes_of(one) == ""


def test_what_does_not_heed_the_asking_is_made_to_end(job: Callable[..., HostJob]) -> None:
    one, sleep = job(), f"sleep 77.{os.getpid()}"

    async def work() -> None:
        await one.take("me", 0)
        await one.prepare({}, {})
        await one.start(["sh", "-c", f"trap '' TERM; setsid {sleep} & while :; do sleep 1; done"])
        await one.stop(1)
        deadline = time.monotonic() + 10
        while (await one.state()).status is None and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        assert (await one.state()).status == 137
        await one.clean(containers=True)

    doing(work())
    assert sleep not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_a_job_nobody_asks_after_ends_itself(job: Callable[..., HostJob], tmp_path: Path) -> None:
    one = job()

    async def work() -> None:
        await one.take("me", 2)
        await one.prepare({}, {})
        await one.start(["sleep", "66"])
        deadline = time.monotonic() + 20
        while not (await one.state()).gone and time.monotonic() < deadline:
            await asyncio.sleep(0.2)

    doing(work())
    wait_for_nothing(tmp_path, one)


def test_values_are_never_shell_text(job: Callable[..., HostJob], tmp_path: Path) -> None:
    hostile = f"x'; touch {tmp_path}/pwned; $(touch {tmp_path}/pwned) `touch {tmp_path}/pwned`\n\""
    one = HostJob(OneOfSeveral("localhost", tmp_path), hostile.splitlines()[0], str(tmp_path / "dir$(touch pwned)"))

    async def work() -> None:
        await one.take(hostile, 0)
        await one.prepare({}, {})
        await one.start(["printf", "%s", hostile])
        said = b"".join([data async for data in one.follow(0)])
        assert said + await read(one.rest(len(said))) == hostile.encode()
        await one.clean(containers=True)

    doing(work())
    assert not (tmp_path / "pwned").exists()


def test_a_process_that_is_not_the_run_s_is_not_ended_for_its_number(
    job: Callable[..., HostJob], tmp_path: Path
) -> None:
    theirs = subprocess.Popen(["sleep", "99"], start_new_session=True)
    dead = tmp_path / "made/by us/dead-node0"
    dead.mkdir(parents=True, mode=0o700)
    for name, text in {"run": "dead", "host": this_host(), "keeper": theirs.pid, "watcher": theirs.pid}.items():
        (dead / name).write_text(f"{text}\n")
    one = job()

    async def work() -> None:
        await one.take("me", 0)
        assert one.swept == ["dead"]
        await one.clean(containers=True)

    try:
        doing(work())
        assert theirs.poll() is None
        assert not dead.exists()
    finally:
        theirs.kill()
        theirs.wait()


@pytest.mark.parametrize("what", ["another owner", "group", "everybody", "a link of another login"])
def test_a_place_that_another_login_could_change_is_refused(
    job: Callable[..., HostJob], tmp_path: Path, what: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another login")
    place = tmp_path / "place"
    place.mkdir(mode=0o755)
    if what == "another owner":
        os.chown(place, 65534, 65534)
    elif what == "group":
        os.chown(place, 0, 65534)
        place.chmod(0o775)
    elif what == "everybody":
        place.chmod(0o777)
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.rmdir()
        place.symlink_to(tmp_path / "elsewhere")
        os.chown(place, 65534, 65534, follow_symlinks=False)
    one = job(directory="place/below/exp-node0")

    async def work() -> None:
        with pytest.raises(HostError, match=r"place (belongs to user nobody|\(mode 7).*log_dir"):
            await one.take("me", 0)

    doing(work())
    assert list(place.iterdir()) == []
    assert processes_of(one) == ""


def test_a_shared_place_with_the_sticky_bit_and_a_link_of_our_own_will_do(
    job: Callable[..., HostJob], tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(0o1777)
    (tmp_path / "link").symlink_to("scratch")
    one = job(directory="link/exp-node0")

    async def work() -> None:
        await one.take("me", 0)
        await one.clean(containers=True)

    doing(work())


def test_a_directory_of_the_login_s_own_group_will_do(job: Callable[..., HostJob], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the groups of this login are not known")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs").chmod(0o775)  # as umask 002 makes it
    one = job(directory="logs/exp-node0")

    async def work() -> None:
        await one.take("me", 0)
        await one.clean(containers=True)

    doing(work())


def test_what_another_login_put_there_is_not_read(job: Callable[..., HostJob], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another login")
    (tmp_path / "secret").write_text("root:hash\n")
    shared = tmp_path / "shared"
    (shared / "exp-node0").mkdir(parents=True)
    shared.chmod(0o1777)
    (shared / "exp-node0/run").symlink_to(tmp_path / "secret")
    os.chown(shared / "exp-node0", 65534, 65534)
    one = job(directory="shared/exp-node0")

    async def work() -> None:
        with pytest.raises(HostError, match="created by user nobody") as refused:
            await one.take("me", 0)
        assert "hash" not in str(refused.value)

    doing(work())


def test_a_full_table_of_files_keeps_nothing_from_being_removed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=40,mode=700", "small", str(small)], check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    one = HostJob(OneOfSeveral("localhost", tmp_path), ONE, str(small / "exp-node0"))

    async def work() -> None:
        await one.take("me", 0)
        await one.prepare({}, {})
        try:
            for number in range(100):
                (small / f"exp-node0/job/output/{number}").touch()
        except OSError:
            pass
        else:
            pytest.fail("there was room for all")
        assert await one.beat() == 0
        assert await one.clean(containers=True) == []

    try:
        doing(work())
        assert list(small.iterdir()) == []
        assert processes_of(one) == ""
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


def test_a_container_that_cannot_be_removed_keeps_the_host(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\ncase $1 in ps) echo deadbeef ;; rm) exit 1 ;; esac\n")
    engine.chmod(0o755)
    one = HostJob(OneOfSeveral("localhost", tmp_path), ONE, str(tmp_path / "dir"), str(engine))

    async def work() -> None:
        await one.take("me", 0)
        assert await one.clean(containers=True) == [("containers", "deadbeef")]
        assert await one.beat() is not None
        engine.write_text("#!/bin/sh\nexit 0\n")
        assert await one.clean(containers=True) == []

    doing(work())


def test_a_file_system_mounted_twice_hides_no_control_files(job: Callable[..., HostJob], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    (tmp_path / "data/home/u").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    bound = subprocess.run(["mount", "--bind", str(tmp_path / "data/home"), str(tmp_path / "home")], check=False)
    if bound.returncode:
        pytest.skip("nothing can be mounted here")

    async def work() -> None:
        for volume in ("data/home/u", "data"):
            one = job(directory="home/u/logs/exp-node0")
            await one.take("me", 0)
            with pytest.raises(HostError, match="control files"):
                await one.prepare({}, {}, [str(tmp_path / volume)])
            await one.clean(containers=True)

    try:
        doing(work())
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path / "home")], check=True)


def test_a_volume_that_holds_a_link_to_the_control_files_is_refused(
    job: Callable[..., HostJob], tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "home/u").mkdir(parents=True)
    (tmp_path / "home/u/LOGS").symlink_to(tmp_path / "scratch")
    one = job(directory="home/u/LOGS/exp-node0")

    async def work() -> None:
        await one.take("me", 0)
        with pytest.raises(HostError, match="contains a link"):
            await one.prepare({}, {}, [str(tmp_path / "home/u")])
        await one.clean(containers=True)

    doing(work())


def test_a_volume_that_shows_the_control_files_is_refused(job: Callable[..., HostJob], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "made")
    (tmp_path / "data").mkdir()

    async def work() -> None:
        for mount in ("link", "made/by us", "made/by us/exp-node0/job/output"):
            one = job()
            await one.take("me", 0)
            with pytest.raises(HostError, match="control files"):
                await one.prepare({}, {}, [str(tmp_path / "data"), str(tmp_path / mount)])
            await one.clean(containers=True)

    doing(work())


def test_one_machine_under_two_names_is_refused(job: Callable[..., HostJob]) -> None:
    first, second = job(ONE, "node0"), job(ONE, "node1")

    async def work() -> None:
        await first.take("me", 0)
        with pytest.raises(HostError, match="lists this machine twice"):
            await second.take("me", 0)
        await first.clean(containers=True)

    doing(work())


def test_an_engine_that_does_not_answer_keeps_host_and_files_until_it_does(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\necho 'cannot connect to the engine' >&2\nexit 1\n")
    engine.chmod(0o755)
    one = HostJob(OneOfSeveral("localhost", tmp_path), ONE, str(tmp_path / "dir"), str(engine))

    async def work() -> None:
        await one.take("me", 0)
        await one.prepare({}, {})
        assert await one.clean(containers=True) == [("engine", "cannot connect to the engine")]
        assert await one.beat() > 0
        assert (tmp_path / "dir").exists()
        engine.write_text("#!/bin/sh\nexit 0\n")
        assert await one.clean(containers=True) == []

    doing(work())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine"]


def test_what_is_printed_at_the_very_end_is_read_however_much_it_is(job: Callable[..., HostJob]) -> None:
    one, size = job(), 30_000_000

    async def work() -> None:
        await one.take("me", 0)
        await one.prepare({}, {})
        await one.start(["head", "-c", str(size), "/dev/zero"])
        count = 0
        async for data in one.follow(0):
            count += len(data)
        async for data in one.rest(count):
            count += len(data)
        assert count == size
        await one.clean(containers=True)

    doing(work())


def test_a_run_that_is_just_being_made_is_not_swept(job: Callable[..., HostJob], tmp_path: Path) -> None:
    making = tmp_path / "made/by us/making-node0"
    making.mkdir(parents=True, mode=0o700)
    maker = subprocess.Popen(["sh", "-c", "read -r _", "sh", "take", "making", str(making)], stdin=subprocess.PIPE)
    for name, text in {"run": "making", "host": this_host(), "maker": maker.pid}.items():
        (making / name).write_text(f"{text}\n")
    one = job()

    async def take() -> list[str]:
        await one.take("me", 0)
        await one.clean(containers=True)
        return one.swept

    assert asyncio.run(take()) == []
    maker.communicate(b"\n")
    assert asyncio.run(take()) == ["making"]
