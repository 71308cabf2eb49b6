"""Pydantic's complaints in our words: the key, the value, what was expected, what to do."""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from steelyard.experiment.experiment import Experiment
from steelyard.experiment.platform import Platform
from steelyard.experiment.problems import (
    MAX_DETAILED,
    MISSING_KEY,
    SETTINGS,
    UNKNOWN_KEY,
    WRONG_VALUE,
    Problem,
    more_unknown_keys,
    shown,
)
from steelyard.experiment.reading import Reading
from steelyard.experiment.sources import CONFIG, SET, Origin, Source


def problems_of(
    errors: Iterable[ErrorDetails], root: type[BaseModel], file: Reading, prefix: str, sources: Mapping[str, Source]
) -> Iterator[Problem]:
    """Pydantic's complaints in our words; of the unknown keys of one mapping the first ones, and how many more."""
    unknown: Counter[tuple[str, ...]] = Counter()
    for details in errors:
        around = tuple(_loc(details)[:-1])
        if details["type"] == "extra_forbidden":
            unknown[around] += 1
            if unknown[around] > MAX_DETAILED:
                continue
        yield _problem_of(details, root, file, prefix, sources)
    for around, count in unknown.items():
        if count > MAX_DETAILED:
            place = (*_platform_path(prefix), *around) if root is Platform else around
            yield more_unknown_keys(str(file.file), place, count - MAX_DETAILED)


def _problem_of(
    details: ErrorDetails, root: type[BaseModel], file: Reading, prefix: str, sources: Mapping[str, Source]
) -> Problem:
    """One pydantic complaint in our words, pointing at the layer of the file the value came from."""
    problem = _in_our_words(details, root, file, prefix, sources)
    loc = _loc(details)
    source = next((sources[key] for at in range(len(loc), 0, -1) if (key := ".".join(loc[:at])) in sources), None)
    dotted = ".".join(("platform", *loc)) if root is Platform else ".".join(loc)
    if root is Platform and source == SET:
        typed = f"--set platform.{'.'.join(loc)}"
        return replace(problem, message=problem.message.replace(problem.key, typed), fix=f"change {typed}", path=())
    if dotted in file.paths:
        problem = replace(problem, path=file.paths[dotted])
        if file.family == "steelyard":
            return problem
        own = problem.place[-1]  # the file has its own name for it
        return replace(
            problem, message=problem.message.replace(problem.key, own), fix=problem.fix.replace(problem.key, own)
        )
    if root is Platform:
        return replace(problem, path=(*_platform_path(prefix), *loc))
    if source == SET:  # without a file the options stand in its place, and are named as such
        return problem if problem.file == SETTINGS else replace(problem, message=f"--set {problem.message}")
    if source is not None and source.origin == Origin.PLATFORM:
        return replace(problem, path=("platforms", source.name, "overrides", *loc))
    return problem


def _platform_path(prefix: str) -> tuple[str, ...]:
    return ("platforms", prefix.removeprefix("platforms.")) if prefix else ()


def _loc(details: ErrorDetails) -> list[str]:
    """The keys to the value, without the branches of unions; an unknown key is one whatever it looks like."""
    *around, last = details["loc"] or ("",)
    kept = details["type"] == "extra_forbidden" or not _is_branch_label(last)
    return [str(part) for part in (*around, *([last] if kept else ())) if part == last or not _is_branch_label(part)]


def _in_our_words(
    details: ErrorDetails, root: type[BaseModel], file: Reading, prefix: str, sources: Mapping[str, Source]
) -> Problem:
    loc = _loc(details)
    within = ".".join(loc)
    key = ".".join(part for part in (prefix, within) if part)
    value = details.get("input")
    kind = details["type"]
    if kind == "extra_forbidden":
        return unknown_key(file, key, loc[-1], fields_at(root, loc[:-1]), value)
    if kind == "missing":
        group = f"{loc[0]}: " if len(loc) > 1 else ""
        return Problem(
            MISSING_KEY,
            "error",
            str(file.file),
            key=key,
            message=f"{key} is missing",
            fix=f"add it under {group}in {file.file}" if len(loc) > 1 else f"add `{key}:` to {file.file}",
            expected=_meaning(root, loc),
        )
    if kind == "value_error":  # our own sentence, which already says what was expected
        text = str(details.get("ctx", {}).get("error", details["msg"]))
        return Problem(
            WRONG_VALUE,
            "error",
            str(file.file),
            key=key,
            message=f"{key}: {text}",
            fix=f"change {key}{_where(sources.get(within))}",
            value=None if isinstance(value, dict) else value,
        )
    return wrong_value(file, key, value, _expectation(details), _where(sources.get(within)))


def _is_branch_label(part: Any) -> bool:
    """Pydantic names the branch of a union in the location, such as `int` or `function-after[…]`."""
    return isinstance(part, str) and (part == "RopeScaling" or bool(_BRANCH.fullmatch(part)))


_BRANCH = re.compile(
    r"(?:function-(?:after|before|wrap|plain)|literal|dict|list|nullable|lax-or-strict)\[.*\]", re.DOTALL
)


def _where(source: Source | None) -> str:
    if source == SET:
        return " after --set"
    return f" (it comes from {source})" if source and source != CONFIG else ""


def wrong_value(file: Reading, key: str, value: Any, expected: str, where: str = "") -> Problem:
    return Problem(
        WRONG_VALUE,
        "error",
        str(file.file),
        key=key,
        message=f"{key} is {shown(value)}",
        fix=f"change {key}{where}",
        value=value,
        expected=expected,
    )


def unknown_key(file: Reading, key: str, name: str, known: Sequence[str], value: Any) -> Problem:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return Problem(
        UNKNOWN_KEY,
        "error",
        str(file.file),
        key=key,
        message=f"{shown(key)[1:-1]} is not a known key",
        fix=f"write {near[0]}, or remove it" if near else "remove it",
        value=value,
        expected=f"{near[0]!r}, the nearest known key" if near else "no key here",
    )


_TYPES = {
    "int_type": "a whole number without quotes",
    "int_from_float": "a whole number",
    "float_type": "a number without quotes",
    "bool_type": "true or false",
    "string_type": "text (in quotes where it looks like a number)",
    "list_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "finite_number": "a finite number",
    "invalid_key": "a key that is text",
}


def _expectation(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    kind = details["type"]
    if kind == "literal_error":
        return "one of " + str(context["expected"]).replace(" or ", ", ").replace("'", "")
    for bound, words in (("gt", "above"), ("ge", "of at least"), ("lt", "below"), ("le", "of at most")):
        if bound in context:
            return f"a number {words} {context[bound]}"
    return _TYPES.get(kind, details["msg"][:1].lower() + details["msg"][1:])


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return next((found for found in map(_model_of, get_args(annotation)) if found), None)
    return None


def _model_at(root: type[BaseModel], path: Sequence[str]) -> type[BaseModel] | None:
    here: type[BaseModel] | None = root
    for part in path:
        if here is None or part not in here.model_fields:
            return None
        here = _model_of(here.model_fields[part].annotation)
    return here


def fields_at(root: type[BaseModel], path: Sequence[str]) -> list[str]:
    model = _model_at(root, path)
    names = list(model.model_fields) if model else []
    return [*names, "platforms"] if model is Experiment else names


def _meaning(root: type[BaseModel], path: Sequence[str]) -> str | None:
    owner = _model_at(root, path[:-1])
    field = owner.model_fields.get(path[-1]) if owner else None
    if field is None or not field.description:
        return None
    meaning = field.description.split("\n")[0].rstrip(".")
    return meaning[:1].lower() + meaning[1:]
