"""Thresholds that were made for another number of nodes.

Why: throughput a GPU falls with the nodes of a job, so a bound measured on four is not one for sixteen.
Fix: measure them at this node count.
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
        message = f"the thresholds were made for {made_for} nodes and the job has {nodes}"
        fix = "measure them at this node count"
        yield RULE.at(reading, Stated(made_for, bounds[0].path), message, fix, str(nodes))
