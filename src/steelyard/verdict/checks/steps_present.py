"""The record has no gaps, by the log's own interval."""

from typing import Any

import numpy as np

from steelyard.accounting.arrays import Mask, Whole, blocks
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("steps_present", required=True)
_SAME_LOSS = 0.05

STEPS_COMPLETE = Code(
    "steps_complete",
    lambda observed, expected, resumed, **_: (
        f"{observed:,} records, {expected}, no gaps{'' if resumed is None else f', resumed after step {resumed:,}'}"
    ),
)
"""The record has no gaps, by the log's own interval."""
NO_STEPS = Code("no_steps", "no steps recorded")
"""The record contains no steps."""
NO_STEP_DUE = Code(
    "no_step_due", "no step logged: the log interval is {interval} steps, and the run has {planned:,}; log more often"
)
"""The log interval is longer than the run, so its log contains no step."""
STEPS_MISSING = Code(
    "steps_missing",
    lambda before, step, expected, gaps, **_: (
        f"step {step:,} follows step {before:,}, expected {expected}{f'; {gaps - 1} more gaps' if gaps > 1 else ''}"
    ),
)
"""The record has a gap of one or more steps."""
NODE_ENDS_EARLY = Code("node_ends_early", "log of {node} ends at step {observed:,}, the run at step {expected:,}")
"""The log of one node ends before the log of the run."""
NODES_OF_TWO_RUNS = Code(
    "nodes_of_two_runs",
    "losses of {node} differ from the run (step {step:,}: {of_node:.5g} and {of_run:.5g}); are the logs from two runs?",
)
"""The losses of one node differ from those of the run, as if the logs came from two runs."""
FILE_BROKEN = Code("file_broken", "{text}")
"""A file of the run could not be read to its end."""
STEP_LINE_UNREAD = Code("step_line_unread", "unreadable step line: {text}")
"""A step line of the log could not be read."""
STEPS_OUT_OF_ORDER = Code(
    "steps_out_of_order", "step {step:,} follows step {before:,}: a restart, or two logs in one file"
)
"""Step numbers go back: the run restarted, or the log contains two runs."""
RECORDS_OVERLAP = Code("records_overlap", "record at step {step:,} covers {observed} steps, more than precede it")
"""A record covers more steps than there are before it."""
FIRST_STEPS_MISSING = Code("first_steps_missing", "record starts at step {observed:,}, earlier steps not recorded")
"""The record starts after step 1, and the log does not show that the run resumed from a checkpoint."""


def check(subject: Subject) -> Results:
    steps, covered, interval = subject.steps.step, subject.steps.steps_covered, subject.log_interval
    lost_lines = subject.events_of("unread_line")
    read = _recorded(steps, {event.step for event in lost_lines if event.step is not None})
    unread = next((event for event in lost_lines if event.step not in read), None)
    planned = subject.whole("training.steps")
    if not len(steps) and subject.run.status == "completed" and planned is not None and planned < interval:
        yield CHECK.unknown(NO_STEP_DUE, 0, planned, interval=interval, planned=planned)
        return
    if not len(steps):
        yield CHECK.failed(NO_STEPS, 0, planned, subject.evidence_of_manifest("status"))
        return
    before, checkpoints = int(steps[0] - covered[0]), subject.events_of("resumed")
    resumed = any(event.step is None or 0 <= before - event.step < interval for event in checkpoints)
    apart = np.diff(steps)
    expected = "every step" if interval == 1 else f"every {interval} steps"
    gaps = np.flatnonzero((apart > interval) & (apart > covered[1:])) + 1
    if unread is not None:  # a gap that contains an unreadable line is unknown, not missing
        lost = np.array([event.step or -1 for event in lost_lines])
        unclear = [((lost > steps[row - 1]) & (lost < steps[row])).any() for row in gaps]
        gaps = gaps[~np.array(unclear, dtype=np.bool_)]
    back = np.flatnonzero(apart <= 0) + 1
    overlaps = np.append(np.flatnonzero(covered[:1] > steps[:1]), np.flatnonzero(covered[1:] > apart) + 1)
    if len(overlaps):
        overlaps = overlaps[~_counts_the_first_again(steps, covered)[overlaps]]
    ends = ((node, int(table.step[-1])) for node, table in subject.node_tables.items() if len(table))
    ended_early = [(node, step) for node, step in ends if step + interval < steps[-1]]
    if len(gaps):
        values = {"gaps": len(gaps), "before": int(steps[gaps[0] - 1]), **subject.at(gaps[0])}
        yield CHECK.failed(STEPS_MISSING, f"{len(gaps)} gaps", expected, **values)
    elif ended_early:
        node, step = ended_early[0]
        yield CHECK.failed(NODE_ENDS_EARLY, step, int(steps[-1]), node=node)
    elif (differing := _differing_node(subject)) is not None:
        yield CHECK.unknown(NODES_OF_TWO_RUNS, None, "one run", **differing)
    elif broken := subject.events_of("broken_file"):
        yield CHECK.unknown(FILE_BROKEN, None, expected, broken[0].source, text=broken[0].message)
    elif unread is not None:
        yield CHECK.unknown(STEP_LINE_UNREAD, None, expected, unread.source, text=unread.message)
    elif len(back):
        previous = int(steps[back[0] - 1])
        yield CHECK.unknown(STEPS_OUT_OF_ORDER, None, expected, before=previous, **subject.at(back[0]))
    elif len(overlaps):
        yield CHECK.unknown(RECORDS_OVERLAP, int(covered[overlaps[0]]), expected, **subject.at(overlaps[0]))
    elif steps[0] > max(interval, int(covered[0])) and not resumed:
        yield CHECK.unknown(FIRST_STEPS_MISSING, int(steps[0]), expected, subject.evidence_of_step(0))
    else:
        after = before if before > 0 and checkpoints else None
        yield CHECK.passed(STEPS_COMPLETE, len(steps), expected, subject.evidence_of_step(-1), resumed=after)


def _recorded(steps: Whole, wanted: set[int]) -> set[int]:
    """The wanted steps that are in the record."""
    among, recorded = np.array(sorted(wanted), dtype=np.int64), set[int]()
    for part in blocks(len(steps)) if wanted else ():
        recorded.update(steps[part][np.isin(steps[part], among)].tolist())
    return recorded


def _differing_node(subject: Subject) -> dict[str, Any] | None:
    """The first node whose losses differ from the run's at most common steps: its log is from another run."""
    for name, table in subject.node_tables.items():
        common, run_rows, node_rows = np.intersect1d(subject.steps.step, table.step, return_indices=True)
        of_run, of_node = subject.steps.loss.values[run_rows], table.loss.values[node_rows]
        far = np.flatnonzero(np.abs(of_node - of_run) > _SAME_LOSS * np.abs(of_run))
        if len(far) > len(common) / 2:
            at = far[0]
            return {"node": name, "step": int(common[at]), "of_node": float(of_node[at]), "of_run": float(of_run[at])}
    return None


def _counts_the_first_again(steps: Whole, covered: Whole) -> Mask:
    """Records that count the step before again: Megatron core 0.16 logs the first step alone, then once more."""
    again = np.zeros(len(steps), dtype=np.bool_)
    again[1:] = (covered[:-1] == 1) & (np.diff(steps) == covered[1:] - 1)
    return again
