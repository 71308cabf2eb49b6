"""No node is slower than the others of its job; one that is gets named, and fails nothing: a threshold does that."""

from steelyard.accounting.stragglers import LEAST_FACTOR, stragglers
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("stragglers")
SLOW_NODES = Code("slow_nodes", lambda nodes, **_: "; ".join(node.words() for node in nodes))
"""At least one node is slower per step than the others."""
SLOW_RANK = Code("slow_rank", "{text}")
"""At least one rank is slower per step than the others."""
NODES_EVEN = Code("nodes_even", "none of {nodes} nodes that report is slower than the others")
"""No node is slower per step than the others."""
SINGLE_NODE_REPORTS = Code("single_node_reports", "one node speaks for the run")
"""Only one node reports step times, so nodes cannot be compared."""


def check(subject: Subject) -> Results:
    by_rank = [event for event in subject.events_of("nodes_differ") if "rank" in event.details]
    figures = subject.figures_by_node
    times = {
        name: (table.step[steady], table.step_time_s.values[steady])
        for name, table in subject.node_tables.items()
        for steady in [figures[name].window.mask]
    }
    slow = stragglers(times)
    if slow:
        yield CHECK.unknown(SLOW_NODES, slow[0].factor, f"<= {LEAST_FACTOR}", nodes=tuple(slow))
    elif by_rank:
        yield CHECK.unknown(SLOW_RANK, None, f"<= {LEAST_FACTOR}", by_rank[0].source, text=by_rank[0].message)
    elif len(times) > 1:
        yield CHECK.passed(NODES_EVEN, nodes=len(times))
    else:
        yield CHECK.not_applicable(SINGLE_NODE_REPORTS)
