"""Run directories of version 0.1 are read, judged and reported as they were then."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import steelyard

FIXTURES = Path(__file__).parents[1] / "fixtures" / "version_0_1"
RUNS = ("native", "ingested", "hosts", "fleet/10.77.0.11", "fleet/10.77.0.12", "fleet/10.77.0.12-2", "fleet/10.77.0.13")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES, tmp_path / "runs"))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_loads_with_its_steps_and_comes_to_the_verdict_it_had(runs: Path, name: str) -> None:
    then = json.loads((runs / name / "verdict.json").read_text())
    lines = (runs / name / "steps.jsonl").read_text().splitlines()
    run = steelyard.load(runs / name)
    assert run.status == json.loads((runs / name / "run.json").read_text())["status"]
    steps = run.steps()
    assert steps.step.tolist() == [json.loads(line)["step"] for line in lines]
    assert steps.loss.values.tolist() == [json.loads(line)["loss"] for line in lines]
    verdict = steelyard.check(run)
    unnamed = {"peak_flops": "unknown"} if name == "ingested" else {}  # since then, a rate needs a named GPU
    assert verdict.status == ("unknown" if unnamed else then["verdict"])
    before = {finding["check"]: finding["status"] for finding in then["findings"]} | unnamed
    assert {finding.check: finding.status for finding in verdict.findings if finding.check in before} == before
    added = [finding for finding in verdict.findings if finding.check not in before]
    assert not any(finding.required for finding in added)


@pytest.mark.parametrize("name", ["native", "ingested", "hosts"])
def test_a_run_is_reported(runs: Path, name: str) -> None:
    (page,) = steelyard.report(runs / name, to="md")
    assert "pass" in page.read_text()


def test_a_fleet_is_listed_and_shown_with_its_hosts(cli: Any, runs: Path) -> None:
    listed = cli("runs", "list", "--out", runs, "--json").document
    assert {entry["name"] for entry in listed["runs"]} == {"native", "ingested", "hosts"}
    assert [entry["name"] for entry in listed["fleets"]] == ["fleet"]
    shown = cli("runs", "show", "fleet", "--out", runs, "--json").document
    assert [(run["host"], run["status"], run["verdict"]) for run in shown["runs"]] == [
        (f"10.77.0.{host}", "completed", "pass") for host in (11, 12, 13)
    ]


def test_runs_of_that_version_are_compared_with_each_other(runs: Path) -> None:
    comparison = steelyard.compare(
        runs / "hosts", runs / "fleet" / "10.77.0.11", out=runs, metrics=["throughput", "convergence"]
    )
    assert comparison.convergence.document()["status"] == "equivalent"
