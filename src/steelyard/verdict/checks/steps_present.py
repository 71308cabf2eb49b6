"""No step is missing from the record, by the log's own interval."""

from collections.abc import Iterator

import numpy as np

from steelyard.accounting.selection import blocks
from steelyard.records.columns import Mask, Whole
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("steps_present", required=True)
_SAME_LOSS = 0.05


def check(subject: Subject) -> Iterator[Found]:
    steps, covered, interval = subject.steps.step, subject.steps.steps_covered, subject.log_interval
    lost_lines = subject.events_of("unread_line")
    read = _recorded(steps, {event.step for event in lost_lines if event.step is not None})
    unread = next((event for event in lost_lines if event.step not in read), None)
    before = int(steps[0] - covered[0]) if len(steps) else 0
    if not len(steps):
        yield CHECK.failed("no step was recorded", 0, subject.planned_steps, subject.evidence_of_manifest("status"))
        return
    apart = np.diff(steps)
    expected = "every step" if interval == 1 else f"every {interval} steps"
    gaps = np.flatnonzero((apart > interval) & (apart > covered[1:])) + 1
    if unread is not None:  # a gap that a line stands in which could not be read is no gap, but not known
        lost = np.array([event.step or -1 for event in lost_lines])
        gaps = np.array(
            [row for row in gaps if not ((lost > steps[row - 1]) & (lost < steps[row])).any()], dtype=np.int64
        )
    back = np.flatnonzero(apart <= 0) + 1
    overlaps = np.append(np.flatnonzero(covered[:1] > steps[:1]), np.flatnonzero(covered[1:] > apart) + 1)
    if len(overlaps):
        overlaps = overlaps[~_counts_the_first_again(steps, covered)[overlaps]]
    if len(gaps):
        row = int(gaps[0])
        missing = f"after step {steps[row - 1]} comes step {steps[row]}, in a record of {expected}"
        more = f"; {len(gaps) - 1} more gaps" if len(gaps) > 1 else ""
        yield CHECK.failed(f"{missing}{more}", f"{len(gaps)} gaps", expected, subject.evidence_of_step(row))
    elif (short := _ended_early(subject)) is not None:
        name, step = short
        message = f"the log of {name} ends at step {step}, and the run's at step {int(steps[-1])}"
        yield CHECK.failed(message, step, int(steps[-1]))
    elif (two := _differing_nodes(subject)) is not None:
        yield CHECK.unknown(two, None, "one run")
    elif broken := subject.events_of("broken_file"):
        yield CHECK.unknown(broken[0].message, None, expected, broken[0].source)
    elif unread is not None:
        yield CHECK.unknown(f"a step line could not be read: {unread.message}", None, expected, unread.source)
    elif len(back):
        row = int(back[0])
        message = f"step {steps[row]} comes after step {steps[row - 1]}: a restart, or two logs in one"
        yield CHECK.unknown(message, None, expected, subject.evidence_of_step(row))
    elif len(overlaps):
        row = int(overlaps[0])
        message = f"step {steps[row]} says it covers {covered[row]} steps, more than lie before it"
        yield CHECK.unknown(message, int(covered[row]), expected, subject.evidence_of_step(row))
    elif steps[0] > max(interval, int(covered[0])) and not _resumed(subject, before, interval):
        message = f"the record starts at step {steps[0]}; what came before is not known"
        yield CHECK.unknown(message, int(steps[0]), expected, subject.evidence_of_step(0))
    else:
        resumed = f", resumed after step {before:,}" if before > 0 and subject.events_of("resumed") else ""
        message = f"{len(steps):,} records, {expected}, none missing{resumed}"
        yield CHECK.passed(message, len(steps), expected, subject.evidence_of_step(-1))


def _recorded(steps: Whole, wanted: set[int]) -> set[int]:
    """Those of some steps that are in the record."""
    among, found = np.array(sorted(wanted), dtype=np.int64), set[int]()
    for part in blocks(len(steps)) if wanted else ():
        found.update(steps[part][np.isin(steps[part], among)].tolist())
    return found


def _ended_early(subject: Subject) -> tuple[str, int] | None:
    """A node whose own log ends before the run's does, by more than an interval."""
    last = int(subject.steps.step[-1])
    for name, table in subject.node_tables.items():
        if len(table) and int(table.step[-1]) + subject.log_interval < last:
            return name, int(table.step[-1])
    return None


def _differing_nodes(subject: Subject) -> str | None:
    """Nodes of one job report one loss; other losses at the same steps are another run's."""
    for name, table in subject.node_tables.items():
        _, ours, theirs = np.intersect1d(subject.steps.step, table.step, return_indices=True)
        mine, other = subject.steps.loss.values[ours], table.loss.values[theirs]
        far = np.flatnonzero(np.abs(other - mine) > _SAME_LOSS * np.abs(mine))
        if len(far) > len(mine) / 2:
            at, both = int(table.step[theirs[far[0]]]), f"{other[far[0]]:.4f} and {mine[far[0]]:.4f}"
            return f"the losses of {name} are not the run's (at step {at} {both}): two runs?"
    return None


def _counts_the_first_again(steps: Whole, covered: Whole) -> Mask:
    """Records after one that stands alone: Megatron's core 0.16 logs the first step by itself, and counts it again."""
    again = np.zeros(len(steps), dtype=np.bool_)
    again[1:] = (covered[:-1] == 1) & (np.diff(steps) == covered[1:] - 1)
    return again


def _resumed(subject: Subject, before: int, interval: int) -> bool:
    """Whether the log says that it took up a checkpoint where its record starts."""
    found = subject.events_of("resumed")
    return any(event.step is None or 0 <= before - event.step < interval for event in found)
