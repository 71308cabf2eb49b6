"""From the command line's words to a plan, alike for every verb that needs one."""

from pathlib import Path

from steelyard.cli import printing
from steelyard.errors import InputError
from steelyard.experiment import choose_platform, parse_settings, read_yaml, resolve
from steelyard.experiment.problems import plain, shown
from steelyard.experiment.thresholds import parse_threshold
from steelyard.hardware.catalog import CPU, known_names, lookup
from steelyard.hardware.machine import Machine, discover
from steelyard.runner import Planned, make_plan


def planned(
    file: Path, platform: str | None, settings: list[str] | None, gpu: str | None, gpus: int | None
) -> tuple[Planned, Machine]:
    """Read, resolve and plan; whatever is wrong is one sentence."""
    check_gpu(gpu)
    parsed = parse_settings(settings or [])
    content = read_yaml(file)
    resolved = resolve(content, choose_platform(content, platform), parsed, gpu, gpus)
    machine = discover()
    made = make_plan(resolved, machine)
    for warning in made.warnings:
        printing.note(f"warning: {warning.code} {warning.message}; {warning.fix}")
    return made, machine


def check_gpu(gpu: str | None) -> None:
    """Refuse a typed GPU we hold no figures for."""
    if gpu is not None and gpu != CPU and lookup(gpu) is None:
        raise InputError(
            f"--gpu {shown(gpu)} is not in the catalog of GPUs",
            key="--gpu",
            value=plain(gpu),
            expected=f"one of {', '.join((CPU, *known_names()))}",
            next="--gpu h100",
        )


def check_thresholds(texts: list[str]) -> None:
    """Refuse a typed bound that is none."""
    for text in texts:
        try:
            parse_threshold(text)
        except ValueError as reason:
            raise InputError(
                f"--threshold: {reason}",
                key="--threshold",
                value=plain(text),
                next='--threshold "step_time_s<=12", quoted, since the shell takes > for itself',
            ) from None
