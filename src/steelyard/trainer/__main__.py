"""python -m steelyard.trainer SPEC.json"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m steelyard.trainer SPEC.json")
    # A runner that keeps the other end of standard input open sets this; the end of the input means that it is gone.
    if os.environ.get("STEELYARD_LIFELINE") == "stdin":
        if sys.platform == "linux":  # also ends a stopped process, which cannot watch its input
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        threading.Thread(target=_end_with_stdin, name="lifeline", daemon=True).start()
    from steelyard.trainer.spec import load  # importing torch takes seconds; the lifeline must work before
    from steelyard.trainer.train import train

    train(load(Path(sys.argv[1])))
    # Training is complete. Without this exit, SIGABRT ends one in ten runs with two gloo ranks during interpreter
    # shutdown (torch 2.13), and a good run would count as failed.
    sys.stdout.flush()
    os._exit(0)


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        continue
    with contextlib.suppress(OSError):  # the reader may be gone too
        os.write(2, b"steelyard trainer: standard input was closed, so the runner has ended; exiting\n")
    os._exit(1)


if __name__ == "__main__":
    main()
