"""steelyard explain KEY|SYnnn|CODE: what a parameter, a lint code or a reason code means."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import Printing, argument
from steelyard.cli.verb import verb
from steelyard.errors import InputError

if TYPE_CHECKING:
    from steelyard.reasons import Code

EXAMPLES = (
    "Examples: steelyard explain SY502 | steelyard explain adam_beta2 | steelyard explain nnodes"
    " | steelyard explain first_loss_off"
)
_NAMES = "KEY|SYnnn|CODE"


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


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(Printing):
    name: str = argument(_NAMES, "A key of a config, a lint code or a reason code.")


@verb
def explain(options: ExplainOptions) -> None:
    """Say what a lint code, a reason code or a key of a config means, and what each framework calls it."""
    from steelyard.linting.explain import explanations

    name, codes = options.name, explanations()
    if (code := codes.get(name.upper())) is not None:
        if options.as_json:
            printing.show_json(
                {"code": code.code, "severity": code.severity, "what": code.meaning, "why": code.why, "fix": code.fix}
            )
        else:
            printing.say(f"{code.code} ({code.severity})")
            printing.item("", code.meaning)
            printing.item("\nWhy: ", code.why, indent=5)
            printing.item("Fix: ", code.fix)
        return
    from steelyard.configs.meanings import meanings

    reasons = {code.name: (stage, text) for stage, texts in reason_codes().items() for code, text in texts.items()}
    entries = meanings(name)
    if name not in reasons and not entries:
        raise _unknown(name, reasons)
    stage, meaning = reasons.get(name, ("", ""))  # a diagnosis may have the name of the key it is about
    if options.as_json:
        reason = {"code": name, "stage": stage, "meaning": meaning} if meaning else {}
        printing.show_json(reason | ({"meanings": [entry.document() for entry in entries]} if entries else {}))
        return
    if meaning:
        printing.say(f"{name} ({stage})")
        printing.item("", meaning)
    if meaning and entries:
        printing.say("")
    if entries:
        printing.say("\n\n".join(entry.text() for entry in entries))


def _unknown(name: str, reasons: Iterable[str]) -> InputError:
    from steelyard.configs.meanings import every_name

    expected = "a code of docs/lint.md or a key of docs/reference"
    way_on = "steelyard lint FILE, whose codes and keys can be explained"
    if near := difflib.get_close_matches(name, [*every_name(), *reasons], n=3, cutoff=0.6):
        expected, way_on = f"one such as {', '.join(near)}", f"steelyard explain {near[0]}"
    complaint = f"{name!r} is not a lint code, a reason code or a key of a config"
    return InputError(complaint, key=_NAMES, value=name, expected=expected, next=way_on)
