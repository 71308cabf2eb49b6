"""The model learns: the loss ends below where it started, and does not give back what it gained."""

from collections.abc import Iterator

import numpy as np

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("loss_falling")
_FEWEST = 20
_NOTHING_TO_LEARN = 0.02


def check(subject: Subject) -> Iterator[Found]:
    loss = subject.steps.loss
    rows = np.flatnonzero(loss.finite)
    first, floor = subject.expected("first_loss"), subject.expected("loss_floor")
    if first and floor and floor > first * (1 - _NOTHING_TO_LEARN):
        yield CHECK.not_applicable("its data is uniform: there is nothing to learn")
        return
    if len(rows) < _FEWEST:
        yield CHECK.unknown(f"{len(rows)} finite losses are too few to say, expected {_FEWEST} or more")
        return
    tenth = max(5, len(rows) // 10)
    whole = len(rows) // tenth * tenth
    levels = np.median(loss.values[rows[:whole]].reshape(-1, tenth), axis=1)
    start, best, end = float(levels[0]), float(levels.min()), float(np.median(loss.values[rows[-tenth:]]))
    at = subject.evidence_of_step(int(rows[-1]))
    if end >= start:
        message = f"the loss does not fall: {start:.4f} over the first {tenth} steps, {end:.4f} over the last {tenth}"
        yield CHECK.failed(message, end, f"< {start:.4f}", at)
    elif end > best + (start - best) / 2:
        message = f"the loss gave back what it had learned: {start:.4f} at first, {best:.4f} at best, {end:.4f} at last"
        yield CHECK.failed(message, end, f"< {best + (start - best) / 2:.4f}", at)
    else:
        message = f"the loss falls: {start:.4f} over the first {tenth} steps, {end:.4f} over the last {tenth}"
        yield CHECK.passed(message, end, f"< {start:.4f}", at)
