"""Reads a run of step lines of one shape by columns, several times faster than line by line.

Only what is ordinary is read so: one process, steps that follow each other at the log's interval, a loss on every line,
nothing skipped. Whatever is not is left to the reader of single lines; a test holds both to the same bytes.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from steelyard.frameworks.logs.dialect import Dialect
from steelyard.frameworks.logs.fields import DIGITS, TARGETS, Shape, first_number
from steelyard.frameworks.logs.line import iso
from steelyard.frameworks.logs.series import Series
from steelyard.records.step import Evidence, Step

FEWEST = 8
"""Lines below which columns are not worth it."""

_SKIPPED, _LOSS = TARGETS.index("skipped"), TARGETS.index("loss")
_BATCH, _LENGTH = TARGETS.index("global_batch_size"), TARGETS.index("sequence_length")
_SECONDS, _MEMORY, _FRACTION = (TARGETS.index(name) for name in ("step_time_s", "memory_gib", "memory_fraction"))

Column = Sequence[float | None]


def can_read(dialect: Dialect) -> bool:
    """Whether a dialect's lines say all of themselves in places, without words, marks or a clock."""
    return dialect.number is None and dialect.flags is None and not dialect.texts and not dialect.timed_by_clock


def read_many(
    dialect: Dialect,
    shape: Shape,
    moment: tuple[int, int] | None,
    lines: Sequence[bytes],
    numbers: Sequence[int],
    series_of: Callable[[bytes, bytes], Series],
    said: tuple[float | None, ...],
) -> bool:
    """Take all lines at once; False, with nothing taken, where one of them is out of the ordinary.

    `moment` is where a line's moment starts, counted back from its mark, and its length; `said` what the log's lines
    said so far of total, batch and sequence.
    """
    mark = dialect.mark.search(lines[0])
    if mark is None or int(mark["total"]) != said[0]:
        return False
    parts = [line.split(shape.separator) for line in lines]
    heads = [part[0] for part in parts]
    before = lines[0][: mark.start()]
    begin = mark.start() - moment[0] if moment else 0
    end = begin + moment[1] if moment else 0
    try:
        steps = _numbers(heads, mark)
        columns = _columns(shape, parts)
    except (ValueError, IndexError):
        return False
    fixed = before[:begin] + before[end:]
    if steps is None or not _same_prefix(heads, before, begin, end):
        return False
    for target, known in ((_BATCH, said[1]), (_LENGTH, said[2])):
        if set(columns[target]) != {known}:
            return False
    if dialect.absent_loss_is_nan and (None in columns[_LOSS] or set(columns[_SKIPPED]) != {0.0}):
        return False
    series = series_of(fixed, before)
    interval = series.ordinary(steps[0])
    if interval is None or any(later - earlier != interval for earlier, later in pairwise(steps)):
        return False
    moments = [iso(head[begin:end]) for head in heads] if moment else [None] * len(lines)
    made = _steps(series, dialect, steps, columns, moments, numbers, interval)
    series.take_many(made, [column[-1] for column in columns])
    return True


def _numbers(heads: Sequence[bytes], mark: re.Match[bytes]) -> list[int] | None:
    """The steps, where every line has its mark in the place of the first's and the same total."""
    start, word, rest = mark.start(), mark[0].split()[0], mark.string[mark.end("step") : len(heads[0])]
    at, left = start + len(word), -len(rest)
    if not all(head.startswith(word, start) and head.endswith(rest) for head in heads):
        return None
    return [int(head[at:left]) for head in heads]


def _same_prefix(heads: Sequence[bytes], before: bytes, begin: int, end: int) -> bool:
    """Whether all lines come from one place: beside its moment, their prefix differs in no digit."""
    first, second, stop = before[:begin], before[end:], len(before)
    if not any(digit in first + second for digit in DIGITS):
        return True  # lines of one shape differ in digits alone
    return all(head.startswith(first) and head[end:stop] == second for head in heads)


def _columns(shape: Shape, parts: Sequence[Sequence[bytes]]) -> list[Column]:
    columns: list[Column] = [[None] * len(parts)] * len(TARGETS)
    for part, offset, target, divisor in shape.plain:
        column = [float(one[part][offset:]) for one in parts]
        columns[target] = column if divisor == 1 else [value / divisor for value in column]
    for part, offset, target, divisor in shape.others:
        columns[target] = [first_number(one[part][offset:]) / divisor for one in parts]
    return columns


def _steps(
    series: Series,
    dialect: Dialect,
    steps: Sequence[int],
    columns: Sequence[Column],
    moments: Sequence[str | None],
    numbers: Sequence[int],
    interval: int,
) -> list[Step]:
    job, log, origin = series.job, series.log, series.origin
    batch, length = columns[_BATCH][0] or job.global_batch_size, columns[_LENGTH][0] or job.sequence_length
    tokens = int(batch * length) if batch and length and batch * length < 1e15 else None
    per_gpu = tokens / job.world_size if tokens is not None and job.world_size else None
    per_token = job.flops_per_token / 1e12 if job.flops_per_token else None
    memory: Column = columns[_MEMORY]
    if job.device_gib and memory[0] is None:
        memory = [None if share is None else share * job.device_gib for share in columns[_FRACTION]]
    kind = None if memory[0] is None else dialect.memory_kind
    rates = [per_gpu / seconds if per_gpu is not None and seconds else None for seconds in columns[_SECONDS]]
    return [
        Step(
            step=step,
            reported_step=step,
            steps_covered=interval,
            tokens=tokens,
            loss=loss,
            grad_norm=norm,
            learning_rate=lr,
            step_time_s=seconds,
            tokens_per_s_per_gpu=rate,
            tflops_per_gpu=rate * per_token if rate and per_token else None,
            memory_gib=gib,
            memory_kind=kind,
            memory_fraction=fraction,
            reported_tokens_per_s_per_gpu=said_rate,
            reported_tflops_per_gpu=tflops,
            skipped=None if skipped is None else int(skipped),
            node=origin.node,
            rank=origin.rank,
            time=moment,
            source=Evidence(log, number),
        )
        for step, moment, number, rate, gib, loss, norm, lr, seconds, tflops, said_rate, fraction, skipped in zip(
            steps, moments, numbers, rates, memory, *columns[:6], *columns[_FRACTION : _SKIPPED + 1], strict=True
        )
    ]
