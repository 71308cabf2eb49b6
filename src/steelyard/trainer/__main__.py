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
    # Set by a runner that holds the other end of our standard input and never writes to it: its end is the runner's.
    if os.environ.get("STEELYARD_LIFELINE") == "stdin":
        if sys.platform == "linux":  # ends even a stopped process, which cannot watch
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        threading.Thread(target=_end_with_stdin, name="lifeline", daemon=True).start()
    from steelyard.trainer.spec import load  # torch takes seconds to import, and the lifeline holds from the first
    from steelyard.trainer.train import train

    train(load(Path(sys.argv[1])))
    # The work is done and printed. Without this, one run of two gloo ranks in ten is ended by SIGABRT while the
    # interpreter shuts down (torch 2.13), which would make a failed run of a good one.
    sys.stdout.flush()
    os._exit(0)


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        continue
    with contextlib.suppress(OSError):  # whoever would read it may be gone too
        os.write(2, b"steelyard trainer: standard input has closed, so the runner is gone; ending\n")
    os._exit(1)


if __name__ == "__main__":
    main()
