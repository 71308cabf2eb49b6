"""From an experiment on a platform to a plan: exact commands, files, mounts and variables per node."""

from pathlib import Path

from steelyard.configs.choose import Asked, one_reading
from steelyard.configs.files import read_mapping, with_family
from steelyard.configs.inventory import is_inventory
from steelyard.errors import InputError
from steelyard.experiment import resolve
from steelyard.experiment.problems import raise_errors
from steelyard.hardware.machine import discover
from steelyard.planning.make import Planned, make_plan


def plan_file(file: Path, asked: Asked) -> Planned:
    """Read, resolve and plan a config; InputError if it cannot be planned."""
    content = read_mapping(file)
    if is_inventory(content.content):
        raise InputError(
            f"{file} is a cluster file",
            key="FILE",
            value=str(file),
            expected="a training config",
            next=f"steelyard plan CONFIG --cluster {file}",
        )
    reading = one_reading(with_family(content), asked)
    raise_errors(reading.problems)
    return make_plan(resolve(reading, asked.settings, asked.gpu, asked.gpus), discover(), asked)


__all__ = ["Planned", "make_plan", "plan_file"]
