"""The thresholds were measured with another number of nodes.

Why: throughput per GPU falls as a job gets more nodes, so a threshold measured on 4 nodes is too high for 16.
Fix: measure them with this number of nodes.
"""

from steelyard.linting.rule import Case, Problems, Rule, Stated

RULE = Rule("SY504", "warning")


def check(case: Case) -> Problems:
    reading, nodes = case.reading, case.placement.nodes
    if reading.section != "multi_node" or reading.nodes_open:
        return
    stated, bounds = reading.config.get("nnodes"), [bound for bound in reading.bounds if not bound.example]
    made_for = int(stated.value) if stated is not None and not stated.assumed else reading.example_nodes
    if made_for is not None and bounds and made_for != nodes:
        message = f"the thresholds are for {made_for} nodes, but the job has {nodes}"
        fix = "measure them with this number of nodes"
        yield RULE.at(reading, Stated(made_for, bounds[0].path), message, fix, str(nodes))
