"""`steelyard lint` of all packaged configs: at most a second, and no torch. Run: python benchmarks/lint.py"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from steelyard.experiment import packaged

LIMIT_S = 1.0
RUNS = 10


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name in packaged.DESCRIPTIONS:
            path = Path(folder) / packaged.file_name(name)
            path.write_text(packaged.text(name))
            files.append(str(path))
        seconds = [_once(files) for _ in range(RUNS)]
    median = statistics.median(seconds)
    print(f"lint of {len(files)} packaged configs: {median:.2f} s (median of {RUNS}, up to {max(seconds):.2f})")
    print(f"limit: {LIMIT_S:.0f} s, {median / LIMIT_S:.2f} of it used")


def _once(files: list[str]) -> float:
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "steelyard", "lint", *files], capture_output=True, check=False)
    assert done.returncode == 2  # the places a person must fill
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
