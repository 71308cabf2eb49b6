"""Lines spoilt at random: no error of our own, no line that takes long, no memory that grows.

STEELYARD_FUZZ_LINES=1000000 pytest tests/frameworks/logs/test_mutated_lines.py
"""

import gzip
import os
import random
import re
import time
import tracemalloc
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from steelyard.frameworks.logs.lines import LineCutter
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.said import Setting
from steelyard.frameworks.logs.series import Gathered, Job
from steelyard.ingest.knowledge import Knowledge
from steelyard.records.step import Event, to_line

LINES = int(os.environ.get("STEELYARD_FUZZ_LINES", "20000"))
CORPUS = Path(__file__).parents[2] / "traps"
REAL = Path(__file__).parent / "real"
SHARED = Path(__file__).parents[4] / "shared" / "logs"
LONGEST_S = 1.0

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
_NASTY = (b" | ", b"a: ", b"iteration ", b"iteration 1/2 | ", b"\x1b[", b"[rank0]: ", b"1,", b".", b" ", b"step: ")


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


class Learning(Gathered):
    """A sink that keeps what `ingest` knows of a run up to date, as it does."""

    def __init__(self) -> None:
        super().__init__()
        self.knowledge, self.job = Knowledge({}, {}, None, None, None, None), Job()

    def setting(self, setting: Setting) -> None:
        self.knowledge.learn(setting)
        self.knowledge.update(self.job)


def spoilt(count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    lines = corpus()
    for _ in range(count):
        line = rng.choice(lines)
        yield line if rng.random() < 0.1 else mutated(line, rng)


def test_spoilt_lines_break_nothing() -> None:
    """Every line to a reader that has seen others, which is begun anew now and then; what is found can be written."""
    said = Gathered()
    reader = LogReader("train.log", said)
    slowest = (0.0, b"")
    for number, line in enumerate(spoilt(LINES, seed=5), start=1):
        began = time.process_time()
        reader.feed([line])
        slowest = max(slowest, (time.process_time() - began, line))
        if number % 500 == 0:
            reader.end()
            reader = LogReader("train.log", said)
        for found in said.take():
            assert to_line(found).endswith(b"\n")
    assert slowest[0] < LONGEST_S, slowest


def test_spoilt_lines_say_the_same_one_by_one_and_together() -> None:
    rng = random.Random(7)
    source = spoilt(LINES // 4, seed=11)
    while lines := list(islice(source, rng.randint(1, 400))):
        apart, together = Gathered(), Gathered()
        one, many = LogReader("train.log", apart), LogReader("train.log", together)
        for line in lines:
            one.feed([line])
        for at in range(0, len(lines), 40):
            many.feed(lines[at : at + 40])
        many.feed([])
        one.end()
        many.end()
        assert [*map(to_line, together.take())] == [*map(to_line, apart.take())]
        assert (many.line, many.unread) == (one.line, one.unread)


def test_spoilt_logs_are_read_to_their_end() -> None:
    """State goes from line to line: whole logs, in blocks, without a failure that only the last resort records."""
    rng = random.Random(13)
    left = LINES
    while left > 0:
        lines = spoilt_log(rng)
        left -= len(lines)
        said, cutter = Learning(), LineCutter()
        reader = LogReader("train.log", said, job=said.job)
        data, size = b"\n".join(lines), rng.choice((97, 4096, 1 << 18))
        for at in range(0, len(data), size):
            reader.feed(cutter.feed(data[at : at + size]))
        reader.feed(list(cutter.rest()))
        reader.end()
        for found in said.take():
            assert to_line(found).endswith(b"\n")
            assert not (isinstance(found, Event) and "reading it failed" in found.message), found


def test_nasty_long_lines_are_read_in_time() -> None:
    for unit in (
        b" | ",
        b"a: ",
        b"iteration ",
        b"iteration 1/2 | ",
        b"\x1b[",
        b"[rank0]: ",
        b"1,",
        b".",
        b" ",
        b"step: ",
    ):
        for size in (1 << 12, 1 << 16, 1 << 20):
            line = unit * (size // len(unit))
            for text in (line, b"RESOURCE_EXHAUSTED: " + line, b"  name .. " + line, b"hf_" + line):
                began = time.process_time()
                LogReader("train.log", Gathered()).feed([text])
                assert time.process_time() - began < LONGEST_S, (unit, size)


def test_memory_is_flat_on_a_line_of_a_gigabyte() -> None:
    block = b"lm loss: 1.0 | " * (1 << 14)
    cutter, reader = LineCutter(), LogReader("train.log", Gathered())
    tracemalloc.start()
    try:
        for _ in range((1 << 30) // len(block)):
            reader.feed(cutter.feed(block))
        reader.feed(cutter.feed(b"\nnext line\n"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reader.line == 2
    assert most < 16 << 20
