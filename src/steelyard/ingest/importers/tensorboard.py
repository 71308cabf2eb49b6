"""TensorBoard's event files, read by its own loader; a file, or a folder of those of one run."""

import shutil
import struct
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steelyard.errors import InputError
from steelyard.ingest.importers import Columns, Imported
from steelyard.ingest.importers.fields import FRAMEWORK_OF, TAGS, step_of
from steelyard.ingest.sources import STDIN
from steelyard.records.step import Event, Evidence, Step

_PATTERN = "*tfevents*"
_PENDING = 1000
_ZERO_BASED = ("nemo", "maxtext")


class TensorBoard:
    def recognises(self, path: str, columns: Columns | None) -> bool:
        if path == STDIN:
            return False
        found = Path(path)
        return ("tfevents" in found.name and found.is_file()) or (found.is_dir() and any(found.glob(_PATTERN)))

    def read(self, path: str, kept: str, columns: Columns | None) -> Imported:
        tags = {theirs: ours for ours, theirs in columns.items()} if columns is not None else TAGS
        events = list(_files(path))
        framework = _framework(events)
        return Imported("tensorboard", framework, _steps(path, events, kept, tags, framework in _ZERO_BASED))

    def keep(self, path: str, to: Path) -> None:
        if Path(path).is_dir():
            to.mkdir()
            for file in _files(path):
                shutil.copyfile(file, to / file.name)
        else:
            shutil.copyfile(path, to)


def _files(path: str) -> Iterator[Path]:
    found = Path(path)
    yield from sorted(found.glob(_PATTERN)) if found.is_dir() else [found]


def _loader(file: Path) -> Any:
    try:
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
    except ImportError:
        raise InputError(
            f"{file.name} is a file of TensorBoard, whose reader is not installed",
            key="PATH",
            value=str(file),
            expected="the package tensorboard",
            next="pip install 'steelyard[tensorboard]'",
        ) from None
    return LegacyEventFileLoader(str(file))


def _scalars(file: Path) -> Iterator[tuple[int, str, float]]:
    """(step, tag, value), in the order they were written; a file cut short ends where it was cut."""
    for event in _loader(file).Load():
        for value in event.summary.value:
            if value.HasField("simple_value"):
                yield event.step, value.tag, value.simple_value
            elif value.HasField("tensor") and value.tensor.dtype == 1 and not value.tensor.tensor_shape.dim:
                content = value.tensor.tensor_content
                number = struct.unpack("<f", content)[0] if content else next(iter(value.tensor.float_val), None)
                if number is not None:
                    yield event.step, value.tag, number


def _framework(files: list[Path]) -> str | None:
    for file in files:
        for at, (_, tag, _) in enumerate(_scalars(file)):
            if tag in FRAMEWORK_OF:
                return FRAMEWORK_OF[tag]
            if at > 1000:
                break
    return None


def _steps(path: str, files: list[Path], kept: str, tags: Any, zero_based: bool) -> Iterator[Step | Event]:
    row = 0
    for file in files:
        pending: OrderedDict[int, dict[str, float]] = OrderedDict()
        for step, tag, value in _scalars(file):
            if tag in tags:
                pending.setdefault(step, {}).setdefault(tags[tag], value)
            if len(pending) > _PENDING:
                row += 1
                yield _made(*pending.popitem(last=False), zero_based, kept, row)
        for step in sorted(pending):
            row += 1
            yield _made(step, pending[step], zero_based, kept, row)
    if not row:
        raise InputError(
            f"{path} has no scalar we know",
            key="--columns",
            value=path,
            expected="tags such as 'lm loss'",
            next=f"steelyard ingest {path} --columns loss=TAG",
        )


def _made(step: int, values: dict[str, float], zero_based: bool, kept: str, row: int) -> Step:
    return step_of({"step": step, **values}, zero_based, source=Evidence(kept, row))


IMPORTER = TensorBoard()
