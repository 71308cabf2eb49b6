"""metrics.csv of PyTorch Lightning's CSVLogger: training and validation rows, whose other columns are empty."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from msgspec.structs import replace

from steelyard.ingestion.importers import Columns, Imported
from steelyard.ingestion.importers.fields import step_of, unread
from steelyard.ingestion.importers.table import Row, csv_rows, plain_name, text_lines
from steelyard.ingestion.sources import STDIN, BrokenFileError, beginning, keep_copy
from steelyard.records.step import Event, Evidence, Step

_LONGEST_HEADER = 1 << 16
_LOSSES = (
    *("train_loss_step", "train/loss_step", "train_loss", "train/loss", "training_loss", "reduced_train_loss"),
    *("loss_step", "loss"),
)
"""Columns of the training loss: those of a step before means of an epoch."""
_OF_ANY_TABLE = ("loss_step", "loss")
"""Names that only a file called metrics.csv makes Lightning's."""
_OTHERS = {
    "grad_norm": re.compile(r"(?:train[/_])?grad(?:_2\.0)?_norm(?:_total)?(?:_step)?"),
    "learning_rate": re.compile(r"lr|learning_rate|lr-\w+(?:/pg1)?"),
}

keep = keep_copy


def recognizes(path: str, columns: Columns | None) -> bool:
    if columns is not None or path == STDIN or not plain_name(path).endswith(".csv"):
        return False
    header = _header(path)
    loss = _loss_of(header)
    own_name = PurePath(path).name.startswith("metrics.csv")
    return {"epoch", "step"} <= set(header) and loss is not None and (own_name or loss not in _OF_ANY_TABLE)


def read(path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
    header = _header(path)
    chosen = {"step": "step", "loss": _loss_of(header) or "loss"}
    for ours, pattern in _OTHERS.items():
        if (theirs := next(filter(pattern.fullmatch, header), None)) is not None:
            chosen[ours] = theirs
    rows = csv_rows(path, text_lines(path, most_unpacked), ",")
    return Imported("lightning_csv", None, _steps(rows, chosen, kept))


def _header(path: str) -> list[str]:
    text = beginning(path, _LONGEST_HEADER).decode("utf-8-sig", "replace")
    try:
        names = next(csv.reader([io.StringIO(text, newline="").readline()]), [])
    except csv.Error:
        return []
    return [name.strip() for name in names]


def _loss_of(header: Iterable[str]) -> str | None:
    names = set(header)
    return next((name for name in _LOSSES if name in names), None)


def _steps(rows: Iterator[Row], chosen: Columns, kept: str) -> Iterator[Step | Event]:
    """A step per row with a training loss; they count from 0."""
    before = number = 0
    try:
        for number, row in rows:
            at, place = Evidence(kept, number), f"line {number}"
            if isinstance(row, str):
                yield unread(at, place, row)
                continue
            if not str(row[chosen["loss"]]).strip():
                continue  # of a validation, an epoch or a learning rate
            step = step_of({ours: row[theirs] for ours, theirs in chosen.items()}, True, at, place)
            if isinstance(step, Step):
                step, before = replace(step, steps_covered=max(1, step.step - before)), step.step
            yield step
    except BrokenFileError as broken:
        yield Event(kind="broken_file", message=str(broken), source=Evidence(kept, number))
