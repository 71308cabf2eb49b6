"""Reasons as data: a code with typed values, from which the sentence for a person is made last.

Nothing reads a sentence. What a stage decides by is the code, the effect, the side, the keys and the values.
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
    """What a reason does to the answer it is given for."""

    BLOCKS = "blocks"
    UNKNOWN = "unknown"
    CAVEAT = "caveat"


@dataclass(frozen=True, slots=True)
class Code:
    """One thing that can be reported: its name and the sentence made from its values. Its docstring is its meaning."""

    name: str
    sentence: str | Callable[..., str]
    """A template over the values, such as "{run} has {steps:,} steps"; a function where a template is too little."""

    def render(self, values: Mapping[str, Any]) -> str:
        return self.sentence.format(**values) if isinstance(self.sentence, str) else self.sentence(**values)


@dataclass(frozen=True, slots=True)
class Reason:
    """A code and what it is about."""

    code: Code
    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What the sentence needs; `target` and `baseline` are the two sides' values of a key."""
    effect: Effect | None = None
    side: SideName | None = None
    keys: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The sentence, without what the effect adds to it."""
        return self.code.render(self.values)

    def document(self) -> dict[str, Any]:
        """An entry of `reasons` in JSON."""
        return {
            "code": self.code.name,
            "effect": self.effect.value if self.effect else None,
            "side": self.side,
            "keys": list(self.keys),
            "target": self.values.get("target"),
            "baseline": self.values.get("baseline"),
            "message": self.message,
        }


def codes_in(*modules: ModuleType) -> dict[Code, str]:
    """The codes that modules declare, each with the docstring below it: what `explain` prints."""
    meanings = {}
    for module in modules:
        body = ast.parse(inspect.getsource(module)).body
        for statement, after in pairwise(body):
            match statement, after:
                case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(meaning))):
                    if isinstance(code := getattr(module, name), Code):
                        meanings[code] = meaning
    return meanings
