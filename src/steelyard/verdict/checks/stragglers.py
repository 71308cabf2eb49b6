"""No node is slower than the others of its job; one that is gets named, and fails nothing: a threshold does that."""

from collections.abc import Iterator

from steelyard.accounting.stragglers import LEAST_FACTOR, stragglers
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("stragglers")


def check(subject: Subject) -> Iterator[Found]:
    by_rank = [event for event in subject.events_of("nodes_differ") if "rank" in event.details]
    figures = subject.figures_by_node
    times = {
        name: (table.step[steady], table.step_time_s.values[steady])
        for name, table in subject.node_tables.items()
        for steady in [figures[name].window.mask]
    }
    found = stragglers(times)
    if found:
        message = "; ".join(one.words() for one in found)
        yield CHECK.unknown(message, found[0].factor, f"<= {LEAST_FACTOR}")
    elif by_rank:
        yield CHECK.unknown(by_rank[0].message, None, f"<= {LEAST_FACTOR}", by_rank[0].source)
    elif len(times) > 1:
        yield CHECK.passed(f"none of {len(times)} nodes that report is slower than the others")
    else:
        yield CHECK.not_applicable("one node speaks for the run")
