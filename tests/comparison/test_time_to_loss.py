"""Energy, cost and the interval of a time to a loss: only what telemetry, price sheet and steps bear out."""

import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

GPUS = 8


def edit_telemetry(run: Any, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    path = run.directory / "telemetry.jsonl"
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in edit(samples)))


def on_eight_gpus(run: Any) -> Any:
    """The same run with eight times the tokens on eight times the GPUs."""
    run.set("platform/gpus_per_node", GPUS).set("platform/world_size", GPUS)
    run.set("experiment/training/global_batch_size", 8 * GPUS)
    return run.edit_steps(lambda step: {**step, "tokens": step["tokens"] * GPUS})


def weighed(cli: Any, *more: str | Path) -> dict[str, Any]:
    done = cli("compare", "again", "baseline", "--json", *more)
    assert done.status == 5, done.out
    found: dict[str, Any] = done.document["time_to_loss"]
    return found


def watts(side: dict[str, Any]) -> float:
    return float(side["energy_kwh"] * 3.6e6 / side["seconds"])


def test_power_is_that_of_training_and_not_of_starting_up(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    found = weighed(cli)
    assert watts(found["baseline"]) == pytest.approx(678.3, abs=0.5)
    assert found["baseline"]["energy_reason"] is None


def test_a_pause_for_a_checkpoint_is_no_training(cli: Any, recorded: Any) -> None:
    recorded("again")
    run = recorded("baseline")
    pause, at = timedelta(seconds=600), 30
    moments = [datetime.fromisoformat(json.loads(line)["time"]) for line in (run.directory / "steps.jsonl").open()]

    def later(one: dict[str, Any]) -> dict[str, Any]:
        moment = datetime.fromisoformat(one["time"])
        return {**one, "time": (moment + pause * (moment > moments[at - 1])).isoformat()}

    def paused(step: dict[str, Any]) -> dict[str, Any]:
        if step["step"] == at + 1:
            step = {**step, "step_time_s": step["step_time_s"] + 600, "flags": ["checkpoint"]}
        return later(step)

    def idle(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        begun = moments[at - 1]
        quiet = [{**found[0], "time": (begun + timedelta(seconds=s)).isoformat(), "power_w": 80} for s in range(1, 600)]
        return [*map(later, found), *quiet]

    run.edit_steps(paused)
    edit_telemetry(run, idle)
    assert watts(weighed(cli)["baseline"]) == pytest.approx(678.3, rel=0.01)


def test_idle_samples_before_training_change_nothing(cli: Any, recorded: Any) -> None:
    recorded("again"), edit_telemetry(recorded("baseline"), lambda found: [found[0]] * 600 + found)
    assert watts(weighed(cli)["baseline"]) == pytest.approx(678.3, abs=0.5)


def test_a_stretch_sampled_more_often_does_not_weigh_more(cli: Any, recorded: Any) -> None:
    def crowded(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*found[:60], *[{**found[60], "power_w": 60.0}] * 500, *found[60:]]

    recorded("again"), edit_telemetry(recorded("baseline"), crowded)
    assert watts(weighed(cli)["baseline"]) == pytest.approx(678.3, rel=0.01)


def test_one_gpus_power_is_not_that_of_eight(cli: Any, recorded: Any) -> None:
    on_eight_gpus(recorded("again")), on_eight_gpus(recorded("baseline"))
    run = Path("runs/baseline/telemetry.jsonl")
    one = [json.loads(line) for line in run.read_text().splitlines()]
    run.write_text("".join(json.dumps({**x, "device": f"gpu{gpu}"}) + "\n" for x in one for gpu in range(GPUS)))
    found = weighed(cli)
    assert watts(found["baseline"]) == pytest.approx(GPUS * 678.3, rel=1e-3)
    assert found["target"]["energy_kwh"] is None
    assert found["target"]["energy_code"] == "energy_other_gpus"


def between(samples: list[dict[str, Any]], first: str, last: str) -> list[dict[str, Any]]:
    return [one for one in samples if first <= one["time"][11:19] <= last]


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda found: found[:1], "energy_gap"),
        (lambda found: between(found, "06:00:00", "06:00:45"), "energy_gap"),
        (lambda found: between(found, "06:00:00", "06:02:20"), "energy_gap"),
        (lambda found: [one for one in found if not between([one], "06:01:30", "06:01:50")], "energy_gap"),
        (lambda found: [{**one, "power_w": 0} for one in found], "energy_implausible"),
        (lambda found: [{**one, "power_w": -100} for one in found], "energy_implausible"),
        (lambda found: [{**one, "power_w": 1e308} for one in found], "energy_implausible"),
        (lambda found: [{**one, "time": None} for one in found], "energy_no_telemetry"),
        (lambda found: [], "energy_no_telemetry"),
    ],
)
def test_power_that_does_not_cover_training_is_no_energy(cli: Any, recorded: Any, edit: Any, code: str) -> None:
    recorded("again"), edit_telemetry(recorded("baseline"), edit)
    found = weighed(cli)
    assert found["target"]["energy_kwh"] is not None
    assert (found["baseline"]["energy_kwh"], found["baseline"]["energy_code"]) == (None, code), found
    assert code == "energy_no_telemetry" or "gpu0 on localhost" in found["baseline"]["energy_reason"]


@pytest.mark.parametrize("time", [..., "2026-11-15T06:00:45.246+00:00"])
def test_without_moments_of_its_steps_telemetry_says_nothing(cli: Any, recorded: Any, time: Any) -> None:
    def edit(step: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in step.items() if key != "time"} | ({} if time is ... else {"time": time})

    recorded("again"), recorded("baseline").edit_steps(edit)
    assert weighed(cli)["baseline"]["energy_code"] == "energy_steps_undated"


def test_a_line_of_telemetry_that_is_no_text_is_passed_over(cli: Any, recorded: Any) -> None:
    recorded("again")
    with (recorded("baseline").directory / "telemetry.jsonl").open("ab") as file:
        file.write(b'{"time":"2026-11-15T06:01:45.246+00:00","node":"\xff","device":"gpu0","power_w":9}\n')
    assert watts(weighed(cli)["baseline"]) == pytest.approx(678.3, abs=0.5)


def test_why_there_is_no_energy_stands_on_the_terminal_and_in_the_report(cli: Any, recorded: Any) -> None:
    recorded("again"), edit_telemetry(recorded("baseline"), lambda found: [])
    done = cli("compare", "again", "baseline", "--name", "first", "-v")
    assert "energy of baseline unknown: no power telemetry" in done.out
    cli("report", "first", "--to", "md")
    assert "unknown: no power telemetry" in Path("runs/comparisons/first/report.md").read_text()


def test_of_several_runs_the_one_without_power_is_named(cli: Any, recorded: Any) -> None:
    recorded("again", "side/one"), recorded("baseline")
    two = recorded("again", "side/two").slower(1.001)
    edit_telemetry(two, lambda found: [])
    found = cli("compare", "side", "baseline", "--json").document["time_to_loss"]
    assert found["target"]["energy_code"] == "energy_no_telemetry"
    assert found["target"]["energy_reason"].endswith(" (two)")
    assert found["target"]["cost_code"] == "cost_no_prices"


def test_a_time_to_loss_is_never_surer_than_the_speedup_inside_it(cli: Any, recorded: Any) -> None:
    def falling(step: dict[str, Any]) -> dict[str, Any]:
        """A curve of which nobody is unsure, so that the rates decide."""
        return {**step, "loss": 12.6 - 0.01 * step["step"]}

    def drifting(step: dict[str, Any]) -> dict[str, Any]:
        """So alike from step to step that they are worth few."""
        time = 2.1 * (1 + 0.015 * math.sin(step["step"] / 15))
        rate = step["tokens"] / time
        return {**step, "step_time_s": time, "tokens_per_s_per_gpu": rate, "reported_tokens_per_s_per_gpu": rate}

    recorded("again").edit_steps(falling).edit_steps(drifting), recorded("baseline").edit_steps(falling)
    document = cli("compare", "again", "baseline", "--json").document
    speedup, found = document["throughput_speedup"], document["time_to_loss"]
    assert found["interval"] == "within_run"
    assert found["low"] < found["ratio"] < found["high"]
    assert found["high"] / found["low"] >= speedup["high"] / speedup["low"]


def test_steps_that_do_not_vary_give_no_interval(cli: Any, recorded: Any) -> None:
    def constant(step: dict[str, Any]) -> dict[str, Any]:
        rate = step["tokens"] / 2.0
        return {**step, "step_time_s": 2.0, "tokens_per_s_per_gpu": rate, "reported_tokens_per_s_per_gpu": rate}

    recorded("again").edit_steps(constant), recorded("baseline")
    found = weighed(cli, "--name", "first")
    assert (found["low"], found["high"]) == (None, None)
    assert found["ratio"] > 0
    shown = " ".join(cli("compare", "again", "baseline", "-v").out.split())
    assert "no CI: the spread of step times is unknown" in shown
    assert cli("report", "first", "--to", "md").status == 0
    assert "the spread of the step times is unknown" in Path("runs/comparisons/first/report.md").read_text()


def sheet(text: str, name: str = "sheet.yaml") -> tuple[str, str]:
    Path(name).write_text(text)
    return "--prices", name


def test_a_gpu_without_a_price_is_named(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    found = weighed(cli, *sheet("h100: 2.5\n"))
    assert (found["target"]["cost"], found["target"]["cost_code"]) == (None, "cost_no_price")
    shown = " ".join(cli("compare", "again", "baseline", *sheet("h100: 2.5\n")).out.split())
    assert "cost unknown: the price sheet has no price for h200" in shown
    assert "cost" not in cli("compare", "again", "baseline").out


def test_every_run_costs_what_its_own_gpu_does() -> None:
    from steelyard import demo, records, verdict
    from steelyard.comparison import codes
    from steelyard.comparison.side import side
    from steelyard.comparison.time_to_loss import _side
    from steelyard.reasons import Reason

    run = records.load(demo.RECORDED / "baseline")
    platform = run.manifest.platform.model_copy(update={"gpu": "h100"})
    other = records.Run(run.directory, run.manifest.model_copy(update={"platform": platform}), run.status)
    both = side("target", tuple(verdict.read_subject(one) for one in (run, other)))
    found = _side(both, [3600.0, 3600.0], {"h200": 4.0, "h100": 1.0})
    assert found.cost == pytest.approx(2.0)  # the geometric mean, as of the seconds
    found = _side(both, [3600.0, 3600.0], {"h200": 4.0})
    assert found.cost is None
    assert found.cost_reason == Reason(codes.COST_NO_PRICE, {"gpu": "h100", "run": "baseline"})
    assert found.cost_reason.message.endswith("h100 (baseline)")


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("{h200: 3, H200: 5}", "sheet.yaml", "'H200' is h200, which already has a price, expected one price per GPU"),
        ('{"h200": 3, "nvidia h200": 5}', "sheet.json", "is h200, which already has a price"),
        ('{"h200": 3, "h200": 5}', "sheet.json", "duplicate key"),
        ("h200: 3\nh200: 5\n", "sheet.yaml", "h200"),
        ("{}", "sheet.yaml", "is empty, expected a price sheet"),
        ("{}", "sheet.json", "is empty, expected a price sheet"),
        ("", "sheet.yaml", "is empty"),
    ],
)
def test_a_sheet_that_says_nothing_or_two_things_is_refused(
    cli: Any, recorded: Any, text: str, name: str, said: str
) -> None:
    recorded("again"), recorded("baseline")
    done = cli("compare", "again", "baseline", *sheet(text, name))
    assert (done.status, said in done.err) == (2, True), done.err
    assert not Path("runs/comparisons").exists()


def test_where_there_is_no_time_to_loss_it_is_said_why(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    document = cli("compare", "half-batch", "baseline", "--json").document
    assert (document["time_to_loss"], document["time_to_loss_code"]) == (None, "curves_not_comparable")
    shown = cli("compare", "half-batch", "baseline", *sheet("h200: 3\n")).out
    assert "time and cost to a loss unknown: the loss curves are not comparable" in shown
    recorded("again")
    assert cli("compare", "again", "baseline", "--json").document["time_to_loss_reason"] is None
