"""The report of a comparison."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from steelyard.comparison import NAME_OF, Comparability, Comparison, Metric, Ruling
from steelyard.comparison.codes import sentence, shown
from steelyard.comparison.contract import Agreement, Clause
from steelyard.comparison.files import commands
from steelyard.comparison.headline import lines
from steelyard.comparison.phrases import listed
from steelyard.comparison.ratios import FIGURE_OF
from steelyard.experiment.policy import Effect
from steelyard.reporting.causes import causes, diagnoses, headline_evidence, refused
from steelyard.reporting.checks import checks_group
from steelyard.reporting.claims import disclaimers, word_and_tone, word_of
from steelyard.reporting.curve_explanation import explanations, problem, reduction_tables
from steelyard.reporting.curves import Curve, number, plots
from steelyard.reporting.learning_blocks import diagnosed_levels, learning_blocks
from steelyard.reporting.page import Answer, Block, Cell, Page, Table, Tone, typeset
from steelyard.reporting.provenance import provenance_table
from steelyard.reporting.ratio_panel import ratio_panels
from steelyard.reporting.run_page import EXPANDED, reproduce
from steelyard.reporting.sides import labeled, side_names, subject_line_of, summary_table, titles_of
from steelyard.verdict import Status

_MOST_NAMED = 3
"""Runs that a line names."""
_TONES = {
    Comparability.COMPARABLE: Tone.GOOD,
    Comparability.QUALIFIED: Tone.GOOD,
    Comparability.NOT_COMPARABLE: Tone.BAD,
    Comparability.UNKNOWN: Tone.UNSURE,
}


def comparison_page(made: Comparison) -> Page:
    runs = labeled(made)
    word, tone = word_and_tone(made)
    answered = lines(made)
    answers = [Answer(*word_of(line.metrics[0], made), typeset(str(line))) for line in answered]
    return Page(
        kind="comparison",
        title=" vs ".join(titles_of(made)),
        subject=subject_line_of(made),
        verdict=word,
        tone=tone,
        sentence=typeset(answered[0].detail if len(made.asked) == 1 and refused(made) else str(answered[0])),
        answers=answers if len(answers) > 1 else (),
        problem=problem(made),
        evidence=headline_evidence(made),
        reasons=list(_failed(made)),
        causes=causes(made),
        summary=summary_table(made),
        blocks=_blocks(made),
        commands=list(dict.fromkeys([*(reproduce(subject) for _, subject, _ in runs), *commands(made)])),
        banner=made.banner or "",
        commands_note=EXPANDED,
    )


def _blocks(made: Comparison) -> list[Block]:
    """Answers to what was asked first; what was not asked and the records behind it are folded."""
    names, runs = side_names(made), labeled(made)
    asked, others = ratio_panels(made)
    learning = [*learning_blocks(made), *reduction_tables(made)]
    sides = [int(at >= len(made.target.subjects)) for at in range(len(runs))]
    shades = [at if not side else at - len(made.target.subjects) for at, side in enumerate(sides)]
    curves = [
        Curve(label, subject, side, shade)
        for (label, subject, _), side, shade in zip(runs, sides, shades, strict=True)
        if len(subject.steps)
    ]
    drawn = plots(
        curves,
        names,
        list(diagnosed_levels(made)),
        made.convergence.status != "not_comparable",
        [verdict for _, _, verdict in runs],
    )
    explained = explanations(made)
    return [
        *asked,
        *(table for table in learning if not table.folded),
        *drawn[:1],
        *(block for block in explained if not block.folded),
        *drawn[1:],
        *(replace(points, folded=refused(made)) for points in disclaimers(made)),
        _differences(made),
        checks_group(runs),
        *others,
        *(block for block in (*learning, *explained) if block.folded),
        *diagnoses(made),
        _rulings(made),
        _contract(made.contract, names, "The whole contract", folded=True),
        provenance_table([(label, subject) for label, subject, _ in runs], sides, names),
    ]


def _failed(made: Comparison) -> Iterator[str]:
    """Runs with a verdict other than pass can be compared; then the report says so at the top, one line per cause."""
    runs = labeled(made)
    labels: dict[tuple[Status, tuple[str, ...]], list[str]] = {}
    for label, _, verdict in runs:
        if decisive := verdict.failed() or verdict.undecided():
            checks = tuple(dict.fromkeys(finding.check for finding in decisive))
            labels.setdefault((verdict.status, checks), []).append(label)
    for (status, checks), failing in labels.items():
        several = len(failing) > 1
        who = listed(failing) if len(failing) <= _MOST_NAMED else f"{len(failing)} of {len(runs)} runs"
        which = f"the {listed(checks)} check{'s' * (len(checks) > 1)}"
        if status == Status.FAIL:
            yield f"{who} fail{'s' * (not several)} {which}"
        else:
            yield f"the verdict of {who} is unknown: {which} had no data"


def _refusal(ruling: Ruling) -> str:
    return "refused" if ruling.status == Comparability.NOT_COMPARABLE else "unknown"


def _rulings(made: Comparison) -> Table:
    rows: list[list[str | Cell]] = []
    explained: list[Metric] = []
    for metric, ruling in made.comparable.items():
        ratio = made.ratios.get(metric)
        values = f"{number(ratio.target_figure)} and {number(ratio.baseline_figure)}" if ratio else ""
        asked = "yes" if metric in made.asked else ""
        same = next((other for other in explained if made.comparable[other].reasons == ruling.reasons), None)
        why = f"as {same.value}" if same and ruling.reasons else "; ".join(map(sentence, ruling.reasons))
        explained.append(metric)
        word = Cell(ruling.status.value.replace("_", " "), _TONES[ruling.status])
        value = f"{ratio.value:.4f}" if ratio else _refusal(ruling)
        value = "" if metric == Metric.CONVERGENCE else value
        rows.append([word, metric.value, asked, value, values, why])
    figures = ", ".join(f"{metric.value}: {figure}" for metric, figure in FIGURE_OF.items())
    columns = ["status", "metric", "asked", "ratio", " and ".join(side_names(made)), "why"]
    look = f" Look {made.look} at a growing set of runs." if made.look > 1 else ""
    return Table("Comparable metrics", columns, rows, f"Values are {figures}. Mode: {made.mode}.{look}", folded=True)


def _differences(made: Comparison) -> Table:
    """Settings that differ or are known for one side only; those that are unknown for both are counted."""
    uneven = [clause for clause in made.contract if clause.status != Agreement.EQUAL]
    known = [clause for clause in uneven if clause.status != Agreement.UNKNOWN or clause.unknown_of != "both"]
    table = _contract(known, side_names(made), "Settings that differ")
    if len(known) == len(uneven):
        return table
    rest = "" if table.rows else " All other settings are equal."
    count = len(uneven) - len(known)
    return replace(table, note=f"{count} more settings are unknown for both sides (see the whole contract).{rest}")


def _contract(clauses: Sequence[Clause], names: Sequence[str], title: str, folded: bool = False) -> Table:
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
    note = "" if rows else "None: all settings of the contract are equal."
    return Table(title, ["status", "setting", *names, "effect of a difference"], rows, note, folded)


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
    return "; ".join(clauses) or "none"
