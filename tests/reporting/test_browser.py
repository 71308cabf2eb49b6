"""The HTML report in a browser: mouse, keyboard, phone, printer."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from steelyard.reporting.markdown import MARK

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
pytestmark = pytest.mark.browser

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`${alert(3)} <b>bold</b> javascript:alert(4)"
)


@pytest.fixture
def run_report(cli: Any, recorded: Any) -> Path:
    recorded("baseline")
    assert cli("report", "baseline").status == 0
    return Path("runs/baseline/report.html").resolve()


@pytest.fixture
def comparison_report(cli: Any, recorded: Any) -> Path:
    recorded("again"), recorded("baseline")
    cli("compare", "again", "baseline", "--name", "first")
    return Path(cli("report", "first", "--json").document["files"][0])


@pytest.mark.quick
def test_the_verdict_is_first_and_every_recorded_metric_has_a_plot(open_page: Any, run_report: Path) -> None:
    page = open_page(run_report)
    assert page.locator("main > section").first.get_attribute("id") == "verdict"
    assert page.locator(".answer .word").inner_text().lower() == "pass"
    assert page.locator(".subject").inner_text() == SUBJECT
    assert page.locator("figure h3").all_inner_texts() == [
        "Loss nats per token",
        "Gradient norm",
        "Learning rate",
        "Throughput tokens/s per GPU",
        "Step time s",
        "Memory GiB per GPU, torch_reserved_peak",
        "Power W per GPU",
        "Temperature °C",
        "Clock MHz",
        "Utilization %",
    ]
    for plot in page.locator(".plot").all():
        assert plot.locator("path.curve").count() == 1
        assert len(plot.locator("path.curve").get_attribute("d")) > 100
        assert plot.locator("rect.band").count() == 1
    names = page.locator(".level-name").all_text_contents()
    assert any("entropy floor 1.213" in name for name in names)
    assert any("predicted first loss 12.581" in name for name in names)


def test_a_comparison_lays_both_runs_over_each_other(open_page: Any, comparison_report: Path) -> None:
    page = open_page(comparison_report)
    assert page.locator("h1").inner_text() == "again vs baseline"
    for plot in page.locator(".plot").all():
        sides = 1 if "Loss difference" in plot.get_attribute("aria-label") else 2
        assert plot.locator("path.curve").count() == sides
    assert page.locator(".readout").first.inner_text().split("\n") == [
        "again",
        "baseline",
        "steady window 6 to 60",
        "The curves are identical.",
    ]


def test_plots_share_the_cursor_and_the_zoom(open_page: Any, comparison_report: Path) -> None:
    page = open_page(comparison_report)
    page.locator(".plot").nth(1).scroll_into_view_if_needed()
    box = page.locator(".plot").nth(1).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
    readouts = [text.split("\n")[0] for text in page.locator(".readout").all_inner_texts()]
    assert len([text for text in readouts if text.startswith("step ")]) == 7  # the others have an axis of seconds
    assert len({text for text in readouts if text.startswith("step ")}) == 1
    assert page.locator("line.cursor").count() == 7
    whole = page.locator("path.curve").first.get_attribute("d")
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 50, steps=4)
    assert page.locator("rect.selection").count() == 1
    page.mouse.up()
    page.mouse.move(5, 5)
    assert page.locator("rect.selection").count() == 0
    zoomed = page.locator("path.curve").first.get_attribute("d")
    assert zoomed != whole
    button = page.locator("button.reset").nth(2)
    assert button.is_visible()
    button.click()
    assert page.locator("path.curve").first.get_attribute("d") == whole
    assert not button.is_visible()


def test_a_keyboard_is_enough(open_page: Any, run_report: Path) -> None:
    page = open_page(run_report)
    page.locator(".plot").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".readout").first.inner_text().split("\n") == ["step 1", "baseline 12.584"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert page.locator(".readout").nth(3).inner_text().startswith("step 12\n")
    page.keyboard.press("End")
    assert page.locator(".readout").first.inner_text().split("\n") == ["step 60", "baseline 11.946"]
    whole = page.locator("path.curve").first.get_attribute("d")
    page.keyboard.press("+")
    assert page.locator("path.curve").first.get_attribute("d") != whole
    page.keyboard.press("Escape")
    assert page.locator("path.curve").first.get_attribute("d") == whole
    reached = set()
    page.locator("body").press("Tab")
    for _ in range(60):
        reached.add(page.evaluate("document.activeElement.className || document.activeElement.tagName"))
        page.keyboard.press("Tab")
    assert {"skip", "A", "INPUT", "plot", "SUMMARY", "PRE"} <= reached


def test_a_plot_has_a_label_for_screen_readers(open_page: Any, run_report: Path) -> None:
    page = open_page(run_report)
    assert page.get_by_role("application").count() == 10
    for plot in page.get_by_role("application").all():
        label = plot.get_attribute("aria-label")
        assert "baseline: " in label
        assert "lowest" in label
    assert page.get_by_role("heading", level=1).count() == 1
    page.locator("summary", has_text="passed").click()
    assert page.get_by_role("table").first.get_by_role("columnheader").count() == 3
    assert page.locator("html").get_attribute("lang") == "en"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_text_can_be_read_and_nothing_sticks_out(
    open_page: Any, comparison_report: Path, scheme: str, width: int
) -> None:
    page = open_page(comparison_report, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    contrasts = page.evaluate(CONTRAST)
    assert contrasts
    assert {name: ratio for name, ratio in contrasts.items() if ratio < 4.5} == {}


CONTRAST = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
    .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = numbers(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const found = {};
  const texts = "h1, h2, h3, p, li, td, th, dt, dd, .word, .banner, .track span, summary, code, footer";
  for (const one of document.querySelectorAll(texts)) {
    if (!one.textContent.trim() || !one.offsetParent) continue;
    const [a, b] = [light(numbers(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    const name = `${one.tagName}.${one.className}`;
    found[name] = Math.min(found[name] ?? 99, (a + 0.05) / (b + 0.05));
  }
  return found;
}"""


def test_paper_is_white_whatever_the_screen(open_page: Any, run_report: Path, tmp_path: Path) -> None:
    page = open_page(run_report, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.pdf(path=str(tmp_path / "report.pdf"))
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def outside_of_ours(markdown: str) -> str:
    """A report without its fenced commands and the marks that fold a table, whose title is plain text."""
    fences, folds = r"(?ms)^(`{3,})(?:sh|text)\n.*?\n\1$", r"(?m)^<details><summary>[^<]*</summary>$|^</details>$"
    return re.sub(folds, "", re.sub(fences, "", markdown))


def test_text_of_logs_and_configs_is_inert(open_page: Any, cli: Any, recorded: Any) -> None:
    """`open_page` fails on a dialog, a script error, or a request."""
    run = recorded("baseline", "hostile")
    run.set("experiment/name", HOSTILE).set("platform/gpu_name", HOSTILE).set("platform/gpu", None)
    run.set("software", {HOSTILE: HOSTILE}).set("provenance/command", ["steelyard", HOSTILE])
    run.set("failure", {"kind": "error", "message": HOSTILE, "file": HOSTILE, "line": 1}).set("status", "failed")
    run.edit_steps(lambda step: {**step, "memory_kind": HOSTILE, "source": {"file": HOSTILE, "line": 1}})
    run.add_event(kind="error", message=HOSTILE, source={"file": "logs/node0.log", "line": 3})
    log = run.directory / "logs" / "node0.log"
    log.write_text(f"{HOSTILE}\n\x1b[31m</pre>{HOSTILE}\n" * 100)
    made = cli("report", run, "--json", "--to", "html,md").document["files"]
    page = open_page(Path(made[0]))
    assert HOSTILE in page.locator(".subject").inner_text()
    assert page.locator("main img, .verdict b, .readout b, td b, main script").count() == 0
    for place in page.locator(".evidence > summary").all():
        place.evaluate("summary => summary.parentElement.open = true")
    assert HOSTILE in page.locator(".evidence .hit").first.inner_text()
    page.locator(".plot").first.focus()
    page.keyboard.press("ArrowRight")
    markdown = outside_of_ours(Path(made[1]).read_text())
    assert not re.search(r"(?<!\\)<", markdown.removeprefix(MARK))
    assert "\\<img" in markdown


def test_text_of_runs_that_are_compared_is_inert(open_page: Any, cli: Any, recorded: Any) -> None:
    """Names of runs, hosts, data and settings are untrusted; sentences, dots, labels and legends contain them."""
    sides = [f"{side} <img src=x onerror=alert(0)>" for side in ("target", "baseline")]
    for side in sides:
        for at in range(3):
            run = recorded("baseline", f"{side}/{at} <img src=x onerror=alert({at})> <b>bold [x](y)")
            run.set("hosts", [f"{HOSTILE} {side}"]).set("framework", HOSTILE).set("platform/gpu_name", HOSTILE)
            run.set("experiment/data/path", f"{HOSTILE} {side}").set("experiment/name", HOSTILE)
            run.slower(1 + at / 1000).edit_steps(
                lambda step: {**step, "memory_kind": HOSTILE, "source": {"file": HOSTILE, "line": 1}, "loss": 13.0}
            )
            run.add_event(kind="error", message=HOSTILE, source={"file": HOSTILE, "line": 3})
    cli(
        "compare",
        *sides,
        "--for",
        "throughput,memory,flops,convergence",
        "--accept",
        f"data.path={HOSTILE}",
        "--name",
        "first",
    )
    made = cli("report", "first", "--json", "--to", "html,md").document["files"]
    page = open_page(Path(made[0]))
    assert page.locator("main img, main script, figure b b, h1 b, li b, td b, dd b, th b").count() == 0
    assert page.locator("circle.run").count() == 18
    assert "<img src=x onerror=alert(0)>" in page.locator("h1").inner_text()
    assert HOSTILE in page.locator("main .points").last.text_content()
    page.locator(".plot").first.focus()
    page.keyboard.press("ArrowRight")
    markdown = outside_of_ours(Path(made[1]).read_text())
    assert not re.search(r"(?<!\\)<", markdown.removeprefix(MARK))
    assert not re.search(r"(?<!\\)\[x\]", markdown)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_declaration_cannot_be_missed(open_page: Any, cli: Any, recorded: Any, scheme: str, width: int) -> None:
    for at in range(3):
        recorded("half-batch", f"a/{at}").slower(1 + at / 1000), recorded("baseline", f"b/{at}").slower(1 + at / 1000)
    accept = ("training.tokens_per_step=" + "the batch size is the question " * 3, "training.global_batch_size")
    options = [word for text in accept for word in ("--accept", text)]
    cli("compare", "a", "b", "--for", "throughput,memory,convergence", *options, "--name", "first")
    page = open_page(Path(cli("report", "first", "--json").document["files"][0]), color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(100)
    box = page.locator(".banner").bounding_box()
    assert (box["x"], box["y"], box["width"]) == (0, 0, width)
    assert box["height"] >= 40
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert {name: ratio for name, ratio in page.evaluate(CONTRAST).items() if ratio < 4.5} == {}
    for plot in page.locator(".track:not(.ticks) svg").all():
        around = plot.bounding_box()
        for mark in plot.locator("circle").all():
            place = mark.bounding_box()
            assert around["x"] <= place["x"] + 1
            assert place["x"] + place["width"] <= around["x"] + around["width"] + 1


def test_nan_is_shown_where_it_stands(open_page: Any, cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(
        lambda step: {**step, "loss": None, "nonfinite": {"loss": "NaN"}} if step["step"] >= 41 else step
    )
    page = open_page(Path(cli("report", run, "--json").document["files"][0]))
    assert page.locator(".answer .word").inner_text().lower() == "fail"
    assert "loss is NaN at step 41" in page.locator("#part-1").inner_text()
    assert page.locator(".plot").first.locator("path.broken").count() == 1
    assert page.locator(".plot").first.locator("line.broken-span").count() == 1
    assert page.locator(".broken-name").text_content() == "not finite at step 41"
    page.locator(".plot").first.focus()
    page.keyboard.press("End")
    assert "not finite" in page.locator(".readout").first.inner_text()


def test_without_scripts_the_figures_are_still_there(open_page: Any, run_report: Path) -> None:
    page = open_page(run_report, java_script_enabled=False)
    assert "need JavaScript" in page.locator("noscript").first.inner_text()
    page.locator("summary", has_text="Loss in numbers").click()
    assert page.locator("details.numbers table").first.is_visible()


def test_the_curves_in_the_page_are_the_run_s(run_report: Path) -> None:
    text = run_report.read_text()
    data = json.loads(text.split('id="curves">')[1].split("</script>")[0])
    steps = [json.loads(line) for line in (run_report.parent / "steps.jsonl").read_text().splitlines()]
    assert data[0]["lines"][0]["x"] == [step["step"] for step in steps]
    assert data[0]["lines"][0]["y"] == pytest.approx([step["loss"] for step in steps], rel=1e-5)


def test_a_cursor_reaches_the_end_of_the_longer_run(open_page: Any, cli: Any, recorded: Any) -> None:
    recorded("again", "short").edit_steps(lambda step: step if step["step"] <= 45 else None)
    recorded("baseline")
    cli("compare", "short", "baseline", "--name", "first")
    page = open_page(Path(cli("report", "first", "--json").document["files"][0]))
    page.locator(".plot").first.focus()
    page.keyboard.press("End")
    assert page.locator(".readout").first.inner_text().split("\n") == [
        "step 60",
        "short -",
        "baseline 11.946",
    ]
    page.keyboard.press("+")
    page.keyboard.press("Home")
    assert page.locator(".plot").first.locator("line.cursor").count() == 1


def test_a_restart_is_drawn_whole(open_page: Any, cli: Any, recorded: Any) -> None:
    run = recorded()
    path = Path(run) / "steps.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    again = [
        json.dumps({**json.loads(line), "loss": 20.0}) + "\n" if at == 5 else line
        for at, line in enumerate(lines[20:30])
    ]
    path.write_text("".join(lines[:50] + again))
    made = cli("report", run, "--to", "html,md", "--json").document["files"]
    page = open_page(Path(made[0]))
    page.locator(".plot").first.focus()
    page.keyboard.press("End")
    assert page.locator(".readout").first.inner_text().startswith("step 50\n")
    data = json.loads(Path(made[0]).read_text().split('id="curves">')[1].split("</script>")[0])
    assert max(data[0]["lines"][0]["y"]) == 20.0
    assert "| 50 |" in Path(made[1]).read_text()


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1.5e8, 1e300])
def test_values_of_any_size_are_drawn_with_ticks_that_differ(
    open_page: Any, cli: Any, recorded: Any, scale: float
) -> None:
    run = recorded().edit_steps(lambda step: {**step, "loss": scale * (1 + step["step"] / 1e4)})
    page = open_page(Path(cli("report", run, "--json").document["files"][0]))
    plot = page.locator(".plot").first
    assert "NaN" not in plot.locator("path.curve").get_attribute("d")
    labels = plot.locator("text.axis:not(.x)").all_text_contents()
    assert len(labels) == len(set(labels)) > 2
    box = plot.bounding_box()
    assert all(label.bounding_box()["x"] >= box["x"] - 1 for label in plot.locator("text.axis").all())


def test_a_tap_shows_the_values_under_it(open_page: Any, run_report: Path) -> None:
    page = open_page(run_report, has_touch=True)
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    plot.tap(position={"x": 250, "y": 60})
    assert page.locator(".readout").first.inner_text().startswith("step ")


def test_the_focus_outlives_the_reset_button(open_page: Any, run_report: Path) -> None:
    page = open_page(run_report)
    page.locator(".plot").first.focus()
    page.keyboard.press("+")
    page.locator("button.reset").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "plot"


def test_long_names_stay_inside_a_phone(open_page: Any, cli: Any, recorded: Any) -> None:
    names = [f"llama3_1_8b_bookcorpus_mi300x_primus_tp8_pp1_cp1_mbs2_gbs64_try{n:02d}" for n in (1, 2)]
    recorded("again", names[0]).set("expected/loss_floor", 12.0), recorded("baseline", names[1])
    cli("compare", *names, "--name", "first")
    page = open_page(Path(cli("report", "first", "--json").document["files"][0]))
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_zoomed_in_the_mark_the_cursor_and_the_keys_stay_where_they_are(
    open_page: Any, cli: Any, recorded: Any
) -> None:
    run = recorded().edit_steps(
        lambda step: {**step, "loss": None, "nonfinite": {"loss": "NaN"}} if step["step"] in (10, 50) else step
    )
    page = open_page(Path(cli("report", run, "--json").document["files"][0]))
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + 80, steps=3)
    page.mouse.up()
    page.mouse.move(5, 5)
    assert page.locator(".broken-name").first.text_content() == "not finite at step 50"
    before = plot.locator("path.curve").get_attribute("d")
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert plot.locator("path.curve").get_attribute("d") == before
    assert int(page.locator(".readout").first.inner_text().split("\n")[0].removeprefix("step ")) > 40


def test_finite_values_between_nans_are_drawn(open_page: Any, cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(
        lambda step: {**step, "loss": None, "nonfinite": {"loss": "NaN"}} if step["step"] % 2 else step
    )
    page = open_page(Path(cli("report", run, "--json").document["files"][0]))
    plot = page.locator(".plot").first
    assert plot.locator("circle").count() == 30
    assert page.evaluate("getComputedStyle(document.querySelector('path.curve')).strokeLinecap") == "round"
