"""Files of results spoilt at random: a run or one sentence, without a hang; memory is held in test_bounds.py.

STEELYARD_FUZZ_EXAMPLES=20000 pytest tests/ingestion/test_mutated_files.py
"""

import gzip
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from bounds import bounded
from spoilt_logs import spoilt_log
from steelyard import records
from steelyard.errors import InputError
from steelyard.ingestion import Request, ingest

pytestmark = pytest.mark.fuzz

EXAMPLES = int(os.environ.get("STEELYARD_FUZZ_EXAMPLES", "500"))

_WORDS = (
    *(
        b"nan",
        b"-1",
        b"1e999",
        b"9" * 5000,
        b"0",
        b"",
        b",",
        b'"',
        b"\n",
        b"\r",
        b"\x00",
        b"\xff",
        b"{",
        b"}",
        b"[" * 999,
    ),
    *(
        "²".encode(),
        b'"\\ud800"',
        b"true",
        b"null",
        b"[]",
        b"{}",
        b"1" * 400,
        b";",
        b"\t",
        b"\xef\xbb\xbf",
        b"a" * 200_000,
    ),
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at, to = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        match rng.randrange(6):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + data[to:]
            case 2:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 3:
                data = data[:at] + rng.choice(_WORDS) + data[at:]
            case 4:
                data = data[:at] + data[at:to] * rng.randint(2, 3) + data[to:]
            case _:
                data = data[:at] + rng.choice(_WORDS) + data[at + rng.randint(1, 8) :]
    return data


# Event files.


def written(folder: Path) -> list[bytes]:
    """The records of an event file that TensorBoard's own writer made: simple values and tensors."""
    writer = EventFileWriter(str(folder))
    for step in range(1, 31):
        plain = Summary.Value(tag="lm loss", simple_value=10 - step / 10)
        scalar = TensorProto(dtype=1, tensor_content=struct.pack("<f", 0.25))
        other = TensorProto(dtype=1, float_val=[1e-4])
        values = [plain, Summary.Value(tag="iteration-time", tensor=scalar), Summary.Value(tag="lr", tensor=other)]
        writer.add_event(Event(step=step, summary=Summary(value=values)))
    writer.close()
    data, found = next(folder.iterdir()).read_bytes(), []
    while data:
        length = struct.unpack("<Q", data[:8])[0]
        found.append(data[12 : 12 + length])
        data = data[16 + length :]
    return found


def framed(record: bytes, length: int | None = None) -> bytes:
    header = struct.pack("<Q", len(record) if length is None else length)
    return header + struct.pack("<I", masked_crc32c(header)) + record + struct.pack("<I", masked_crc32c(record))


def spoilt_record(record: bytes, rng: random.Random) -> bytes:
    """A record with a right frame around wrong content: bytes, or a message with odd values."""
    if rng.random() < 0.5:
        return framed(mutated(record, rng)[: 1 << 16])
    content = bytes(rng.randrange(256) for _ in range(rng.randint(0, 9)))
    value = Summary.Value(tag=rng.choice(("lm loss", "lr", "x" * 9999)))
    if rng.random() < 0.8:
        value.tensor.CopyFrom(TensorProto(dtype=rng.choice((1, 1, 2, 9)), tensor_content=content))
    else:
        value.simple_value = rng.choice((float("nan"), float("inf"), -1.0, 1e38))
    step = rng.choice((0, -1, 1, 7, 10**15, 2**63 - 1, -(2**63)))
    return framed(Event(step=step, summary=Summary(value=[value])).SerializeToString())


def spoilt_events(records_of: list[bytes], rng: random.Random) -> bytes:
    frames = [framed(record) for record in records_of]
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(frames))
        match rng.randrange(4):
            case 0:
                frames[at] = spoilt_record(rng.choice(records_of), rng)
            case 1:
                frames[at] = framed(rng.choice(records_of), rng.choice((0, 3, 1 << 20, 1 << 40, 2**63, 2**64 - 1)))
            case 2:
                frames.insert(at, frames[rng.randrange(len(frames))])
            case _:
                frames[at] = mutated(frames[at], rng)
    data = b"".join(frames)
    return mutated(data, rng) if rng.random() < 0.3 else data


# Tables and results.


@cache
def tables() -> list[tuple[str, bytes]]:
    rows = [{"step": at, "loss": 9 - at / 10, "seconds": 0.5, "time": f"2026-01-01T00:00:{at:02}"} for at in range(30)]
    names = ",".join(rows[0])
    body = "".join(",".join(map(str, row.values())) + "\n" for row in rows)
    chart = "".join(f'"{at}","{9 - at / 10}","1","9"\n' for at in range(1, 31))
    suite = {"loss_values": [9 - at / 10 for at in range(30)], "step_times": [0.5] * 30, "learning_rates": [1e-4] * 30}
    more = {"training_config": {"max_steps": 30, "num_gpus": 8}, "memory_metrics": {"peak_memory_allocated_gb": 9}}
    return [
        ("curve.csv", f"{names}\n{body}".encode()),
        ("curve.tsv", f"{names}\n{body}".replace(",", "\t").encode()),
        ("wandb.csv", f'"Step","a - lm loss","a - lm loss__MIN","a - lm loss__MAX"\n{chart}'.encode()),
        ("curve.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode()),
        ("train_amd_prim_llama.json", json.dumps({**suite, **more}, indent=1).encode()),
    ]


def spoilt_table(rng: random.Random) -> tuple[str, bytes]:
    name, data = rng.choice(tables())
    data = mutated(data, rng)
    if rng.random() < 0.2:
        packed = gzip.compress(data, 1)
        return f"{name}.gz", mutated(packed, rng) if rng.random() < 0.5 else packed
    return name, data


# What holds of each.


def ingested(path: Path, out: Path, **more: Any) -> records.RunWriter | None:
    """The run of a file, read back; None where it was refused in words. Anything else is an error here."""
    with bounded():
        try:
            ((writer, _),) = ingest(Request([str(path)], out, "run", ["steelyard"], **more))
        except InputError:
            assert not (out / "run").exists()
            return None
        run = writer.directory
        assert len(list(records.steps(run))) == writer.manifest.steps
        assert sum(event.kind == "unread_line" for event in records.events(run)) <= 1000
        records.load(run)
    return writer


def all_ingested(make: Callable[[random.Random], tuple[str, bytes]], folder: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    made = 0
    for example in range(count):
        name, data = make(rng)
        (folder / name).write_bytes(data)
        try:
            made += ingested(folder / name, folder / "runs") is not None
        except BaseException:
            shutil.copy(folder / name, folder / f"failed-{example}-{name}")
            raise
        shutil.rmtree(folder / "runs", ignore_errors=True)
    assert made > count / 10  # most mutations leave something to read


def test_spoilt_event_files_become_runs_or_sentences(tmp_path: Path) -> None:
    whole = written(tmp_path / "tb")
    all_ingested(lambda rng: ("events.out.tfevents.1", spoilt_events(whole, rng)), tmp_path, 3, EXAMPLES)


def test_spoilt_tables_become_runs_or_sentences(tmp_path: Path) -> None:
    all_ingested(spoilt_table, tmp_path, 5, EXAMPLES)


def test_spoilt_logs_become_runs_or_sentences(tmp_path: Path) -> None:
    """What is known of a run is derived from its log: settings that cannot be must not end it."""

    def make(rng: random.Random) -> tuple[str, bytes]:
        return "train.log", b"\n".join(spoilt_log(rng, 300))

    all_ingested(make, tmp_path, 7, EXAMPLES // 5)
