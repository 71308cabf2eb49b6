"""How long `steelyard --help` takes: the median of 20 starts, beside a bare Python's."""

import statistics
import subprocess
import sys
import time

LIMIT_S = 0.250
STARTS = 20


def seconds(command: list[str]) -> float:
    taken = []
    for _ in range(STARTS):
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def main() -> int:
    help_s = seconds([sys.executable, "-m", "steelyard", "--help"])
    python_s = seconds([sys.executable, "-c", "pass"])
    print(f"steelyard --help: {help_s * 1000:.0f} ms (median of {STARTS}), {help_s / python_s:.1f} x a bare Python")
    print(f"limit: {LIMIT_S * 1000:.0f} ms, {help_s / LIMIT_S:.2f} of it used")
    return 0 if help_s <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
