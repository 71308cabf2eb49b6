"""One thing that is wrong with an experiment file, as every stage reports it."""

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from steelyard.errors import InputError
from steelyard.secrets import HIDDEN, TOKENS

Severity = Literal["error", "warning", "info"]

UNREADABLE = "SY101"
UNKNOWN_KEY = "SY102"
WRONG_VALUE = "SY103"
MISSING_KEY = "SY104"
UNKNOWN_NAME = "SY105"
DUPLICATE_KEY = "SY109"
PLACEHOLDER = "SY110"
FOREIGN_FAMILY = "SY111"
CONTRADICTED = "SY113"
SECRET = "SY119"

SECRET_FIX = (
    "take it out, and name a file of the hosts that holds it: hf_token_file for Hugging Face, else"
    " `secrets: {NAME: /path}` of the platform; of a cluster file, the private key under key_file or priv_key_file"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A code, a place, and what to do about it."""

    code: str
    severity: Severity
    file: str
    key: str
    """Dotted path of the key; empty for the file as a whole."""
    message: str
    fix: str
    value: Any = None
    expected: str | None = None
    path: tuple[str, ...] | None = None
    """Where the value stands in the file, where that is not the key's own place."""
    line: int | None = None
    """Line of that place in the file, once it was looked up."""
    optional: bool = False
    """Whether all is well as it is, and the fix is advice."""
    allowed: bool = False
    """The platform's `allow` permits it: it is shown and recorded, and does not stop a plan."""

    @property
    def stops(self) -> bool:
        """Whether nothing may be planned because of it."""
        return self.severity == "error" and not self.allowed

    @property
    def place(self) -> tuple[str, ...]:
        """Keys from the root of the file to the value."""
        return self.path if self.path is not None else tuple(self.key.split(".") if self.key else ())

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer (RFC 6901)."""
        return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in self.place)


SETTINGS = "--set"
"""What stands in a file's place where there are only options."""


class InvalidExperimentError(InputError):
    """A file with errors; says the first in a sentence and carries them all."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        super().__init__(
            f"{first.file}: {first.message}",
            key=first.key or None,
            value=plain(first.value),
            expected=first.expected,
            next=first.fix,
        )
        self.problems = tuple(problems)

    def __str__(self) -> str:
        others = len(self.problems) - 1
        file = self.problems[0].file
        where = "" if file == SETTINGS else f": steelyard lint {file}, with the same options"
        return super().__str__() + (f" ({others} more{where})" if others else "")


MAX_DETAILED = 100
"""Unknown keys of one mapping that are named one by one; the nearest known key of each has to be looked for."""


def more_unknown_keys(file: str, path: tuple[str, ...], count: int) -> Problem:
    """The unknown keys of one mapping that are counted and not named."""
    key = ".".join(path)
    message = f"{bare(key) or 'the file'} has {count:,} more unknown keys, which are not listed"
    fix = "correct those that are listed first, and check whether this is a config"
    return Problem(UNKNOWN_KEY, "error", file, key, message, fix, expected="known keys", path=path)


def raise_errors(problems: Iterable[Problem]) -> None:
    """Stop where a problem is an error that is not allowed; warnings pass."""
    errors = [problem for problem in problems if problem.stops]
    if errors:
        raise InvalidExperimentError(errors)


def plain(value: Any) -> Any:
    """A user's value as JSON can carry it, cut where it is long."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    return _tokenless(value) if isinstance(value, str) and len(value) <= 200 else shown(value)


def _tokenless(text: str) -> str:
    """A text without tokens: what a file or an option holds may be quoted in a ticket."""
    if not TOKENS.search(raw := text.encode("utf-8", "surrogatepass")):
        return text
    return TOKENS.sub(HIDDEN, raw).decode("utf-8", "surrogatepass")


def spelt(value: Any) -> str:
    """A value as YAML spells it, to be typed after --set."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


class _Short(reprlib.Repr):
    """Short, and without tokens: cut first, half of one would be left."""

    def repr_str(self, text: str, level: int) -> str:
        return super().repr_str(_tokenless(text), level)


_short = _Short()
_short.maxstring = _short.maxother = 80


def shown(value: Any) -> str:
    """A user's value as a sentence may quote it, spelt as YAML does."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return _short.repr(value)


def bare(text: str) -> str:
    """A user's key as a sentence names it: short, and without quotes."""
    return shown(text)[1:-1]
