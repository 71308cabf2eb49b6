"""Run directories spoilt at random: every command answers in words, in time, in little memory, and writes nowhere else.

STEELYARD_FUZZ_EXAMPLES=2000 pytest tests/records/test_mutated_runs.py
"""

import contextlib
import io
import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bounds import bounded
from steelyard import demo
from steelyard.cli.main import app
from steelyard.errors import SteelyardError
from steelyard.records.fleet import new_fleet

pytestmark = pytest.mark.fuzz

EXAMPLES = int(os.environ.get("STEELYARD_FUZZ_EXAMPLES", "150"))
SEED = int(os.environ.get("STEELYARD_FUZZ_SEED", "1"))
HUGE = 8 << 30

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, 5e-324),
    *("", " ", "NaN", "0", "\x00", "\ud800", "../../..", "/etc/passwd", "x" * 5000, "\x1b[31m", "<script>"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "99999999999-01-01", "2026-13-45", "now", "5e9"),
    *([], {}, [None], [[]], {"": None}, {"a": {"b": {}}}, [1, "a", None], {"loss": "NaN"}, {"step": "NaN"}),
)
RAW = (
    *(b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"[" * 100_000, b'{"a":' * 50_000, b'"\\ud800"', b"\xff\xfe"),
    *(b'"' + b"a" * (2 << 20) + b'"', b"", b"\x00" * 100, b"[" * 900 + b"]" * 900, b"{}", b"null", b"[]", b"\n"),
)
EVENTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("memory", ("gib", "kind")),
    ("summary", ("tokens_per_s_per_gpu", "tflops_per_gpu", "step_time_ms")),
    ("plan_differs", ("key", "said", "planned")),
    ("setting_changed", ("key", "was", "now")),
    ("samples_differ", ("consumed", "said")),
    ("settings", ("held", "said")),
    ("fabric", ("network", "asked")),
    ("nodes_differ", ("rank",)),
    ("host_counters", ("compared", "counters", "kernel", "unread")),
    ("eval", ("loss",)),
    ("oom", ("order",)),
    ("error", ("order", "rank")),
    ("resumed", ("step",)),
)
COMMANDS = (
    ("check", "baseline"),
    ("check", "fleet"),
    ("check", "baseline", "--json", "--junit", "check.xml"),
    ("runs", "list"),
    ("runs", "list", "--json"),
    ("runs", "show", "baseline"),
    ("runs", "show", "baseline", "--json"),
    ("runs", "show", "fleet", "--json"),
    ("runs", "trend", "--json", "--experiment", "llama3.1-8b"),
    ("compare", "again", "baseline", "--json", "--for", "throughput,memory,flops,convergence"),
    ("compare", "fleet", "baseline"),
    ("report", "baseline", "--to", "html,md"),
    ("report", "both"),
    ("report", "fleet"),
)


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    """Runs, a run of several nodes, a fleet, a verdict and a comparison, to be copied for each mutation."""
    out = tmp_path / "healthy" / "runs"
    for name in ("baseline", "again"):
        shutil.copytree(demo.RECORDED / name, out / name)
    steps = (out / "baseline" / "steps.jsonl").read_bytes().splitlines(keepends=True)
    nodes = (b'{"series":"%b",' % series + line[1:] for line in steps for series in (b"a", b"b"))
    (out / "baseline" / "nodes.jsonl").write_bytes(b"".join(nodes))
    with (out / "baseline" / "events.jsonl").open("a") as file:
        for kind, names in EVENTS:
            file.write(json.dumps({"kind": kind, "message": kind, "step": 30, "details": dict.fromkeys(names, 1)}))
            file.write("\n")
    fleet = new_fleet(out, "fleet", "fleet", ["g1", "g2"])
    for place, name in (("g1", "again"), ("g2", "baseline")):
        shutil.copytree(demo.RECORDED / name, fleet.directory / place)
    for words in (("check", "baseline"), ("check", "fleet"), ("compare", "again", "baseline", "--name", "both")):
        assert isinstance(ended(words, tmp_path / "healthy"), int)
    (out / "baseline" / "heartbeat").touch()
    return tmp_path / "healthy"


def ended(words: tuple[str, ...], place: Path) -> int | SteelyardError:
    """How a command ends in a directory; any other exception than ours, and one that takes too long, is raised."""

    try:
        with (
            bounded(),
            contextlib.chdir(place),
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()),
        ):
            status = int(app(list(words), prog_name="steelyard", standalone_mode=False) or 0)
        if "--json" in words:
            json.loads(out.getvalue())
    except SteelyardError as error:
        json.dumps(error.document(), allow_nan=False)
        return error
    else:
        return status


@pytest.mark.quick
def test_a_healthy_tree_is_read_by_every_command(healthy: Path) -> None:
    for words in COMMANDS:
        assert isinstance(ended(words, healthy), int), words


def files_of(place: Path) -> list[Path]:
    """What a mutation may change: the files of runs, fleet and comparison, and one that a command writes."""
    found = sorted(path for path in (place / "runs").rglob("*") if path.is_file() and path.parent.name != "logs")
    names = ("report.html", "report.md", "verdict.json", "heartbeat")
    return [*found, *(place / "runs" / run / name for run in ("baseline", "fleet/g1") for name in names)]


def spoil_bytes(path: Path, rng: random.Random) -> None:
    data = path.read_bytes() if path.exists() else b""
    for _ in range(rng.randint(1, 3)):
        at, to = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        match rng.randrange(5):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 2:
                data = data[:at] + rng.choice(RAW) + data[at:]
            case 3:
                data = data[:at] + rng.choice(RAW) + data[to:]
            case _:
                data = data[:at] + data[to:]
    path.write_bytes(data)


def spoil_values(path: Path, rng: random.Random) -> None:
    """Some values of a document, or of some lines of one, become something else."""
    if not path.exists() or path.suffix not in (".json", ".jsonl"):
        return spoil_bytes(path, rng)
    text = path.read_text()
    if path.suffix == ".json":
        document = json.loads(text)
        for _ in range(rng.randint(1, 3)):
            document = spoilt(document, rng)
        path.write_text(json.dumps(document, indent=rng.choice((None, 2))))
        return None
    lines = text.splitlines()
    for at in rng.sample(range(len(lines)), min(len(lines), rng.choice((1, 1, 5, 60)))):
        lines[at] = json.dumps(spoilt(json.loads(lines[at]), rng))
    path.write_text("\n".join(lines) + "\n")
    return None


def spoilt(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {name: inner for name, inner in value.items() if name != key}
        if rng.random() < 0.05:
            return {**value, "nonfinite": {rng.choice(sorted(value)): rng.choice(("NaN", "Infinity", "nan", 1))}}
        return {**value, key: spoilt(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], spoilt(value[at], rng), *value[at + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.3:
        return value * rng.choice((-1, 0, 10, 1e6, 1e-6, 1e15))
    return rng.choice(ODD)


def spoil_kind(path: Path, rng: random.Random) -> None:
    """Something else than a regular file."""
    path.unlink(missing_ok=True)
    match rng.randrange(8):
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to(rng.choice(("/dev/zero", "/dev/full", "/dev/tty", "/etc/passwd", "/proc/self/mem")))
        case 2:
            path.symlink_to(path.name)
        case 3:
            path.symlink_to(next(one for one in path.parents if one.name == "spoilt") / "victim")
        case 4:
            path.mkdir()
        case 5:
            with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
        case 6:
            with path.open("wb") as file:
                file.truncate(HUGE)
        case _:
            if os.geteuid() == 0:
                os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero


def add_event(path: Path, rng: random.Random) -> None:
    """An event whose details are of any type."""
    kind, names = rng.choice(EVENTS)
    event = {"kind": kind, "message": "m", "step": rng.choice((None, 1, 30)), "details": {}}
    event["details"] = {name: rng.choice(ODD) for name in names if rng.random() < 0.9}
    with (path.parents[0] / "events.jsonl").open("a") as file:
        file.write(json.dumps(event) + "\n")


def mutate(place: Path, rng: random.Random) -> str:
    files = files_of(place)
    told = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(files)
        spoil: Callable[[Path, random.Random], None] = rng.choice(
            (spoil_bytes, spoil_values, spoil_values, spoil_values, spoil_kind)
        )
        if rng.random() < 0.15:
            path, spoil = place / "runs" / "baseline" / "events.jsonl", add_event
        if path.is_symlink() or (path.exists() and not path.is_file()) or not path.parent.is_dir():
            continue
        if path.exists() and path.stat().st_size > 1 << 26:
            continue
        with contextlib.suppress(
            ValueError, OverflowError, RecursionError
        ):  # what was spoilt before may not be JSON any more
            spoil(path, rng)
        told.append(f"{spoil.__name__} {path.relative_to(place)}")
    return "; ".join(told)


def around(place: Path) -> Iterator[tuple[str, bytes]]:
    """What lies outside the runs, by content; `check.xml` is asked for."""
    for path in sorted(place.rglob("*")):
        inside = path.relative_to(place).parts[0]
        if inside not in ("runs", "check.xml") and path.is_file():
            yield str(path), path.read_bytes()


def test_spoilt_run_directories_break_nothing(healthy: Path, tmp_path: Path) -> None:
    """Only a status or an error of ours, whatever is done to the files; and nothing but the runs is written to."""
    for number in range(EXAMPLES):
        rng = random.Random(f"{SEED} {number}")
        place = tmp_path / "spoilt"
        shutil.copytree(healthy, place)
        (place / "victim").write_text("mine")
        (place / "elsewhere").mkdir()
        done = mutate(place, rng)
        before = list(around(place))
        for words in rng.sample(COMMANDS, 3):
            try:
                ended(words, place)
            except Exception as wrong:
                raise AssertionError(f"seed {SEED}, example {number}: {done}: {' '.join(words)}") from wrong
            assert list(around(place)) == before, (number, done, words)
        shutil.rmtree(place)
