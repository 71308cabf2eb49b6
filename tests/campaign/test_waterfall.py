"""The result of a ladder: what each change makes of the gap, and what is left for the hardware."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from steelyard.records.suite import LadderSides, Suite, SuiteCell, SuiteManifest

_BATCH = {"training/micro_batch_size": 8, "training/gradient_accumulation_steps": 1}
_PRECISION = {**_BATCH, "precision/fp8": "hybrid"}
RUNGS: dict[str, tuple[float, dict[str, Any]]] = {
    "baseline": (1.0, {}),
    "batch": (0.8, _BATCH),
    "precision": (0.7, _PRECISION),
    "recompute": (0.9, {**_PRECISION, "training/recompute": "full"}),
}
"""By rung: how long a step takes, and the settings."""
NOISE = (1.0, 1.004, 0.997)
Climb = Callable[..., None]


@pytest.fixture
def climb(recorded: Any) -> Climb:
    """Record a ladder with three repeats, and the runs of its sides."""
    serial = count()

    def run(to: str, slower: float, settings: dict[str, Any]) -> Any:
        at = next(serial)
        made = recorded(to=to).slower(slower * (1 + 0.001 * ((3 * at * at + at) % 7 - 3) + 1e-6 * at))  # no two alike
        for key, value in settings.items():
            made.set(f"experiment/{key}", value)
        return made

    def call(noise: Sequence[float] = NOISE, target: float | None = 0.6, baseline: float | None = None) -> None:
        names = [f"repeat-{at}" for at in range(1, len(noise) + 1)]
        for rung, (time, settings) in RUNGS.items():
            for name, weather in zip(names, noise, strict=True):
                run(f"ladder/{rung}/{name}", time * weather, settings)
        sides: dict[str, list[str]] = {"target_runs": [], "baseline_runs": []}
        for side, slower, settings in (("target", target, RUNGS["recompute"][1]), ("baseline", baseline, {})):
            for name, weather in zip(names, noise, strict=True) if slower else ():
                made = run(f"{side}/{name}", slower * weather, settings)
                if side == "target":
                    made.set("platform/gpu", "b200").set("platform/gpu_name", "b200")
                sides[f"{side}_runs"].append(f"../{side}/{name}")
        cells = [SuiteCell(name=rung, directory=rung, values={"ladder": rung}, runs=names) for rung in RUNGS]
        ladder = LadderSides(target="b200", baseline="h200", **sides)
        Suite(Path("runs/ladder"), SuiteManifest(name="ladder", axes=["ladder"], cells=cells, ladder=ladder)).save()

    return call


def _ladder(cli: Any) -> dict[str, Any]:
    return cli("check", "ladder", "--json").document["ladder"]


def test_factors_are_those_of_the_step_times_and_multiply_to_the_gap(cli: Any, climb: Climb) -> None:
    climb()
    made = _ladder(cli)
    assert [step["name"] for step in made["steps"]] == ["batch", "precision", "recompute", "hardware and kernels"]
    values = [step["value"] for step in made["steps"]]
    assert values == pytest.approx([1 / 0.8, 0.8 / 0.7, 0.7 / 0.9, 0.9 / 0.6], rel=5e-3)
    assert math.prod(values) == pytest.approx(made["gap"]["value"], rel=1e-9)
    assert made["gap"]["value"] == pytest.approx(1 / 0.6, rel=5e-3)
    assert sum(step["share"] for step in made["steps"]) == pytest.approx(1)
    for step in (*made["steps"], made["gap"], made["changes"]):
        assert step["low"] < step["value"] < step["high"]
    assert made["steps"][1]["changes"] == {"precision.fp8": {"before": None, "after": "hybrid"}}
    assert made["steps"][3]["changes"]["platform.gpu"] == {"before": "h200", "after": "b200"}
    assert made["steps"][3]["changes"].keys() == {"platform.gpu"}
    assert [rung["runs"] for rung in made["rungs"]] == [3, 3, 3, 3, 3]
    assert made["has_rest"]
    assert made["warm_up"]["value"] == pytest.approx(1, abs=1e-3)  # all runs warm up alike


def test_the_terminal_and_the_reports_show_the_gap_and_its_parts(cli: Any, climb: Climb) -> None:
    climb()
    shown = cli("check", "ladder").out
    assert "ladder: h200 to b200: +66." in shown
    assert "the rest (hardware and kernels) +" in shown
    assert cli("runs", "show", "ladder").out.count("h200 to b200") == 1
    assert cli("report", "ladder", "--to", "html,md").status == 0
    page = Path("runs/ladder/report.html").read_text()
    assert page.count('<rect class="bar tone-') == 6
    assert "Factors multiply: 1.2" in page
    text = Path("runs/ladder/report.md").read_text()
    assert "| recompute | training.recompute | none | full |" in text
    assert "where they interact, another order gives other factors" in text


def test_without_runs_of_the_target_it_ends_at_the_last_rung(cli: Any, climb: Climb) -> None:
    climb(target=None)
    made = _ladder(cli)
    assert [step["name"] for step in made["steps"]] == ["batch", "precision", "recompute"]
    assert made["gap"] == made["changes"]
    assert not made["has_rest"]
    assert "target_without_runs" in [note["code"] for note in made["notes"]]


def test_runs_of_the_target_can_be_given_to_the_report(cli: Any, climb: Climb, recorded: Any) -> None:
    climb(target=None)
    for at in range(3):
        late = recorded(to=f"late/{at}").slower(0.6 * (1 + at / 1000))
        for key, value in RUNGS["recompute"][1].items():
            late.set(f"experiment/{key}", value)
    assert cli("report", "ladder", "--target", "late", "-o", "late.md").status == 0
    assert "hardware and kernels" in Path("late.md").read_text()
    assert not _ladder(cli)["has_rest"]
    recorded(to="other/repeat-1")
    error = cli("report", "other", "--target", "late", "--json").document["error"]
    assert error["key"] == "RUN|FLEET|COMPARISON"


def test_a_change_within_noise_is_called_so(cli: Any, climb: Climb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNGS, "precision", (0.8, RUNGS["precision"][1]))
    climb(noise=(1.0, 1.05, 0.96))  # of all rungs of a repeat, so steps are known better than rates
    made = _ladder(cli)
    assert made["steps"][0]["high"] / made["steps"][0]["low"] < 1.02
    assert made["steps"][1]["low"] < 1 < made["steps"][1]["high"]
    assert "within noise; recompute" in cli("check", "ladder").out


def test_a_rung_without_a_rate_joins_the_next_step(cli: Any, climb: Climb) -> None:
    climb()
    for run in Path("runs/ladder/precision").iterdir():
        content = json.loads((run / "run.json").read_text())
        content |= {"status": "failed", "failure": {"kind": "oom", "message": "CUDA out of memory"}}
        (run / "run.json").write_text(json.dumps(content))
    made = _ladder(cli)
    names = ["batch", "precision and recompute", "hardware and kernels"]
    assert [step["name"] for step in made["steps"]] == names
    assert made["steps"][1]["value"] == pytest.approx(0.8 / 0.9, rel=5e-3)
    assert made["steps"][1]["changes"].keys() == {"precision.fp8", "training.recompute"}
    (note,) = [note for note in made["notes"] if note["code"] == "rung_not_measured"]
    assert note["message"] == "precision: OOM, so its change is part of recompute"


def test_a_last_rung_without_a_rate_is_part_of_the_rest(cli: Any, climb: Climb) -> None:
    climb()
    shutil.rmtree("runs/ladder/recompute")
    made = _ladder(cli)
    assert [step["name"] for step in made["steps"]] == ["batch", "precision", "hardware and kernels"]
    assert made["steps"][2]["changes"]["training.recompute"] == {"before": "none", "after": "full"}
    assert made["steps"][2]["value"] == pytest.approx(0.7 / 0.6, rel=5e-3)


def test_a_repeat_counts_only_if_every_rung_has_it(cli: Any, climb: Climb) -> None:
    climb(noise=(1.0, 1.004, 0.997, 1.002))
    shutil.rmtree("runs/ladder/batch/repeat-2")
    made = _ladder(cli)
    assert [rung["runs"] for rung in made["rungs"]] == [3, 3, 3, 3, 4]
    assert [note["message"] for note in made["notes"] if note["code"] == "repeats_left_out"] == [
        "left out, because a rung has no rate in it: repeat-2"
    ]
    shutil.rmtree("runs/ladder/batch/repeat-3")
    made = _ladder(cli)
    assert (made["steps"][0]["low"], made["steps"][0]["share"]) == (None, None)
    assert made["steps"][0]["value"] == pytest.approx(1 / 0.8, rel=1e-2)
    assert "too_few_repeats" in [note["code"] for note in made["notes"]]
    assert "(no interval)" in cli("check", "ladder").out


@pytest.mark.parametrize("lost", [["baseline"], ["batch", "precision", "recompute"]])
def test_a_ladder_needs_its_first_rung_and_another(cli: Any, climb: Climb, lost: list[str]) -> None:
    climb()
    for rung in lost:
        shutil.rmtree(f"runs/ladder/{rung}")
    made = _ladder(cli)
    assert made["unknown"]["code"] == "ladder_not_measured"
    assert cli("report", "ladder", "--to", "html,md").status == 0


def test_a_rung_that_differs_in_more_than_its_change_is_refused(cli: Any, climb: Climb) -> None:
    climb()
    for run in Path("runs/ladder/precision").iterdir():
        content = json.loads((run / "run.json").read_text())
        content["platform"]["gpu"] = content["platform"]["gpu_name"] = "h100"
        content["platform"]["world_size"] = 2
        (run / "run.json").write_text(json.dumps(content))
    made = _ladder(cli)
    assert made["unknown"]["code"] == "step_not_compared"
    assert made["unknown"]["keys"] == ["platform.world_size"]


def test_a_target_with_another_model_leaves_no_rest(cli: Any, climb: Climb) -> None:
    climb()
    for run in Path("runs/target").iterdir():
        content = json.loads((run / "run.json").read_text())
        content["experiment"]["model"]["num_layers"] = 3
        (run / "run.json").write_text(json.dumps(content))
    made = _ladder(cli)
    assert not made["has_rest"]
    (note,) = [note for note in made["notes"] if note["code"] == "step_not_compared"]
    assert note["keys"] == ["model.num_layers"]


def test_runs_of_the_target_that_are_copies_leave_no_rest(cli: Any, climb: Climb) -> None:
    climb()
    shutil.rmtree("runs/target/repeat-2")
    shutil.copytree("runs/target/repeat-1", "runs/target/repeat-2")
    done = cli("check", "ladder", "--json")
    assert done.document["verdict"] == "pass"
    made = done.document["ladder"]
    assert not made["has_rest"]
    assert "step_not_compared" in [note["code"] for note in made["notes"]]


def test_a_first_rung_unlike_the_baseline_s_own_runs_is_a_caveat(cli: Any, climb: Climb) -> None:
    climb(baseline=1.2)
    made = _ladder(cli)
    assert made["again"]["value"] == pytest.approx(1.2, rel=5e-3)
    assert "baseline_not_reproduced" in [note["code"] for note in made["notes"]]


def test_a_first_rung_like_the_baseline_s_own_runs_is_none(cli: Any, climb: Climb) -> None:
    climb(baseline=1.001)
    made = _ladder(cli)
    assert made["again"]["low"] < 1 < made["again"]["high"]
    assert "baseline_not_reproduced" not in [note["code"] for note in made["notes"]]


@pytest.mark.parametrize("place", ["../gone", "/dev/zero", "../../../../etc", "\x00", "a\u202eb", "../broken"])
def test_a_path_of_the_record_finds_runs_only(cli: Any, climb: Climb, place: str) -> None:
    climb()
    path = Path("runs/ladder/suite.json")
    content = json.loads(path.read_text())
    content["ladder"]["target_runs"] = [place]
    Path("runs/broken").mkdir()
    Path("runs/broken/run.json").write_text("{")
    path.write_text(json.dumps(content))
    made = _ladder(cli)
    assert not made["has_rest"]
    codes = [note["code"] for note in made["notes"]]
    assert {"run_missing", "target_without_runs"} <= set(codes)
    shown = cli("runs", "show", "ladder").out + cli("check", "ladder").out
    assert "\u202e" not in shown


def test_a_longer_sequence_is_shown_with_its_work_per_token(
    cli: Any, climb: Climb, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = {"training/sequence_length": 8192}
    settings = RUNGS["recompute"][1]
    monkeypatch.setitem(RUNGS, "recompute", (0.9, {**settings, **longer}))
    climb()
    made = _ladder(cli)
    assert made["steps"][2]["flops_per_token"] > 1
    assert made["steps"][0]["flops_per_token"] == 1
    cli("report", "ladder", "-o", "ladder.md")
    assert "times the FLOPs, so FLOP/s change by" in Path("ladder.md").read_text()


def test_other_suites_have_no_ladder(cli: Any, climb: Climb) -> None:
    climb()
    path = Path("runs/ladder/suite.json")
    content = json.loads(path.read_text())
    content["ladder"] = None
    path.write_text(json.dumps(content))
    assert _ladder(cli) is None
    assert "ladder:" not in cli("check", "ladder").out
