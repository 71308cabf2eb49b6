"""The experiment of a run as far as it is known: what is absent, or is no value of its key, is not known."""

from collections.abc import Iterator
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import RootModel

from steelyard.experiment.keys import KEYS
from steelyard.experiment.resolve import leaves

_NUMBERS = (int, float)
_FILLED_IN = ("training.gradient_accumulation_steps", "parallelism.data_parallel_size")
"""Null until a plan works them out: null is not known. Of other keys null says something: no fp8, no clipping."""


class PartialExperiment(RootModel[dict[str, Any]]):
    """In the shape of an experiment file; a log does not say every key."""

    @property
    def name(self) -> str | None:
        return None if (name := self.root.get("name")) is None else str(name)

    @property
    def thresholds(self) -> Any:
        """As recorded: whoever judges by them checks them."""
        return self.root.get("thresholds")

    @property
    def compare(self) -> Any:
        """How it wants to be compared, as recorded."""
        return self.root.get("compare")

    def known(self, dotted: str) -> tuple[bool, Any]:
        """Whether a key is known, and its value; null is a value only where it may be."""
        here: Any = self.root
        for part in dotted.split("."):
            if not isinstance(here, dict) or part not in here:
                return False, None
            here = here[part]
        fits = isinstance(here, _kinds(dotted)) if dotted in KEYS else here is not None
        return (True, here) if fits else (False, None)

    def value(self, dotted: str) -> Any:
        """None where it is not known, or is null."""
        return self.known(dotted)[1]

    def whole(self, dotted: str) -> int | None:
        """A positive whole number."""
        value = self.value(dotted)
        return value if type(value) is int and 0 < value < 2**53 else None

    def leaves(self) -> Iterator[tuple[str, Any]]:
        return leaves(self.root)


@cache
def _kinds(dotted: str) -> tuple[type, ...]:
    """What a value of a key may be, without its bounds: a log may name a schedule that our trainer does not have."""
    kinds = _plain_types(KEYS[dotted].type)
    return tuple(kind for kind in kinds if kind is not NoneType or dotted not in _FILLED_IN)


def _plain_types(kind: Any) -> Iterator[type]:
    if get_origin(kind) is Literal:
        yield from {type(value) for value in get_args(kind)}
    elif parts := get_args(kind):
        for part in parts:
            yield from _plain_types(part)
    elif kind in _NUMBERS:
        yield from _NUMBERS  # a log may print a whole number as 1.0
    else:
        yield kind if kind in (bool, str, NoneType) else dict
