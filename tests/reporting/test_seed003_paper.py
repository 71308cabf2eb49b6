"""The paper of seed 003: 18 logs of two platforms become one suite comparison, one LaTeX, one PDF and one bundle."""

import csv
from pathlib import Path
from typing import Any

import pytest

import seed003


@pytest.fixture
def compared(cli: Any, tmp_path: Path) -> str:
    seed003.write(tmp_path / "logs")
    assert cli("ingest", "--suite", "logs", "--name", "gpt3").status == 0
    assert cli("compare", "gpt3/mi300x", "gpt3/h100", "--for", "throughput,memory,flops", "--name", "both").status == 0
    return "runs/comparisons/both"


def test_the_table_has_three_ratios_with_intervals_and_out_of_memory_cells(cli: Any, compared: str) -> None:
    assert cli("report", compared, "--to", "latex,csv", "-o", "paper/").status == 0
    table = csv.DictReader(Path("paper/report.csv").read_text().splitlines())
    rows = [row for row in table if row["metric"] != "convergence"]
    cells = {(row["metric"], row["training.micro_batch_size"]): row for row in rows}
    assert {metric for metric, _ in cells} == {"throughput", "memory", "flops"}
    for metric in ("throughput", "memory", "flops"):
        for size in ("4", "8"):
            row = cells[metric, size]
            assert float(row["low"]) < float(row["ratio"]) < float(row["high"])
            assert (row["target_runs"], row["baseline_runs"]) == ("3", "3")
        assert (cells[metric, "16"]["status"], cells[metric, "16"]["ratio"]) == ("oom", "")
    tex = Path("paper/report.tex").read_text()
    title = next(line for line in tex.splitlines() if "Training " in line)
    assert "6.7b: mi300x compared with h100" in title
    assert "run" not in title
    for name in ("ThroughputSpeedup", "MemoryUsageEfficiency", "FLOPsUtilization", "OOM"):
        assert name in tex


@pytest.mark.tex
def test_the_latex_of_it_compiles(cli: Any, compared: str, compiled: Any) -> None:
    assert cli("report", compared, "--to", "latex", "-o", "paper/").status == 0
    assert "OOM" in compiled(Path("paper/report.tex"), tidy=True)


def test_the_evidence_of_it_is_derived_again(cli: Any, compared: str, tmp_path: Path) -> None:
    assert cli("report", compared, "--to", "md,csv", "--bundle", "all.zip").status == 0
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    assert cli("verify", "all.zip").status == 0
