"""Logs in JSON lines of tools based on the Hugging Face Trainer: LLaMA-Factory's trainer_log, ms-swift's logging."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from steelyard.errors import InputError
from steelyard.frameworks.hf_trainer.facts import FACTS
from steelyard.frameworks.logs.settings import Setting
from steelyard.ingestion.importers import Columns, Imported
from steelyard.ingestion.importers.fields import step_of, unread
from steelyard.ingestion.importers.table import Row, json_rows, plain_name, text_lines
from steelyard.ingestion.importers.trainer_state import values_of
from steelyard.ingestion.sources import STDIN, BrokenFileError, beginning, keep_copy
from steelyard.records.step import Event, Evidence, Step

_START = 1 << 16
_CLOCK = re.compile(r"(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d{1,2}):(?P<seconds>\d{1,2})")
_UNITS = re.compile(r"(?:(\d{1,4})d ?)?(?:(\d{1,2})h ?)?(?:(\d{1,2})m ?)?(?:(\d{1,2})s)?")
_LONG_ENOUGH = 20.0
"""Seconds between two records, from which a clock with whole seconds gives a step time to 5%."""

keep = keep_copy


def recognizes(path: str, columns: Columns | None) -> bool:
    if columns is not None or path == STDIN or not plain_name(path).endswith(".jsonl"):
        return False
    first = beginning(path, _START).decode("utf-8-sig", "replace").partition("\n")[0]
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and _step_and_total(row) is not None


def read(path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
    rows = json_rows(text_lines(path, most_unpacked))
    first = next(rows)
    at = Evidence(kept, first[0])
    counts = _step_and_total(first[1]) if not isinstance(first[1], str) else None
    settings = (Setting("training.steps", counts[1], at),) if counts is not None else ()
    return Imported("trainer_log", FACTS.name, _steps(path, chain([first], rows), kept), settings)


def _step_and_total(row: Mapping[str, Any]) -> tuple[int, int] | None:
    """The step of a row, and the planned steps."""
    step, total = row.get("current_steps"), row.get("total_steps")
    if type(step) is int and type(total) is int:
        return step, total
    counts = re.fullmatch(r"(\d{1,12})/(\d{1,12})", str(row.get("global_step/max_steps", "")))
    return (int(counts[1]), int(counts[2])) if counts else None


def _steps(path: str, rows: Iterator[Row], kept: str) -> Iterator[Step | Event]:
    before, clock, number = 0, (0, 0.0), 0
    try:
        for number, row in rows:
            at = Evidence(kept, number)
            if isinstance(row, str):
                yield unread(at, f"line {number}", row)
                continue
            counts = _step_and_total(row)
            if counts is None or row.get("loss") is None:
                yield from _events(row, counts, at)
                continue
            step = counts[0]
            values = values_of(row)
            seconds = _elapsed(row.get("elapsed_time"))
            if seconds is not None and step > clock[0] and seconds - clock[1] >= _LONG_ENOUGH:
                values |= {"step_time_s": (seconds - clock[1]) / (step - clock[0])}
                clock = step, seconds
            covered = step - before if step > before else None
            yield step_of({"step": step, "steps_covered": covered, **values}, False, at, f"line {number}")
            before = step
    except BrokenFileError as broken:
        yield Event(kind="broken_file", message=str(broken), source=Evidence(kept, number))
    if not before:
        raise InputError(
            f"{path} has no training loss: it is the progress of an evaluation or a prediction",
            key="PATH",
            value=path,
            expected="rows with a loss",
            next=f"head {shlex.quote(path)}",
        )


def _events(row: Mapping[str, Any], counts: tuple[int, int] | None, at: Evidence) -> Iterator[Event]:
    """The end, or an evaluation, whose time is in the next record."""
    step = counts[0] if counts is not None else None
    evaluates = any(name.startswith("eval_") and value is not None for name, value in row.items())
    if "train_runtime" in row or (counts is not None and counts[0] >= counts[1] and not evaluates):
        yield Event(kind="finished", message="the training ended", step=step, source=at)
    elif step is not None and evaluates:
        loss = row.get("eval_loss")
        details = {"loss": float(loss)} if isinstance(loss, float) else {}
        yield Event(kind="eval", message=f"evaluation: {loss}", step=step + 1, source=at, details=details)


def _elapsed(text: Any) -> float | None:
    """Seconds of a text such as 0:09:01 or 1m 42s; None for any other value."""
    if not isinstance(text, str):
        return None
    if clock := _CLOCK.fullmatch(text):
        return 3600.0 * int(clock["hours"] or 0) + 60 * int(clock["minutes"]) + int(clock["seconds"])
    if text and (units := _UNITS.fullmatch(text)):
        days, hours, minutes, seconds = (int(unit or 0) for unit in units.groups())
        return 86400.0 * days + 3600 * hours + 60 * minutes + seconds
    return None
