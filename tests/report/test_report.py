"""steelyard report: where files go, what they hold, and what is left alone."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from steelyard.report import FORMATS, format_of
from steelyard.report.markdown import text


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
        ("new/deep/page", "html,md", ["new/deep/page.html", "new/deep/page.md"]),
        ("plain", "md", ["plain.md"]),
        ("folder", "md", ["folder/report.md"]),
    ):
        files = cli("report", "again", "--to", formats, "-o", place, "--json").document["files"]
        assert files == [str(tmp_path / name) for name in made]


def test_a_file_that_is_not_ours_is_left_alone(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("again")
    (tmp_path / "mine.html").write_text("<html>mine</html>")
    done = cli("report", "again", "-o", "mine.html", "--json")
    assert done.status == 2
    assert "no report of ours" in done.document["error"]["message"]
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
    assert "mfu is 0.365" in shown


def test_markdown_says_what_html_says(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    cli("compare", "half-batch", "baseline", "--name", "refused")
    markdown, html = (
        Path(path).read_text() for path in cli("report", "refused", "--to", "md,html", "--json").document["files"]
    )
    for words in (
        "NOT COMPARABLE",
        "tokens\\_per\\_step differs: 8,192 on the target, 16,384 on the baseline",
        "What may be compared",
        "Where the sides differ",
        "The whole contract",
        "Loss, nats a token",
        "entropy floor 1.2130",
        "Provenance: target (half-batch)",
        "steelyard compare runs/half-batch runs/baseline --for throughput --mode best",
    ):
        assert words in markdown
        if "Loss," not in words:
            assert words.replace("\\", "").lower() in html.lower()
    assert markdown.count("\n## ") >= 10


def test_markdown_escapes_what_would_be_markup() -> None:
    assert text("a|b *c* _d_ <e> `f` [g](h) @i #j $k$ ~l~ &amp;") == (
        r"a\|b \*c\* \_d\_ \<e\> \`f\` \[g\](h) \@i \#j \$k\$ \~l\~ \&amp;"
    )
    assert text("https://x www.y.z") == r"https\://x www\.y.z"
    assert text("two\nlines\r\n\x1b[31m") == r"two lines \[31m"


def test_every_format_has_an_ending_and_a_mark_of_its_own() -> None:
    formats = [format_of(name) for name in FORMATS]
    assert len({one.SUFFIX for one in formats}) == len({one.MARK for one in formats}) == len(formats)


def test_a_run_without_steps_still_has_a_report(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda _: None)
    done = cli("report", run, "--to", "html,md", "--json")
    assert done.status == 0
    assert "no step was recorded" in Path(done.document["files"][1]).read_text()
