"""steelyard lint FILE…: every problem at once, each with a code, a place and a fix."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.options import DebugOption, GpuOption, GpusOption, JsonOption, PlatformOption, SetOption
from steelyard.errors import Exit

EXAMPLES = "Examples: steelyard lint apples-to-apples.yaml | steelyard lint *.yaml --json"


def lint(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Experiment files.")],
    platform: PlatformOption = None,
    settings: SetOption = None,
    gpu: GpuOption = None,
    gpus: GpusOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Show every problem of the files, on all their platforms."""
    from steelyard.cli import printing
    from steelyard.cli.inputs import check_gpu
    from steelyard.experiment import parse_settings
    from steelyard.hardware.machine import discover
    from steelyard.lint import Asked, lint_file

    check_gpu(gpu)
    asked = Asked(platform, parse_settings(settings or []), gpu, gpus)
    machine = discover()
    problems = [problem for file in files for problem in lint_file(file, asked, machine)]
    if as_json:
        keys = ("code", "severity", "file", "pointer", "message", "fix", "expected")
        printing.show_json({"problems": [{key: getattr(problem, key) for key in keys} for problem in problems]})
    else:
        for problem in problems:
            expected = f", expected {problem.expected}" if problem.expected else ""
            printing.say(f"{problem.file}: {problem.code} {problem.severity}: {problem.message}{expected}")
            printing.say(f"    fix: {problem.fix}")
        errors = sum(problem.severity == "error" for problem in problems)
        warnings = sum(problem.severity == "warning" for problem in problems)
        printing.say(f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}")
        if not errors and len(files) == 1:
            printing.say(f"next: steelyard plan {shlex.quote(str(files[0]))}")
    return Exit.INPUT if any(problem.severity == "error" for problem in problems) else Exit.GOOD
