"""From the options of `ingest` to requests: for the logs of one run, or for each run of a folder."""

import difflib
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from steelyard.errors import InputError

if TYPE_CHECKING:
    from steelyard.configs.choose import Asked
    from steelyard.configs.gpus import StatedGpus
    from steelyard.experiment import Resolved
    from steelyard.ingestion import Request, RunChoice
    from steelyard.ingestion.folder import LogFiles

PathName = str | PathLike[str]
Settings = Sequence[str] | Mapping[str, Any]
"""`["training.steps=50"]` or `{"training.steps": 50}`."""
Peaks = str | Sequence[str] | Mapping[str, float]
"""Dense TFLOP/s by precision: `{"bf16": 209}` or `"bf16=209,fp8=418"`."""

_HARDWARE = ("gpu", "gpus", "nodes")
"""Options that can also be given for some files of a folder."""
_MOST = 10**5
"""Nodes, or GPUs per node."""


class Selection(TypedDict, total=False):
    """Which experiment of a config, on which hardware."""

    platform: str | None
    model: str | None
    settings: Settings
    gpu: str | None
    gpus: int | None
    nodes: int | None


class LogOptions(Selection, total=False):
    """What the user knows of logs, and how they are read."""

    config: PathName | None
    override: bool
    framework: str | None
    columns: Mapping[str, str] | None
    most_unpacked: int | None
    gpu_peak: Peaks | None
    gpu_memory: float | None


def request_of(
    paths: Sequence[str], out: PathName, name: str | None, command: Sequence[str], options: LogOptions
) -> "Request":
    """The request to import the logs of one run. Without paths, only the options are checked."""
    from steelyard import ingestion
    from steelyard.experiment.resolve import partial_settings

    if unknown := options.keys() - LogOptions.__optional_keys__:
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")
    config, framework = options.get("config"), options.get("framework")
    stated = stated_figures(options.get("gpu_peak"), options.get("gpu_memory"), config)
    asked, gpu = _asked(options, stated), options.get("gpu")
    _check_framework(framework)
    values, sources = partial_settings(asked.settings)
    most_unpacked = options.get("most_unpacked")
    return ingestion.Request(
        paths=paths,
        out=Path(out),
        name=name,
        command=list(command) or sys.argv,
        framework=framework,
        config=None if config is None or not paths else _config_of(config, asked, framework, paths),
        settings=values,
        setting_sources=sources,
        override=options.get("override", False),
        gpu=gpu,
        gpus=asked.gpus,
        nodes=asked.nodes,
        stated=stated,
        columns=options.get("columns"),
        most_unpacked=ingestion.MOST_UNPACKED if most_unpacked is None else most_unpacked,
    )


def stated_figures(peaks: Peaks | None, memory_gib: float | None, config: PathName | None = None) -> "StatedGpus":
    """What the user states about GPUs, by options and in the gpus.yaml next to the config and here."""
    from steelyard.configs.gpus import stated_gpus

    folders = [Path()] if config is None else [Path(config).parent, Path()]
    return stated_gpus(peaks, memory_gib, folders)


def _asked(options: LogOptions, stated: "StatedGpus") -> "Asked":
    """The selection; --set for a key of a config needs the config."""
    from steelyard.configs.choose import asked_of
    from steelyard.configs.gpus import check_ingested_gpu
    from steelyard.hardware.catalog import CPU, lookup

    gpu = options.get("gpu")
    check_ingested_gpu(gpu, stated)
    asked = asked_of(
        platform=options.get("platform"),
        model=options.get("model"),
        settings=options.get("settings"),
        gpu=gpu if gpu is not None and (gpu == CPU or lookup(gpu)) else None,  # those that a config can select by
        gpus=options.get("gpus"),
        nodes=options.get("nodes"),
    )
    if asked.edits and options.get("config") is None:
        key = asked.edits[0][0]
        complaint, expected = f"--set {key} changes a config, but --config is missing", "the config of the run"
        raise InputError(complaint, key=key, expected=expected, next="--config FILE, or --set of an experiment's key")
    return asked


def _check_framework(name: str | None) -> None:
    from steelyard.frameworks.registry import dialects

    known = list(dict.fromkeys(dialect.framework for dialect in dialects()))
    if name is not None and name not in known:
        expected, way_on = f"one of {', '.join(known)}", "the same command without --framework, to detect it"
        complaint = f"--framework: unknown framework {name!r}"
        raise InputError(complaint, key="--framework", value=name, expected=expected, next=way_on)


def _config_of(config: PathName, asked: "Asked", framework: str | None, paths: Sequence[str]) -> "Resolved":
    """The config of an imported run, for its platform: by default the one with the framework of the log."""
    from steelyard.configs.choose import one_reading
    from steelyard.configs.files import read_mapping, with_family
    from steelyard.experiment import resolve
    from steelyard.experiment.problems import raise_errors
    from steelyard.frameworks.planner import as_run
    from steelyard.ingestion.detect import framework_of
    from steelyard.linting.allowing import refused_codes

    asked = replace(asked, settings=(), nodes=None)
    file = with_family(read_mapping(Path(config)))
    reading = one_reading(file, asked, lambda: framework or framework_of(paths))
    raise_errors(problem for problem in reading.problems if refused_codes([problem.code]))
    return as_run(resolve(reading, (), asked.gpu, asked.gpus))


@dataclass(frozen=True, slots=True)
class _OfFiles:
    """A setting for some files of a folder, given as `FILE:KEY=VALUE`."""

    pattern: str
    key: str
    value: Any
    """Text of the command line, or a value of the API."""

    def matches(self, files: "LogFiles") -> bool:
        return any(fnmatchcase(name, self.pattern) for name in files.names)

    @property
    def count(self) -> int:
        text = str(self.value)
        if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MOST):
            problem, expected = (
                f"--set {self.pattern}:{self.key}={text} is not a count",
                f"a number from 1 to {_MOST:,}",
            )
            raise InputError(
                problem, key=self.key, value=text, expected=expected, next=f"--set '{self.pattern}:{self.key}=8'"
            )
        return int(text)


class FolderRequests:
    """The requests for the runs of a folder."""

    def __init__(self, command: Sequence[str], run: "RunChoice", options: LogOptions) -> None:
        """Refuse wrong options before a file is read."""
        self._command, self._run = command, run
        settings = options.get("settings") or ()
        self._own, self._of_files = _split(settings)
        self._options = options
        self._request((), Path(), None, self._of_files)
        if (config := options.get("config")) is not None:
            from steelyard.configs.files import read_mapping, with_family

            with_family(read_mapping(Path(config)))

    def check(self, logs: Sequence["LogFiles"]) -> None:
        """Refuse a setting for files that the folder does not have, and a --gpu that contradicts a folder's name."""
        from steelyard.hardware.catalog import same_gpu

        names = [name for files in logs for name in files.names]
        for setting in self._of_files:
            if not any(map(setting.matches, logs)):
                problem, expected = f"--set {setting.pattern}:{setting.key} matches no log", "a log of the folder"
                near = next(iter(difflib.get_close_matches(setting.pattern, names, n=1)), "*")
                fix = f"--set {shlex.quote(f'{near}:{setting.key}={setting.value}')}"
                raise InputError(problem, key="--set", value=setting.pattern, expected=expected, next=fix)
        gpu = self._options.get("gpu")
        other = next((files for files in logs if gpu and files.gpu and not same_gpu(gpu, files.gpu)), None)
        if other is not None:
            problem = f"--gpu is {gpu}, but {other.names[0]} is in a folder named {other.gpu}"
            fix = f"the same command without --gpu, or with --set FILE:gpu={gpu}"
            raise InputError(problem, key="--gpu", value=gpu, expected="the GPU of the folders", next=fix)

    def make(self, files: "LogFiles", out: Path, name: str) -> "Request":
        """The request for one run, with the settings for its files."""
        from steelyard.ingestion.importers import table

        settings = [setting for setting in self._of_files if setting.matches(files)]
        request = self._request(list(map(str, files.paths)), out, name, settings)
        columns = request.columns if table.recognizes(request.paths[0], None) else None
        return replace(request, columns=columns, folder_gpu=files.gpu, run=self._run)

    def _request(self, paths: Sequence[str], out: Path, name: str | None, settings: Sequence[_OfFiles]) -> "Request":
        options = self._options.copy()
        for each in settings:
            match each.key:
                case "gpu":
                    options["gpu"] = str(each.value)
                case "gpus" | "nodes" as key:
                    options[key] = each.count
        more = [(each.key, each.value) for each in settings if each.key not in _HARDWARE]
        if isinstance(self._own, Mapping):
            options["settings"] = {**self._own, **dict(more)}
        else:
            options["settings"] = [*self._own, *(f"{key}={value}" for key, value in more)]
        return request_of(paths, out, name, self._command, options)


def _split(settings: Settings) -> tuple[Settings, list[_OfFiles]]:
    """The settings of every run, and those of some files."""
    if not isinstance(settings, Mapping):
        own = [text for text in settings if _of_files(text) is None]
        return own, [each for text in settings if (each := _of_files(text))]
    of_files = {key: replace(each, value=settings[key]) for key in settings if (each := _of_files(f"{key}="))}
    return {key: value for key, value in settings.items() if key not in of_files}, list(of_files.values())


def _of_files(text: str) -> _OfFiles | None:
    """The setting of `FILE:KEY=VALUE`; None for any other text."""
    from steelyard.experiment.experiment import GROUPS

    key = rf"(?P<key>(?:{'|'.join(GROUPS)})\.[\w.]+|{'|'.join(_HARDWARE)})="
    match = None if re.match(key, text) else re.fullmatch(rf"(?P<pattern>.+?):{key}(?P<value>.*)", text, re.DOTALL)
    return match and _OfFiles(**match.groupdict())
