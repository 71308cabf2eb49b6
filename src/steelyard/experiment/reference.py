"""The page of an experiment file's keys, from the models that read it."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from steelyard.experiment.experiment import GROUPS, ComparePolicy, Experiment
from steelyard.experiment.keys import KEYS, STATED, fields_of, meaning_of
from steelyard.experiment.model import RopeScaling
from steelyard.experiment.platform import FRAMEWORKS, Container, Network, Platform
from steelyard.experiment.policy import words
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.thresholds import METRICS
from steelyard.hardware.catalog import CPU, known_names

HEAD = """# Keys of an experiment file

Made by `python docs/reference/make.py` from the models that read the file. A key without a default must be
given, or, in `model`, come with the preset. "If it differs" is what a difference between two runs does to a comparison
of their throughput, memory, FLOPs and convergence: it blocks it, is a caveat, or is free.
"""


def page() -> str:
    """The whole page as Markdown."""
    own = {name: Experiment.model_fields[name] for name in ("schema_version", "name", "thresholds")}
    parts = [HEAD, _table("top level", own)]
    parts += [_group(group) for group in GROUPS]
    parts.append(_beside())
    parts.append(_section("model.rope_scaling", RopeScaling))
    parts.append(_section("platforms.NAME", Platform))
    parts.append(_section("platforms.NAME.container", Container))
    parts.append(_section("platforms.NAME.network", Network))
    parts.append(_section("compare", ComparePolicy))
    parts.append(f"Presets: {_list(PRESETS)}.\n\nGPUs: {_list((CPU, *known_names()))}.\n")
    parts.append(
        f"A threshold is `METRIC>=V`, `METRIC<=V` or `METRIC within V +- P%`, its metric one of {_list(METRICS)}.\n"
    )
    return "\n".join(parts)


def documented_keys() -> dict[str, tuple[str, str | None]]:
    """Every dotted key of an experiment file with its meaning and its default."""
    found: dict[str, tuple[str, str | None]] = {}
    own = {name: Experiment.model_fields[name] for name in ("schema_version", "name", "thresholds")}
    sections: list[tuple[str, Mapping[str, FieldInfo]]] = [("", own)]
    sections += [(f"{group}.", fields_of(group)) for group in GROUPS]
    sections += [
        ("model.rope_scaling.", RopeScaling.model_fields),
        ("platform.", Platform.model_fields),
        ("platform.container.", Container.model_fields),
        ("platform.network.", Network.model_fields),
        ("compare.", ComparePolicy.model_fields),
    ]
    for prefix, fields in sections:
        for name, field in fields.items():
            found[f"{prefix}{name}"] = (meaning_of(field), _default(field).strip("`") or None)
    return found


def _group(group: str) -> str:
    """A group whose keys two runs may differ in."""
    rows = []
    for name, field in fields_of(group).items():
        policy = KEYS[f"{group}.{name}"].policy
        values = f"{_values(field.annotation)}{f' ({policy.unit})' if policy.unit else ''}"
        rows.append(f"| `{name}` | {values} | {_default(field)} | {words(policy)} | {meaning_of(field)} |")
    head = "| key | values | default | if it differs | meaning |\n| --- | --- | --- | --- | --- |"
    return "\n".join([f"## {group}\n", head, *rows, ""])


def _beside() -> str:
    """What two runs may differ in that no experiment file has a key for."""
    named = [key for key in (*KEYS.values(), *STATED.values()) if key.name not in documented_keys()]
    rows = [f"| `{key.name}` | {words(key.policy)} | {key.meaning} |" for key in named]
    head = "| key | if it differs | meaning |\n| --- | --- | --- |"
    return "\n".join(["## recorded, or stated by a log\n", head, *rows, ""])


def _section(title: str, model: type[BaseModel]) -> str:
    return _table(title, model.model_fields)


def _table(title: str, fields: Mapping[str, FieldInfo]) -> str:
    rows = "\n".join(_rows(fields))
    return f"## {title}\n\n| key | values | default | meaning |\n| --- | --- | --- | --- |\n{rows}\n"


def _rows(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    for name, field in fields.items():
        values = ", ".join(FRAMEWORKS) if name == "framework" else _values(field.annotation)
        yield f"| `{name}` | {values} | {_default(field)} | {meaning_of(field)} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else value}`"


def _values(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(str(value) for value in get_args(annotation))
    if get_origin(annotation) is Union or "|" in str(annotation):
        return ", ".join(_values(part) for part in get_args(annotation) if part is not type(None)) + ", null"
    if get_origin(annotation) in (dict, list):
        return "mapping" if get_origin(annotation) is dict else "list of text"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    names = {int: "whole number", float: "number", bool: "true, false", str: "text"}
    return names.get(annotation, "text")


def _list(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)
