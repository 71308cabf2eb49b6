"""Where the control files of a run are on its hosts: in a directory of the login that no container can access."""

import posixpath
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

ROOT_PARENT = "/root/.local/state/steelyard"
"""For root: no other user can create it, and it is on a disk, because logs can be large."""


def control_parent(log_dir: str | None, mounts: Iterable[str], user: str) -> str | None:
    """The first of log_dir and the directories of the login that is outside all mounts; None if all are mounted.

    Before a run, the host checks that only the login can write there.
    """
    mounted = list(mounts)
    for parent in (log_dir, *own_parents(user)):
        if parent is not None and not any(overlap(parent, path) for path in mounted):
            return parent
    return None


def own_parents(user: str) -> tuple[str, ...]:
    """Directories for the control files of a login, best first. Not the home: it may be shared or mounted."""
    shared = f"/var/tmp/steelyard-{re.sub(r'[^A-Za-z0-9_.-]', '_', user)}"
    return (ROOT_PARENT, shared) if user == "root" else (shared,)


def overlap(first: str, second: str) -> bool:
    """Whether two paths are equal, or one is below the other."""
    left, right = (PurePosixPath("/", posixpath.normpath(path).lstrip("/")) for path in (first, second))
    return left.is_relative_to(right) or right.is_relative_to(left)
