"""Two suites: each cell by itself, what holds of each when all are asked at once, and the mean over all."""

import json
import math
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from steelyard.campaign.suite_means import adjusted_outcomes, holm, mean
from steelyard.comparison.intervals import between, outcome_of
from steelyard.records.suite import Suite, SuiteCell, SuiteManifest

SPREAD = (1.0, 1.004, 0.997, 1.002)
AXIS = "model.num_layers"
Add = Callable[..., None]


@pytest.fixture
def add(recorded: Any) -> Add:
    """Add a cell with so many layers to both suites; the target takes so many times as long."""
    serial = count()

    def call(
        layers: int, factor: float, spread: Sequence[float] = SPREAD, oom: str | None = None, **different: Any
    ) -> None:
        for side, slower in (("target", factor), ("baseline", 1.0)):
            for at, noise in enumerate(spread):
                own = 1 + 1e-6 * next(serial)  # a run of its own, and no copy
                run = recorded(to=f"{side}/layers{layers}/repeat-{at}").slower(slower * noise * own)
                run.set("experiment/model/num_layers", layers)
                for key, value in different.items() if side == "target" else ():
                    run.set(key.replace("__", "/"), value)
                if side == oom:
                    run.set("status", "failed").set("failure", {"kind": "oom", "message": "CUDA out of memory"})
            runs = [f"repeat-{at}" for at in range(len(spread))]
            memory = {"planned_gib": 91.25, "available_gib": 79.25}
            _add_cell(
                side,
                SuiteCell(
                    name=f"layers{layers}", directory=f"layers{layers}", values={AXIS: layers}, runs=runs, **memory
                ),
            )

    return call


def _add_cell(suite: str, cell: SuiteCell) -> None:
    path = Path("runs", suite, "suite.json")
    cells = [cell]
    if path.exists():
        cells = [*SuiteManifest.model_validate_json(path.read_text()).cells, cell]
    Suite(path.parent, SuiteManifest(name=suite, axes=[AXIS], cells=cells)).save()


def test_holm_is_what_r_makes_of_it() -> None:
    # p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_the_mean_of_independent_ratios_is_that_of_all_their_runs_together() -> None:
    draw = np.random.default_rng(3)
    sides = [(np.exp(draw.normal(0.1, 0.01, 5)), np.exp(draw.normal(0.0, 0.02, 5))) for _ in range(3)]
    several = [ratio for pair in sides if (ratio := between(*map(list, pair)))]
    overall = mean(several)
    assert overall.value == pytest.approx(stats.gmean([stats.gmean(a) / stats.gmean(b) for a, b in sides]))
    parts = [(np.log(side).var(ddof=1) / len(side) / 9, len(side) - 1) for pair in sides for side in pair]
    variance = sum(part for part, _ in parts)
    assert overall.standard_error == pytest.approx(math.sqrt(variance))
    assert overall.freedom == pytest.approx(variance**2 / sum(part**2 / degrees for part, degrees in parts))


def test_one_ratio_alone_has_the_outcome_it_had() -> None:
    draw = np.random.default_rng(8)
    seen = set()
    for _ in range(400):
        at = draw.choice([0.9, 0.97, 1.0, 1.04, 1.1])
        ratio = between(list(at * np.exp(draw.normal(0, 0.02, 3))), list(np.exp(draw.normal(0, 0.01, 4))))
        assert ratio is not None
        outcome = outcome_of(ratio, 0.05)
        assert adjusted_outcomes([ratio], 0.05) == [outcome]
        seen.add(outcome)
    assert len(seen) == 6


def test_cells_are_matched_by_their_values_and_averaged(cli: Any, add: Add) -> None:
    add(8, 0.8)
    add(16, 0.9)
    add(24, 1.0)
    done = cli("compare", "target", "baseline", "--json")
    assert done.status == 0, done.out
    document = done.document
    values = [cell["throughput_speedup"]["value"] for cell in document["cells"]]
    assert values == pytest.approx([1 / 0.8, 1 / 0.9, 1.0], rel=1e-3)
    overall = document["means"]["throughput_speedup"]
    assert (overall["value"], overall["cells"]) == (pytest.approx(math.prod(values) ** (1 / 3)), 3)
    assert overall["low"] < overall["value"] < overall["high"]
    assert overall["outcome"] == "better"
    adjusted = [cell["adjusted_words"]["throughput"] for cell in document["cells"]]
    assert adjusted == ["faster", "faster", "equivalent within 5%"]
    strict = cli("compare", "target", "baseline", "--margin", "20%", "--json").document["cells"]
    assert [cell["adjusted_words"]["throughput"] for cell in strict] == ["faster", *["equivalent within 20%"] * 2]
    assert "+11.6% throughput (geometric mean of 3 cells" in cli("compare", "target", "baseline").out


def test_what_one_cell_shows_alone_many_may_not(cli: Any, add: Add) -> None:
    wide = (0.94, 1.0, 1.06, 0.99)
    add(8, 0.89, wide)
    alone = cli("compare", "target", "baseline", "--json").document["cells"][0]
    for at in range(4):
        add(16 + 8 * at, 1.0, wide)
    among = cli("compare", "target", "baseline", "--json").document["cells"][0]
    assert alone["throughput_speedup"]["words"] == "faster, maybe by less than 5%"
    assert alone["adjusted_words"]["throughput"] == "faster, maybe by less than 5%"
    assert among["adjusted_words"]["throughput"] == "inconclusive"


def test_a_cell_out_of_memory_is_a_result_and_the_mean_is_of_the_others(cli: Any, add: Add) -> None:
    add(8, 0.8)
    add(16, 0.9)
    add(24, 0.5, oom="baseline")
    done = cli("compare", "target", "baseline", "--for", "throughput,memory", "--json")
    assert done.status == 0, done.out
    document = done.document
    assert document["means"]["throughput_speedup"]["cells"] == 2
    absent = document["cells"][2]["absent"]
    assert absent["target"] is None
    assert absent["baseline"] == {"absence": "oom", "planned_gib": 91.25, "available_gib": 79.25}
    assert [reason["code"] for reason in document["left_out"]["throughput"]] == ["cell_without_figures"]
    shown = cli("compare", "target", "baseline").out
    assert "geometric mean of 2 of 3 cells" in shown
    assert "OOM (plan 91.2 GiB, available 79.2 GiB) on baseline: num layers 24" in shown


def test_a_refused_cell_is_named_and_decides_the_status(cli: Any, add: Add) -> None:
    add(8, 0.8)
    add(16, 0.8)
    add(24, 0.8, experiment__training__sequence_length=1024)
    done = cli("compare", "target", "baseline", "--json")
    assert done.status == 4
    assert done.document["means"]["throughput_speedup"]["cells"] == 2
    (reason,) = done.document["left_out"]["throughput"]
    assert reason["code"] == "cell_not_compared"
    assert "training.sequence_length" in reason["message"]


def test_too_few_runs_of_one_cell_leave_the_mean_without_an_interval(cli: Any, add: Add) -> None:
    add(8, 0.8)
    add(16, 0.8, SPREAD[:2])
    done = cli("compare", "target", "baseline", "--json")
    assert done.status == 5
    assert done.document["means"]["throughput_speedup"]["low"] is None
    assert done.document["means"]["throughput_speedup"]["outcome"] == "too_few_runs"


def test_a_cell_that_one_side_lacks_is_named(cli: Any, add: Add) -> None:
    add(8, 0.8)
    add(16, 0.8)
    path = Path("runs/baseline/suite.json")
    manifest = SuiteManifest.model_validate_json(path.read_text())
    Suite(path.parent, manifest.model_copy(update={"cells": manifest.cells[:1]})).save()
    document = cli("compare", "target", "baseline", "--json").document
    assert document["cells"][1]["absent"]["baseline"]["absence"] == "missing"
    assert document["means"]["throughput_speedup"]["cells"] == 1


def test_one_platform_per_side(cli: Any, add: Add) -> None:
    add(8, 0.8)
    add(16, 0.81, platform__gpu="h100")
    done = cli("compare", "target", "baseline", "--json")
    assert done.status == 2
    assert done.document["error"]["key"] == "TARGET"
    assert "platform.gpu" in done.document["error"]["message"]


def test_one_run_in_two_cells_is_refused(cli: Any, add: Add) -> None:
    add(8, 0.8)
    add(16, 0.8)
    for name in ("steps.jsonl",):
        Path("runs/target/layers16/repeat-0", name).write_bytes(Path("runs/target/layers8/repeat-0", name).read_bytes())
    done = cli("compare", "target", "baseline", "--json")
    assert (done.status, done.document["error"]["key"]) == (2, "TARGET")


def test_a_suite_and_a_run_are_not_compared(cli: Any, add: Add, recorded: Any) -> None:
    add(8, 0.8)
    recorded(to="alone")
    error = cli("compare", "target", "alone", "--json").document["error"]
    assert error["next"] == "steelyard compare runs/target/layers8 alone"
    alone = cli("compare", "target/layers8", "alone", "--json").document
    assert len(alone["target"]) == len(SPREAD)


def test_declarations_apply_to_every_cell_and_are_shown(cli: Any, add: Add) -> None:
    add(8, 0.8, experiment__training__recompute="full")
    add(16, 0.8)
    assert cli("compare", "target", "baseline").status == 4
    done = cli("compare", "target", "baseline", "--accept", "training.recompute=tuned", "--json")
    assert done.status == 0
    assert "training.recompute (tuned)" in done.document["banner"]


def test_the_saved_comparison_is_made_again_and_notices_a_changed_run(cli: Any, add: Add) -> None:
    add(8, 0.8)
    add(16, 0.9)
    saved = cli("compare", "target", "baseline", "--name", "both", "--json").document
    assert Path(saved["suite_comparison"]).name == "both"
    assert cli("report", "both", "--to", "md").status == 0
    text = Path("runs/comparisons/both/report.md").read_text()
    assert "geometric mean of 2 of 2 cells" in text
    steps = Path("runs/target/layers8/repeat-0/steps.jsonl")
    lines = steps.read_text().splitlines()
    lines[5] = json.dumps({**json.loads(lines[5]), "loss": 9.0})
    steps.write_text("\n".join(lines) + "\n")
    error = cli("report", "both", "--json")
    assert error.status == 2
    assert error.document["error"]["next"].startswith("steelyard compare runs/target runs/baseline")
