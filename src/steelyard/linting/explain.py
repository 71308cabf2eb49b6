"""What each lint code means: the text of `explain` and docs/reference/lint.md."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.configs.cvs.keys import JAX
from steelyard.experiment import problems
from steelyard.linting.allowing import refused_codes
from steelyard.linting.table import RULES, rule_module

WHILE_READING: Mapping[str, str] = {
    problems.UNREADABLE: """The file cannot be read as a mapping of keys: it is missing, too large or not text, or its
syntax is broken.

Why: nothing else can be checked.
Fix: correct the place that is named, or start from a config of `steelyard init`.""",
    problems.UNKNOWN_KEY: f"""An unknown key.

Why: a misspelled key is a setting without effect. In a {JAX.upper()} file an unknown key is passed on to the framework
with a warning; the framework stops if it does not support the key.
Fix: write the nearest known key, or remove the key.""",
    problems.WRONG_VALUE: """A value has the wrong type or is out of range.

Why: other programs may read a quoted number, a yes for true or a count of zero differently.
Fix: write a value of the expected kind.""",
    problems.MISSING_KEY: """A required key is missing.

Why: any default would be a guess.
Fix: add the key.""",
    problems.UNKNOWN_NAME: """An unknown model, GPU or other name.

Why: dimensions, peaks and memory are looked up by the name.
Fix: use one of the listed names.""",
    problems.DUPLICATE_KEY: """A key appears twice in one mapping of a JSON file.

Why: a JSON reader uses the last one and drops the others silently. A cluster file with three equal keys has one node.
Fix: remove all but one.""",
    problems.PLACEHOLDER: """A placeholder is not filled in: `<changeme>`, `X.X.X.X`, or an unknown `{name}`.

Why: the selected model, GPU and node count need this value. Placeholders outside the selection may stay.
Fix: `steelyard lint FILE --fill` asks for each value, suggests the example in the file, and writes the file.""",
    problems.FOREIGN_FAMILY: """A config of an unsupported family: the suite's newer schema, the format of a framework,
or a mixture.

Why: its keys look similar but mean other things.
Fix: start from a config of `steelyard init`.""",
    problems.SECRET: """The file contains a secret: a token, a private key, a password, or the value of WANDB_API_KEY.

Why: files are copied, committed and attached to tickets, and a plan prints every variable. No message repeats it.
Fix: remove it, and revoke it if others could read the file. Name a file on the hosts that contains it:
`hf_token_file` for Hugging Face, otherwise `secrets: {NAME: /path}` of the platform. The program finds its copy under
NAME_FILE. A cluster file names the file of a private key. Paths, `${VARIABLE}` and `<placeholder>` are not
secrets.""",
}
"""Codes that are found while a file is read."""


_PAGE = """# Lint codes

```text
steelyard lint FILE...     # every problem with its code, place and fix
steelyard explain SY203    # one code of this page
```

`lint` checks every platform of an experiment file, and every model and GPU of a JSON config. `--platform`, `--model`,
`--gpu` and `--nodes` select fewer. It exits with 2 if there is an error, else with 0. `plan` and `run` refuse a file
with an error and repeat its warnings. `--json`, `--sarif` and `--github` print the problems for programs.

Fix types and names first: arithmetic is checked only in a valid experiment.

Some errors can be allowed if you intend them: `--allow SY121,SY503` with `lint`, `plan`, `run` and `preflight`, or
`allow: [SY121]` in a platform of an experiment file. They are then shown as allowed and do not change the exit status.
`plan.json`, `run.json` and the report list them. A code cannot be allowed if nothing is left to run, or if others could
control the run. The codes below state which can.

Generated from the rules by `python docs/reference/make.py`.

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
    may_be_allowed: bool = False
    """Whether `--allow` can permit it."""

    @property
    def title(self) -> str:
        """`error, can be allowed`."""
        return self.severity + (", can be allowed" if self.may_be_allowed and self.severity == "error" else "")


def explanations() -> dict[str, Explanation]:
    """Every code there is, in order."""
    rules = [(module.RULE, module.__doc__ or "") for module in map(rule_module, RULES)]
    texts = [(code, "error", text) for code, text in WHILE_READING.items()]
    texts += [(rule.code, rule.severity, text) for rule, text in rules]
    return {code: _explained(code, severity, text) for code, severity, text in sorted(texts)}


def _explained(code: str, severity: str, text: str) -> Explanation:
    parts = re.fullmatch(r"(.+?)\s+Why: (.+?)\s+Fix: (.+?)\s*", text, re.DOTALL)
    assert parts is not None, f"the text of {code} needs a first sentence, Why: and Fix:"
    meaning, why, fix = (" ".join(part.split()) for part in parts.groups())
    return Explanation(code, severity, meaning, why, fix, not refused_codes([code]))


def page() -> str:
    """The page of lint codes, as Markdown."""
    sections = (
        f"## {rule.code}\n\n*{rule.title}* {rule.meaning}\n\n- Why: {rule.why}\n- Fix: {rule.fix}\n"
        for rule in explanations().values()
    )
    return "\n".join([_PAGE, *sections])
