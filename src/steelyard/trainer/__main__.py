"""python -m steelyard.trainer SPEC.json"""

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


if __name__ == "__main__":
    main()
