"""From the command line's words to a plan, alike for every verb that needs one."""

from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import InputError
from steelyard.experiment import choose_platform, parse_settings, read_yaml, resolve
from steelyard.experiment.problems import plain, shown
from steelyard.hardware.catalog import CPU, known_names, lookup
from steelyard.hardware.machine import Machine, discover
from steelyard.lint import Case
from steelyard.runner import Plan, make_plan


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, what it was made from, and the machine it was made on."""

    plan: Plan
    case: Case
    machine: Machine


def planned(file: Path, platform: str | None, settings: list[str] | None, gpu: str | None, gpus: int | None) -> Planned:
    """Read, resolve and plan; whatever is wrong is one sentence."""
    if gpu is not None and gpu != CPU and lookup(gpu) is None:
        raise InputError(
            f"--gpu {shown(gpu)} is not in the catalog of GPUs",
            key="--gpu",
            value=plain(gpu),
            expected=f"one of {', '.join((CPU, *known_names()))}",
            next="--gpu h100",
        )
    parsed = parse_settings(settings or [])
    content = read_yaml(file)
    resolved = resolve(content, choose_platform(content, platform), parsed, gpu, gpus)
    machine = discover()
    plan, case = make_plan(resolved, machine)
    return Planned(plan, case, machine)
