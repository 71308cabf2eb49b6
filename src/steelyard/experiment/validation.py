"""Turns validation errors of pydantic into problems with key, value, expectation and fix."""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    bare,
    more_unknown_keys,
    shown,
    spelt,
)
from steelyard.experiment.reading import PointerPath, Reading
from steelyard.experiment.sources import CONFIG, SET, SUITE, Origin, Source


def problems_of(
    errors: Iterable[ErrorDetails], root: type[BaseModel], file: Reading, sources: Mapping[str, Source]
) -> Iterator[Problem]:
    """Problems for validation errors; of many unknown keys in one mapping, the first ones and a count."""
    unknown: Counter[PointerPath] = Counter()
    for details in errors:
        loc = _loc(details)
        if details["type"] == "extra_forbidden":
            unknown[loc[:-1]] += 1
            if unknown[loc[:-1]] > MAX_DETAILED:
                continue
        yield _problem_of(details, loc, root, file, sources)
    for around, count in unknown.items():
        if count > MAX_DETAILED:
            place = (*platform_path(file), *around) if root is Platform else around
            yield more_unknown_keys(str(file.file), place, count - MAX_DETAILED)


def _problem_of(
    details: ErrorDetails, loc: PointerPath, root: type[BaseModel], file: Reading, sources: Mapping[str, Source]
) -> Problem:
    """The problem for one error; the layer that the value came from decides the name of the key and its place."""
    within = ".".join(loc)
    above = platform_path(file) if root is Platform else ()
    key = ".".join(part for part in (*above, within) if part)
    dotted = f"platform.{within}" if root is Platform else within
    source = next((sources[part] for at in range(len(loc), 0, -1) if (part := ".".join(loc[:at])) in sources), None)
    path, option, name = loc, "", key
    if root is Platform and source == SET:
        option, name, path = "--set ", dotted, ()
    elif dotted in file.paths:  # the file uses another name
        path = file.paths[dotted]
        name = path[-1]
    elif root is Platform:
        path = (*above, *loc)
    elif source == SET:  # without a file, the message starts with --set anyway
        option = "" if str(file.file) == SETTINGS else "--set "
    elif source is not None and source.origin == Origin.PLATFORM:
        path = ("platforms", source.name, "overrides", *loc)

    code, value, expected = WRONG_VALUE, details.get("input"), None
    fix = f"change {name}{_where(sources.get(within))}"
    if details["type"] == "extra_forbidden":
        code, message = UNKNOWN_KEY, f"{option}{bare(name)} is not a known key"
        near, expected = nearest(loc[-1], fields_at(root, loc[:-1]))
        fix = remove_or_rename(near)
        if source == SET:
            *around, _ = dotted.split(".")
            setting = f"--set {'.'.join(around)}.{near}={bare(spelt(value))}"
            fix = setting if near else f"leave out --set {bare(dotted)}"
    elif details["type"] == "missing":
        code, message, value, expected = MISSING_KEY, f"{option}{name} is missing", None, _meaning(root, loc)
        fix = f"add it under {loc[0]}: in {file.file}" if len(loc) > 1 else f"add `{name}:` to {file.file}"
    elif details["type"] == "value_error":  # our own message, which already contains the expectation
        message = f"{option}{name}: {details.get('ctx', {}).get('error', details['msg'])}"
        value = None if isinstance(value, dict) else value
    else:
        message, expected = f"{option}{name} is {shown(value)}", _expectation(details)
    if root is Platform and source == SET and code != UNKNOWN_KEY:
        fix = f"change {option}{name}"
    return Problem(code, "error", str(file.file), key, message, fix, value, expected, path)


def platform_path(file: Reading) -> PointerPath:
    """The place of the selected platform in an experiment file; empty if the file has no platforms."""
    return () if file.platform is None else ("platforms", file.platform)


def _loc(details: ErrorDetails) -> PointerPath:
    """The keys that lead to the value, without the labels of union branches."""
    *around, last = details["loc"] or ("",)
    kept = details["type"] == "extra_forbidden" or not _is_branch_label(last)
    parts = (*around, *([last] if kept else ()))
    return tuple(str(part) for part in parts if part == last or not _is_branch_label(part))


def _is_branch_label(part: Any) -> bool:
    """Whether pydantic added the part, such as `function-after[...]` for a branch of a union."""
    return isinstance(part, str) and (part in ("RopeScaling", "[key]") or bool(_BRANCH.fullmatch(part)))


_BRANCH = re.compile(
    r"(?:function-(?:after|before|wrap|plain)|literal|dict|list|nullable|lax-or-strict)\[.*\]", re.DOTALL
)


def _where(source: Source | None) -> str:
    if source == SET:
        return " after --set"
    return f" (from {source})" if source and source not in (CONFIG, SUITE) else ""


def nearest(name: str, known: Sequence[str]) -> tuple[str | None, str | None]:
    """The known key that a misspelled one resembles, and what was expected."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return near[0], f"{near[0]!r}, the nearest known key"
    return None, f"one of {', '.join(known)}" if known else None


def remove_or_rename(near: str | None) -> str:
    return f"write {near}, or remove it" if near else "remove it"


_TYPES = {
    "int_type": "a whole number without quotes",
    "int_from_float": "a whole number",
    "float_type": "a number without quotes",
    "bool_type": "true or false",
    "string_type": "text (in quotes if it looks like a number)",
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
    for bound, words in (("min_length", "at least"), ("max_length", "at most")):
        if bound in context:
            return f"{words} {context[bound]} {'entry' if context[bound] == 1 else 'entries'}"
    for bound, words in (("gt", "above"), ("ge", "of at least"), ("lt", "below"), ("le", "of at most")):
        if bound in context:
            return f"a number {words} {context[bound]}"
    return _TYPES.get(kind, details["msg"][:1].lower() + details["msg"][1:])


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return next(filter(None, map(_model_of, get_args(annotation))), None)
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
