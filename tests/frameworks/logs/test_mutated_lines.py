"""Lines spoilt at random: no error of our own, no line that takes long, no memory that grows.

STEELYARD_FUZZ_LINES=1000000 pytest tests/frameworks/logs/test_mutated_lines.py
"""

import os
import random
import tracemalloc
from itertools import islice

import pytest

from bounds import bounded
from spoilt_logs import spoilt, spoilt_log
from steelyard.frameworks.logs.cutter import LineCutter
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered, Job
from steelyard.frameworks.logs.settings import Setting
from steelyard.ingestion.knowledge import Knowledge
from steelyard.records.step import Event, to_line

pytestmark = pytest.mark.fuzz

LINES = int(os.environ.get("STEELYARD_FUZZ_LINES", "20000"))


class Learning(Gathered):
    """A sink that keeps what `ingest` knows of a run up to date, as it does."""

    def __init__(self) -> None:
        super().__init__()
        self.knowledge, self.job = Knowledge({}, {}, None, None, None, None), Job()

    def setting(self, setting: Setting) -> None:
        self.knowledge.learn(setting, self.job)


def test_spoilt_lines_break_nothing() -> None:
    """Every line to a reader that has seen others, which is begun anew now and then; what is found can be written."""
    said = Gathered()
    reader = LogReader("train.log", said)
    for number, line in enumerate(spoilt(LINES, seed=5), start=1):
        with bounded():
            reader.feed([line])
        if number % 500 == 0:
            reader.end()
            reader = LogReader("train.log", said)
        for found in said.take():
            assert to_line(found).endswith(b"\n")


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


@pytest.mark.quick
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
            assert not (isinstance(found, Event) and "unreadable (" in found.message), found


def test_long_lines_of_one_repeated_part_are_read() -> None:
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
                reader = LogReader("train.log", Gathered())
                with bounded():
                    reader.feed([text])
                assert reader.line == 1


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
