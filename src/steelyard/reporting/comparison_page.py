"""The report of a comparison."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from steelyard.comparison import NAME_OF, Comparability, Comparison, Metric, Ruling
from steelyard.comparison.codes import sentence, shown
from steelyard.comparison.contract import Agreement, Clause
from steelyard.comparison.files import commands
from steelyard.comparison.ratios import FIGURE_OF
from steelyard.experiment.policy import Effect
from steelyard.reporting.claims import DEFINITIONS, answers, disclaimers, labelled, title, together
from steelyard.reporting.curves import Curve, curves, number
from steelyard.reporting.learning_blocks import as_sentence, diagnosed_levels, learning_blocks
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


def comparison_page(made: Comparison) -> Page:
    given = answers(made)
    whole, runs = together(made, given), list(labelled(made))
    targets = made.target.subjects
    drawn = [Curve(label, run, 0 if run in targets else 1) for label, run, _ in runs if len(run.steps)]
    return Page(
        kind="comparison",
        title=title(made),
        verdict=whole.word,
        tone=whole.tone,
        sentence=whole.sentence,
        reasons=[*_reasons(made), *_failed(made)],
        tiles=[_tile(made, metric) for metric in NAME_OF],
        charts=curves(drawn, list(diagnosed_levels(made))),
        before=[*ratio_panel(made), *learning_blocks(made)],
        tables=[
            *disclaimers(made),
            _rulings(made),
            _differences(made),
            _contract(made.contract, "The whole contract", folded=True),
            *(
                findings_table(verdict, f"Findings: {label}, {verdict.status}", verdict.status == Status.PASS)
                for label, _, verdict in runs
            ),
            *(provenance_table(subject, True, f"Provenance: {label}") for label, subject, _ in runs),
        ],
        commands=list(dict.fromkeys([*(reproduce(subject) for _, subject, _ in runs), *commands(made)])),
        answers=given if len(given) > 1 else (),
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
        if decisive := verdict.failed() or verdict.undecided():
            checks = ", ".join(finding.check for finding in decisive)
            yield f"the verdict of the {label} is {verdict.status}: {checks}"


def _tile(made: Comparison, metric: Metric) -> Tile:
    ratio, ruling = made.ratios[metric], made.comparable[metric]
    if ratio is None:
        reason = sentence(ruling.reasons[0]) if ruling.reasons else ""
        return Tile(TITLES[metric], _refusal(ruling), "", reason, _TONES[ruling.status])
    around = ""
    if ratio.low is not None and ratio.high is not None:
        around = f"; {ratio.level:.0%} interval {ratio.low:.4f} to {ratio.high:.4f}, {ratio.method}"
    notes = "".join(f" But {note.message}." for note in ratio.notes)
    basis = f"{as_sentence(DEFINITIONS[metric])} {as_sentence(f'{ratio.words}{around}')}{notes}"
    if ratio.forced:
        refused = f"Refused: {sentence(ruling.reasons[0])}. {basis}"
        return Tile(TITLES[metric], f"{ratio.value:.4f}", "FORCED", refused, Tone.BAD)
    return Tile(TITLES[metric], f"{ratio.value:.4f}", "", basis)


def _refusal(ruling: Ruling) -> str:
    return "refused" if ruling.status == Comparability.NOT_COMPARABLE else "unknown"


def _rulings(made: Comparison) -> Table:
    rows: list[list[str | Cell]] = []
    explained: list[Metric] = []
    for metric, ruling in made.comparable.items():
        ratio = made.ratios.get(metric)
        figures = f"{number(ratio.target_figure)} and {number(ratio.baseline_figure)}" if ratio else ""
        asked = "yes" if metric in made.asked else ""
        same = next((other for other in explained if made.comparable[other].reasons == ruling.reasons), None)
        why = f"as {same.value}" if same and ruling.reasons else "; ".join(map(sentence, ruling.reasons))
        explained.append(metric)
        word = Cell(ruling.status.value.replace("_", " "), _TONES[ruling.status])
        value = f"{'FORCED ' if ratio.forced else ''}{ratio.value:.4f}" if ratio else _refusal(ruling)
        value = "" if metric == Metric.CONVERGENCE else value
        rows.append([word, metric.value, asked, value, figures, why])
    names = ", ".join(f"{metric.value}: {figure}" for metric, figure in FIGURE_OF.items())
    columns = ["status", "metric", "asked", "ratio", "target and baseline", "why"]
    return Table("What may be compared", columns, rows, f"Figures are {names}. Mode: {made.mode}.")


def _differences(made: Comparison) -> Table:
    """What differs or is known of one side alone; what nobody knows is a count."""
    uneven = [clause for clause in made.contract if clause.status != Agreement.EQUAL]
    known = [clause for clause in uneven if clause.status != Agreement.UNKNOWN or clause.unknown_of != "both"]
    table = _contract(known, "Where the sides differ")
    if len(known) == len(uneven):
        return table
    rest = "" if table.rows else ", and every other parameter is equal"
    count = f"{len(uneven) - len(known)} parameters are not known of either side"
    return replace(table, note=f"{count}; they are in the whole contract below{rest}.")


def _contract(clauses: Sequence[Clause], title: str, folded: bool = False) -> Table:
    tones = {Agreement.EQUAL: Tone.GOOD, Agreement.DIFFERENT: Tone.BAD, Agreement.UNKNOWN: Tone.UNSURE}
    rows: list[list[str | Cell]] = []
    for clause in clauses:
        tone = tones[clause.status] if clause.governs else Tone.PLAIN
        known = clause.status != Agreement.UNKNOWN
        values = [
            (shown(value) if known or value is not None else "unknown") + (f" ({source})" if source else "")
            for value, source in ((clause.target, clause.target_source), (clause.baseline, clause.baseline_source))
        ]
        rows.append([Cell(clause.status.value, tone), clause.dotted, *values, _governs(clause)])
    note = "" if rows else "In nothing: every parameter of the contract is equal."
    return Table(title, ["status", "parameter", "target", "baseline", "a difference"], rows, note, folded)


def _governs(clause: Clause) -> str:
    """What a difference does: `blocks every ratio; qualifies convergence`."""
    effects: dict[Effect, list[Metric]] = {}
    for metric, effect in clause.governs.items():
        effects.setdefault(effect, []).append(metric)
    clauses = []
    for effect, metrics in effects.items():
        names = ["every ratio"] if set(NAME_OF) <= set(metrics) else []
        names += [metric.value for metric in metrics if not names or metric not in NAME_OF]
        clauses.append(f"{effect.value} {' and '.join(names)}")
    return "; ".join(clauses) or "is free"
