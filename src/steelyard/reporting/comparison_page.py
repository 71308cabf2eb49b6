"""The report of a comparison."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from steelyard import __version__
from steelyard.comparison import NAME_OF, Comparability, Comparison, Metric
from steelyard.comparison.codes import sentence, shown
from steelyard.comparison.contract import Agreement, Clause
from steelyard.comparison.files import commands
from steelyard.comparison.ratios import FIGURE_OF, Ratio
from steelyard.experiment.policy import Effect
from steelyard.reporting.answers import answers, together
from steelyard.reporting.curves import Curve, curves, number
from steelyard.reporting.disclaimers import disclaimers
from steelyard.reporting.labels import labelled, title
from steelyard.reporting.learning_blocks import diagnosed_levels, learning_blocks
from steelyard.reporting.page import Cell, Page, Table, Tile, Tone
from steelyard.reporting.ratio_panel import TITLES, ratio_panel
from steelyard.reporting.run_page import findings_table, provenance_table, reproduce
from steelyard.verdict import Status

_TONES = {
    Comparability.COMPARABLE: Tone.GOOD,
    Comparability.QUALIFIED: Tone.GOOD,
    Comparability.NOT_COMPARABLE: Tone.BAD,
    Comparability.UNKNOWN: Tone.UNSURE,
}
_DEFINITIONS = {
    Metric.THROUGHPUT: "Tokens/s a GPU, target over baseline",
    Metric.MEMORY: "Peak memory, baseline over target",
    Metric.FLOPS: "MFU, target over baseline",
}


def comparison_page(made: Comparison) -> Page:
    found = answers(made)
    whole = together(made, found)
    runs = [
        Curve(label, subject, 0 if subject in made.target.subjects else 1)
        for label, subject, _ in labelled(made)
        if len(subject.steps)
    ]
    return Page(
        kind="comparison",
        title=title(made),
        verdict=whole.word,
        tone=whole.tone,
        sentence=whole.sentence,
        reasons=[*_reasons(made), *_failed(made)],
        tiles=[_tile(made, metric) for metric in NAME_OF],
        charts=curves(runs, list(diagnosed_levels(made))),
        before=[*ratio_panel(made), *learning_blocks(made)],
        tables=[
            *disclaimers(made),
            _rulings(made),
            _differences(made),
            contract_table(made.contract, "The whole contract", folded=True),
            *(
                findings_table(verdict, f"Findings: {label}, {verdict.status}", verdict.status == Status.PASS)
                for label, _, verdict in labelled(made)
            ),
            *(provenance_table(subject, True, f"Provenance: {label}") for label, subject, _ in labelled(made)),
        ],
        commands=list(dict.fromkeys([*(reproduce(subject) for _, subject, _ in labelled(made)), *commands(made)])),
        made_by=f"steelyard {__version__}",
        answers=found if len(found) > 1 else (),
        banner=made.banner or "",
    )


def _reasons(made: Comparison) -> list[str]:
    """What decides each ruling, but for the first reason, which its answer gives; the others are in the table."""
    decisive: dict[str, None] = {}
    firsts: set[str] = set()
    for metric in made.asked:
        ruling = made.comparable[metric]
        if ruling.status != Comparability.QUALIFIED:
            firsts.update(map(sentence, ruling.reasons[:1]))
        decisive |= dict.fromkeys(map(sentence, ruling.decisive))
    return [text for text in decisive if text not in firsts]


def _failed(made: Comparison) -> Iterator[str]:
    """A comparison may hold of runs that do not pass; then that stands at the top."""
    for label, _, verdict in labelled(made):
        decisive = verdict.failed() or verdict.undecided()
        if decisive:
            checks = ", ".join(finding.check for finding in decisive)
            yield f"the verdict of the {label} is {verdict.status}: {checks}"


def _tile(made: Comparison, metric: Metric) -> Tile:
    ratio, ruling = made.ratios[metric], made.comparable[metric]
    if ratio is None:
        tone = _TONES[ruling.status]
        word = "refused" if ruling.status == Comparability.NOT_COMPARABLE else "unknown"
        return Tile(TITLES[metric], word, "", sentence(ruling.reasons[0]) if ruling.reasons else "", tone)
    note = f"{_DEFINITIONS[metric]}. {ratio_note(ratio)}"
    if ratio.forced:
        refused = f"Refused: {sentence(ruling.reasons[0])}. {note}"
        return Tile(TITLES[metric], f"{ratio.value:.4f}", "FORCED", refused, Tone.BAD)
    return Tile(TITLES[metric], f"{ratio.value:.4f}", "", note)


def ratio_note(ratio: Ratio) -> str:
    """What a ratio rests on, in words."""
    words = ratio.words[0].upper() + ratio.words[1:]
    around = ""
    if ratio.low is not None and ratio.high is not None:
        around = f"; {ratio.level:.0%} interval {ratio.low:.4f} to {ratio.high:.4f}, {ratio.method}"
    return f"{words}{around}." + "".join(f" But {note.message}." for note in ratio.notes)


def _rulings(made: Comparison) -> Table:
    rows: list[list[str | Cell]] = []
    said: list[Metric] = []
    for metric, ruling in made.comparable.items():
        ratio = made.ratios.get(metric)
        figures = f"{number(ratio.target_figure)} and {number(ratio.baseline_figure)}" if ratio else ""
        asked = "yes" if metric in made.asked else ""
        same = next((one for one in said if made.comparable[one].reasons == ruling.reasons and ruling.reasons), None)
        why = f"as {same.value}" if same else "; ".join(map(sentence, ruling.reasons))
        said.append(metric)
        word = Cell(ruling.status.value.replace("_", " "), _TONES[ruling.status])
        refused = "refused" if ruling.status == Comparability.NOT_COMPARABLE else "unknown"
        value = f"{'FORCED ' if ratio.forced else ''}{ratio.value:.4f}" if ratio else refused
        if metric == Metric.CONVERGENCE:
            value = ""
        rows.append([word, metric.value, asked, value, figures, why])
    names = ", ".join(f"{metric.value}: {figure}" for metric, figure in FIGURE_OF.items())
    return Table(
        "What may be compared",
        ["status", "metric", "asked", "ratio", "target and baseline", "why"],
        rows,
        f"Figures are {names}. Mode: {made.mode}.",
    )


def _differences(made: Comparison) -> Table:
    """What differs or is known of one side alone; what nobody knows is a count."""
    open_ = [one for one in made.contract if one.status == Agreement.UNKNOWN and one.unknown_of == "both"]
    found = contract_table(
        [one for one in made.contract if one.status != Agreement.EQUAL and one not in open_], "Where the sides differ"
    )
    if not open_:
        return found
    rest = "every other parameter is equal" if not found.rows else ""
    count = f"{len(open_)} parameters are not known of either side; they are in the whole contract below"
    return replace(found, note=f"{count}{f', and {rest}' if rest else ''}.")


def contract_table(clauses: Sequence[Clause], title: str, folded: bool = False) -> Table:
    tones = {Agreement.EQUAL: Tone.GOOD, Agreement.DIFFERENT: Tone.BAD, Agreement.UNKNOWN: Tone.UNSURE}
    rows: list[list[str | Cell]] = []
    for clause in clauses:
        tone = tones[clause.status] if clause.governs else Tone.PLAIN
        known = clause.status != Agreement.UNKNOWN
        values = [
            (shown(value) if known or value is not None else "unknown") + (f" ({source})" if source else "")
            for value, source in (
                (clause.target, clause.target_source),
                (clause.baseline, clause.baseline_source),
            )
        ]
        rows.append([Cell(clause.status.value, tone), clause.dotted, *values, _governs(clause)])
    note = "" if rows else "In nothing: every parameter of the contract is equal."
    return Table(title, ["status", "parameter", "target", "baseline", "a difference"], rows, note, folded)


def _governs(clause: Clause) -> str:
    """What a difference does: `blocks every ratio; qualifies convergence`."""
    effects: dict[Effect, list[Metric]] = {}
    for metric, effect in clause.governs.items():
        effects.setdefault(effect, []).append(metric)
    told = []
    for effect, metrics in effects.items():
        names = ["every ratio"] if set(NAME_OF) <= set(metrics) else []
        names += [metric.value for metric in metrics if not names or metric not in NAME_OF]
        told.append(f"{effect.value} {' and '.join(names)}")
    return "; ".join(told) or "is free"
