"""The loss stays above the data's entropy rate: what cannot be predicted cannot be learned."""

from collections.abc import Iterator

import numpy as np

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("loss_floor")
_SPAN = 20
_MEAN_MARGIN = 0.01
_STEP_MARGIN = 0.1


def check(subject: Subject) -> Iterator[Found]:
    floor, loss = subject.expected("loss_floor"), subject.steps.loss
    rows = np.flatnonzero(loss.finite)
    if floor is None:
        below = np.flatnonzero(loss.finite & (loss.values < 0))
        if len(below):
            row = int(below[0])
            message = (
                f"the loss is {loss.values[row]:.4f} at step {subject.steps.step[row]}: no cross-entropy is negative"
            )
            yield CHECK.failed(message, float(loss.values[row]), 0.0, subject.evidence_of_step(row))
        else:
            yield CHECK.not_applicable("the entropy rate of its data is not known")
        return
    if not len(rows):
        yield CHECK.unknown("no finite loss was recorded", None, floor)
        return
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
        yield CHECK.passed(message, found, floor, subject.evidence_of_step(int(rows[row])))
        return
    message = f"the loss is {found:.4f} {words}, below the data's entropy rate of {floor:.4f}: not this data, or a leak"
    yield CHECK.failed(message, found, floor, subject.evidence_of_step(int(rows[row])))
