"""Every step's loss is a number."""

from collections.abc import Iterator

import numpy as np

from steelyard.reasons import Code
from steelyard.verdict.checks.steps_present import NO_STEPS
from steelyard.verdict.finding import Check, Result, spelt
from steelyard.verdict.subject import Subject

CHECK = Check("loss_finite", required=True)
LOSSES_FINITE = Code(
    "losses_finite",
    lambda observed, losses, skipped, **_: (
        f"all {losses:,} losses are finite{'' if skipped is None else f' ({skipped:,} skipped steps have none)'}; "
        f"the last is {observed:.4f}"
    ),
)
"""Every recorded loss is finite."""
LOSS_NOT_FINITE = Code(
    "loss_not_finite",
    lambda observed, step, others, **_: (
        f"loss is {spelt(observed)} at step {step}{f', and at {others:,} more' if others else ''}"
    ),
)
"""At least one recorded loss is NaN or infinite."""
NODE_LOSS_NOT_FINITE = Code("node_loss_not_finite", "loss is not finite on {node} at step {step}")
"""The log of one node contains a loss that is NaN or infinite."""
LOSSES_MISSING = Code("losses_missing", "{missing:,} of {steps:,} steps give no loss, the first of them step {step}")
"""Some steps that were not skipped have no recorded loss."""
ALL_STEPS_SKIPPED = Code("all_steps_skipped", "every step was skipped, so none has a loss")
"""The optimizer skipped every step, so there is no loss to judge."""


def check(subject: Subject) -> Iterator[Result]:
    loss, steps = subject.steps.loss, subject.steps.step
    bad = np.flatnonzero(loss.nonfinite)
    skipped = subject.steps.flag("skipped")  # a step that was not taken has no loss
    absent = np.flatnonzero(~loss.given & ~skipped)
    if len(bad):
        row = int(bad[0])
        at, value = subject.evidence_of_step(row), float(loss.values[row])
        yield CHECK.failed(LOSS_NOT_FINITE, value, "finite", at, step=int(steps[row]), others=len(bad) - 1)
    elif (diverged := _diverged_node(subject)) is not None:
        node, step = diverged
        yield CHECK.failed(NODE_LOSS_NOT_FINITE, "NaN", "finite", node=node, step=step)
    elif not len(steps):
        yield CHECK.unknown(NO_STEPS, None, "finite", subject.evidence_of_manifest("status"))
    elif len(absent):
        row = int(absent[0])
        at, missing = subject.evidence_of_step(row), len(absent)
        yield CHECK.unknown(LOSSES_MISSING, None, "finite", at, missing=missing, steps=len(steps), step=int(steps[row]))
    elif not loss.given.any():
        yield CHECK.unknown(ALL_STEPS_SKIPPED, None, "finite", subject.evidence_of_step(0))
    else:
        last = int(np.flatnonzero(loss.given)[-1])
        lacking = int((~loss.given).sum()) if skipped.any() else None
        at, value, losses = subject.evidence_of_step(last), float(loss.values[last]), int(loss.given.sum())
        yield CHECK.passed(LOSSES_FINITE, value, "finite", at, losses=losses, skipped=lacking)


def _diverged_node(subject: Subject) -> tuple[str, int] | None:
    """The first node whose own log has a loss that is no number."""
    for name, table in subject.node_tables.items():
        rows = np.flatnonzero(table.loss.nonfinite)
        if len(rows):
            return name, int(table.step[rows[0]])
    return None
