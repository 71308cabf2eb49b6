"""lint of a file with a suite: the section, then every cell, each problem once."""

from pathlib import Path
from typing import Any

import pytest

from conftest import TINY
from steelyard.configs.choose import Asked
from steelyard.experiment import Problem
from steelyard.hardware.machine import Machine
from steelyard.linting import lint_file

LAPTOP = Machine((), cpu_count=2)
FILE = Path("suite.yaml")
COUNTING = "overrides: {data: {source: counting}}"


def lint(section: str, more: str = "", asked: Asked | None = None) -> list[Problem]:
    FILE.write_text(f"{TINY.rstrip()}\nsuite:\n{section}{more}")
    return lint_file(FILE, asked or Asked(), LAPTOP)


def line_of(text: str) -> int:
    (number,) = (at for at, line in enumerate(FILE.read_text().splitlines(), start=1) if text in line)
    return number


def test_a_suite_whose_cells_are_right_is_clean() -> None:
    assert lint("  axes:\n    training.micro_batch_size: [2, 4]\n") == []


def test_problems_of_the_section_have_lines() -> None:
    found = lint("""\
  axes:
    training.steps: [20, 20]
    size:
      small:
        training.stepz: 3
  repeats: 0
""")
    assert [problem.pointer for problem in found] == ["/suite/repeats"]  # first what each value may be
    found = lint("""\
  axes:
    training.steps: [20, 20]
    size:
      small:
        training.stepz: 3
""")
    assert [(problem.pointer, problem.line) for problem in found] == [
        ("/suite/axes/training.steps", line_of("[20, 20]")),
        ("/suite/axes/size/small/training.stepz", line_of("stepz")),
    ]


def test_a_problem_of_some_cells_names_one_and_its_place_in_the_suite() -> None:
    found = lint("""\
  axes:
    training.micro_batch_size: [2, many]
    length:
      short: {training.sequence_length: 64}
      none:
        training.sequence_length: 0
  include:
    - {length: short, training.steps: -1}
""")
    assert [(problem.code, problem.pointer, problem.line) for problem in found] == [
        ("SY103", "/suite/axes/training.micro_batch_size", line_of("many")),
        ("SY103", "/suite/axes/length/none/training.sequence_length", line_of("_length: 0")),
        ("SY103", "/suite/include/0/training.steps", line_of("-1")),
    ]
    assert found[0].message.startswith("2 cells such as training.micro_batch_size=many, length=short: ")
    assert found[0].message.endswith(" is 'many'")


def test_a_problem_of_arithmetic_is_one_of_its_cell() -> None:
    (found,) = lint("  axes: {training.micro_batch_size: [2, 5]}\n")
    assert (found.code, found.pointer, found.severity) == ("SY203", "/training/global_batch_size", "error")
    assert found.message.startswith("cell training.micro_batch_size=5: ")


def test_a_problem_of_every_cell_is_reported_once_without_one() -> None:
    text = TINY.replace("learning_rate: 1e-2", "learning_rate: fast")
    assert text != TINY
    FILE.write_text(f"{text}\nsuite: {{axes: {{training.micro_batch_size: [1, 2, 4]}}}}\n")
    (found,) = lint_file(FILE, Asked(), LAPTOP)
    assert (found.pointer, found.message) == ("/training/learning_rate", "training.learning_rate is 'fast'")


def test_what_the_cells_set_need_not_be_in_the_file() -> None:
    text = "\n".join(line for line in TINY.splitlines() if "micro_batch_size" not in line)
    FILE.write_text(f"{text}\nsuite: {{axes: {{training.micro_batch_size: [1, 2, 4]}}}}\n")
    assert lint_file(FILE, Asked(), LAPTOP) == []
    FILE.write_text(text)
    assert [problem.code for problem in lint_file(FILE, Asked(), LAPTOP)] == ["SY104"]


def test_options_of_a_cell_are_checked_at_their_place() -> None:
    platforms = "platforms:\n  here: {gpu: h100, gpus_per_node: 8}\n"
    found = lint("  axes:\n    gpu: [h100, h1000]\n", platforms)
    assert [(problem.pointer, problem.line) for problem in found] == [("/suite/axes/gpu", line_of("h1000"))]
    found = lint("  axes:\n    platform: [here, there]\n", platforms)
    assert [(problem.pointer, problem.line) for problem in found] == [("/suite/axes/platform", line_of("there"))]
    found = lint("  axes:\n    platform.env.A: [{}]\n", platforms)
    assert [problem.pointer for problem in found] == ["/suite/axes/platform.env.A/0"]
    assert {problem.pointer for problem in lint("  axes:\n    platform.script: [../x y]\n", platforms)} == {
        "/suite/axes/platform.script"
    }


def test_a_model_that_is_not_known_is_named_where_the_suite_has_it() -> None:
    (found,) = lint("  axes:\n    model.preset: [tiny-llama, tiny-lama]\n")
    assert (found.code, found.line, found.fix) == ("SY105", line_of("tiny-lama]"), "write tiny-llama")


def test_a_cell_that_is_declared_not_to_fit_is_no_error() -> None:
    platforms = f"platforms: {{here: {{gpu: h100, gpus_per_node: 8, framework: megatron, {COUNTING}}}}}\n"
    axes = "  axes:\n    model.preset: [llama3.1-405b, tiny-llama]\n"
    oversized = [problem for problem in lint(axes, platforms) if problem.code == "SY402"]
    assert [problem.stops for problem in oversized] == [True]
    declared = "  include: [{model.preset: llama3.1-405b, expect: oom}]\n"
    oversized = [problem for problem in lint(axes + declared, platforms) if problem.code == "SY402"]
    assert [(problem.stops, problem.allowed_by) for problem in oversized] == [(False, "config")]


def test_platforms_are_compared_within_a_cell(cli: Any) -> None:
    platforms = """\
platforms:
  a: {gpu: h100, gpus_per_node: 8, framework: megatron, overrides: {data: {source: counting}}}
  b: {gpu: h100, gpus_per_node: 8, framework: primus, overrides: {data: {source: counting}}}
"""
    alone = TINY.rstrip() + "\n" + platforms
    FILE.write_text(alone)
    codes = {problem.code for problem in lint_file(FILE, Asked(), LAPTOP)}
    section = "  axes:\n    training.seed: [1, 2, 3]\n"
    found = lint(section, platforms)
    assert codes == {problem.code for problem in found}
    left = [problem for problem in found if problem.code == "SY701"]
    assert left
    assert len({problem.message for problem in left}) == len(left)
    one = lint(section, platforms, Asked(platform="a"))
    assert "SY701" not in {problem.code for problem in one}


@pytest.mark.parametrize("words", [("--set", "training.seed=3"), ("--platform", "none")])
def test_options_that_do_not_fit_the_suite_are_one_error(cli: Any, words: tuple[str, ...]) -> None:
    lint("  axes: {training.seed: [1, 2]}\n")
    done = cli("lint", FILE, *words, "--json")
    assert (done.status, set(done.document)) == (2, {"error"})


def test_a_thousand_cells_are_linted_from_one_reading(cli: Any) -> None:
    lint(f"  axes: {{training.seed: {[*range(1000)]}}}\n")
    done = cli("lint", FILE)
    assert (done.status, done.out) == (0, f"0 errors, 0 warnings\nnext: steelyard run {FILE} --suite\n")
