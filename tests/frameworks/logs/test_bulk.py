"""Many lines at once are read as one by one."""

import random
from pathlib import Path

import pytest

from steelyard.frameworks.logs import bulk
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered, Job
from steelyard.records.step import to_line

CORPUS = Path(__file__).parents[2] / "traps"
JOB = Job(sequence_length=2048, world_size=8, flops_per_token=4.7e10, device_gib=191.98)


def records(data: bytes) -> list[bytes]:
    said = Gathered()
    reader = LogReader("train.log", said, None, JOB)
    reader.feed(data.split(b"\n"))
    reader.end()
    return [to_line(found) for found in said.take()]


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*.log")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_columns_give_the_records_of_single_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = path.read_bytes()
    monkeypatch.setattr(bulk, "FEWEST", 2)
    together = records(data)
    monkeypatch.setattr(bulk, "FEWEST", 1 << 60)
    assert together == records(data)


def test_columns_are_used_where_lines_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    read_many = bulk.read_many
    monkeypatch.setattr(bulk, "read_many", lambda *given: taken.append(read_many(*given)) or taken[-1])
    records((CORPUS / "megatron" / "clean-v0.8-interval-1.log").read_bytes())
    assert any(taken)


def test_whatever_is_spoilt_among_plain_lines_is_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    lines = (CORPUS / "megatron" / "clean-v0.8-interval-1.log").read_bytes().split(b"\n")
    for _ in range(150):
        spoilt = list(lines)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(spoilt))
            match rng.randrange(4):
                case 0:
                    spoilt[at] = spoilt[at].replace(b"1", b"7", 1)
                case 1:
                    spoilt.insert(at, rng.choice(lines))
                case 2:
                    del spoilt[at]
                case _:
                    spoilt[at] = spoilt[at].replace(b"0", b"")
        data = b"\n".join(spoilt)
        monkeypatch.setattr(bulk, "FEWEST", 2)
        together = records(data)
        monkeypatch.setattr(bulk, "FEWEST", 1 << 60)
        assert together == records(data)
