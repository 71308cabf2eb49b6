"""One measure of memory for both sides: the peak of each GPU by telemetry, which no framework's own count affects."""

from dataclasses import replace

from steelyard.comparison.side import Side
from steelyard.verdict import Subject

KIND = "device_by_telemetry"


def on_one_measure(sides: tuple[Side, Side]) -> tuple[Side, Side]:
    """The sides with device memory, if telemetry of every run covers exactly its GPUs; else as they are."""
    if any(_peak_gib(subject) is None for side in sides for subject in side.subjects):
        return sides
    target, baseline = (replace(side, subjects=tuple(map(_measured, side.subjects))) for side in sides)
    return target, baseline


def _measured(subject: Subject) -> Subject:
    peak = _peak_gib(subject)
    return subject if peak is None else replace(subject, memory_gib=(peak, KIND))


def _peak_gib(subject: Subject) -> float | None:
    return subject.gpu_telemetry.memory_gib if subject.gpu_telemetry is not None else None
