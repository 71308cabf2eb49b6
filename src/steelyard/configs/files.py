"""Reads a config file of any family: what it says, which bytes said it, and on which line."""

import hashlib
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml.nodes import Node

from steelyard.errors import InputError
from steelyard.experiment.experiment import Experiment
from steelyard.experiment.parsing import (
    MAX_BYTES,
    Place,
    TextError,
    check_size,
    json_places,
    parse_json,
    parse_yaml,
    yaml_places,
)
from steelyard.experiment.problems import (
    DUPLICATE_KEY,
    FOREIGN_FAMILY,
    SECRET,
    SECRET_FIX,
    UNREADABLE,
    InvalidExperimentError,
    Problem,
    bare,
    shown,
)
from steelyard.experiment.reading import Family, PointerPath
from steelyard.files import open_regular
from steelyard.secrets import secret_kind, without_secrets


class FileError(InputError):
    """Something about one file; `complaint` says it without the file's name."""

    def __init__(self, path: Path, complaint: str, **given: Any) -> None:
        super().__init__(f"{path}: {complaint}", **given)
        self.complaint = complaint


class UnreadableFileError(FileError):
    """A file that cannot be had at all."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a file says, and which bytes said it."""

    path: Path
    sha256: str
    text: str
    content: dict[str, Any]
    """Without secrets: where one stands in the file, no stage after reading sees it."""
    family: Family
    problems: tuple[Problem, ...] = ()
    """What is wrong with it whatever it is for: keys that stand there twice, secrets."""
    tree: Node | None = field(default=None, compare=False, repr=False)
    """The nodes of a YAML file, which know their lines."""

    @property
    def is_json(self) -> bool:
        return _is_json(self.path, self.text)

    def at(self, path: PointerPath) -> Any:
        """The value at a place; None where the file has no such place."""
        here: Any = self.content
        for key in path:
            here = here.get(key) if isinstance(here, dict) else None
        return here


def read_config(path: Path) -> ConfigFile:
    return with_family(read_mapping(path))


def with_family(file: ConfigFile) -> ConfigFile:
    """The file with the family its keys are of; one that is not read is refused."""
    family = _family(file)
    if family != "steelyard" and not _has_text_keys(file.content):
        raise unreadable(file.path, "holds a key that is no text")
    return replace(file, family=family)


def _has_text_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_text_keys(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(_has_text_keys, value))


def read_mapping(
    path: Path, wanted: str = "a config file", example: str = "steelyard init", as_yaml: bool = False
) -> ConfigFile:
    """A file that holds a mapping, whatever it is for: `wanted` and `example` say so to whoever gave another.

    As YAML where JSON's quotes are not to be asked for, whatever the file is called.
    """
    data = _bytes(path, wanted, example)
    problems: list[Problem] = []
    try:
        text = data.decode("utf-8-sig")
        is_json = _is_json(path, text) and not as_yaml
        content, tree = (parse_json(text), None) if is_json else parse_yaml(text)
        check_size(content)
        if not isinstance(content, dict):
            actual = "is empty" if content is None else f"holds {type(content).__name__} at its top"
            raise ValueError(f"{actual}, expected a mapping of keys")
        content, secrets = without_secrets(content)
        problems = [_secret(path, place, kind) for place, kind in secrets]
        if is_json:
            problems += [_duplicate(path, place) for place in json_places(text) if place.again]
    except UnicodeDecodeError as reason:
        raise unreadable(path, f"byte {reason.start} is not UTF-8 text", wanted, example) from None
    except ValueError as reason:
        line = reason.line if isinstance(reason, TextError) else None
        raise unreadable(path, str(reason), wanted, example, line) from None
    return ConfigFile(path, hashlib.sha256(data).hexdigest(), text, content, "steelyard", tuple(problems), tree)


def _is_json(path: Path, text: str) -> bool:
    suffix = path.suffix.lower()
    return suffix == ".json" or (suffix not in (".yaml", ".yml") and text.lstrip()[:1] == "{")


def _bytes(path: Path, wanted: str, example: str) -> bytes:
    try:
        if path.is_dir():
            raise IsADirectoryError
        with path.open("rb") if _is_a_stream(path) else open_regular(path.resolve()) as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise unreadable(path, f"is larger than a config, expected at most {MAX_BYTES:,} bytes", wanted, example)
        return data
    except FileNotFoundError:
        complaint, given = "no such file", {"expected": wanted, "next": example}
    except IsADirectoryError:
        complaint, given = "is a directory", {"expected": wanted, "next": f"one of its files: {path}/*"}
    except (OSError, RuntimeError) as reason:  # links that lead to one another are a RuntimeError
        words = reason.strerror if isinstance(reason, OSError) else "a symbolic link to itself"
        complaint, given = f"cannot be read ({words})", {"expected": f"{wanted} that can be read"}
    raise UnreadableFileError(path, complaint, value=str(path), **given)


def _is_a_stream(path: Path) -> bool:
    """Whether the shell made it, as for `lint <(command)` and `lint /dev/stdin`; a pipe elsewhere may never be fed."""
    return str(path).startswith(("/dev/", "/proc/")) and stat.S_ISFIFO(path.stat().st_mode)


_NEWER = ("gpu_arch", "enforce_thresholds", "threshold_json", "sweep", "scaling_baseline", "paths", "params")
"""Keys at the root of the suite's newer family, which also has a schema_version."""

_CELL = re.compile(r"[A-Z]+=[^=,]+(,[A-Z]+=[^=,]+)+")
"""The name of a run in that family's threshold files."""

_JAX = ("training_steps", "coordinator_ip", "enable_checkpointing")
_MEGATRON = ("training_iterations", "master_address", "megatron_root")
_TORCHTITAN = ("data_parallel_shard_degree", "enable_float8", "converters", "torchtitan_root")


def _family(file: ConfigFile) -> Family:
    content = file.content
    if "schema_version" in content and (content.keys() & set(_NEWER) or {"config", "model_params"} <= content.keys()):
        raise _foreign(
            file, "is of the suite's newer family (schema_version beside a threshold file), which is not read"
        )
    if any(_CELL.fullmatch(str(key)) for key in content):
        raise _foreign(file, "holds the thresholds of the suite's newer family, which is not read")
    if "config" not in content and "model_params" not in content:
        if not content.keys() & set(Experiment.model_fields) - {"name"}:
            raise _foreign(file, "is no training config: it has neither model and training nor config and model_params")
        return "steelyard"
    config = content.get("config")
    keys = {str(key) for key in config} if isinstance(config, dict) else set()
    inner = _model_keys(content.get("model_params"))
    image = str(config.get("container_image", "")) if isinstance(config, dict) else ""
    if "torchtitan" in image or inner & set(_TORCHTITAN):
        raise _foreign(file, "is a torchtitan config, which is not read")
    jax = keys & set(_JAX) or "per_device_batch_size" in inner or "maxtext" in image
    megatron = keys & set(_MEGATRON) or "megatron" in image
    if jax and megatron:
        both = sorted(keys & {*_JAX, *_MEGATRON})
        raise _foreign(file, f"mixes keys of the Megatron and the JAX family ({', '.join(both)})")
    if not jax and not megatron:
        raise _foreign(
            file, "has config and model_params and neither training_iterations (Megatron) nor training_steps (JAX)"
        )
    return "jax" if jax else "megatron"


def _model_keys(params: Any) -> set[str]:
    """Keys three levels down, where the parameters of a model on a GPU are."""
    level = [params]
    for _ in range(3):
        level = [value for mapping in level if isinstance(mapping, dict) for value in mapping.values()]
    return {str(key) for mapping in level if isinstance(mapping, dict) for key in mapping}


def _foreign(file: ConfigFile, trait: str) -> InvalidExperimentError:
    fix = "start from one of `steelyard init`, whose JSON files are of the families that are read"
    return InvalidExperimentError([Problem(FOREIGN_FAMILY, "error", str(file.path), "", f"the file {trait}", fix)])


def unreadable(
    path: Path, reason: str, wanted: str = "a config file", example: str = "steelyard init", line: int | None = None
) -> InvalidExperimentError:
    fix = f"correct the file, or start from {'one of ' * example.startswith('steelyard')}`{example}`"
    problem = Problem(UNREADABLE, "error", str(path), "", f"not {wanted}: {reason}", fix, line=line)
    return InvalidExperimentError([problem])


def _duplicate(path: Path, place: Place) -> Problem:
    keys = tuple(key if secret_kind("", key) is None else bare(key) for key in place.path)
    message = f"{shown(keys[-1])} stands twice in {'.'.join(keys[:-1]) or 'the file'}; the last counts"
    fix = "remove one of them"
    return Problem(DUPLICATE_KEY, "error", str(path), ".".join(keys), message, fix, path=keys, line=place.line)


def _secret(file: Path, path: PointerPath, kind: str) -> Problem:
    name = next((key for key in reversed(path) if not key.isdecimal()), "")
    message, expected = f"{bare(name)}: {kind} stands in the file", "the path of a file that holds it"
    return Problem(SECRET, "error", str(file), ".".join(path), message, SECRET_FIX, expected=expected, path=path)


def with_lines(problems: Iterable[Problem], file: ConfigFile) -> list[Problem]:
    """The problems, each with the line its place, or the nearest place around it, starts on."""
    listed = list(problems)
    if not listed:
        return []
    places = yaml_places(file.tree) if file.tree is not None else json_places(file.text)
    lines = {place.path: place.line for place in places}
    return [problem if problem.line else replace(problem, line=_line(problem.place, lines)) for problem in listed]


def _line(path: PointerPath, lines: dict[PointerPath, int]) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)
