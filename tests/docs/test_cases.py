"""The cases are records: judged again they give the figures of their pages."""

import shutil
import subprocess
import sys
import tarfile
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from steelyard import records

CASES = Path(__file__).parents[2] / "docs" / "cases"


def test_maxtext_on_two_hosts(cli: Any, tmp_path: Path) -> None:
    run = tmp_path / "maxtext"
    shutil.copytree(CASES / "maxtext-two-hosts", run)
    done = cli("check", run, "--json")
    assert (done.status, done.document["verdict"]) == (0, "pass")
    findings = {finding["check"]: finding for finding in done.document["findings"]}
    page = (CASES / "maxtext-two-hosts.md").read_text()
    assert f"{findings['first_loss']['observed']:.4f}; an untrained" in page
    assert "| `plan_identity` | 31 logged settings match" in page
    for check in ("completed", "throughput_identity", "plan_identity", "world_identity", "stragglers", "hosts"):
        assert f"`{check}`" in page
        assert findings[check]["status"] == "pass"
    assert "loss_falling" in done.document["not_applicable"]
    steps = records.table(run).loss.values
    assert f"from {steps[0]:.3f} to {steps[-1]:.3f}" in page


@pytest.fixture
def weighed(tmp_path: Path) -> str:
    """The page, with the runs of the case here."""
    with tarfile.open(CASES / "deterministic-kernels" / "runs.tar.gz") as runs:
        runs.extractall(tmp_path, filter="data")
    return (CASES / "deterministic-kernels.md").read_text()


def test_deterministic_kernels_on_an_h200(cli: Any, weighed: str) -> None:
    both = ("--for", "throughput,convergence")
    for target, baseline, *more in (
        ("twice/again", "twice/plain"),
        ("small/free", "small/plain", *both, "--name", "small"),
        ("larger/free", "larger/plain", *both, "--name", "larger"),
    ):
        done = cli("compare", target, baseline, *more)
        assert done.status == 0
        assert done.out.splitlines()[0] in weighed
    convergence = cli("compare", "small/free", "small/plain", *both, "--json").document["convergence"]
    assert convergence["status"] == "equivalent"
    first_steps = next(tier for tier in convergence["tiers"] if tier["tier"] == "first_steps")
    assert "at most 0.0046%" in first_steps["message"]
    assert "at most 4.6e-05 over" in weighed


def test_single_runs_of_one_setting_differ_by_their_own_intervals(cli: Any, weighed: str) -> None:
    outside = 0
    for ours, theirs in product(range(1, 6), repeat=2):
        done = cli("compare", f"twice/again/repeat-{ours}", f"twice/plain/repeat-{theirs}", "--json")
        ratio = done.document["throughput_speedup"]
        assert (done.status, ratio["outcome"]) == (5, "single_run")
        outside += not ratio["low"] <= 1 <= ratio["high"]
    assert f"of the 25 pairs of single runs, {outside} have an interval" in weighed


@pytest.mark.processes
def test_the_puzzle_s_figure_is_drawn_from_its_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "puzzle"
    shutil.copytree(CASES / "convergence-puzzle", folder)
    (folder / "figure.svg").unlink()
    subprocess.run([sys.executable, folder / "figure.py"], check=True)
    assert (folder / "figure.svg").read_text() == (CASES / "convergence-puzzle" / "figure.svg").read_text()
