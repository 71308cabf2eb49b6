"""Fingerprints: equal content has one hash wherever it lies, other content another, and nothing but files is read."""

import gzip
import json
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.data.fingerprint import FILES, TOKENS, fingerprint, fingerprint_if_small
from steelyard.errors import InputError

IDS = [1, 2, 3, 50_000, 7]


def npy(path: Path, dtype: str, ids: list[int] = IDS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.array(ids, dtype=dtype))
    return path


def megatron(prefix: Path, code: int, dtype: str, ids: list[int] = IDS) -> Path:
    prefix.with_name(prefix.name + ".bin").write_bytes(np.array(ids, dtype=dtype).tobytes())
    head = b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, code)
    prefix.with_name(prefix.name + ".idx").write_bytes(head + b"documents")
    return prefix


def test_token_ids_have_one_hash_in_every_format_and_width(tmp_path: Path) -> None:
    made = {
        fingerprint([path]).text
        for path in (
            npy(tmp_path / "a/tokens.npy", "<u2"),
            npy(tmp_path / "b/other.npy", "<i8"),
            npy(tmp_path / "c/big.npy", ">i4"),
            megatron(tmp_path / "c4_text_document", 8, "<u2"),
            megatron(tmp_path / "wide", 4, "<i4"),
            tmp_path / "wide.bin",
        )
    }
    assert len(made) == 1
    assert made.pop().startswith(f"{TOKENS}:")
    assert fingerprint([npy(tmp_path / "d.npy", "<u2", IDS[::-1])]).text not in made


def test_a_directory_is_its_files_whatever_it_is_called(tmp_path: Path) -> None:
    for mount in ("data", "shared"):
        (tmp_path / mount / "c4" / "deep").mkdir(parents=True)
        (tmp_path / mount / "c4" / "a.jsonl").write_text("one")
        (tmp_path / mount / "c4" / "deep" / "b.jsonl").write_text("two")
    made = [fingerprint([tmp_path / mount / "c4"]) for mount in ("data", "shared")]
    assert made[0] == made[1]
    assert (made[0].kind, made[0].files, made[0].size) == (FILES, 2, 6)
    (tmp_path / "shared/c4/a.jsonl").write_text("onet")
    (tmp_path / "shared/c4/deep/b.jsonl").write_text("wo")  # the same bytes, split elsewhere
    assert fingerprint([tmp_path / "shared/c4"]).text != made[0].text


def test_links_devices_and_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for path in ("link", "folder", "pipe", "missing"):
        with pytest.raises(InputError):
            fingerprint([tmp_path / path])
    with pytest.raises(InputError):
        fingerprint([Path("/dev/zero")])


def test_an_id_that_no_tokenizer_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        fingerprint([npy(tmp_path / "a.npy", "<i4", [1, -1])])


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(200 << 20)
    tracemalloc.start()
    try:
        fingerprint([path])
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert fingerprint_if_small(path, 1 << 20) is None
    assert fingerprint_if_small(tmp_path / "missing", 1 << 20) is None


def test_the_verb_prints_how_to_declare_it(cli: Callable[..., Any], tmp_path: Path) -> None:
    npy(tmp_path / "tokens.npy", "<u2")
    document = cli("data", "fingerprint", "tokens.npy", "--json").document
    assert document["declare"] == [f"--set data.fingerprint={document['fingerprint']}"]
    assert (document["kind"], document["files"]) == ("tokens", 1)
    assert document["fingerprint"] in cli("data", "fingerprint", "tokens.npy").out
    assert cli("data", "fingerprint", "missing").status == 2
    assert cli("data").status == 2


LOG = Path(__file__).parents[1] / "frameworks/logs/real/megatron_clean_int1.log.gz"


@pytest.mark.parametrize(
    ("declared", "status", "code"),
    [
        ((), "unknown", "identity_unknown"),
        (("data.dataset=c4", "data.dataset=c4"), "qualified", "setting_differs"),
        (("data.fingerprint=files-sha256:aa", "data.fingerprint=files-sha256:aa"), "qualified", None),
        (("data.fingerprint=files-sha256:aa", "data.fingerprint=files-sha256:bb"), "not_comparable", "setting_differs"),
    ],
)
def test_one_corpus_on_two_mounts(
    cli: Callable[..., Any], tmp_path: Path, declared: tuple[str, ...], status: str, code: str | None
) -> None:
    text = gzip.decompress(LOG.read_bytes()).decode()
    for at, mount in enumerate(("data", "shared")):
        given = text
        for name, value in (("mock_data", "False"), ("data_path", f"['/{mount}/c4']")):
            line = next(line for line in text.splitlines() if line.startswith(f"  {name} ."))
            given = given.replace(line, f"{line.rpartition(' ')[0]} {value}")
        (tmp_path / f"{mount}.log").write_text(given)
        known = ("data.samples=null", *declared[at : at + 1])
        settings = [word for setting in known for word in ("--set", setting)]
        done = cli("ingest", f"{mount}.log", "--name", mount, "--gpu", "h200", "--gpus", "1", *settings)
        assert done.status == 0, done.err
    rulings = cli("compare", "data", "shared", "--for", "throughput,convergence", "--json").document["comparable"]
    assert rulings["throughput"]["status"] in ("comparable", "qualified")
    assert rulings["convergence"]["status"] == status, json.dumps(rulings["convergence"], indent=1)
    of_data = {
        reason["code"] for reason in rulings["convergence"]["reasons"] if str(reason["keys"]).startswith("['data.")
    }
    assert of_data == ({code} if code else set())
