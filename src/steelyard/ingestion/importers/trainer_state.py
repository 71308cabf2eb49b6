"""The state that the Hugging Face Trainer saves, trainer_state.json: all its records, with their steps."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.errors import InputError
from steelyard.frameworks.hf_trainer.facts import FACTS
from steelyard.frameworks.logs.settings import LOG_INTERVAL, Setting
from steelyard.ingestion.importers import Columns, Imported
from steelyard.ingestion.importers.fields import step_of
from steelyard.ingestion.importers.table import plain_name
from steelyard.ingestion.sources import STDIN, beginning, keep_copy
from steelyard.records.step import Event, Evidence, Step

_LARGEST = 1 << 25
"""Limit in bytes. The file is read whole; 100,000 records have 20 MiB."""
_MOST = 10**12
FIELDS = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "lr": "learning_rate",
    "memory(GiB)": "memory_gib",
}
"""Step fields by the names of the Trainer, and of tools based on it."""

keep = keep_copy

State = Mapping[str, Any]


def values_of(entry: State) -> dict[str, Any]:
    """The step fields of a record."""
    values = {ours: entry[theirs] for theirs, ours in FIELDS.items() if theirs in entry}
    return values | {"memory_kind": FACTS.memory_kind} if "memory_gib" in values else values


def recognizes(path: str, columns: Columns | None) -> bool:
    if columns is not None or path == STDIN or not plain_name(path).endswith(".json"):
        return False
    text = _text(path)
    return '"log_history"' in text and _state(text) is not None  # parsing any other file takes much memory


def read(path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
    text = _text(path)
    state = _state(text)
    if state is None:
        fix = f"steelyard ingest {shlex.quote(path)}"
        message = f"{path} changed while it was read"
        raise InputError(message, key="PATH", value=path, expected="the state of a Trainer", next=fix)
    lines = text.splitlines()
    at = _lines_of_steps(lines)
    entries = [(entry, Evidence(kept, at.get(number, 1))) for number, entry in enumerate(state["log_history"])]
    events = tuple(_events(entries))
    finished = any(event.kind == "finished" for event in events)
    settings = tuple(_settings(state, kept, lines, finished))
    return Imported("trainer_state", FACTS.name, _steps(entries), settings, events, lines=len(lines))


def _text(path: str) -> str:
    """The content of a file; of a too large file only the start, which is invalid JSON."""
    return beginning(path, _LARGEST).decode("utf-8", "replace")


def _state(text: str) -> State | None:
    """The state as an object; None for any other text."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("log_history"), list):
        return None
    entries = content["log_history"]
    return content if "global_step" in content and all(isinstance(entry, dict) for entry in entries) else None


def _lines_of_steps(lines: list[str]) -> dict[int, int]:
    """The line of each record: that with its step."""
    of_steps = (number for number, line in enumerate(lines, start=1) if line.lstrip().startswith('"step":'))
    return dict(enumerate(of_steps))


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < _MOST else None


def _settings(state: State, kept: str, lines: list[str], finished: bool) -> Iterator[Setting]:
    """The planned steps only if they were done: a checkpoint's state does not show what followed."""
    planned, done = _count(state.get("max_steps")), _count(state.get("global_step"))
    if planned is not None and done is not None and done >= planned:
        yield Setting("training.steps", planned, Evidence(kept, _line_of(lines, "max_steps")))
    elif finished and done is not None:  # stopped early, as the program was asked to
        yield Setting("training.steps", done, Evidence(kept, _line_of(lines, "global_step")))
    for name, key in (("train_batch_size", "training.micro_batch_size"), ("logging_steps", LOG_INTERVAL)):
        if (value := _count(state.get(name))) is not None:
            yield Setting(key, value, Evidence(kept, _line_of(lines, name)))


def _line_of(lines: list[str], key: str) -> int:
    return next((number for number, line in enumerate(lines, start=1) if line.lstrip().startswith(f'"{key}":')), 1)


Entries = list[tuple[State, Evidence]]


def _events(entries: Entries) -> Iterator[Event]:
    """Evaluations, and the end."""
    for entry, at in entries:
        step, loss = _count(entry.get("step")), entry.get("eval_loss")
        if "train_runtime" in entry:
            yield Event(kind="finished", message=f"the training ended at step {step}", step=step, source=at)
        elif "loss" not in entry and any(name.startswith("eval_") for name in entry) and step is not None:
            details = {"loss": float(loss)} if isinstance(loss, float) else {}
            yield Event(kind="eval", message=f"evaluation: {loss}", step=step + 1, source=at, details=details)


def _steps(entries: Entries) -> Iterator[Step | Event]:
    before = 0
    for entry, at in entries:
        if "loss" not in entry:
            continue
        step = _count(entry.get("step"))
        covered = step - before if step is not None and step > before else None
        values = values_of(entry)
        place = f"the record of step {step}" if step is not None else "a record"
        yield step_of({"step": entry.get("step"), "steps_covered": covered, **values}, False, at, place)
        before = step or before
