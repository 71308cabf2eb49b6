"""Every gradient norm is a number, but for steps a loss scaler skipped."""

from collections.abc import Iterator

import numpy as np

from steelyard.verdict.finding import Check, Found, spelt
from steelyard.verdict.subject import Subject

CHECK = Check("grad_norm_finite")


def check(subject: Subject) -> Iterator[Found]:
    norm, steps = subject.steps.grad_norm, subject.steps.step
    taken = norm.given & ~subject.steps.flag("skipped")
    rows = np.flatnonzero(norm.nonfinite & taken)
    if len(rows):
        row = int(rows[0])
        more = f", and at {len(rows) - 1:,} more" if len(rows) > 1 else ""
        value = float(norm.values[row])
        message = f"the gradient norm is {spelt(value)} at step {steps[row]}{more}"
        yield CHECK.failed(message, value, "finite", subject.evidence_of_step(row))
    elif not taken.any():
        yield CHECK.unknown("no step that was taken gives its gradient norm", None, "finite")
    else:
        row = int(np.flatnonzero(taken)[-1])
        message = f"{int(taken.sum()):,} gradient norms are finite"
        yield CHECK.passed(message, float(norm.values[row]), "finite", subject.evidence_of_step(row))
