"""The answer in one line, and the command that leads to a better one."""

from pathlib import Path
from typing import Any

import pytest

from steelyard import comparison
from steelyard.comparison.headline import headline
from steelyard.comparison.next_step import NextStep, next_step
from steelyard.experiment.policy import Metric

SPREAD = (0.99, 1.0, 1.01)


@pytest.fixture
def sides(recorded: Any) -> Any:
    """Two directories of runs, each as many times slower as it says."""

    def make(target: tuple[float, ...], baseline: tuple[float, ...] = SPREAD) -> tuple[str, str]:
        for name, factors in (("mi300x", target), ("h100", baseline)):
            for at, factor in enumerate(factors):
                recorded("baseline", f"{name}/run{at}").slower(factor)
        return "mi300x", "h100"

    return make


def weighed(target: str, baseline: str, *metrics: Metric, **options: Any) -> Any:
    runs = [comparison.load_runs(name.upper(), [name], Path("runs")) for name in (target, baseline)]
    return comparison.weigh(*runs, metrics or (Metric.THROUGHPUT,), **options)


def commands(made: Any) -> tuple[str, ...]:
    step = next_step(made)
    assert step is not None
    return step.commands


@pytest.mark.parametrize(
    ("factors", "word", "sign"),
    [((0.8, 0.81, 0.79), "faster", 1), ((1.25, 1.26, 1.24), "slower", -1), ((0.93, 0.95, 0.94), "faster", 1)],
)
def test_a_decided_ratio_is_a_percentage_with_its_interval_and_both_rates(
    sides: Any, factors: tuple[float, ...], word: str, sign: int
) -> None:
    made = weighed(*sides(factors))
    ratio = made.ratios[Metric.THROUGHPUT]
    low, high = sorted(100 * sign * (bound - 1) for bound in (ratio.low, ratio.high))
    interval = f"95% CI {low:.1f} to {high:.1f}%, 3 runs each"
    rates = f"{ratio.target_figure:,.0f} vs {ratio.baseline_figure:,.0f} tokens/s per GPU"
    text = f"mi300x is {100 * sign * (ratio.value - 1):.1f}% {word} than h100 ({interval}): {rates}"
    assert headline(made).startswith(text)


def test_equivalent_sides_keep_the_sign_of_their_difference(sides: Any) -> None:
    text = headline(weighed(*sides((1.0, 1.01, 1.005))))
    assert text.startswith("mi300x and h100 are equally fast within 5% (-0.5%, 95% CI -2.")


def test_a_difference_that_may_not_matter_says_so(sides: Any) -> None:
    assert headline(weighed(*sides((0.93, 0.95, 0.94)))).endswith("; the difference may be below 5%")


def test_an_undecided_ratio_says_how_many_runs_are_missing(sides: Any) -> None:
    made = weighed(*sides((0.9, 1.0, 1.1)))
    more = made.ratios[Metric.THROUGHPUT].more_runs
    assert headline(made).endswith(f"3 runs each). Undecided: take {more} more runs per side, then compare all")
    run, compare = commands(made)
    assert run == f"steelyard run llama3.1-8b.yaml --gpus 1 --repeats {more}"
    assert [words.rpartition(",")[2] for words in compare.split()[2:]] == ["NEW_TARGET", "NEW_BASELINE"]


def test_one_run_per_side_is_an_observation_and_needs_repeats(recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    made = weighed("again", "baseline")
    figures = "again runs at 7,753 tokens/s per GPU, baseline at 7,754 (-0.01%)"
    assert headline(made) == f"{figures}. One run each: an observation, not a result"
    assert commands(made) == ("steelyard run llama3.1-8b.yaml --gpus 1 --repeats 3",)


def test_less_memory_is_named_as_such(recorded: Any) -> None:
    for name, gib in (("mi300x", 99.0), ("h100", 132.0)):
        for at in range(3):
            run = recorded("baseline", f"{name}/run{at}").slower(1 + at / 1000)
            run.without_telemetry().edit_steps(lambda step, gib=gib: {**step, "memory_gib": gib})
    made = weighed("mi300x", "h100", Metric.MEMORY)
    text = "mi300x needs 25.0% less memory than h100 (95% CI 25.0 to 25.0%, 3 runs each): 99.0 vs 132 GiB per GPU"
    assert headline(made) == f"{text} (torch reserved peak)"


def test_a_refusal_names_the_difference_and_the_setting_that_removes_it(recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    made = weighed("half-batch", "baseline")
    tokens = "(8,192 and 16,384 tokens per step)"
    assert headline(made) == f"Not comparable: half-batch and baseline use different batch sizes {tokens}"
    assert commands(made) == ("steelyard run llama3.1-8b.yaml --gpus 1 --set training.global_batch_size=8",)


def test_metrics_with_one_answer_share_a_line(recorded: Any) -> None:
    recorded("half-batch"), recorded("again"), recorded("baseline")
    refused = headline(weighed("half-batch", "baseline", Metric.THROUGHPUT, Metric.MEMORY))
    assert refused.startswith("Throughput and memory not comparable: half-batch and baseline use")
    assert len(refused.splitlines()) == 1
    rates, curves = headline(weighed("again", "baseline", Metric.THROUGHPUT, Metric.CONVERGENCE)).splitlines()
    assert rates.startswith("Throughput: again runs at 7,753 tokens/s per GPU, ")
    assert curves == "Convergence equivalent: all 6 tiers pass (one seed each)"


def test_curves_that_differ_name_the_first_step(recorded: Any) -> None:
    recorded("again").edit_steps(lambda step: {**step, "loss": step["loss"] * (1.05 if step["step"] > 30 else 1)})
    recorded("baseline")
    made = weighed("again", "baseline", Metric.CONVERGENCE)
    assert headline(made).startswith("Not equivalent from step 31: ")


def test_a_log_without_settings_is_imported_again(cli: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        rows = "".join(f"{step},{10 - step / 20 - (name == 'a') / 1000},1.0{step % 7}\n" for step in range(1, 61))
        (tmp_path / f"{name}.csv").write_text(f"step,loss,step_time_s\n{rows}")
        cli("ingest", f"{name}.csv", "--name", name)
    made = weighed("a", "b")
    assert headline(made).startswith("Comparability unknown: model.architecture and ")
    step = next_step(made)
    assert step is not None
    assert step.commands == ("steelyard ingest a.csv --config FILE", "steelyard ingest b.csv --config FILE")
    keys = {missing.key for missing in step.missing if missing.side == "both"}
    assert {"model.preset", "training.sequence_length", "platform.world_size", "precision.dtype"} <= keys


@pytest.mark.parametrize("command", [["rm", "-rf", "/"], ["steelyard", "run", "x\x1b[2J.yaml"]])
def test_a_command_of_a_foreign_record_is_not_proposed(recorded: Any, command: list[str]) -> None:
    for name in ("again", "baseline"):
        recorded(name).set("provenance/command", command)
    step = next_step(weighed("again", "baseline"))
    if command[0] == "rm":
        assert step == NextStep(("steelyard run llama3.1-8b.yaml --repeats 3",))
    else:
        assert step is None or not any("x" in text for text in (*step.commands, *step.instead))


def test_names_keep_their_timestamp_only_where_they_would_be_equal(recorded: Any) -> None:
    recorded("again", "20261115T060000-a"), recorded("baseline", "20261116T060000-b")
    recorded("half-batch", "20261116T070000-b")
    assert headline(weighed("20261115T060000-a", "20261116T060000-b")).startswith("a runs at ")
    assert " 20261116T060000-b " in headline(weighed("20261116T070000-b", "20261116T060000-b"))
    assert headline(weighed("20261116T060000-b", "20261116T060000-b")).startswith("b (target) runs at ")


def test_quiet_prints_the_answer_alone_and_verbose_the_evidence(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    asked = ("compare", "half-batch", "baseline", "--for", "throughput,convergence")
    quiet, default, verbose = (cli(*asked, *option).out for option in (("-q",), (), ("-v",)))
    assert default.startswith(quiet)
    assert len(quiet.splitlines()) == 1
    assert "evidence: " not in default
    assert "    evidence: " in verbose
    assert "    to confirm: " in verbose
    assert len(set(default.splitlines())) == len(default.splitlines())
    assert f"next: {commands(weighed('half-batch', 'baseline'))[0]}" in default.splitlines()
    assert default.splitlines()[-1].startswith("or: steelyard compare runs/half-batch runs/baseline ")


def test_metrics_that_were_not_asked_are_one_line(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    out = cli("compare", "again", "baseline").out
    assert [line for line in out.splitlines() if "memory" in line] == [
        "Not asked: memory 0.0%, flops -0.01%, convergence equivalent"
    ]
    assert "Likely causes" not in out


def test_every_next_line_is_one_command(cli: Any, recorded: Any) -> None:
    recorded("again").set("provenance/command", ["steelyard", "run", "x.yaml", "--set", "training.seed=8"])
    recorded("baseline").set("provenance/command", ["steelyard", "run", "x.yaml", "--name", "baseline", "--no-check"])
    lines = cli("compare", "again", "baseline").out.splitlines()
    assert [line for line in lines if line.startswith("next: ")] == [
        "next: steelyard run x.yaml --set training.seed=8 --repeats 3",
        "next: steelyard run x.yaml --repeats 3",
    ]


def test_runs_without_a_command_are_to_be_imported_first(cli: Any, recorded: Any) -> None:
    for name in ("again", "baseline"):
        recorded(name).set("provenance/file", None)
    assert cli("compare", "again", "baseline").out.splitlines()[-2:] == [
        "first import at least 3 runs per side",
        "next: steelyard compare A1,A2,A3 B1,B2,B3",
    ]


def test_the_reason_of_a_refused_metric_that_was_not_asked_is_printed(cli: Any, recorded: Any) -> None:
    recorded("again").set("experiment/training/steps", 30)
    recorded("baseline")
    out = cli("compare", "again", "baseline").out
    assert "convergence not comparable (training.steps differs: 30 on again, 60 on baseline)" in out
