"""Log lines and whole logs spoilt at random, for the tests that mutate."""

import gzip
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

CORPUS = Path(__file__).parent / "traps"
REAL = Path(__file__).parent / "frameworks" / "logs" / "real"
SHARED = Path(__file__).parents[2] / "shared" / "logs"

_BYTES = [bytes([one]) for one in range(256) if one != ord("\n")]
_WORDS = (
    *(b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"\x1b[31m", b"\r", b"|", b":", b" | ", b"/", b"(", b")", b"["),
    *(b"iteration 1/2 |", b"completed step: 3, ", b"Training epoch 0, iteration 1/2 | ", b"step:  1  loss: "),
    *(b"hf_" + b"a" * 30, b"\xff\xfe", b"\x00", b"[default7]:", b"lm loss: ", b"NCCL", b"  a ... "),
    *(b"Traceback (most recent call last):", b"Error waiting on exit barrier. Elapsed: 1 seconds", b"RuntimeError: x"),
    b"During handling of the above exception, another exception occurred:",
    *(
        b"9" * 5000,
        b"-" + b"9" * 20,
        b"0",
        b"0.0",
        b"1e-320",
        "²".encode(),
        "٣".encode(),
        b"\xef\xbc\x91",
        b"0x" + b"f" * 5000,
    ),
    *(
        b"[{[]}]",
        b"[[[[",
        b"['a', ",
        b"[0x" + b"f" * 4000 + b"]",
        b"{}",
        b"None",
        b"(-1, 0)",
        b"[" + b"-" * 999 + b"1]",
    ),
    *(b"  log_interval .... ", b"  world_size .... ", b"  data_path .... ", b"Config param num_experts: "),
)


def corpus() -> list[bytes]:
    lines = {line for path in sorted(CORPUS.glob("*/*.log")) for line in path.read_bytes().split(b"\n") if line}
    return sorted(lines)


def mutated(line: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at, to = sorted((rng.randint(0, len(line)), rng.randint(0, len(line))))
        match rng.randrange(7):
            case 0:
                line = line[:at]
            case 1:
                line = line[at:]
            case 2:
                line = line[:at] + rng.choice(_BYTES) + line[at + 1 :]
            case 3:
                line = line[:at] + rng.choice(_WORDS) + line[at:]
            case 4:
                line = line[:at] + rng.choice(_WORDS) + line[to:]
            case 5:
                line = line[:at] + line[at:to] * rng.randint(0, 3) + line[to:]
            case _:
                line = line[to:] + line[:at]
    return line


_NUMBER = re.compile(rb"\d+")


@cache
def logs() -> list[list[bytes]]:
    """Whole logs: those of this project, and public ones where they lie beside the checkout."""
    paths = [*REAL.glob("*.log.gz"), *CORPUS.glob("*/*.log"), *SHARED.glob("*.log"), *SHARED.glob("field/*.gz")]
    texts = [gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw for raw in map(Path.read_bytes, sorted(paths))]
    return [text.split(b"\n") for text in texts]


def spoilt_log(rng: random.Random, most_lines: int = 2000) -> list[bytes]:
    """A log, or two glued, with lines mutated, numbers swapped, and stretches left out, repeated or moved."""
    lines = list(rng.choice(logs()))
    if rng.random() < 0.1:
        lines += rng.choice(logs())
    start = rng.randrange(max(1, len(lines) - most_lines + 1)) if rng.random() < 0.5 else 0
    lines = lines[start : start + most_lines]
    for _ in range(rng.randint(0, 3)):
        at, to = sorted((rng.randint(0, len(lines)), rng.randint(0, len(lines))))
        lines = rng.choice((lines[:at] + lines[to:], lines[:to] + lines[at:to] + lines[to:], lines[to:] + lines[:to]))
    share = rng.choice((0.0, 0.01, 0.2))
    swapped = rng.choice(_WORDS)
    for at, line in enumerate(lines):
        if rng.random() < share:
            lines[at] = mutated(line, rng)
        elif rng.random() < share:
            lines[at] = _NUMBER.sub(swapped, line, count=rng.randint(0, 3))
    return lines[: 2 * most_lines]


def spoilt(count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    lines = corpus()
    for _ in range(count):
        line = rng.choice(lines)
        yield line if rng.random() < 0.1 else mutated(line, rng)
