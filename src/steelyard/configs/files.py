"""Reads a config file of any family: content, hash and line numbers."""

import difflib
import hashlib
import re
import shlex
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml.nodes import Node

from steelyard.errors import InputError
from steelyard.experiment import packaged
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
    """An error in one file; `complaint` is the message without the file name."""

    def __init__(self, path: Path, complaint: str, **given: Any) -> None:
        super().__init__(f"{path}: {complaint}", **given)
        self.complaint = complaint


class UnreadableFileError(FileError):
    """A file that cannot be read at all."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of a file and the hash of its bytes."""

    path: Path
    sha256: str
    text: str
    content: dict[str, Any]
    """Without secrets: no later stage sees them."""
    family: Family
    problems: tuple[Problem, ...] = ()
    """Problems of any kind of file: duplicate keys, secrets."""
    tree: Node | None = field(default=None, compare=False, repr=False)
    """The nodes of a YAML file, with their line numbers."""
    set_places: tuple[PointerPath, ...] = ()
    """Places of `content` that --set has changed."""

    @property
    def is_json(self) -> bool:
        return _is_json(self.path, self.text)

    def at(self, path: PointerPath) -> Any:
        """The value at a place; None if the file does not have it."""
        here: Any = self.content
        for key in path:
            here = here.get(key) if isinstance(here, dict) else None
        return here


def read_config(path: Path) -> ConfigFile:
    return with_family(read_mapping(path))


def with_family(file: ConfigFile) -> ConfigFile:
    """The file with its family; an unsupported family is an error."""
    family = _family(file)
    if family != "steelyard" and not _has_text_keys(file.content):
        raise unreadable(file.path, "contains a key that is not text")
    return replace(file, family=family)


def _has_text_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_text_keys(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(_has_text_keys, value))


def read_mapping(
    path: Path, wanted: str = "a config file", example: str = "steelyard init", as_yaml: bool = False
) -> ConfigFile:
    """A file that contains a mapping. Errors name what is `wanted`, and the command that writes an `example`.

    `as_yaml` reads any file as YAML, so that keys need no quotes.
    """
    data = _bytes(path, wanted, example)
    problems: list[Problem] = []
    try:
        text = data.decode("utf-8-sig")
        is_json = _is_json(path, text) and not as_yaml
        content, tree = (parse_json(text), None) if is_json else parse_yaml(text)
        check_size(content)
        if not isinstance(content, dict):
            raise ValueError("is empty" if content is None else "is not a mapping of keys")
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
        complaint, given = "no such file", _instead_of_missing(path, wanted, example)
    except IsADirectoryError:
        complaint, given = "is a directory", _instead_of_directory(path, wanted, example)
    except (OSError, RuntimeError) as reason:  # links that form a loop are a RuntimeError
        words = reason.strerror if isinstance(reason, OSError) else "a symbolic link to itself"
        complaint, given = f"cannot be read ({words})", {"expected": f"a readable file, {wanted}"}
    raise UnreadableFileError(path, complaint, value=str(path), **given)


def _instead_of_missing(path: Path, wanted: str, example: str) -> dict[str, str]:
    """Expectation and next command: `init` writes a packaged config; a misspelled name is corrected."""
    names = {packaged.file_name(name): name for name in packaged.DESCRIPTIONS}
    if path.name in names:
        return {"expected": wanted, "next": f"steelyard init {names[path.name]}"}
    near = difflib.get_close_matches(path.name, [file.name for file in _configs_in(path.parent)], n=1, cutoff=0.8)
    return _such_as(wanted, path.parent / near[0]) if near else {"expected": wanted, "next": example}


def _instead_of_directory(path: Path, wanted: str, example: str) -> dict[str, str]:
    if (path / "run.json").exists():
        return {"expected": wanted, "next": f"steelyard check {shlex.quote(str(path))}"}
    inside = next(iter(_configs_in(path)), None)
    return {"expected": wanted, "next": example} if inside is None else _such_as(wanted, inside)


def _such_as(wanted: str, path: Path) -> dict[str, str]:
    return {"expected": f"{wanted} such as {path}", "next": f"steelyard lint {shlex.quote(str(path))}"}


def _configs_in(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix in (".yaml", ".yml", ".json"))
    except OSError:
        return []


def _is_a_stream(path: Path) -> bool:
    """Whether the shell made the pipe, as in `lint <(command)`. Nothing may ever write to another pipe."""
    return str(path).startswith(("/dev/", "/proc/")) and stat.S_ISFIFO(path.stat().st_mode)


_NEWER = ("gpu_arch", "enforce_thresholds", "threshold_json", "sweep", "scaling_baseline", "paths", "params")
"""Root keys of the suite's newer schema, which also has a schema_version."""

_CELL = re.compile(r"[A-Z]+=[^=,]+(,[A-Z]+=[^=,]+)+")
"""The name of a run in threshold files of that schema."""

_JAX = ("training_steps", "coordinator_ip", "enable_checkpointing")
_MEGATRON = ("training_iterations", "master_address", "megatron_root")
_TORCHTITAN = ("data_parallel_shard_degree", "enable_float8", "converters", "torchtitan_root")


def _family(file: ConfigFile) -> Family:
    content = file.content
    if "schema_version" in content and (content.keys() & set(_NEWER) or {"config", "model_params"} <= content.keys()):
        raise _foreign(
            file, "uses the suite's newer schema (schema_version and a threshold file), which is not supported"
        )
    if any(_CELL.fullmatch(str(key)) for key in content):
        raise _foreign(file, "contains thresholds of the suite's newer schema, which is not supported")
    if "config" not in content and "model_params" not in content:
        if not content.keys() & set(Experiment.model_fields) - {"name"}:
            raise _foreign(
                file, "is not a training config: it has neither model and training nor config and model_params"
            )
        return "steelyard"
    config = content.get("config")
    keys = {str(key) for key in config} if isinstance(config, dict) else set()
    inner = _model_keys(content.get("model_params"))
    image = str(config.get("container_image", "")) if isinstance(config, dict) else ""
    if "torchtitan" in image or inner & set(_TORCHTITAN):
        raise _foreign(file, "is a torchtitan config, which is not supported")
    if "primus_path" in keys:
        raise _foreign(file, "is a Primus config of the suite, which is not supported")
    jax = keys & set(_JAX) or "per_device_batch_size" in inner or "maxtext" in image
    megatron = keys & set(_MEGATRON) or "megatron" in image
    if jax and megatron:
        both = sorted(keys & {*_JAX, *_MEGATRON})
        raise _foreign(file, f"mixes keys of the Megatron and the JAX family ({', '.join(both)})")
    if not jax and not megatron:
        raise _foreign(
            file, "has config and model_params, but neither training_iterations (Megatron) nor training_steps (JAX)"
        )
    return "jax" if jax else "megatron"


def _model_keys(params: Any) -> set[str]:
    """Keys three levels down: the parameters of each model on each GPU."""
    level = [params]
    for _ in range(3):
        level = [value for mapping in level if isinstance(mapping, dict) for value in mapping.values()]
    return {str(key) for mapping in level if isinstance(mapping, dict) for key in mapping}


def _foreign(file: ConfigFile, trait: str) -> InvalidExperimentError:
    fix = "start from a config of `steelyard init`"
    return InvalidExperimentError([Problem(FOREIGN_FAMILY, "error", str(file.path), "", f"the file {trait}", fix)])


def unreadable(
    path: Path, reason: str, wanted: str = "a config file", example: str = "steelyard init", line: int | None = None
) -> InvalidExperimentError:
    fix = f"correct the file, or start from {'a file of ' * example.startswith('steelyard')}`{example}`"
    problem = Problem(UNREADABLE, "error", str(path), "", f"not {wanted}: {reason}", fix, line=line)
    return InvalidExperimentError([problem])


def _duplicate(path: Path, place: Place) -> Problem:
    keys = tuple(key if secret_kind("", key) is None else bare(key) for key in place.path)
    message = f"{shown(keys[-1])} appears twice in {'.'.join(keys[:-1]) or 'the file'}; only the last one counts"
    fix = "remove one of them"
    return Problem(DUPLICATE_KEY, "error", str(path), ".".join(keys), message, fix, path=keys, line=place.line)


def _secret(file: Path, path: PointerPath, kind: str) -> Problem:
    name = next((key for key in reversed(path) if not key.isdecimal()), "")
    message, expected = f"{bare(name)}: the file contains {kind}", "the path of a file that contains it"
    return Problem(SECRET, "error", str(file), ".".join(path), message, SECRET_FIX, expected=expected, path=path)


def with_lines(problems: Iterable[Problem], file: ConfigFile) -> list[Problem]:
    """The problems, each with the first line of its place or of the nearest place around it."""
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
