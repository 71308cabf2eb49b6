"""Hosts over ssh, on a real sshd of the test's own: what arrives, what is refused, and what is lost."""

import asyncio
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from lab.loopback import ADDRESS, LoopbackSshd, why_not
from lab.sshd import make_key
from steelyard.execute import ssh
from steelyard.execute.host import HostRefusedError, HostTimeoutError, LinkLostError
from steelyard.execute.ssh import Login, SshHost

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

_Answer = TypeVar("_Answer")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of who runs the tests: no configuration, no keys, no agent."""
    made = tmp_path / "home"
    (made / ".ssh").mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackSshd]:
    with LoopbackSshd(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[LoopbackSshd]:
    """One that may be disturbed."""
    with LoopbackSshd(tmp_path / "own") as made:
        yield made


def login(server: LoopbackSshd, known: str | None = None, accept_new: bool = False) -> Login:
    """Into a server whose key is on record, or another line is."""
    (Path.home() / ".ssh/known_hosts").write_text(server.known_line if known is None else known)
    return Login(server.user, str(server.key), server.port, accept_new)


def on(given: Login, use: Callable[[SshHost], Awaitable[_Answer]], name: str = ADDRESS) -> _Answer:
    async def main() -> _Answer:
        host = SshHost(name, given)
        try:
            return await use(host)
        finally:
            await host.close()

    return asyncio.run(asyncio.wait_for(main(), 60))


async def pieces_of(host: SshHost, script: str, stdin: bytes = b"") -> bytes:
    return b"".join([piece async for piece in host.follow(["sh", "-c", script], stdin)])


def test_a_command_gives_its_status_and_both_outputs(server: LoopbackSshd) -> None:
    done = on(login(server), lambda host: host.run(["sh", "-c", "echo out; echo one >&2; echo two >&2; exit 7"]))
    assert (done.status, done.out, done.err) == (7, b"out\n", b"one\ntwo\n")
    assert (done.text, done.reason) == ("out", "two")


def test_a_command_ended_by_a_signal_is_not_a_good_one(server: LoopbackSshd) -> None:
    done = on(login(server), lambda host: host.run(["sh", "-c", "kill -TERM $$"]))
    assert done.status in (-signal.SIGTERM, 128 + signal.SIGTERM)  # the second where the login shell stays in between


def test_input_arrives_byte_for_byte(server: LoopbackSshd) -> None:
    content = os.urandom(300_000)
    assert on(login(server), lambda host: host.run(["cat"], content)).out == content


def test_values_arrive_unchanged_and_execute_nothing(server: LoopbackSshd, tmp_path: Path) -> None:
    made = tmp_path / "made"
    values = [
        f"$(touch {made})",
        f"`touch {made}`",
        f"; touch {made} #",
        f"\ntouch {made}\n",
        f"' ; touch {made} ; '",
        f'" ; touch {made} ; "',
        "a'b\"c\\d\\",
        "${HOME} ~ * ? [a-z] {a,b} !! %s \\n",
        "",
        "-n",
        "  two  spaces\tand a tab  ",
        "naïve 数 \x01\x7f",
    ]
    done = on(login(server), lambda host: host.run(["printf", r"%s\0", *values]))
    assert done.out.decode().split("\0")[:-1] == values
    assert not made.exists()


def test_what_a_command_prints_is_there_before_it_ends(server: LoopbackSshd, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    script = f"echo first; while [ ! -e '{flag}' ]; do sleep 0.02; done; echo second >&2"

    async def use(host: SshHost) -> list[bytes]:
        seen = []
        async for piece in host.follow(["sh", "-c", script]):
            seen.append(piece)
            flag.touch()
        return seen

    assert b"".join(on(login(server), use)) == b"first\nsecond\n"


def test_a_command_that_is_followed_gets_its_input(server: LoopbackSshd) -> None:
    assert on(login(server), lambda host: pieces_of(host, "cat; echo end", b"in\n")) == b"in\nend\n"


def test_a_file_is_written_with_its_mode_and_replaced_whole(server: LoopbackSshd, tmp_path: Path) -> None:
    path = tmp_path / "a place" / "it's $HOME"
    path.parent.mkdir()

    async def use(host: SshHost) -> bytes:
        await host.write(str(path), b"a longer first content")
        assert path.stat().st_mode & 0o777 == 0o600
        await host.write(str(path), b"\0second\n", 0o755)
        return await host.read(str(path))

    assert on(login(server), use) == b"\0second\n"
    assert path.stat().st_mode & 0o777 == 0o755
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_written_or_read_is_named(server: LoopbackSshd, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing" / "file")
    with pytest.raises(HostRefusedError, match=f"cannot read {missing} .*No such file"):
        on(login(server), lambda host: host.read(missing))
    with pytest.raises(HostRefusedError, match=f"cannot write {missing}"):
        on(login(server), lambda host: host.write(missing, b"content"))


def test_a_large_file_is_poured_into_a_command(server: LoopbackSshd, tmp_path: Path) -> None:
    source = tmp_path / "large"
    source.write_bytes(os.urandom(1 << 20) * 16)
    done = on(login(server), lambda host: host.pour(source, ["sha256sum"], 60))
    assert done.text.split()[0] == hashlib.sha256(source.read_bytes()).hexdigest()


def test_a_command_that_takes_too_long_is_left_and_the_host_still_answers(server: LoopbackSshd) -> None:
    async def use(host: SshHost) -> bytes:
        with pytest.raises(HostTimeoutError, match=r"sleep took longer than 0\.3 s"):
            await host.run(["sleep", "5"], timeout_s=0.3)
        return (await host.run(["echo", "there"])).out

    assert on(login(server), use) == b"there\n"


def test_a_host_of_a_small_choice_of_ciphers_is_reached(tmp_path: Path) -> None:
    with LoopbackSshd(tmp_path / "odd", ["Ciphers chacha20-poly1305@openssh.com"]) as odd:
        assert on(login(odd), lambda host: host.run(["true"])).status == 0


@pytest.mark.parametrize("accept_new", [False, True])
def test_a_host_with_another_key_than_on_record_is_refused(
    own_server: LoopbackSshd, home: Path, accept_new: bool
) -> None:
    known = own_server.known_line
    own_server.stop()
    own_server.new_host_key()
    own_server.start()
    given = login(own_server, known, accept_new)
    with pytest.raises(HostRefusedError, match="host key has changed") as refused:
        on(given, lambda host: host.run(["true"]))
    assert "ssh-keygen -R" in (refused.value.next or "")
    assert (home / ".ssh/known_hosts").read_text() == known


@pytest.mark.parametrize("accept_new", [False, True])
def test_a_host_with_a_key_of_another_kind_than_on_record_is_refused(
    own_server: LoopbackSshd, home: Path, accept_new: bool
) -> None:
    known = own_server.known_line
    own_server.stop()
    own_server.new_host_key("ecdsa")
    own_server.start()
    with pytest.raises(HostRefusedError, match="host key has changed"):
        on(login(own_server, known, accept_new), lambda host: host.run(["true"]))
    assert (home / ".ssh/known_hosts").read_text() == known


def test_a_host_with_several_keys_is_known_by_any_of_them(tmp_path: Path) -> None:
    make_key(tmp_path / "rsa", "host", "rsa")
    with LoopbackSshd(tmp_path / "both", [f"HostKey {tmp_path}/rsa"]) as both:
        kind, key = (tmp_path / "rsa.pub").read_text().split()[:2]
        for known in (both.known_line, f"[{ADDRESS}]:{both.port} {kind} {key}\n"):
            assert on(login(both, known), lambda host: host.run(["true"])).status == 0


def test_a_new_host_is_refused(server: LoopbackSshd) -> None:
    with pytest.raises(HostRefusedError, match="not in known_hosts") as refused:
        on(login(server, known=""), lambda host: host.run(["true"]))
    assert "--accept-new-host-keys" in (refused.value.next or "")


def test_a_new_host_is_remembered_where_that_is_asked_for(own_server: LoopbackSshd, tmp_path: Path, home: Path) -> None:
    record = tmp_path / "new" / "known_hosts"
    (home / ".ssh/config").write_text(f"Host *\n  UserKnownHostsFile {record}\n")
    given = login(own_server, accept_new=True)
    assert on(given, lambda host: host.run(["true"])).status == 0
    assert record.read_text() == own_server.known_line
    assert on(replace(given, accept_new_host_keys=False), lambda host: host.run(["true"])).status == 0
    own_server.stop()
    own_server.new_host_key()
    own_server.start()
    with pytest.raises(HostRefusedError, match="host key has changed"):
        on(given, lambda host: host.run(["true"]))


def test_a_new_host_gets_a_line_of_its_own_in_the_record(server: LoopbackSshd, home: Path) -> None:
    given = login(server, known="other ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ unfinished", accept_new=True)
    assert on(given, lambda host: host.run(["true"])).status == 0
    assert (home / ".ssh/known_hosts").read_text().endswith(f"unfinished\n{server.known_line}")


def test_a_configuration_without_a_record_lets_nobody_in(server: LoopbackSshd, home: Path) -> None:
    (home / ".ssh/config").write_text("Host *\n  UserKnownHostsFile none\n")
    with pytest.raises(HostRefusedError, match="not in known_hosts"):
        on(login(server), lambda host: host.run(["true"]))


def test_a_key_the_host_does_not_know_is_refused_in_words(server: LoopbackSshd, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger", "stranger")
    given = replace(login(server), key_file=str(tmp_path / "stranger"))
    with pytest.raises(HostRefusedError, match=f"login as {server.user} was refused") as refused:
        on(given, lambda host: host.run(["true"]))
    assert f"ssh -p {server.port} -i {tmp_path}/stranger -l {server.user} {ADDRESS} true" in (refused.value.next or "")


def test_a_key_that_is_missing_is_no_lost_link(server: LoopbackSshd, tmp_path: Path) -> None:
    with pytest.raises(HostRefusedError, match="cannot set up ssh"):
        on(replace(login(server), key_file=str(tmp_path / "none")), lambda host: host.run(["true"]))


def test_alias_port_user_key_and_jump_of_the_configuration_are_honoured(
    server: LoopbackSshd, tmp_path: Path, home: Path
) -> None:
    with LoopbackSshd(tmp_path / "jump") as jump:
        (home / ".ssh/known_hosts").write_text(server.known_line + jump.known_line)
        (home / ".ssh/config").write_text(
            f"Host gpu01\n  Port {server.port}\n  IdentityFile {server.key}\n  ProxyJump door\n"
            f"Host door\n  Port {jump.port}\n  IdentityFile {jump.key}\n"
            f"Host *\n  HostName {ADDRESS}\n  User {server.user}\n"
        )
        assert on(Login(), lambda host: host.run(["echo", "there"]), "gpu01").out == b"there\n"
        assert "Accepted publickey" in jump.log


def test_a_jump_host_with_another_key_than_on_record_is_refused(
    server: LoopbackSshd, tmp_path: Path, home: Path
) -> None:
    with LoopbackSshd(tmp_path / "jump") as jump:
        (home / ".ssh/known_hosts").write_text(server.known_line + server.known_line.replace(*_ports(server, jump)))
        (home / ".ssh/config").write_text(
            f"Host *\n  HostName {ADDRESS}\n  Port {server.port}\n  IdentityFile {server.key}\n"
            f"Host gpu01\n  ProxyJump {jump.user}@{ADDRESS}:{jump.port}\n"
        )
        with pytest.raises(HostRefusedError):
            on(Login(accept_new_host_keys=True), lambda host: host.run(["true"]), "gpu01")
        assert "Accepted publickey" not in jump.log


def _ports(one: LoopbackSshd, other: LoopbackSshd) -> tuple[str, str]:
    return str(one.port), str(other.port)


def test_a_key_of_the_agent_opens_a_host(server: LoopbackSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        while not path.exists():
            assert agent.poll() is None
            time.sleep(0.01)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        without = replace(login(server), key_file=None)
        with pytest.raises(HostRefusedError, match="was refused"):
            on(without, lambda host: host.run(["true"]))
        subprocess.run(["ssh-add", "-q", str(server.key)], check=True, capture_output=True)
        assert on(without, lambda host: host.run(["true"])).status == 0
    finally:
        agent.terminate()
        agent.wait(5)


def test_a_lost_connection_is_said_and_made_again(own_server: LoopbackSshd) -> None:
    async def use(host: SshHost) -> bytes:
        await host.run(["true"])
        waiting = asyncio.create_task(host.run(["sleep", "5"]))
        following = asyncio.create_task(pieces_of(host, "echo first; sleep 5"))
        await asyncio.sleep(0.3)
        own_server.cut()
        for lost in (waiting, following):
            with pytest.raises(LinkLostError, match=f"^{ADDRESS}: connection lost"):
                await lost
        return (await host.run(["echo", "back"])).out

    assert on(login(own_server), use) == b"back\n"


def test_a_host_that_nobody_listens_on_is_a_lost_link(own_server: LoopbackSshd) -> None:
    own_server.stop()
    with pytest.raises(LinkLostError, match="connection refused"):
        on(login(own_server), lambda host: host.run(["true"]))


def silenced(given: Login, server: LoopbackSshd) -> float:
    """Seconds until a host that says nothing any more is given up."""

    async def use(host: SshHost) -> float:
        await host.run(["true"])
        for one in server.sessions():
            one.suspend()
        start = time.monotonic()
        with pytest.raises(LinkLostError):
            await host.run(["true"], timeout_s=30)
        return time.monotonic() - start

    return on(given, use)


def test_a_silent_host_is_noticed(own_server: LoopbackSshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "KEEPALIVE_S", 0.3)
    assert silenced(login(own_server), own_server) < 10


def test_how_soon_a_silent_host_is_noticed_is_the_configurations_to_say(own_server: LoopbackSshd, home: Path) -> None:
    (home / ".ssh/config").write_text("Host *\n  ServerAliveInterval 1\n  ServerAliveCountMax 1\n")
    assert silenced(login(own_server), own_server) < 10


def test_a_command_that_prints_without_end_is_ended_and_the_next_one_answers(server: LoopbackSshd) -> None:
    async def use(host: SshHost) -> str:
        with pytest.raises(HostRefusedError, match="yes printed more than 16 MiB"):
            await host.run(["yes"])
        return (await host.run(["echo", "still here"])).text

    assert on(login(server), use) == "still here"


def test_a_name_that_cannot_be_resolved_is_told_apart_from_a_lost_link(server: LoopbackSshd) -> None:
    with pytest.raises(HostRefusedError, match="cannot resolve the host name"):
        on(login(server), lambda host: host.run(["true"]), name="no-such-host.invalid")
