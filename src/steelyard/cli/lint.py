"""steelyard lint FILE…: every problem at once, each with a code, a place and a fix."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import (
    ClusterOption,
    DebugOption,
    FillOption,
    GpuOption,
    GpusOption,
    JsonOption,
    ModelOption,
    NodesOption,
    PlatformOption,
    SetOption,
)
from steelyard.errors import Exit

if TYPE_CHECKING:
    from steelyard.experiment import Problem

EXAMPLES = (
    "Examples: steelyard lint apples-to-apples.yaml | steelyard lint *.json --json | "
    "steelyard lint mi3xx_megatron_llama_single.json --model llama3_1_8b --gpu mi300x --nodes 1"
)


def lint(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Configs or cluster files.")],
    platform: PlatformOption = None,
    model: ModelOption = None,
    settings: SetOption = None,
    gpu: GpuOption = None,
    gpus: GpusOption = None,
    nodes: NodesOption = None,
    cluster: ClusterOption = None,
    fill: FillOption = False,
    as_json: JsonOption = False,
    as_sarif: Annotated[bool, typer.Option("--sarif", help="Print a SARIF 2.1.0 document.")] = False,
    as_github: Annotated[bool, typer.Option("--github", help="Print annotations of a GitHub workflow.")] = False,
    debug: DebugOption = False,
) -> int:
    """Show every problem of the files, on all their platforms, models and GPUs."""
    from steelyard.cli import printing
    from steelyard.cli.inputs import asked_of, fill_file
    from steelyard.hardware.machine import discover
    from steelyard.lint import lint_file
    from steelyard.lint.formats import github, sarif

    asked = asked_of(platform, settings, gpu, gpus, model, nodes, cluster)
    if fill:
        for file in files:
            fill_file(file, asked)
    machine = discover()
    problems = [problem for file in files for problem in lint_file(file, asked, machine)]
    if as_sarif:
        printing.show_json(sarif(problems))
    elif as_github:
        for problem in problems:
            printing.say(github(problem))
    elif as_json:
        keys = ("code", "severity", "file", "pointer", "message", "fix", "expected", "line")
        printing.show_json({"problems": [{key: getattr(problem, key) for key in keys} for problem in problems]})
    else:
        _show(files, problems)
    return Exit.INPUT if any(problem.severity == "error" for problem in problems) else Exit.GOOD


def _show(files: list[Path], problems: "list[Problem]") -> None:
    from steelyard.cli import printing
    from steelyard.lint.formats import sentence

    for problem in problems:
        at = f":{problem.line}" if problem.line else ""
        printing.say(f"{problem.file}{at}: {problem.code} {problem.severity}: {sentence(problem)}")
        printing.say(f"    fix: {problem.fix}")
    counts = {word: sum(problem.severity == word for problem in problems) for word in ("error", "warning", "info")}
    said = [f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count or word != "info"]
    printing.say(", ".join(said))
    if not counts["error"] and len(files) == 1:
        printing.say(f"next: steelyard plan {shlex.quote(str(files[0]))}")
    elif problems:
        printing.say(f"next: steelyard explain {problems[0].code}")
