"""Applies --set to the keys of a config file: by its own names, or by a JSON pointer as lint prints it."""

import copy
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from steelyard.configs.files import ConfigFile, FileError
from steelyard.errors import InputError
from steelyard.experiment import parse_settings
from steelyard.experiment.cells import SUITE
from steelyard.experiment.experiment import GROUPS, Experiment
from steelyard.experiment.parsing import parse_scalar
from steelyard.experiment.problems import plain, shown
from steelyard.experiment.reading import PointerPath
from steelyard.experiment.resolve import NOT_OF_ONE_RUN, PLATFORM, Settings, refuse_a_secret

ROOTS = ("config", "model_params", *NOT_OF_ONE_RUN, *(name for name in Experiment.model_fields if name not in GROUPS))
"""First parts of keys that are places in a file, not settings of an experiment."""

_CVS_ROOTS = ("config", "model_params")

CELL = 4
"""Keys to the parameters of one model on one GPU: model_params, section, model, GPU. `--set` adds none of them."""

Edits = Sequence[tuple[str, Any]]
"""Key or pointer as typed, and the value: text of the command line, or a value of the API."""


def split(settings: Sequence[str] | Mapping[str, Any]) -> tuple[Settings, Edits]:
    """The settings of the experiment, and the edits of the file."""
    if isinstance(settings, Mapping):
        edits = [(key, value) for key, value in settings.items() if _is_a_place(key)]
        others: Any = {key: value for key, value in settings.items() if not _is_a_place(key)}
    else:
        pairs = [text.partition("=") for text in settings]
        edits = [(key, value) for key, is_set, value in pairs if is_set and _is_a_place(key)]
        others = ["".join(pair) for pair in pairs if not pair[1] or not _is_a_place(pair[0])]
    for key, value in edits:
        refuse_a_secret(key.replace("/", "."), value)
    return parse_settings(others), edits


def _is_a_place(key: str) -> bool:
    return key.startswith("/") or key.partition(".")[0] in ROOTS


def edited(file: ConfigFile, edits: Edits) -> ConfigFile:
    """The file with the edits applied to its content, in order; null removes a key."""
    if not edits:
        return file
    content, places = copy.deepcopy(file.content), []
    for key, given in edits:
        path = place_of(key, content)
        if file.family != "steelyard" and path[0] not in _CVS_ROOTS:
            raise _no_place(file, key, path[0], dict.fromkeys(_CVS_ROOTS))
        _apply(file, content, key, path, _value(file, key, given))
        places.append(path)
    return replace(file, content=content, set_places=tuple(places))


def place_of(key: str, content: Any) -> PointerPath:
    """The path of a pointer or a dotted key. A key of the file that contains dots is found as a whole."""
    if key.startswith("/"):
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in key[1:].split("/"))
    return tuple(_parts(key, content))


def _parts(dotted: str, here: Any) -> Iterator[str]:
    in_a_suite = dotted.startswith(f"{SUITE}.")
    while dotted:
        words = dotted.split(".")
        heads = (".".join(words[:count]) for count in range(len(words), 0, -1))
        whole = dotted if in_a_suite and words[0] in (*GROUPS, PLATFORM) else words[0]  # its keys contain dots
        part = next((head for head in heads if isinstance(here, dict) and head in here), whole)
        yield part
        here = here.get(part) if isinstance(here, dict) else None
        dotted = dotted[len(part) + 1 :]


def _value(file: ConfigFile, key: str, given: Any) -> Any:
    """The value: YAML in an experiment file; in the suite's files, whose values are text, text, a list or a mapping."""
    if not isinstance(given, str):
        return given
    try:
        parsed = parse_scalar(given)
    except ValueError as reason:
        complaint = f"--set {shown(f'{key}={given}')}: {reason}"
        raise InputError(complaint, key=key, value=plain(given), expected="a YAML value") from None
    return parsed if file.family == "steelyard" or isinstance(parsed, dict | list | None) else given


def _apply(file: ConfigFile, content: Any, key: str, path: PointerPath, value: Any) -> None:
    here = content
    for at, part in enumerate(path[:-1]):
        inside = _inside(here, part)
        if inside is None and isinstance(here, dict) and at and not _names_a_selection(path[: at + 1]):
            inside = here[part] = {}
        if not isinstance(inside, dict | list):
            raise _no_place(file, key, part, here)
        here = inside
    last = path[-1]
    if isinstance(here, list):
        if not last.isdecimal() or int(last) > len(here):
            raise _no_place(file, key, last, here)
        here[int(last) : int(last) + 1] = [] if value is None else [value]
    elif value is not None and not _names_a_selection(path):
        here[last] = value
    elif last in here and value is None:
        del here[last]
    else:
        raise _no_place(file, key, last, here)


def _inside(here: Any, part: str) -> Any:
    if isinstance(here, list):
        return here[int(part)] if part.isdecimal() and int(part) < len(here) else None
    return here.get(part)


def _names_a_selection(path: PointerPath) -> bool:
    """Whether the path ends at a root of the suite's files, or at what `--model`, `--gpu` and `--platform` select."""
    root, depth = path[0], len(path)
    return depth <= {"model_params": CELL, "platforms": 2, "config": 1}.get(root, 0)


def _no_place(file: ConfigFile, key: str, part: str, here: Any) -> FileError:
    offered = [str(name) for name in here] if isinstance(here, dict) else [f"0 to {len(here)}"]
    near = difflib.get_close_matches(part, offered, n=1)
    way_on = f"write {near[0]} for {part}" if near else f"steelyard lint {file.path}"
    expected = f"one of {', '.join(offered[:20])}" if offered else "a key of the file"
    return FileError(file.path, f"does not have {shown(part)}, of --set {key}", key=key, expected=expected, next=way_on)
