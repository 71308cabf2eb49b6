"""Results of the comparison suite: one JSON object per run."""

import json
import re
import shlex
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
"""Limit in bytes. The file is read whole and takes up to 40 times its size in memory; 500 steps have 24 KiB."""
_MOST = 10**12
"""Limit of a count: steps, sequences or GPUs."""
_LISTS = {"loss_values": "loss", "step_times": "step_time_s", "learning_rates": "learning_rate"}
"""Step fields by the name of a list in the result, in order: the first list gives the number of steps."""
_EARLIER = "raw_"
"""What earlier results put before these names. They may have no losses."""
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


def recognizes(path: str, columns: Columns | None) -> bool:
    if columns is not None or path == STDIN or not plain_name(path).endswith(".json"):
        return False
    return _result(_text(path)) is not None


def read(path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
    text = _text(path)
    content = _result(text)
    if content is None:
        fix = f"steelyard ingest {shlex.quote(path)}"
        message = f"{path} changed while it was read"
        raise InputError(message, key="PATH", value=path, expected="a finished result", next=fix)
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
    """The content of a file; of a too large file only the start, which is invalid JSON."""
    return beginning(path, _LARGEST).decode("utf-8", "replace")


def _result(text: str) -> dict[str, Any] | None:
    """The result as an object; None for any other text."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    lists = {name for name, values in content.items() if isinstance(values, list)}
    earlier = f"{_EARLIER}step_times" in lists and isinstance(content.get("training_config"), dict)
    return content if earlier or {"step_times", "loss_values"} <= lists else None


def _columns(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The lists that are not empty, by their names in this result; losses come first."""
    names = [name for plain in _LISTS for name in (plain, f"{_EARLIER}{plain}")]
    return {name: content[name] for name in names if isinstance(content.get(name), list) and content[name]}


def _framework(path: str, content: Mapping[str, Any]) -> str | None:
    """From the name train_PLATFORM_FRAMEWORK_MODEL.json with four letters of each, or from the result."""
    by_letters = {
        framework.suite_name: framework.name for framework in every_facts() if framework.suite_name is not None
    }
    named = re.search(r"train_[a-z]+_([a-z]{4})_", Path(path).name)
    if named and named[1] in by_letters:
        return by_letters[named[1]]
    stack, source = _value(content, "gpu_info", "software_stack"), content.get("source")
    named_by = [name for name in by_letters.values() if isinstance(source, str) and source.startswith(f"{name}_")]
    return stack if stack in by_letters.values() else next(iter(named_by), None)


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
    columns = _columns(content)
    steps = len(next(iter(columns.values()), ()))
    for name, values in columns.items():
        if len(values) != steps:
            message = f"{name} has {len(values)} values for {steps} steps, so it is ignored"
            yield Event(kind="left_out", message=message, source=Evidence(kept, _line_of(lines, name)))
    rate = _value(content, "performance_metrics", "tokens_per_second_per_gpu")
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 <= rate < _MOST:
        at = Evidence(kept, _line_of(lines, "tokens_per_second_per_gpu"))
        details, message = {"tokens_per_s_per_gpu": float(rate)}, f"{rate:,.1f} tokens/s per GPU in the result"
        yield Event(kind="summary", message=message, source=at, details=details)


def _steps(content: Mapping[str, Any], lines: list[str], kept: str) -> Iterator[Step | Event]:
    lists = _columns(content)
    name, values = next(iter(lists.items()), ("", []))
    first, count = _line_of(lines, name), len(values)
    columns = {_LISTS[name.removeprefix(_EARLIER)]: values for name, values in lists.items() if len(values) == count}
    for at in range(count):
        where = Evidence(kept, min(first + 1 + at, len(lines)))
        row = {field: column[at] for field, column in columns.items()}
        yield step_of({"step": at, **row}, True, where, f"step {at + 1}")
