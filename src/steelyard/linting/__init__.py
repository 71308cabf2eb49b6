"""Applies the rules to an experiment and its hardware."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from steelyard.configs.cells import cells_of
from steelyard.configs.choose import Asked, readings
from steelyard.configs.files import ConfigFile, read_mapping, with_family, with_lines
from steelyard.configs.inventory import is_inventory, parse_inventory
from steelyard.errors import SteelyardError
from steelyard.experiment import InvalidExperimentError, Problem, Reading, Resolved, resolve
from steelyard.experiment.case import Case, place
from steelyard.experiment.cells import SUITE, Cell
from steelyard.experiment.problems import MISSING_KEY, WRONG_VALUE
from steelyard.frameworks.planner import as_run
from steelyard.hardware.machine import Machine
from steelyard.linting.allowing import allowable, marked, refused_codes
from steelyard.linting.rule import Rule, Stated
from steelyard.linting.table import RULES, rule_module, rules_on


def case_of(resolved: Resolved, machine: Machine, asked: Asked) -> Case:
    """An experiment on the selected hardware and hosts."""
    placed = place(resolved.platform, machine)
    return Case(resolved, placed, asked.hosts, asked.head_names, asked.env, asked.names()["user"])


def lint_reading(reading: Reading) -> Iterator[Problem]:
    """Every problem of one selection of a file, even if it is not a valid experiment."""
    for module in rules_on("reading"):
        yield from module.check(reading)


def lint_case(case: Case) -> Iterator[Problem]:
    """Every problem of one experiment on one platform."""
    for module in rules_on("case"):
        yield from module.check(case)
    platform = case.resolved.platform
    for code in refused_codes(platform.allow):
        stated = Stated(code, ("platforms", case.resolved.platform_name or "", "allow"))
        message, fix = f"allow contains {code}, which cannot be allowed", f"remove it; steelyard explain {code}"
        yield Rule(WRONG_VALUE, "error").at(case.reading, stated, message, fix, f"only {', '.join(allowable())}")


def lint_file(path: Path, asked: Asked, machine: Machine) -> list[Problem]:
    """Every problem of a file, on the selected platform or on all of them."""
    try:
        file = read_mapping(path)
        if is_inventory(file.content):
            return with_lines(parse_inventory(file)[1], file)
    except InvalidExperimentError as invalid:
        return list(invalid.problems)
    try:
        file = with_family(file)
        problems = lint_suite(file, asked, machine) if SUITE in file.content else _lint_selections(file, asked, machine)
    except InvalidExperimentError as invalid:
        problems = [*marked(file.problems, asked.allow), *invalid.problems]
    return sorted(with_lines(_once(problems), file), key=lambda problem: problem.line or 0)


def _lint_selections(file: ConfigFile, asked: Asked, machine: Machine) -> list[Problem]:
    """The problems of every selection that matches, and of all of them together."""
    problems, cases = list[Problem](), list[Case]()
    for reading in readings(file, asked):
        of_reading, case = _lint_reading(reading, asked, machine)
        problems += marked(of_reading, asked.allow, _allowed_by(case))
        cases += [case] if case else []
    for module in rules_on("file"):
        problems += marked(module.check(cases), asked.allow)
    return problems


def lint_suite(file: ConfigFile, asked: Asked, machine: Machine) -> list[Problem]:
    """The problems of every cell; one that not all cells have names the first that has it."""
    cells = cells_of(file, asked, [asked.platform] if asked.platform else [])
    by_problem: dict[tuple[str, str, str], list[tuple[Problem, Cell]]] = {}
    jobs: dict[Any, list[Case]] = {}
    for cell in cells.cells:
        own = cells.asked_of(cell)
        for reading in readings(cells.file, own):
            of_reading, case = _lint_reading(reading, own, machine)
            for problem in marked(of_reading, asked.allow, (*_allowed_by(case), *cell.allows)):
                by_problem.setdefault((problem.code, problem.pointer, problem.message), []).append((problem, cell))
            jobs.setdefault(cell.job, []).extend([case] if case else [])
    problems = [_of_cells(every, len(cells.cells)) for every in by_problem.values()]
    for module in rules_on("file"):
        problems += marked((problem for cases in jobs.values() for problem in module.check(cases)), asked.allow)
    return problems


def _of_cells(same: Sequence[tuple[Problem, Cell]], count: int) -> Problem:
    """One problem for those of several cells; an error if it is one of any of them."""
    problem, cell = next(((problem, cell) for problem, cell in same if problem.stops), same[0])
    if len(same) >= count:
        return problem
    where = f"cell {cell.words}" if len(same) == 1 else f"{len(same):,} cells such as {cell.words}"
    return replace(problem, message=f"{where}: {problem.message}")


def _allowed_by(case: Case | None) -> Sequence[str]:
    return case.resolved.platform.allow if case else ()


def _once(problems: Iterable[Problem]) -> list[Problem]:
    """Each problem once, although several platforms may have it; of a wrong key that nothing reads, only the error."""
    unique: dict[tuple[str, str, str], Problem] = {}
    for problem in problems:
        key = problem.code, problem.pointer, problem.message
        if key not in unique or problem.stops:  # another platform may allow it
            unique[key] = problem
    wrong = {problem.pointer for problem in unique.values() if problem.stops}
    return [problem for problem in unique.values() if problem.code != "SY112" or problem.pointer not in wrong]


def _lint_reading(reading: Reading, asked: Asked, machine: Machine) -> tuple[list[Problem], Case | None]:
    problems = [*reading.problems, *lint_reading(reading)]
    try:
        resolved = resolve(reading, asked.settings, asked.gpu, asked.gpus)
        case = case_of(as_run(resolved), machine, asked)
    except InvalidExperimentError as invalid:
        unread = any(problem.severity == "error" for problem in problems)  # an unreadable key would be missing too
        missing = (MISSING_KEY, None)
        new = (problem for problem in invalid.problems if not unread or (problem.code, problem.path) != missing)
        return [*problems, *new], None
    except SteelyardError as reason:
        key = f"platforms.{reading.platform}.{reason.key}" if reading.platform else reason.key or ""
        file, fix = str(reading.file), reason.next or ""
        problem = Problem(MISSING_KEY, "error", file, key, reason.message, fix, expected=reason.expected)
        return [*problems, problem], None
    return [*problems, *lint_case(case)], case


__all__ = ["RULES", "case_of", "lint_case", "lint_file", "lint_reading", "rule_module"]
