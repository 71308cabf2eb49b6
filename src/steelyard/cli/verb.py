"""Makes a verb of the command line from a dataclass of its options and the function that takes them."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter
from typing import Annotated, Any, TypeVar, get_type_hints

Options = TypeVar("Options")
PARSED = "parsed"
"""Where a field keeps what the parser knows of it."""


def verb(work: Callable[[Options], int | None]) -> Callable[..., int | None]:
    """What the parser is given: every field of the options is an argument or an option of the verb."""
    options: Any = next(iter(get_type_hints(work).values()))
    hints = get_type_hints(options)

    def call(**given: Any) -> int | None:
        return work(options(**given))

    declared = [inspect.get_annotations(base) for base in options.__mro__]
    ordered = sorted(  # the verb's own first in --help, then what it shares with others
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
