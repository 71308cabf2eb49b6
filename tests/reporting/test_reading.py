"""What a report offers in a browser: the answer on the first screen, switches of the plots, evidence, paper."""

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from steelyard.records.fleet import new_fleet

pytestmark = pytest.mark.browser

REAL = Path(__file__).parents[1] / "frameworks" / "logs" / "real"
CASE = Path(__file__).parents[2] / "docs" / "cases" / "convergence-puzzle"
STATED = {
    "amd": ("--framework", "primus", "--gpu", "mi300x"),
    "nvidia": ("--framework", "nemo", "--gpu", "h100"),
}
OVERLAPS = """() => {
  const out = [];
  for (const plot of document.querySelectorAll(".plot")) {
    const texts = [...plot.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    texts.forEach(([a, one], at) => texts.slice(at + 1).forEach(([b, two]) => {
      const wide = Math.min(one.right, two.right) - Math.max(one.left, two.left);
      const high = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
      if (wide > 1 && high > 3) out.push(`${a} | ${b}`);
    }));
    const box = plot.getBoundingClientRect();
    for (const [text, own] of texts)
      if (own.left < box.left - 1 || own.right > box.right + 1) out.push(`outside: ${text}`);
  }
  return out;
}"""


COVERED = """() => {
  const out = [];
  for (const plot of document.querySelectorAll(".plot")) {
    const points = [...plot.querySelectorAll("path.curve")].flatMap((path) => {
      const to = path.getScreenCTM(), length = path.getTotalLength();
      const places = Array.from({ length: Math.ceil(length / 2) }, (_, at) => at * 2);
      return places.map((at) => path.getPointAtLength(at).matrixTransform(to));
    });
    const lines = [...plot.querySelectorAll("line.level")].map((line) => line.getBoundingClientRect());
    for (const text of plot.querySelectorAll(".level-name, .mark-name")) {
      const box = text.getBoundingClientRect();
      const within = (x, y) => x > box.left && x < box.right && y > box.top + 2 && y < box.bottom - 2;
      if (points.some(({ x, y }) => within(x, y))) out.push(`curve: ${text.textContent}`);
      if (lines.some(({ top }) => within(box.left + 1, top))) out.push(`dotted line: ${text.textContent}`);
    }
  }
  return out;
}"""
"""Texts on top of a curve or struck through by a dotted line."""


def report_of(cli: Any, name: str) -> Path:
    return Path(cli("report", name, "--json").document["files"][0])


def compared(cli: Any, recorded: Any, runs: int, *asked: str) -> Path:
    """Repeats of two sides, the target 7% faster."""
    for side, pace in (("tuned", 0.93), ("stock", 1.0)):
        for at in range(runs):
            run = recorded("baseline", f"{side}/repeat-{at}").slower(pace * (1 + at / 500))
            run.set("experiment/training/seed", 100 + at if side == "tuned" else 200 + at)
            run.edit_steps(lambda step, at=at: {**step, "loss": step["loss"] + at / 50})
    cli("compare", "tuned", "stock", "--name", "first", *asked)
    return report_of(cli, "first")


def pages(page: Any, path: Path) -> int:
    page.pdf(path=str(path), prefer_css_page_size=True)
    return len(PdfReader(path).pages)


def printed(path: Path) -> str:
    """Text of a PDF, with letters in place of ligatures."""
    return unicodedata.normalize("NFKC", "\n".join(page.extract_text() for page in PdfReader(path).pages))


def readout(page: Any, at: int = 0) -> str:
    text: str = page.locator(".readout").nth(at).inner_text()
    return text


def ticks(page: Any, at: int = 0) -> list[str]:
    texts: list[str] = page.locator(".plot").nth(at).locator("text.axis.x").all_text_contents()
    return texts


def plot(page: Any, title: str) -> Any:
    return page.locator("figure.chart", has=page.locator(f'h3:text-matches("^{title}( |$)")')).locator(".plot")


@pytest.mark.quick
def test_the_first_screen_answers_which_is_faster_by_how_much_and_how_sure(
    open_page: Any, cli: Any, recorded: Any
) -> None:
    page = open_page(compared(cli, recorded, 4))
    page.set_viewport_size({"width": 1280, "height": 800})
    for text in (page.locator(".answer"), page.locator(".summary table")):
        box = text.bounding_box()
        assert box["y"] + box["height"] < 800
    answer = page.locator(".answer").inner_text()
    for words in ("FASTER", "tuned", "stock", "%", "95% CI", "4 runs each", "tokens/s per GPU"):
        assert words in answer


def test_the_first_screen_of_a_refusal_has_its_causes_above_the_sides(open_page: Any, cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    cli("compare", "half-batch", "baseline", "--name", "first")
    page = open_page(report_of(cli, "first"))
    page.set_viewport_size({"width": 1280, "height": 800})
    answer, causes, sides = (page.locator(at).bounding_box() for at in (".answer", ".causes", ".summary table"))
    assert answer["y"] < causes["y"] < sides["y"]
    assert sides["y"] + sides["height"] < 800
    assert "8,192 and 16,384 tokens per step" in page.locator(".answer").inner_text()
    opened = page.locator(".causes details").first
    opened.locator("summary").click()
    assert "To confirm: " in opened.inner_text()


def test_the_warm_up_is_cut_off_until_all_is_shown(open_page: Any, cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: {**step, "step_time_s": 60.0} if step["step"] == 1 else step)
    page = open_page(report_of(cli, str(run)))
    time = plot(page, "Step time")
    highest = [float(text) for text in time.locator("text.axis:not(.x):not(.name)").all_text_contents()]
    assert max(highest) < 3
    assert time.locator(".clip-name").text_content() == "\N{UPWARDS ARROW} warm-up: up to 60"
    first = float(plot(page, "Power").locator("text.axis.x").first.text_content())
    assert first > 0
    page.get_by_label("show all").check()
    highest = [float(text) for text in time.locator("text.axis:not(.x):not(.name)").all_text_contents()]
    assert max(highest) >= 50
    assert time.locator(".clip-name").count() == 0
    assert float(plot(page, "Power").locator("text.axis.x").first.text_content()) < first


def test_the_x_axis_can_be_tokens_and_both_axes_logarithmic(open_page: Any, cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    cli("compare", "half-batch", "baseline", "--name", "first")
    page = open_page(report_of(cli, "first"))
    loss = plot(page, "Loss")
    by_step = loss.locator("path.curve").first.get_attribute("d")
    assert loss.locator("text.name").text_content() == "step"
    page.get_by_label("tokens on the x axis").check()
    assert loss.locator("text.name").text_content() == "tokens"
    assert loss.locator("path.curve").first.get_attribute("d") != by_step  # half as many tokens at its last step
    loss.focus()
    page.keyboard.press("End")
    assert readout(page).startswith("tokens 983,040\n")
    page.get_by_label("tokens on the x axis").uncheck()
    assert loss.locator("path.curve").first.get_attribute("d") == by_step
    page.get_by_label("log x").check()
    assert ticks(page)[:4] == ["1", "2", "5", "10"]
    page.get_by_label("log y").check()
    assert "NaN" not in "".join(loss.locator("path.curve").nth(at).get_attribute("d") for at in (0, 1))


def test_tokens_are_offered_only_where_every_run_records_them(open_page: Any, cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: {key: value for key, value in step.items() if key != "tokens"})
    run.set("experiment/training/global_batch_size", None)
    page = open_page(report_of(cli, str(run)))
    assert not page.get_by_label("tokens on the x axis").is_visible()
    assert page.get_by_label("log x").is_visible()


def test_the_difference_of_the_losses_is_target_minus_baseline(cli: Any, recorded: Any) -> None:
    text = compared(cli, recorded, 2).read_text()
    charts = {chart["title"]: chart for chart in json.loads(text.split('id="curves">')[1].split("</script>")[0])}
    assert charts["Loss difference"]["lines"][0]["label"] == "tuned minus stock"
    assert charts["Loss difference"]["lines"][0]["y"] == pytest.approx([0.0] * 60, abs=1e-4)
    assert [line["shade"] for line in charts["Loss"]["lines"]] == [0, 1, 0, 1]


def test_repeats_differ_in_shade_and_the_readout_gives_their_range(open_page: Any, cli: Any, recorded: Any) -> None:
    page = open_page(compared(cli, recorded, 6))
    colors = (
        page.locator(".plot")
        .first.locator("path.curve")
        .evaluate_all("paths => paths.map((path) => getComputedStyle(path).stroke)")
    )
    assert len(set(colors)) == 12
    loss = page.locator(".plot").first
    loss.scroll_into_view_if_needed()
    height = page.locator(".readout").first.bounding_box()["height"]
    loss.hover(position={"x": 300, "y": 80})
    words = readout(page)
    assert "(6 of 6 runs)" in words
    assert "nearest: " in words
    assert page.locator(".readout").first.bounding_box()["height"] == height


@pytest.mark.parametrize("width", [1280, 390])
def test_labels_of_a_plot_do_not_collide(open_page: Any, cli: Any, recorded: Any, width: int) -> None:
    run = recorded("baseline").edit_steps(
        lambda step: {**step, "loss": None, "nonfinite": {"loss": "NaN"}} if step["step"] in (3, 41) else step
    )
    run.set("expected/first_loss", 12.58).set("expected/loss_floor", 12.57)
    recorded("half-batch").set("expected/first_loss", 12.575).set("expected/loss_floor", 12.565)
    cli("compare", "half-batch", "baseline", "--name", "first")
    page = open_page(report_of(cli, "first"))
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(150)
    loss = page.locator(".plot").first
    names = loss.locator(".level-name").all_text_contents()
    legend = readout(page)
    for side, first, floor in (("half-batch", 12.575, 12.565), ("baseline", 12.58, 12.57)):
        for level in (f"predicted first loss ({side}) {first}", f"entropy floor ({side}) {floor}"):
            assert level in legend or level in names  # in full in one of the two
    assert names
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(COVERED) == []
    page.emulate_media(media="print")
    page.wait_for_timeout(150)
    assert page.evaluate(COVERED) == []


def test_evidence_opens_to_the_lines_of_the_log(open_page: Any, cli: Any) -> None:
    assert cli("ingest", REAL / "megatron_nan_nocheck.log.gz", "--name", "nan").status == 0
    page = open_page(report_of(cli, "nan"))
    row = page.locator("tr", has_text="loss_finite")
    assert row.is_visible()
    assert not row.locator("pre").is_visible()
    row.locator("summary").click()
    assert "nan" in row.locator(".hit").inner_text().lower()
    assert row.locator("pre span").count() == 5
    assert "This line has no loss." in row.inner_text()  # Megatron leaves out a loss that is NaN
    assert row.locator("pre").bounding_box()["width"] > 0.4 * row.bounding_box()["width"]
    answer = page.locator(".answer").inner_text()
    assert answer.endswith("Loss is NaN at step 3 and 27 more. 2 of 17 checks failed: loss_finite, grad_norm_finite.")
    assert page.locator("h3", has_text="2 failed").is_visible()
    passed = page.locator("details.part", has=page.locator("h3", has_text="passed"))
    assert passed.get_attribute("open") is None


def test_evidence_is_bounded_and_stays_inside_the_run(open_page: Any, cli: Any, recorded: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not of this run\n" * 9)
    run = recorded().set("status", "failed")
    log = run.directory / "logs" / "node0.log"
    log.write_text("\n".join(["x" * 2_000_000, "y" * 9999, "z", "w", "v"]))
    (run.directory / "logs" / "link.log").symlink_to(tmp_path / "secret")
    for file, line in (
        ("logs/node0.log", 2),
        ("../../secret", 1),
        (str(tmp_path / "secret"), 1),
        ("logs/link.log", 1),
        ("logs/node0.log", 999),
        ("logs/missing.log", 1),
        ("logs/\0", 1),
    ):
        run.add_event(kind="restart", message="started again", source={"file": file, "line": line})
    page = open_page(report_of(cli, str(run)))
    text = page.content()
    assert "not of this run" not in text
    assert "y" * 400 in text
    assert "y" * 401 not in text
    assert "x" * 401 not in text


def test_a_link_of_the_contents_opens_its_part(open_page: Any, cli: Any, recorded: Any) -> None:
    page = open_page(compared(cli, recorded, 1))
    provenance = page.locator("details", has=page.locator("h2", has_text="Provenance"))
    assert provenance.get_attribute("open") is None
    with page.expect_event("framenavigated"):
        page.locator(".contents a", has_text="Provenance").click()
    assert provenance.get_attribute("open") is not None
    assert page.locator("h2", has_text="Provenance").count() == 1
    heads = provenance.locator("thead th").all_inner_texts()
    assert heads == ["fact", "repeat-0 (target)", "repeat-0 (baseline)"]
    titles = set(page.locator(".contents a").all_inner_texts())
    assert titles >= set(page.locator("main > section:not(.verdict) > h2").all_inner_texts())


def test_a_run_prints_on_three_pages_at_most(open_page: Any, cli: Any, tmp_path: Path) -> None:
    cli("ingest", REAL / "megatron_nan_nocheck.log.gz", "--name", "nan")
    assert pages(open_page(report_of(cli, "nan")), tmp_path / "run.pdf") <= 3
    text = " ".join(printed(tmp_path / "run.pdf").split())
    left_out = text.split("Not printed: ")[1]
    assert "plot of the learning rate" in left_out
    assert "plot of the gradient norm" not in left_out  # its check failed
    assert text.count("Gradient norm") == 1


def test_a_comparison_of_four_and_four_prints_on_two_pages_and_an_appendix_on_demand(
    open_page: Any, cli: Any, recorded: Any, tmp_path: Path
) -> None:
    path = compared(cli, recorded, 4, "--for", "throughput,convergence")
    page = open_page(path)
    summary = pages(page, tmp_path / "summary.pdf")
    assert summary <= 2
    text = printed(tmp_path / "summary.pdf")
    assert "Not printed: " in text
    assert "sha256" not in text
    page.evaluate("window.print = () => {}")
    page.locator("#print-all").click()
    assert pages(page, tmp_path / "all.pdf") > summary
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("main > details[open]").count() == 0
    assert pages(page, tmp_path / "again.pdf") == summary


def test_a_part_that_a_reader_opened_is_printed(open_page: Any, cli: Any, recorded: Any, tmp_path: Path) -> None:
    page = open_page(compared(cli, recorded, 1))
    page.locator("summary", has_text="Provenance").click()
    pages(page, tmp_path / "report.pdf")
    assert "sha256" in printed(tmp_path / "report.pdf")


def test_a_fleet_is_a_sorted_strip_with_its_slow_hosts_marked(open_page: Any, cli: Any, recorded: Any) -> None:
    hosts = [f"gpu-{at:02d}" for at in range(12)]
    new_fleet(Path("runs"), "nightly", "", hosts)
    for at, host in enumerate(hosts):
        recorded(to=f"nightly/{host}").slower(1.25 if at == 7 else 1 + at / 1000)
    page = open_page(report_of(cli, "nightly"))
    assert "1 slow host: gpu-07" in page.locator(".answer").inner_text()
    strip = plot(page, "Throughput")
    marks = strip.locator("circle.mark")
    assert marks.count() == 12
    assert strip.locator("circle.mark-bad").count() == 1
    heights = [float(mark.get_attribute("cy")) for mark in marks.all()]
    assert heights == sorted(heights, reverse=True)
    labels = " ".join(strip.locator(".level-name").all_text_contents())
    assert "median" in labels
    assert "slow below" in labels
    assert strip.locator(".mark-name").all_text_contents() == ["gpu-07"]
    strip.focus()
    page.keyboard.press("Home")
    assert "gpu-07" in readout(page)
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(COVERED) == []


def test_a_printed_fleet_keeps_notes_and_labels_next_to_what_they_explain(
    open_page: Any, cli: Any, recorded: Any
) -> None:
    hosts = [f"h200-rack{at // 4}-node{at % 4}.cluster.example.com" for at in range(16)]
    new_fleet(Path("runs"), "big", "", hosts)
    slow = {6: 1.25, 7: 1.24, 9: 1.12}
    for at, host in enumerate(hosts):
        run = recorded(to=f"big/{host}").slower(slow.get(at, 1 + at / 1000))
        if at == 12:
            run.set("status", "failed").set("failure", {"kind": "error", "message": "lost"})
    page = open_page(report_of(cli, "big"))
    first = [page.locator("#part-3 tbody tr").nth(at).locator("td").first for at in range(4)]
    assert [cell.inner_text().split("\n")[0] for cell in first] == [hosts[at] for at in (12, 6, 7, 9)]
    assert "slow: throughput -" in first[1].inner_text()
    assert page.locator(".scroll").evaluate_all("parts => parts.every((part) => part.scrollWidth <= part.clientWidth)")
    page.set_viewport_size({"width": 703, "height": 900})
    page.emulate_media(media="print")
    page.wait_for_timeout(150)
    note = page.locator(".cell-note").nth(1).bounding_box()
    assert note["height"] < 30
    strip = plot(page, "Throughput")
    labels = " ".join(strip.locator(".level-name").all_text_contents())
    assert "median" in labels
    assert "slow below" in labels
    for host in (6, 7, 9):
        name, short = hosts[host], hosts[host].split(".")[0]
        assert short in strip.locator(".mark-name").all_text_contents(), name
    assert page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_a_link_of_the_contents_leads_to_a_heading_that_nothing_covers(
    open_page: Any, cli: Any, recorded: Any, width: int
) -> None:
    page = open_page(compared(cli, recorded, 1))
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_timeout(150)
    for title in ("Plots of the speed", "Plots of the hardware", "Settings that differ", "Provenance"):
        page.locator(".contents a", has_text=title).click()
        page.wait_for_timeout(50)
        heading = page.locator("h2", has_text=title)
        covering = heading.evaluate(
            "heading => { const box = heading.getBoundingClientRect();"
            " return document.elementFromPoint(box.left + 4, box.top + box.height / 2) === heading; }"
        )
        assert covering, title


def test_equal_losses_are_drawn_and_said_to_be_equal(open_page: Any, cli: Any, recorded: Any) -> None:
    recorded("baseline", "a"), recorded("baseline", "b").slower(1.01)
    cli("compare", "a", "b", "--name", "first")
    page = open_page(report_of(cli, "first"))
    difference = plot(page, "Loss difference")
    for logarithmic in (False, True):
        ticks_of = difference.locator("text.axis:not(.x):not(.name)").all_text_contents()
        assert len(ticks_of) >= 2
        assert "0" in ticks_of
        box = difference.bounding_box()
        curve = difference.locator("path.curve").evaluate("path => path.getBoundingClientRect().top") - box["y"]
        assert 0.3 * box["height"] < curve < 0.6 * box["height"]
        if not logarithmic:
            page.get_by_label("log y").check()
    assert "The losses of a and b are identical at all 60 steps." in readout(page, 1)


def test_every_y_axis_has_two_ticks_at_least(open_page: Any, cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: {**step, "step_time_s": 15.8 + 7.5 * (step["step"] % 2), "grad_norm": 3.0})
    page = open_page(report_of(cli, str(run)))
    page.set_viewport_size({"width": 703, "height": 900})
    page.emulate_media(media="print")
    for logarithmic in (False, True):
        if logarithmic:
            page.get_by_label("log y").evaluate("box => box.click()")
        page.wait_for_timeout(150)
        for drawn in page.locator(".plot").all():
            if drawn.bounding_box():
                assert drawn.locator("text.axis:not(.x):not(.name)").count() >= 2


def test_a_band_of_training_ends_where_its_side_ends(open_page: Any, cli: Any, recorded: Any) -> None:
    recorded("baseline", "short").edit_steps(lambda step: step if step["step"] <= 20 else None)
    recorded("baseline", "long")
    cli("compare", "short", "long", "--name", "first")
    page = open_page(report_of(cli, "first"))
    power = page.locator("figure.chart", has=page.locator("h3", has_text="Power"))
    assert power.locator("rect.band-0").count() == power.locator("rect.band-1").count() == 1
    ends = [int(words) for words in re.findall(r"(?:short|long) training 0 to (\d+)", power.inner_text())]
    assert ends[0] < ends[1]


def test_a_trend_has_dates_a_threshold_and_hollow_failures(open_page: Any, cli: Any, recorded: Any) -> None:
    for at in range(6):
        run = recorded("baseline", f"run-{at}").slower(2.0 if at == 3 else 1 + at / 1000)
        run.set("provenance/started", f"2026-11-{at + 1:02d}T06:00:00+00:00")
        run.set("experiment/thresholds", ["tokens_per_s_per_gpu>=7000"])
        cli("check", str(run))
    assert cli("runs", "trend", "--html", "trend.html").status == 0
    page = open_page(Path("trend.html").resolve())
    assert page.locator(".plot circle.mark").count() == 6
    assert page.locator(".plot circle.hollow.mark-bad").count() == 1
    assert page.locator(".plot rect.zone").count() == 1
    assert set(ticks(page)) <= {f"2026-11-{at:02d}" for at in range(1, 7)}
    assert len(ticks(page)) > 2
    assert "of 5 runs" in page.locator(".answer").inner_text()
    assert page.locator(".answer .word").inner_text().lower() == "5 of 6 runs"
    days = "2026-11-01 to 2026-11-06"
    assert page.locator(".subject").inner_text().endswith(f"2,048 · {days}")
    assert page.locator("text.name").text_content() == "date of the run"
    assert "lowest 3," not in page.locator(".answer").inner_text()
    assert "threshold: at least 7,000" in readout(page)


def test_causes_that_do_not_fit_the_first_screen_are_printed_by_name(open_page: Any, cli: Any, tmp_path: Path) -> None:
    for name, stated in STATED.items():
        own = (*stated, "--gpus", "8", "--set", "model.preset=llama3.1-8b", "--name", name)
        assert cli("ingest", CASE / f"{name}.csv", *own).status == 0
    cli("compare", "amd", "nvidia", "--for", "throughput,convergence", "--name", "first")
    page = open_page(report_of(cli, "first"))
    assert "batch unknown" in page.locator(".subject").inner_text()
    pages(page, tmp_path / "report.pdf")
    text = printed(tmp_path / "report.pdf")
    assert "3 more" not in text
    assert "Evidence for this difference" not in page.content()
    more = page.locator(".causes .folds li").all_text_contents()
    for cause in page.locator(".causes li.paper").all_text_contents():
        assert cause in more
        assert cause[:30] in text


def test_badges_of_verdicts_wrap_on_a_phone(open_page: Any, cli: Any, recorded: Any) -> None:
    page = open_page(compared(cli, recorded, 6))
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(100)
    badges = page.locator(".summary td .word").all()
    assert len(badges) == 2
    for badge in badges:
        cell, box = badge.locator("xpath=..").bounding_box(), badge.bounding_box()
        assert box["x"] + box["width"] <= cell["x"] + cell["width"]


def test_the_provenance_of_two_sides_fits_a_desktop(open_page: Any, cli: Any, recorded: Any) -> None:
    page = open_page(compared(cli, recorded, 6))
    page.locator("summary", has_text="Provenance").click()
    table = page.locator("details", has=page.locator("h2", has_text="Provenance")).locator(".scroll")
    assert table.evaluate("part => part.scrollWidth <= part.clientWidth")


def test_a_rate_on_cpus_is_per_rank(open_page: Any, cli: Any, recorded: Any) -> None:
    run = recorded().set("platform/gpu", None).set("platform/gpu_name", "cpu").set("expected/peak_tflops", None)
    page = open_page(report_of(cli, str(run)))
    text = page.locator("main").inner_text()
    assert "tokens/s per rank" in text
    assert "per GPU" not in text.replace("W per GPU", "")
    recorded("baseline", "other").set("platform/gpu", None).set("platform/gpu_name", "cpu")
    cli("compare", str(run), "other", "--name", "first")
    page = open_page(report_of(cli, "first"))
    assert "tokens/s per rank" in page.locator(".answer").inner_text()
    assert "per GPU" not in page.locator("#verdict").inner_text()
