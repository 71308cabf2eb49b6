"""Reaches many hosts by ssh: time against parallel-ssh and ssh itself, and memory a host for a thousand of them.

    python benchmarks/fanout.py [--hosts 200] [--simulated 1000]

A real sshd on loopback takes 200 connections, each of which runs `true`; every client is a process of its own that
makes its connections anew, with imports left out of the time. They take turns and the best of three counts, since other
work on a machine only adds time. Ours and ssh verify the host key, and are first seen to refuse a wrong one;
parallel-ssh has no way to. Limits: no slower than parallel-ssh, three times as fast as ssh as it comes. All share the
machine with the server they wait for. ssh's own choice of key exchange can be most of its time, so a second table has
the same one for all, without a limit. Then a thousand hosts are served by a second process. Needs sshd, no root.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import asyncssh
import psutil

from steelyard.execute.host import HostRefusedError
from steelyard.execute.ssh import Login, SshHost, ssh_hosts

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from lab.loopback import ADDRESS, LoopbackSshd, why_not

TIMES_SSH, TIMES_PARALLEL_SSH = 3.0, 1.0
ROUNDS, AT_ONCE = 3, 64
SAME_KEX = "curve25519-sha256"
NO_PEER = "not installed, so not compared; next: pip install parallel-ssh"


@dataclass(frozen=True, slots=True)
class Place:
    """A server as a client is told of it."""

    folder: Path
    port: int
    hosts: int

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def config(self) -> Path:
        return self.folder / ".ssh" / "config"

    @property
    def key(self) -> Path:
        return self.folder / "client_key"

    def login(self) -> Login:
        return Login(port=self.port)


def told(server: LoopbackSshd, hosts: int) -> Place:
    """Write what clients read: a record of as many hosts as there are, and the configuration of this home."""
    place = Place(server.folder, server.port, hosts)
    os.environ["HOME"] = str(place.folder)
    place.config.parent.mkdir(mode=0o700, exist_ok=True)
    others = [f"node{number} {server.known_line.partition(' ')[2]}" for number in range(1, hosts)]
    place.known_hosts.write_text("".join([*others, server.known_line]))
    place.config.write_text(
        f"Host *\n  IdentityFile {place.key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {place.known_hosts}\n"
        "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  BatchMode yes\n"
    )
    return place


def ours(place: Place) -> None:
    async def main() -> None:
        hosts = ssh_hosts([ADDRESS] * place.hosts, place.login())
        done = await asyncio.gather(*(host.run(["true"]) for host in hosts))
        await asyncio.gather(*(host.close() for host in hosts))
        assert not any(one.status for one in done)

    asyncio.run(main())


def parallel_ssh(place: Place) -> None:
    from pssh.clients import ParallelSSHClient

    client = ParallelSSHClient(
        [ADDRESS] * place.hosts,
        port=place.port,
        pkey=str(place.key),
        pool_size=AT_ONCE,
        allow_agent=False,
        identity_auth=False,
    )
    output = client.run_command("true")
    client.join(output)
    assert [one.exit_code for one in output] == [0] * place.hosts


def ssh(place: Place, at_once: int = AT_ONCE) -> None:
    argv = ssh_argv(place)
    with ThreadPoolExecutor(at_once) as pool:
        done = list(pool.map(lambda _: subprocess.run(argv, stdin=subprocess.DEVNULL, check=False), range(place.hosts)))
    assert not any(one.returncode for one in done)


def ssh_at_once(place: Place) -> None:
    ssh(place, place.hosts)


def ssh_argv(place: Place) -> list[str]:
    return ["ssh", "-F", str(place.config), "-p", str(place.port), ADDRESS, "true"]


CLIENTS = {"steelyard": ours, "parallel-ssh": parallel_ssh, "ssh 64": ssh, "ssh all": ssh_at_once}


def timed(name: str, place: Place) -> tuple[float, float]:
    """Seconds, and seconds of a core that the client took, in a process of its own."""
    argv = [sys.executable, __file__, "--client", name, str(place.folder), str(place.port), str(place.hosts)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    seconds, core = json.loads(done.stdout)
    return seconds, core


def client(name: str, place: Place) -> None:
    if name == "parallel-ssh":
        import pssh.clients  # noqa: F401  # not to be timed
    before, start = core_seconds(), time.perf_counter()
    CLIENTS[name](place)
    print(json.dumps([time.perf_counter() - start, core_seconds() - before]))


def core_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def refuse_a_wrong_key(place: Place) -> None:
    """Host keys are verified: with another on record neither we nor ssh get in."""
    right = place.known_hosts.read_text()
    wrong = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode()
    place.known_hosts.write_text(f"[{ADDRESS}]:{place.port} {wrong}")

    async def get_in() -> bool:
        host = SshHost(ADDRESS, place.login())
        try:
            await host.run(["true"])
        except HostRefusedError:
            return False
        finally:
            await host.close()
        return True

    let_in = asyncio.run(get_in()), subprocess.run(ssh_argv(place), capture_output=True, check=False).returncode == 0
    place.known_hosts.write_text(right)
    if any(let_in):
        sys.exit("a wrong host key was accepted")


def compared(place: Place, title: str, has_limits: bool) -> bool:
    """A table of all clients; whether the limits hold."""
    refuse_a_wrong_key(place)
    has_peer = importlib.util.find_spec("pssh") is not None
    names = [name for name in CLIENTS if has_peer or name != "parallel-ssh"]
    rounds = [{name: timed(name, place) for name in names} for _ in range(ROUNDS)]
    best = {name: min(one[name] for one in rounds) for name in names}
    quicker = min(("ssh 64", "ssh all"), key=lambda name: best[name])
    base = best["steelyard"][0]
    print(f"{title}: {place.hosts} connections with a command, {len(rounds)} rounds in turns, the best of each")
    row("steelyard", best["steelyard"], "host keys verified")
    good = True
    if has_peer:
        good &= row(
            "parallel-ssh", best["parallel-ssh"], "host keys not verified", base, TIMES_PARALLEL_SSH, has_limits
        )
    else:
        print(f"  parallel-ssh  {NO_PEER}")
    how = f"host keys verified, {AT_ONCE if quicker == 'ssh 64' else 'all'} at once"
    return row("ssh", best[quicker], how, base, TIMES_SSH, has_limits) and good


def row(
    name: str, taken: tuple[float, float], how: str, base: float | None = None, limit: float = 0, limited: bool = False
) -> bool:
    """Print a line; whether its limit holds."""
    good = base is None or not limited or taken[0] >= limit * base
    ratio = "" if base is None else f"  {taken[0] / base:5.2f} x ours{f' (at least {limit:g})' if limited else ''}"
    print(
        f"  {name:<12}  {taken[0]:6.2f} s  {taken[1]:6.2f} s of a core{ratio}  {how}{'' if good else '  OVER'}",
        flush=True,
    )
    return good


def simulated_names(count: int) -> list[str]:
    return [f"127.1.{number // 250}.{number % 250 + 1}" for number in range(count)]


def serve(folder: Path, port: int, count: int) -> None:
    """Be so many hosts: a server on an address each, all with one key."""

    async def main() -> None:
        options = asyncssh.SSHServerConnectionOptions(
            server_host_keys=[str(folder / "host_key")],
            authorized_client_keys=str(folder / "authorized_keys"),
            process_factory=lambda process: process.exit(0),
        )
        for name in simulated_names(count):
            await asyncssh.listen(name, port, options=options)
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    asyncio.run(main())


async def reached(place: Place) -> None:
    """Reach every simulated host, and once more over the connections that are there."""
    names, login = simulated_names(place.hosts), place.login()
    await warm_up(SshHost(names[0], login))
    hosts = ssh_hosts(names, login)
    held, core, start = psutil.Process().memory_info().rss, core_seconds(), time.perf_counter()
    first = await asyncio.gather(*(host.run(["true"]) for host in hosts))
    seconds, core = time.perf_counter() - start, core_seconds() - core
    each = (psutil.Process().memory_info().rss - held) / place.hosts / 1024
    start = time.perf_counter()
    second = await asyncio.gather(*(host.run(["true"]) for host in hosts))
    again = time.perf_counter() - start
    await asyncio.gather(*(host.close() for host in hosts))
    assert not any(one.status for one in (*first, *second))
    print(
        f"  {seconds:.2f} s, {1000 * seconds / place.hosts:.1f} ms and {each:.0f} KiB a host held open; of a core "
        f"{1000 * core / place.hosts:.1f} ms a host; again over the same connections {again:.2f} s"
    )


async def warm_up(host: SshHost) -> None:
    """What is loaded once is not a host's."""
    await host.run(["true"])
    await host.close()


def simulated(folder: Path, server: LoopbackSshd, count: int) -> None:
    place = told(server, count)
    key = server.known_line.partition(" ")[2]
    place.known_hosts.write_text("".join(f"[{name}]:{place.port} {key}" for name in simulated_names(count)))
    argv = [sys.executable, __file__, "--serve", str(folder), str(place.port), str(count)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hosts:
        assert hosts.stdout is not None
        if hosts.stdout.readline() != "ready\n":
            sys.exit("the simulated hosts did not start")
        print(
            f"{count:,} hosts of one other process, each its address and line of known_hosts, {AT_ONCE} made at once:"
        )
        sys.stdout.flush()
        done = subprocess.run([sys.executable, __file__, "--reach", *argv[3:]], check=False)
        hosts.terminate()
    if done.returncode:
        sys.exit("the simulated hosts were not reached")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=200, help="connections to the real server")
    parser.add_argument("--simulated", type=int, default=1000, help="hosts of the second process")
    for part in ("--client", "--serve", "--reach"):
        parser.add_argument(part, nargs=4 if part == "--client" else 3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.client:
        client(asked.client[0], at(asked.client[1:]))
    elif asked.serve:
        serve(Path(asked.serve[0]), int(asked.serve[1]), int(asked.serve[2]))
    elif asked.reach:
        asyncio.run(reached(at(asked.reach)))
    else:
        sys.exit(measure(asked.hosts, asked.simulated))


def at(words: Sequence[str]) -> Place:
    return Place(Path(words[0]), int(words[1]), int(words[2]))


def measure(hosts: int, others: int) -> int:
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 2
    os.environ.pop("SSH_AUTH_SOCK", None)
    shown = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=True).stderr.split(",")[0]
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, asyncssh {version('asyncssh')}, {shown}")
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as servers:
        folder = Path(temporary)
        usual = servers.enter_context(LoopbackSshd(folder / "usual"))
        good = compared(told(usual, hosts), "as each comes", has_limits=True)
        same = servers.enter_context(LoopbackSshd(folder / "same", [f"KexAlgorithms {SAME_KEX}"]))
        compared(told(same, hosts), f"all with {SAME_KEX}", has_limits=False)
        spare = LoopbackSshd(folder / "spare")
        simulated(spare.folder, spare, others)
    return 0 if good else 1


if __name__ == "__main__":
    main()
