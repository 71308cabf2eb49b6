"""There is room where files are written, and in the memory that ranks of a node share."""

from collections.abc import Iterator, Mapping

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs, Space

DISK = Check("disk", required=True)
SHM = Check("shm", required=True)
CHECKS = (DISK, SHM)

SHM_PATH = "/dev/shm"


def spaces(needs: Needs) -> list[tuple[Check, Space]]:
    """What is asked of each host, in order."""
    shared = [(SHM, Space(SHM_PATH, needs.shm_gib))] if needs.shm_gib is not None else []
    return [*((DISK, space) for space in needs.spaces), *shared]


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    for at, (kind, space) in enumerate(spaces(needs)):
        for host, seen in facts.items():
            if kind is SHM and needs.gpu_name is None and not seen.gpu_vendors:
                continue  # no GPU is asked for and none is there
            yield _judged(kind, host, space, seen, at)


def _judged(kind: Check, host: str, space: Space, seen: Facts, at: int) -> HostFinding:
    room = seen.rooms[at] if at < len(seen.rooms) else None
    expected = f"{space.least_gib:g} GiB"
    if room is None:
        return kind.unknown(host, f"the room in {space.path} is not known", f"run `df {space.path}` there")
    free = round(room.free_gib, 2)
    if not room.writable:
        fix = f"make {space.path} and let this user write there, or name another directory in the config"
        return kind.failed(host, f"{space.path} cannot be written", fix, free, expected)
    if room.free_gib < space.least_gib:
        message = f"{free:,g} GiB are free in {space.path}, and {expected} are needed"
        larger = f"`mount -o remount,size=16G {SHM_PATH}` (root), or free what is in it"
        fix = larger if kind is SHM else f"free some of {space.path}, or name another directory in the config"
        return kind.failed(host, message, fix, free, expected)
    return kind.passed(host, f"{free:,.1f} GiB are free in {space.path}", free, expected)
