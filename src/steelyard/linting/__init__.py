"""Rules over an experiment and its hardware: one file per rule, one name in the table."""

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from steelyard.configs.choose import Asked, readings
from steelyard.configs.files import read_mapping, with_family, with_lines
from steelyard.configs.inventory import is_inventory, parse_inventory
from steelyard.errors import SteelyardError
from steelyard.experiment import InvalidExperimentError, Problem, Reading, Resolved, resolve
from steelyard.experiment.case import Case, place
from steelyard.experiment.problems import MISSING_KEY, WRONG_VALUE
from steelyard.frameworks.planner import as_run
from steelyard.hardware.machine import Machine
from steelyard.linting.rule import Rule, Stated

RULES = (
    "sy106_unnamed_data_path",
    "sy107_refused_by_the_framework",
    "sy108_unread_data_key",
    "sy112_unread_key",
    "sy113_contradicted_copy",
    "sy114_unread_variable",
    "sy115_overridden_by_the_preset",
    "sy116_mock_data_with_a_corpus",
    "sy117_privileged_container",
    "sy118_retired_flag",
    "sy120_variable_the_plan_sets",
    "sy121_host_directory_mounted",
    "sy122_engine_socket",
    "sy123_control_directory",
    "sy124_raw_device",
    "sy125_home_of_another",
    "sy201_world_not_divided",
    "sy202_contradicted_data_parallel",
    "sy203_ragged_global_batch",
    "sy204_contradicted_accumulation",
    "sy205_sequence_beyond_positions",
    "sy206_warmup_without_end",
    "sy207_rate_below_minimum",
    "sy208_mesh_not_the_hardware",
    "sy209_samples_seen_twice",
    "sy210_batch_that_is_not_trained",
    "sy211_sharding_not_divided",
    "sy301_heads_or_layers_not_divided",
    "sy302_heads_contradict_hidden_size",
    "sy303_label_without_its_dimensions",
    "sy304_vocabulary_of_another_model",
    "sy305_tokenizer_of_another_model",
    "sy306_padded_vocabulary",
    "sy401_format_the_gpu_lacks",
    "sy402_more_than_the_gpu_memory",
    "sy403_unknown_precision",
    "sy404_precision_contradicts_dtype",
    "sy501_threshold_above_peak",
    "sy502_tflops_contradict_tokens",
    "sy503_time_contradicts_throughput",
    "sy504_threshold_of_another_node_count",
    "sy601_hosts_not_the_nodes",
    "sy602_head_not_the_first_host",
    "sy603_hca_of_another_family",
    "sy604_rdma_turned_off",
    "sy701_left_to_framework_defaults",
    "sy702_dash_for_a_value",
)


def rule_module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.rules.{name}")


def _rules(on: str) -> Iterator[ModuleType]:
    return (module for module in map(rule_module, RULES) if module.RULE.on == on)


def case_of(resolved: Resolved, machine: Machine, asked: Asked) -> Case:
    """An experiment on the selected hardware and hosts."""
    placed = place(resolved.platform, machine)
    return Case(resolved, placed, asked.hosts, asked.head_names, asked.env, asked.names()["user"])


def lint_reading(reading: Reading) -> Iterator[Problem]:
    """Every problem of one selection of a file, even if it is not a valid experiment."""
    for module in _rules("reading"):
        yield from module.check(reading)


def lint_case(case: Case) -> Iterator[Problem]:
    """Every problem of one experiment on one platform; the ones that the platform allows are marked."""
    allowable, allow = [], case.resolved.platform.allow
    for module in _rules("case"):
        allowable += [module.RULE.code] if module.RULE.may_be_allowed else []
        allowed = module.RULE.code in allow and module.RULE.may_be_allowed
        for problem in module.check(case):
            yield replace(problem, allowed=problem.severity == "error") if allowed else problem
    for code in (code for code in allow if code not in allowable):  # unknown, or cannot be allowed
        stated = Stated(code, ("platforms", case.resolved.platform_name or "", "allow"))
        message, fix = f"allow contains {code}, which cannot be allowed", f"remove it; steelyard explain {code}"
        yield Rule(WRONG_VALUE, "error").at(case.reading, stated, message, fix, f"only {', '.join(allowable)}")


def lint_file(path: Path, asked: Asked, machine: Machine) -> list[Problem]:
    """Every problem of a file, on the selected platform or on all of them."""
    try:
        file = read_mapping(path)
        if is_inventory(file.content):
            return with_lines(parse_inventory(file)[1], file)
    except InvalidExperimentError as invalid:
        return list(invalid.problems)
    problems, cases = list[Problem](), list[Case]()
    try:
        file = with_family(file)
        for reading in readings(file, asked):
            of_reading, case = _lint_reading(reading, asked, machine)
            problems += of_reading
            cases += [case] if case else []
        for module in _rules("file"):
            problems += module.check(cases)
    except InvalidExperimentError as invalid:
        problems = [*file.problems, *invalid.problems]
    return sorted(with_lines(_once(problems), file), key=lambda problem: problem.line or 0)


def _once(problems: Iterable[Problem]) -> list[Problem]:
    """Each problem once, although several platforms may have it; of a wrong key that nothing reads, only the error."""
    unique: dict[tuple[str, str, str], Problem] = {}
    for problem in problems:
        unique.setdefault((problem.code, problem.pointer, problem.message), problem)
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
