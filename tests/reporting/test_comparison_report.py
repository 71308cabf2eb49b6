"""A comparison on paper: the answer first, what it rests on, and what it does not claim."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

CASE = Path(__file__).parents[2] / "docs" / "cases" / "convergence-puzzle"
STATED = {
    "amd": ("--framework", "primus", "--gpu", "mi300x", "--set", "parallelism.tensor_parallel_size=1"),
    "nvidia": ("--framework", "nemo", "--gpu", "h100", "--set", "parallelism.tensor_parallel_size=4"),
}


def scaled(run: Any, by: float) -> Any:
    """Its steps take so many times as long."""
    rates = ("tokens_per_s_per_gpu", "tflops_per_gpu", "reported_tokens_per_s_per_gpu")

    def edit(step: dict[str, Any]) -> dict[str, Any]:
        slower = {key: step[key] / by for key in rates if step.get(key)}
        return {**step, **slower, "step_time_s": step["step_time_s"] * by}

    return run.edit_steps(edit)


@pytest.fixture
def repeated(recorded: Any) -> Any:
    """Three runs a side, each with a seed and a pace of its own."""

    def make(target: float, spread: float = 0.01) -> None:
        for at in range(3):
            for side, pace in (("target", target), ("baseline", 1.0)):
                run = scaled(recorded("baseline", f"{side}s/{side}{at}"), pace * (1 + spread * (at - 1)))
                run.set("experiment/training/seed", 100 + at if side == "target" else 200 + at)

    return make


@pytest.fixture
def puzzle(cli: Any) -> None:
    for name, stated in STATED.items():
        own = (*stated, "--gpus", "8", "--set", "model.preset=llama3.1-8b", "--name", name)
        assert cli("ingest", CASE / f"{name}.csv", *own).status == 0


def reports(cli: Any, *words: str) -> tuple[str, str]:
    """The Markdown and the HTML of a comparison."""
    cli("compare", *words, "--name", "first")
    made = cli("report", "first", "--to", "md,html", "--json").document["files"]
    return Path(made[0]).read_text(), Path(made[1]).read_text()


def section(markdown: str, title: str) -> str:
    return markdown.split(f"## {title}")[1].split("\n## ")[0]


def curves(html: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(html.split('id="curves">')[1].split("</script>")[0])
    return found


def test_a_decided_ratio_is_said_in_a_sentence_with_interval_and_margin(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    markdown, html = reports(cli, "targets", "baselines")
    assert "**FASTER**: The target is faster: 1.25" in markdown
    assert "between 3 and 3 runs, all of it beyond the margin of 0.05." in markdown
    assert '<span class="word tone-good">faster</span>' in html


def test_of_an_open_ratio_the_runs_it_lacks_are_said(cli: Any, repeated: Any) -> None:
    repeated(0.98, spread=0.06)
    markdown, _ = reports(cli, "targets", "baselines")
    assert re.search(r"\*\*INCONCLUSIVE, ABOUT \d+ MORE RUNS? A SIDE\*\*", markdown)
    assert re.search(r"no claim that one side is faster or uses its GPUs better: inconclusive", markdown)


def test_one_run_a_side_is_an_observation_and_claims_nothing(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    markdown, html = reports(cli, "again", "baseline", "--for", "throughput,convergence")
    assert "**Throughput: single-run observation.**" in markdown
    assert "**Convergence: equivalent.** The two sides learn alike" in markdown  # of one seed, bit for bit
    assert "That is said of these seeds; what another would do is not known." in markdown
    refused = section(markdown, "What is not claimed")
    assert "single-run observation, and one run says nothing of the next" in refused
    assert "no claim of equal convergence in general: 1 and 1 known seeds" in refused
    assert "run by run" not in markdown
    assert html.count('class="run ') == 0


def test_each_question_has_an_answer_of_its_own(cli: Any, repeated: Any, recorded: Any) -> None:
    repeated(0.8)
    for at in range(3):
        path = Path(f"runs/targets/target{at}/steps.jsonl")
        steps = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({**one, "loss": one["loss"] * 1.05}) + "\n" for one in steps))
    markdown, html = reports(cli, "targets", "baselines", "--for", "throughput,convergence")
    assert "**NOT EQUIVALENT**: That is the worst of what was asked." in markdown
    assert "**Throughput: faster.** The target is faster" in markdown
    assert (
        "**Convergence: not equivalent.** The two sides do not learn alike: first\\_loss is the first tier" in markdown
    )
    tiers = section(markdown, "Convergence: not equivalent")
    assert "| fail | first\\_loss (the first that fails) |" in tiers
    assert "level" not in tiers  # what comes after a failure is not asked
    assert "first_loss (the first that fails)" in html


def test_every_run_is_a_dot_beside_the_others_of_its_side(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    markdown, html = reports(cli, "targets", "baselines")
    runs = section(markdown, "Ratios").split("### Throughput speedup, run by run")[1].split("###")[0]
    relative = [float(one) for one in re.findall(r"\| target \(target\d\) \| [\d,.]+ \| ([\d.]+) \|", runs)]
    assert relative == pytest.approx([1.25 / 0.99, 1.25, 1.25 / 1.01], rel=2e-3)
    figure = html.split("<h3>Throughput speedup, run by run</h3>")[1].split("</figure>")[0]
    places = [float(one) for one in re.findall(r'class="run run-0" cx="([\d.]+)%"', figure)]
    assert places == sorted(places, reverse=True)
    assert len(places) == 3
    assert figure.count('class="run run-1"') == 3
    assert "<title>target (target0) 1.26" in figure


def test_an_interval_plot_is_told_to_a_screen_reader(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    _, html = reports(cli, "targets", "baselines")
    figure = html.split('<figure class="intervals">')[1].split("</figure>")[0]
    assert '<title id="before-1-1-1-t">Throughput speedup</title>' in figure
    assert re.search(r'<desc id="before-1-1-1-d">1\.25\d+ \[[\d., ]+\], faster</desc>', figure)
    assert figure.count('role="img" aria-labelledby=') == 3
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_a_side_of_three_runs_has_a_band_from_its_lowest_to_its_highest(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    for at in range(3):
        path = Path(f"runs/targets/target{at}/steps.jsonl")
        steps = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({**one, "loss": one["loss"] + at / 100}) + "\n" for one in steps))
    loss, time = curves(reports(cli, "targets", "baselines")[1])[:2]
    band = loss["spreads"][0]
    assert band["label"] == "target: lowest to highest of 3 runs"
    assert [high - low for low, high in zip(band["low"], band["high"], strict=True)] == pytest.approx(
        [0.02] * 60, abs=1e-3
    )
    assert time["spreads"] == []


def test_a_refusal_says_why_and_shows_no_ratio(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    markdown, html = reports(cli, "half-batch", "baseline")
    assert "**NOT COMPARABLE**: Refused: training.tokens\\_per\\_step differs: 8,192 on the target" in markdown
    assert "\n## Ratios" not in markdown
    assert 'class="intervals"' not in html
    refused = section(markdown, "What is not claimed")
    assert "throughput, memory, flops and convergence: training.tokens\\_per\\_step differs" in refused
    assert "no claim about the time to a loss: the curves are not comparable" in refused


def test_a_forced_ratio_stands_under_a_banner_and_is_marked_wherever_it_stands(cli: Any, puzzle: None) -> None:
    markdown, html = reports(cli, "amd", "nvidia", "--for", "throughput,convergence", "--force")
    lines = [line for line in markdown.splitlines() if line]
    assert lines[1].startswith("> **FORCED: the contract refuses these ratios")
    assert lines[2].startswith("# ")
    assert html.index('<div class="banner"') < html.index("<header>")
    assert "<title>FORCED, not comparable" in html
    shown = [line for line in lines if "4.03" in line and "by tokens is 4.03" not in line and "steelyard" not in line]
    assert len(shown) >= 4
    assert [line for line in shown if "FORCED" not in line] == []
    assert re.search(
        r"steelyard compare \S+ \S+ --for throughput,convergence --mode best --margin 0.05 --force", markdown
    )


def test_without_a_forced_ratio_there_is_no_banner(cli: Any, puzzle: None) -> None:
    markdown, html = reports(cli, "amd", "nvidia")
    assert "FORCED" not in markdown
    assert 'class="banner"' not in html


def test_diagnoses_are_sentences_and_their_floors_stand_in_the_plot(cli: Any, puzzle: None) -> None:
    markdown, html = reports(cli, "amd", "nvidia", "--for", "throughput,convergence")
    told = section(markdown, "What explains the difference")
    points = [line for line in told.splitlines() if line.startswith("- ")]
    assert points[0].startswith("- The baseline had reached the model uniform over GPT-2's vocabulary padded to 50,688")
    assert points[1].startswith("- The target learnt Megatron's counting mock data")
    assert told.count("  - Rests on: ") == told.count("  - To confirm: ") == len(points)
    levels = {one["label"]: one["value"] for one in curves(html)[0]["levels"]}
    assert levels["floor of uniform tokens, ln 50,257"] == pytest.approx(10.8249, abs=1e-4)
    assert levels["floor of counting data"] == pytest.approx(0.00406, abs=1e-5)
    assert levels["untrained baseline, by its first loss"] == pytest.approx(11.6526, abs=1e-4)
    losses = section(markdown, "Losses side by side")
    assert "| side | step 0 | step 10 | step 20 | step 50 | step 100 |" in losses
    assert "| target | 11.8970 | 3.4120 | 0.2310 | - | 0.0140 |" in losses


def test_the_time_to_a_loss_has_its_interval_and_says_what_is_not_known_of_it(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    markdown, _ = reports(cli, "targets", "baselines", "--for", "convergence")
    told = section(markdown, "Time to a loss of")
    assert re.search(r"Target over baseline 0\.80\d+, 95% interval 0\.\d+ to 0\.\d+ between runs", told)
    assert "unknown: no price sheet was given (--prices)" in told
    assert "no claim about the cost to a loss: that of the target and the baseline is not known" in markdown


def test_costs_are_told_by_the_sheet_and_the_command_brings_it(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    Path("sheet.yaml").write_text("h200: 3.5\n")
    markdown, _ = reports(cli, "targets", "baselines", "--prices", "sheet.yaml", "--margin", "0.03")
    assert "unknown: " not in section(markdown, "Time to a loss of")
    assert "echo '{\"h200\": 3.5}' > prices.json" in markdown
    assert "--margin 0.03 --prices prices.json" in markdown


def test_runs_of_one_node_speak_for_that_node(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    for path in Path("runs/targets").glob("*/run.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "hosts": ["node7"]}))
    markdown, _ = reports(cli, "targets", "baselines")
    assert "all runs of the target were made on node7: they speak for that node" in section(
        markdown, "What is not claimed"
    )


def test_runs_of_one_seed_are_repeats_and_say_nothing_of_others(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    for path in Path("runs/targets").glob("*/run.json"):
        content = json.loads(path.read_text())
        content["experiment"]["training"]["seed"] = 7
        path.write_text(json.dumps(content))
    markdown, _ = reports(cli, "targets", "baselines", "--for", "convergence")
    assert "no claim about other seeds: of the runs of the target all have seed 7" in markdown


def test_what_is_not_known_is_a_disclaimer_by_its_key(cli: Any, recorded: Any) -> None:
    recorded("again").set("experiment/precision/dtype", None)
    recorded("baseline")
    markdown, _ = reports(cli, "again", "baseline")
    assert "throughput, memory and flops: precision.dtype is not known of the target; no claim" in markdown


def test_what_was_not_asked_is_folded_and_says_so(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    markdown, html = reports(cli, "again", "baseline")
    assert "<details><summary>Convergence, which was not asked: equivalent</summary>" in markdown
    assert "<summary><h2>Convergence, which was not asked: equivalent</h2></summary>" in html
    assert "not judged" not in markdown


def test_a_title_of_many_runs_names_what_holds_them(cli: Any, recorded: Any) -> None:
    for side, first in (("fast", 0.8), ("slow", 1.0)):
        for at in range(3):
            recorded("baseline", f"{side}/repeat-{at}").slower(first * (1 + at / 100))
    made = cli("compare", "fast", "slow", "--json").document["comparison"]
    assert cli("report", made, "--to", "md", "-o", "page.md").status == 0
    assert "fast (3 runs) against slow (3 runs)" in Path("page.md").read_text()


def test_repeats_of_one_seed_say_nothing_of_another(cli: Any, recorded: Any) -> None:
    for side in ("a", "b"):
        for at in range(3):
            recorded("baseline", f"{side}/{at}").slower(1 + at / 1000)
    markdown, _ = reports(cli, "a", "b", "--for", "convergence")
    assert "The two sides learn alike" in markdown
    assert "That is said of these seeds; what another would do is not known." in markdown
