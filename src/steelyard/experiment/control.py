"""Where the control files of a run lie on its hosts: in a place of the login's own that no container sees."""

import posixpath
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

ROOT_PARENT = "/root/.local/state/steelyard"
"""Root's own place: nobody else can make it first, and it is on a disk, since a job may print much."""


def control_parent(log_dir: str | None, mounts: Iterable[str], user: str) -> str | None:
    """The first of log_dir and the login's own places that no mount shows to the container; None where each is shown.

    That nobody else can write there is checked on the host, before anything is made.
    """
    held = list(mounts)
    for parent in (log_dir, *own_parents(user)):
        if parent is not None and not any(overlap(parent, path) for path in held):
            return parent
    return None


def own_parents(user: str) -> tuple[str, ...]:
    """Where a login's control files go, the best first: a home may be shared, or be mounted into the container."""
    shared = f"/var/tmp/steelyard-{re.sub(r'[^A-Za-z0-9_.-]', '_', user)}"
    return (ROOT_PARENT, shared) if user == "root" else (shared,)


def overlap(first: str, second: str) -> bool:
    """Whether one of two paths is the other, or lies below it."""
    left, right = (PurePosixPath("/", posixpath.normpath(path).lstrip("/")) for path in (first, second))
    return left.is_relative_to(right) or right.is_relative_to(left)
