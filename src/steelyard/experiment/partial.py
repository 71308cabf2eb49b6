"""The recorded part of a run's experiment: a value that is absent or has a wrong type is unknown."""

from collections.abc import Callable, Iterator
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import RootModel

from steelyard.experiment.keys import KEYS
from steelyard.experiment.resolve import leaves

_NUMBERS = (int, float)
_FILLED_IN = ("training.gradient_accumulation_steps", "parallelism.data_parallel_size")
"""Computed by a plan: null means unknown. For other keys null is a value, such as no FP8 or no clipping."""


def product_format(known: Callable[[str], tuple[bool, Any]]) -> str | None:
    """The format of the matrix products: fp8 if used, else the dtype; None unless both are known."""
    (dtype_known, dtype), (fp8_known, fp8) = known("precision.dtype"), known("precision.fp8")
    return ("fp8" if fp8 else str(dtype)) if dtype_known and fp8_known else None


class PartialExperiment(RootModel[dict[str, Any]]):
    """In the structure of an experiment file; a log does not contain every key."""

    @property
    def name(self) -> str | None:
        return None if (name := self.root.get("name")) is None else str(name)

    @property
    def thresholds(self) -> Any:
        """As recorded; not validated."""
        return self.root.get("thresholds")

    @property
    def compare(self) -> Any:
        """The comparison settings, as recorded; not validated."""
        return self.root.get("compare")

    def known(self, dotted: str) -> tuple[bool, Any]:
        """Whether a key is known, and its value; null counts as a value only if the key allows it."""
        here: Any = self.root
        for part in dotted.split("."):
            if not isinstance(here, dict) or part not in here:
                return False, None
            here = here[part]
        fits = isinstance(here, _kinds(dotted)) if dotted in KEYS else here is not None
        return (True, here) if fits else (False, None)

    def states(self, dotted: str) -> bool:
        """Whether a key is there, whatever its value."""
        group, _, key = dotted.partition(".")
        return isinstance(values := self.root.get(group), dict) and key in values

    def value(self, dotted: str) -> Any:
        """The value; None if it is unknown or null."""
        return self.known(dotted)[1]

    def whole(self, dotted: str) -> int | None:
        """The value if it is a positive whole number, else None."""
        value = self.value(dotted)
        return value if type(value) is int and 0 < value < 2**53 else None

    def leaves(self) -> Iterator[tuple[str, Any]]:
        return leaves(self.root)


@cache
def _kinds(dotted: str) -> tuple[type, ...]:
    """Types of a key's value. Limits are not checked: a log may have a schedule that our trainer does not have."""
    kinds = _plain_types(KEYS[dotted].type)
    return tuple(kind for kind in kinds if kind is not NoneType or dotted not in _FILLED_IN)


def _plain_types(kind: Any) -> Iterator[type]:
    if get_origin(kind) is Literal:
        yield from {type(value) for value in get_args(kind)}
    elif parts := get_args(kind):
        for part in parts:
            yield from _plain_types(part)
    elif kind in _NUMBERS:
        yield from _NUMBERS  # a log may contain a whole number as 1.0
    else:
        yield kind if kind in (bool, str, NoneType) else dict
