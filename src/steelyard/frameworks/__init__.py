"""One module a framework; adding one is a file and a word in the table."""

import importlib

from steelyard import accounting
from steelyard.errors import InputError
from steelyard.frameworks.framework import Command, Framework, LogReader, Refusal
from steelyard.lint.rule import Case

MODULES = {name: f"{__name__}.{name}" for name in ("native",)}


def framework(name: str) -> Framework:
    """The framework of that name."""
    if name not in MODULES:
        raise InputError(
            f"framework {name!r} can be named in a file, but not launched yet",
            key="framework",
            value=name,
            expected=f"one of {', '.join(MODULES)}",
            next="give the platform `framework: native`",
        )
    found: Framework = importlib.import_module(MODULES[name]).FRAMEWORK
    return found


def expected_vocabulary(case: Case) -> int:
    """The vocabulary as the experiment's framework pads it; as it stands where we do not launch that framework."""
    experiment, name = case.resolved.experiment, case.resolved.platform.framework
    multiple = framework(name).vocabulary_multiple(experiment.parallelism) if name in MODULES else 1
    return accounting.padded_vocab_size(experiment.model.vocab_size, multiple)


def flop_conventions(name: str) -> tuple[str, ...]:
    """The formulas a framework may mean by TFLOP/s; every one we know where we do not know the framework."""
    return framework(name).flop_conventions if name in MODULES else tuple(accounting.CONVENTIONS)


def log_interval(name: str) -> int | None:
    """Steps between a framework's step lines, where that is known of it."""
    return framework(name).log_interval if name in MODULES else None


def expected_memory(case: Case) -> accounting.Memory:
    """Memory per GPU under the experiment's framework; an fp32 master weight where we do not launch it."""
    experiment, name = case.resolved.experiment, case.resolved.platform.framework
    layout = accounting.layout(experiment.training, experiment.parallelism, case.placement.world_size)
    master_bytes = framework(name).master_bytes if name in MODULES else 4
    return accounting.memory_gib(experiment, layout, expected_vocabulary(case), master_bytes)


__all__ = [
    "MODULES",
    "Command",
    "Framework",
    "LogReader",
    "Refusal",
    "expected_memory",
    "expected_vocabulary",
    "flop_conventions",
    "framework",
    "log_interval",
]
