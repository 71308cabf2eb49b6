"""One mapping of a file, read key by key; what cannot be read becomes a problem and the reading goes on."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard.configs.suite.keys import Key
from steelyard.configs.suite.values import converted, left_open, substituted
from steelyard.experiment.limits import MAX_DETAILED
from steelyard.experiment.problems import (
    MISSING_KEY,
    PLACEHOLDER,
    UNKNOWN_KEY,
    WRONG_VALUE,
    Problem,
    Severity,
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
        self.problems.append(
            Problem(code, severity, str(self.file), key, message, fix, plain(value), expected, path=path)
        )

    def forget(self, code: str, path: PointerPath) -> None:
        """Take back a problem that another one explains."""
        self.problems = [one for one in self.problems if (one.code, one.path) != (code, path)]


class Section:
    """A mapping of the file with the table of keys it may hold."""

    def __init__(self, values: Any, path: PointerPath, keys: Mapping[str, Key], report: Report) -> None:
        if values is not None and not isinstance(values, dict):
            what = ".".join(path) or "the file"
            report.add(WRONG_VALUE, path, f"{what} is {shown(values)}", "write a mapping", values, "a mapping of keys")
        self.values: Mapping[str, Any] = values if isinstance(values, dict) else {}
        self.path, self.keys, self.report = path, keys, report
        self.stated: dict[str, Stated] = {}
        """What was read so far, by the file's own names."""

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def names(self) -> Iterator[str]:
        """The keys that are not parked behind an underscore."""
        return (name for name in self.values if not name.startswith("_"))

    def section(self, name: str, keys: Mapping[str, Key]) -> "Section":
        return Section(self.values.get(name), (*self.path, name), keys, self.report)

    def get(self, name: str, required: bool = False) -> Stated | None:
        """The value of a key by its kind; None where it is absent or cannot be read, which is then a problem."""
        if name in self.stated:
            return self.stated[name]
        key, path = self.keys[name], (*self.path, name)
        if name not in self.values:
            if required and key.reads not in self.report.given:
                self.report.add(
                    MISSING_KEY,
                    path,
                    f"{dotted(path)} is missing",
                    f'add "{name}" to "{self.path[-1] if self.path else "the file"}"',
                    expected=_sentence_part(key.meaning),
                )
            return None
        raw = self.values[name]
        if left_open(raw):
            return self._left_open(key, path, raw)
        found = self._converted(raw, key, path)
        if found == "" and required:
            self.report.add(
                MISSING_KEY, path, f"{dotted(path)} is empty", "write it", raw, expected=_sentence_part(key.meaning)
            )
            return None
        if found is not None:
            self.stated[name] = Stated(found, path)
        return self.stated.get(name)

    def value(self, name: str, required: bool = False) -> Any:
        """As `get`, the value alone."""
        found = self.get(name, required)
        return found.value if found else None

    def _converted(self, raw: Any, key: Key, path: PointerPath) -> Any:
        try:
            value = converted(raw, key.kind)
        except ValueError as expected:
            self.report.add(
                WRONG_VALUE,
                path,
                f"{dotted(path)} is {shown(raw)}",
                f"correct {path[-1]}",
                raw,
                str(expected),
            )
            return None
        if isinstance(value, str):
            return self.filled(value, path)
        if isinstance(value, list):
            return [self.filled(one, path) for one in value]
        return value

    def filled(self, text: str, path: PointerPath) -> str:
        """Text with its placeholders filled in, or a problem and the text as it stands."""
        try:
            return substituted(text, self.report.names)
        except ValueError as reason:
            self.report.add(
                PLACEHOLDER,
                path,
                f"{dotted(path)} is {shown(text)}: {reason}",
                "write the path or the name itself",
                text,
            )
            return text

    def _left_open(self, key: Key, path: PointerPath, raw: str) -> Stated | None:
        """A placeholder: a problem unless the command line fills it; the example beside it stands in for it."""
        example = self.example(key)
        if key.reads not in self.report.given:
            like = "" if example is None else f", such as {example}"
            if isinstance(example, str) and "|" in example:
                like = f", one of {', '.join(example.split('|'))}"
            absent = "" if key.default is None else f", or remove it for {key.default}"
            self.report.add(
                PLACEHOLDER,
                path,
                f"{dotted(path)} is left open ({shown(raw)})",
                f"write it{like}{absent}; --fill asks for it",
                raw,
                _sentence_part(key.meaning),
            )
        if example is None:
            return None
        try:
            self.stated[key.name] = Stated(converted(example, key.kind), path, assumed=True)
        except ValueError:
            return None
        return self.stated[key.name]

    def example(self, key: Key) -> Any:
        """The value parked beside a key as an example, if one is."""
        name = self.example_name(key)
        return None if name is None else self.values[name]

    def example_name(self, key: Key) -> str | None:
        """What the example beside a key is called."""
        return example_name(self.values, key.name)

    def first_unknown(self, known: Iterable[str] = ()) -> list[str]:
        """The keys in no table that are named one by one; how many more there are is a problem of its own."""
        allowed = {*self.keys, *known}
        unknown = [name for name in self.names() if name not in allowed]
        if len(unknown) > MAX_DETAILED:
            count = len(unknown) - MAX_DETAILED
            self.report.problems.append(more_unknown_keys(str(self.report.file), self.path, count))
        return unknown[:MAX_DETAILED]

    def unknown(self, known: Iterable[str] = ()) -> None:
        """Say every key that is in no table, with the nearest that is."""
        allowed = {*self.keys, *known}
        for name in self.first_unknown(known):
            near = difflib.get_close_matches(name, sorted(allowed), n=1, cutoff=0.6)
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
    return next((f"{prefix}{name}" for prefix in EXAMPLE_PREFIXES if _is_value(values.get(f"{prefix}{name}"))), None)


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float) and not left_open(value)


def dotted(path: PointerPath) -> str:
    """A path as a person looks for it: its last keys, behind the model and the GPU they are of."""
    of = f"{path[2]} on {path[3]}: " if path[0] == "model_params" and len(path) > 4 else ""
    return of + shown(".".join(path[4:] if of else path[-2:]))[1:-1]


def _sentence_part(meaning: str) -> str:
    text = meaning.rstrip(".")
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
