"""The page of an experiment file's keys, from the models that read it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from steelyard.experiment.experiment import GROUPS, ComparePolicy, Experiment
from steelyard.experiment.keys import KEYS, STATED, fields_of, meaning_of
from steelyard.experiment.model import RopeScaling
from steelyard.experiment.platform import FRAMEWORKS, Container, Network, Platform
from steelyard.experiment.policy import words
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.problems import spelt
from steelyard.experiment.thresholds import METRICS
from steelyard.hardware.catalog import CPU, known_names

HEAD = """# Keys of an experiment file

Made by `python docs/reference/make.py` from the models that read the file. A key without a default must be
given, or, in `model`, come with the preset. "If it differs" is what a difference between two runs does to a comparison
of their throughput, memory, FLOPs and convergence: it blocks it, is a caveat, or is free.
"""


_OWN = {name: Experiment.model_fields[name] for name in ("schema_version", "name", "thresholds")}
_MODELS: Mapping[str, type[BaseModel]] = {
    "model.rope_scaling": RopeScaling,
    "platform": Platform,
    "platform.container": Container,
    "platform.network": Network,
    "compare": ComparePolicy,
}


def page() -> str:
    parts = [HEAD, _fields("top level", _OWN), *map(_group, GROUPS), _recorded()]
    parts += [
        _fields(name.replace("platform", "platforms.NAME"), model.model_fields) for name, model in _MODELS.items()
    ]
    parts.append(f"Presets: {_list(PRESETS)}.\n\nGPUs: {_list((CPU, *known_names()))}.\n")
    parts.append(
        f"A threshold is `METRIC>=V`, `METRIC<=V` or `METRIC within V +- P%`, its metric one of {_list(METRICS)}.\n"
    )
    return "\n".join(parts)


def table(title: str, columns: str, rows: Iterable[Sequence[str]]) -> str:
    """A section of a page: its title, and a table whose columns one text names."""
    return f"## {title}\n\n{markdown(columns.split(', '), rows)}"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (columns, ["---"] * len(columns), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def documented_keys() -> dict[str, tuple[str, str | None]]:
    """Every dotted key of an experiment file with its meaning and its default."""
    sections = {"": _OWN} | {f"{group}.": fields_of(group) for group in GROUPS}
    sections |= {f"{name}.": model.model_fields for name, model in _MODELS.items()}
    return {
        f"{prefix}{name}": (meaning_of(field), _default(field).strip("`") or None)
        for prefix, fields in sections.items()
        for name, field in fields.items()
    }


def _group(group: str) -> str:
    """A group whose keys two runs may differ in."""
    rows = []
    for name, field in fields_of(group).items():
        policy = KEYS[f"{group}.{name}"].policy
        values = f"{_values(field.annotation)}{f' ({policy.unit})' if policy.unit else ''}"
        rows.append((f"`{name}`", values, _default(field), words(policy), meaning_of(field)))
    return table(group, "key, values, default, if it differs, meaning", rows)


def _recorded() -> str:
    """What two runs may differ in that no experiment file has a key for."""
    keys = [key for key in (*KEYS.values(), *STATED.values()) if key.name not in documented_keys()]
    rows = ((f"`{key.name}`", words(key.policy), key.meaning) for key in keys)
    return table("recorded, or stated by a log", "key, if it differs, meaning", rows)


def _fields(title: str, fields: Mapping[str, FieldInfo]) -> str:
    rows = []
    for name, field in fields.items():
        values = ", ".join(FRAMEWORKS) if name == "framework" else _values(field.annotation)
        rows.append((f"`{name}`", values, _default(field), meaning_of(field)))
    return table(title, "key, values, default, meaning", rows)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    return f"`{spelt(value)}`"


def _values(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(map(str, parts))
    if origin is Union or "|" in str(annotation):
        return ", ".join(_values(part) for part in parts if part is not type(None)) + ", null"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "mapping"
    names = {int: "whole number", float: "number", bool: "true, false"}
    return "list of text" if origin is list else names.get(annotation, "text")


def _list(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)
