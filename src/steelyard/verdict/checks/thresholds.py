"""Every bound that was asked for, judged on the steady window in the direction it names."""

from steelyard.experiment.thresholds import Direction, Threshold, parse_threshold
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Result, Results
from steelyard.verdict.subject import Subject


def _sentence(
    observed: float, expected: str, metric: str, kind: str | None, reported: bool, nodes: int, **_: object
) -> str:
    how = f" ({kind})" if kind else " (as reported)" if reported else ""
    return f"{metric} is {observed:,.6g}{how}{f' over {nodes} nodes' if nodes else ''}, asked {expected}"


THRESHOLD_MET = Code("threshold_met", _sentence)
"""The metric meets the threshold."""
THRESHOLD_MISSED = Code("threshold_missed", _sentence)
"""The metric does not meet the threshold."""
THRESHOLD_MISSED_ON_NODE = Code("threshold_missed_on_node", "{metric} is {observed:,.6g} on {node}, asked {expected}")
"""The metric of one node does not meet the threshold."""
THRESHOLD_METRIC_UNKNOWN = Code("threshold_metric_unknown", "{metric} is not known: {why.message}")
"""The metric of the threshold is unknown, for the reason shown."""
THRESHOLD_OF_OTHER_NODES = Code(
    "threshold_of_other_nodes", "the bound was made for {nodes:g} nodes, and the run had {observed}"
)
"""The threshold was set for a different number of nodes."""


def check(subject: Subject) -> Results:
    for text in subject.thresholds:
        yield _judge(subject, text, parse_threshold(text))


def _judge(subject: Subject, text: str, threshold: Threshold) -> Result:
    asked = Check(f"threshold {text}", required=True)
    metric, figure = threshold.metric, subject.figures.metric(threshold.metric)
    tolerance = f" +- {threshold.tolerance_percent:g}%" if threshold.tolerance_percent is not None else ""
    bound = f"{threshold.direction} {threshold.value:.15g}{tolerance}"
    made_for, ran_on = subject.expected("threshold_nodes"), subject.run.manifest.platform.nodes
    if made_for and ran_on and made_for != ran_on and text not in subject.extra_thresholds:
        expected = f"{made_for:g} nodes"
        return asked.unknown(THRESHOLD_OF_OTHER_NODES, ran_on, expected, figure.evidence, nodes=made_for)
    if figure.value is None:
        return asked.unknown(THRESHOLD_METRIC_UNKNOWN, None, bound, figure.evidence, metric=metric, why=figure.reason)
    for node, figures in subject.figures_by_node.items():
        value = figures.metric(metric).value
        if value is not None and not _holds(threshold, value):
            return asked.failed(THRESHOLD_MISSED_ON_NODE, value, bound, figure.evidence, metric=metric, node=node)
    holds, codes = _holds(threshold, figure.value), (THRESHOLD_MET, THRESHOLD_MISSED)
    kind = subject.figures.memory_kind if metric == "memory_peak_gib" else None
    values = {"metric": metric, "kind": kind, "reported": figure.reported, "nodes": len(subject.figures_by_node)}
    return asked.judged(holds, codes, figure.value, bound, figure.evidence, **values)


def _holds(threshold: Threshold, value: float) -> bool:
    if threshold.direction == Direction.WITHIN:
        assert threshold.tolerance_percent is not None
        return abs(value - threshold.value) <= threshold.tolerance_percent / 100 * threshold.value
    return value >= threshold.value if threshold.direction == Direction.AT_LEAST else value <= threshold.value
