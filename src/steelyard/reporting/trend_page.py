"""The report of a metric over the runs of one experiment."""

import shlex
from collections.abc import Sequence

from steelyard.campaign.trend import Trend
from steelyard.reporting.curves import number
from steelyard.reporting.page import Cell, Chart, Line, Page, Table, Tone

_TONES = {"pass": Tone.GOOD, "fail": Tone.BAD, "unknown": Tone.UNSURE}


def sentence(trend: Trend) -> str:
    """First, last and range of the runs that are alike."""
    alike = [point.value for point in trend.alike() if point.value is not None]
    if not alike:
        return f"No run gives its {trend.metric}."
    change = f", {alike[-1] / alike[0] - 1:+.2%}" if len(alike) > 1 else ""
    apart = len(trend.points) - len(alike)
    others = f" {apart} more, of another job or without a value, left out." if apart else ""
    return (
        f"{trend.metric} of {len(alike)} like runs: {number(alike[0])} at first, {number(alike[-1])} at last{change}; "
        f"lowest {number(min(alike))}, highest {number(max(alike))}.{others} It has no interval and is no comparison."
    )


def trend_page(trend: Trend, words: Sequence[str]) -> Page:
    """`words` is the command that made it."""
    inside = [(at, point.value) for at, point in enumerate(trend.points, start=1) if point in trend.alike()]
    line = Line(trend.experiment, [at for at, _ in inside], [value for _, value in inside])
    known = [(at, point.value) for at, point in enumerate(trend.points, start=1) if point.value is not None]
    numbers = Table("In numbers", ["run", trend.metric], [[str(at), number(value)] for at, value in known])
    chart = Chart(trend.metric, "by run", sentence(trend), [line], numbers, x_name="run")
    return Page(
        kind="trend",
        title=f"{trend.metric} over runs of {trend.experiment}",
        verdict=f"{len(trend.points)} run{'s' * (len(trend.points) != 1)}",
        tone=Tone.NOTE,
        sentence=sentence(trend),
        reasons=(),
        tiles=(),
        charts=[chart] if len(inside) > 1 else [],
        tables=[_table(trend)],
        commands=[shlex.join(words)],
    )


def _table(trend: Trend) -> Table:
    rows: list[list[str | Cell]] = []
    for at, point in enumerate(trend.points, start=1):
        word = point.verdict or "not judged"
        value = point.reason or "unknown" if point.value is None else number(point.value)
        differs = f"another job: {point.differs_in}" if point.differs else ""
        judged = Cell(word, _TONES.get(word, Tone.PLAIN))
        if point.spread is not None:
            value = f"{value} ({point.spread.words})"
        rows.append(
            [str(at), point.run.name, point.platform, point.started[:19].replace("T", " "), judged, value, differs]
        )
    columns = ["number", "run", "platform", "started", "verdict", trend.metric, "differs from the latest in"]
    return Table("Runs", columns, rows)
