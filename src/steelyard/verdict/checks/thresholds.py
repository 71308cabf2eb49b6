"""Every threshold, checked on the steady window."""

from steelyard.experiment.thresholds import COMPUTED, REPORTED, Direction, Threshold, parse_threshold
from steelyard.reasons import Code
from steelyard.verdict.figures import Figure, Figures
from steelyard.verdict.finding import Check, Result, Results
from steelyard.verdict.subject import Subject


def _sentence(
    observed: float, expected: str, metric: str, how: str, nodes: int, computed: float | None, **_: object
) -> str:
    ours = "" if computed is None else f"; {computed:,.6g} by our causal formula"
    return f"{metric} = {observed:,.6g}{how}{f' over {nodes} nodes' if nodes else ''}, threshold {expected}{ours}"


THRESHOLD_MET = Code("threshold_met", _sentence)
"""The metric meets the threshold."""
THRESHOLD_MISSED = Code("threshold_missed", _sentence)
"""The metric does not meet the threshold."""
THRESHOLD_MISSED_ON_NODE = Code(
    "threshold_missed_on_node", "{metric} = {observed:,.6g} on {node}, threshold {expected}"
)
"""The metric of one node does not meet the threshold."""
THRESHOLD_METRIC_UNKNOWN = Code("threshold_metric_unknown", "{metric} unknown: {why.message}")
"""The metric of the threshold is unknown, for the reason shown."""
THRESHOLD_OF_OTHER_NODES = Code(
    "threshold_of_other_nodes", "threshold is for {nodes:g} nodes, the run used {observed}; pass it with --threshold"
)
"""The threshold was set for a different number of nodes."""


def check(subject: Subject) -> Results:
    for text in subject.thresholds:
        yield _judge(subject, text, parse_threshold(text))


def _judge(subject: Subject, text: str, threshold: Threshold) -> Result:
    check = Check(f"threshold {text}", required=True)
    metric, figure = threshold.metric, _figure(subject.figures, threshold.metric)
    tolerance = f" +- {threshold.tolerance_percent:g}%" if threshold.tolerance_percent is not None else ""
    bound = f"{threshold.direction} {threshold.value:.15g}{tolerance}"
    made_for, ran_on = subject.expected("threshold_nodes"), subject.run.manifest.platform.nodes
    if made_for and ran_on and made_for != ran_on and text not in subject.extra_thresholds:
        expected = f"{made_for:g} nodes"
        return check.unknown(THRESHOLD_OF_OTHER_NODES, ran_on, expected, figure.evidence, nodes=made_for)
    if figure.value is None:
        return check.unknown(THRESHOLD_METRIC_UNKNOWN, None, bound, figure.evidence, metric=metric, why=figure.reason)
    for node, figures in subject.figures_by_node.items():
        value = _figure(figures, metric).value
        if value is not None and not _holds(threshold, value):
            return check.failed(THRESHOLD_MISSED_ON_NODE, value, bound, figure.evidence, metric=metric, node=node)
    holds, codes = _holds(threshold, figure.value), (THRESHOLD_MET, THRESHOLD_MISSED)
    computed = subject.figures.tflops_per_gpu if metric == REPORTED and figure.reported else None
    ours = None if computed is None or computed.reported else computed.value
    values = {"metric": metric, "nodes": len(subject.figures_by_node), "computed": ours}
    return check.judged(holds, codes, figure.value, bound, figure.evidence, how=_how(subject, metric, figure), **values)


def _figure(figures: Figures, metric: str) -> Figure:
    """A metric; TFLOP/s by our formula where the framework prints none."""
    reported = figures.metric(metric)
    return figures.metric(COMPUTED) if metric == REPORTED and reported.value is None else reported


def _how(subject: Subject, metric: str, figure: Figure) -> str:
    """How a figure was measured, where that matters."""
    if metric == REPORTED:
        return "" if figure.reported else " (by our causal formula; the log reports none)"
    if metric == "memory_peak_gib" and subject.figures.memory_kind:
        return f" ({subject.figures.memory_kind})"
    return " (reported)" if figure.reported else ""


def _holds(threshold: Threshold, value: float) -> bool:
    if threshold.direction == Direction.WITHIN:
        assert threshold.tolerance_percent is not None
        return abs(value - threshold.value) <= threshold.tolerance_percent / 100 * threshold.value
    return value >= threshold.value if threshold.direction == Direction.AT_LEAST else value <= threshold.value
