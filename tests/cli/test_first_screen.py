"""What a terminal of 80 x 24 still shows when a command is done."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tarfile
import termios
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

COLUMNS, ROWS = 80, 24
LOGS = Path(__file__).parents[1] / "frameworks" / "logs" / "real"
_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def screen(*arguments: object, cwd: Path) -> tuple[int, list[str]]:
    """The exit status of steelyard in a terminal, and the rows that are visible afterwards, with the prompt's."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "steelyard", *map(str, arguments)]
    program = subprocess.Popen(command, cwd=cwd, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    printed = b""
    while True:
        try:
            block = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        printed += block
    os.close(controller)
    lines = _COLOR.sub("", printed.decode()).replace("\r", "").splitlines()
    rows = [line[at : at + COLUMNS] for line in lines for at in range(0, max(len(line), 1), COLUMNS)]
    return program.wait(), rows[-(ROWS - 1) :]


CASES = Path(__file__).parents[2] / "docs" / "cases"
PUZZLE = (
    ("amd", "--framework", "primus", "--gpu", "mi300x", "--set", "parallelism.tensor_parallel_size=1"),
    ("nvidia", "--framework", "nemo", "--gpu", "h100", "--set", "parallelism.tensor_parallel_size=4"),
)


def test_a_refused_comparison_fits_with_its_causes(tmp_path: Path, cli: Any) -> None:
    for name, *stated in PUZZLE:
        log = CASES / "convergence-puzzle" / f"{name}.csv"
        cli("ingest", log, "--name", name, *stated, "--gpus", 8, "--set", "model.preset=llama3.1-8b")
    status, rows = screen("compare", "amd", "nvidia", "--for", "throughput,convergence", cwd=tmp_path)
    assert status == 4
    assert rows[0].startswith("Throughput and convergence not comparable: amd and nvidia use different batch")
    causes = rows[rows.index("Likely causes, most decisive first:") + 1 :]
    assert causes[0] == "  nvidia trained on random tokens: its loss stays at ln(50,688) = 10.83"
    assert causes[1].startswith("  amd trained on Megatron's counting mock data (1, 2, 3, ...)")
    assert any(row.startswith("report: steelyard report runs/comparisons/") for row in rows)


def test_a_decided_comparison_fits(tmp_path: Path) -> None:
    with tarfile.open(CASES / "deterministic-kernels" / "runs.tar.gz") as runs:
        runs.extractall(tmp_path, [member for member in runs if member.name.startswith("small")], filter="data")
    status, rows = screen("compare", "small/free", "small/plain", "--for", "throughput,convergence", cwd=tmp_path)
    assert status == 0
    assert rows[:2] == [
        "Throughput: free is 7.0% faster than plain (95% CI 5.4 to 8.6%, 4 runs each):",
        "  200,995 vs 187,879 tokens/s per GPU",
    ]
    assert rows[2] == "Convergence equivalent: all 6 tiers pass (one seed each)"
    assert any(row.startswith("next: steelyard report runs/comparisons/") for row in rows)


@pytest.fixture
def nan_run(tmp_path: Path) -> Path:
    status, _ = screen(
        "ingest", LOGS / "megatron_nan_nocheck.log.gz", "--gpu", "h200", "--gpus", 1, "--name", "nan", cwd=tmp_path
    )
    assert status == 0
    return tmp_path


def test_the_failed_checks_of_a_nan_run_are_on_the_screen_with_the_verdict(nan_run: Path) -> None:
    status, rows = screen("check", "nan", cwd=nan_run)
    assert status == 1
    assert rows[0].startswith("verdict: FAIL (2 failed, ")
    failures = [row.split()[1] for row in rows if row.startswith("  fail ")]
    assert failures == ["loss_finite", "grad_norm_finite"]
    assert rows[-1].startswith("next: steelyard ")


def test_details_are_printed_where_they_are_asked_for(nan_run: Path, cli: Any) -> None:
    run = nan_run / "runs" / "nan"
    assert len(cli("check", run, "--quiet").out.splitlines()) == 1
    assert "  first_loss  " not in cli("check", run).out
    assert "  first_loss  " in cli("check", run, "-v").out


def test_required_unknown_findings_come_first_and_are_marked(cli: Any, recorded: Any) -> None:
    run = recorded().set("experiment/precision", {}).set("experiment/training/steps", 0)
    out = cli("check", run, "--threshold", "mfu>=0.1").out
    unknown = [line for line in out.splitlines() if line.startswith("  unknown ")]
    marked = ["  required: " in line for line in unknown]
    assert marked == [True, True, True, False, False, False]
    assert "  unknown  threshold mfu>=0.1   required: mfu unknown: " in out
