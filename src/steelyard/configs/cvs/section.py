"""Reads one mapping of a file key by key; a value that cannot be read becomes a problem, and reading continues."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from steelyard.configs.cvs.keys import Keys
from steelyard.configs.cvs.values import converted, left_open, substituted
from steelyard.experiment.problems import (
    CONTRADICTED,
    MAX_DETAILED,
    MISSING_KEY,
    PLACEHOLDER,
    UNKNOWN_KEY,
    WRONG_VALUE,
    Edit,
    Problem,
    Severity,
    bare,
    more_unknown_keys,
    plain,
    shown,
)
from steelyard.experiment.reading import PointerPath, Stated

EXAMPLE_PREFIXES = ("_example_", "_example", "_ex_", "_ex__", "_ex___")


@dataclass(slots=True)
class Report:
    """Collects the problems of one reading."""

    file: Path
    names: Mapping[str, str]
    """Values of placeholders such as {user-id}."""
    given: frozenset[str] = frozenset()
    """Dotted keys that the command line sets, so that the file need not."""
    problems: list[Problem] = field(default_factory=list)

    def add(
        self,
        code: str,
        path: PointerPath,
        message: str,
        fix: str,
        value: Any = None,
        expected: str | None = None,
        severity: Severity = "error",
    ) -> None:
        key = ".".join(path)
        problem = Problem(code, severity, str(self.file), key, message, fix, plain(value), expected, path=path)
        self.problems.append(replace(problem, settings=_settings(code, path)))

    def wrong(self, path: PointerPath, value: Any, expected: str, fix: str, name: str | None = None) -> None:
        """Report a wrong value, by its key or by a clearer name."""
        self.add(WRONG_VALUE, path, f"{name or path[-1]} is {shown(value)}", fix, value, expected)

    def forget(self, code: str, path: PointerPath) -> None:
        """Remove a problem that another one explains."""
        self.problems = [problem for problem in self.problems if (problem.code, problem.path) != (code, path)]

    def first_unknown(self, path: PointerPath, unknown: list[str]) -> list[str]:
        """The unknown keys that are reported one by one; the others are counted in one problem."""
        if len(unknown) > MAX_DETAILED:
            self.problems.append(more_unknown_keys(str(self.file), path, len(unknown) - MAX_DETAILED))
        return unknown[:MAX_DETAILED]


def _settings(code: str, path: PointerPath) -> tuple[str, ...]:
    """The option that removes an unknown or repeated key, or fills in a placeholder."""
    if code in (UNKNOWN_KEY, CONTRADICTED):
        return (Edit(path).setting,)
    return (Edit(path, "VALUE").setting,) if code == PLACEHOLDER else ()


class Section:
    """A mapping of the file, with the table of its known keys."""

    def __init__(self, values: Any, path: PointerPath, keys: Keys, report: Report) -> None:
        if values is not None and not isinstance(values, dict):
            report.wrong(path, values, "a mapping of keys", "write a mapping", ".".join(path))
        self.values: Mapping[str, Any] = values if isinstance(values, dict) else {}
        self.path, self.keys, self.report = path, keys, report
        self.stated: dict[str, Stated] = {}
        """The values read so far, by their names in the file."""

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def names(self) -> Iterator[str]:
        """The keys that are not disabled by an underscore."""
        return (name for name in self.values if not name.startswith("_"))

    def section(self, name: str, keys: Keys) -> "Section":
        return Section(self.values.get(name), (*self.path, name), keys, self.report)

    def get(self, name: str, required: bool = False) -> Stated | None:
        """The value of a key; None if it is absent or cannot be read, which is a problem."""
        if name in self.stated:
            return self.stated[name]
        key, path = self.keys[name], (*self.path, name)
        if name not in self.values:
            if required and key.reads not in self.report.given:
                fix = f'add "{name}" to "{self.path[-1]}"'
                self.report.add(
                    MISSING_KEY, path, f"{dotted(path)} is missing", fix, expected=sentence_part(key.meaning)
                )
            return None
        raw = self.values[name]
        if left_open(raw):
            return self._left_open(name, path, raw)
        try:
            value = self._filled(converted(raw, key.kind), path)
        except ValueError as expected:
            self.report.wrong(path, raw, str(expected), f"correct {name}", dotted(path))
            return None
        if value == "" and required:
            self.report.add(
                MISSING_KEY, path, f"{dotted(path)} is empty", "write the value", raw, sentence_part(key.meaning)
            )
            return None
        self.stated[name] = Stated(value, path)
        return self.stated[name]

    def value(self, name: str, required: bool = False) -> Any:
        """As `get`, the value alone."""
        stated = self.get(name, required)
        return stated.value if stated else None

    def _filled(self, value: Any, path: PointerPath) -> Any:
        if isinstance(value, list):
            return [self.filled(item, path) for item in value]
        return self.filled(value, path) if isinstance(value, str) else value

    def filled(self, text: str, path: PointerPath) -> str:
        """The text with its placeholders replaced, or a problem and the text unchanged."""
        try:
            return substituted(text, self.report.names)
        except ValueError as reason:
            message = f"{dotted(path)} is {shown(text)}: {reason}"
            self.report.add(PLACEHOLDER, path, message, "write the value itself", text)
            return text

    def _left_open(self, name: str, path: PointerPath, raw: str) -> Stated | None:
        """A placeholder: a problem unless the command line sets the key. The file's example is used in its place."""
        key, example = self.keys[name], self.example(name)
        if key.reads not in self.report.given:
            like = "" if example is None else f", such as {example}"
            if isinstance(example, str) and "|" in example:
                like = f", one of {', '.join(example.split('|'))}"
            absent = "" if key.default is None else f", or remove the key; the default is {key.default}"
            message = f"{dotted(path)} is not filled in ({shown(raw)})"
            fix = f"write the value{like}{absent}; --fill asks for it"
            self.report.add(PLACEHOLDER, path, message, fix, raw, sentence_part(key.meaning))
        if example is None:
            return None
        try:
            self.stated[name] = Stated(converted(example, key.kind), path, assumed=True)
        except ValueError:
            return None
        return self.stated[name]

    def example(self, name: str) -> Any:
        """The example of a key in the file, or None."""
        example = example_name(self.values, name)
        return None if example is None else self.values[example]

    def first_unknown(self) -> list[str]:
        """The unknown keys that are reported one by one."""
        return self.report.first_unknown(self.path, [name for name in self.names() if name not in self.keys])

    def unknown(self) -> None:
        """Report every unknown key with the nearest known one."""
        for name in self.first_unknown():
            near = difflib.get_close_matches(name, sorted(self.keys), n=1, cutoff=0.6)
            path = (*self.path, name)
            if near:  # the misspelled key is why the right one is missing
                self.report.forget(MISSING_KEY, (*self.path, near[0]))
            self.report.add(
                UNKNOWN_KEY,
                path,
                f"{dotted(path)} is not a known key",
                f"write {near[0]}, or rename it to _{name}" if near else f"remove it, or rename it to _{name}",
                self.values[name],
                f"{near[0]!r}, the nearest known key" if near else "a key of docs/reference",
            )


def example_name(values: Mapping[str, Any], name: str) -> str | None:
    """The key that contains the example of `name`, or None."""
    names = (f"{prefix}{name}" for prefix in EXAMPLE_PREFIXES)
    return next((name for name in names if _is_value(values.get(name))), None)


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float) and not left_open(value)


def dotted(path: PointerPath) -> str:
    """A path as a person searches for it: model and GPU, then the last keys."""
    of = f"{path[2]} on {path[3]}: " if path[0] == "model_params" and len(path) > 4 else ""
    return of + bare(".".join(path[4:] if of else path[-2:]))


def sentence_part(meaning: str) -> str:
    """A meaning as part of a sentence."""
    text = meaning.rstrip(".")
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
