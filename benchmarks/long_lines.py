"""Reads one line of a megabyte: CPU time by what the line repeats, against a line of plain words of the same length.

    python benchmarks/long_lines.py

A pattern that looks at a repeated part again from each of its places takes the square of the line's length. Limit: 10
times the plain line.
"""

import sys
import time

from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered

LIMIT = 10.0
SIZE = 1 << 20
ROUNDS = 3
PLAIN = b"words of a log "
BEFORE = (b"", b"RESOURCE_EXHAUSTED: ", b"  name .. ", b"hf_", b"error ", b"iteration 1/1 | a")
REPEATED = (
    *(b" | ", b"a: ", b"iteration ", b"iteration 1/2 | ", b"\x1b[", b"[rank0]: ", b"1,", b".", b" ", b"step: "),
    *(b"1", b"A", b"a_", b"-", b"node", b"CUDA capacity: ", b"srun: error: ", b"token ", b"Basic ", b"password="),
    *(b"eyJaaaaaaaaaaaa.", b"'loss': ", b"{'a': 1, ", b"=", b"a=b, ", b"name .... value", b":::MLLOG {"),
)


def seconds(line: bytes) -> float:
    return min(_once(line) for _ in range(ROUNDS))


def _once(line: bytes) -> float:
    reader = LogReader("train.log", Gathered())
    began = time.process_time()
    reader.feed([line])
    return time.process_time() - began


def main() -> int:
    seconds(PLAIN)  # what is imported and compiled on first use does not count
    plain = seconds(PLAIN * (SIZE // len(PLAIN)))
    slowest, line = max(
        (seconds(before + part * (SIZE // len(part))), before + part) for part in REPEATED for before in BEFORE
    )
    print(f"plain line of {SIZE >> 20} MiB: {plain * 1000:.0f} ms")
    print(f"slowest of {len(REPEATED) * len(BEFORE)}: {line!r} repeated, {slowest * 1000:.0f} ms")
    print(f"limit: {LIMIT:.0f} x the plain line, {slowest / plain:.1f} x used")
    return 0 if slowest <= LIMIT * plain else 1


if __name__ == "__main__":
    sys.exit(main())
