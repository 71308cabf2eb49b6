"""The host keys on record: known_hosts files, read once for all hosts and again where one changed."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import asyncssh


def files_named(by: object) -> tuple[Path, ...]:
    """The files that asyncssh's option names: none of them (None), its default (nothing), one or several."""
    if by is None:
        return ()
    if isinstance(by, str) and by:
        return (Path(by).expanduser(),)
    named = tuple(Path(str(one)).expanduser() for one in by) if isinstance(by, list | tuple) else ()
    return named or (Path("~/.ssh/known_hosts").expanduser(),)


def keys_in(files: Sequence[Path]) -> asyncssh.SSHKnownHosts:
    """What the files hold; one that is not there holds nothing. A thousand hosts would parse a thousand lines each."""
    return _read(tuple((str(file), *stamp) for file in files if (stamp := _stamp(file)) is not None))


def remember(files: Sequence[Path], name: str, key: asyncssh.SSHKey) -> None:
    """Put a host's key on record in the first of the files."""
    if not files:
        return
    files[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with files[0].open("a+", encoding="utf-8") as file:
        whole = files[0].stat().st_size == 0 or files[0].read_bytes().endswith(b"\n")
        file.write(f"{'' if whole else chr(10)}{name} {key.export_public_key('openssh').decode().strip()}\n")


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _read(stamped: tuple[tuple[str, int, int], ...]) -> asyncssh.SSHKnownHosts:
    return asyncssh.read_known_hosts([path for path, _, _ in stamped])
