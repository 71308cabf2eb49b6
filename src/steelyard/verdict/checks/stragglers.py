"""No node is slower than the others. Only a clearly slow node fails the run."""

from steelyard.accounting.stragglers import CLEARLY, LEAST_FACTOR, stragglers
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("stragglers")
SLOW_NODES = Code("slow_nodes", lambda nodes, **_: "; ".join(node.words() for node in nodes))
"""At least one node is slower per step than the others."""
NODES_CLEARLY_SLOW = Code("nodes_clearly_slow", lambda nodes, **_: "; ".join(node.words() for node in nodes))
"""At least one of four nodes or more is over 10% and three robust standard deviations slower than their median."""
SLOW_RANK = Code("slow_rank", "{text}")
"""At least one rank is slower per step than the others."""
NODES_EVEN = Code("nodes_even", "none of {nodes} nodes is slower than the others")
"""No node is slower per step than the others."""
SINGLE_NODE_REPORTS = Code("single_node_reports", "step times of a single node only")
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
    if clearly := tuple(node for node in slow if node.clearly):
        yield CHECK.failed(NODES_CLEARLY_SLOW, clearly[0].factor, f"<= {1 / (1 - CLEARLY):.3g}", nodes=clearly)
    elif slow:
        yield CHECK.unknown(SLOW_NODES, slow[0].factor, f"<= {LEAST_FACTOR}", nodes=tuple(slow))
    elif by_rank:
        yield CHECK.unknown(SLOW_RANK, None, f"<= {LEAST_FACTOR}", by_rank[0].source, text=by_rank[0].message)
    elif len(times) > 1:
        yield CHECK.passed(NODES_EVEN, nodes=len(times))
    else:
        yield CHECK.not_applicable(SINGLE_NODE_REPORTS)
