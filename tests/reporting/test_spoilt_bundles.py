"""Bundles spoilt at random: every change is found, and whatever a file contains is answered in words.

STEELYARD_FUZZ_EXAMPLES=2000 pytest tests/reporting/test_spoilt_bundles.py
"""

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bundles
import steelyard
from bounds import bounded
from steelyard.errors import InputError

pytestmark = pytest.mark.fuzz

EXAMPLES = int(os.environ.get("STEELYARD_FUZZ_EXAMPLES", "100"))
SEED = int(os.environ.get("STEELYARD_FUZZ_SEED", "1"))
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 0.5, 10**400, 1e308, -(2**63), "", "NaN", "\x00", "x" * 5000, "../../..", "/etc", "\x1b[31m"),
    *([], {}, [None], [[]], {"": None}, {"a": {"b": {}}}, [1, "a", None], "runs/first", "2026-13-45"),
)
OUTCOMES = ("pass", "fail", "unknown")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: bundles.make(kind, tmp_path_factory.mktemp(kind)) for kind in bundles.KINDS}


def outcome(bundle: Path) -> str:
    """The verdict on a bundle, or that it is refused; any other end of `verify` is an error of ours."""
    with bounded():
        try:
            return str(steelyard.verify(bundle).status)
        except InputError:
            return "refused"


def test_every_change_is_found_with_checksums_made_again_or_not(made: dict[str, Path], tmp_path: Path) -> None:
    chance = random.Random(SEED)
    originals = {kind: bundles.files_of(path) for kind, path in made.items()}
    for at in range(EXAMPLES):
        kind = bundles.KINDS[at % len(bundles.KINDS)]
        files, name = bundles.changed(originals[kind], chance)
        bundle = bundles.pack(tmp_path / "changed.zip", files, with_checksums=bool(at % 2))
        assert outcome(bundle) == "fail", (kind, name, at)


def test_spoilt_bytes_are_refused_or_found(made: dict[str, Path], tmp_path: Path) -> None:
    """A changed bundle passes only where its files are what they were."""
    chance = random.Random(SEED)
    content, files = made["run"].read_bytes(), bundles.files_of(made["run"])
    bundle = tmp_path / "spoilt.zip"
    for _ in range(EXAMPLES):
        bundle.write_bytes(_spoilt(content, chance))
        if outcome(bundle) == "pass":
            assert bundles.files_of(bundle) == files


def _spoilt(content: bytes, chance: random.Random) -> bytes:
    at, size = chance.randrange(len(content)), chance.randint(1, 40)
    table = content.index(b"PK\x01\x02")
    match chance.choice(["flip", "cut", "insert", "repeat", "table"]):
        case "flip":
            return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
        case "cut":
            return content[:at]
        case "insert":
            return content[:at] + chance.randbytes(size) + content[at:]
        case "repeat":
            return content[:at] + content[at : at + size] + content[at:]
    at = chance.randrange(table, len(content))
    return content[:at] + bytes([chance.choice([0, 1, 127, 255])]) + content[at + 1 :]


def test_odd_values_in_documents_are_answered_in_words(made: dict[str, Path], tmp_path: Path) -> None:
    chance = random.Random(SEED)
    for at in range(EXAMPLES):
        kind = bundles.KINDS[at % len(bundles.KINDS)]
        files = bundles.files_of(made[kind])
        kinds: dict[str, list[str]] = {}
        for name in files:
            if name.endswith(".json"):
                kinds.setdefault(name.rpartition("/")[2], []).append(name)
        name = chance.choice(kinds[chance.choice(sorted(kinds))])
        files[name] = json.dumps(_odd(json.loads(files[name]), chance)).encode()
        bundle = bundles.pack(tmp_path / "odd.zip", files, with_checksums=name != bundles.MANIFEST)
        assert outcome(bundle) in (*OUTCOMES, "refused")


def _odd(document: Any, chance: random.Random) -> Any:
    """The document with another value somewhere, or without one."""
    document = copy.deepcopy(document)
    *above, last = chance.choice([place for place in _places(document, ()) if place])
    at = document
    for key in above:
        at = at[key]
    if chance.random() < 0.2:
        del at[last]
    else:
        at[last] = chance.choice(ODD)
    return document


def _places(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*place, key))
