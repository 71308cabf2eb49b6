"""steelyard lint FILE…: every problem at once, each with a code, a place and a fix."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import Fillable, Printing
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InputError

if TYPE_CHECKING:
    from steelyard.configs.choose import Asked
    from steelyard.experiment import Problem
    from steelyard.hardware.machine import Machine

EXAMPLES = (
    "Examples: steelyard lint apples-to-apples.yaml | steelyard lint *.json --json | "
    "steelyard lint mi3xx_megatron_llama_single.json --model llama3_1_8b --gpu mi300x --nodes 1"
)


@dataclass(frozen=True, kw_only=True)
class LintOptions(Fillable, Printing):
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Configs or cluster files.")]
    as_sarif: Annotated[bool, typer.Option("--sarif", help="Print a SARIF 2.1.0 document.")] = False
    as_github: Annotated[bool, typer.Option("--github", help="Print annotations of a GitHub workflow.")] = False


@verb
def lint(options: LintOptions) -> int:
    """Show every problem of the files, on all their platforms, models and GPUs."""
    from steelyard.cli import printing
    from steelyard.configs.files import read_mapping
    from steelyard.configs.inventory import is_inventory
    from steelyard.hardware.machine import discover
    from steelyard.linting.formats import github, sarif

    if options.as_json + options.as_sarif + options.as_github > 1:
        raise InputError("--json, --sarif and --github are asked for at once", key="--json", expected="one of them")
    asked = options.asked()
    if options.fill:
        from steelyard.cli.filling import fill_file

        for file in options.files:
            fill_file(file, asked)
    machine = discover()
    alone = len(options.files) == 1
    problems = [problem for file in options.files for problem in _lint(file, asked, machine, alone)]
    if options.as_sarif:
        printing.show_json(sarif(problems))
    elif options.as_github:
        for problem in problems:
            printing.say(github(problem))
    elif options.as_json:
        keys = ("code", "severity", "file", "pointer", "message", "fix", "expected", "line", "allowed")
        printing.show_json({"problems": [{key: getattr(problem, key) for key in keys} for problem in problems]})
    else:
        if len(options.files) == 1 and not problems and is_inventory(read_mapping(options.files[0]).content):
            _show_hosts(options.files[0])
        else:
            same = _same(options)
            _show(problems, _next(options.files, problems, same, asked))
    return Exit.INPUT if any(problem.stops for problem in problems) else Exit.GOOD


def _lint(file: Path, asked: "Asked", machine: "Machine", alone: bool) -> "list[Problem]":
    """A file that cannot be had ends the command where it is the only one, and is a problem among others."""
    from steelyard.configs.files import FileError, UnreadableFileError, unreadable
    from steelyard.experiment import Problem
    from steelyard.linting import lint_file

    try:
        return lint_file(file, asked, machine)
    except UnreadableFileError as missing:
        if alone:
            raise
        return list(unreadable(file, missing.complaint).problems)
    except InputError as other:  # a platform, model or GPU that this file does not have
        if alone:
            raise
        message = other.complaint if isinstance(other, FileError) else other.message
        return [Problem("SY105", "error", str(file), "", message, other.next or "", other.value, other.expected)]


def _same(options: LintOptions) -> str:
    """The options that were given, to be typed again."""
    given = {
        "--platform": options.platform,
        "--model": options.model,
        "--gpu": options.gpu,
        "--gpus": options.gpus,
        "--nodes": options.nodes,
        "--cluster": options.cluster,
    }
    words = [part for name, value in given.items() if value is not None for part in (name, str(value))]
    words += [part for setting in options.settings or [] for part in ("--set", setting)]
    return f" {shlex.join(words)}" if words else ""


def _show_hosts(file: Path) -> None:
    from steelyard.cli import printing
    from steelyard.configs.inventory import read_inventory

    found = read_inventory(file)
    user = f", user {found.user}" if found.user else ""
    printing.say(printing.hang(f"{file}: ", f"{len(found.addresses)} hosts{user}: {', '.join(found.addresses)}"))
    printing.say(f"next: steelyard plan CONFIG --cluster {shlex.quote(str(file))}")


def _show(problems: "list[Problem]", then: str) -> None:
    from steelyard.cli import printing
    from steelyard.linting.formats import sentence

    for problem in problems:
        at = f":{problem.line}" if problem.line else ""
        said = f"{problem.code} {'allowed' if problem.allowed else problem.severity}: {sentence(problem)}"
        printing.say(printing.hang(f"{problem.file}{at}: ", said, indent=4))
        if not problem.allowed and not problem.optional:
            printing.say(printing.hang("    fix: ", problem.fix))
    open_ = [problem for problem in problems if not problem.allowed]
    counts = {word: sum(problem.severity == word for problem in open_) for word in ("error", "warning", "info")}
    totals = [f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count or word != "info"]
    totals += [f"{len(problems) - len(open_)} allowed"] if len(open_) < len(problems) else []
    printing.say(", ".join(totals))
    printing.say(f"next: steelyard {then}")


def _next(files: list[Path], problems: "list[Problem]", same: str, asked: "Asked") -> str:
    """The places that are open first, then what is wrong most often, then the plan."""
    from steelyard.configs.files import read_config, read_mapping
    from steelyard.configs.fill import gaps
    from steelyard.configs.inventory import is_inventory

    errors = [problem.code for problem in problems if problem.stops]
    open_places = "SY110" in errors and len(files) == 1 and not is_inventory(read_mapping(files[0]).content)
    if open_places and gaps(read_config(files[0]), asked):
        return f"lint {shlex.quote(str(files[0]))}{same} --fill"
    if errors:
        return f"explain {max(dict.fromkeys(errors), key=errors.count)}"
    if is_inventory(read_mapping(files[0]).content):
        return f"plan CONFIG --cluster {shlex.quote(str(files[0]))}"
    return f"plan {shlex.quote(str(files[0]))}{same}"
