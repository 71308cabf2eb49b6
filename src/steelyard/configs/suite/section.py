"""One mapping of a file, read key by key; what cannot be read becomes a problem and the reading goes on."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard.configs.suite.keys import Keys
from steelyard.configs.suite.values import converted, left_open, substituted
from steelyard.experiment.problems import (
    MAX_DETAILED,
    MISSING_KEY,
    PLACEHOLDER,
    UNKNOWN_KEY,
    WRONG_VALUE,
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
    """Where problems of one reading are gathered."""

    file: Path
    names: Mapping[str, str]
    """What placeholders such as {user-id} stand for."""
    given: frozenset[str] = frozenset()
    """Dotted keys that the command line gives, so that the file may leave them open."""
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
        self.problems.append(problem)

    def wrong(self, path: PointerPath, value: Any, expected: str, fix: str, name: str | None = None) -> None:
        """A value that does not do, called by its own key or by a name that says more."""
        self.add(WRONG_VALUE, path, f"{name or path[-1]} is {shown(value)}", fix, value, expected)

    def forget(self, code: str, path: PointerPath) -> None:
        """Take back a problem that another one explains."""
        self.problems = [problem for problem in self.problems if (problem.code, problem.path) != (code, path)]

    def first_unknown(self, path: PointerPath, unknown: list[str]) -> list[str]:
        """The unknown keys of a mapping that are named one by one; how many more there are is a problem of its own."""
        if len(unknown) > MAX_DETAILED:
            self.problems.append(more_unknown_keys(str(self.file), path, len(unknown) - MAX_DETAILED))
        return unknown[:MAX_DETAILED]


class Section:
    """A mapping of the file with the table of keys it may hold."""

    def __init__(self, values: Any, path: PointerPath, keys: Keys, report: Report) -> None:
        if values is not None and not isinstance(values, dict):
            report.wrong(path, values, "a mapping of keys", "write a mapping", ".".join(path))
        self.values: Mapping[str, Any] = values if isinstance(values, dict) else {}
        self.path, self.keys, self.report = path, keys, report
        self.stated: dict[str, Stated] = {}
        """What was read so far, by the file's own names."""

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def names(self) -> Iterator[str]:
        """The keys that are not parked behind an underscore."""
        return (name for name in self.values if not name.startswith("_"))

    def section(self, name: str, keys: Keys) -> "Section":
        return Section(self.values.get(name), (*self.path, name), keys, self.report)

    def get(self, name: str, required: bool = False) -> Stated | None:
        """The value of a key by its kind; None where it is absent or cannot be read, which is then a problem."""
        if name in self.stated:
            return self.stated[name]
        key, path = self.keys[name], (*self.path, name)
        if name not in self.values:
            if required and key.reads not in self.report.given:
                fix = f'add "{name}" to "{self.path[-1]}"'
                self.report.add(
                    MISSING_KEY, path, f"{dotted(path)} is missing", fix, expected=_sentence_part(key.meaning)
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
            self.report.add(MISSING_KEY, path, f"{dotted(path)} is empty", "write it", raw, _sentence_part(key.meaning))
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
        """Text with its placeholders filled in, or a problem and the text as it stands."""
        try:
            return substituted(text, self.report.names)
        except ValueError as reason:
            message = f"{dotted(path)} is {shown(text)}: {reason}"
            self.report.add(PLACEHOLDER, path, message, "write the path or the name itself", text)
            return text

    def _left_open(self, name: str, path: PointerPath, raw: str) -> Stated | None:
        """A placeholder: a problem unless the command line fills it; the example beside it stands in for it."""
        key, example = self.keys[name], self.example(name)
        if key.reads not in self.report.given:
            like = "" if example is None else f", such as {example}"
            if isinstance(example, str) and "|" in example:
                like = f", one of {', '.join(example.split('|'))}"
            absent = "" if key.default is None else f", or remove it for {key.default}"
            message, fix = f"{dotted(path)} is left open ({shown(raw)})", f"write it{like}{absent}; --fill asks for it"
            self.report.add(PLACEHOLDER, path, message, fix, raw, _sentence_part(key.meaning))
        if example is None:
            return None
        try:
            self.stated[name] = Stated(converted(example, key.kind), path, assumed=True)
        except ValueError:
            return None
        return self.stated[name]

    def example(self, name: str) -> Any:
        """The value parked beside a key as an example, if one is."""
        parked = example_name(self.values, name)
        return None if parked is None else self.values[parked]

    def first_unknown(self) -> list[str]:
        """The keys in no table, as many as are named one by one."""
        return self.report.first_unknown(self.path, [name for name in self.names() if name not in self.keys])

    def unknown(self) -> None:
        """Say every key that is in no table, with the nearest that is."""
        for name in self.first_unknown():
            near = difflib.get_close_matches(name, sorted(self.keys), n=1, cutoff=0.6)
            path = (*self.path, name)
            if near:  # the misspelt key is why the right one is missing
                self.report.forget(MISSING_KEY, (*self.path, near[0]))
            self.report.add(
                UNKNOWN_KEY,
                path,
                f"{dotted(path)} is not a known key",
                f"write {near[0]}, or park it as _{name}" if near else f"remove it, or park it as _{name}",
                self.values[name],
                f"{near[0]!r}, the nearest known key" if near else "a key of docs/reference",
            )


def example_name(values: Mapping[str, Any], name: str) -> str | None:
    """The key beside `name` that is parked as its example, if one is."""
    names = (f"{prefix}{name}" for prefix in EXAMPLE_PREFIXES)
    return next((name for name in names if _is_value(values.get(name))), None)


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float) and not left_open(value)


def dotted(path: PointerPath) -> str:
    """A path as a person looks for it: its last keys, behind the model and the GPU they are of."""
    of = f"{path[2]} on {path[3]}: " if path[0] == "model_params" and len(path) > 4 else ""
    return of + bare(".".join(path[4:] if of else path[-2:]))


def _sentence_part(meaning: str) -> str:
    text = meaning.rstrip(".")
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
