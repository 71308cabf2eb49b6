"""The result of the comparison suite whose documents Steelyard was asked for from: one JSON object a run."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from steelyard.errors import InputError
from steelyard.frameworks.logs.settings import GPU_NAME, WORLD_SIZE, Setting
from steelyard.frameworks.registry import every_facts
from steelyard.ingestion.importers import Columns, Imported
from steelyard.ingestion.importers.fields import step_of
from steelyard.ingestion.importers.table import plain_name
from steelyard.ingestion.sources import STDIN, beginning, keep_copy
from steelyard.records.step import Event, Evidence, Step

_LARGEST = 1 << 24
"""It is read whole, and as objects takes up to 40 times its size; 500 steps take 24 KiB."""
_MOST = 10**12
"""Of a count: no run has more steps, sequences or GPUs."""
_LISTS = {"loss_values": "loss", "step_times": "step_time_s", "learning_rates": "learning_rate"}
"""Our step field by the name of a list of the result."""
_GIB = 1 << 30

keep = keep_copy

_SETTINGS = (
    ("training_config", "max_steps", "training.steps"),
    ("training_config", "global_batch_size", "training.global_batch_size"),
    ("training_config", "micro_batch_size", "training.micro_batch_size"),
    ("training_config", "sequence_length", "training.sequence_length"),
    ("training_config", "num_gpus", WORLD_SIZE),
    ("parallelism_config", "tensor_model_parallel_size", "parallelism.tensor_parallel_size"),
    ("parallelism_config", "pipeline_model_parallel_size", "parallelism.pipeline_parallel_size"),
    ("parallelism_config", "data_parallel_size", "parallelism.data_parallel_size"),
    ("parallelism_config", "gradient_accumulation_steps", "training.gradient_accumulation_steps"),
    ("gpu_info", "device_name", GPU_NAME),
)


def recognises(path: str, columns: Columns | None) -> bool:
    if columns is not None or path == STDIN or not plain_name(path).endswith(".json"):
        return False
    return _result(_text(path)) is not None


def read(path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
    text = _text(path)
    content = _result(text)
    if content is None:
        raise InputError(f"{path} changed while it was read", key="PATH", value=path, expected="a finished result")
    lines = text.splitlines()
    peak = _value(content, "memory_metrics", "peak_memory_allocated_gb")
    return Imported(
        "suite_json",
        _framework(path, content),
        _steps(content, lines, kept),
        tuple(_settings(content, lines, kept)),
        tuple(_events(content, lines, kept)),
        peak * 1e9 / _GIB if isinstance(peak, int | float) and 0 <= peak < _MOST else None,
        "torch_allocated_after_step",
        len(lines),
    )


def _text(path: str) -> str:
    """All of a file; of one that is too large its beginning, which is no JSON."""
    return beginning(path, _LARGEST).decode("utf-8", "replace")


def _result(text: str) -> dict[str, Any] | None:
    """The object of a result; None for any other text."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(content, dict) and all(isinstance(content.get(name), list) for name in ("step_times", "loss_values")):
        return content
    return None


def _framework(path: str, content: Mapping[str, Any]) -> str | None:
    """By the file's name, train_PLATFORM_FRAMEWORK_MODEL.json with four letters of each, or what the result says."""
    by_letters = {each.suite_name: each.name for each in every_facts() if each.suite_name is not None}
    named = re.search(r"train_[a-z]+_([a-z]{4})_", Path(path).name)
    if named and named[1] in by_letters:
        return by_letters[named[1]]
    stack = _value(content, "gpu_info", "software_stack")
    return stack if stack in by_letters.values() else None


def _value(content: Mapping[str, Any], group: str, name: str) -> Any:
    section = content.get(group)
    return section.get(name) if isinstance(section, Mapping) else None


def _line_of(lines: list[str], key: str) -> int:
    return next((number for number, line in enumerate(lines, start=1) if f'"{key}"' in line), 1)


def _settings(content: Mapping[str, Any], lines: list[str], kept: str) -> Iterator[Setting]:
    for group, name, key in _SETTINGS:
        value = _value(content, group, name)
        known = isinstance(value, str) if key == GPU_NAME else type(value) is int and 0 < value < _MOST
        if known and value:
            yield Setting(key, value, Evidence(kept, _line_of(lines, name)))


def _events(content: Mapping[str, Any], lines: list[str], kept: str) -> Iterator[Event]:
    steps = len(content["loss_values"])
    for name in ("step_times", "learning_rates"):
        values = content.get(name)
        if isinstance(values, list) and len(values) != steps:
            message = f"{name} has {len(values)} values for {steps} steps: whose they are is not known, none is used"
            yield Event(kind="left_out", message=message, source=Evidence(kept, _line_of(lines, name)))
    rate = _value(content, "performance_metrics", "tokens_per_second_per_gpu")
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 <= rate < _MOST:
        at = Evidence(kept, _line_of(lines, "tokens_per_second_per_gpu"))
        details, message = {"tokens_per_s_per_gpu": float(rate)}, f"{rate:,.1f} tokens/s a GPU, as the suite has it"
        yield Event(kind="summary", message=message, source=at, details=details)


def _steps(content: Mapping[str, Any], lines: list[str], kept: str) -> Iterator[Step | Event]:
    first, count = _line_of(lines, "loss_values"), len(content["loss_values"])
    lists = {field: content.get(name) for name, field in _LISTS.items()}
    columns = {field: values for field, values in lists.items() if isinstance(values, list) and len(values) == count}
    for at in range(count):
        where = Evidence(kept, min(first + 1 + at, len(lines)))
        values = {field: column[at] for field, column in columns.items()}
        yield step_of({"step": at, **values}, True, where, f"step {at + 1}")
