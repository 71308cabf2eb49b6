"""What a lab has left on the machine."""

import time
from collections.abc import Collection, Iterator
from pathlib import Path

from lab.namespaces import KINDS

CGROUPS = Path("/sys/fs/cgroup")


def leftovers(folder: Path, name: str, namespaces: Collection[str], patience_s: float = 10) -> list[str]:
    """What is still there, in words, once the kernel has had time to take the dead away."""
    deadline = time.monotonic() + patience_s
    while (found := [*_processes(namespaces), *_mounts(folder), *_cgroups(name), *_files(folder)]) != []:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return found


def remove_cgroups(name: str, patience_s: float = 10) -> None:
    """Remove the control groups of a lab; the kernel refuses while one of their processes is dying."""
    deadline = time.monotonic() + patience_s
    for top in _groups(name):
        for group in (*sorted((each for each in top.rglob("*") if each.is_dir()), reverse=True), top):
            while True:
                try:
                    group.rmdir()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        return  # leftovers() will name it
                    time.sleep(0.02)


def _groups(name: str) -> list[Path]:
    return [*CGROUPS.glob(f"{name}-*"), *CGROUPS.glob(f"*/{name}-*")]


def _processes(namespaces: Collection[str]) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            held = {str((process / "ns" / kind).readlink()) for kind in KINDS}
        except OSError:
            continue  # it has ended meanwhile
        if held & set(namespaces):
            yield f"process {process.name}"


def _mounts(folder: Path) -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if str(folder) in line:
            yield f"mount {line.split()[4]}"


def _cgroups(name: str) -> Iterator[str]:
    return (f"control group {group}" for group in _groups(name))


def _files(folder: Path) -> Iterator[str]:
    if folder.exists():
        yield f"folder {folder}"
