"""A bundle contains what its report is made from, without secrets, and replaces nothing that is not a bundle."""

import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import bundles
import steelyard
from steelyard.errors import InputError
from steelyard.records.contents import records_digest
from steelyard.records.writer import Heartbeat
from steelyard.secrets import HIDDEN, Redactor

TOKEN = "hf_" + "a1" * 17


@pytest.fixture
def run(recorded: Any) -> Path:
    return Path(recorded("baseline", to="first"))


def test_a_bundle_of_a_run_has_its_report_records_logs_and_verdict(cli: Any, run: Path) -> None:
    (run / "notes.txt").write_text("not a record")
    (run / "logs/link.log").symlink_to("/etc/passwd")
    done = cli("report", "first", "--to", "html,md", "--bundle", "out.zip", "--json")
    assert (done.status, done.document["files"]) == (0, [str(Path("out.zip").resolve())])
    assert sorted(bundles.files_of(Path("out.zip"))) == [
        "bundle.json",
        "report/report.html",
        "report/report.md",
        "runs/first/events.jsonl",
        "runs/first/logs/node0.log",
        "runs/first/plan.json",
        "runs/first/run.json",
        "runs/first/steps.jsonl",
        "runs/first/telemetry.jsonl",
        "runs/first/verdict.json",
    ]
    assert not list(run.glob("report*"))
    assert not (run / "verdict.json").exists()


def test_entries_are_sorted_with_one_time_and_the_manifest_first(run: Path) -> None:
    steelyard.report("first", bundle="out.zip")
    with zipfile.ZipFile("out.zip") as packed:
        entries = packed.infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert entries[0].filename == bundles.MANIFEST
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    content = bundles.files_of(Path("out.zip"))
    manifest = json.loads(content[bundles.MANIFEST])
    assert manifest["files"] == {
        name: bundles.entry_of(text) for name, text in content.items() if name != bundles.MANIFEST
    }
    assert manifest["environment"]["steelyard"] == steelyard.__version__


def test_the_report_and_a_bundle_may_be_written_at_once(run: Path) -> None:
    files = steelyard.report("first", output="ticket.md", bundle="out.zip")
    assert files == [Path("out.zip"), Path("ticket.md")]
    assert json.loads(bundles.files_of(files[0])[bundles.MANIFEST])["formats"] == ["md"]


def test_a_report_prints_the_digest_of_its_records_alike_inside_and_outside_of_a_bundle(run: Path) -> None:
    steelyard.report("first", to="md", bundle="out.zip")
    (report,) = steelyard.report("first", to="md")
    rows = [line for line in report.read_text().splitlines() if line.startswith("| runs/first |")]
    assert len(rows) == 1
    assert rows[0] in bundles.files_of(Path("out.zip"))["report/report.md"].decode()


def test_the_digest_of_a_run_is_that_of_sha256sum(run: Path) -> None:
    names = ("events.jsonl", "logs/node0.log", "plan.json", "run.json", "steps.jsonl", "telemetry.jsonl")
    lines = [f"{hashlib.sha256((run / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    assert records_digest(run) == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_only_a_bundle_is_replaced(cli: Any, run: Path) -> None:
    other = Path("other.zip")
    with zipfile.ZipFile(other, "w") as packed:
        packed.writestr("thesis.txt", "years of work")
    content = other.read_bytes()
    done = cli("report", "first", "--bundle", other, "--json")
    assert (done.status, done.document["error"]["key"]) == (2, "--bundle")
    assert other.read_bytes() == content
    for _ in range(2):
        assert cli("report", "first", "--bundle", "out.zip").status == 0
    for place in ("absent/out.zip", "runs"):
        assert cli("report", "first", "--bundle", place).status == 2


def test_secrets_in_records_and_logs_are_removed_and_named(cli: Any, run: Path) -> None:
    with (run / "logs/node0.log").open("a") as log:
        log.write(f"HF_TOKEN={TOKEN}\n")
    with (run / "events.jsonl").open("a") as events:
        events.write(
            json.dumps({"kind": "error", "message": f'login "{TOKEN}"', "details": {"api_key": "s3cr3t-value"}})
        )
        events.write("\n")
    manifest = json.loads((run / "run.json").read_text())
    manifest["provenance"]["command"] += ["--set", f"env.HF_TOKEN={TOKEN}"]
    (run / "run.json").write_text(json.dumps(manifest, indent=2))
    done = cli("report", "first", "--to", "html,md", "--bundle", "out.zip")
    assert done.status == 0
    assert [name in done.err for name in ("logs/node0.log", "events.jsonl", "run.json")] == [True] * 3
    content = bundles.files_of(Path("out.zip"))
    assert not [name for name, text in content.items() if TOKEN.encode() in text or b"s3cr3t" in text]
    assert json.loads(content["runs/first/events.jsonl"].splitlines()[-1])["details"] == {"api_key": HIDDEN.decode()}
    assert json.loads(content[bundles.MANIFEST])["redacted"] == {
        "runs/first/events.jsonl": 1,
        "runs/first/logs/node0.log": 1,
        "runs/first/run.json": 1,
    }
    assert TOKEN in (run / "logs/node0.log").read_text()
    assert steelyard.verify("out.zip").status == "pass"


def test_a_comparison_of_runs_with_secrets_is_bundled_too(recorded: Any) -> None:
    for name in ("baseline", "again"):
        recorded(name).add_event(kind="error", message=f"token={TOKEN}")
    steelyard.compare("again", "baseline", name="fair")
    steelyard.report("fair", bundle="out.zip")
    assert steelyard.verify("out.zip").status == "pass"
    recorded("again", to="other")
    shutil.copy("runs/other/steps.jsonl", "runs/baseline/steps.jsonl")
    with pytest.raises(InputError, match="has changed since"):
        steelyard.report("fair", bundle="out.zip")


def test_a_binary_log_with_a_secret_is_left_out(run: Path) -> None:
    (run / "logs/events.out.tfevents").write_bytes(b"\0\1" + TOKEN.encode())
    (run / "logs/other.tfevents").write_bytes(b"\0\1\xff no secret\n")
    notes: list[str] = []
    steelyard.report("first", bundle="out.zip", notice=notes.append)
    content = bundles.files_of(Path("out.zip"))
    assert json.loads(content[bundles.MANIFEST])["left_out"] == ["runs/first/logs/events.out.tfevents"]
    assert content["runs/first/logs/other.tfevents"] == b"\0\1\xff no secret\n"
    assert len(notes) == 1
    assert steelyard.verify("out.zip").status == "pass"


@pytest.mark.parametrize(
    ("line", "clean"),
    [
        (b'{"message":"token=abcdefgh12\\"x"}', b'{"message":"token=[redacted]\\"x"}'),
        (b'{"api_key" : "abcdefgh12"}', b'{"api_key" : "[redacted]"}'),
        (b'"HF_TOKEN=abcdefgh12\\n": 1', b'"HF_TOKEN=[redacted]\\n": 1'),
        (b'{"message":"password=\\ud800abcdef"}', b'{"message":"password=[redacted]"}'),
        (b'{"tokens": 1024, "message": "no secret"}', b'{"tokens": 1024, "message": "no secret"}'),
        (b'"token=abcdefgh12', b'"token=abcdefgh12'),
    ],
)
def test_json_stays_json(line: bytes, clean: bytes) -> None:
    redactor = Redactor(as_json=True)
    assert redactor(line) == clean
    assert redactor.changed == (line != clean)


def test_lines_that_differ_in_digits_are_each_looked_at() -> None:
    redactor = Redactor()
    lines = [b"token=123", b"token=12345678", b"step 1 loss 2.5", b"step 2 loss 2.25"]
    assert [redactor(line) for line in lines] == [lines[0], b"token=" + HIDDEN, *lines[2:]]


def test_a_run_that_is_not_over_is_not_bundled(cli: Any, run: Path) -> None:
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**manifest, "status": "running"}))
    heartbeat = Heartbeat(run)
    done = cli("report", "first", "--bundle", "out.zip", "--json")
    heartbeat.stop(run)
    assert (done.status, done.document["error"]["key"]) == (2, "--bundle")
    assert not Path("out.zip").exists()


@pytest.mark.parametrize("name", ["a\\b", "c:d", "a\u202eb"])
def test_a_name_that_a_reader_refuses_is_refused_by_the_writer(cli: Any, run: Path, name: str) -> None:
    (run / "logs" / name).write_text("log")
    done = cli("report", "first", "--bundle", "out.zip", "--json")
    assert (done.status, Path("out.zip").exists()) == ((0, True) if name == "c:d" else (2, False))


def test_the_sides_keep_their_names_though_other_runs_of_their_directory_are_not_bundled(recorded: Any) -> None:
    """A side is called after a directory only if it has all runs of it, and a bundle has no other runs."""
    for side, factor in (("new", 1.01), ("old", 1.0)):
        for at in range(3):
            recorded("baseline", to=f"{side}/{at}").slower(factor * (1 + at * 1e-3))
    made = steelyard.compare(["new/0", "new/1"], "old", name="part")
    assert [side.called for side in made.sides] == ["0 (and 1 more)", "old"]
    steelyard.report("part", to="md", bundle="out.zip")
    report = bundles.files_of(Path("out.zip"))["report/report.md"].decode()
    assert "# 0 (and 1 more) vs old" in report
    assert steelyard.verify("out.zip").status == "pass"
