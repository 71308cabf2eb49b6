"""steelyard demo: the whole story, trained or recorded."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard import records


def follows_the_story(document: dict[str, Any]) -> None:
    assert {"runs", "comparisons", "report"} <= set(document)
    assert len(document["runs"]) == 3
    for run in document["runs"]:
        assert json.loads((Path(run) / "verdict.json").read_text())["verdict"] == "pass"
        assert (Path(run) / "report.html").exists()
    fair, refused = (json.loads((Path(one) / "comparison.json").read_text()) for one in document["comparisons"])
    throughput = fair["comparable"]["throughput"]  # step times that swing on a busy machine are a caveat
    assert throughput["status"] in ("comparable", "qualified")
    assert {reason["code"] for reason in throughput["reasons"]} <= {"check_unknown"}
    assert fair["throughput_speedup"]["words"] == "single-run observation"
    assert refused["comparable"]["throughput"]["status"] == "not_comparable"
    assert refused["throughput_speedup"] is None
    worst = refused["comparable"]["throughput"]["reasons"][0]
    assert (worst["code"], worst["keys"]) == ("setting_differs", ["training.tokens_per_step"])
    assert Path(document["report"]).parent == Path(document["comparisons"][0])
    assert Path(document["report"]).read_text().startswith("<!doctype html>")


@pytest.mark.processes
@pytest.mark.quick
def test_the_recorded_story_needs_no_torch(tmp_path: Path) -> None:
    story = "from steelyard.cli.main import main; main(['demo', '--recorded', '--json'])"
    probe = f"import sys; sys.modules['torch'] = None; {story}"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    follows_the_story(json.loads(done.stdout))


def test_the_recorded_story_is_told_twice_and_in_words(cli: Any) -> None:
    for _ in range(2):
        done = cli("demo", "--recorded")
        assert done.status == 0
        text = re.sub(r"(demo-[a-z-]+[a-z])-2\b", r"\1", done.out)  # the second story of one second
        assert "demo-again runs at 7,753 tokens/s per GPU, demo-baseline at 7,754 (-0.01%). One run each" in text
        assert "Their losses are identical at all 60 steps." in text
        assert "Not comparable: demo-half-batch and demo-baseline use different batch sizes (8,192 and" in text
    assert len(list(records.runs_under(Path("runs")))) == 6


def test_compare_itself_ends_as_the_story_says(cli: Any) -> None:
    runs = cli("demo", "--recorded", "--json").document["runs"]
    assert cli("compare", runs[1], runs[0]).status == 5
    assert cli("compare", runs[2], runs[0]).status == 4


@pytest.mark.torch
@pytest.mark.processes
def test_the_trained_story(shell: Any) -> None:
    done = shell("demo", "--json", "--out", "elsewhere")
    assert done.status == 0, done.err
    follows_the_story(done.document)
    assert "run 3 of 3: training elsewhere/" in done.err
    first = records.load(done.document["runs"][0]).manifest
    assert first.provenance.file == "tiny-llama.yaml"
    assert first.provenance.command[:2] == ["steelyard", "demo"]


def test_without_torch_it_says_what_to_type(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    done = cli("demo", "--json")
    assert done.status == 3
    assert "steelyard demo --recorded" in done.document["error"]["next"]
    assert not Path("runs").exists()


def test_a_place_that_cannot_be_written_is_wrong_input(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cli("demo", "--recorded", "--out", tmp_path / "file").status == 2
