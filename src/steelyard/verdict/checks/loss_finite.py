"""Every step's loss is a number."""

from collections.abc import Iterator

import numpy as np

from steelyard.verdict.finding import Check, Found, spelt
from steelyard.verdict.subject import Subject

CHECK = Check("loss_finite", required=True)


def check(subject: Subject) -> Iterator[Found]:
    loss, steps = subject.steps.loss, subject.steps.step
    bad = np.flatnonzero(loss.nonfinite)
    skipped = subject.steps.flag("skipped")  # a step that was not taken has no loss
    absent = np.flatnonzero(~loss.given & ~skipped)
    if len(bad):
        row = int(bad[0])
        more = f", and at {len(bad) - 1:,} more" if len(bad) > 1 else ""
        value = float(loss.values[row])
        message = f"loss is {spelt(value)} at step {steps[row]}{more}"
        yield CHECK.failed(message, value, "finite", subject.evidence_of_step(row))
    elif (node := _diverged_node(subject)) is not None:
        name, step = node
        yield CHECK.failed(f"loss is not finite on {name} at step {step}", "NaN", "finite")
    elif not len(steps):
        yield CHECK.unknown("no step was recorded", None, "finite", subject.evidence_of_manifest("status"))
    elif len(absent):
        row = int(absent[0])
        message = f"{len(absent):,} of {len(steps):,} steps give no loss, the first of them step {steps[row]}"
        yield CHECK.unknown(message, None, "finite", subject.evidence_of_step(row))
    elif not loss.given.any():
        yield CHECK.unknown("every step was skipped, so none has a loss", None, "finite", subject.evidence_of_step(0))
    else:
        last = int(np.flatnonzero(loss.given)[-1])
        without = f" ({int((~loss.given).sum()):,} skipped steps have none)" if skipped.any() else ""
        message = f"all {int(loss.given.sum()):,} losses are finite{without}; the last is {loss.values[last]:.4f}"
        yield CHECK.passed(message, float(loss.values[last]), "finite", subject.evidence_of_step(last))


def _diverged_node(subject: Subject) -> tuple[str, int] | None:
    """The first node whose own log has a loss that is no number."""
    for name, table in subject.node_tables.items():
        rows = np.flatnonzero(table.loss.nonfinite)
        if len(rows):
            return name, int(table.step[rows[0]])
    return None
