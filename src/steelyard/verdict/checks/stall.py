"""The run did not stand still."""

from collections.abc import Iterator

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("stall")


def check(subject: Subject) -> Iterator[Found]:
    stalls = subject.events_of("stall")
    if stalls:
        yield CHECK.failed(f"the run stalled: {stalls[0].message}", len(stalls), 0, stalls[0].source)
    else:
        yield CHECK.unknown("nothing watched the run for stalls", None, 0)
