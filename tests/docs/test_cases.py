"""The cases are records: judged again they say what their pages say."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def test_the_puzzle_s_figure_is_drawn_from_its_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "puzzle"
    shutil.copytree(CASES / "convergence-puzzle", folder)
    (folder / "figure.svg").unlink()
    subprocess.run([sys.executable, folder / "figure.py"], check=True)
    assert (folder / "figure.svg").read_text() == (CASES / "convergence-puzzle" / "figure.svg").read_text()
