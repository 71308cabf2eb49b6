"""Whether the process that writes a run still lives: a lock the kernel lets go of when it dies, however it dies."""

import fcntl
import os
from pathlib import Path

FILE = "heartbeat"


class Heartbeat:
    """Held by the runner from before the run can be seen until it has written the end."""

    def __init__(self, run: Path) -> None:
        self._descriptor = os.open(run / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def stop(self, run: Path) -> None:
        """The run has ended and says so itself."""
        (run / FILE).unlink(missing_ok=True)
        os.close(self._descriptor)


def beats(run: Path) -> bool:
    """True while a runner holds the run."""
    try:
        descriptor = os.open(run / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
