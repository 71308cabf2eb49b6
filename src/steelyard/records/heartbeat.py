"""Whether the process that writes a run still lives: a lock the kernel lets go of when it dies, however it dies."""

import errno
import fcntl
import os
import stat
from pathlib import Path

from steelyard.errors import InputError
from steelyard.files import open_regular

FILE = "heartbeat"


class Heartbeat:
    """Held by the runner from before the run can be seen until it has written the end."""

    def __init__(self, run: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._descriptor = os.open(run / FILE, flags, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise

    def stop(self, run: Path) -> None:
        """The run has ended and says so itself."""
        (run / FILE).unlink(missing_ok=True)
        os.close(self._descriptor)


def beats(run: Path) -> bool:
    """True while a runner holds the run."""
    try:
        file = open_regular(run / FILE)
    except FileNotFoundError:
        return False
    except OSError as reason:
        raise InputError(f"{run / FILE} cannot be opened ({reason.strerror})", key="RUN", value=str(run)) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
