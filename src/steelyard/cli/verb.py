"""Turns a dataclass of options and a function into a verb of the command line, with readable help."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter
from typing import Annotated, Any, TypeVar, get_type_hints

from typer.core import TyperArgument, TyperCommand, TyperGroup

from steelyard.errors import SteelyardError

Options = TypeVar("Options")
PARSED = "parsed"
"""Metadata key of a field: its argument or option for the parser."""


class VerbGroup(TyperGroup):
    """Shows the first sentence of every command in full."""

    def get_short_help_str(self, limit: int = 45) -> str:
        return super().get_short_help_str(_WHOLE_SENTENCE)


class VerbCommand(TyperCommand):
    """Shows arguments by their names, without Python types, and its first sentence in full."""

    def get_short_help_str(self, limit: int = 45) -> str:
        return super().get_short_help_str(_WHOLE_SENTENCE)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(_name(each) for each in self.params if isinstance(each, TyperArgument))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for each in self.get_params(ctx):
            if isinstance(each, TyperArgument):
                sections["Arguments"].append((_name(each), each.help or ""))
            elif (record := each.get_help_record(ctx)) is not None:
                sections["Options"].append(record)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


_WHOLE_SENTENCE = 1000


def _name(argument: TyperArgument) -> str:
    name = f"{argument.metavar}..." if argument.nargs == -1 else str(argument.metavar)
    return name if argument.required else f"[{name}]"


def verb(work: Callable[[Options], int | None]) -> Callable[..., int | None]:
    """The function for the parser: every field of the options is an argument or an option of the verb."""
    options: Any = next(iter(get_type_hints(work).values()))
    hints = get_type_hints(options)

    def call(**given: Any) -> int | None:
        typed = options(**given)
        try:
            return work(typed)
        except SteelyardError as error:
            if hasattr(typed, "typed_again") and not error.options:
                error.options = typed.typed_again()
            raise

    declared = [inspect.get_annotations(base) for base in options.__mro__]
    ordered = sorted(  # in --help, the options of the verb come before those that it shares with others
        fields(options), key=lambda field: next(at for at, names in enumerate(declared) if field.name in names)
    )
    types = {field.name: Annotated[hints[field.name], field.metadata[PARSED]] for field in ordered}
    parameters = []
    for field in ordered:
        default = Parameter.empty if field.default is MISSING else field.default
        parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=types[field.name]))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = types
    call.__name__, call.__doc__ = work.__name__, work.__doc__
    return call
