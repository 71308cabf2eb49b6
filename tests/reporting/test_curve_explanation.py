"""The report of two curves that part: its parts in order, and none of them where nothing is to be explained."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard import comparison
from steelyard.comparison.files import weigh_again
from steelyard.reporting.comparison_page import comparison_page
from steelyard.reporting.page import Cell, Page, Plots, Points, Table

CASE = Path(__file__).parents[2] / "docs" / "cases" / "convergence-puzzle"
STATED = {
    "amd": ("--framework", "primus", "--gpu", "mi300x", "--set", "parallelism.tensor_parallel_size=1"),
    "nvidia": ("--framework", "nemo", "--gpu", "h100", "--set", "parallelism.tensor_parallel_size=4"),
}
REDUCTION, NEXT, EXPECTED = "Loss reduction and loss floor", "What to do next", "What to expect after the fix"
SHOWN = "What the comparison shows"
EXPLAINED = [REDUCTION, NEXT, EXPECTED, SHOWN]


@pytest.fixture
def puzzle(cli: Any) -> None:
    for name, stated in STATED.items():
        own = (*stated, "--gpus", "8", "--set", "model.preset=llama3.1-8b", "--name", name)
        assert cli("ingest", CASE / f"{name}.csv", *own).status == 0


def page_of(cli: Any, *words: str) -> Page:
    cli("compare", *words, "--name", "first")
    directory = comparison.find("first", Path("runs"))
    assert directory is not None
    return comparison_page(weigh_again(directory))


def titles(page: Page, folded: bool = False) -> list[str]:
    """The titles of the explanation, open or folded, in their order."""
    blocks = (block for block in page.blocks if getattr(block, "folded", False) == folded)
    return [block.title for block in blocks if block.title in EXPLAINED]


def block(page: Page, title: str) -> Any:
    return next(block for block in page.blocks if block.title == title)


def results(page: Page) -> dict[str, str]:
    """The result of each claim."""
    table = block(page, SHOWN)
    assert isinstance(table, Table)
    return {str(claim): result.text for result, claim, _ in table.rows if isinstance(result, Cell)}


def test_the_document_goes_from_the_problem_to_what_is_shown(cli: Any, puzzle: None) -> None:
    page = page_of(cli, "amd", "nvidia", "--for", "throughput,convergence")
    assert page.problem is not None
    assert len(page.problem.points) == 3  # one per side, and what both show
    assert page.causes is not None
    places = [block.title for block in page.blocks]
    loss = next(at for at, part in enumerate(page.blocks) if isinstance(part, Plots))
    assert places.index("Losses side by side") < places.index(REDUCTION) < loss
    assert (
        loss < places.index(NEXT) < places.index(EXPECTED) < places.index(SHOWN) < places.index("What is not claimed")
    )


def test_a_reduction_in_percent_is_next_to_the_floor(cli: Any, puzzle: None) -> None:
    table = block(page_of(cli, "amd", "nvidia", "--for", "convergence"), REDUCTION)
    columns = dict(zip(table.columns, zip(*table.rows, strict=True), strict=True))
    assert columns["reduction"] == ("99.88%", "7.04%")
    assert columns["largest possible"] == ("99.97%", "7.11%")
    assert columns["end above the floor"] == ("0.0099", "0.0081")
    assert [text.split(" (")[0] for text in columns["loss floor"]] == ["0.00406", "10.8249"]


def test_commands_are_fenced_and_whole(cli: Any, puzzle: None) -> None:
    cli("compare", "amd", "nvidia", "--for", "convergence", "--name", "first")
    markdown, html = (
        Path(file).read_text() for file in cli("report", "first", "--to", "md,html", "--json").document["files"]
    )
    part = markdown.split(f"## {NEXT}\n")[1].split("\n## ")[0]
    assert "\n  ```sh\n  steelyard data fingerprint PATH\n  ```\n" in part
    assert "\n  steelyard compare NEW_TARGET NEW_BASELINE --for convergence\n  ```" in part
    assert part.count("```") % 2 == 0
    assert "<code>steelyard data fingerprint PATH</code>" in html
    assert html.index('class="points problem"') < html.index('class="points causes"')


def test_claims_of_the_puzzle_have_a_result_each(cli: Any, puzzle: None) -> None:
    given = results(page_of(cli, "amd", "nvidia", "--for", "throughput,convergence"))
    assert [given[f"{side} learns text"] for side in ("amd", "nvidia")] == ["no", "no"]
    assert given["the seeds explain the difference"] == "no"
    assert given["the GPUs explain the difference"] == "not shown"
    assert given["a difference in throughput"] == "not shown"
    assert "shown" not in given.values()


def test_equal_curves_have_no_problem_and_no_fix(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    page = page_of(cli, "again", "baseline", "--for", "convergence")
    assert page.problem is None
    assert titles(page) == []
    assert titles(page, folded=True) == [REDUCTION, SHOWN]
    assert results(page) == {"again and baseline converge alike": "shown", "one side trains better models": "not shown"}


def test_a_comparison_for_throughput_does_not_grow(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    page = page_of(cli, "half-batch", "baseline")
    assert page.problem is None
    assert titles(page) == titles(page, folded=True) == []


def test_curves_that_differ_and_were_not_asked_are_folded(cli: Any, recorded: Any) -> None:
    for side, seed, level in (("up", 100, 1.05), ("stock", 200, 1.0)):
        for at in range(3):
            run = recorded("baseline", f"{side}/{at}").set("experiment/training/seed", seed + at)
            run.edit_steps(lambda step, by=level + at / 500: {**step, "loss": step["loss"] * by})
    page = page_of(cli, "up", "stock")
    assert page.problem is None
    assert titles(page) == []
    assert titles(page, folded=True) == EXPLAINED
    assert results(page)["the seeds explain the difference"] == "no"


def test_a_run_that_ends_in_nan_says_nothing_about_seeds(cli: Any, recorded: Any) -> None:
    recorded("again").edit_steps(
        lambda step: {**step, "loss": None, "nonfinite": {"loss": "NaN"}} if step["step"] >= 30 else step
    )
    recorded("baseline")
    page = page_of(cli, "again", "baseline", "--for", "convergence")
    assert titles(page) == EXPLAINED
    assert results(page)["the seeds explain the difference"] == "not shown"
    assert results(page)["again and baseline converge alike"] == "no"


def test_losses_without_a_fault_are_not_called_a_problem(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    page = page_of(cli, "half-batch", "baseline", "--for", "convergence")
    assert isinstance(page.problem, Points)
    assert page.problem.title == "The losses"


def test_names_of_runs_are_inert_in_the_explanation(cli: Any) -> None:
    for name in ("a", "b"):
        Path(f"{name}.csv").write_text("step,loss\n" + "".join(f"{step},{9 - step / 20}\n" for step in range(60)))
        framework = ("--framework", "megatron") if name == "a" else ("--framework", "nemo")
        assert cli("ingest", f"{name}.csv", "--name", f"{name}*_<u>x", *framework).status == 0
    cli("compare", "runs/a*_<u>x", "runs/b*_<u>x", "--for", "convergence", "--name", "first")
    markdown, html = (
        Path(file).read_text() for file in cli("report", "first", "--to", "md,html", "--json").document["files"]
    )
    assert "<u>" not in html
    outside = "".join(markdown.split("```")[::2])  # commands are in fences
    assert "<u>" not in outside.replace("\\<u", "")
    assert json.loads(cli("compare", "runs/a*_<u>x", "runs/b*_<u>x", "--for", "convergence", "--json").out)
