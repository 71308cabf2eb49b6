"""Reads consecutive step lines of one shape by columns, several times faster than line by line.

Only ordinary lines are read this way: one process, steps at the log interval, a loss on every line, no skipped steps.
All others are left to the reader of single lines; a test checks that both give the same bytes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steelyard.frameworks.logs.dialect import Dialect
from steelyard.frameworks.logs.fields import TARGETS, Shape, Values, first_number
from steelyard.frameworks.logs.prefixes import isos
from steelyard.frameworks.logs.series import Series, whole
from steelyard.records.rows import StepRows
from steelyard.records.step import COUNTS, LOGGED

FEWEST = 8
"""Minimum number of lines."""

Column = list[float | None] | float | None
"""A value per line, or one value for all lines."""


def can_read(dialect: Dialect) -> bool:
    """Whether a dialect's step lines consist of numbers at fixed places, without words, flags or clock times."""
    return (
        "total" in dialect.mark.groupindex
        and not dialect.zero_based
        and dialect.flags is None
        and not dialect.texts
        and not dialect.timed_by_clock
        and dialect.separator is not None
        and all(field.target != "tokens" for field in dialect.fields.values())
    )


def read_many(
    dialect: Dialect,
    shape: Shape,
    moment: tuple[int, int] | None,
    lines: Sequence[bytes],
    numbers: Sequence[int],
    series_of: Callable[[bytes, bytes], Series],
    stated: tuple[float | None, ...],
) -> tuple[Series, StepRows, Values] | None:
    """All lines at once, with the values of the last one; None or an exception if a line is not ordinary.

    Nothing is recorded yet. `moment` is the start of a line's timestamp, counted back from its mark, and its length.
    `stated` are the total steps, batch size and sequence length of the log so far.
    """
    mark = dialect.mark.search(lines[0])
    if mark is None or int(mark["total"]) != stated[0] or shape.separator is None:
        return None
    parts = shape.separator.join(lines).split(shape.separator)
    heads = parts[:: shape.parts]
    before = lines[0][: mark.start()]
    begin = mark.start() - moment[0] if moment else 0
    end = begin + moment[1] if moment else 0
    steps, columns = _numbers(heads, mark, begin, end), _columns(shape, parts)
    if steps is None or (columns.get("global_batch_size"), columns.get("sequence_length")) != stated[1:]:
        return None
    if dialect.absent_loss_is_nan and (columns.get("loss") is None or columns.get("skipped") != 0.0):
        return None
    series = series_of(before[:begin] + before[end:], before)
    interval = series.ordinary(steps[0])
    if interval is None or steps != list(range(steps[0], steps[0] + interval * len(steps), interval)):
        return None
    given: dict[str, Any] = {"step": steps, "reported_step": steps, "steps_covered": interval, "flags": ()}
    if moment:
        given["time"] = isos([head[begin:end] for head in heads])
    given.update(_values(series, dialect, columns, *stated[1:]))
    varying = {name: column for name, column in given.items() if isinstance(column, list)}
    same = {name: value for name, value in given.items() if not isinstance(value, list)}
    last = [column[-1] if isinstance(column, list) else column for column in map(columns.get, TARGETS)]
    return series, StepRows(same, varying, series.log, numbers), last


def _numbers(heads: Sequence[bytes], mark: re.Match[bytes], begin: int, end: int) -> list[int] | None:
    """The step numbers, if all lines start alike except for timestamp and number: one process, one total."""
    first = mark.string
    at, rest = mark.start() + len(mark[0].split()[0]), first[mark.end("step") : len(heads[0])]
    left = -len(rest)
    alike = (
        {head[:begin] for head in heads} == {first[:begin]}
        and {head[end:at] for head in heads} == {first[end:at]}
        and {head[left:] for head in heads} == {rest}
    )
    return [int(head[at:left]) for head in heads] if alike else None


def _columns(shape: Shape, parts: list[bytes]) -> Mapping[str, Column]:
    columns: dict[str, Column] = {}
    for slots, number in ((shape.plain, float), (shape.others, first_number)):
        for part, offset, target, divisor in slots:
            texts = parts[part :: shape.parts]
            if texts.count(texts[0]) == len(texts):
                columns[TARGETS[target]] = number(texts[0][offset:]) / divisor
            elif divisor == 1 and number is float:
                columns[TARGETS[target]] = [float(text[offset:]) for text in texts]
            else:
                columns[TARGETS[target]] = [number(text[offset:]) / divisor for text in texts]
    return columns


def _values(
    series: Series, dialect: Dialect, columns: Mapping[str, Column], batch: float | None, length: float | None
) -> Mapping[str, Any]:
    """The values of the steps, as `Series` computes them for one step."""
    job = series.job
    batch, length = batch or job.global_batch_size, length or job.sequence_length
    tokens = batch * length if batch and length else None
    per_gpu = tokens / job.world_size if tokens is not None and job.world_size else None
    per_token = job.flops_per_token / 1e12 if job.flops_per_token else None
    rates = tflops = None
    if per_gpu:
        rates = _each(columns.get("step_time_s"), lambda seconds: per_gpu / seconds if seconds else None)
    if per_token:
        tflops = _each(rates, lambda rate: rate * per_token if rate else None)
    memory, device = columns.get("memory_gib"), job.device_gib
    if memory is None and device:
        memory = _each(columns.get("memory_fraction"), lambda share: share * device)
    metrics = {name: columns.get(name) for name in LOGGED} | {"memory_gib": memory, "tokens": tokens}
    return {
        **metrics,
        **{name: _each(metrics[name], whole) for name in COUNTS},
        "tokens_per_s_per_gpu": rates,
        "tflops_per_gpu": tflops,
        "memory_kind": None if memory is None else dialect.memory_kind,
        "node": series.origin.node,
        "rank": series.origin.rank,
    }


def _each(column: Column, work: Callable[[float], float | None]) -> Column:
    if isinstance(column, list):
        return [None if value is None else work(value) for value in column]
    return None if column is None else work(column)
