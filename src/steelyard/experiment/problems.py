"""One problem of an experiment file, as every stage reports it."""

import json
import reprlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from steelyard.errors import InputError
from steelyard.secrets import HIDDEN, TOKENS

Severity = Literal["error", "warning", "info"]
Allower = Literal["--allow", "config"]
"""Who allows a lint code: the command line, or `allow` of the platform."""

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
OVERSIZED = "SY402"

SECRET_FIX = (
    "remove it, and name a file on the hosts that contains it: hf_token_file for Hugging Face, else"
    " `secrets: {NAME: /path}` of the platform; in a cluster file, key_file or priv_key_file"
)


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one key of a file."""

    path: tuple[str, ...]
    value: Any = None
    """The new value; None removes the key."""
    rename: bool = False
    """Whether the key only gets an underscore, which disables it."""

    @property
    def setting(self) -> str:
        """The option that makes the change for one command."""
        return f"--set {shlex.quote(f'{pointer(self.path)}={_written(self.value)}')}"


def _written(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict | list) else spelt(value)


def pointer(path: Iterable[str]) -> str:
    """A path as a JSON pointer (RFC 6901)."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with its code, place and fix."""

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
    """The place of the value in the file, if the key does not name it."""
    line: int | None = None
    """The line of the place, once it is known."""
    optional: bool = False
    """Whether nothing has to be fixed, and the fix is only advice."""
    corrections: tuple[Edit, ...] = ()
    """The changes that solve it, if nothing has to be decided; `lint --fix` makes them."""
    settings: tuple[str, ...] = ()
    """Otherwise, options of which each solves it."""
    allowed_by: Allower | None = None
    """Who allows it: it is shown and recorded, but does not stop a plan."""

    @property
    def allowed(self) -> bool:
        return self.allowed_by is not None

    @property
    def stops(self) -> bool:
        """Whether it stops a plan."""
        return self.severity == "error" and not self.allowed

    @property
    def place(self) -> tuple[str, ...]:
        """Keys from the root of the file to the value."""
        return self.path if self.path is not None else tuple(self.key.split(".") if self.key else ())

    @property
    def pointer(self) -> str:
        return pointer(self.place)


SETTINGS = "--set"
"""The name of the file if there are only options."""


class InvalidExperimentError(InputError):
    """A file with errors: the message is the first one, `problems` has them all."""

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
        where = "" if file == SETTINGS else f": steelyard lint {shlex.quote(file)}{self.options}"
        return super().__str__() + (f"; {others} more problem{'s' * (others != 1)}{where}" if others else "")


MAX_DETAILED = 100
"""Most unknown keys of one mapping that are reported one by one; each needs a search for the nearest known key."""


def more_unknown_keys(file: str, path: tuple[str, ...], count: int) -> Problem:
    """The unknown keys of one mapping that are only counted."""
    key = ".".join(path)
    message = f"{bare(key) or 'the file'} has {count:,} more unknown keys (not listed)"
    fix = "correct the listed keys first, and check that the file is a config"
    return Problem(UNKNOWN_KEY, "error", file, key, message, fix, expected="known keys", path=path)


def raise_errors(problems: Iterable[Problem]) -> None:
    """Raise if a problem is an error that is not allowed."""
    errors = [problem for problem in problems if problem.stops]
    if errors:
        raise InvalidExperimentError(errors)


def plain(value: Any) -> Any:
    """A user's value for JSON output, shortened."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    return _tokenless(value) if isinstance(value, str) and len(value) <= 200 else shown(value)


def _tokenless(text: str) -> str:
    """The text without tokens: a message may be copied to a ticket."""
    if not TOKENS.search(raw := text.encode("utf-8", "surrogatepass")):
        return text
    return TOKENS.sub(HIDDEN, raw).decode("utf-8", "surrogatepass")


def spelt(value: Any) -> str:
    """A value as YAML writes it, for --set."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


class _Short(reprlib.Repr):
    """Shortens text and removes tokens. Removal comes first, else half of a token could remain."""

    def repr_str(self, text: str, level: int) -> str:
        return super().repr_str(_tokenless(text), level)


_short = _Short()
_short.maxstring = _short.maxother = 80


def shown(value: Any) -> str:
    """A user's value for a message, as YAML writes it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return _short.repr(value)


def bare(text: str) -> str:
    """A user's key for a message: short and without quotes."""
    return shown(text)[1:-1]
