"""The loss of every step is finite."""

import numpy as np

from steelyard.accounting.arrays import last_row
from steelyard.reasons import Code
from steelyard.verdict.checks.steps_present import NO_STEPS
from steelyard.verdict.finding import Check, Results, spelt
from steelyard.verdict.subject import Subject

CHECK = Check("loss_finite", required=True)
LOSSES_FINITE = Code(
    "losses_finite",
    lambda observed, losses, skipped, **_: (
        f"all {losses:,} losses are finite, last {observed:.5g}"
        f"{'' if skipped is None else f' ({skipped:,} skipped without a loss)'}"
    ),
)
"""Every recorded loss is finite."""
LOSS_NOT_FINITE = Code(
    "loss_not_finite",
    lambda observed, step, logged_step, others, **_: (
        f"loss is {spelt(observed)} at step {step:,}"
        f"{'' if logged_step is None else f' ({logged_step:,} in the log)'}{f' and {others:,} more' if others else ''}"
    ),
)
"""At least one recorded loss is NaN or infinite."""
NODE_LOSS_NOT_FINITE = Code("node_loss_not_finite", "loss is not finite on {node} at step {step:,}")
"""The log of one node contains a loss that is NaN or infinite."""
LOSSES_MISSING = Code("losses_missing", "{missing:,} of {steps:,} steps have no loss, first at step {step:,}")
"""Some steps that were not skipped have no recorded loss."""
ALL_STEPS_SKIPPED = Code("all_steps_skipped", "all steps were skipped, none has a loss")
"""The optimizer skipped every step, so no step has a loss."""


def check(subject: Subject) -> Results:
    loss, steps = subject.steps.loss, subject.steps.step
    bad = np.flatnonzero(loss.nonfinite)
    skipped = subject.steps.flag("skipped")  # a skipped step has no loss
    absent = np.flatnonzero(~loss.given & ~skipped)
    diverged = [(node, table) for node, table in subject.node_tables.items() if table.loss.nonfinite.any()]
    if len(bad):
        value, step = float(loss.values[bad[0]]), subject.logged_step(bad[0])
        values = {"others": len(bad) - 1, "logged_step": step, **subject.at(bad[0])}
        yield CHECK.failed(LOSS_NOT_FINITE, value, "finite", **values)
    elif diverged:
        node, table = diverged[0]
        step = int(table.step[np.argmax(table.loss.nonfinite)])
        yield CHECK.failed(NODE_LOSS_NOT_FINITE, "NaN", "finite", node=node, step=step)
    elif not len(steps):
        yield CHECK.unknown(NO_STEPS, None, "finite", subject.evidence_of_manifest("status"))
    elif len(absent):
        values = {"missing": len(absent), "steps": len(steps), **subject.at(absent[0])}
        yield CHECK.unknown(LOSSES_MISSING, None, "finite", **values)
    elif not loss.given.any():
        yield CHECK.unknown(ALL_STEPS_SKIPPED, None, "finite", subject.evidence_of_step(0))
    else:
        row = last_row(loss.given)
        without_loss = int((~loss.given).sum()) if skipped.any() else None
        values = {"losses": int(loss.given.sum()), "skipped": without_loss, **subject.at(row)}
        yield CHECK.passed(LOSSES_FINITE, float(loss.values[row]), "finite", **values)
