"""Checks disk space, shared memory and the rendezvous port."""

from steelyard.execute.preflight.facts import HostFacts, Room
from steelyard.execute.preflight.finding import Check, Findings, HostFinding
from steelyard.execute.preflight.needs import Needs, Space
from steelyard.reasons import Code

DISK = Check("disk", required=True)
SHM = Check("shm", required=True)
PORTS = Check("ports", required=True)
CHECKS = (DISK, SHM, PORTS)

ROOM_FREE = Code("room_free", "{observed:,.1f} GiB free in {path}")
"""The directory has enough free space."""
ROOM_SHORT = Code("room_short", "only {observed:,g} GiB free in {path}; needed: {expected}")
"""The directory has less free space than is needed."""
ROOM_NOT_WRITABLE = Code("room_not_writable", "cannot write to {path}")
"""The user cannot write to the directory."""
ROOM_UNKNOWN = Code("room_unknown", "free space in {path} is unknown")
"""The host does not report the free space of the directory."""
PORT_FREE = Code("port_free", "port {port} is free")
"""The port is free."""
PORT_TAKEN = Code("port_taken", "rendezvous port {port} is in use")
"""Another program listens on the port."""
PORT_UNKNOWN = Code("port_unknown", "cannot check whether port {port} is free")
"""The host does not list the ports in use."""

SHM_PATH = "/dev/shm"


def spaces(needs: Needs) -> list[tuple[Check, Space]]:
    """The directories to check on each host, in order."""
    shared = [(SHM, Space(SHM_PATH, needs.shm_gib))] if needs.shm_gib is not None else []
    return [*((DISK, space) for space in needs.spaces), *shared]


def check(needs: Needs, facts: HostFacts) -> Findings:
    for at, (kind, space) in enumerate(spaces(needs)):
        for host, seen in facts.items():
            if kind is DISK or needs.gpu_name is not None or seen.gpu_vendors:  # shm matters only with GPUs
                yield _room(kind, host, space, seen.rooms[at])
    for host in needs.heads:
        for port in needs.ports if host in facts else ():
            listening, command = facts[host].listening, f"`ss -ltnp 'sport = :{port}'`"
            if listening is None:
                yield PORTS.unknown(PORT_UNKNOWN, host, f"run {command} on the host", None, "free", port=port)
            elif port in listening:
                fix = f"stop the program that {command} shows, or set another network.port"
                yield PORTS.failed(PORT_TAKEN, host, fix, "taken", "free", port=port)
            else:
                yield PORTS.passed(PORT_FREE, host, "free", "free", port=port)


def _room(kind: Check, host: str, space: Space, room: Room | None) -> HostFinding:
    path, expected = space.path, f"{space.least_gib:g} GiB"
    if room is None:
        return kind.unknown(ROOM_UNKNOWN, host, f"run `df {path}` on the host", path=path)
    free = round(room.free_gib, 2)
    if not room.writable:
        fix = f"create {path} and give this user write permission, or set another directory in the config"
        return kind.failed(ROOM_NOT_WRITABLE, host, fix, free, expected, path=path)
    if room.free_gib < space.least_gib:
        larger = f"`mount -o remount,size=16G {SHM_PATH}` (root), or delete files in it"
        fix = larger if kind is SHM else f"delete files in {path}, or set another directory in the config"
        return kind.failed(ROOM_SHORT, host, fix, free, expected, path=path)
    return kind.passed(ROOM_FREE, host, free, expected, path=path)
