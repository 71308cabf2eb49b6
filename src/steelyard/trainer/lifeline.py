"""Ends this process when the one that started it is gone, however it went."""

import contextlib
import ctypes
import os
import signal
import sys
import threading

VARIABLE = "STEELYARD_LIFELINE"
"""Set to `stdin` by a runner that holds the other end of our standard input and never writes to it."""

_PR_SET_PDEATHSIG = 1


def hold() -> None:
    """Watch standard input if asked to: its end is the runner's end."""
    if os.environ.get(VARIABLE) == "stdin":
        if sys.platform == "linux":  # ends even a stopped process, which cannot watch
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        threading.Thread(target=_watch, name="lifeline", daemon=True).start()


def _watch() -> None:
    while os.read(0, 4096):
        continue
    with contextlib.suppress(OSError):  # whoever would read it may be gone too
        os.write(2, b"steelyard trainer: standard input has closed, so the runner is gone; ending\n")
    os._exit(1)
