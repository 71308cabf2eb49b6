"""The page of lint codes, from the rules themselves."""

from steelyard.linting.explain import explanations

HEAD = """# Lint codes

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


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for found in explanations().values():
        parts.append(f"## {found.code}\n\n*{found.severity}* {found.what}\n\n- Why: {found.why}\n- Fix: {found.fix}\n")
    return "\n".join(parts)
