"""Every gradient norm is finite, except at steps that a loss scaler skipped, and not all of them are 0."""

import numpy as np

from steelyard.accounting.arrays import chosen, last_row
from steelyard.frameworks.registry import facts
from steelyard.reasons import Code
from steelyard.verdict.checks.loss_falling import learns
from steelyard.verdict.finding import Check, Finding, Results, spelt
from steelyard.verdict.subject import Subject

CHECK = Check("grad_norm_finite")
_FEWEST, _FEWEST_LOSSES = 10, 20
GRAD_NORMS_FINITE = Code("grad_norms_finite", "all {norms:,} gradient norms are finite")
"""Every recorded gradient norm is finite."""
GRAD_NORM_NOT_FINITE = Code(
    "grad_norm_not_finite",
    lambda observed, step, others, **_: (
        f"gradient norm is {spelt(observed)} at step {step:,}{f' and {others:,} more' if others else ''}"
    ),
)
"""At least one gradient norm is NaN or infinite."""
GRAD_NORM_OVERFLOWED = Code(
    "grad_norm_overflowed",
    "gradient norm is infinite at the first record alone, and every loss is finite: clipping made that step empty",
)
"""The first gradient norm overflowed and no other, and every loss is finite."""
GRAD_NORM_ALWAYS_ZERO = Code(
    "grad_norm_always_zero",
    "gradient norm is 0 at all {norms:,} records, and the loss does not fall: no gradient reaches the weights",
)
"""Every recorded gradient norm is 0, and the loss does not show that the model learns."""
GRAD_NORM_NOT_COMPUTED = Code(
    "grad_norm_not_computed",
    lambda clips, **_: (
        f"gradient norm is printed as 0 at every record: "
        f"{'the loss falls, so it is not' if clips else 'gradients are not clipped, so it is not'} computed"
    ),
)
"""Every recorded gradient norm is 0, because the framework did not compute it."""
TOO_FEW_GRAD_NORMS = Code(
    "too_few_grad_norms", "gradient norm is 0 at all {norms:,} records; at least {fewest} and 20 losses needed to judge"
)
"""Every recorded gradient norm is 0, and the run is too short to judge whether that is an error."""
NO_GRAD_NORM = Code("no_grad_norm", "gradient norms not recorded")
"""The record contains no gradient norm of a step that was not skipped."""


def check(subject: Subject) -> Results:
    norm = subject.steps.grad_norm
    taken = norm.given & ~subject.steps.flag("skipped")
    rows = np.flatnonzero(norm.nonfinite & taken)
    if rows.tolist() == [0] and norm.values[0] == np.inf and subject.steps.loss.finite.all():
        yield CHECK.unknown(GRAD_NORM_OVERFLOWED, float(norm.values[rows[0]]), "finite", **subject.at(rows[0]))
    elif len(rows):
        value, others = float(norm.values[rows[0]]), len(rows) - 1
        yield CHECK.failed(GRAD_NORM_NOT_FINITE, value, "finite", others=others, **subject.at(rows[0]))
    elif not taken.any():
        yield CHECK.unknown(NO_GRAD_NORM, None, "finite")
    elif not chosen(norm.values, taken).any():
        yield _all_zero(subject, int(taken.sum()))
    else:
        row = last_row(taken)
        values = {"norms": int(taken.sum()), **subject.at(row)}
        yield CHECK.passed(GRAD_NORMS_FINITE, float(norm.values[row]), "finite", **values)


def _all_zero(subject: Subject, norms: int) -> Finding:
    """A norm of 0 everywhere: an error, unless the framework did not compute it."""
    (known, clip), at = subject.known("training.clip_grad_norm"), subject.at(0)
    clips = not (facts(subject.run.manifest.framework).norm_only_if_clipped and known and not clip)
    if not clips or learns(subject):
        return CHECK.unknown(GRAD_NORM_NOT_COMPUTED, 0.0, "> 0", at["evidence"], clips=clips)
    if norms < _FEWEST or int(subject.learning_rows.sum()) < _FEWEST_LOSSES:
        return CHECK.unknown(TOO_FEW_GRAD_NORMS, 0.0, "> 0", at["evidence"], norms=norms, fewest=_FEWEST)
    return CHECK.failed(GRAD_NORM_ALWAYS_ZERO, 0.0, "> 0", at["evidence"], norms=norms)
