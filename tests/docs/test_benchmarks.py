"""Benchmarks are scripts: each starts in its own folder, beside a file with a name of the standard library."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

SCRIPTS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_benchmark_does_not_take_a_neighbour_for_the_standard_library(script: Path) -> None:
    probe = (
        "import runpy, sys; sys.path.insert(0, sys.argv[1]); runpy.run_path(sys.argv[2], run_name='read');"
        "import statistics; print(hasattr(statistics, 'median') or 'statistics' not in open(sys.argv[2]).read())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", probe, script.parent, script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
