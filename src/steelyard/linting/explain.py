"""What each lint code means: the text that `explain` and docs/lint.md print."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.experiment.problems import (
    DUPLICATE_KEY,
    FOREIGN_FAMILY,
    MISSING_KEY,
    PLACEHOLDER,
    SECRET,
    UNKNOWN_KEY,
    UNKNOWN_NAME,
    UNREADABLE,
    WRONG_VALUE,
)
from steelyard.linting import RULES, rule_module

WHILE_READING: Mapping[str, str] = {
    UNREADABLE: """The file is no mapping of keys: unreadable, too large, broken syntax, or not text.

Why: nothing else can be said of it.
Fix: correct the place that is named, or start from one of `steelyard init`.""",
    UNKNOWN_KEY: """A key that nobody knows.

Why: a misspelt key is a setting that silently does not hold. In a JAX file a key we do not know is passed on to MaxText
with a warning, and MaxText stops at one that it does not know.
Fix: write the nearest known key, which is named, or remove it.""",
    WRONG_VALUE: """A value of the wrong type or out of its range.

Why: a quoted number, a yes for a true, a zero for a count are read differently by every program that comes after.
Fix: write what is expected, which is named.""",
    MISSING_KEY: """A key that must be given is missing.

Why: there is no default that would not be a guess.
Fix: add it.""",
    UNKNOWN_NAME: """A name that is not known: a model, a GPU.

Why: dimensions, peaks and memory are looked up by it.
Fix: use one of those that are listed.""",
    DUPLICATE_KEY: """A key stands twice in one mapping of a JSON file.

Why: a JSON reader takes the last and drops the others without a word; a cluster file of three equal keys is one node.
Fix: remove one of them.""",
    PLACEHOLDER: """A place that was to be filled is left open: `<changeme>`, `X.X.X.X`, or a `{name}` nobody knows.

Why: what is needed for the selected model, GPU and node count must be said; what is not selected may stay open.
Fix: `steelyard lint FILE --fill` asks for each, with the file's own example, and writes the file.""",
    FOREIGN_FAMILY: """A config of a family that is not read: the suite's newer schema, torchtitan, or a mixture.

Why: its keys look alike and mean other things.
Fix: start from one of `steelyard init`.""",
    SECRET: """A secret stands in the file: a token, a private key, a password, or what WANDB_API_KEY is given.

Why: files are copied, committed and attached to tickets, and a plan prints every variable. No message repeats it.
Fix: take it out, and replace it where it was issued if others could read the file. Name a file of the hosts that holds
it: `hf_token_file` for Hugging Face, else `secrets: {NAME: /path}` of the platform, whose copy the program finds
under NAME_FILE; a cluster file names a private key. A path, `${VARIABLE}` and `<placeholder>` are not secrets.""",
}
"""Codes that are found while a file is read."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One code in words."""

    code: str
    severity: str
    what: str
    why: str
    fix: str


def explanations() -> dict[str, Explanation]:
    """Every code there is, in order."""
    found = {code: _explained(code, "error", text) for code, text in WHILE_READING.items()}
    for name in RULES:
        module = rule_module(name)
        found[module.RULE.code] = _explained(module.RULE.code, module.RULE.severity, module.__doc__ or "")
    return dict(sorted(found.items()))


def _explained(code: str, severity: str, text: str) -> Explanation:
    parts = re.fullmatch(r"(?P<what>.+?)\s+Why: (?P<why>.+?)\s+Fix: (?P<fix>.+?)\s*", text, re.DOTALL)
    assert parts is not None, f"{code} is explained as what it is, Why: and Fix:"
    what, why, fix = (" ".join(parts[name].split()) for name in ("what", "why", "fix"))
    return Explanation(code, severity, what, why, fix)
