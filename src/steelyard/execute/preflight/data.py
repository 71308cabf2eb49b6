"""The data is seen by every host, and is the same."""

import hashlib
from collections.abc import Iterator, Mapping

from steelyard.execute.preflight.facts import Facts, SeenData
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs

DATA = Check("data", required=True)
CHECKS = (DATA,)


def fingerprint(data: SeenData) -> str:
    """Names, sizes, first and last MiB of its files, and how many there are."""
    lines = [f"{one.size} {one.first} {one.last} {one.name}\n" for one in data.files]
    return hashlib.sha256("".join([f"{data.total}\n", *lines]).encode()).hexdigest()


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    path = needs.data_path
    if path is None:
        return
    fix = f"mount the shared file system, or copy the data to {path}"
    prints: dict[str, str | None] = {}
    for host, seen in facts.items():
        data = seen.data
        if not path.startswith("/"):
            message = f"{path} is relative, which means another place on each host"
            yield DATA.unknown(host, message, "write data.path from the root", None, "seen")
        elif data is None:
            yield DATA.unknown(host, f"{path} cannot be looked into ({seen.data_reason})", fix, None, "seen")
        elif not data.total:
            yield DATA.failed(host, f"{path} is not there, or holds no file", fix, "missing", "seen")
        elif data.unreadable:
            message = f"{data.unreadable[0]} cannot be read by this user"
            yield DATA.failed(host, message, "let this user read it", "unreadable", "readable")
        else:
            size = sum(one.size for one in data.files)
            some = f"the first {len(data.files)} of {data.total:,}" if data.total > len(data.files) else f"{data.total}"
            prints[host] = f"{fingerprint(data)[:12]} ({some} files, {size:,} bytes)"
    yield from DATA.compared(prints, f"the data in {path}", "it cannot be read", fix)
