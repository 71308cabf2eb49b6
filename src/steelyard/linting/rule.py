"""The input of a lint rule, and how it reports a problem."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from steelyard.experiment import Problem, Reading
from steelyard.experiment.case import Case
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.problems import Edit, Severity
from steelyard.experiment.reading import Bound, PointerPath, Stated
from steelyard.experiment.sources import Origin, Source
from steelyard.experiment.thresholds import COMPUTED, CVS_NAMES, REPORTED, Direction, Threshold

__all__ = ["Case", "Edit", "Problems", "Reading", "Rule", "Stated"]

Problems = Iterator[Problem]
"""What a rule yields."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A code and its severity; the docstring of the module explains it."""

    code: str
    severity: Severity
    on: Literal["case", "reading", "file"] = "case"
    """What it checks: an experiment on hardware, one selection of a file as read, or all cases of a file."""
    may_be_allowed: bool = True
    """Whether `--allow`, or `allow` of the platform, can permit it; not if nothing is left to run, or to control it."""

    def problem(
        self, case: Case, key: str, message: str, fix: str, value: Any = None, expected: str | None = None
    ) -> Problem:
        """A problem of the value under a dotted key of the experiment."""
        path = case.reading.paths.get(key) or _place(case, key)
        return Problem(self.code, self.severity, str(case.resolved.file), key, message, fix, value, expected, path=path)

    def wrong(self, case: Case, key: str, value: Any, expected: str, better: Any, note: str = "") -> Problem:
        """A problem that setting the key to a better value solves."""
        setting = f"--set {key}={better}"
        problem = self.problem(case, key, f"{key} is {value}{note}", setting, value, expected)
        return replace(problem, settings=(setting,))

    def at(
        self,
        reading: Reading,
        stated: Stated,
        message: str,
        fix: str,
        expected: str | None = None,
        severity: Severity | None = None,
        *,
        corrections: Iterable[Edit] = (),
        choices: Iterable[Edit] = (),
    ) -> Problem:
        """A problem of a value or a place in the file, with its only `corrections`, or `choices` that each solve it."""
        return Problem(
            self.code,
            severity or self.severity,
            str(reading.file),
            ".".join(stated.path),
            message,
            fix,
            stated.value,
            expected,
            path=stated.path,
            corrections=tuple(corrections),
            settings=tuple(choice.setting for choice in choices),
        )

    def bound(
        self,
        case: Case,
        bound: Bound,
        message: str,
        fix: str,
        expected: str | None = None,
        severity: Severity | None = None,
        choices: Iterable[Edit] = (),
    ) -> Problem:
        """A problem of a threshold; a warning if the threshold is an example."""
        stated = Stated(bound.threshold.value, bound.path)
        severity = "warning" if bound.example else severity
        return self.at(case.reading, stated, message, fix, expected, severity, choices=choices)


def _place(case: Case, key: str) -> PointerPath | None:
    """The place of a key's value, if it is not under the key's own name."""
    name = case.resolved.platform_name or ""
    group, _, rest = key.partition(".")
    if case.reading.family != "steelyard":  # the file has no such key: point to the parameters of the model
        return case.reading.params_path
    if group == "platform":
        return ("platforms", name, *rest.split("."))
    if case.resolved.sources.get(key) == Source(Origin.PLATFORM, name):
        return ("platforms", name, "overrides", *key.split("."))
    return None


def environment(case: Case) -> dict[str, Stated]:
    """The environment variables in the config, each with its place."""
    platform, stated = case.resolved.platform, case.reading.env
    values = {**(platform.container.env if platform.container else {}), **platform.env}
    own = ("platforms", case.resolved.platform_name or "", "env")
    return {
        name: Stated(value, stated[name].path if name in stated else (*own, name)) for name, value in values.items()
    }


def preset_of(reading: Reading) -> tuple[str, Mapping[str, Any]]:
    """The preset that the model names, and its dimensions; empty for an unknown one."""
    model = reading.content.get("model")
    preset = model.get("preset") if isinstance(model, dict) else None
    return (preset, PRESETS[preset]) if isinstance(preset, str) and preset in PRESETS else ("", {})


def bound_pairs(case: Case, metric: str, other_metric: str) -> Iterator[tuple[Bound, Bound]]:
    """Pairs of thresholds of two metrics: both examples, or neither."""
    for bound, other in product(case.reading.bounds, repeat=2):
        metrics = (bound.threshold.metric, other.threshold.metric)
        if metrics == (metric, other_metric) and bound.example == other.example:
            yield bound, other


def asks_for_speed(threshold: Threshold) -> bool:
    """Whether the bound requires a minimum speed: a lower bound of a rate, an upper bound of a time, or a band."""
    floor = threshold.direction in (Direction.AT_LEAST, Direction.WITHIN)
    return threshold.direction is not Direction.AT_LEAST if threshold.metric == "step_time_s" else floor


def with_value(bound: Bound, value: float) -> Edit:
    """The change that gives a threshold another value, written as its file writes it."""
    threshold, name = bound.threshold, bound.path[-1]
    if name in CVS_NAMES:
        return Edit(bound.path, f"{value * CVS_NAMES[name][2]:.0f}")
    text = f"{threshold.metric}{threshold.direction}{value:.6g}"
    if threshold.direction is Direction.WITHIN:
        text = f"{threshold.metric} within {value:.6g} +- {threshold.tolerance_percent:g}%"
    return Edit(bound.path, text)


_UNITS = {
    **dict.fromkeys((COMPUTED, REPORTED), "TFLOP/s per GPU"),
    "tokens_per_s_per_gpu": "tokens/s per GPU",
    "step_time_s": "s per step",
}


def shown_bound(bound: Bound) -> str:
    """The bound as text, by its name in the file."""
    threshold, name = bound.threshold, bound.path[-1]
    if threshold.metric == "step_time_s" and "elapsed" in name:
        return f"{name} of {threshold.value * 1e3:,.0f} ms"
    label = threshold.metric if name.isdecimal() else name
    return f"{label} of {threshold.value:,g} {_UNITS.get(threshold.metric, '')}".rstrip()
