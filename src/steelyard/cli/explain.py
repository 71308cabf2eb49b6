"""steelyard explain KEY|SYnnn|CODE: the meaning of a config key, a lint code, a reason code or a check."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import getdoc
from typing import TYPE_CHECKING, Any

from steelyard.cli import printing
from steelyard.cli.options import Printing, argument, examples
from steelyard.cli.printing import Style
from steelyard.cli.verb import verb
from steelyard.errors import InputError

if TYPE_CHECKING:
    from steelyard.configs.meanings import Meaning
    from steelyard.reasons import Code

EXAMPLES = examples("steelyard explain adam_beta2", "steelyard explain SY502", "steelyard explain first_loss_off")
_NAMES = "KEY|SYnnn|CODE"


def reason_codes() -> dict[str, dict["Code", str]]:
    """The reason codes of each stage, with their meanings."""
    from steelyard import verdict
    from steelyard.campaign import (
        fleet_verdict,
        ladder,
        learn,
        samples,
        scaling,
        suite_matching,
        suite_notices,
        trend,
        waterfall,
    )
    from steelyard.comparison import codes, convergence, expectations, reduction, remedies, smoothing, starts
    from steelyard.comparison.diagnoses import DIAGNOSES
    from steelyard.comparison.tiers import TIERS
    from steelyard.execute import preflight
    from steelyard.reasons import codes_in
    from steelyard.reporting import verify

    tiers = (import_module(f"steelyard.comparison.tiers.{name}") for name in TIERS)
    diagnoses = (import_module(f"steelyard.comparison.diagnoses.{name}") for name in DIAGNOSES)
    return {
        "preflight": preflight.codes(),
        "verdict": verdict.codes(),
        "comparison": codes_in(codes),
        "convergence": codes_in(convergence, reduction, smoothing, starts, *tiers),
        "diagnosis": codes_in(*diagnoses),
        "remedy": codes_in(remedies, expectations),
        "campaign": codes_in(
            suite_matching, suite_notices, fleet_verdict, ladder, learn, samples, scaling, trend, waterfall
        ),
        "bundle": codes_in(verify),
    }


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(Printing):
    name: str = argument(_NAMES, "A config key, a lint code, a reason code, or a check or word as printed.")


@verb
def explain(options: ExplainOptions) -> None:
    """Explain a config key, a lint code, a reason code, or the name of a check.

    For a config key, it also shows the name and the default in each framework.
    """
    from steelyard.linting.explain import explanations

    name, codes = options.name.removeprefix("config."), explanations()  # as lint prints keys of a JSON config
    if (code := codes.get(name.upper())) is not None:
        if options.as_json:
            document = {"code": code.code, "severity": code.severity, "may_be_allowed": code.may_be_allowed}
            printing.show_json({**document, "what": code.meaning, "why": code.why, "fix": code.fix})
        else:
            printing.say(f"{code.code} ({code.title})", Style.STRONG, len(code.code))
            printing.item("  ", code.meaning)
            printing.item("  why: ", code.why)
            printing.item("  fix: ", code.fix)
        return
    from steelyard.configs.meanings import meanings

    reasons = {code.name: (stage, text) for stage, texts in reason_codes().items() for code, text in texts.items()}
    entries, words = meanings(name), {word.name: word for word in _words()}
    if name not in reasons and not entries and name not in words:
        raise _unknown(name, [*reasons, *words])
    stage, meaning = reasons.get(name, ("", ""))  # a diagnosis may have the name of a key
    word = words.get(name)
    if options.as_json:
        document = {"code": name, "stage": stage, "meaning": meaning} if meaning else {}
        document |= word.document() if word else {}
        printing.show_json(document | ({"meanings": [entry.document() for entry in entries]} if entries else {}))
        return
    sections: list[Callable[[], None]] = [partial(_show_reason, name, stage, meaning)] if meaning else []
    sections += [word.show] if word else []
    sections += [partial(_show_key, entry) for entry in entries]
    for at, show in enumerate(sections):
        if at:
            printing.say("")
        show()


def _show_reason(name: str, stage: str, meaning: str) -> None:
    printing.say(f"{name} (reason code of {stage})", Style.STRONG, len(name))
    printing.item("  ", meaning)


@dataclass(frozen=True, slots=True)
class _Word:
    """A word that is printed: a check, a tier, or a reason why steps are left out."""

    name: str
    kind: str
    meaning: str
    codes: Mapping["Code", str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        codes = {code.name: text for code, text in self.codes.items()}
        return {"word": self.name, "kind": self.kind, "meaning": self.meaning, "codes": codes}

    def show(self) -> None:
        printing.say(f"{self.name} ({self.kind})", Style.STRONG, len(self.name))
        printing.item("  ", self.meaning)
        for code, text in self.codes.items():
            printing.item(f"  {code.name}: ", text, 4)


def _words() -> Iterator[_Word]:
    """Checks of a verdict, tiers of convergence that are not also checks, metrics, and what `dropped: …` names."""
    from steelyard.accounting.steady import LEFT_OUT
    from steelyard.comparison.tiers import TIERS
    from steelyard.experiment.thresholds import METRICS
    from steelyard.reasons import codes_in
    from steelyard.verdict import CHECKS

    kinds = {name: ("tier of convergence", f"steelyard.comparison.tiers.{name}") for name in TIERS}
    kinds |= {name: ("check of a run", f"steelyard.verdict.checks.{name}") for name in CHECKS}
    for name, (kind, path) in kinds.items():
        module = import_module(path)
        yield _Word(name, kind, " ".join((getdoc(module) or "").split()), codes_in(module))
    for name, meaning in METRICS.items():
        yield _Word(name, "metric of a run", meaning)
    for name, meaning in LEFT_OUT.items():
        yield _Word(name, "steps left out of rates", meaning)


def _show_key(entry: "Meaning") -> None:
    printing.say(f"{entry.key} in {entry.where}", Style.STRONG, len(entry.key))
    printing.item("  ", entry.meaning)
    if entry.reads:
        printing.item("  ", f"becomes: {entry.reads}" if entry.is_read else "nothing reads it")
    if entry.default:
        printing.item("  default: ", entry.default)
    width = max(map(len, entry.frameworks), default=0)
    for framework, words in entry.frameworks.items():
        printing.item(f"  {framework:<{width}}  ", words)


def _unknown(name: str, reasons: Iterable[str]) -> InputError:
    from steelyard.configs.meanings import every_name

    expected, next_step = "a config key such as training.steps", "steelyard explain training.steps"
    if near := difflib.get_close_matches(name, [*every_name(), *reasons], n=3, cutoff=0.6):
        expected, next_step = f"a name such as {', '.join(near)}", f"steelyard explain {near[0]}"
    complaint = f"{name!r} is not a config key, a lint code, a reason code or a check"
    return InputError(complaint, key=_NAMES, value=name, expected=expected, next=next_step)
