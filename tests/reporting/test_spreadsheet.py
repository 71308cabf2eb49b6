"""Figures as CSV: numbers stay numbers, text stays text."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from steelyard.reporting import spreadsheet
from steelyard.reporting.rows import Rows


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r=1", "\uff1d1", '=HYPERLINK("http://x")', "-\n=1"]
)
def test_no_text_is_a_formula(text: str) -> None:
    written = spreadsheet.render(Rows(["cell", "value"], [{"cell": text, "value": -1.5}]))
    ((_, cell, value),) = list(csv.reader(io.StringIO(written)))[1:]
    assert cell[0] not in "=+-@\t\r "
    assert len(written.splitlines()) == 2
    assert float(value) == -1.5


def test_numbers_are_exact_and_missing_values_empty() -> None:
    row = {"a": 0.1 + 0.2, "b": None, "c": math.nan, "d": True, "e": 3, "f": 'x,"y"'}
    written = spreadsheet.render(Rows(list("abcdef"), [row]))
    ((_, *cells),) = list(csv.reader(io.StringIO(written)))[1:]
    assert cells == ["0.30000000000000004", "", "nan", "True", "3", 'x,"y"']


def test_a_comparison_has_a_row_per_cell_and_metric(cli: Any, suites: Any) -> None:
    suites()
    cli("compare", "fast", "slow", "--for", "throughput,memory", "--name", "cells")
    (path,) = cli("report", "cells", "--to", "csv", "--json").document["files"]
    rows = rows_of(path)
    assert [(row["cell"], row["metric"]) for row in rows[:4]] == [
        ("micro batch 4", "throughput"),
        ("micro batch 8", "throughput"),
        ("micro batch 16", "throughput"),
        ("geometric mean", "throughput"),
    ]
    assert len(rows) == 3 * 4
    first, oom, mean = rows[0], rows[2], rows[3]
    assert (first["status"], first["outcome"], first["words"]) == ("comparable", "better", "faster")
    assert float(first["low"]) < float(first["ratio"]) < float(first["high"])
    assert (first["target_runs"], first["training.micro_batch_size"]) == ("3", "4")
    assert (oom["status"], oom["ratio"]) == ("oom", "")
    assert oom["words"] == "baseline OOM (plan 166.0 GiB, available 191.5 GiB)"
    assert float(mean["ratio"]) == pytest.approx(math.sqrt(float(first["ratio"]) * float(rows[1]["ratio"])))
    assert pd.read_csv(path)["ratio"].dtype == float


def test_a_refused_ratio_has_its_reason(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    cli("compare", "half-batch", "baseline", "--for", "throughput,convergence", "--name", "first")
    (path,) = cli("report", "first", "--to", "csv", "--json").document["files"]
    rows = rows_of(path)
    assert [row["metric"] for row in rows] == ["throughput", "memory", "flops", "convergence"]
    assert {row["status"] for row in rows} == {"not_comparable"}
    assert "batch sizes" in rows[0]["reason"]
    assert rows[0]["ratio"] == ""


def test_a_run_has_a_row_per_metric(cli: Any, recorded: Any) -> None:
    run = recorded("baseline")
    (path,) = cli("report", run, "--to", "csv", "--json").document["files"]
    rows = {row["metric"]: row for row in rows_of(path)}
    assert float(rows["tokens_per_s_per_gpu"]["value"]) == pytest.approx(7754, abs=1)
    assert rows["verdict"]["status"] == "pass"
    assert float(rows["last_loss"]["value"]) == pytest.approx(11.95, abs=0.01)
    assert cli("report", run, "--to", "csv").status == 0  # ours is replaced
    Path(path).write_text("step,loss\n1,2\n")
    assert cli("report", run, "--to", "csv").status == 2


def test_a_suite_has_a_row_per_run_and_metric(cli: Any, suites: Any) -> None:
    suites()
    (path,) = cli("report", "slow", "--to", "csv", "--json").document["files"]
    verdicts = [(row["cell"], row["run"], row["words"]) for row in rows_of(path) if row["metric"] == "verdict"]
    assert len(verdicts) == 9
    assert verdicts[-1] == ("micro batch 16", "repeat-2", "OOM")
