"""One module a framework; adding one is a file and a word in the table."""

import importlib
from collections.abc import Iterator
from dataclasses import replace

from steelyard import accounting
from steelyard.errors import InputError
from steelyard.experiment.case import Case
from steelyard.experiment.problems import spelt
from steelyard.experiment.sources import DEFAULT, Origin, Source
from steelyard.frameworks.framework import Command, Framework, Launched, Node, Refusal

MODULES = {
    name: f"{__name__}.{name.replace('-', '_')}"
    for name in ("native", "maxtext", "megatron", "megatron-deepspeed", "nemo", "primus")
}

LAUNCHED = ("native",)
"""Those that `run` starts itself so far; the others are planned."""


def framework(name: str) -> Framework:
    """The framework of that name."""
    if name not in MODULES:
        raise InputError(
            f"framework {name!r} can be named in a file, but not planned yet",
            key="framework",
            value=name,
            expected=f"one of {', '.join(MODULES)}",
            next="give the platform `framework: native`",
        )
    found: Framework = importlib.import_module(MODULES[name]).FRAMEWORK
    return found


def launched(name: str) -> Launched:
    """A framework that can be run from here."""
    if name not in LAUNCHED:
        raise InputError(
            f"framework {name!r} is planned here, but not launched yet",
            key="framework",
            value=name,
            expected=f"one of {', '.join(LAUNCHED)}",
            next="steelyard plan FILE --script, which a person can run",
        )
    found: Launched = importlib.import_module(MODULES[name]).FRAMEWORK
    return found


def as_run(case: Case) -> Case:
    """The case with what its framework decides by itself, where the file says nothing of it."""
    name = case.resolved.platform.framework
    if name not in MODULES:
        return case
    experiment, sources = case.resolved.experiment, dict(case.resolved.sources)
    for dotted, value in framework(name).decides(case).items():
        group, key = dotted.split(".")
        if sources.get(dotted) == DEFAULT:
            changed = getattr(experiment, group).model_copy(update={key: value})
            experiment = experiment.model_copy(update={group: changed})
            sources[dotted] = Source(Origin.FRAMEWORK, name)
    return replace(case, resolved=replace(case.resolved, experiment=experiment, sources=sources))


def refusals(case: Case) -> Iterator[Refusal]:
    """What the experiment asks that its framework does not do, has no knob for, or does otherwise."""
    made = framework(case.resolved.platform.framework)
    yield from made.refusals(case)
    for dotted, value in made.decides(case).items():
        group, key = dotted.split(".")
        asked = getattr(getattr(case.resolved.experiment, group), key)
        if asked != value:
            message = f"{dotted} is {spelt(asked)}, and {made.name} has no knob for it"
            yield Refusal(dotted, asked, message, spelt(value), f"--set {dotted}={spelt(value)}")


def expected_vocabulary(case: Case) -> int:
    """The vocabulary as the experiment's framework pads it; as it stands where we do not know that framework."""
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
    """Memory per GPU under the experiment's framework; an fp32 master weight where we do not know it."""
    experiment, name = case.resolved.experiment, case.resolved.platform.framework
    layout = accounting.layout(experiment.training, experiment.parallelism, case.placement.world_size)
    common = accounting.state_bytes(experiment.precision, master_bytes=4)
    state = framework(name).state_bytes(case) if name in MODULES else common
    return accounting.memory_gib(experiment, layout, expected_vocabulary(case), state)


__all__ = [
    "LAUNCHED",
    "MODULES",
    "Command",
    "Framework",
    "Launched",
    "Node",
    "Refusal",
    "as_run",
    "expected_memory",
    "expected_vocabulary",
    "flop_conventions",
    "framework",
    "launched",
    "log_interval",
    "refusals",
]
