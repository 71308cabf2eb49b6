"""Hosts over ssh: one kept connection a host, made when it is first needed and again after it broke."""

import asyncio
import contextlib
import os
import shlex
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import asyncssh

from steelyard.execute.host import CHUNK, COMMAND_S, Done, HostRefusedError, HostTimeoutError, LinkLostError, gathered

CONNECT_S = 15.0
KEEPALIVE_S = 5.0
KEEPALIVES_MISSED = 3
_MOST_AT_ONCE = 64
"""Connections that are being made at the same time: more only fill the accept queues of both sides."""
_CHEAP_FIRST = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""In hardware; asyncssh's own first choice is made of a dozen Python calls a packet."""
_KNOWN_FIRST = "+ssh-ed25519,ecdsa-sha2-*,rsa-sha2-512,rsa-sha2-256"
"""Behind the kinds on record, so that a host whose key changed in kind shows it and is refused for that."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are on the hosts; what is None is left to ~/.ssh/config, the agent and ssh's own defaults."""

    user: str | None = None
    key_file: str | None = None
    port: int | None = None
    accept_new_host_keys: bool = False
    """Whether a host never seen before is taken at its word and remembered; a changed key never is."""


class SshHost:
    """A machine reached by ssh."""

    def __init__(self, name: str, login: Login, gate: asyncio.Semaphore | None = None) -> None:
        """`gate` bounds how many connections are made at once."""
        self.name, self._login, self._gate = name, login, gate or asyncio.Semaphore(_MOST_AT_ONCE)
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connecting = asyncio.Lock()

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        return await self._finished(argv, timeout_s, input=stdin)

    async def follow(self, argv: Sequence[str], stdin: bytes = b"") -> AsyncIterator[bytes]:
        connection = await self._connected()
        try:
            line = shlex.join(argv)
            async with connection.create_process(line, input=stdin, encoding=None, stderr=asyncssh.STDOUT) as process:
                while data := await process.stdout.read(CHUNK):
                    yield data
                await process.wait()
        except (OSError, asyncssh.Error) as reason:
            raise self._lost(reason) from None
        if process.returncode is None:
            raise self._lost(ConnectionError("the connection closed"))

    async def pour(self, source: Path, argv: Sequence[str], timeout_s: float) -> Done:
        return await self._finished(argv, timeout_s, stdin=str(source))

    async def _finished(self, argv: Sequence[str], timeout_s: float, **given: object) -> Done:
        """A command that ended: what it printed is gathered as it comes, so that no host can fill our memory."""
        connection = await self._connected()
        try:
            line = shlex.join(argv)
            async with asyncio.timeout(timeout_s), connection.create_process(line, encoding=None, **given) as process:
                streams = (process.stdout, process.stderr)
                out, err = await asyncio.gather(*(gathered(stream.read, self.name, argv[0]) for stream in streams))
                await process.wait_closed()
        except TimeoutError:
            raise HostTimeoutError(self.name, f"{argv[0]} took longer than {timeout_s:g} s") from None
        except (OSError, asyncssh.Error) as reason:
            raise self._lost(reason) from None
        if process.returncode is None:  # the channel closed without a status: the connection went away under it
            raise self._lost(ConnectionError("the connection closed"))
        return Done(process.returncode, out, err)

    async def write(self, path: str, content: bytes, mode: int = 0o600) -> None:
        # Not by SFTP: a small server may lack it, and one command makes the file with its mode before its content.
        done = await self.run(["sh", "-c", _WRITE, "sh", path, f"{mode:o}"], content)
        if done.status:
            raise HostRefusedError(self.name, f"{path} cannot be written ({done.reason})")

    async def read(self, path: str) -> bytes:
        done = await self.run(["cat", "--", path])
        if done.status:
            raise HostRefusedError(self.name, f"{path} cannot be read ({done.reason})")
        return done.out

    def typed(self, argv: Sequence[str]) -> str:
        options = {"-p": self._login.port, "-i": self._login.key_file, "-l": self._login.user}
        words = [word for name, value in options.items() if value for word in (name, str(value))]
        return shlex.join(["ssh", *words, self.name, *argv])

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
                async with asyncio.timeout(2):
                    await connection.wait_closed()
            connection.abort()

    async def _connected(self) -> asyncssh.SSHClientConnection:
        async with self._connecting:
            if self._connection is None or self._connection.is_closed():
                async with self._gate:
                    self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> asyncssh.SSHClientConnection:
        keys = HostKeys(self.name, self._login.accept_new_host_keys)
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncssh.connect(self.name, **await self._prepared(keys))
        except asyncssh.HostKeyNotVerifiable:
            raise keys.refusal() from None
        except asyncssh.PermissionDenied:
            message = f"the login was refused ({self._login.user or 'this user'})"
            fix = f"{self.typed(['true'])}, which should ask for nothing"
            raise HostRefusedError(self.name, message, expected="a key the host accepts", next=fix) from None
        except asyncssh.KeyExchangeFailed as reason:  # no algorithm that both sides know
            raise HostRefusedError(self.name, f"the connection was not agreed on ({reason})") from None
        except TimeoutError:
            raise LinkLostError(self.name, f"no answer within {CONNECT_S:g} s") from None
        except socket.gaierror as reason:
            message = f"the name could not be resolved ({(reason.strerror or str(reason)).lower()})"
            fix = f"getent hosts {shlex.quote(self.name)}, or write the address into the cluster file"
            raise HostRefusedError(self.name, message, expected="a name that DNS or /etc/hosts has", next=fix) from None
        except (OSError, asyncssh.Error) as reason:
            raise self._lost(reason) from None

    async def _prepared(self, keys: "HostKeys") -> dict[str, Any]:
        """What a connection is made with: the configuration, our keys and the host keys on record, all read here."""
        login = self._login
        keys_given = [login.key_file] if login.key_file else None
        asked = {"username": login.user, "port": login.port, "client_keys": keys_given}
        given = {name: value for name, value in asked.items() if value is not None}
        try:
            options = await asyncssh.SSHClientConnectionOptions.construct(
                host=self.name, config=(), client_factory=lambda: keys, **given
            )  # `config=()` is the user's own configuration
            keys.files = _files_named(options.known_hosts)
            return {"options": options, "known_hosts": keys.on_record(), **_settled(options)}
        except (OSError, ValueError) as reason:
            raise HostRefusedError(self.name, f"ssh is not set up ({reason})") from None

    def _lost(self, reason: Exception) -> LinkLostError:
        if isinstance(reason, OSError) and reason.errno:
            text = os.strerror(reason.errno).lower()
        else:
            text = str(reason).lower() or type(reason).__name__
        return LinkLostError(self.name, f"the link is lost ({text})")


def ssh_hosts(names: Sequence[str], login: Login) -> list[SshHost]:
    """The hosts of a cluster, which make their connections a bounded number at a time."""
    gate = asyncio.Semaphore(_MOST_AT_ONCE)
    return [SshHost(name, login, gate) for name in names]


class HostKeys(asyncssh.SSHClient):
    """Says what to make of a host key that known_hosts does not have."""

    def __init__(self, host: str, accept_new: bool) -> None:
        self._host, self._accept_new, self._changed = host, accept_new, False
        self.files: tuple[Path, ...] = ()
        """Where keys are on record; the first is where a new one is put."""

    def on_record(self) -> asyncssh.SSHKnownHosts:
        """Never None, which asyncssh takes as leave not to look."""
        return _read_known_hosts(tuple((str(file), *stamp) for file in self.files if (stamp := _stamp(file))))

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """A key that is not on record is taken where the host has none there and that was asked for."""
        at = None if port in (0, 22) else port
        self._changed = any(asyncssh.match_known_hosts(self.on_record(), host, addr, at)[:3])
        if self._changed or not self._accept_new:
            return False
        if self.files:
            _remember(self.files[0], host if at is None else f"[{host}]:{at}", key)
        return True

    def refusal(self) -> HostRefusedError:
        """Why the host was not let in."""
        name = shlex.quote(self._host)
        if self._changed:
            message = "its host key is not the one on record: another machine answers, or it was installed anew"
            fix = f"ssh-keygen -R {name}, if the change is known"
            return HostRefusedError(self._host, message, expected="the key in known_hosts", next=fix)
        message, fix = "its host key is not on record", f"ssh {name} once, or --accept-new-host-keys"
        return HostRefusedError(self._host, message, expected="a key in known_hosts", next=fix)


def _files_named(record: object) -> tuple[Path, ...]:
    """The files of asyncssh's option: none (None), those of the configuration, or its default where there are none."""
    if record is None:
        return ()
    named = record if isinstance(record, list | tuple) else ()
    return tuple(Path(str(file)).expanduser() for file in named or ("~/.ssh/known_hosts",))


def _stamp(file: Path) -> tuple[int, int] | None:
    """Changes with the file; None of one that is not there, which holds nothing."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4)
def _read_known_hosts(stamped: tuple[tuple[str, int, int], ...]) -> asyncssh.SSHKnownHosts:
    """What the files hold, read again where one changed: a thousand hosts would parse a thousand lines each."""
    return asyncssh.read_known_hosts([path for path, _, _ in stamped])


def _remember(record: Path, name: str, key: asyncssh.SSHKey) -> None:
    """Put a host's key on record."""
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with record.open("a+", encoding="utf-8") as file:
        whole = record.stat().st_size == 0 or record.read_bytes().endswith(b"\n")
        file.write(f"{'' if whole else chr(10)}{name} {key.export_public_key('openssh').decode().strip()}\n")


def _settled(options: asyncssh.SSHClientConnectionOptions) -> dict[str, Any]:
    """What the configuration leaves open, and what it has said already, so that no key is loaded twice."""
    settled: dict[str, Any] = {"connect_timeout": CONNECT_S}
    if not options.keepalive_interval:
        settled |= {"keepalive_interval": KEEPALIVE_S, "keepalive_count_max": KEEPALIVES_MISSED}
    if not options.config.get("Ciphers"):
        settled["encryption_algs"] = _CHEAP_FIRST
    if not options.config.get("HostKeyAlgorithms"):
        settled["server_host_key_algs"] = _KNOWN_FIRST
    if options.client_keys:
        settled |= {"client_keys": options.client_keys, "agent_identities": options.agent_identities}
    return settled


_WRITE = """
umask 077
new="$1.new.$$"
cat > "$new" && chmod "$2" "$new" && mv -f "$new" "$1" && exit 0
status=$?
rm -f "$new"
exit $status
"""
