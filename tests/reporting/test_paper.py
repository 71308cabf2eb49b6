"""Papers: what they contain of a run, a suite or a comparison, and the texts of a user in them."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from steelyard.records.fleet import Fleet, FleetManifest, FleetRun
from steelyard.records.suite import Suite, SuiteCell, SuiteManifest
from steelyard.reporting.make import report_of
from steelyard.reporting.paper import Block, Equation, Paper, PaperFigure, PaperTable, Paragraph, Ref, Section
from steelyard.reporting.paper.cells import Cells
from steelyard.reporting.paper.comparison import comparison_paper
from steelyard.reporting.paper.run import run_paper

SECTIONS = ["abstract", "introduction", "setup", "metrics", "results", "limitations", "methods", "reproduction"]


def paper_of(name: str) -> Paper:
    report = report_of(name, Path("runs"), linked=False)
    assert report.source is not None
    made = report.source()
    return comparison_paper(made) if isinstance(made, Cells) else run_paper(made)


def blocks(paper: Paper) -> list[Block]:
    return [block for section in paper.sections for block in section.blocks]


def table(paper: Paper, label: str) -> PaperTable:
    return next(block for block in blocks(paper) if isinstance(block, PaperTable) and block.label == label)


def words(section: Section) -> str:
    """The paragraphs of a section, with references by their labels."""
    paragraphs = [block for block in section.blocks if isinstance(block, Paragraph)]
    return "\n".join("".join(p if isinstance(p, str) else p.label for p in each.text) for each in paragraphs)


def section(paper: Paper, key: str) -> Section:
    return next(section for section in paper.sections if section.key == key)


def texts(part: Any) -> Iterator[str]:
    """Every text of a paper that a reader sees."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Ref | PaperFigure):
        yield getattr(part, "caption", "")
    elif is_dataclass(part):
        for field in fields(part):
            if field.name not in ("key", "label", "name", "quantity", "commands"):
                yield from texts(getattr(part, field.name))
    elif isinstance(part, list | tuple):
        for each in part:
            yield from texts(each)


def check(paper: Paper) -> None:
    """References lead to a block, and texts have neither Python values nor keys."""
    labels = {(type(block), getattr(block, "label", "")) for block in blocks(paper)}
    kinds = {"Table": PaperTable, "Figure": PaperFigure, "Equation": Equation}
    refs = [part for block in blocks(paper) if isinstance(block, Paragraph) for part in block.text]
    assert {(kinds[ref.kind], ref.label) for ref in refs if isinstance(ref, Ref)} <= labels
    assert len([label for label in labels if label[1]]) == len([b for b in blocks(paper) if getattr(b, "label", "")])
    for text in texts(paper):
        assert not re.search(r"\bNone\b|\bnan\b|<[a-z_.]+ object|\b1 (cells|runs|nodes)\b| {2}", text), text


def test_a_suite_with_a_cell_out_of_memory(cli: Any, suites: Any) -> None:
    suites()
    cli("compare", "fast", "slow", "--for", "throughput,memory,flops", "--name", "cells")
    paper = paper_of("cells")
    check(paper)
    assert [each.key for each in paper.sections] == SECTIONS
    rate = table(paper, "throughput")
    assert rate.columns == ["Model", "Micro batch", "Nodes", "fast", "slow", "Speedup [95% CI]", "Runs", "Conclusion"]
    assert [row[:3] for row in rate.rows[:3]] == [["llama3.1-8b", batch, "1"] for batch in ("4", "8", "16")]
    assert rate.rows[0][5].startswith("1.190 [1.1")
    assert rate.rows[0][6:] == ["3 + 3", "faster"]
    assert rate.rows[2][3:] == ["8,075", "OOM", "", "3 + 3", "not compared"]
    assert rate.rows[3][0] == "Geometric mean"
    assert rate.rows[3][-2:] == ["2 cells", "faster"]
    assert rate.notes[0] == "Micro batch 16: OOM (plan 166.0 GiB, available 191.5 GiB) on slow."
    assert [row[3:5] for row in table(paper, "memory").rows[:2]] == [["133.1 (95%)", "133.1 (69%)"]] * 2
    abstract = words(paper.abstract)
    assert "fast is 16.3% faster than slow (geometric mean of 2 cells, 95% CI " in abstract
    assert "With micro batch 16, slow runs out of memory (plan 166.0 GiB, available 191.5 GiB); fast fits" in abstract
    assert {figure.label for figure in paper.figures} >= {"throughput-by-cell", "roofline-achieved-compute"}


def test_equations_have_the_names_of_the_sides_the_right_way_up(cli: Any, suites: Any) -> None:
    suites()
    cli("compare", "fast", "slow", "--name", "cells")
    equations = [block for block in blocks(paper_of("cells")) if isinstance(block, Equation)]
    assert [(each.name, each.quantity, each.above, each.below) for each in equations] == [
        ("ThroughputSpeedup", "TrainingThroughput", "fast", "slow"),
        ("MemoryUsageEfficiency", "MemoryUsage", "slow", "fast"),
        ("FLOPsUtilization", "FLOPsUsage", "fast", "slow"),
    ]


def test_a_refused_cell_has_its_reason_below_the_table(cli: Any, suites: Any) -> None:
    suites(experiment__training__sequence_length=512)
    cli("compare", "fast", "slow", "--name", "cells")
    paper = paper_of("cells")
    check(paper)
    rate = table(paper, "throughput")
    assert rate.rows[1][-1] == "not compared"
    assert any("Micro batch 8: not compared, because " in note for note in rate.notes)
    assert "1 cell could not be compared" in words(paper.abstract)


def test_one_run_per_side_has_no_interval(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    cli("compare", "again", "baseline", "--for", "throughput,convergence", "--name", "first")
    paper = paper_of("first")
    check(paper)
    rate = table(paper, "throughput")
    assert rate.columns[5] == "Speedup"
    assert rate.rows == [["llama3.1-8b", "2", "1", "7,753", "7,754", "1.000", "1 + 1", "single-run observation"]]
    assert "Convergence is equivalent" in words(paper.abstract)
    assert {"loss", "throughput"} <= {figure.label for figure in paper.figures}


def test_a_refused_comparison_says_why_once(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    cli("compare", "half-batch", "baseline", "--for", "throughput,memory", "--name", "first")
    paper = paper_of("first")
    check(paper)
    reason = "half-batch and baseline use different batch sizes (8,192 and 16,384 tokens per step)"
    assert f"Throughput and memory are not compared, because {reason}." in words(paper.abstract)
    assert words(section(paper, "results")).count(reason) == 1


def test_what_the_user_declared_is_above_everything(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    accepted = ("--accept", "training.global_batch_size=same data", "--accept", "training.tokens_per_step=same data")
    cli("compare", "half-batch", "baseline", *accepted, "--name", "first")
    assert "same data" in paper_of("first").banner


def test_a_run_has_a_paper_of_its_own(recorded: Any) -> None:
    recorded("baseline")
    paper = paper_of("baseline")
    check(paper)
    assert [each.key for each in paper.sections] == [key for key in SECTIONS if key != "metrics"]
    assert table(paper, "results").rows == [["baseline", "7,754", "131.8 (94%)", "36.6% (362)", "11.95", "1", "pass"]]
    assert {figure.label for figure in paper.figures} == {"loss", "throughput", "roofline-achieved-compute"}


def test_a_run_without_steps_still_has_a_paper(recorded: Any) -> None:
    recorded("baseline").edit_steps(lambda _: None)
    paper = paper_of("baseline")
    check(paper)
    assert table(paper, "results").rows[0][1:] == ["unknown", "unknown", "unknown", "not recorded", "1", "fail"]


def test_the_cells_of_a_suite_have_their_verdicts(suites: Any) -> None:
    suites()
    paper = paper_of("slow")
    check(paper)
    rows = table(paper, "results").rows
    assert [(row[0], row[-1]) for row in rows] == [
        ("micro batch 4", "pass"),
        ("micro batch 8", "pass"),
        ("micro batch 16", "OOM"),
    ]
    assert rows[2][1:4] == ["OOM"] * 3


def test_node_counts_have_a_figure_of_scaling(cli: Any, recorded: Any) -> None:
    for nodes, pace in ((1, 1.0), (2, 1.1)):
        for side, own in (("a", 1.0), ("b", 1.2)):
            for at in range(3):
                run = recorded(to=f"{side}/n{nodes}/repeat-{at}").slower(pace * own * (1 + at / 1000))
                run.set("platform/nodes", nodes).set("platform/world_size", nodes)
    for side in ("a", "b"):
        runs = [f"repeat-{at}" for at in range(3)]
        cells = [SuiteCell(name=f"n{n}", directory=f"n{n}", values={"nodes": n}, runs=runs) for n in (1, 2)]
        Suite(Path("runs", side), SuiteManifest(name=side, axes=["nodes"], cells=cells)).save()
    cli("compare", "a", "b", "--name", "scaled")
    paper = paper_of("scaled")
    check(paper)
    chart = next(figure.drawing for figure in paper.figures if figure.label == "scaling-efficiency")
    assert [(line.label, line.x, [round(y or 0) for y in line.y]) for line in chart.lines] == [
        ("a", [1, 2], [100, 45]),
        ("b", [1, 2], [100, 45]),
    ]
    assert "scaling-efficiency" in {figure.label for figure in paper_of("a").figures}


def test_a_fleet_has_no_paper(cli: Any, recorded: Any) -> None:
    recorded(to="rack/host1")
    runs = [FleetRun(host="host1", directory="host1", status="completed")]
    Fleet(Path("runs/rack"), FleetManifest(name="rack", runs=runs)).save()
    assert cli("report", "rack", "--to", "html,md").status == 0
    refused = cli("report", "rack", "--to", "html,latex", "-o", "rack.html", "--json")
    assert (refused.status, refused.document["error"]["next"]) == (2, "--to html,md")
    assert not Path("rack.html").exists()


def write(text: str) -> str:
    Path("texts.yaml").write_text(text)
    return "texts.yaml"


def test_texts_of_the_user_replace_those_of_a_section(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    cli("compare", "again", "baseline", "--name", "first")
    text = write(
        "metrics: |\n  We weigh {target}\n  against {baseline}.\n\n  Braces: {{x}}; speedup {throughput_speedup}.\n"
    )
    done = cli("report", "first", "--to", "latex", "--text", text, "-o", "paper.tex")
    assert done.status == 0, done.err
    written = Path("paper.tex").read_text()
    assert "We weigh again against baseline.\n\n" in written
    assert r"Braces: \{x\}; speedup 1.000." in written
    assert written.count(r"\begin{equation}") == 3
    assert "Three ratios compare the sides" not in written


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("preface: hello", "preface", "one of abstract, introduction, setup, metrics"),
        ("results: '{speed}'", "results", "one of {target}, {baseline}"),
        ("results: '{target.__class__}'", "results", "one of {target}"),
        ("results: '{target!r}'", "results", "one of {target}"),
        ("results: '{0}'", "results", "one of {target}"),
        ("results: 'a } b'", "results", "text with {target}"),
        ("results: 5", "results", "a text"),
    ],
)
def test_a_wrong_text_names_what_is_known(cli: Any, recorded: Any, text: str, key: str, expected: str) -> None:
    recorded("again"), recorded("baseline")
    cli("compare", "again", "baseline", "--name", "first")
    refused = cli("report", "first", "--to", "latex", "--text", write(text), "--json")
    error = refused.document["error"]
    assert (refused.status, error["key"]) == (2, key)
    assert expected in error["expected"]
    assert not list(Path("runs/comparisons/first").glob("report*"))


def test_texts_without_a_paper_are_wrong_input(cli: Any, recorded: Any) -> None:
    run = recorded("again")
    refused = cli("report", run, "--to", "html", "--text", write("abstract: x"), "--json")
    assert (refused.status, refused.document["error"]["key"]) == (2, "--text")
    assert cli("report", run, "--to", "latex", "--text", "missing.yaml").status == 2
