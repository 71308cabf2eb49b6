"""The report of one run."""

import shlex
from typing import Any

from steelyard.records import unstamped
from steelyard.records.step import NOTICES
from steelyard.reporting.curves import Curve, curves, number
from steelyard.reporting.page import Cell, Page, Table, Tile, Tone
from steelyard.verdict import Finding, Status, Subject, Verdict
from steelyard.verdict.checks.loss_floor import MADE_DATA
from steelyard.verdict.figures import Figure

TONE_OF = {Status.PASS: Tone.GOOD, Status.FAIL: Tone.BAD, Status.UNKNOWN: Tone.UNSURE}
_MOST_NOTICES = 50
_OF_THE_RUNNER = ("host", "system", "python", "started", "ended")
_SENTENCE = {
    Status.PASS: "Every required finding passed.",
    Status.FAIL: "A finding failed.",
    Status.UNKNOWN: "No finding failed, but a required one is not known, and what is not known does not pass.",
}


def run_page(subject: Subject, verdict: Verdict) -> Page:
    manifest = subject.run.manifest
    decisive = verdict.failed() or verdict.undecided()
    # what weighs nothing in the verdict and everything to who reads the loss: it stands at a floor of made data
    warnings = [finding for finding in verdict.findings if finding.code in MADE_DATA]
    return Page(
        kind="run",
        title=f"{manifest.experiment.name or manifest.name} on {manifest.platform.name}",
        verdict=verdict.status.value,
        tone=TONE_OF[verdict.status],
        sentence=_SENTENCE[verdict.status],
        reasons=[f"{finding.check}: {finding.message}{_where(finding)}" for finding in (*decisive, *warnings)],
        tiles=_tiles(subject, verdict),
        charts=curves([Curve(unstamped(subject.run.directory.resolve().name), subject)]) if len(subject.steps) else [],
        tables=[findings_table(verdict), *_notices(subject), provenance_table(subject), _experiment(subject)],
        commands=[reproduce(subject), _check_command(verdict)],
    )


def _where(finding: Finding) -> str:
    return f" ({finding.evidence.file}:{finding.evidence.line})" if finding.evidence else ""


def _tiles(subject: Subject, verdict: Verdict) -> list[Tile]:
    figures = verdict.figures
    p95, median = figures.step_time_p95_s, figures.step_time_s.value
    spread = f"median; p95 {number(p95)} s, {p95 / median:.3f} times the median" if p95 and median else ""
    peak = subject.peak_tflops
    formula = "" if figures.mfu.reported else ", our causal formula"
    of_peak = f"of {peak:,} TFLOP/s{formula}" if peak else ""
    first, floor = subject.expected("first_loss"), subject.expected("loss_floor")
    losses = subject.steps.loss
    last = float(losses.values[-1]) if len(losses.values) and losses.given[-1] else None
    known = [f"floor {floor:.4f}"] if floor is not None else []
    known += [f"an untrained model {first:.4f}"] if first is not None else []
    last_loss = ("unknown", "") if last is None else (number(last), "nats")
    return [
        _tile("Throughput", figures.tokens_per_s_per_gpu, "tokens/s/GPU", figures.window.words()),
        _tile("Model FLOPs utilization", figures.mfu, "%", of_peak, 100),
        _tile("Step time", figures.step_time_s, "s", spread),
        _tile("Peak memory", figures.memory_peak_gib, "GiB", figures.memory_kind or ""),
        Tile("Last loss", *last_loss, "; ".join(known)),
    ]


def _tile(name: str, figure: Figure, unit: str, note: str, scale: float = 1.0) -> Tile:
    if figure.value is None:
        return Tile(name, "unknown", "", figure.why or "", Tone.UNSURE)
    source = "as the log reports it" if figure.reported else ""
    return Tile(name, number(figure.value * scale), unit, "; ".join(filter(None, (source, note))))


def findings_table(verdict: Verdict, title: str = "Findings", folded: bool = False) -> Table:
    rows: list[list[str | Cell]] = []
    for finding in verdict.by_weight():
        at = f"{finding.evidence.file}:{finding.evidence.line}" if finding.evidence else ""
        word = Cell(finding.status.value, TONE_OF[finding.status])
        weight = "required" if finding.required else "none" if finding.status == Status.UNKNOWN else ""
        rows.append([word, finding.check, finding.message, weight, at])
    rows += [[Cell("not applicable"), skipped.check, skipped.message, "", ""] for skipped in verdict.not_applicable]
    columns = ["finding", "check", "what was found", "weight", "evidence"]
    return Table(title, columns, rows, f"Rates on {verdict.figures.window.words()}.", folded)


def provenance_table(subject: Subject, folded: bool = False, title: str = "Provenance") -> Table:
    manifest = subject.run.manifest
    platform, provenance = manifest.platform, manifest.provenance
    facts = {
        "run": subject.run.directory.resolve().name,
        "status": subject.run.status + (f": {manifest.failure.message}" if manifest.failure else ""),
        "platform": f"{platform.name}: {platform.words}",
        "framework": manifest.framework,
        **_read_from(subject),
        **{f"software: {key}": value for key, value in manifest.software.items()},
        "experiment file": provenance.file or "unknown",
        "sha256 of the file": provenance.sha256 or "unknown",
        "host": provenance.host,
        "system": provenance.system,
        "python": provenance.python,
        "recorded by": f"steelyard {provenance.steelyard}",
        "started": provenance.started,
        "ended": provenance.ended or "unknown",
    }
    if manifest.ingested is not None:  # where and when it was read says nothing of where and when it ran
        facts["read"] = f"{provenance.started} on {provenance.host}"
        facts = {key: value for key, value in facts.items() if key not in _OF_THE_RUNNER}
    return Table(title, ["what", "is"], [[key, value] for key, value in facts.items()], folded=folded)


def _notices(subject: Subject) -> list[Table]:
    """What a reader should know beside the findings: nothing where there is nothing."""
    events = subject.events_of(*NOTICES, "unread_line")
    rows: list[list[str | Cell]] = [
        [
            event.kind.replace("_", " "),
            event.message,
            "" if event.step is None else str(event.step),
            f"{event.source.file}:{event.source.line}" if event.source else "",
        ]
        for event in events[:_MOST_NOTICES]
    ]
    more = f"The first {_MOST_NOTICES} of {len(events):,}." if len(events) > _MOST_NOTICES else ""
    title = "While it ran" if subject.run.manifest.ingested is None else "While it was read"
    return [Table(title, ["what", "how", "step", "evidence"], rows, more)] if rows else []


def _read_from(subject: Subject) -> dict[str, str]:
    made = subject.run.manifest.ingested
    if made is None:
        return {}
    others = f"; also lines of {', '.join(made.others)}" if made.others else ""
    files = {f"read from: {file.path}": file.words for file in made.files}
    return {"read as": f"{made.dialect}{f', {made.era}' if made.era else ''}{others}", **files}


def _experiment(subject: Subject) -> Table:
    manifest = subject.run.manifest
    rows = [[key, _spelt(value), manifest.sources.get(key, "")] for key, value in manifest.experiment.leaves()]
    note = "Every value with where it came from: log, config, preset, platform, set, derived or default."
    return Table("Experiment as resolved", ["key", "value", "source"], rows, note, folded=True)


def _spelt(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_command(verdict: Verdict) -> str:
    words = ["steelyard", "check", str(verdict.run)]
    for threshold in verdict.thresholds:
        words += ["--threshold", threshold]
    if verdict.warmup_steps:
        words += ["--warmup-steps", str(verdict.warmup_steps)]
    return shlex.join(words)


def reproduce(subject: Subject) -> str:
    """The command that made the run, as it was typed."""
    return shlex.join(subject.run.manifest.provenance.command)
