"""The report of a comparison."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard import __version__
from steelyard.compare import NAME_OF, Agreement, Clause, Comparability, Comparison, Effect, Metric
from steelyard.compare.contract import shown
from steelyard.compare.ratios import FIGURE_OF, Ratio
from steelyard.records import unstamped
from steelyard.report.curves import Curve, curves, number
from steelyard.report.page import Cell, Page, Table, Tile, Tone
from steelyard.report.run_page import findings_table, provenance_table, reproduce
from steelyard.verdict import Status, Subject, Verdict

_TONES = {
    Comparability.COMPARABLE: Tone.GOOD,
    Comparability.QUALIFIED: Tone.GOOD,
    Comparability.NOT_COMPARABLE: Tone.BAD,
    Comparability.UNKNOWN: Tone.UNSURE,
}
_TITLES = {
    Metric.THROUGHPUT: "Throughput speedup",
    Metric.MEMORY: "Memory usage efficiency",
    Metric.FLOPS: "FLOPs utilization",
}
_DEFINITIONS = {
    Metric.THROUGHPUT: "Tokens/s a GPU, target over baseline",
    Metric.MEMORY: "Peak memory, baseline over target",
    Metric.FLOPS: "MFU, target over baseline",
}


def comparison_page(made: Comparison) -> Page:
    asked = [made.comparable[metric] for metric in made.asked]
    worst = max(asked, key=lambda ruling: list(Comparability).index(ruling.status))
    sides, names = (made.target, made.baseline), short_names(made)
    runs = [
        Curve(label, subject, 0 if subject in made.target.subjects else 1)
        for label, subject, _ in labelled(made)
        if len(subject.steps)
    ]
    held = worst.status in (Comparability.COMPARABLE, Comparability.QUALIFIED)
    return Page(
        kind="comparison",
        title=" against ".join(", ".join(names[one.run.directory] for one in side.subjects) for side in sides),
        verdict=worst.status.value.replace("_", " ") + (f", {_observation(made)}" if held else ""),
        tone=Tone.NOTE if held else _TONES[worst.status],
        sentence=_sentence(made, worst.status),
        reasons=[*dict.fromkeys(reason for ruling in asked for reason in ruling.reasons), *_failed(made)],
        tiles=[_tile(made, metric) for metric in NAME_OF],
        charts=curves(runs),
        before=[_rulings(made)],
        tables=[
            contract_table([one for one in made.contract if one.status != Agreement.EQUAL], "Where the sides differ"),
            contract_table(made.contract, "The whole contract", folded=True),
            *(
                findings_table(verdict, f"Findings: {label}, {verdict.status}", verdict.status == Status.PASS)
                for label, _, verdict in labelled(made)
            ),
            *(provenance_table(subject, True, f"Provenance: {label}") for label, subject, _ in labelled(made)),
        ],
        commands=[*(reproduce(subject) for _, subject, _ in labelled(made)), _command(made)],
        made_by=f"steelyard {__version__}",
    )


def _command(made: Comparison) -> str:
    """The command that makes the comparison, with paths as this one was given them."""
    sides = [",".join(str(subject.run.directory) for subject in side.subjects) for side in (made.target, made.baseline)]
    words = ["steelyard", "compare", *sides, "--for", ",".join(made.asked), "--mode", made.mode]
    if made.warmup_steps:
        words += ["--warmup-steps", str(made.warmup_steps)]
    return shlex.join(words)


def labelled(made: Comparison) -> Iterator[tuple[str, Subject, Verdict]]:
    """Every run with the label its curve carries."""
    names = short_names(made)
    for side in (made.target, made.baseline):
        for subject, verdict in zip(side.subjects, side.verdicts, strict=True):
            name = names[subject.run.directory]
            yield side.name if name == side.name else f"{side.name} ({name})", subject, verdict


def short_names(made: Comparison) -> dict[Path, str]:
    """What each run is called: without its time, where that still tells the runs apart."""
    places = {one.run.directory for side in (made.target, made.baseline) for one in side.subjects}
    full = {place: place.resolve().name for place in places}
    short = {place: unstamped(name) for place, name in full.items()}
    for names in (short, full):
        if len(set(names.values())) == len(places):
            return names
    return {place: str(place) for place in places}


def _observation(made: Comparison) -> str:
    words = [ratio.words for metric in made.asked if (ratio := made.ratios.get(metric))]
    return words[0] if words else "the curves are not judged yet"


def _failed(made: Comparison) -> Iterator[str]:
    """A comparison may hold of runs that do not pass; then that stands at the top."""
    for label, _, verdict in labelled(made):
        decisive = verdict.failed() or verdict.undecided()
        if decisive:
            checks = ", ".join(finding.check for finding in decisive)
            yield f"the verdict of the {label} is {verdict.status}: {checks}"


def _sentence(made: Comparison, status: Comparability) -> str:
    asked = " and ".join(metric.value for metric in made.asked)
    match status:
        case Comparability.NOT_COMPARABLE:
            return f"The asked comparison ({asked}) is refused: it would compare different jobs."
        case Comparability.UNKNOWN:
            return f"Whether the asked comparison ({asked}) means anything is not known."
    single = "It is an observation of the runs that were made: nothing here says that one platform is better."
    if status == Comparability.QUALIFIED:
        return f"The asked comparison ({asked}) holds, with the differences below said beside it. {single}"
    return f"The asked comparison ({asked}) is fair. {single}"


def _tile(made: Comparison, metric: Metric) -> Tile:
    ratio, ruling = made.ratios[metric], made.comparable[metric]
    if ratio is None:
        tone = _TONES[ruling.status]
        word = "refused" if ruling.status == Comparability.NOT_COMPARABLE else "unknown"
        return Tile(_TITLES[metric], word, "", ruling.reasons[0] if ruling.reasons else "", tone)
    return Tile(_TITLES[metric], f"{ratio.value:.4f}", "", f"{_DEFINITIONS[metric]}. {ratio_note(ratio)}")


def ratio_note(ratio: Ratio) -> str:
    """What a ratio rests on, in words."""
    words = ratio.words[0].upper() + ratio.words[1:]
    around = ""
    if ratio.low is not None and ratio.high is not None:
        around = f"; {ratio.level:.0%} interval {ratio.low:.4f} to {ratio.high:.4f}, {ratio.method}"
    return f"{words}{around}." + "".join(f" But {note}." for note in ratio.notes)


def _rulings(made: Comparison) -> Table:
    rows: list[list[str | Cell]] = []
    said: list[Metric] = []
    for metric, ruling in made.comparable.items():
        ratio = made.ratios.get(metric)
        figures = f"{number(ratio.target_figure)} and {number(ratio.baseline_figure)}" if ratio else ""
        asked = "yes" if metric in made.asked else ""
        same = next((one for one in said if made.comparable[one].reasons == ruling.reasons and ruling.reasons), None)
        why = f"as {same.value}" if same else "; ".join(ruling.reasons)
        said.append(metric)
        word = Cell(ruling.status.value.replace("_", " "), _TONES[ruling.status])
        refused = "refused" if ruling.status == Comparability.NOT_COMPARABLE else "unknown"
        value = f"{ratio.value:.4f}" if ratio else ("" if metric == Metric.CONVERGENCE else refused)
        rows.append([word, metric.value, asked, value, figures, why])
    names = ", ".join(f"{metric.value}: {figure}" for metric, figure in FIGURE_OF.items())
    return Table(
        "What may be compared",
        ["status", "metric", "asked", "ratio", "target and baseline", "why"],
        rows,
        f"Figures are {names}. Mode: {made.mode}. The curves of the loss are drawn below and not judged.",
    )


def contract_table(clauses: Sequence[Clause], title: str, folded: bool = False) -> Table:
    tones = {Agreement.EQUAL: Tone.GOOD, Agreement.DIFFERENT: Tone.BAD, Agreement.UNKNOWN: Tone.UNSURE}
    rows: list[list[str | Cell]] = []
    for clause in clauses:
        tone = tones[clause.status] if clause.governs else Tone.PLAIN
        known = clause.status != Agreement.UNKNOWN
        values = [
            shown(value) if known or value is not None else "unknown" for value in (clause.target, clause.baseline)
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
