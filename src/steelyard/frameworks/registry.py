"""Looks up what the folder of a framework holds; each part is imported when it is first asked for."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from steelyard.accounting.flops import Convention
from steelyard.errors import InputError
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.frameworks.facts import Facts, MockData

if TYPE_CHECKING:
    from steelyard.frameworks.logs.dialect import Dialect
    from steelyard.frameworks.planner import Planner


def every_facts() -> Iterator[Facts]:
    """The facts of every framework."""
    return map(facts, FRAMEWORKS)


@cache
def facts(name: str) -> Facts:
    """The facts of a framework; for a name that is not known what may be true of any of them."""
    if name in FRAMEWORKS:
        stated: Facts = importlib.import_module(f"{FRAMEWORKS[name]}.facts").FACTS
        return stated
    every = list(every_facts())
    return Facts(
        name=name,
        vocabulary_multiple=None,
        mock_data=MockData.COUNTING,  # the kind that a loss alone gives away
        mock_vocabularies=dict.fromkeys(size for each in every for size in each.mock_vocabularies),
        init_stds=tuple(dict.fromkeys(std for each in every for std in each.init_stds)),
    )


@cache
def is_planned(name: str) -> bool:
    """Whether a framework can be planned here, and not only read."""
    if name not in FRAMEWORKS:
        return False
    folder = importlib.import_module(FRAMEWORKS[name]).__path__
    return any(module.name == "plan" for module in pkgutil.iter_modules(folder))


def planned() -> list[str]:
    """The frameworks that can be planned: what runs on this machine first."""
    return sorted(filter(is_planned, FRAMEWORKS), key=lambda name: (facts(name).runs_here is None, name))


def planner(name: str) -> "Planner":
    """What plans a framework; an error for one that is only read."""
    if not is_planned(name):
        raise InputError(
            f"framework {name!r} can be named in a file, but not planned yet",
            key="framework",
            value=name,
            expected=f"one of {', '.join(planned())}",
            next="give the platform `framework: native`",
        )
    made: Planner = importlib.import_module(f"{FRAMEWORKS[name]}.plan").PLANNER
    return made


@cache
def dialects() -> "tuple[Dialect, ...]":
    """Every way of printing steps, in the order they are asked whose a line is."""
    every = [each for package in FRAMEWORKS.values() for each in importlib.import_module(f"{package}.log").DIALECTS]
    return tuple(sorted(every, key=lambda each: -each.precedence))


def dialect(name: str) -> "Dialect | None":
    """The dialect of a name, if there is one."""
    return next((each for each in dialects() if each.name == name), None)


def flop_conventions(name: str) -> tuple[Convention, ...]:
    """The formulas a framework may mean by TFLOP/s where no log tells its version; every one for one we do not know."""
    return facts(name).flop_conventions or tuple(Convention)


def conventions_of(dialect_name: str, era: str) -> tuple[Convention, ...]:
    """The formulas that lines of a dialect and era may follow; () if unknown."""
    known = dialect(dialect_name)
    return facts(known.framework).conventions_of(era) if known is not None else ()
