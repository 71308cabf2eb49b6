"""The loss stays above the data's entropy rate: what cannot be predicted cannot be learned."""

import math
from collections.abc import Iterator

import numpy as np

from steelyard.accounting.selection import blocks, chosen, last_row, row_of
from steelyard.records.columns import Floats, Mask
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.floors import COUNTING, named_floor
from steelyard.verdict.subject import Subject

CHECK = Check("loss_floor")
_SPAN = 20
_MEAN_MARGIN = 0.01
_STEP_MARGIN = 0.1
_NOTHING = "it says nothing about learning"
_COLLAPSE = 0.05


def check(subject: Subject) -> Iterator[Found]:
    floor, loss = subject.expected("loss_floor"), subject.steps.loss
    finite = loss.finite
    impossible = np.flatnonzero(finite & (loss.values < 0))
    zero = np.flatnonzero(finite & (loss.values == 0) & ~subject.steps.flag("skipped"))
    named = named_floor(subject)
    losses, last = chosen(loss.values, finite), last_row(finite) if finite.any() else 0
    if len(impossible):
        row = int(impossible[0])
        at = f"at step {subject.steps.step[row]}"
        message = f"the loss is {loss.values[row]:.4f} {at}: no cross-entropy is negative"
        yield CHECK.failed(message, float(loss.values[row]), 0.0, subject.evidence_of_step(row))
    elif len(zero):
        row = int(zero[0])
        message = f"the loss is exactly 0 at step {subject.steps.step[row]}: it collapsed, or was never computed"
        yield CHECK.failed(message, 0.0, "> 0", subject.evidence_of_step(row))
    elif not len(losses):
        yield CHECK.unknown("no finite loss was recorded", None, floor)
    elif named is not None and subject.run.manifest.ingested is not None:
        message = f"the loss ends at {named.loss:.5f}, {named.words}; {_NOTHING}"
        yield CHECK.unknown(message, named.loss, named.floor, subject.evidence_of_step(last))
    elif floor is None:
        yield _of_a_corpus(subject, losses, last)
    elif floor == COUNTING and subject.run.manifest.ingested is not None:
        end = float(losses[-1])
        message = f"the last finite loss is {end:.4f}, above the floor {floor:.5f} of the counting data it trains on"
        yield CHECK.passed(message, end, floor, subject.evidence_of_step(last))
    else:
        yield _against(subject, losses, finite, floor)


def _of_a_corpus(subject: Subject, losses: Floats, last: int) -> Found:
    end = float(np.median(losses[-5:]))
    if subject.value("data.source") == "tokens" and end < _COLLAPSE and len(losses) >= 5:
        message = f"the loss ends at {end:.5f}: no corpus has so little left to learn; it collapsed, or repeats"
        return CHECK.failed(message, end, f">= {_COLLAPSE}", subject.evidence_of_step(last))
    return CHECK.not_applicable("the entropy rate of its data is not known")


def _against(subject: Subject, losses: Floats, finite: Mask, floor: float) -> Found:
    lowest, steps = int(np.argmin(losses)), subject.steps.step
    noise = _noise(losses)
    span = min(_SPAN, len(losses))
    sums = np.zeros(len(losses) + 1)
    np.cumsum(losses, out=sums[1:])
    mean, lowest_mean = _lowest(sums, span)
    # One batch may fall below the rate by chance; twenty together may not. The lowest of N normal values lies about
    # sqrt(2 ln N) sigma down, so that much is given before three more count against the run.
    sigmas = 3 + (2 * np.log(len(losses))) ** 0.5
    if losses[lowest] < floor - max(_STEP_MARGIN * floor, sigmas * noise):
        found, row = float(losses[lowest]), row_of(finite, lowest)
        words = f"at step {steps[row]}"
    elif lowest_mean < floor - max(_MEAN_MARGIN * floor, sigmas * noise / span**0.5):
        found, row = lowest_mean, row_of(finite, mean + span - 1)
        words = f"over {span} steps up to step {steps[row]}"
    else:
        found, row = float((sums[-1] - sums[-1 - span]) / span), last_row(finite)
        what = f"the last {span} losses average" if span > 1 else "the one finite loss is"
        message = f"{what} {found:.4f}, above the data's entropy rate of {floor:.4f}"
        return CHECK.passed(message, found, floor, subject.evidence_of_step(row))
    message = f"the loss is {found:.4f} {words}, below the data's entropy rate of {floor:.4f}: not this data, or a leak"
    return CHECK.failed(message, found, floor, subject.evidence_of_step(row))


def _lowest(sums: Floats, span: int) -> tuple[int, float]:
    """Where the lowest mean of so many losses begins, and what it is."""
    at, lowest = 0, math.inf
    for part in blocks(len(sums) - span):
        means = (sums[part.start + span : part.stop + span] - sums[part]) / span
        if (least := float(means.min())) < lowest:
            at, lowest = part.start + int(np.argmin(means)), least
    return at, lowest


def _noise(losses: Floats) -> float:
    """Of one loss, by how far neighbours lie apart."""
    if len(losses) < 2:
        return 0.0
    apart = np.diff(losses)
    return float(np.median(np.abs(apart, out=apart), overwrite_input=True)) / 0.954
