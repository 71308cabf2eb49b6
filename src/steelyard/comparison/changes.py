"""Settings that changed amid a run, as one that was resumed with others says: its figures are of two jobs."""

from collections.abc import Iterator

import numpy as np

from steelyard.comparison.policy import POLICY, STATED, Effect, Metric
from steelyard.comparison.side import Side
from steelyard.records import Event
from steelyard.records.columns import Mask
from steelyard.verdict import Subject

_TOLD_BY_STEP = ("training.global_batch_size", "training.sequence_length", "training.steps")
"""What a schedule may change: every step tells its own tokens, and the rates that it learns at."""
_OF_THE_WINDOW = (Metric.THROUGHPUT, Metric.FLOPS)
_EFFECTS = {**{dotted.partition(".")[2]: effects for dotted, effects in STATED.items()}, **POLICY}


def changes(metric: Metric, side: Side) -> Iterator[tuple[Effect, str]]:
    """What each change does to a comparison, where the steps that it rests on stand on both sides of the change."""
    for subject in side.subjects:
        for key, event in subject.changed_settings:
            effect = None if key in _TOLD_BY_STEP else _EFFECTS.get(key, {}).get(metric)
            if effect is not None and _amid(subject, event, metric):
                yield effect, f"by its own figures of {side.called} ({subject.run.directory.name}) {event.message}"


def _amid(subject: Subject, event: Event, metric: Metric) -> bool:
    """Whether steps that count were made before it, and others after."""
    steps = subject.steps
    if event.source is None or event.source.file not in steps.source_files:
        return False
    here = steps.source_file == steps.source_files.index(event.source.file)
    after = steps.step[here & (steps.source_line > event.source.line)]
    if not len(after):
        return False
    counted: Mask = subject.figures.window.mask if metric in _OF_THE_WINDOW else np.ones(len(steps), dtype=np.bool_)
    before = steps.step[counted] < after.min()
    return bool(before.any() and not before.all())
