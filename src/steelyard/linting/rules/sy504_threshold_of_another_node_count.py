"""Thresholds that were made for another number of nodes.

Why: throughput a GPU falls with the nodes of a job, so a bound measured on four is not one for sixteen.
Fix: measure them at this node count.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem, Reading
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY504", "warning")


def check(case: Case) -> Iterator[Problem]:
    reading = case.reading
    if reading.section != "multi_node" or reading.nodes_open:
        return
    made_for = _made_for(reading)
    bounds = [bound for bound in reading.bounds if not bound.example]
    if made_for is not None and bounds and made_for != case.placement.nodes:
        yield RULE.at(
            reading,
            bounds[0].path,
            message=f"the thresholds were made for {made_for} nodes and the job has {case.placement.nodes}",
            fix="measure them at this node count",
            value=made_for,
            expected=str(case.placement.nodes),
        )


def _made_for(reading: Reading) -> int | None:
    """The file's own count where it states one, else the count of its examples."""
    stated = reading.config.get("nnodes")
    return int(stated.value) if stated is not None and not stated.assumed else reading.example_nodes
