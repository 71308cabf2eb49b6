"""The loss stays above the loss floor: the entropy of the data cannot be learned away."""

import math

import numpy as np

from steelyard.accounting.arrays import Floats, Mask, blocks, chosen, last_row, row_of
from steelyard.frameworks.facts import MOCK_DATA_NAMES, MockData
from steelyard.frameworks.registry import facts
from steelyard.reasons import Code
from steelyard.verdict.checks.loss_falling import REPEATED_SAMPLES, plateau, repeated_samples
from steelyard.verdict.finding import Check, Finding, Result, Results
from steelyard.verdict.floors import COUNTING, ON, Collapse, collapse, uniform_vocabulary
from steelyard.verdict.subject import Subject

CHECK = Check("loss_floor")
_SPAN = 20
_MEAN_MARGIN = 0.01
_STEP_MARGIN = 0.1
_COLLAPSE = 0.05

ABOVE_ENTROPY_RATE = Code(
    "above_entropy_rate",
    lambda observed, expected, losses, **_: (
        f"{f'mean of the last {losses} losses' if losses > 1 else 'loss'} {observed:.5g}, "
        f"above the loss floor of the data, {expected:.5g}"
    ),
)
"""The loss stays above the entropy rate of the data."""
ABOVE_COUNTING_FLOOR = Code(
    "above_counting_floor",
    "last loss {observed:.5g}, above the loss floor of counting data, {expected:.5f}",
)
"""The loss is above the floor of Megatron's mock data, on which the run trains."""
BELOW_ENTROPY_RATE = Code(
    "below_entropy_rate",
    lambda observed, expected, step, losses, **_: (
        f"loss {observed:.5g} {f'(mean of {losses} records) up to' if losses else 'at'} step {step:,} "
        f"is below the loss floor of the data, {expected:.5g}: check the data, and whether labels leak"
    ),
)
"""The loss falls below the entropy rate of the data: the run used other data, or the labels leak."""
NEGATIVE_LOSS = Code("negative_loss", "loss is {observed:.5g} at step {step:,}; a cross-entropy cannot be negative")
"""A loss is negative, which a cross-entropy cannot be."""
ZERO_LOSS = Code("zero_loss", "loss is exactly 0 at step {step:,}: the model collapsed, or the loss was not computed")
"""A loss is exactly 0: the model collapsed, or the loss was not computed."""
LOSS_COLLAPSED = Code(
    "loss_collapsed",
    "loss ends at {observed:.5f}, lower than any text allows: the model collapsed, or the data repeats",
)
"""The loss ends lower than any text corpus allows: the model collapsed, or the data repeats."""
NO_FINITE_LOSS = Code("no_finite_loss", "no finite loss recorded")
"""The record contains no finite loss."""
ENTROPY_RATE_UNKNOWN = Code("entropy_rate_unknown", "loss floor of the data unknown")
"""The entropy rate of the data is unknown."""
FLOOR_OF_ANY_LOSS = Code("floor_of_any_loss", "loss floor unknown: the framework trains with any data and loss")
"""The framework trains with any data and loss, such as few examples or preferences: the floor is unknown."""

_NOTHING = "it shows nothing about learning"
_COUNTING_FLOOR = f"the floor of {MOCK_DATA_NAMES[MockData.COUNTING]}, ln(4095) / 2048 = {COUNTING:.5f}"
LOSS_ON_UNIFORM_FLOOR = Code("loss_on_uniform_floor", plateau)
"""The loss ends at ln(vocabulary size): the run trained on uniform random tokens, which cannot be learned."""
LOSS_ON_COUNTING_FLOOR = Code(
    "loss_on_counting_floor",
    lambda observed, reached, **_: (
        f"loss ends at {observed:.5f}, {'at' if reached else 'near'} {_COUNTING_FLOOR}; {_NOTHING}"
    ),
)
"""The loss ends at the floor of Megatron's mock data (1, 2, 3, ...)."""
LOSS_BELOW_COUNTING_FLOOR = Code(
    "loss_below_counting_floor",
    f"loss ends at {{observed:.5f}}, below {_COUNTING_FLOOR}: masked document ends, or repeated data; {_NOTHING}",
)
"""The loss ends below the floor of Megatron's mock data: document ends are masked, or the data repeats."""
LOSS_OF_FIXED_BATCH = Code(
    "loss_of_fixed_batch",
    "loss ends at {observed:.5f}: every step trains on the same batch, as in "
    f"{MOCK_DATA_NAMES[MockData.FIXED_BATCH]}, and the model memorizes it; {_NOTHING}",
)
"""The loss ends near 0 because every step trains on the same batch."""
LOSS_OF_MEMORIZED_DATA = Code(
    "loss_of_memorized_data",
    f"loss ends at {{observed:.5f}}, lower than any text allows: the data is degenerate or memorized; {_NOTHING}",
)
"""The loss ends lower than any text allows: the data is degenerate, or the model memorized it."""
_OF_COLLAPSE = {
    Collapse.COUNTING: LOSS_ON_COUNTING_FLOOR,
    Collapse.BELOW_COUNTING: LOSS_BELOW_COUNTING_FLOOR,
    Collapse.FIXED_BATCH: LOSS_OF_FIXED_BATCH,
    Collapse.BY_HEART: LOSS_OF_MEMORIZED_DATA,
}
MADE_DATA = (LOSS_ON_UNIFORM_FLOOR, *_OF_COLLAPSE.values())
"""Codes of a loss that shows nothing about learning."""


def check(subject: Subject) -> Results:
    floor, loss = subject.expected("loss_floor"), subject.steps.loss
    finite = loss.finite
    impossible = np.flatnonzero(finite & (loss.values < 0))
    zero = np.flatnonzero(finite & (loss.values == 0) & ~subject.steps.flag("skipped"))
    losses, last = chosen(loss.values, finite), last_row(finite) if finite.any() else 0
    end = float(np.median(losses[-5:])) if len(losses) else math.nan
    if len(losses) and facts(subject.run.manifest.framework).any_loss:
        yield CHECK.not_applicable(FLOOR_OF_ANY_LOSS)
    elif len(impossible):
        row = int(impossible[0])
        yield CHECK.failed(NEGATIVE_LOSS, float(loss.values[row]), 0.0, **subject.at(row))
    elif len(zero):
        yield CHECK.failed(ZERO_LOSS, 0.0, "> 0", **subject.at(zero[0]))
    elif not len(losses):
        yield CHECK.unknown(NO_FINITE_LOSS, None, floor)
    elif subject.foreign and (finding := _at_generated_floor(subject, last)) is not None:
        yield finding
    elif floor is None and subject.value("data.source") == "tokens" and len(losses) >= 5 and end < _COLLAPSE:
        yield CHECK.failed(LOSS_COLLAPSED, end, f">= {_COLLAPSE}", subject.evidence_of_step(last))
    elif floor is None and (repeated := repeated_samples(subject)) is not None:
        yield CHECK.not_applicable(REPEATED_SAMPLES, **repeated)
    elif floor is None:
        yield CHECK.not_applicable(ENTROPY_RATE_UNKNOWN)
    elif floor == COUNTING and subject.foreign:
        yield CHECK.passed(ABOVE_COUNTING_FLOOR, float(losses[-1]), floor, subject.evidence_of_step(last))
    else:
        yield _against(subject, losses, finite, floor)


def _at_generated_floor(subject: Subject, last: int) -> Finding | None:
    """The finding of a loss at the floor of generated data; None for any other loss."""
    course, at = subject.course, subject.evidence_of_step(last)
    if course is not None and (vocabulary := uniform_vocabulary(subject)) is not None:
        values = {"vocabulary": vocabulary, "size": vocabulary.nearest_size(course.level)}
        return CHECK.unknown(LOSS_ON_UNIFORM_FLOOR, course.end, vocabulary.floor, at, **values)
    if course is None or (kind := collapse(subject)) is None:
        return None
    floor = COUNTING if kind == Collapse.COUNTING else None
    return CHECK.unknown(_OF_COLLAPSE[kind], course.end, floor, at, reached=course.mean < ON * COUNTING)


def _against(subject: Subject, losses: Floats, finite: Mask, floor: float) -> Result:
    lowest, noise = int(np.argmin(losses)), _noise(losses)
    span = min(_SPAN, len(losses))
    sums = np.zeros(len(losses) + 1)
    np.cumsum(losses, out=sums[1:])
    mean, lowest_mean = _lowest(sums, span)
    # One batch may be below the floor by chance, a mean of twenty may not. The lowest of N normal values is about
    # sqrt(2 ln N) sigma below the mean; the run fails if it is three sigma lower than that.
    sigmas = 3 + (2 * np.log(len(losses))) ** 0.5
    if losses[lowest] < floor - max(_STEP_MARGIN * floor, sigmas * noise):
        low, row, over = float(losses[lowest]), row_of(finite, lowest), None
    elif lowest_mean < floor - max(_MEAN_MARGIN * floor, sigmas * noise / span**0.5):
        low, row, over = lowest_mean, row_of(finite, mean + span - 1), span
    else:
        end, at = float((sums[-1] - sums[-1 - span]) / span), subject.evidence_of_step(last_row(finite))
        return CHECK.passed(ABOVE_ENTROPY_RATE, end, floor, at, losses=span)
    return CHECK.failed(BELOW_ENTROPY_RATE, low, floor, losses=over, **subject.at(row))


def _lowest(sums: Floats, span: int) -> tuple[int, float]:
    """Start and value of the lowest mean of `span` losses."""
    at, lowest = 0, math.inf
    for part in blocks(len(sums) - span):
        means = (sums[part.start + span : part.stop + span] - sums[part]) / span
        if (least := float(means.min())) < lowest:
            at, lowest = part.start + int(np.argmin(means)), least
    return at, lowest


def _noise(losses: Floats) -> float:
    """Standard deviation of one loss, from the differences of neighbors."""
    if len(losses) < 2:
        return 0.0
    apart = np.diff(losses)
    return float(np.median(np.abs(apart, out=apart), overwrite_input=True)) / 0.954
