"""steelyard lint FILE…: every problem at once, each with a code, a place and a fix."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import Fillable, Printing, argument, option
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InputError

if TYPE_CHECKING:
    from steelyard.experiment import Problem

EXAMPLES = (
    "Examples: steelyard lint apples-to-apples.yaml | steelyard lint *.json --json | "
    "steelyard lint mi3xx_megatron_llama_single.json --model llama3_1_8b --gpu mi300x --nodes 1"
)
_KEYS = ("code", "severity", "file", "pointer", "message", "fix", "expected", "line", "allowed")


@dataclass(frozen=True, kw_only=True)
class LintOptions(Fillable, Printing):
    files: list[Path] = argument("FILE…", "Configs or cluster files.")
    as_sarif: bool = option("--sarif", "Print a SARIF 2.1.0 document.")
    as_github: bool = option("--github", "Print annotations of a GitHub workflow.")


@verb
def lint(options: LintOptions) -> int:
    """Show every problem of the files, on all their platforms, models and GPUs."""
    from steelyard import api
    from steelyard.linting.formats import github, sarif

    if options.as_json + options.as_sarif + options.as_github > 1:
        raise InputError("--json, --sarif and --github are asked for at once", key="--json", expected="one of them")
    for file in options.files if options.fill else ():
        from steelyard.cli.filling import fill_file

        fill_file(file, options.asked())
    problems = api.lint(*options.files, **options.selection())
    if options.as_sarif:
        printing.show_json(sarif(problems))
    elif options.as_github:
        for problem in problems:
            printing.say(github(problem))
    elif options.as_json:
        printing.show_json({"problems": [{key: getattr(problem, key) for key in _KEYS} for problem in problems]})
    else:
        _show(problems, options)
    return Exit.INPUT if any(problem.stops for problem in problems) else Exit.GOOD


def _show(problems: "list[Problem]", options: LintOptions) -> None:
    from steelyard.linting.formats import sentence

    if not problems and len(options.files) == 1 and _is_inventory(options.files[0]):
        from steelyard.configs.inventory import read_inventory

        inventory = read_inventory(options.files[0])
        user = f", user {inventory.user}" if inventory.user else ""
        addresses = f"{len(inventory.addresses)} hosts{user}: {', '.join(inventory.addresses)}"
        printing.item(f"{options.files[0]}: ", addresses)
    else:
        for problem in problems:
            at = f":{problem.line}" if problem.line else ""
            text = f"{problem.code} {'allowed' if problem.allowed else problem.severity}: {sentence(problem)}"
            printing.item(f"{problem.file}{at}: ", text, indent=4)
            if not problem.allowed and not problem.optional:
                printing.item("    fix: ", problem.fix)
        open_ = [problem for problem in problems if not problem.allowed]
        counts = {word: sum(problem.severity == word for problem in open_) for word in ("error", "warning", "info")}
        totals = [f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count or word != "info"]
        totals += [f"{len(problems) - len(open_)} allowed"] if len(open_) < len(problems) else []
        printing.say(", ".join(totals))
    printing.say(f"next: steelyard {_next(problems, options)}")


def _next(problems: "list[Problem]", options: LintOptions) -> str:
    """The places that are open first, then what is wrong most often, then the plan."""
    from steelyard.configs.files import read_config
    from steelyard.configs.fill import gaps

    first = shlex.quote(str(options.files[0]))
    errors = [problem.code for problem in problems if problem.stops]
    open_places = "SY110" in errors and len(options.files) == 1 and not _is_inventory(options.files[0])
    if open_places and gaps(read_config(options.files[0]), options.asked()):
        return f"lint {first}{_typed_again(options)} --fill"
    if errors:
        return f"explain {max(dict.fromkeys(errors), key=errors.count)}"
    if _is_inventory(options.files[0]):
        return f"plan CONFIG --cluster {first}"
    return f"plan {first}{_typed_again(options)}"


def _is_inventory(file: Path) -> bool:
    from steelyard.configs.files import read_mapping
    from steelyard.configs.inventory import is_inventory

    return is_inventory(read_mapping(file).content)


def _typed_again(options: LintOptions) -> str:
    names = ("platform", "model", "gpu", "gpus", "nodes", "cluster")
    given = [(f"--{name}", str(value)) for name in names if (value := getattr(options, name)) is not None]
    given += [("--set", setting) for setting in options.settings or ()]
    return "".join(f" {shlex.join(pair)}" for pair in given)
