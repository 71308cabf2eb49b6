"""Run directories that somebody else filled: nothing hangs, nothing fills memory, nothing is written through a link."""

import json
import math
import os
import resource
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard import records
from steelyard.errors import InputError
from steelyard.records import Event, Step
from steelyard.records.fleet import held_directory, new_fleet
from steelyard.records.step import to_line
from steelyard.records.strict import LINE_BYTES, MOST_DEEP, blocks, read_json, strict_json, whole_lines
from steelyard.records.writer import beats

FILES = ("run.json", "steps.jsonl", "events.jsonl", "nodes.jsonl", "verdict.json", "telemetry.jsonl", "heartbeat")


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_endless_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def as_loop(path: Path) -> None:
    path.symlink_to(path.name)


def as_directory(path: Path) -> None:
    path.mkdir()


def as_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


KINDS = (as_pipe, as_endless_link, as_loop, as_directory, as_huge)


def bounded(*words: str, gib: int = 2) -> subprocess.CompletedProcess[str]:
    """A command that is killed where it hangs, and fails where it asks for more memory than so much."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (gib << 30, gib << 30))

    return subprocess.run(
        [sys.executable, "-m", "steelyard", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=limit,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_one_bad_manifest_does_not_hide_the_other_runs(cli: Any, recorded: Any, kind: Callable[[Path], None]) -> None:
    recorded("again")
    bad = recorded("baseline", "bad")
    (bad.directory / "run.json").unlink()
    kind(bad.directory / "run.json")
    done = cli("runs", "list")
    assert done.status == 0
    rows = [(words[1], words[3]) for line in done.out.splitlines()[1:] if (words := line.split())]
    assert rows == [("bad", "unreadable"), ("again", "completed")]
    assert done.err.count("\n") == 1
    assert done.err.startswith("unreadable: runs/bad/run.json cannot be read (")
    assert cli("check", "bad", "--json").status == 2
    assert cli("check", "again").status == 0


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_a_regular_file_is_wrong_input_or_not_asked_for(
    cli: Any, recorded: Any, kind: Callable[[Path], None], file: str
) -> None:
    run = recorded().set("status", "running")
    recorded("again")
    (run.directory / file).unlink(missing_ok=True)
    kind(run.directory / file)
    for words in (("check", run), ("report", run), ("runs", "show", run), ("compare", "again", run)):
        done = cli(*words, "--json")
        assert done.status in (0, 1, 2, 4, 5), done.out
        if done.status == 2:
            assert file in done.document["error"]["message"]
    required = ("run.json", "steps.jsonl", "events.jsonl", "nodes.jsonl")
    if file in required or (file == "heartbeat" and kind is not as_huge):
        assert cli("check", run).status == 2


@pytest.mark.processes
def test_a_pipe_and_an_endless_line_end_a_command_in_bounded_memory(recorded: Any, tmp_path: Path) -> None:
    run = recorded()
    os.mkfifo(tmp_path / "runs" / "pipe")
    recorded("again", "hung")
    (tmp_path / "runs/hung/run.json").unlink()
    os.mkfifo(tmp_path / "runs/hung/run.json")
    assert bounded("runs", "list").returncode == 0
    (run.directory / "steps.jsonl").unlink()
    as_huge(run.directory / "steps.jsonl")
    for words in (("check", "baseline"), ("runs", "show", "baseline"), ("compare", "baseline", "baseline")):
        done = bounded(*words)
        assert done.returncode == 2, done.stderr
        assert "a line is longer than 1 MiB" in done.stderr


def test_a_line_may_be_a_mebibyte_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    longest = b"a" * LINE_BYTES + b"\n"
    path.write_bytes(b"short\n" + longest + b"b\n" + longest + b"cut")
    assert [number for number, _ in whole_lines(path)] == [1, 2, 3, 4]
    assert b"".join(blocks(path)) == path.read_bytes()
    for text in (b"a" + longest, b"short\n" + b"a" + longest + b"short\n", b"short\n" + b"a" * (LINE_BYTES + 2)):
        path.write_bytes(text)
        with pytest.raises(InputError, match="a line is longer than 1 MiB"):
            list(whole_lines(path))


def test_events_are_bounded_in_number(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.records.reader.MOST_EVENT_VALUES", 50)
    run = recorded()
    for _ in range(20):
        run.add_event(kind="eval", message="evaluated", step=1, details={"loss": 1.0})
    with pytest.raises(InputError, match="more than 50 values"):
        list(records.events(run))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[" * 100_000, "nested deeper than 64 levels"),
        (b"[" * (MOST_DEEP + 1) + b"]" * (MOST_DEEP + 1), "nested deeper than 64 levels"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "nested deeper than 64 levels"),
        (b"9" * 5000, "4300 digits"),
        (b"1e999", "1e999 is too large"),
        (b"NaN", "NaN is not valid JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": 1', "delimiter"),
    ],
)
def test_a_document_is_bounded_and_strict(tmp_path: Path, text: bytes, reason: str) -> None:
    (tmp_path / "document").write_bytes(text)
    with pytest.raises(ValueError, match=reason):
        read_json(tmp_path / "document")


def test_documents_of_ours_are_read() -> None:
    deepest = b"[" * MOST_DEEP + b"]" * MOST_DEEP
    assert strict_json(b"[" + b"[]," * 500 + b"[]]") == [[]] * 501
    assert strict_json(deepest)
    assert strict_json(b'{"a": [1, 2.5, null, "\\ud800"]}') == {"a": [1, 2.5, None, "\ud800"]}


@pytest.mark.parametrize("version", [[1], {"a": 1}, "1" * 10_000, 10**400, 1.5, True, [[]] * 1000])
@pytest.mark.parametrize("file", ["run.json", "fleet.json", "comparison.json"])
def test_a_version_of_any_type_is_one_sentence(cli: Any, recorded: Any, file: str, version: Any) -> None:
    recorded("again")
    run = recorded()
    fleet = new_fleet(Path("runs"), "fleet", "fleet", ["g1"])
    assert cli("compare", "again", "baseline", "--name", "both").status == 5
    place, words = {
        "run.json": (run.directory, ("check", "baseline")),
        "fleet.json": (fleet.directory, ("check", "fleet")),
        "comparison.json": (Path("runs/comparisons/both"), ("report", "both")),
    }[file]
    content = json.loads((place / file).read_text())
    (place / file).write_text(json.dumps({**content, "schema_version": version}))
    done = cli(*words, "--json")
    assert done.status == 2, done.out
    assert "schema_version is " in done.document["error"]["message"]
    assert len(done.document["error"]["message"]) < 1000


@pytest.mark.parametrize(
    "line", [b'{"step": 2, "loss": 1.0, "memory_kind": "\xff\xfe"}', b'{"step": 2, "x": ' + b"[" * 9999]
)
def test_a_step_that_is_not_text_or_too_deep_is_named_by_its_line(recorded: Any, line: bytes) -> None:
    run = recorded()
    (run.directory / "steps.jsonl").write_bytes(b'{"step": 1}\n' + line + b"\n")
    (run.directory / "nodes.jsonl").write_bytes(b'{"series": "a", "step": 1}\n{"series": "a", ' + line[1:] + b"\n")
    for read in (records.table, records.node_tables, lambda place: list(records.steps(place))):
        with pytest.raises(InputError, match="line 2 cannot be read"):
            read(run.directory)


@pytest.mark.parametrize("name", ["step", "flags", "source", "of a later version"])
def test_only_a_number_is_named_as_not_finite(recorded: Any, name: str) -> None:
    run = recorded()
    (run.directory / "steps.jsonl").write_text(
        json.dumps({"step": 7, "nonfinite": {name: "NaN", "loss": "NaN"}}) + "\n"
    )
    first, _ = records.first_and_last(run.directory)
    assert first is not None
    assert (first.step, first.flags, first.source) == (7, (), None)
    assert math.isnan(first.loss or 0)


ODD = (None, True, -1, 10**400, "", "x", "loss", [], {}, [1], {"a": 1})


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("oom", ["order"]),
        ("memory", ["gib", "kind"]),
        ("summary", ["step_time_ms", "tflops_per_gpu", "tokens_per_s_per_gpu"]),
        ("plan_differs", ["key", "said", "planned"]),
        ("setting_changed", ["key"]),
        ("samples_differ", ["consumed", "said"]),
        ("settings", ["held"]),
        ("fabric", ["network", "asked"]),
        ("nodes_differ", ["rank"]),
        ("host_counters", ["compared", "counters", "kernel", "unread"]),
        ("eval", ["loss"]),
    ],
)
def test_details_of_another_type_break_no_check(cli: Any, recorded: Any, kind: str, names: Any, value: Any) -> None:
    run = recorded().add_event(kind=kind, message="m", step=30, details=dict.fromkeys(names, value))
    done = cli("check", run, "--json")
    assert done.status in (0, 1, 5), done.out
    assert cli("report", run).status == 0


def test_a_detail_of_another_type_counts_as_not_given() -> None:
    event = Event(kind="a", message="m", details={"list": [1], "flag": True, "text": "t", "one": 1, "huge": 10**400})
    assert [event.number(name) for name in ("list", "flag", "text", "one", "huge", "absent")] == [
        *(None,) * 3,
        1,
        None,
        None,
    ]
    assert [event.text(name) for name in ("list", "text", "one")] == [None, "t", None]
    assert [event.scalar(name) for name in ("list", "flag", "text", "one")] == [None, True, "t", 1]
    assert event.whole("one") == 1


def test_nothing_is_written_through_a_link(cli: Any, recorded: Any, tmp_path: Path) -> None:
    run = recorded()
    recorded("again")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("verdict.json", "report.html", "report.md"):
        (run.directory / name).symlink_to(victim)
    (tmp_path / "check.xml").symlink_to(victim)
    (tmp_path / "trend.html").symlink_to(victim)
    assert cli("check", run, "--junit", "check.xml").status == 0
    assert cli("report", run, "--to", "html,md").status == 0
    assert cli("runs", "trend", "--html", "trend.html").status == 0
    assert victim.read_text() == "mine"
    assert json.loads((run.directory / "verdict.json").read_text())["verdict"] == "pass"
    assert (run.directory / "report.html").read_text().startswith("<!doctype html>")


def test_a_run_reached_by_a_link_is_read_and_judged_as_before(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded()
    (tmp_path / "runs" / "latest").symlink_to("baseline")
    for words in (("check", "latest"), ("report", "latest"), ("runs", "show", "latest")):
        assert cli(*words).status == 0
    assert (tmp_path / "runs/baseline/verdict.json").is_file()
    assert [row["name"] for row in cli("runs", "list", "--json").document["runs"]] == ["baseline", "latest"]


def test_a_heartbeat_that_is_not_a_file_neither_hangs_nor_makes_one_elsewhere(tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "runs", "fleet", "fleet", ["g1"])
    beat = fleet.directory / "heartbeat"
    beat.symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match="a symbolic link"):
        beats(fleet.directory)
    with pytest.raises(InputError, match="cannot be locked"), held_directory(fleet.directory):
        pass
    assert not (tmp_path / "victim").exists()
    beat.unlink()
    os.mkfifo(beat)
    with pytest.raises(InputError, match="a named pipe"):
        beats(fleet.directory)
    with pytest.raises(InputError, match="not a regular file"), held_directory(fleet.directory):
        pass
    beat.unlink()
    with held_directory(fleet.directory):
        assert fleet.is_running


@pytest.mark.parametrize(
    ("umask", "folder", "file"), [(0o077, 0o700, 0o600), (0o022, 0o755, 0o644), (0o002, 0o775, 0o664)]
)
def test_a_run_and_its_reports_follow_the_umask(cli: Any, tmp_path: Path, umask: int, folder: int, file: int) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    before = os.umask(umask)
    try:
        assert cli("demo", "--recorded").status == 0
        run = next(path for path in (tmp_path / "runs").iterdir() if path.name.endswith("baseline"))
        manifest = records.load(run).manifest
        writer = records.create_run(tmp_path / "runs", manifest, {"nodes": []}, "ours")
        writer.append_step(Step(step=1))
        writer.append_log("node0.log", b"line\n")
        modes = {mode(path) for path in writer.directory.rglob("*") if path.is_file()}
        writer.finish("completed", 0, None)
    finally:
        os.umask(before)
    assert modes == {file}
    assert {mode(writer.directory), mode(writer.directory / "logs")} == {folder}
    comparison = next((tmp_path / "runs/comparisons").iterdir())
    assert {mode(run), mode(comparison)} == {folder}
    assert {mode(run / "report.html"), mode(run / "verdict.json"), mode(comparison / "comparison.json")} == {file}


def test_a_long_run_is_read_in_little_more_than_its_columns(tmp_path: Path, recorded: Any) -> None:
    run, steps = recorded(), 200_000
    with (run.directory / "steps.jsonl").open("wb") as file:
        for number in range(1, steps + 1):
            file.write(to_line(Step(step=number, loss=1 / number, tokens=8)))
    table = records.table(run.directory)
    assert len(table) == steps
    assert table.loss.values.strides == (8,)
    for constant in (table.tokens.values, table.grad_norm.values, table.steps_covered, table.loss.given):
        assert constant.strides == (0,)
        assert len(constant) == steps


def test_a_directory_that_may_not_be_read_does_not_hide_the_runs(cli: Any, recorded: Any, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read every directory")
    recorded()
    (tmp_path / "runs" / "private").mkdir(mode=0)
    assert [row["name"] for row in cli("runs", "list", "--json").document["runs"]] == ["baseline"]


@pytest.mark.parametrize("file", ["run.json", "steps.jsonl"])
@pytest.mark.processes
def test_a_fleet_with_an_unreadable_run_says_how_to_read_the_others(
    cli: Any, recorded: Any, tmp_path: Path, file: str
) -> None:
    fleet = new_fleet(tmp_path / "runs", "nightly", "unused", ["a", "b"])
    for host in ("a", "b"):
        recorded("baseline", to=f"nightly/{host}")
    (fleet.directory / "b" / file).write_bytes(b"\xff\xfe\n")
    refused = cli("check", "nightly")
    assert refused.status == 2
    command = refused.err.partition("next: ")[2].partition(";")[0]
    subprocess.run(shlex.split(command), check=True)
    judged = cli("check", "nightly", "--json")
    assert judged.status == 5
    runs = json.loads(judged.out)["runs"]
    assert [(run["host"], run["verdict"]) for run in runs] == [("a", "pass"), ("b", None)]
