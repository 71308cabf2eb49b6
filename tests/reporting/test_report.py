"""steelyard report: where files go, what they hold, and what is left alone."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from steelyard.reporting import FORMATS, format_of
from steelyard.reporting.make import report_of, write_reports
from steelyard.reporting.markdown import text
from steelyard.reporting.rendering import Asked, rendered


def test_a_report_goes_beside_what_it_reports_on(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    done = cli("report", "again", "--json")
    assert done.status == 0
    assert done.document == {"files": [str(Path("runs/again/report.html").resolve())]}
    cli("compare", "again", "baseline", "--name", "first")
    both = cli("report", "first", "--to", "html,md", "--json").document["files"]
    assert [Path(path).name for path in both] == ["report.html", "report.md"]
    assert {Path(path).parent.name for path in both} == {"first"}


def test_a_place_may_be_asked_for(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("again")
    (tmp_path / "folder").mkdir()
    for place, formats, made in (
        ("page.html", "html", ["page.html"]),
        ("folder/page", "html,md", ["folder/page.html", "folder/page.md"]),
        ("plain", "md", ["plain.md"]),
        ("report.v2", "html", ["report.v2.html"]),
        ("both.html", "html,md", ["both.html", "both.md"]),
        ("made/", "md", ["made/report.md"]),
        ("twice", "html, html", ["twice.html"]),
        ("folder", "md", ["folder/report.md"]),
    ):
        files = cli("report", "again", "--to", formats, "-o", place, "--json").document["files"]
        assert files == [str(tmp_path / name) for name in made]


def test_the_ending_says_the_format_and_may_not_contradict_it(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("again")
    assert cli("report", "again", "-o", "page.md", "--json").document["files"] == [str(tmp_path / "page.md")]
    assert (tmp_path / "page.md").read_text().startswith("<!-- steelyard report -->")
    assert cli("report", "again", "-o", "page2.md", "--to", "html").status == 2
    assert cli("report", "again", "-o", "-").status == 2
    assert cli("report", "again", "-o", "page.csv", "--json").document["files"] == [str(tmp_path / "page.csv")]
    refused = cli("report", "again", "-o", "page.svg", "--json")
    assert (refused.status, refused.document["error"]["next"]) == (2, "--figures svg -o DIR/")
    assert cli("report", "again", "-o", "nowhere/page.html").status == 2
    assert not (tmp_path / "nowhere").exists()


def test_all_places_are_looked_at_before_the_first_is_written(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("again")
    (tmp_path / "z.md").write_text("mine")
    assert cli("report", "again", "--to", "html,md", "-o", "z").status == 2
    assert not (tmp_path / "z.html").exists()


def test_what_is_no_regular_file_is_left_alone(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("again")
    os.mkfifo(tmp_path / "pipe.xml")
    assert cli("check", "again", "--junit", "pipe.xml").status == 2
    assert (tmp_path / "pipe.xml").is_fifo()
    (tmp_path / "real.html").touch()
    (tmp_path / "link.html").symlink_to("real.html")
    assert cli("report", "again", "-o", "link.html").status == 0
    assert not (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "link.html").stat().st_size > 1000
    assert (tmp_path / "real.html").stat().st_size == 0
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_text_that_is_no_utf_8_is_shown_escaped(cli: Any, recorded: Any) -> None:
    run = recorded().add_event(kind="error", message="bad \udcff byte").set("provenance/host", "a\ud800b")
    html, markdown = cli("report", run, "--to", "html,md", "--json").document["files"]
    assert "bad \\udcff byte" in Path(html).read_text()
    assert "bad byte" in Path(markdown).read_text()


def test_a_log_interval_has_its_numbers(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: {**step, "step": step["step"] * 10, "steps_covered": 10})
    cli("report", run, "--to", "md")
    shown = Path(run, "report.md").read_text()
    table = shown.split("## Loss, nats per token")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert len(rows) == 12
    assert not any("| - |" in row for row in rows)


def test_the_printed_command_comes_to_the_printed_verdict(cli: Any, recorded: Any) -> None:
    recorded("again")
    cli("check", "again", "--threshold", "tokens_per_s_per_gpu>=99999", "--warmup-steps", "20")
    cli("report", "again", "--to", "md")
    command = "steelyard check runs/again --threshold 'tokens_per_s_per_gpu>=99999' --warmup-steps 20"
    assert command in Path("runs/again/report.md").read_text()


def test_a_failing_run_stands_at_the_top_of_its_comparison(cli: Any, recorded: Any) -> None:
    recorded("again").edit_steps(lambda step: {**step, "loss": 13.0} if step["step"] == 1 else step)
    recorded("baseline")
    cli("compare", "again", "baseline", "--name", "first")
    cli("report", "first", "--to", "md")
    head = Path("runs/comparisons/first/report.md").read_text().split("##")[0]
    assert "- again fails the first\\_loss check" in head


def test_runs_that_fail_for_one_cause_share_a_line(cli: Any, recorded: Any) -> None:
    for at in range(5):
        run = recorded("baseline", f"bad/repeat-{at}").slower(1 + at / 1000)
        run.edit_steps(lambda step: {**step, "loss": 13.0} if step["step"] == 1 else step)
    recorded("baseline", "good")
    cli("compare", "bad", "good", "--name", "first")
    cli("report", "first", "--to", "md")
    head = Path("runs/comparisons/first/report.md").read_text().split("##")[0]
    assert "- 5 of 6 runs fail the first\\_loss check" in head


def test_many_runs_stay_under_five_megabytes(cli: Any, recorded: Any) -> None:
    for side in ("a", "b"):
        for number in range(8):
            run = recorded("baseline", f"{side}/{number}").slower(1 + number / 1000)
            lines = Path(run, "steps.jsonl").read_text().splitlines()
            steps = [json.loads(line) for line in lines]
            text = "".join(json.dumps({**steps[at % 60], "step": at + 1}) + "\n" for at in range(8000))
            Path(run, "steps.jsonl").write_text(text)
            run.set("experiment/training/steps", 8000)
    cli("compare", "a", "b", "--name", "many")
    made = cli("report", "many", "--json").document["files"][0]
    assert Path(made).stat().st_size < 5_000_000


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("comparisons/first/comparison.json", "asked", ["bogus"]),
        ("comparisons/first/comparison.json", "asked", []),
        ("comparisons/first/comparison.json", "warmup_steps", "x"),
        ("comparisons/first/comparison.json", "mode", "zz"),
        ("comparisons/first/comparison.json", "target", []),
        ("again/verdict.json", "thresholds", ["garbage"]),
        ("again/verdict.json", "thresholds", 5),
        ("again/verdict.json", "warmup_steps", -1),
    ],
)
def test_damaged_files_are_wrong_input(cli: Any, recorded: Any, file: str, key: str, value: Any) -> None:
    recorded("again"), recorded("baseline")
    cli("compare", "again", "baseline", "--name", "first")
    cli("check", "again")
    path = Path("runs", file)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert cli("report", "first" if "comparison" in file else "again").status == 2


def test_a_file_that_is_not_ours_is_left_alone(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("again")
    (tmp_path / "mine.html").write_text("<html>mine</html>")
    done = cli("report", "again", "-o", "mine.html", "--json")
    assert done.status == 2
    assert "not a Steelyard report" in done.document["error"]["message"]
    assert (tmp_path / "mine.html").read_text() == "<html>mine</html>"
    assert cli("report", "again", "-o", "new.html").status == 0
    assert cli("report", "again", "-o", "new.html").status == 0  # ours may be replaced


@pytest.mark.parametrize("words", [("nothing",), ("again", "--to", "docx"), ("again", "--to", "")])
def test_wrong_input_is_named(cli: Any, recorded: Any, words: tuple[str, ...]) -> None:
    recorded("again")
    done = cli("report", *words, "--json")
    assert done.status == 2
    assert done.document["error"]["next"]


def test_a_comparison_whose_runs_are_gone_says_so(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    cli("compare", "again", "baseline", "--name", "first")
    shutil.rmtree("runs/again")
    done = cli("report", "first", "--json")
    assert done.status == 2
    assert "runs/again is not a run" in done.document["error"]["message"]


def test_a_report_is_judged_by_the_bounds_of_the_last_check(cli: Any, recorded: Any) -> None:
    recorded("again")
    assert cli("check", "again", "--threshold", "mfu>=0.5").status == 1
    cli("report", "again", "--to", "md")
    shown = Path("runs/again/report.md").read_text()
    assert "**FAIL**" in shown
    assert "0.365" in shown


def test_markdown_says_what_html_says(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    cli("compare", "half-batch", "baseline", "--name", "refused")
    markdown, html = (
        Path(path).read_text() for path in cli("report", "refused", "--to", "md,html", "--json").document["files"]
    )
    for words in (
        "NOT COMPARABLE",
        "tokens\\_per\\_step",
        "Comparable metrics",
        "Settings that differ",
        "The whole contract",
        "Loss, nats per token",
        "entropy floor",
        "Provenance",
        "steelyard compare runs/half-batch runs/baseline --for throughput --mode best",
    ):
        assert words in markdown
        if "Loss," not in words:
            assert words.replace("\\", "").lower() in html.lower()
    assert markdown.count("\n## ") + markdown.count("\n<details><summary>") >= 10


def test_a_comparison_is_found_without_its_time(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    for _ in range(2):
        cli("compare", "again", "baseline")
    latest = max(Path("runs/comparisons").iterdir())
    made = cli("report", "again-vs-baseline", "--json").document["files"][0]
    assert Path(made).parent.name in (latest.name, latest.name.removesuffix("-2"))


def test_markdown_escapes_what_would_be_markup() -> None:
    assert text("a|b *c* _d_ <e> `f*` [g](h) @i #j $k$ ~l~ &amp;") == (
        r"a\|b \*c\* \_d\_ \<e> \`f\*\` \[g\](h) \@i \#j \$k\$ \~l\~ \&amp;"
    )
    assert text("set `data.source: markov`, not _it_") == r"set `data.source: markov`, not \_it\_"
    assert text("`a``b` `` `c") == r"\`a\`\`b\` \`\` \`c"
    assert text("https://x www.y.z") == r"https\://x www\.y.z"
    assert text("12:30:01, 0.125 >= 0.1") == "12:30:01, 0.125 >= 0.1"
    assert text("- a") == r"\- a"
    assert text("1. a") == r"1\. a"
    assert text(":heart:") == r"\:heart:"
    assert text("two\nlines\r\n\x1b[31m") == r"two lines \[31m"


def test_every_format_has_an_ending_and_a_mark_of_its_own() -> None:
    formats = [format_of(name) for name in FORMATS]
    assert len({one.SUFFIX for one in formats}) == len({one.MARK for one in formats}) == len(formats)


def test_a_run_without_steps_still_has_a_report(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda _: None)
    done = cli("report", run, "--to", "html,md", "--json")
    assert done.status == 0
    assert "| steps\\_present |" in Path(done.document["files"][1]).read_text()


def test_every_plot_may_be_a_file_next_to_the_report(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    cli("compare", "again", "baseline", "--name", "first")
    files = cli("report", "first", "--figures", "svg,png", "--json").document["files"]
    names = {Path(path).name for path in files}
    assert {"report.html", "report-loss.svg", "report-loss.png", "report-throughput.svg", "report-memory.png"} <= names
    assert {Path(path).parent.name for path in files} == {"first"}
    again = cli("report", "first", "--figures", "svg", "-o", "plots/page.html")
    assert (again.status, Path("plots").exists()) == (2, False)


def test_markdown_links_its_images_by_names_that_exist(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    cli("compare", "again", "baseline", "--name", "first")
    Path("a b").mkdir()
    made = cli("report", "first", "--to", "md", "--figures", "pdf,png", "-o", "a b/my (report).md", "--json")
    links = re.findall(r"!\[(.+)\]\(<(.+)>\)", Path("a b/my (report).md").read_text())
    written = {Path(file).name for file in made.document["files"]}
    assert {unquote(target) for _, target in links} <= {name for name in written if name.endswith(".png")}
    (loss,) = [alternative for alternative, target in links if target.endswith("-loss.png")]
    assert "again" in loss
    assert "entropy floor" in loss


@pytest.mark.parametrize("figures", [[], ["--figures", "pdf"]])
def test_markdown_without_images_that_it_can_show_has_no_links(cli: Any, recorded: Any, figures: list[str]) -> None:
    run = recorded("again")
    assert cli("report", run, "--to", "md", *figures).status == 0
    assert "![" not in Path(run, "report.md").read_text()


def test_figures_of_ours_are_replaced_and_others_left_alone(cli: Any, recorded: Any) -> None:
    run = recorded("again")
    for form in ("svg", "png", "pdf"):
        assert [cli("report", run, "--figures", form).status for _ in range(2)] == [0, 0]
        mine, report = Path(run, f"report-loss.{form}"), Path(run, "report.html")
        mine.write_bytes(b"%PDF-1.7 mine")
        report.unlink()
        assert cli("report", run, "--figures", form).status == 2
        assert not report.exists()
        mine.unlink()


def test_an_unknown_form_of_figures_is_wrong_input(cli: Any, recorded: Any) -> None:
    refused = cli("report", recorded("again"), "--figures", "svg,bmp", "--json")
    assert (refused.status, refused.document["error"]["key"]) == (2, "--figures")


def test_a_report_can_be_rendered_without_writing_it(recorded: Any) -> None:
    run = Path(recorded("again"))
    asked = Asked([format_of("html"), format_of("latex")], ["svg"])
    report = report_of(str(run), Path("runs"), linked=True)
    files = {file.name: file.content() for file in rendered(report, asked)}
    assert {"report.html", "report.tex", "report-loss.pdf", "report-gradient-norm.svg"} <= files.keys()
    assert not list(run.glob("report*"))
    write_reports(str(run), Path("runs"), to="html,latex", figures="svg")
    assert {path.name: path.read_bytes() for path in run.glob("report*")} == files
