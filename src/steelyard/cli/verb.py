"""Makes a verb of the command line from a dataclass of its options and the function that takes them."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

Options = TypeVar("Options")


def verb(work: Callable[[Options], int | None]) -> Callable[..., int | None]:
    """What the parser is given: every field of the options is an argument or an option of the verb."""
    options: Any = next(iter(get_type_hints(work).values()))
    types = get_type_hints(options, include_extras=True)

    def call(**given: Any) -> int | None:
        return work(options(**given))

    declared = [inspect.get_annotations(base) for base in options.__mro__]
    ordered = sorted(  # the verb's own first in --help, then what it shares with others
        fields(options), key=lambda field: next(at for at, names in enumerate(declared) if field.name in names)
    )
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=types[field.name],
        )
        for field in ordered
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {field.name: types[field.name] for field in ordered}
    call.__name__, call.__doc__ = work.__name__, work.__doc__
    return call
