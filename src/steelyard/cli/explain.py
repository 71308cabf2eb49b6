"""steelyard explain KEY|SYnnn|CODE: what a parameter, a lint code or a reason code means."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import Printing
from steelyard.cli.verb import verb

if TYPE_CHECKING:
    from steelyard.reasons import Code

EXAMPLES = (
    "Examples: steelyard explain SY502 | steelyard explain adam_beta2 | steelyard explain nnodes"
    " | steelyard explain first_loss_off"
)
_PAGE = """# Reason codes

Made by `python docs/reference/make.py` from the code; `steelyard explain first_loss_off` prints the same.

A code names what was found. `preflight --json` and `check --json` have one per finding, `compare --json` one per
reason, tier and diagnosis. Use codes in scripts: they stay the same where the wording of `message` changes.
"""


def reason_codes() -> dict[str, dict["Code", str]]:
    """The codes of each stage that gives reasons, each with its meaning."""
    from steelyard import verdict
    from steelyard.campaign import family, learn, scaling, trend
    from steelyard.comparison import codes, convergence
    from steelyard.comparison.diagnoses import DIAGNOSES
    from steelyard.comparison.tiers import TIERS
    from steelyard.execute import preflight
    from steelyard.reasons import codes_in

    tiers = (import_module(f"steelyard.comparison.tiers.{name}") for name in TIERS)
    diagnoses = (import_module(f"steelyard.comparison.diagnoses.{name}") for name in DIAGNOSES)
    return {
        "preflight": preflight.codes(),
        "verdict": verdict.codes(),
        "comparison": codes_in(codes),
        "convergence": codes_in(convergence, *tiers),
        "diagnosis": codes_in(*diagnoses),
        "campaign": codes_in(family, learn, scaling, trend),
    }


def page() -> str:
    """The page of reason codes, as Markdown."""
    parts = [_PAGE]
    for stage, codes in reason_codes().items():
        rows = [f"| `{code.name}` | {meaning} |" for code, meaning in codes.items()]
        parts.append("\n".join([f"## {stage.capitalize()}\n", "| code | meaning |", "| --- | --- |", *rows, ""]))
    return "\n".join(parts)


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(Printing):
    name: Annotated[
        str, typer.Argument(metavar="KEY|SYnnn|CODE", help="A key of a config, a lint code or a reason code.")
    ]


@verb
def explain(options: ExplainOptions) -> None:
    """Say what a lint code, a reason code or a key of a config means, and what each framework calls it."""
    from steelyard.cli import printing
    from steelyard.errors import InputError
    from steelyard.linting.explain import explanations

    codes = explanations()
    if options.name.upper() in codes:
        found = codes[options.name.upper()]
        if options.as_json:
            printing.show_json(
                {
                    "code": found.code,
                    "severity": found.severity,
                    "what": found.meaning,
                    "why": found.why,
                    "fix": found.fix,
                }
            )
        else:
            printing.say(f"{found.code} ({found.severity})")
            printing.say(printing.hang("", found.meaning))
            printing.say(printing.hang("\nWhy: ", found.why, indent=5))
            printing.say(printing.hang("Fix: ", found.fix))
        return
    reasons = {
        code.name: (stage, meaning) for stage, of_stage in reason_codes().items() for code, meaning in of_stage.items()
    }
    from steelyard.configs.meanings import meanings

    entries = meanings(options.name)
    if options.name in reasons:  # a diagnosis may have the name of the key it is about
        stage, meaning = reasons[options.name]
        if options.as_json:
            keys = {"meanings": [entry.document() for entry in entries]} if entries else {}
            printing.show_json({"code": options.name, "stage": stage, "meaning": meaning, **keys})
            return
        printing.say(f"{options.name} ({stage})")
        printing.say(printing.hang("", meaning))
        if entries:
            printing.say("")
    elif not entries:
        import difflib

        from steelyard.configs.meanings import every_name

        near = difflib.get_close_matches(options.name, [*every_name(), *reasons], n=3, cutoff=0.6)
        raise InputError(
            f"{options.name!r} is not a lint code, a reason code or a key of a config",
            key="KEY|SYnnn|CODE",
            value=options.name,
            expected=f"one such as {', '.join(near)}" if near else "a code of docs/lint.md or a key of docs/reference",
            next=f"steelyard explain {near[0]}"
            if near
            else "steelyard lint FILE, whose codes and keys can be explained",
        )
    if options.as_json:
        printing.show_json({"meanings": [entry.document() for entry in entries]})
        return
    if entries:
        printing.say("\n\n".join(entry.text() for entry in entries))
