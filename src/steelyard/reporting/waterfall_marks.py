"""Places of the bars of a waterfall, as shares of its width. The axis is logarithmic, since factors multiply."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.reporting.interval_marks import Axis, axis_over, percent, ticks
from steelyard.reporting.page import Stage, WaterfallPlot


@dataclass(frozen=True, slots=True)
class DrawnStage:
    stage: Stage
    bar: tuple[str, str]
    """Start and width."""
    joint: str
    """Where the row above ends."""
    end: str
    span: tuple[str, str] | None
    low: str | None
    """None for a missing end, or one beyond the axis."""
    high: str | None


@dataclass(frozen=True, slots=True)
class DrawnWaterfall:
    ticks: Sequence[tuple[str, str]]
    stages: Sequence[DrawnStage]


def axis_of(plot: WaterfallPlot) -> Axis:
    figures = [place for stage in plot.stages for place in (stage.start, stage.end)]
    return axis_over(figures, [end for stage in plot.stages for end in (stage.low, stage.high) if end is not None])


def drawn(plot: WaterfallPlot) -> DrawnWaterfall:
    axis = axis_of(plot)
    labels = [(percent(axis.share(value)), text) for value, text in ticks(axis)]
    return DrawnWaterfall(labels, [_stage(stage, axis) for stage in plot.stages])


def _stage(stage: Stage, axis: Axis) -> DrawnStage:
    start, end = axis.share(stage.start), axis.share(stage.end)
    span = None
    if stage.low is not None and stage.high is not None:
        span = percent(axis.share(stage.low)), percent(axis.share(stage.high))
    bar = percent(min(start, end)), percent(abs(end - start))
    joint = percent(end if stage.is_total else start)
    return DrawnStage(stage, bar, joint, percent(end), span, axis.at(stage.low), axis.at(stage.high))
