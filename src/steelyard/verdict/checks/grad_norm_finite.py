"""Every gradient norm is a number, but for steps a loss scaler skipped."""

import numpy as np

from steelyard.accounting.arrays import last_row
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results, spelt
from steelyard.verdict.subject import Subject

CHECK = Check("grad_norm_finite")
GRAD_NORMS_FINITE = Code("grad_norms_finite", "{norms:,} gradient norms are finite")
"""Every recorded gradient norm is finite."""
GRAD_NORM_NOT_FINITE = Code(
    "grad_norm_not_finite",
    lambda observed, step, others, **_: (
        f"the gradient norm is {spelt(observed)} at step {step}{f', and at {others:,} more' if others else ''}"
    ),
)
"""At least one gradient norm is NaN or infinite."""
NO_GRAD_NORM = Code("no_grad_norm", "no step that was taken gives its gradient norm")
"""The record contains no gradient norm of a step that was not skipped."""


def check(subject: Subject) -> Results:
    norm = subject.steps.grad_norm
    taken = norm.given & ~subject.steps.flag("skipped")
    rows = np.flatnonzero(norm.nonfinite & taken)
    if len(rows):
        value, others = float(norm.values[rows[0]]), len(rows) - 1
        yield CHECK.failed(GRAD_NORM_NOT_FINITE, value, "finite", others=others, **subject.at(rows[0]))
    elif not taken.any():
        yield CHECK.unknown(NO_GRAD_NORM, None, "finite")
    else:
        row = last_row(taken)
        values = {"norms": int(taken.sum()), **subject.at(row)}
        yield CHECK.passed(GRAD_NORMS_FINITE, float(norm.values[row]), "finite", **values)
