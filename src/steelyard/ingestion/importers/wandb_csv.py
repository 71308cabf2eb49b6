"""A chart exported from Weights & Biases: `Step`, then value, minimum and maximum per run and metric."""

import csv
import io

from steelyard.errors import InputError
from steelyard.ingestion.importers import Columns, Imported
from steelyard.ingestion.importers.fields import framework_of, tags
from steelyard.ingestion.importers.table import csv_rows, plain_name, steps_of, text_lines
from steelyard.ingestion.sources import STDIN, beginning, keep_copy

_STEPS = ("Step", "trainer/global_step", "global_step", "_step")
_LONGEST_HEADER = 1 << 20
_ZERO_BASED = ("trainer/global_step", "global_step")

keep = keep_copy


def recognizes(path: str, columns: Columns | None) -> bool:
    if columns is not None or path == STDIN or not plain_name(path).endswith(".csv"):
        return False
    return any(name.endswith("__MIN") for name in _header(path))


def read(path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
    header = _header(path)
    step = next((name for name in header if name in _STEPS), None)
    values = [name for name in header if " - " in name and not name.endswith(("__MIN", "__MAX"))]
    runs = list(dict.fromkeys(name.rpartition(" - ")[0] for name in values))
    if step is None or len(runs) != 1:
        shown = ", ".join(runs) or "none"
        raise InputError(
            f"{path} has curves of {len(runs)} runs ({shown[:500]})",
            key="--columns",
            value=shown[:500],
            expected="one run",
            next=f"--columns step={step or 'Step'},loss={values[0] if values else '…'!r}",
        )
    metrics = {name: name.rpartition(" - ")[2] for name in values}
    known, framework_by_tag = tags(), framework_of()
    chosen = {known[metric]: name for name, metric in metrics.items() if metric in known}
    if not chosen:
        raise InputError(
            f"{path} has no known metric ({', '.join(metrics.values())[:500]})",
            key="--columns",
            value=", ".join(metrics.values())[:500],
            expected="a column for the loss",
            next=f"--columns step={step},loss={values[0]!r}",
        )
    framework = next((framework_by_tag[metric] for metric in metrics.values() if metric in framework_by_tag), None)
    rows = csv_rows(path, text_lines(path, most_unpacked), ",")
    steps = steps_of(rows, {"step": step, **chosen}, kept, step in _ZERO_BASED or None)
    return Imported("wandb_csv", framework, steps)


def _header(path: str) -> list[str]:
    text = beginning(path, _LONGEST_HEADER).decode("utf-8-sig", "replace")
    try:
        return next(csv.reader([io.StringIO(text, newline="").readline()]), [])
    except csv.Error:
        return []
