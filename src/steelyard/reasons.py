"""Reasons as data: a code with typed values; the sentence is rendered last.

No code reads a sentence. Stages decide by code, effect, side, keys and values.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType, ModuleType
from typing import Any, Literal

SideName = Literal["target", "baseline", "both"]


class Effect(StrEnum):
    """How a reason affects an answer."""

    BLOCKS = "blocks"
    UNKNOWN = "unknown"
    CAVEAT = "caveat"


@dataclass(frozen=True, slots=True)
class Code:
    """One thing that can be reported: a name and a sentence. The docstring below the code is its meaning."""

    name: str
    sentence: str | Callable[..., str]
    """A template of the values, such as "{run} has {steps:,} steps", or a function."""

    def render(self, values: Mapping[str, Any]) -> str:
        return self.sentence.format(**values) if isinstance(self.sentence, str) else self.sentence(**values)


@dataclass(frozen=True, slots=True)
class Reason:
    """A code with its values."""

    code: Code
    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Values for the sentence; `target` and `baseline` are the values of a key on the two sides."""
    effect: Effect | None = None
    side: SideName | None = None
    keys: tuple[str, ...] = ()
    accepted: str | None = None
    """Why the user declares that it does not matter; None without such a declaration."""

    @property
    def message(self) -> str:
        """The sentence, without the words that the effect adds."""
        return self.with_acceptance(self.code.render(self.values))

    def with_acceptance(self, sentence: str) -> str:
        return sentence if self.accepted is None else f"{sentence} (accepted: {self.accepted})"

    def document(self) -> dict[str, Any]:
        """An entry of `reasons` in JSON."""
        return {
            "code": self.code.name,
            "effect": self.effect.value if self.effect else None,
            "side": self.side,
            "keys": list(self.keys),
            "target": self.values.get("target"),
            "baseline": self.values.get("baseline"),
            "accepted": self.accepted,
            "message": self.message,
        }


def codes_in(*modules: ModuleType) -> dict[Code, str]:
    """The codes of these modules with their docstrings, which `explain` prints."""
    meanings = {}
    for module in modules:
        body = ast.parse(inspect.getsource(module)).body
        for statement, after in pairwise(body):
            match statement, after:
                case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(meaning))):
                    if isinstance(code := getattr(module, name), Code):
                        meanings[code] = meaning
    return meanings
