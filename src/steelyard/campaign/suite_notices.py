"""What the user should know about the import of a folder."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path

from steelyard.campaign.suite_cells import MODEL, NODES, RunGroup
from steelyard.campaign.suite_reading import FolderReader, ReadRun
from steelyard.ingestion.folder import DEEPEST, Skip
from steelyard.reasons import Code, Reason

_SHOWN = 3
"""Files that a sentence lists."""
_HARDWARE = {"platform.world_size": "gpus", NODES: "nodes"}
_SETTINGS = {MODEL: "model.preset=NAME", "precision.dtype": "precision.dtype=bf16"}
"""How options supply settings."""


def _listed(files: Sequence[str]) -> str:
    more = f" and {len(files) - _SHOWN:,} more" if len(files) > _SHOWN else ""
    return f"{', '.join(files[:_SHOWN])}{more}"


def _counted(gpus: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count} run{'s' * (count != 1)})" for name, count in gpus.items())


def _not_placed(files: Sequence[str], settings: Sequence[str], every: bool) -> str:
    """`every`: whether all logs of the folder lack them."""
    each, place = ("", escape(files[0])) if len(files) == 1 else (" each", "FILE")
    options = []
    for key in settings:
        if every:
            options.append(f"--{_HARDWARE[key]} N" if key in _HARDWARE else f"--set {_setting(key)}")
        else:
            options.append(f"--set {shlex.quote(f'{place}:{_setting(key)}')}")
    return f"{_listed(files)}: {', '.join(settings)} unknown, so a cell of its own{each}; add {' '.join(options)}"


def _setting(key: str) -> str:
    return f"{_HARDWARE[key]}=N" if key in _HARDWARE else _SETTINGS.get(key, f"{key}=VALUE")


NOT_LOGS = Code("suite_not_logs", lambda files: f"not logs, so not imported: {_listed(files)}")
"""Files of the folder that are neither logs nor results, such as a README or a config."""
LINKS = Code("suite_links", lambda files: f"symbolic links and special files are not read: {_listed(files)}")
"""Entries of the folder that are neither a file nor a folder."""
TOO_DEEP = Code("suite_too_deep", lambda files: f"folders below level {DEEPEST} are not read: {_listed(files)}")
"""Folders that are nested too deeply."""
OWN_RUNS = Code("suite_own_runs", lambda files: f"runs that are recorded already are not read: {_listed(files)}")
"""Directories in the folder that Steelyard wrote."""
ONE_RUN = Code("suite_one_run", lambda files: f"one run, by names, settings and losses: {_listed(files)}")
"""Logs of the nodes or ranks of one run: their names differ only in that number, and their losses are equal."""
GPU_BY_FOLDER = Code("suite_gpu_by_folder", lambda gpus: f"GPU by the name of the folder: {_counted(gpus)}")
"""Logs that do not name their GPU are in a folder that is named after one."""
GPU_UNKNOWN = Code(
    "suite_gpu_unknown",
    lambda files: f"GPU unknown: {_listed(files)}; add --gpu GPU, or name a folder after the GPU",
)
"""Neither the log, nor an option, nor a folder names the GPU."""
NOT_PLACED = Code("suite_not_placed", _not_placed)
"""Logs lack settings that tell cells apart, so it is unknown which runs are their repeats."""
SEVERAL_FORMATS = Code(
    "suite_several_formats", lambda files: f"several formats in one folder may be records of one run: {_listed(files)}"
)
"""A run may leave a log, a state and event files, which are imported as repeats. Keep one of them in the folder."""
_OF_SKIPPED = {Skip.TEXT: NOT_LOGS, Skip.LINK: LINKS, Skip.DEEP: TOO_DEEP, Skip.RECORD: OWN_RUNS}


def notices(reader: FolderReader, cells: Sequence[RunGroup]) -> Iterator[Reason]:
    """The notices, the most important ones first."""
    unplaced: dict[tuple[str, ...], list[str]] = {}
    for cell in cells:
        if cell.unknown:
            unplaced.setdefault(cell.unknown, []).extend(reader.runs[at].files.names[0] for at in cell.runs)
    for keys, files in unplaced.items():
        every = len(files) == len(reader.runs)
        yield Reason(NOT_PLACED, {"files": sorted(files), "settings": list(keys), "every": every})
    yield from _of_gpus(reader.runs)
    yield from (Reason(SEVERAL_FORMATS, {"files": files}) for cell in cells for files in _mixed(reader.runs, cell))
    yield from (Reason(ONE_RUN, {"files": list(files.names)}) for files in reader.joined)
    skipped: dict[Code, list[str]] = {}
    for path, skip in reader.folder.skipped.items():
        skipped.setdefault(_OF_SKIPPED[skip], []).append(reader.folder.name(path))
    if reader.not_logs:
        skipped.setdefault(NOT_LOGS, []).extend(files.words for files in reader.not_logs)
    yield from (Reason(code, {"files": files}) for code, files in skipped.items())


def _of_gpus(runs: Sequence[ReadRun]) -> Iterator[Reason]:
    platforms = [each.run.manifest.platform for each in runs]
    by_folder = Counter(platform.gpu_name for platform in platforms if platform.gpu_by == "folder")
    unknown = dict.fromkeys(each.files.names[0] for each in runs if each.run.manifest.platform.gpu_name is None)
    if unknown:
        yield Reason(GPU_UNKNOWN, {"files": list(unknown)})
    if by_folder:
        yield Reason(GPU_BY_FOLDER, {"gpus": dict(by_folder)})


def _mixed(runs: Sequence[ReadRun], cell: RunGroup) -> Iterator[list[str]]:
    """The files of a cell that are in one folder and have different formats."""
    folders: dict[Path, dict[str, set[str]]] = {}
    for each in (runs[at] for at in cell.runs):
        source = each.run.manifest.ingested
        formats = folders.setdefault(each.files.paths[0].parent, {})
        formats.setdefault(source.dialect if source else "", set()).add(each.files.words)
    for formats in folders.values():
        if len(formats) > 1:
            yield sorted(name for names in formats.values() for name in names)
