"""python -m steelyard.trainer SPEC.json"""

import os
import sys
from pathlib import Path

from steelyard.trainer import lifeline


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m steelyard.trainer SPEC.json")
    lifeline.hold()
    from steelyard.trainer.spec import load  # torch takes seconds to import, and the lifeline holds from the first
    from steelyard.trainer.train import train

    train(load(Path(sys.argv[1])))
    # The work is done and printed. Without this, one run of two gloo ranks in ten is ended by SIGABRT while the
    # interpreter shuts down (torch 2.13), which would make a failed run of a good one.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
