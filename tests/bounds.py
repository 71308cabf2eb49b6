"""The bounds that hold for whatever is read: no call takes over 10 s, and none over 1 GiB of memory."""

import contextlib
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

LONGEST_S = 10
MOST_BYTES = 1 << 30


class TooLongError(Exception):
    """A call that does not end in time."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Inside the with, TooLongError after ten seconds and MemoryError after another gigabyte."""

    def too_long(*_: object) -> None:
        raise TooLongError(f"over {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, too_long)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_BYTES, hard))
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)
