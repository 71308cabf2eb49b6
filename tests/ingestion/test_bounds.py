"""Whatever a file holds, ingest takes bounded memory and answers in words."""

import gzip
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

import steelyard
from steelyard import records
from steelyard.ingestion.sources import in_units, size_of

pytestmark = pytest.mark.processes

Cli = Callable[..., Any]

MOST_BYTES = 512 << 20
"""Of memory of its own that an ingest may take here; it starts with some 100 MiB."""
MOST_FILES = 64
_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, ({most}, {most}))
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))
from steelyard.cli.main import main
main(sys.argv[1:])
"""


def limited(cwd: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """How an ingest ends in a process with little memory, and the document it prints."""
    argv = [sys.executable, "-c", _LIMITED.format(most=MOST_BYTES, files=MOST_FILES), "ingest", *arguments, "--json"]
    source = str(Path(steelyard.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def packed(path: Path, *parts: tuple[bytes, int]) -> None:
    """A gzip file of parts, each so many times: a member each, so that a gigabyte is written in no time."""
    path.write_bytes(b"".join(gzip.compress(part, 1) * times for part, times in parts))


MIB = b"a" * (1 << 20)
ROWS = [(at, 9 - at / 10) for at in range(1, 11)]
JSON_ROWS = "".join(json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in ROWS).encode()
CSV_ROWS = "".join(f"{step},{loss}\n" for step, loss in ROWS).encode()


def test_a_line_of_a_gigabyte_in_json_lines_is_one_unread_row(tmp_path: Path) -> None:
    packed(tmp_path / "curve.jsonl.gz", (JSON_ROWS, 1), (MIB, 1024), (b'\n{"step": 11, "loss": 1.0}\n', 1))
    status, document = limited(tmp_path, "curve.jsonl.gz")
    assert (status, document["steps"], document["files"][0]["unread"]) == (0, 11, 1)
    kept = tmp_path / document["run"] / "logs" / "curve.jsonl"
    assert kept.stat().st_size < 2 << 20


def test_a_line_of_a_gigabyte_in_csv_is_one_sentence(tmp_path: Path) -> None:
    packed(tmp_path / "curve.csv.gz", (b"step,loss\n", 1), (CSV_ROWS, 1), (MIB, 1024))
    status, document = limited(tmp_path, "curve.csv.gz")
    assert status == 2
    assert "line 12" in document["error"]["message"]


@pytest.mark.parametrize(
    ("name", "start", "repeated"),
    [
        ("curve.csv.gz", b"step,loss\n", b'"\n",' * 1000),  # a row over many lines
        ("curve.csv.gz", b'step,loss\n1,"', MIB),  # a cell that never ends
        ("curve.csv.gz", b"", b"a," * (1 << 19)),  # a header that never ends
        ("wandb.csv.gz", b'"Step","a - loss__MIN"', MIB),
        ("train_amd_prim_llama.json.gz", b'{"loss_values": [', b"[]," * (1 << 18)),
        ("train.log.gz", b"", MIB),
    ],
)
def test_what_never_ends_is_one_sentence(tmp_path: Path, name: str, start: bytes, repeated: bytes) -> None:
    packed(tmp_path / name, (start, 1), (repeated, 1024))
    status, document = limited(tmp_path, name)
    assert status == 2
    assert document["error"]["key"] == "PATH"


def test_steps_of_more_ranks_than_files_may_be_open_are_merged(tmp_path: Path) -> None:
    line = "[rank{rank}]:[titan] 2026-01-01 00:00:{step:02},000 - root - INFO - step: {step:2}  loss: 2.0000  "
    line += "memory: 30.99GiB(39.01%)  tps: 7,034  tflops: 407.37  mfu: 41.19%\n"
    ranks = 3 * MOST_FILES
    (tmp_path / "train.log").write_text(
        "".join(line.format(rank=rank, step=step) for step in range(1, 21) for rank in range(ranks))
    )
    status, document = limited(tmp_path, "train.log")
    assert (status, document["steps"]) == (0, 20)
    assert len(records.node_tables(Path(document["run"]))) == ranks


@pytest.mark.parametrize("name", ["train.log.gz", "curve.csv.gz", "curve.jsonl.gz"])
def test_a_file_that_unpacks_to_more_than_the_limit_names_the_option(cli: Cli, tmp_path: Path, name: str) -> None:
    packed(tmp_path / name, (b"step,loss\n1,2\n" if "csv" in name else JSON_ROWS, 1), (b"\n" * (1 << 20), 5))
    done = cli("ingest", name, "--max-unpacked", "4MiB", "--json")
    assert (done.status, done.document["error"]["key"]) == (2, "--max-unpacked")
    assert "--max-unpacked 64MiB" in done.document["error"]["next"]
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_a_file_that_is_not_compressed_has_no_limit(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_bytes(b"step,loss\n" + CSV_ROWS)
    assert cli("ingest", "curve.csv", "--max-unpacked", "1", "--json").status == 0
    packed(tmp_path / "curve.csv.gz", (b"step,loss\n" + CSV_ROWS, 1))
    assert cli("ingest", "curve.csv.gz", "--max-unpacked", "1KiB", "--json").status == 0
    assert cli("ingest", "curve.csv.gz", "--max-unpacked", "1", "--json").status == 2


def test_sizes_are_written_as_they_are_read(cli: Cli) -> None:
    for text in ("1", "512", "1KiB", "512MiB", "64GiB", "2TiB"):
        assert in_units(size_of(text) or 0) == text
    for text in ("", "GiB", "1GB", "-1", "1.5GiB", "²GiB", "9" * 5000):
        assert size_of(text) is None
    assert cli("ingest", "x.log", "--max-unpacked", "1GB", "--json").document["error"]["key"] == "--max-unpacked"


@pytest.mark.parametrize("name", ["curve.csv.gz", "curve.jsonl.gz"])
def test_a_table_that_breaks_off_amid_its_compression_is_read_up_to_there(cli: Cli, tmp_path: Path, name: str) -> None:
    later = [(at, 1.0) for at in range(11, 5000)]
    rows = "".join(json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in later).encode()
    start = JSON_ROWS
    if "csv" in name:
        start, rows = b"step,loss\n" + CSV_ROWS, "".join(f"{step},{loss}\n" for step, loss in later).encode()
    (tmp_path / name).write_bytes(gzip.compress(start) + gzip.compress(rows)[:-5000])
    made = cli("ingest", name, "--json").document
    assert 10 <= made["steps"] < 4999
    assert made["status"] == "interrupted"
    assert "broken_file" in [notice["kind"] for notice in made["notices"]]


@pytest.mark.parametrize(
    "value",
    ["1" * 400, "[" * 900 + "]" * 900, "{}", "true", '"\\ud800"', "9" * 5000, "[" * 10**5],
)
def test_a_row_with_an_odd_value_is_unread_or_read_without_it(cli: Cli, tmp_path: Path, value: str) -> None:
    rows = f'{{"step": 1, "loss": 2.0}}\n{{"step": 2, "loss": {value}, "node": {value}}}\n{{"step": 3, "loss": 1.0}}\n'
    (tmp_path / "curve.jsonl").write_text(rows)
    made = cli("ingest", "curve.jsonl", "--json").document
    assert [step.step for step in records.steps(made["run"])] == [1, 3]
    assert made["files"][0]["unread"] == 1


def test_a_word_with_half_a_character_can_be_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.jsonl").write_text('{"step": 1, "loss": 2.0, "node": "\\ud800", "\\ud800": 1}\n')
    made = cli("ingest", "curve.jsonl", "--json").document
    assert next(records.steps(made["run"])).node == "?"
    assert [notice["kind"] for notice in made["notices"]] == ["unread_columns"]


def test_bad_rows_are_recorded_up_to_a_number(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("step,loss\n1,2.0\n" + "x,2.0\n" * 1500)
    made = cli("ingest", "curve.csv", "--json").document
    assert made["files"][0]["unread"] == 1500
    assert sum(event.kind == "unread_line" for event in records.events(made["run"])) == 1000


@pytest.mark.parametrize("ending", ["\r", "\r\n", "\n"])
def test_any_ending_of_lines_separates_rows(cli: Cli, tmp_path: Path, ending: str) -> None:
    rows = ["step,loss,node", '1,2.0,"a,b"', "2,1.5,c"]
    (tmp_path / "curve.csv").write_bytes(("\ufeff" + "".join(row + ending for row in rows)).encode())
    made = cli("ingest", "curve.csv", "--json").document
    assert [(step.step, step.loss, step.node) for step in records.steps(made["run"])] == [
        (1, 2.0, "a,b"),
        (2, 1.5, "c"),
    ]


# TensorBoard.


def framed(event: Event, length: int | None = None) -> bytes:
    record = event.SerializeToString()
    header = struct.pack("<Q", len(record) if length is None else length)
    return header + struct.pack("<I", masked_crc32c(header)) + record + struct.pack("<I", masked_crc32c(record))


def loss(step: int, content: bytes | None = None) -> Event:
    value = Summary.Value(tag="lm loss", simple_value=2.0)
    if content is not None:
        value = Summary.Value(tag="lm loss", tensor=TensorProto(dtype=1, tensor_content=content))
    return Event(step=step, summary=Summary(value=[value]))


def test_a_tensor_that_is_not_a_number_is_an_unread_record(cli: Cli, tmp_path: Path) -> None:
    data = framed(loss(1)) + framed(loss(2, b"abc")) + framed(loss(3, struct.pack("<f", 1.5)))
    (tmp_path / "events.out.tfevents.1").write_bytes(data)
    made = cli("ingest", "events.out.tfevents.1", "--json").document
    assert [(step.step, step.loss) for step in records.steps(made["run"])] == [(1, 2.0), (3, 1.5)]
    assert made["files"][0]["unread"] == 1


@pytest.mark.parametrize("length", [1 << 40, 2**63, 2**64 - 1, 1000])
def test_a_length_beyond_the_file_ends_it_there(tmp_path: Path, length: int) -> None:
    (tmp_path / "events.out.tfevents.1").write_bytes(framed(loss(1)) + framed(loss(2), length) + framed(loss(3)))
    status, document = limited(tmp_path, "events.out.tfevents.1")
    assert (status, document["steps"], document["status"]) == (0, 1, "interrupted")
    (broken,) = [notice for notice in document["notices"] if notice["kind"] == "broken_file"]
    assert f"{length:,} bytes" in broken["message"]


def test_a_large_record_is_passed_over(cli: Cli, tmp_path: Path) -> None:
    graph = Event(step=1, graph_def=b"\x00" * (8 << 20))
    record = graph.SerializeToString()
    header = struct.pack("<Q", len(record))
    large = header + struct.pack("<I", masked_crc32c(header)) + record + b"\x00" * 4
    (tmp_path / "events.out.tfevents.1").write_bytes(framed(loss(1)) + large + framed(loss(2)))
    assert cli("ingest", "events.out.tfevents.1", "--json").document["steps"] == 2


def test_a_step_that_cannot_be_is_an_unread_record(cli: Cli, tmp_path: Path) -> None:
    events = [loss(1), loss(-1), loss(2**62), loss(2)]
    (tmp_path / "events.out.tfevents.1").write_bytes(b"".join(map(framed, events)))
    made = cli("ingest", "events.out.tfevents.1", "--json").document
    assert [step.step for step in records.steps(made["run"])] == [1, 2]
    assert made["files"][0]["unread"] == 2


def test_a_link_in_a_folder_of_event_files_is_refused_and_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.tfevents").write_bytes(framed(loss(1)))
    (tmp_path / "tb").mkdir()
    (tmp_path / "tb" / "events.tfevents").symlink_to(tmp_path / "elsewhere.tfevents")
    done = cli("ingest", "tb", "--json")
    assert (done.status, done.document["error"]["key"]) == (2, "PATH")
    assert "symbolic link" in done.document["error"]["message"]
    assert cli("ingest", "tb/events.tfevents", "--json").document["steps"] == 1  # a link that is named is followed
