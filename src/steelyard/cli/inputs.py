"""What several verbs do with what was typed: plan a file aloud, read thresholds."""

from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.configs.choose import Asked
from steelyard.configs.files import read_mapping
from steelyard.errors import InputError
from steelyard.experiment.problems import plain, shown
from steelyard.experiment.thresholds import parse_threshold

if TYPE_CHECKING:
    from steelyard.planning.make import Planned


def planned(file: Path, asked: Asked, aloud: bool = True) -> "Planned":
    """The plan of a file, with what a person should know of it; not aloud: that was noted before."""
    from steelyard.planning import plan_file  # here, since lint needs none of it

    made = plan_file(file, asked)
    if not aloud:
        return made
    plan, reading = made.plan, made.case.reading
    if len(plan.nodes) > 1 and not asked.hosts:
        user = "" if reading.family == "steelyard" else f", and {{user-id}} is {asked.names()['user']}"
        printing.note(f"no --cluster: the hosts are called {plan.nodes[0].host}, {plan.nodes[1].host}, …{user}")
    if plan.allowed:
        listed = "; ".join(f"{allowed.code} {allowed.message}" for allowed in plan.allowed)
        printing.note(f"allowed by the platform: {listed}")
    for warning in made.warnings:
        if warning.severity == "warning":
            printing.note(f"warning: {warning.code} {warning.message}; {warning.fix}")
    return made


def check_thresholds(texts: list[str]) -> None:
    """Refuse a typed bound that is none."""
    _check_bounds(texts, "--threshold", '--threshold "step_time_s<=12", quoted, since the shell takes > for itself')


def thresholds_of(file: Path) -> list[str]:
    """The bounds of a file with `thresholds`: what `runs learn -o` wrote, or an experiment."""
    example = 'thresholds: ["step_time_s<=12"]'
    found = read_mapping(file, "a file with thresholds", example).content.get("thresholds")
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise InputError(
            f"{file}: thresholds is {shown(found)}",
            key="thresholds",
            value=plain(found),
            expected="a list of bounds",
            next=example,
        )
    _check_bounds(found, f"{file}: thresholds", example)
    return found


def _check_bounds(texts: list[str], place: str, example: str) -> None:
    for text in texts:
        try:
            parse_threshold(text)
        except ValueError as reason:
            raise InputError(
                f"{place}: {reason}", key=place.rpartition(" ")[2], value=plain(text), next=example
            ) from None
