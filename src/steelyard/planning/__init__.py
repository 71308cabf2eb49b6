"""From an experiment on a platform to a plan: exact commands, files, mounts and variables per node."""

from pathlib import Path

from steelyard.configs.choose import Asked, one_reading
from steelyard.configs.files import ConfigFile, read_mapping, with_family
from steelyard.configs.inventory import is_inventory
from steelyard.errors import InputError
from steelyard.experiment import Resolved, resolve
from steelyard.experiment.case import Case
from steelyard.experiment.problems import raise_errors
from steelyard.frameworks.planner import as_run, complete
from steelyard.hardware.machine import discover
from steelyard.linting import case_of
from steelyard.linting.allowing import refused_codes
from steelyard.planning.make import Planned, make_plan


def plan_file(file: Path | ConfigFile, asked: Asked) -> Planned:
    """Read, resolve and plan a config; InputError if it cannot be planned."""
    return make_plan(_resolved(file, asked), discover(), asked)


def case_of_file(file: Path, asked: Asked) -> Case:
    """The settings of a config on its platform as a plan states them, without its lint problems."""
    return complete(case_of(as_run(_resolved(file, asked)), discover(), asked))


def _resolved(given: Path | ConfigFile, asked: Asked) -> Resolved:
    content = given if isinstance(given, ConfigFile) else read_mapping(given)
    file = content.path
    if is_inventory(content.content):
        raise InputError(
            f"{file} is a cluster file",
            key="FILE",
            value=str(file),
            expected="a training config",
            next=f"steelyard plan CONFIG --cluster {file}",
        )
    reading = one_reading(with_family(content), asked)
    raise_errors(problem for problem in reading.problems if refused_codes([problem.code]))
    return resolve(reading, asked.settings, asked.gpu, asked.gpus)


__all__ = ["Planned", "case_of_file", "make_plan", "plan_file"]
