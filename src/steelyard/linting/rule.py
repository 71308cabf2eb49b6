"""What a lint rule is given and what it gives back."""

from dataclasses import dataclass
from typing import Any, Literal

from steelyard.experiment import Reading
from steelyard.experiment.case import Case
from steelyard.experiment.problems import Problem, Severity
from steelyard.experiment.reading import PointerPath
from steelyard.experiment.sources import Origin, Source


@dataclass(frozen=True, slots=True)
class Rule:
    """A code and how bad it is; the module's docstring is its explanation."""

    code: str
    severity: Severity
    on: Literal["case", "reading", "file"] = "case"
    """What it looks at: an experiment on hardware, one selection of a file as it was read, or all a file's cases."""
    may_be_allowed: bool = False
    """Whether the platform's `allow` may permit what it finds."""

    def problem(
        self, case: Case, key: str, message: str, fix: str, value: Any = None, expected: str | None = None
    ) -> Problem:
        """A problem of the experiment's value under a dotted key."""
        path = case.reading.paths.get(key) or _place(case, key)
        return Problem(self.code, self.severity, str(case.resolved.file), key, message, fix, value, expected, path=path)

    def at(
        self,
        reading: Reading,
        path: PointerPath,
        message: str,
        fix: str,
        value: Any = None,
        expected: str | None = None,
        severity: Severity | None = None,
    ) -> Problem:
        """A problem of something at a place of the file."""
        key = ".".join(path)
        return Problem(
            self.code, severity or self.severity, str(reading.file), key, message, fix, value, expected, path=path
        )


def _place(case: Case, key: str) -> PointerPath | None:
    """Where a key's value stands, where that is not under its own name."""
    name = case.resolved.platform_name or ""
    group, _, rest = key.partition(".")
    if case.reading.family != "steelyard":  # the file does not say it; the parameters it would stand among do
        return case.reading.params_path
    if group == "platform":
        return ("platforms", name, *rest.split("."))
    if case.resolved.sources.get(key) == Source(Origin.PLATFORM, name):
        return ("platforms", name, "overrides", *key.split("."))
    return None
