"""Hosts over ssh: one connection per host, made at first use and again after it broke."""

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
"""Connections made at the same time; more would only fill the accept queues."""
_CHEAP_FIRST = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Computed in hardware; asyncssh's own first choice needs a dozen Python calls per packet."""
_KNOWN_FIRST = "+ssh-ed25519,ecdsa-sha2-*,rsa-sha2-512,rsa-sha2-256"
"""After the known key types, so that a host whose key type changed is refused for that reason."""


@dataclass(frozen=True, slots=True)
class Login:
    """How to log in. None leaves a field to ~/.ssh/config, the agent and the defaults of ssh."""

    user: str | None = None
    key_file: str | None = None
    port: int | None = None
    accept_new_host_keys: bool = False
    """Whether to accept and store the key of a new host; a changed key is never accepted."""


class SshHost:
    """A machine reached by ssh."""

    def __init__(self, name: str, login: Login, gate: asyncio.Semaphore | None = None) -> None:
        """`gate` limits how many connections are made at once."""
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
        """Run a command to its end; its output is limited, so that no host can fill our memory."""
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
        if process.returncode is None:  # the channel closed without a status: the connection broke
            raise self._lost(ConnectionError("the connection closed"))
        return Done(process.returncode, out, err)

    async def write(self, path: str, content: bytes, mode: int = 0o600) -> None:
        # Not by SFTP: a small server may lack it. This command sets the mode before it writes the content.
        done = await self.run(["sh", "-c", _WRITE, "sh", path, f"{mode:o}"], content)
        if done.status:
            raise HostRefusedError(self.name, f"cannot write {path} ({done.reason})")

    async def read(self, path: str) -> bytes:
        done = await self.run(["cat", "--", path])
        if done.status:
            raise HostRefusedError(self.name, f"cannot read {path} ({done.reason})")
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
            message = f"ssh login as {self._login.user or 'this user'} was refused"
            fix = f"{self.typed(['true'])}, which must work without a password"
            raise HostRefusedError(self.name, message, expected="a key that the host accepts", next=fix) from None
        except asyncssh.KeyExchangeFailed as reason:  # no common algorithm
            raise HostRefusedError(self.name, f"ssh key exchange failed ({reason})") from None
        except TimeoutError:
            raise LinkLostError(self.name, f"no answer within {CONNECT_S:g} s") from None
        except socket.gaierror as reason:
            message = f"cannot resolve the host name ({(reason.strerror or str(reason)).lower()})"
            fix = f"getent hosts {shlex.quote(self.name)}, or use the IP address in the cluster file"
            raise HostRefusedError(self.name, message, expected="a name in DNS or /etc/hosts", next=fix) from None
        except (OSError, asyncssh.Error) as reason:
            raise self._lost(reason) from None

    async def _prepared(self, keys: "HostKeys") -> dict[str, Any]:
        """Options of a connection: the ssh configuration, our keys and the known host keys."""
        login = self._login
        keys_given = [login.key_file] if login.key_file else None
        asked = {"username": login.user, "port": login.port, "client_keys": keys_given}
        given = {name: value for name, value in asked.items() if value is not None}
        try:
            options = await asyncssh.SSHClientConnectionOptions.construct(
                host=self.name, config=(), client_factory=lambda: keys, **given
            )  # `config=()` is the user's own configuration
            keys.files = _files_named(options.known_hosts)
            return {"options": options, "known_hosts": keys.known(), **_overrides(options)}
        except (OSError, ValueError) as reason:
            raise HostRefusedError(self.name, f"cannot set up ssh ({reason})") from None

    def _lost(self, reason: Exception) -> LinkLostError:
        if isinstance(reason, OSError) and reason.errno:
            text = os.strerror(reason.errno).lower()
        else:
            text = str(reason).lower() or type(reason).__name__
        return LinkLostError(self.name, f"connection lost ({text})")


def ssh_hosts(names: Sequence[str], login: Login) -> list[SshHost]:
    """The hosts of a cluster, with a limit on connections made at the same time."""
    gate = asyncio.Semaphore(_MOST_AT_ONCE)
    return [SshHost(name, login, gate) for name in names]


class HostKeys(asyncssh.SSHClient):
    """Decides about a host key that is not in known_hosts."""

    def __init__(self, host: str, accept_new: bool) -> None:
        self._host, self._accept_new, self._changed = host, accept_new, False
        self.files: tuple[Path, ...] = ()
        """The known_hosts files; a new key is written to the first."""

    def known(self) -> asyncssh.SSHKnownHosts:
        """Never None, which would make asyncssh skip the check."""
        return _read_known_hosts(tuple((str(file), *stamp) for file in self.files if (stamp := _stamp(file))))

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Accept an unknown key if new keys are accepted and no other key of the host is known."""
        at = None if port in (0, 22) else port
        self._changed = any(asyncssh.match_known_hosts(self.known(), host, addr, at)[:3])
        if self._changed or not self._accept_new:
            return False
        if self.files:
            _remember(self.files[0], host if at is None else f"[{host}]:{at}", key)
        return True

    def refusal(self) -> HostRefusedError:
        """Why the key was not accepted."""
        name = shlex.quote(self._host)
        if self._changed:
            message = "the host key has changed: this is another machine, or it was reinstalled"
            fix = f"ssh-keygen -R {name}, if you know why it changed"
            return HostRefusedError(self._host, message, expected="the key in known_hosts", next=fix)
        message, fix = "the host key is not in known_hosts", f"ssh {name} once, or --accept-new-host-keys"
        return HostRefusedError(self._host, message, next=fix)


def _files_named(known_hosts: object) -> tuple[Path, ...]:
    """The files of asyncssh's option: no files for None, those of the configuration, or the default file."""
    if known_hosts is None:
        return ()
    named = known_hosts if isinstance(known_hosts, list | tuple) else ()
    return tuple(Path(str(file)).expanduser() for file in named or ("~/.ssh/known_hosts",))


def _stamp(file: Path) -> tuple[int, int] | None:
    """Changes with the file; None if it does not exist."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4)
def _read_known_hosts(stamped: tuple[tuple[str, int, int], ...]) -> asyncssh.SSHKnownHosts:
    """The content of the files, cached until one changes: with 1000 hosts, each would parse 1000 lines."""
    return asyncssh.read_known_hosts([path for path, _, _ in stamped])


def _remember(known_hosts: Path, name: str, key: asyncssh.SSHKey) -> None:
    """Add a host key to known_hosts."""
    known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with known_hosts.open("a+", encoding="utf-8") as file:
        ends_in_newline = known_hosts.stat().st_size == 0 or known_hosts.read_bytes().endswith(b"\n")
        start = "" if ends_in_newline else "\n"
        file.write(f"{start}{name} {key.export_public_key('openssh').decode().strip()}\n")


def _overrides(options: asyncssh.SSHClientConnectionOptions) -> dict[str, Any]:
    """Defaults for what the configuration leaves open; loaded keys are passed on, so that none is loaded twice."""
    overrides: dict[str, Any] = {"connect_timeout": CONNECT_S}
    if not options.keepalive_interval:
        overrides |= {"keepalive_interval": KEEPALIVE_S, "keepalive_count_max": KEEPALIVES_MISSED}
    if not options.config.get("Ciphers"):
        overrides["encryption_algs"] = _CHEAP_FIRST
    if not options.config.get("HostKeyAlgorithms"):
        overrides["server_host_key_algs"] = _KNOWN_FIRST
    if options.client_keys:
        overrides |= {"client_keys": options.client_keys, "agent_identities": options.agent_identities}
    return overrides


_WRITE = """
umask 077
new="$1.new.$$"
cat > "$new" && chmod "$2" "$new" && mv -f "$new" "$1" && exit 0
status=$?
rm -f "$new"
exit $status
"""
