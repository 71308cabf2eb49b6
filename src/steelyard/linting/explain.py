"""What each lint code means: the text that `explain` and docs/lint.md print."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.experiment import problems
from steelyard.linting import RULES, rule_module

WHILE_READING: Mapping[str, str] = {
    problems.UNREADABLE: """The file is no mapping of keys: unreadable, too large, broken syntax, or not text.

Why: nothing else can be said of it.
Fix: correct the place that is named, or start from one of `steelyard init`.""",
    problems.UNKNOWN_KEY: """A key that nobody knows.

Why: a misspelt key is a setting that silently does not hold. In a JAX file a key we do not know is passed on to the
framework with a warning, and the framework stops at one that it does not know.
Fix: write the nearest known key, which is named, or remove it.""",
    problems.WRONG_VALUE: """A value of the wrong type or out of its range.

Why: a quoted number, a yes for a true, a zero for a count are read differently by every program that comes after.
Fix: write what is expected, which is named.""",
    problems.MISSING_KEY: """A key that must be given is missing.

Why: there is no default that would not be a guess.
Fix: add it.""",
    problems.UNKNOWN_NAME: """A name that is not known: a model, a GPU.

Why: dimensions, peaks and memory are looked up by it.
Fix: use one of those that are listed.""",
    problems.DUPLICATE_KEY: """A key stands twice in one mapping of a JSON file.

Why: a JSON reader takes the last and drops the others without a word; a cluster file of three equal keys is one node.
Fix: remove one of them.""",
    problems.PLACEHOLDER: """A place that was to be filled is left open: `<changeme>`, `X.X.X.X`, or a `{name}` nobody
knows.

Why: what is needed for the selected model, GPU and node count must be said; what is not selected may stay open.
Fix: `steelyard lint FILE --fill` asks for each, with the file's own example, and writes the file.""",
    problems.FOREIGN_FAMILY: """A config of a family that is not read: the suite's newer schema, a
framework's own, or a mixture.

Why: its keys look alike and mean other things.
Fix: start from one of `steelyard init`.""",
    problems.SECRET: """A secret stands in the file: a token, a private key, a password, or what WANDB_API_KEY is given.

Why: files are copied, committed and attached to tickets, and a plan prints every variable. No message repeats it.
Fix: take it out, and replace it where it was issued if others could read the file. Name a file of the hosts that holds
it: `hf_token_file` for Hugging Face, else `secrets: {NAME: /path}` of the platform, whose copy the program finds
under NAME_FILE; a cluster file names a private key. A path, `${VARIABLE}` and `<placeholder>` are not secrets.""",
}
"""Codes that are found while a file is read."""


_PAGE = """# Lint codes

Made by `python docs/reference/make.py` from the rules themselves; `steelyard explain SY203` prints the same.

`steelyard lint FILE…` says every problem it can see, each with a code, a place and a fix: for every platform of an
experiment file and every model and GPU of a JSON config, or for those that `--platform`, `--model`, `--gpu` and
`--nodes` select. Errors end with status 2, warnings and infos with 0. `plan` and `run` refuse a file that has an error
and repeat its warnings. `--json`, `--sarif` and `--github` print the same for programs. Arithmetic is looked at once
the file makes an experiment, so mend types and names first.

Some errors may be permitted where they are meant: `allow: [SY121]` of a platform, or `--set platform.allow=SY121` for
any config. They are then shown as allowed, do not change the status, and `plan.json` lists them. Each such code says
so below.

| | |
| --- | --- |
| SY1xx | file, placeholders, keys |
| SY2xx | batch and parallelism |
| SY3xx | model |
| SY4xx | precision and hardware |
| SY5xx | thresholds |
| SY6xx | cluster |
| SY7xx | comparison |
"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One code in words."""

    code: str
    severity: str
    meaning: str
    why: str
    fix: str


def explanations() -> dict[str, Explanation]:
    """Every code there is, in order."""
    rules = [(module.RULE, module.__doc__ or "") for module in map(rule_module, RULES)]
    texts = [(code, "error", text) for code, text in WHILE_READING.items()]
    texts += [(rule.code, rule.severity, text) for rule, text in rules]
    return {code: _explained(code, severity, text) for code, severity, text in sorted(texts)}


def _explained(code: str, severity: str, text: str) -> Explanation:
    parts = re.fullmatch(r"(.+?)\s+Why: (.+?)\s+Fix: (.+?)\s*", text, re.DOTALL)
    assert parts is not None, f"{code} is explained as what it is, Why: and Fix:"
    return Explanation(code, severity, *(" ".join(part.split()) for part in parts.groups()))


def page() -> str:
    """The page of lint codes, as Markdown."""
    sections = (
        f"## {rule.code}\n\n*{rule.severity}* {rule.meaning}\n\n- Why: {rule.why}\n- Fix: {rule.fix}\n"
        for rule in explanations().values()
    )
    return "\n".join([_PAGE, *sections])
