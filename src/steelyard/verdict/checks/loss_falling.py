"""The model learns: the loss ends lower than it started, and does not rise again."""

import math

import numpy as np

from steelyard.accounting.arrays import SIGMAS, Floats, chosen, last_row, row_of
from steelyard.accounting.printed import resolution
from steelyard.accounting.vocabularies import Vocabulary
from steelyard.frameworks.registry import dialect, facts
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Finding, Result, Results, Status
from steelyard.verdict.floors import NO_TEXT, is_one_batch, uniform_vocabulary
from steelyard.verdict.subject import Subject

CHECK = Check("loss_falling")
_FEWEST = 20
_LONG = 100
_UNTRAINED = 0.02
_SIGMAS = 3.0
_TAIL = 5
_FAR = 1.1
_FEWEST_FROZEN = 10
_FINE = 1.01e-5
"""Nats. Losses of one model on different batches differ by more: seven significant digits or five decimals show it,
the four digits or decimals of other frameworks may not."""
_SAMPLE_KEYS = ("data.samples", "training.global_batch_size", "training.steps")

_ENDS = "from {start:.5g} to {observed:.5g} (medians of the first and last {losses} records)"
LOSS_FALLS = Code("loss_falls", f"loss falls {_ENDS}")
"""The loss ends below where it started."""
LOSS_DOES_NOT_FALL = Code("loss_does_not_fall", f"loss rises {_ENDS}")
"""The loss ends above where it started."""
LOSS_DIVERGES = Code(
    "loss_diverges", "loss diverges from {start:.5g} to {observed:.5g} (median of the last {losses} records)"
)
"""The last losses are far above the first loss, and above every loss before them."""
LOSS_DIVERGES_AT_END = Code(
    "loss_diverges_at_end",
    "loss diverges at the end: {start:.5g} at the start, {observed:.5g} at the end (median of {losses} records)",
)
"""The last losses are above those of the start by more than the noise."""
LOSS_STILL_UNTRAINED = Code(
    "loss_still_untrained",
    "loss after {steps:,} steps is {observed:.5g}, still that of an untrained model ({untrained:.5g})",
)
"""After many steps the loss is still that of an untrained model."""
LOSS_REGRESSED = Code(
    "loss_regressed",
    "loss falls from {start:.5g} to {best:.5g}, then rises to {observed:.5g} and loses half of the gain or more",
)
"""The loss fell, then rose again and lost at least half of what it had gained."""
LOSS_CHANGE_IN_NOISE = Code("loss_change_in_noise", f"loss changes less than its noise: {_ENDS}")
"""The change of the loss is smaller than its noise."""
LOSS_FROZEN = Code(
    "loss_frozen",
    "loss is exactly {observed:.7g} from step {step:,} to the end ({losses:,} records): model or data is stuck; "
    "check the learning rate, the optimizer and the data loader",
)
"""The last losses, at least ten, are identical in every digit, and the digits are fine enough to show a change."""
TOO_FEW_LOSSES = Code("too_few_losses", "too few finite losses: {losses}, at least {fewest} needed")
"""The record has too few finite losses to judge whether the loss falls."""
UNIFORM_SOURCE = Code("uniform_source", "the data is uniform random tokens, so there is nothing to learn")
"""The data is uniform random tokens, which cannot be learned."""


def plateau(vocabulary: Vocabulary, size: int, **_: object) -> str:
    return (
        f"loss stays at ln({size:,}) = {math.log(size):.2f} ({vocabulary.words}): "
        "the data is uniform random tokens, so there is nothing to learn"
    )


UNIFORM_PLATEAU = Code("uniform_plateau", plateau)
"""The loss stays at ln(vocabulary size), the floor of uniform random tokens."""
REPEATED_SAMPLES = Code(
    "repeated_samples",
    lambda samples, batch: (
        f"{'every step trains on the same batch' if samples <= batch else f'the same {samples:,} samples repeat'} "
        "of random tokens: the loss shows memorization, not learning"
    ),
)
"""The run trains on the same random samples again and again: the model can only memorize them."""


def check(subject: Subject) -> Results:
    finite = subject.steps.loss.finite
    values = chosen(subject.steps.loss.values, finite)
    first, floor = subject.expected("first_loss"), subject.expected("loss_floor")
    little = first is not None and floor is not None and floor > first * (1 - _UNTRAINED)
    if (frozen := _frozen(subject)) is not None:
        yield frozen
        return
    if (repeated := repeated_samples(subject)) is not None:
        yield CHECK.not_applicable(REPEATED_SAMPLES, **repeated)
        return
    if subject.value("data.source") == "uniform" or little:
        yield CHECK.not_applicable(UNIFORM_SOURCE)
        return
    vocabulary = uniform_vocabulary(subject) if subject.foreign else None
    if vocabulary is not None and vocabulary.floor > 1 and subject.course is not None:
        size = vocabulary.nearest_size(subject.course.level)
        yield CHECK.not_applicable(UNIFORM_PLATEAU, vocabulary=vocabulary, size=size)
        return
    at = subject.evidence_of_step(last_row(finite)) if len(values) else None
    start, tail = (float(values[0]), float(np.median(values[-_TAIL:]))) if len(values) else (0.0, 0.0)
    if len(values) > _TAIL and tail > _FAR * start and tail > float(values[:-_TAIL].max()):
        yield CHECK.failed(LOSS_DIVERGES, tail, f"< {start:.4f}", at, start=start, losses=_TAIL)
    elif len(values) < _FEWEST:
        yield CHECK.unknown(TOO_FEW_LOSSES, losses=len(values), fewest=_FEWEST)
    else:
        yield _judge(subject, values, tail, first, floor)


def repeated_samples(subject: Subject) -> dict[str, int] | None:
    """Samples and batch size of a run on random tokens with fewer samples than its steps use; None for others."""
    samples, batch, steps = (subject.whole(key) for key in _SAMPLE_KEYS)
    if subject.value("data.source") != "uniform" or samples is None or batch is None:
        return None
    return {"samples": samples, "batch": batch} if samples < batch * (steps or 1) else None


def learns(subject: Subject) -> bool:
    """Whether the loss clearly falls."""
    return any(isinstance(result, Finding) and result.status == Status.PASS for result in check(subject))


def _frozen(subject: Subject) -> Finding | None:
    """A loss that stays the same to the last digit; on a single batch that was learned before, nothing is left."""
    rows = subject.learning_rows
    losses = chosen(subject.steps.loss.values, rows)
    other = np.flatnonzero(losses != losses[-1]) if len(losses) else losses
    begin = int(other[-1]) + 1 if len(other) else 0
    same = len(losses) - begin
    if same < _FEWEST_FROZEN or losses[-1] < NO_TEXT or (begin and is_one_batch(subject)):
        return None
    manifest = subject.run.manifest
    of_a_log = manifest.ingested is not None and dialect(manifest.ingested.dialect) is not None
    digits = facts(manifest.framework).loss_digits if of_a_log else None
    if resolution(float(losses[-1]), losses, digits) > _FINE:
        return None
    at = subject.at(row_of(rows, begin))
    return CHECK.failed(LOSS_FROZEN, float(losses[-1]), "a loss that changes", losses=same, **at)


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
    """The size of the last printed digit, if values repeat because few digits are printed; else 0."""
    ordered = np.sort(values)
    different = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    if different > len(values) / 2:
        return 0.0
    apart = np.diff(ordered)
    return float(apart[apart > 0].min()) if different > 1 else math.inf


def _error_of_a_level(parts: Floats) -> float:
    """Standard error of the median of one tenth of the losses, which may be correlated.

    A straight line is subtracted from each tenth. The rest has a scatter (robust, from its median) and a lag-1
    correlation r. n correlated values count as n (1 - r) / (1 + r). The error of a median is 1.25 times that of a mean.
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
    """The values minus their straight-line fit."""
    x = np.arange(len(values)) - (len(values) - 1) / 2
    centred = values - values.mean()
    left: Floats = centred - (centred @ x / (x @ x)) * x
    return left
