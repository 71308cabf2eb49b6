"""The loss stays above the data's entropy rate: what cannot be predicted cannot be learned."""

from collections.abc import Iterator

import numpy as np

from steelyard.records.columns import Whole
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
    rows = np.flatnonzero(loss.finite)
    impossible = np.flatnonzero(loss.finite & (loss.values < 0))
    zero = np.flatnonzero(loss.finite & (loss.values == 0) & ~subject.steps.flag("skipped"))
    named = named_floor(subject)
    if len(impossible):
        row = int(impossible[0])
        at = f"at step {subject.steps.step[row]}"
        message = f"the loss is {loss.values[row]:.4f} {at}: no cross-entropy is negative"
        yield CHECK.failed(message, float(loss.values[row]), 0.0, subject.evidence_of_step(row))
    elif len(zero):
        row = int(zero[0])
        message = f"the loss is exactly 0 at step {subject.steps.step[row]}: it collapsed, or was never computed"
        yield CHECK.failed(message, 0.0, "> 0", subject.evidence_of_step(row))
    elif not len(rows):
        yield CHECK.unknown("no finite loss was recorded", None, floor)
    elif named is not None and subject.run.manifest.ingested is not None:
        message = f"the loss ends at {named.loss:.5f}, {named.words}; {_NOTHING}"
        yield CHECK.unknown(message, named.loss, named.floor, subject.evidence_of_step(int(rows[-1])))
    elif floor is None:
        yield _of_a_corpus(subject, rows)
    elif floor == COUNTING and subject.run.manifest.ingested is not None:
        end = float(loss.values[rows][-1])
        message = f"the last finite loss is {end:.4f}, above the floor {floor:.5f} of the counting data it trains on"
        yield CHECK.passed(message, end, floor, subject.evidence_of_step(int(rows[-1])))
    else:
        yield _against(subject, rows, floor)


def _of_a_corpus(subject: Subject, rows: Whole) -> Found:
    end = float(np.median(subject.steps.loss.values[rows][-5:]))
    if subject.value("data.source") == "tokens" and end < _COLLAPSE and len(rows) >= 5:
        message = f"the loss ends at {end:.5f}: no corpus has so little left to learn; it collapsed, or repeats"
        return CHECK.failed(message, end, f">= {_COLLAPSE}", subject.evidence_of_step(int(rows[-1])))
    return CHECK.not_applicable("the entropy rate of its data is not known")


def _against(subject: Subject, rows: Whole, floor: float) -> Found:
    loss = subject.steps.loss
    losses = loss.values[rows]
    lowest = int(np.argmin(losses))
    noise = float(np.median(np.abs(np.diff(losses)))) / 0.954 if len(losses) > 1 else 0.0
    span = min(_SPAN, len(losses))
    sums = np.cumsum(np.concatenate([[0.0], losses]))
    means = (sums[span:] - sums[:-span]) / span
    mean = int(np.argmin(means))
    # One batch may fall below the rate by chance; twenty together may not. The lowest of N normal values lies about
    # sqrt(2 ln N) sigma down, so that much is given before three more count against the run.
    sigmas = 3 + (2 * np.log(len(losses))) ** 0.5
    if losses[lowest] < floor - max(_STEP_MARGIN * floor, sigmas * noise):
        found, row, words = float(losses[lowest]), lowest, f"at step {subject.steps.step[rows[lowest]]}"
    elif means[mean] < floor - max(_MEAN_MARGIN * floor, sigmas * noise / span**0.5):
        found, row = float(means[mean]), mean + span - 1
        words = f"over {span} steps up to step {subject.steps.step[rows[row]]}"
    else:
        found, row = float(means[-1]), len(rows) - 1
        what = f"the last {span} losses average" if span > 1 else "the one finite loss is"
        message = f"{what} {found:.4f}, above the data's entropy rate of {floor:.4f}"
        return CHECK.passed(message, found, floor, subject.evidence_of_step(int(rows[row])))
    message = f"the loss is {found:.4f} {words}, below the data's entropy rate of {floor:.4f}: not this data, or a leak"
    return CHECK.failed(message, found, floor, subject.evidence_of_step(int(rows[row])))
