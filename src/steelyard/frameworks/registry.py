"""Finds facts, planner and dialects of a framework; each is imported on first use."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from steelyard.accounting.flops import SHARED, Convention
from steelyard.errors import InputError
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.frameworks.facts import Facts, MemoryKind, MockData

if TYPE_CHECKING:
    from steelyard.frameworks.logs.dialect import Dialect
    from steelyard.frameworks.planner import Planner


def every_facts() -> Iterator[Facts]:
    """The facts of every framework."""
    return map(facts, FRAMEWORKS)


@cache
def facts(name: str) -> Facts:
    """The facts of a framework; for an unknown name, everything that may be true of any framework."""
    if name in FRAMEWORKS:
        stated: Facts = importlib.import_module(f"{FRAMEWORKS[name]}.facts").FACTS
        return stated
    every = list(every_facts())
    return Facts(
        name=name,
        vocabulary_multiple=None,
        mock_data=MockData.COUNTING,  # the loss alone shows this kind
        mock_vocabularies=dict.fromkeys(size for item in every for size in item.mock_vocabularies),
        init_stds=tuple(dict.fromkeys(std for item in every for std in item.init_stds)),
    )


@cache
def is_planned(name: str) -> bool:
    """Whether a framework can be planned, not only read."""
    if name not in FRAMEWORKS:
        return False
    folder = importlib.import_module(FRAMEWORKS[name]).__path__
    return any(module.name == "plan" for module in pkgutil.iter_modules(folder))


def planned() -> list[str]:
    """Frameworks with a planner; those that run without a container first."""
    return sorted(filter(is_planned, FRAMEWORKS), key=lambda name: (facts(name).runs_here is None, name))


def planner(name: str) -> "Planner":
    """The planner of a framework; InputError if it has none."""
    if not is_planned(name):
        raise InputError(
            f"framework {name!r} can be imported, but not planned",
            key="framework",
            value=name,
            expected=f"one of {', '.join(planned())}",
            next="set `framework: native` on the platform",
        )
    module_planner: Planner = importlib.import_module(f"{FRAMEWORKS[name]}.plan").PLANNER
    return module_planner


@cache
def dialects() -> "tuple[Dialect, ...]":
    """All dialects, in order of precedence."""
    every = [item for package in FRAMEWORKS.values() for item in importlib.import_module(f"{package}.log").DIALECTS]
    return tuple(sorted(every, key=lambda item: -item.precedence))


def dialect(name: str) -> "Dialect | None":
    """The dialect with this name, if it exists."""
    return next((item for item in dialects() if item.name == name), None)


def flop_conventions(name: str) -> tuple[Convention, ...]:
    """Possible FLOP formulas of a framework if its version is unknown; all formulas for an unknown framework."""
    every = (
        item for known in every_facts() for item in (known.flop_conventions, *known.flop_conventions_by_era.values())
    )
    return facts(name).flop_conventions or tuple(dict.fromkeys((*SHARED, *chain.from_iterable(every))))


def mock_floor(kind: MockData) -> float:
    """The loss floor of generated data, as declared by a framework with such data."""
    return next(each.mock_floor for each in every_facts() if each.mock_data == kind and each.mock_floor is not None)


def memory_kind(name: str | None) -> MemoryKind:
    """The declaration of a kind of memory."""
    declared = (kind for item in every_facts() for kind in item.memory_kinds if kind.name == name)
    return next(declared, MemoryKind(name or ""))


def conventions_of(dialect_name: str, era: str) -> tuple[Convention, ...]:
    """Possible FLOP formulas of a dialect and era; () if unknown."""
    known = dialect(dialect_name)
    return facts(known.framework).conventions_of(era) if known is not None else ()
