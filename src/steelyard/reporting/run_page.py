"""The report of one run."""

import shlex
from collections.abc import Iterable
from typing import Any

from steelyard.comparison.declared import override_words
from steelyard.files import place_of
from steelyard.records import unstamped
from steelyard.records.step import NOTICES
from steelyard.reporting.checks import checks_group
from steelyard.reporting.curves import Curve, number, per_device, plots
from steelyard.reporting.evidence import excerpts
from steelyard.reporting.page import Block, Cell, Page, Table, Tile, Tiles, Tone, as_sentence, typeset
from steelyard.reporting.provenance import provenance_table
from steelyard.reporting.sides import last_loss, subject_line
from steelyard.verdict import Status, Subject, Verdict
from steelyard.verdict.checks.loss_floor import MADE_DATA
from steelyard.verdict.figures import Figure

TONE_OF = {Status.PASS: Tone.GOOD, Status.FAIL: Tone.BAD, Status.UNKNOWN: Tone.UNSURE}
_MAX_NOTICES = 50
EXPANDED = (
    "The commands of runs are as typed, in the directory in which they were typed. The others are expanded, with "
    "their options written out."
)


def run_page(subject: Subject, verdict: Verdict) -> Page:
    name = unstamped(subject.run.directory.resolve().name)
    tiles, checks = Tiles("Figures", _tiles(subject, verdict)), checks_group([(name, subject, verdict)])
    curves = plots([Curve(name, subject)], verdicts=[verdict]) if len(subject.steps) else []
    # optional findings that change how the loss is read: the data is synthetic and its floor is reached
    warnings = [finding.message for finding in verdict.findings if finding.code in MADE_DATA]
    warnings += [f"Lint problem that the user allowed: {problem.words}" for problem in subject.run.manifest.allowed]
    overridden = override_words([subject])
    first: list[Block] = [tiles, checks] if verdict.status == Status.PASS else [checks, tiles]
    return Page(
        kind="run",
        title=name,
        subject=subject_line([subject]),
        verdict=verdict.status.value,
        tone=TONE_OF[verdict.status],
        sentence=verdict_sentence(verdict),
        reasons=warnings,
        blocks=[*first, *curves, *_notices(subject), provenance_table([(name, subject)]), _experiment(subject)],
        commands=[reproduce(subject), _check_command(verdict)],
        banner=f"Overridden: {', '.join(overridden)}" if overridden else "",
        commands_note=EXPANDED,
    )


def verdict_sentence(verdict: Verdict) -> str:
    failed, undecided, total = verdict.failed(), verdict.undecided(), len(verdict.findings)
    if failed:
        counts = f"{len(failed)} of {total} checks failed: {_names(finding.check for finding in failed)}."
        return f"{as_sentence(typeset(failed[0].message), capital=True)} {counts}"
    if undecided:
        be = "check is" if len(undecided) == 1 else "checks are"
        return f"No check failed, but {len(undecided)} required {be} unknown: {_names(f.check for f in undecided)}."
    required = sum(finding.required for finding in verdict.findings)
    optional = sum(finding.status == Status.UNKNOWN for finding in verdict.findings)
    more = f"; {optional} optional check{'s' * (optional != 1)} unknown" if optional else ""
    return f"All {required} required checks passed{more}."


def _names(checks: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(checks))


def _tiles(subject: Subject, verdict: Verdict) -> list[Tile]:
    figures = verdict.figures
    p95, median = figures.step_time_p95_s, figures.step_time_s.value
    spread = f"median; p95 {number(p95)} s, {p95 / median:.3g} times the median" if p95 and median else ""
    peak = subject.peak_tflops
    formula = "" if figures.mfu.reported else ", causal formula"
    of_peak = f"of {peak:,} TFLOP/s{formula}" if peak else ""
    first, floor = subject.expected("first_loss"), subject.expected("loss_floor")
    last = last_loss(subject)
    known = [f"floor {floor:.4f}"] if floor is not None else []
    known += [f"untrained model {first:.4f}"] if first is not None else []
    rate, size = (per_device(unit, [subject]) for unit in ("tokens/s per GPU", "GiB per GPU"))
    value = ("not recorded", "") if last is None else (number(last), "nats per token")
    return [
        _tile("Throughput", figures.tokens_per_s_per_gpu, rate, f"over {figures.window.words()}"),
        _tile("Model FLOPs utilization", figures.mfu, "%", of_peak, 100),
        _tile("Step time", figures.step_time_s, "s", spread),
        _tile("Peak memory", figures.memory_peak_gib, size, figures.memory_kind or ""),
        Tile("Last loss", *value, "; ".join(known)),
    ]


def _tile(name: str, figure: Figure, unit: str, note: str, scale: float = 1.0) -> Tile:
    if figure.value is None:
        return Tile(name, "unknown", "", figure.why or "", Tone.UNSURE)
    source = "as reported by the log" if figure.reported else ""
    return Tile(name, number(figure.value * scale), unit, "; ".join(filter(None, (source, note))))


def _notices(subject: Subject) -> list[Table]:
    """A table of the events that a reader should know, if any."""
    events = subject.events_of(*NOTICES, "unread_line")
    lines = excerpts(subject.run.directory, (event.source for event in events[:_MAX_NOTICES]))
    rows: list[list[str | Cell]] = [
        [
            event.kind.replace("_", " "),
            Cell(event.message, excerpt=lines[event.source] if event.source else None),
            "" if event.step is None else str(event.step),
        ]
        for event in events[:_MAX_NOTICES]
    ]
    more = f"The first {_MAX_NOTICES} of {len(events):,}." if len(events) > _MAX_NOTICES else ""
    title = "Events of the run" if subject.run.manifest.ingested is None else "Notes of the import"
    return [Table(title, ["kind", "message", "step"], rows, more)] if rows else []


def _experiment(subject: Subject) -> Table:
    manifest = subject.run.manifest
    rows = [[key, _text(value), manifest.sources.get(key, "")] for key, value in manifest.experiment.leaves()]
    note = "Source of each value: log, config, preset, platform, set, derived or default."
    return Table("Resolved experiment", ["key", "value", "source"], rows, note, folded=True)


def _text(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_command(verdict: Verdict) -> str:
    words = ["steelyard", "check", place_of(verdict.run)]
    for threshold in verdict.thresholds:
        words += ["--threshold", threshold]
    if verdict.warmup_steps:
        words += ["--warmup-steps", str(verdict.warmup_steps)]
    return shlex.join(words)


def reproduce(subject: Subject) -> str:
    """The command that made the run, as typed."""
    return shlex.join(subject.run.manifest.provenance.command)
