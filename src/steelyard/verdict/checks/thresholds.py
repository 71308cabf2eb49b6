"""Every bound that was asked for, judged on the steady window in the direction it names."""

from collections.abc import Iterator

from steelyard.experiment.thresholds import Direction, Threshold, parse_threshold
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

PREFIX = "threshold "


def check(subject: Subject) -> Iterator[Found]:
    for text in subject.thresholds:
        yield _judge(subject, text, parse_threshold(text))


def _judge(subject: Subject, text: str, threshold: Threshold) -> Found:
    asked = Check(f"{PREFIX}{text}", required=True)
    figure = subject.figures.metric(threshold.metric)
    bound = _bound(threshold)
    made_for, ran_on = subject.expected("threshold_nodes"), subject.run.manifest.platform.nodes
    if made_for and ran_on and made_for != ran_on and text not in subject.extra_thresholds:
        message = f"the bound was made for {made_for:g} nodes, and the run had {ran_on}"
        return asked.unknown(message, ran_on, f"{made_for:g} nodes", figure.evidence)
    if figure.value is None:
        message = f"{threshold.metric} is not known: {figure.reason}"
        return asked.unknown(message, None, bound, figure.evidence)
    slowest = _worst_node(subject, threshold)
    if slowest is not None:
        node, value = slowest
        message = f"{threshold.metric} is {value:,.6g} on {node}, asked {bound}"
        return asked.failed(message, value, bound, figure.evidence)
    kind = subject.figures.memory_kind if threshold.metric == "memory_peak_gib" else None
    holds = _holds(threshold, figure.value)
    how = f" ({kind})" if kind else " (as reported)" if figure.reported else ""
    nodes = f" over {len(subject.figures_by_node)} nodes" if subject.figures_by_node else ""
    message = f"{threshold.metric} is {figure.value:,.6g}{how}{nodes}, asked {bound}"
    return asked.judged(holds, message, figure.value, bound, figure.evidence)


def _worst_node(subject: Subject, threshold: Threshold) -> tuple[str, float] | None:
    """The first node whose own figure does not keep the bound."""
    for node, figures in subject.figures_by_node.items():
        value = figures.metric(threshold.metric).value
        if value is not None and not _holds(threshold, value):
            return node, value
    return None


def _bound(threshold: Threshold) -> str:
    tolerance = f" +- {threshold.tolerance_percent:g}%" if threshold.tolerance_percent is not None else ""
    return f"{threshold.direction} {threshold.value:.15g}{tolerance}"


def _holds(threshold: Threshold, value: float) -> bool:
    match threshold.direction:
        case Direction.AT_LEAST:
            return value >= threshold.value
        case Direction.AT_MOST:
            return value <= threshold.value
        case Direction.WITHIN:
            assert threshold.tolerance_percent is not None
            return abs(value - threshold.value) <= threshold.tolerance_percent / 100 * threshold.value
