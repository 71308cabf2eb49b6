"""The cases are records: judged again they say what their pages say."""

import shutil
import subprocess
import sys
import tarfile
from itertools import product
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).parents[2] / "docs" / "cases"


def test_maxtext_on_two_hosts(cli: Any, tmp_path: Path) -> None:
    run = tmp_path / "maxtext"
    shutil.copytree(CASES / "maxtext-two-hosts", run)
    done = cli("check", run, "--json")
    assert (done.status, done.document["verdict"]) == (0, "pass")
    said = {one["check"]: one["message"] for one in done.document["findings"]}
    page = (CASES / "maxtext-two-hosts.md").read_text()
    assert said["first_loss"] in page
    assert said["plan_identity"] in page
    for check in ("completed", "world_identity", "stragglers", "hosts"):
        assert f"`{check}`" in page
        assert next(one["status"] for one in done.document["findings"] if one["check"] == check) == "pass"


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
        line = next(line for line in done.out.splitlines() if "throughput" in line)
        assert f"$ steelyard compare {' '.join((target, baseline, *more))}\n    {line}\n" in weighed
    for line in cli("runs", "family", "small", "larger").out.splitlines():
        assert f"    {line}\n" in weighed
    found = cli("compare", "small/free", "small/plain", *both, "--json").document["convergence"]
    assert found["status"] == "equivalent"
    first_steps = next(one["message"] for one in found["tiers"] if one["tier"] == "first_steps")
    assert "at most 4.6e-05," in first_steps


def test_single_runs_of_one_setting_differ_by_their_own_intervals(cli: Any, weighed: str) -> None:
    outside = 0
    for ours, theirs in product(range(1, 6), repeat=2):
        done = cli("compare", f"twice/again/repeat-{ours}", f"twice/plain/repeat-{theirs}", "--json")
        found = done.document["throughput_speedup"]
        assert (done.status, found["words"]) == (5, "single-run observation")
        outside += not found["low"] <= 1 <= found["high"]
    assert f"of the 25 pairs of single runs, {outside} have an interval" in weighed


@pytest.mark.processes
def test_the_puzzle_s_figure_is_drawn_from_its_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "puzzle"
    shutil.copytree(CASES / "convergence-puzzle", folder)
    (folder / "figure.svg").unlink()
    subprocess.run([sys.executable, folder / "figure.py"], check=True)
    assert (folder / "figure.svg").read_text() == (CASES / "convergence-puzzle" / "figure.svg").read_text()
