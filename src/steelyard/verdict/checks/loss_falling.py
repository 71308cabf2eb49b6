"""The model learns: the loss ends below where it started, and does not give back what it gained."""

import math

import numpy as np

from steelyard.accounting.arrays import SIGMAS, Floats, chosen, last_row
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Result, Results
from steelyard.verdict.floors import uniform_vocabulary
from steelyard.verdict.subject import Subject

CHECK = Check("loss_falling")
_FEWEST = 20
_LONG = 100
_UNTRAINED = 0.02
_SIGMAS = 3.0
_TAIL = 5
_FAR = 1.1

_ENDS = "{start:.4f} over the first {losses} records, {observed:.4f} over the last {losses}"
LOSS_FALLS = Code("loss_falls", f"the loss falls: {_ENDS}")
"""The loss ends below where it started."""
LOSS_DOES_NOT_FALL = Code("loss_does_not_fall", f"the loss does not fall: {_ENDS}")
"""The loss ends above where it started."""
LOSS_DIVERGES = Code(
    "loss_diverges", "the loss diverges: {start:.4f} at first, {observed:.4f} over its last {losses} records"
)
"""The last losses are far above the first loss, and above every loss before them."""
LOSS_DIVERGES_AT_END = Code(
    "loss_diverges_at_end",
    "the loss diverges at the end: {start:.4f} at first, {observed:.4f} over its last {losses} records",
)
"""The last losses are above those of the start by more than the noise."""
LOSS_STILL_UNTRAINED = Code(
    "loss_still_untrained",
    f"after {{steps:,}} steps the loss is still an untrained model's: {_ENDS}, untrained {{untrained:.4f}}",
)
"""After many steps the loss is still that of an untrained model."""
LOSS_REGRESSED = Code(
    "loss_regressed",
    "the loss gave back what it had learned: {start:.4f} at first, {best:.4f} at best, {observed:.4f} at last",
)
"""The loss fell, then rose again and lost at least half of what it had gained."""
LOSS_CHANGE_IN_NOISE = Code("loss_change_in_noise", f"whether the loss falls is lost in its noise: {_ENDS}")
"""The change of the loss is smaller than its noise."""
TOO_FEW_LOSSES = Code("too_few_losses", "too few finite losses to say: {losses}, expected {fewest} or more")
"""The record has too few finite losses to judge whether the loss falls."""
UNIFORM_SOURCE = Code("uniform_source", "its data is uniform: there is nothing to learn")
"""The data is uniform random tokens, which cannot be learned."""
UNIFORM_PLATEAU = Code(
    "uniform_plateau",
    "the loss stands at ln {vocabulary.size:,} = {vocabulary.floor:.4f}, {vocabulary.whose} vocabulary: uniform random "
    "tokens, nothing to learn",
)
"""The loss stays at ln(vocabulary size), the floor of uniform random tokens."""


def check(subject: Subject) -> Results:
    finite = subject.steps.loss.finite
    values = chosen(subject.steps.loss.values, finite)
    first, floor = subject.expected("first_loss"), subject.expected("loss_floor")
    little = first is not None and floor is not None and floor > first * (1 - _UNTRAINED)
    if subject.value("data.source") == "uniform" or little:
        yield CHECK.not_applicable(UNIFORM_SOURCE)
        return
    vocabulary = uniform_vocabulary(subject) if subject.foreign else None
    if vocabulary is not None and vocabulary.floor > 1:
        yield CHECK.not_applicable(UNIFORM_PLATEAU, vocabulary=vocabulary)
        return
    at = subject.evidence_of_step(last_row(finite)) if len(values) else None
    start, tail = (float(values[0]), float(np.median(values[-_TAIL:]))) if len(values) else (0.0, 0.0)
    if len(values) > _TAIL and tail > _FAR * start and tail > float(values[:-_TAIL].max()):
        yield CHECK.failed(LOSS_DIVERGES, tail, f"< {start:.4f}", at, start=start, losses=_TAIL)
    elif len(values) < _FEWEST:
        yield CHECK.unknown(TOO_FEW_LOSSES, losses=len(values), fewest=_FEWEST)
    else:
        yield _judge(subject, values, tail, first, floor)


def _judge(subject: Subject, values: Floats, tail: float, first: float | None, floor: float | None) -> Result:
    tenth = max(5, len(values) // 10)
    parts = values[: len(values) // tenth * tenth].reshape(-1, tenth)
    levels = np.array([np.median(part) for part in parts])
    start, best, end = float(levels[0]), float(levels.min()), float(np.median(values[-tenth:]))
    error = _error_of_a_level(parts)
    margin = max(_SIGMAS * error * 2**0.5, _printed_digit(values))
    far = _SIGMAS * error * (tenth / _TAIL) ** 0.5 * 2
    at = subject.evidence_of_step(last_row(subject.steps.loss.finite))
    ends, covered = {"start": start, "losses": tenth}, int(subject.steps.steps_covered.sum())
    untrained = first is not None and end > first - _UNTRAINED * (first - (floor or 0.0))
    if end - start >= margin and end > start:
        return CHECK.failed(LOSS_DOES_NOT_FALL, end, f"< {start:.4f}", at, **ends)
    if tail - start > max(far, margin):
        return CHECK.failed(LOSS_DIVERGES_AT_END, tail, f"< {start:.4f}", at, start=start, losses=_TAIL)
    if first is not None and untrained and covered >= _LONG:
        return CHECK.failed(LOSS_STILL_UNTRAINED, end, f"< {first:.4f}", at, steps=covered, untrained=first, **ends)
    if end - (best + start) / 2 > margin and start - best > 2 * margin:
        return CHECK.failed(LOSS_REGRESSED, end, f"< {(best + start) / 2:.4f}", at, start=start, best=best)
    if start - end <= margin:
        return CHECK.unknown(LOSS_CHANGE_IN_NOISE, end, f"< {start:.4f}", at, **ends)
    return CHECK.passed(LOSS_FALLS, end, f"< {start:.4f}", at, **ends)


def _printed_digit(values: Floats) -> float:
    """The last digit a log prints, where so few digits are printed that values repeat; else no more than rounding."""
    ordered = np.sort(values)
    different = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    if different > len(values) / 2:
        return 0.0
    apart = np.diff(ordered)
    return float(apart[apart > 0].min()) if different > 1 else math.inf


def _error_of_a_level(parts: Floats) -> float:
    """Standard error of the median of one tenth of the losses, which may remember each other.

    In each tenth a straight line is taken off; what is left has a scatter (by its median, robust) and a lag-1
    correlation r, and n values that remember are worth n (1 - r) / (1 + r). A median's error is 1.25 of a mean's.
    """
    size, scale = parts.shape[1], max(float(parts.max()), -float(parts.min())) or 1.0
    scatter, powers, shared = [], [], []
    for part in parts:
        left = _without_line(part / scale)  # squares of huge losses must not overflow
        powers.append((left**2).sum())
        shared.append((left[1:] * left[:-1]).sum())
        scatter.append(SIGMAS * np.median(np.abs(left)))
    sigma, power, products = float(np.median(scatter)), np.array(powers), np.array(shared)
    r = float(np.median(products[power > 0] / power[power > 0])) if (power > 0).any() else 0.0
    r = min(max(r + (1 + 4 * r) / size, 0.0), 0.98)
    return 1.25 * scale * sigma * math.sqrt((1 + r) / (1 - r) / size)


def _without_line(values: Floats) -> Floats:
    """What is left when a straight line is taken off."""
    x = np.arange(len(values)) - (len(values) - 1) / 2
    centred = values - values.mean()
    left: Floats = centred - (centred @ x / (x @ x)) * x
    return left
