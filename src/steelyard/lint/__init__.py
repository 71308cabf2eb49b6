"""Rules over an experiment and the hardware it is to run on: one file a rule, one word in the table."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import SteelyardError
from steelyard.experiment import (
    InvalidExperimentError,
    Problem,
    YamlFile,
    choose_platform,
    platform_names,
    read_yaml,
    resolve,
)
from steelyard.experiment.resolve import Settings
from steelyard.hardware.machine import Machine
from steelyard.hardware.placement import place
from steelyard.lint.rule import Case, Rule

RULES = (
    "sy106_unnamed_data_path",
    "sy107_refused_by_the_framework",
    "sy108_unread_data_key",
    "sy201_world_not_divided",
    "sy202_contradicted_data_parallel",
    "sy203_ragged_global_batch",
    "sy204_contradicted_accumulation",
    "sy205_sequence_beyond_positions",
    "sy206_warmup_without_end",
    "sy207_rate_below_minimum",
    "sy301_heads_or_layers_not_divided",
    "sy302_heads_beside_hidden_size",
    "sy401_format_the_gpu_lacks",
    "sy402_more_than_the_card_holds",
)


def lint_case(case: Case) -> Iterator[Problem]:
    """Every problem of one experiment on one platform."""
    for name in RULES:
        yield from importlib.import_module(f"{__name__}.rules.{name}").check(case)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says beside the file."""

    platform: str | None = None
    settings: Settings = ()
    gpu: str | None = None
    gpus: int | None = None


def lint_file(path: Path, asked: Asked, machine: Machine) -> list[Problem]:
    """Every problem of a file, on the platform asked for or on all of them."""
    try:
        file = read_yaml(path)
        every: list[str | None] = [*platform_names(file)] or [None]
    except InvalidExperimentError as invalid:
        return list(invalid.problems)
    names = [choose_platform(file, asked.platform)] if asked.platform else every
    found: dict[tuple[str, str, str], Problem] = {}
    for name in names:
        for problem in _lint_platform(file, name, asked, machine):
            found.setdefault((problem.code, problem.key, problem.message), problem)
    return list(found.values())


def _lint_platform(file: YamlFile, name: str | None, asked: Asked, machine: Machine) -> Iterator[Problem]:
    try:
        resolved = resolve(file, name, asked.settings, asked.gpu, asked.gpus)
        case = Case(resolved, place(resolved.platform, machine))
    except InvalidExperimentError as invalid:
        yield from invalid.problems
    except SteelyardError as reason:
        key = f"platforms.{name}.{reason.key}" if name else reason.key or ""
        yield Problem(
            "SY104", "error", str(file.path), key, reason.message, reason.next or "", expected=reason.expected
        )
    else:
        yield from lint_case(case)


__all__ = ["RULES", "Asked", "Case", "Rule", "lint_case", "lint_file"]
