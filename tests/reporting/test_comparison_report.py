"""The report of a comparison: the answer first, its evidence, and what it does not claim."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

SUBJECT = " · ".join(
    [
        "llama3.1-8b",
        "1 \N{MULTIPLICATION SIGN} NVIDIA H200",
        "native",
        "bf16",
        "batch 8 \N{MULTIPLICATION SIGN} 2,048",
        "2026-11-15",
    ]
)
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
    """Three runs per side, each with its own seed and pace."""

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
    folded = f"<details><summary>{title}"
    if folded in markdown:
        return markdown.split(folded)[1].split("</details>")[0]
    return markdown.split(f"## {title}")[1].split("\n## ")[0]


def curves(html: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(html.split('id="curves">')[1].split("</script>")[0])
    return found


def test_a_decided_ratio_has_a_headline_with_names_interval_and_runs(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    markdown, html = reports(cli, "targets", "baselines")
    answer = next(line for line in markdown.splitlines() if line.startswith("**FASTER**: "))
    assert "targets" in answer
    assert "baselines" in answer
    assert "25" in answer
    assert "95% CI" in answer
    assert "3 runs each" in answer
    assert '<span class="word tone-good">faster</span>' in html


def test_the_first_screen_has_both_sides_in_two_columns(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    markdown, html = reports(cli, "targets", "baselines")
    head = markdown.split("\n## ")[0]
    assert "# targets vs baselines" in head
    assert SUBJECT in head
    assert "|  | targets | baselines |" in head
    assert re.search(r"\| Throughput, tokens/s per GPU \| 9,6\d\d \| 7,75\d \|", head)
    assert "| Runs and verdicts | 3 pass | 3 pass |" in head
    assert html.index('class="summary"') < html.index('class="contents"')


def test_an_inconclusive_ratio_gives_the_number_of_missing_runs(cli: Any, repeated: Any) -> None:
    repeated(0.98, spread=0.06)
    markdown, _ = reports(cli, "targets", "baselines")
    assert re.search(r"\*\*INCONCLUSIVE[^*]*\d+ MORE RUNS?", markdown)


def test_one_run_a_side_is_an_observation_and_claims_nothing(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    markdown, html = reports(cli, "again", "baseline", "--for", "throughput,convergence")
    answer = markdown.split("\n| ")[0]
    assert "\n\n**EQUIVALENT**: Convergence equivalent" in answer  # of one seed, bit for bit
    assert "an observation, not a result" in answer
    assert "single-run observation" in section(markdown, "What is not claimed")
    assert html.count('class="run ') == 0


def test_each_question_has_an_answer_of_its_own(cli: Any, repeated: Any, recorded: Any) -> None:
    repeated(0.8)
    for at in range(3):
        path = Path(f"runs/targets/target{at}/steps.jsonl")
        steps = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({**one, "loss": one["loss"] * 1.05}) + "\n" for one in steps))
    markdown, html = reports(cli, "targets", "baselines", "--for", "throughput,convergence")
    assert "**NOT EQUIVALENT**" in markdown
    assert "**FASTER**: Throughput: targets is 25" in markdown
    assert re.search(r"\n\n\*\*NOT EQUIVALENT\*\*: Convergence not equivalent.*last third", markdown)
    assert '<span class="word tone-good">faster</span></p><p>Throughput: ' in html
    assert '<span class="word tone-bad">not equivalent</span></p><p>Convergence not equivalent' in html
    tiers = section(markdown, "Convergence: not equivalent")
    assert "| fail | level (first failing tier) |" in tiers
    assert "| stability |" not in tiers  # later tiers are not tested
    assert "level (first failing tier)" in html


def test_every_run_is_a_dot_in_the_row_of_its_side(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    markdown, html = reports(cli, "targets", "baselines")
    runs = section(markdown, "Ratios").split("### Throughput speedup")[1].split("###")[0]
    relative = [float(one) for one in re.findall(r"\| targets/target\d \| [\d,.]+ \| ([\d.]+) \|", runs)]
    assert relative == pytest.approx([1.25 / 0.99, 1.25, 1.25 / 1.01], rel=2e-3)
    figure = html.split("<h3>Throughput speedup</h3>")[1].split("</figure>")[0]
    places = [float(one) for one in re.findall(r'class="run run-0" cx="([\d.]+)%"', figure)]
    assert places == sorted(places, reverse=True)
    assert len(places) == 3
    assert figure.count('class="run run-1"') == 3
    assert "<title>targets/target0 1.26" in figure


def test_an_interval_plot_has_labels_for_screen_readers(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    _, html = reports(cli, "targets", "baselines")
    figure = html.split('<figure class="intervals">')[1].split("</figure>")[0]
    assert '<title id="part-1-1-1-t">ratio</title>' in figure
    assert re.search(r'<desc id="part-1-1-1-d">1\.25\d+ \[[\d., ]+\], faster</desc>', figure)
    assert figure.count('role="img" aria-labelledby=') == 3
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_a_side_of_three_runs_has_a_band_from_its_lowest_to_its_highest(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    for at in range(3):
        path = Path(f"runs/targets/target{at}/steps.jsonl")
        steps = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({**one, "loss": one["loss"] + at / 100}) + "\n" for one in steps))
    by_title = {chart["title"]: chart for chart in curves(reports(cli, "targets", "baselines")[1])}
    loss, time = by_title["Loss"], by_title["Step time"]
    band = loss["spreads"][0]
    assert band["label"] == "range of targets"
    assert [high - low for low, high in zip(band["low"], band["high"], strict=True)] == pytest.approx(
        [0.02] * 60, abs=1e-3
    )
    assert time["spreads"] == []


def test_a_refusal_gives_each_reason_once_before_the_sides(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    markdown, html = reports(cli, "half-batch", "baseline")
    head = markdown.split("\n## Plots")[0].split("\n## Loss, ")[0]
    assert "**NOT COMPARABLE**: " in head
    assert head.index("**NOT COMPARABLE**") < head.index("## Why") < head.index("| Throughput, tokens/s per GPU |")
    lines = [line.removeprefix("- ") for line in head.splitlines() if line.startswith("- ")]
    assert len(lines) == len(set(lines)) >= 2
    assert "\n## Ratios" not in markdown
    assert 'class="intervals"' not in html
    assert "8,192 and 16,384 tokens" in section(markdown, "What is not claimed")


def test_causes_of_a_refusal_name_what_its_headline_lacks(cli: Any, recorded: Any) -> None:
    recorded("half-batch").set("experiment/model/num_layers", 16), recorded("baseline")
    markdown, html = reports(cli, "half-batch", "baseline")
    answer, rest = markdown.split("\n\n- Evidence\n")
    evidence, why = rest.split("## Why")
    assert "model.num\\_layers differs: 16 on half-batch, 32 on baseline" in answer
    assert "num\\_layers" in evidence
    assert "- Settings differ: " in why
    assert "num\\_layers" not in why.split("| Throughput")[0]
    assert 'class="evidence proof points"' in html


def test_sides_of_two_experiments_are_named_with_them(cli: Any, recorded: Any) -> None:
    for at in range(2):
        recorded("baseline", f"small/free/{at}").slower(1 + at / 500)
        recorded("half-batch", f"larger/plain/{at}").slower(1 + at / 500)
    cli("compare", "runs/small/free", "runs/larger/plain", "--name", "first")
    made = cli("report", "first", "--to", "md", "--json").document["files"]
    assert "# small/free vs larger/plain\n" in Path(made[0]).read_text()


def test_a_first_loss_that_both_sides_miss_names_both(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    for place, loss in (("targets/target0", 12.9), ("baselines/baseline0", 12.95)):
        path = Path(f"runs/{place}/steps.jsonl")
        first, rest = path.read_text().split("\n", 1)
        path.write_text(json.dumps({**json.loads(first), "loss": loss}) + "\n" + rest)
    markdown, _ = reports(cli, "targets", "baselines", "--for", "convergence")
    tier = next(line for line in markdown.splitlines() if line.startswith("| not applicable | first\\_loss |"))
    assert "targets: first loss 12.9, expected 12.581 \N{PLUS-MINUS SIGN} 0.13" in tier
    assert "; baselines starts at 12.95, expected 12.581" in tier


def test_what_the_user_declares_is_above_the_answer(cli: Any, puzzle: None) -> None:
    accept = ("training.tokens_per_step=other batches", "settings_unknown", "too_few_steady_steps=all there is")
    options = [word for text in accept for word in ("--accept", text)]
    markdown, html = reports(cli, "amd", "nvidia", "--for", "throughput", *options)
    lines = [line for line in markdown.splitlines() if line]
    assert lines[1].startswith("> **Declared by the user: accepted training.tokens\\_per\\_step (other batches), ")
    assert lines[2].startswith("# ")
    assert html.index('<div class="banner"') < html.index("<header>")
    assert any("4.03" in line for line in lines)
    assert "(accepted: other batches)" in markdown
    assert re.search(r"steelyard compare .* --margin 0.05 --accept 'training.tokens_per_step=other batches'", markdown)


def test_without_a_declaration_there_is_no_banner(cli: Any, puzzle: None) -> None:
    markdown, html = reports(cli, "amd", "nvidia")
    assert "Declared" not in markdown
    assert 'class="banner"' not in html


def test_diagnoses_follow_the_headline_and_their_floors_are_in_the_plot(cli: Any, puzzle: None) -> None:
    markdown, html = reports(cli, "amd", "nvidia", "--for", "throughput,convergence")
    why = section(markdown, "Why").split("\n- amd and nvidia fail")[0]
    points = [line for line in why.splitlines() if line.startswith("- ")]
    assert len(points) == 5  # the most decisive ones, and how many more there are
    codes = re.findall(r"  - Code: (\S+?)\.\n", why)
    assert [code.replace("\\", "") for code in codes[:2]] == ["uniform_data", "counting_data"]
    levels = {one["label"]: one["value"] for one in curves(html)[0]["levels"]}
    assert levels["floor of uniform tokens, ln 50,257"] == pytest.approx(10.8249, abs=1e-4)
    assert levels["floor of counting data"] == pytest.approx(0.00406, abs=1e-5)
    assert levels["untrained nvidia, from its first loss"] == pytest.approx(11.6526, abs=1e-4)
    losses = section(markdown, "Losses side by side")
    assert "| side | step 1 | step 11 | step 21 | step 51 | step 101 |" in losses
    assert "| amd | 11.8970 | 3.4120 | 0.2310 | - | 0.0140 |" in losses


def test_the_time_to_loss_has_an_interval_and_unknown_cost_has_a_reason(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    markdown, _ = reports(cli, "targets", "baselines", "--for", "convergence")
    table = section(markdown, "Time to loss")
    assert re.search(r"0\.8\d* times as long as baselines \(95% CI 0\.\d+ to 0\.\d+ between runs\)", table)
    assert "--prices" in table


def test_costs_are_computed_from_the_sheet_and_the_command_contains_it(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    Path("sheet.yaml").write_text("h200: 3.5\n")
    markdown, _ = reports(
        cli, "targets", "baselines", "--for", "convergence", "--prices", "sheet.yaml", "--margin", "0.03"
    )
    assert "unknown: " not in section(markdown, "Time to loss")
    assert "echo '{\"h200\": 3.5}' > prices.json" in markdown
    assert "--margin 0.03 --prices prices.json" in markdown


def test_runs_of_one_node_limit_the_claim_to_that_node(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    for path in Path("runs/targets").glob("*/run.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "hosts": ["node7"]}))
    markdown, _ = reports(cli, "targets", "baselines")
    assert "node7" in section(markdown, "What is not claimed")


def test_runs_of_one_seed_limit_the_claim_to_that_seed(cli: Any, repeated: Any) -> None:
    repeated(0.8)
    for path in Path("runs/targets").glob("*/run.json"):
        content = json.loads(path.read_text())
        content["experiment"]["training"]["seed"] = 7
        path.write_text(json.dumps(content))
    markdown, _ = reports(cli, "targets", "baselines", "--for", "convergence")
    claims = [line for line in section(markdown, "What is not claimed").splitlines() if "seed" in line]
    assert any("7" in line for line in claims)


def test_an_unknown_setting_is_a_disclaimer_with_its_key(cli: Any, recorded: Any) -> None:
    recorded("again").set("experiment/precision/dtype", None)
    recorded("baseline")
    markdown, _ = reports(cli, "again", "baseline")
    assert "precision.dtype" in section(markdown, "What is not claimed")


def test_metrics_that_were_not_asked_are_folded(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    markdown, html = reports(cli, "again", "baseline")
    assert "<details><summary>Not asked: convergence (equivalent)</summary>" in markdown
    assert "<details><summary>Not asked: memory usage efficiency and FLOPs utilization</summary>" in markdown
    assert "<summary><h2>Not asked: convergence (equivalent)</h2></summary>" in html


def test_the_title_of_many_runs_is_the_name_of_their_directory(cli: Any, recorded: Any) -> None:
    for side, first in (("fast", 0.8), ("slow", 1.0)):
        for at in range(3):
            recorded("baseline", f"{side}/repeat-{at}").slower(first * (1 + at / 100))
    made = cli("compare", "fast", "slow", "--json").document["comparison"]
    assert cli("report", made, "--to", "md", "-o", "page.md").status == 0
    assert "# fast vs slow" in Path("page.md").read_text()
