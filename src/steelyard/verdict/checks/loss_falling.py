"""The model learns: the loss ends below where it started, and does not give back what it gained."""

from collections.abc import Iterator

import numpy as np

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("loss_falling")
_FEWEST = 20
_LONG = 100
_UNTRAINED = 0.02
_SIGMAS = 3.0


def check(subject: Subject) -> Iterator[Found]:
    loss = subject.steps.loss
    rows = np.flatnonzero(loss.finite)
    first, floor = subject.expected("first_loss"), subject.expected("loss_floor")
    little = first is not None and floor is not None and floor > first * (1 - _UNTRAINED)
    if subject.value("data.source") == "uniform" or little:
        yield CHECK.not_applicable("its data is uniform: there is nothing to learn")
        return
    if len(rows) < _FEWEST:
        yield CHECK.unknown(f"too few finite losses to say: {len(rows)}, expected {_FEWEST} or more")
        return
    values = loss.values[rows]
    tenth = max(5, len(rows) // 10)
    levels = np.median(values[: len(rows) // tenth * tenth].reshape(-1, tenth), axis=1)
    start, best, end = float(levels[0]), float(levels.min()), float(np.median(values[-tenth:]))
    # A level's standard error: a median's is 1.25 of a mean's; noise is what neighbours differ by.
    error = 1.25 * float(np.median(np.abs(np.diff(values)))) / 0.954 / tenth**0.5
    margin = _SIGMAS * error * 2**0.5
    at = subject.evidence_of_step(int(rows[-1]))
    ends = f"{start:.4f} over the first {tenth} steps, {end:.4f} over the last {tenth}"
    untrained = first is not None and end > first - _UNTRAINED * (first - (floor or 0.0))
    if end - start >= margin:
        yield CHECK.failed(f"the loss does not fall: {ends}", end, f"< {start:.4f}", at)
    elif untrained and len(rows) >= _LONG:
        message = f"after {len(rows):,} steps the loss is still an untrained model's: {ends}, untrained {first:.4f}"
        yield CHECK.failed(message, end, f"< {first:.4f}", at)
    elif end - (best + start) / 2 > margin and start - best > 2 * margin:
        message = f"the loss gave back what it had learned: {start:.4f} at first, {best:.4f} at best, {end:.4f} at last"
        yield CHECK.failed(message, end, f"< {(best + start) / 2:.4f}", at)
    elif start - end < margin:
        yield CHECK.unknown(f"whether the loss falls is lost in its noise: {ends}", end, f"< {start:.4f}", at)
    else:
        yield CHECK.passed(f"the loss falls: {ends}", end, f"< {start:.4f}", at)
