"""steelyard lint FILE...: lists every problem with its code, place and fix."""

import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import QUIET, Fillable, Printing, argument, examples, option
from steelyard.cli.printing import Style
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.experiment import Problem, Reading
    from steelyard.linting.fixing import Correction

EXAMPLES = examples(
    "steelyard lint tiny-llama.yaml",
    "steelyard lint mi3xx_megatron_llama_single.json --fill",
    "steelyard lint mi3xx_megatron_llama_single.json --fix",
    "steelyard lint *.json --json",
)
_KEYS = ("code", "severity", "file", "pointer", "message", "fix", "expected", "line", "allowed", "settings")
_STYLES = {"info": Style.FAINT, "allowed": Style.FAINT, "warning": Style.DOUBTFUL, "error": Style.BAD}
"""Severities as they are shown, the worst last."""


@dataclass(frozen=True, kw_only=True)
class LintOptions(Fillable, Printing):
    files: list[Path] = argument("FILE", "Configs or cluster files.")
    fix: bool = option("--fix", "Write FILE.fixed.json with the corrections that need no decision, and list the rest.")
    quiet: bool = option(QUIET[0], "Print only the counts.")
    as_sarif: bool = option("--sarif", "Print a SARIF 2.1.0 document.")
    as_github: bool = option("--github", "Print annotations of a GitHub workflow.")


@verb
def lint(options: LintOptions) -> int:
    """List the problems of configs and cluster files.

    All platforms, models and GPUs of a file are checked, unless options select one.
    """
    from steelyard import api
    from steelyard.linting.formats import github, sarif

    if options.as_json + options.as_sarif + options.as_github > 1:
        complaint = "--json, --sarif and --github cannot be combined"
        raise InputError(complaint, key="--json", expected="one of them", next="leave out the others")
    for file in options.files if options.fill else ():
        from steelyard.cli.filling import fill_file

        fill_file(file, options.asked())
    fixed = list(map(partial(_fix, options=options), options.files)) if options.fix else []
    options = replace(options, files=[target for target, _ in fixed]) if fixed else options
    problems = api.lint(*options.files, **options.selection())
    if options.as_sarif:
        printing.show_json(sarif(problems))
    elif options.as_github:
        for problem in problems:
            printing.say(github(problem))
    elif options.as_json:
        listed = [{key: getattr(problem, key) for key in _KEYS} for problem in problems]
        made = [{"file": str(path), "corrections": [each.document() for each in all]} for path, all in fixed]
        printing.show_json({"problems": listed, "fixed": made})
    else:
        for target, corrections in fixed:
            _show_fixed(target, corrections)
        _show(problems, options)
    return Exit.INPUT if any(problem.stops for problem in problems) else Exit.GOOD


def _fix(file: Path, options: LintOptions) -> "tuple[Path, Sequence[Correction]]":
    from steelyard import api
    from steelyard.linting.fixing import fix_file

    return fix_file(file, api.lint(file, **options.selection()))


def _show_fixed(target: Path, corrections: "Sequence[Correction]") -> None:
    for correction in corrections:
        printing.item(f"fixed {correction.code}: ", correction.words)
    count = len(corrections)
    wrote = f"wrote {target} with {count} correction{'s' * (count != 1)}"
    printing.say(wrote if count else f"{target}: no correction can be made without a decision")


def _show(problems: "Sequence[Problem]", options: LintOptions) -> None:
    """The problems, errors last, then the counts and the next command: the end is what a terminal shows."""
    shown = sorted(problems, key=lambda problem: [*_STYLES].index(_severity(problem)))
    for problem in () if options.quiet else shown:
        _show_problem(problem, with_settings=options.fix)
    if not problems and len(options.files) == 1 and _is_inventory(options.files[0]):
        _show_hosts(options.files[0])
    else:
        counts = {word: sum(_severity(problem) == word for problem in problems) for word in reversed(_STYLES)}
        listed = [
            f"{count} {word}{'s' * (count != 1 and word != 'allowed')}"
            for word, count in counts.items()
            if count or word in ("error", "warning")
        ]
        worst = next((word for word, count in counts.items() if count), None)
        printing.say(", ".join(listed), Style.GOOD if worst is None else _STYLES[worst])
    if not options.quiet:
        printing.say(f"next: steelyard {_next(problems, options)}")


def _severity(problem: "Problem") -> str:
    return "allowed" if problem.allowed else problem.severity


def _show_problem(problem: "Problem", with_settings: bool) -> None:
    from steelyard.linting.formats import sentence

    severity, line = _severity(problem), f":{problem.line}" if problem.line else ""
    head = f"{printing.inert(problem.file)}{line}: {problem.code} {severity}: "
    printing.item(head, sentence(problem), indent=4, style=_STYLES[severity])
    if not problem.allowed and not problem.optional:
        printing.item("    fix: ", problem.fix)
        for at, setting in enumerate(problem.settings if with_settings else ()):
            printing.say(f"    {'or' if at else 'by'} {setting}")


def _show_hosts(file: Path) -> None:
    from steelyard.configs.inventory import read_inventory

    inventory = read_inventory(file)
    user = f", user {inventory.user}" if inventory.user else ""
    count = len(inventory.addresses)
    hosts = f"{count:,} host{'s' * (count != 1)}{user}: {', '.join(inventory.addresses)}"
    printing.item(f"{file}: ", hosts)


def _next(problems: "Sequence[Problem]", options: LintOptions) -> str:
    """Fill in placeholders first, then correct, then explain the most frequent error, then plan."""
    from steelyard.configs.files import read_config
    from steelyard.configs.fill import gaps
    from steelyard.linting.fixing import can_fix

    file = options.files[0]
    name, is_inventory = shlex.quote(str(file)), _is_inventory(file)
    errors = [problem.code for problem in problems if problem.stops]
    can_be_filled = "SY110" in errors and len(options.files) == 1 and not is_inventory
    if can_be_filled and gaps(read_config(file), options.asked()):
        return f"lint {name}{options.typed_again()} --fill"
    if not options.fix and len(options.files) == 1 and can_fix(file, problems):
        return f"lint {name}{options.typed_again()} --fix"
    if errors:
        return f"explain {max(dict.fromkeys(errors), key=errors.count)}"
    return f"preflight --cluster {name}" if is_inventory else _next_plan(file, options)


def _next_plan(file: Path, options: LintOptions) -> str:
    """The run of a suite, else the plan of the first selection; for a framework without plans, how to import logs."""
    from steelyard.configs.choose import readings
    from steelyard.configs.files import read_config
    from steelyard.experiment.cells import SUITE
    from steelyard.frameworks.registry import is_planned

    name, config = shlex.quote(str(file)), read_config(file)
    if SUITE in config.content:
        return f"run {name}{options.typed_again()} --suite"
    matches = readings(config, options.asked())
    planned = [match for match in matches if is_planned(_framework(match))]
    chosen = (planned or matches)[0].platform
    select = f" --platform {shlex.quote(chosen)}" if chosen is not None and options.platform is None else ""
    if not planned:
        return f"ingest LOG --config {name} --platform {shlex.quote(str(chosen))}"
    return f"plan {name}{options.typed_again()}{select if len(matches) > 1 else ''}"


def _framework(reading: "Reading") -> str:
    platforms = reading.content.get("platforms") or {}
    return str(platforms.get(reading.platform, {}).get("framework", "native"))


def _is_inventory(file: Path) -> bool:
    from steelyard.configs.files import read_mapping
    from steelyard.configs.inventory import is_inventory

    return is_inventory(read_mapping(file).content)
