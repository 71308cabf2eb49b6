"""steelyard explain KEY|SYnnn: what a parameter or a lint code means."""

from typing import Annotated

import typer

from steelyard.cli.options import DebugOption, JsonOption

EXAMPLES = "Examples: steelyard explain SY502 | steelyard explain adam_beta2 | steelyard explain nnodes"


def explain(
    name: Annotated[str, typer.Argument(metavar="KEY|SYnnn", help="A key of a config, or a lint code.")],
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say what a lint code or a key of a config means, and what each framework calls it."""
    from steelyard.cli import printing
    from steelyard.errors import InputError
    from steelyard.linting.explain import explanations

    codes = explanations()
    if name.upper() in codes:
        found = codes[name.upper()]
        if as_json:
            printing.show_json(
                {"code": found.code, "severity": found.severity, "what": found.what, "why": found.why, "fix": found.fix}
            )
        else:
            printing.say(f"{found.code} ({found.severity})")
            printing.say(printing.hang("", found.what))
            printing.say(printing.hang("\nWhy: ", found.why, indent=5))
            printing.say(printing.hang("Fix: ", found.fix))
        return
    from steelyard.configs.meanings import meanings

    entries = meanings(name)
    if not entries:
        import difflib

        from steelyard.configs.meanings import every_name

        near = difflib.get_close_matches(name, list(every_name()), n=3, cutoff=0.6)
        raise InputError(
            f"{name!r} is no lint code and no key of a config",
            key="KEY|SYnnn",
            value=name,
            expected=f"one such as {', '.join(near)}" if near else "a code of docs/lint.md or a key of docs/reference",
            next=f"steelyard explain {near[0]}"
            if near
            else "steelyard lint FILE, whose codes and keys can be explained",
        )
    if as_json:
        printing.show_json({"meanings": [entry.document() for entry in entries]})
        return
    printing.say("\n\n".join(entry.text() for entry in entries))
