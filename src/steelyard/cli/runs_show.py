"""The terminal pages of one run and one fleet."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from steelyard import records, verdict
from steelyard.campaign.fleet_verdict import is_slow, slow_hosts
from steelyard.cli import columns, printing
from steelyard.cli.columns import Cells, Column
from steelyard.cli.printing import STATUS_STYLES, Style
from steelyard.cli.run_summaries import RATE, fleet_document, last_check, rate_text, run_summary
from steelyard.errors import InputError
from steelyard.records import Failure, Run, Step
from steelyard.records.fleet import Fleet, Outlier
from steelyard.records.step import to_line
from steelyard.reporting.curves import number

MEMBER_COLUMNS = (
    Column("verdict", "verdict"),
    Column("name", "host"),
    Column(RATE, "tokens/s/GPU", 1, is_number=True),
    Column("step_time_s", "s/step", 2, is_number=True),
    Column("memory_peak_gib", "GiB/GPU", 3, is_number=True),
    Column("status", "status", 4),
    Column("steps", "steps", 5, is_number=True),
)
_LABELS = {RATE: "throughput", "step_time_s": "step time", "memory_peak_gib": "peak memory"}
_NAMED = 4
"""Hosts that are named if several have the same problem."""


def say_verdict(subject: str, word: str | None, text: str) -> None:
    """The first line: `verdict: PASS  …`, with the verdict in color."""
    head = f"{subject}: {word.upper() if word else 'not judged'}"
    printing.say(f"{head}  {text}", STATUS_STYLES.get(word or "", Style.FAINT), len(head))


def say_next(command: str) -> None:
    printing.say(f"next: {command}")


def show_run(run: Run, as_json: bool) -> None:
    first, last = records.first_and_last(run.directory)
    if as_json:
        printing.show_json(
            {
                "run": str(run.directory.resolve()),
                "name": run.directory.name,
                **run_summary(run),
                "first_step": None if first is None else json.loads(to_line(first)),
                "last_step": None if last is None else json.loads(to_line(last)),
                "manifest": run.manifest.model_dump(mode="json"),
            }
        )
        return
    word, _ = last_check(run)
    say_verdict("verdict", word, str(run.directory))
    for name, text in _facts(run, first, last).items():
        printing.item(f"  {name:<11} ", text)
    place = shlex.quote(str(run.directory))
    if run.manifest.failure:
        printing.item("  failure     ", failure_words(run.manifest.failure), style=Style.BAD)
    say_next(f"steelyard {'report' if word == 'pass' else 'check'} {place}")


def _facts(run: Run, first: Step | None, last: Step | None) -> dict[str, str]:
    manifest, platform = run.manifest, run.manifest.platform
    known, planned = manifest.experiment.known("training.steps")
    software = "".join(f", {name} {version}" for name, version in manifest.software.items() if name == "torch")
    facts = {"status": f"{run.status}, {run.num_steps} of {planned if known else 'unknown'} steps"}
    if speed := _speed(run, last):
        facts["speed"] = speed
    if first is not None and last is not None:
        facts["loss"] = f"{_loss(first.loss)} at the first step, {_loss(last.loss)} at the last"
    if manifest.allowed:
        facts["allowed"] = ", ".join(dict.fromkeys(f"{problem.code} by {problem.by}" for problem in manifest.allowed))
    overridden = manifest.ingested.overridden if manifest.ingested else {}
    if overridden:
        facts["overridden"] = "; ".join(f"{key} = {override.words}" for key, override in overridden.items())
    return facts | {
        "experiment": str(manifest.experiment.name or "not recorded"),
        "platform": f"{platform.name}: {platform.words}",
        "framework": manifest.framework + software,
        "time": _span(manifest.began, manifest.ended),
    }


def _span(began: str | None, ended: str | None) -> str:
    """`2026-11-15 06:00:31 to 2026-11-15 06:02:50`."""
    return " to ".join(moment[:19].replace("T", " ") if moment else "not recorded" for moment in (began, ended))


def _speed(run: Run, last: Step | None) -> str:
    """Figures of the last check, or of the last step if there was no check."""
    word, figures = last_check(run)
    if word is not None:
        rate, memory, source = figures[RATE], figures["memory_peak_gib"], ""
        mfu = (verdict.saved(run.directory) or {}).get("figures", {}).get("mfu")
    else:
        peak, source = run.manifest.platform.peak_tflops_per_gpu, " (last step)"
        rate, memory = (last.tokens_per_s_per_gpu, last.memory_gib) if last else (None, None)
        mfu = last.tflops_per_gpu / peak if last and last.tflops_per_gpu and peak else None
    words = []
    if rate is not None:
        words.append(f"{rate_text(rate)} tokens/s per GPU")
    if isinstance(mfu, int | float):
        words.append(f"MFU {mfu:.1%}")
    if memory is not None:
        words.append(f"{number(memory)} GiB per GPU")
    return ", ".join(words) + source if words else ""


def _loss(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) and abs(value) < 1e30 else "unknown"


def failure_words(failure: Failure | Mapping[str, Any]) -> str:
    """`oom: CUDA out of memory (phase: train, logs/node0.log:12)`."""
    content = failure.model_dump() if isinstance(failure, Failure) else failure
    place = f"{content['file']}:{content['line']}" if content["file"] else None
    details = ", ".join(filter(None, (content["phase"] and f"phase: {content['phase']}", place)))
    return f"{content['kind']}: {content['message']}{f' ({details})' if details else ''}"


def show_fleet(fleet: Fleet, as_json: bool) -> None:
    """All hosts of a fleet, slow hosts, and why hosts did not pass."""
    document = fleet_document(fleet)
    if as_json:
        printing.show_json(document)
        return
    runs = document["runs"]
    say_fleet(fleet, [run["verdict"] for run in runs])
    facts = {name: str(document[name] or "not recorded") for name in ("experiment", "platform", "framework")}
    for name, text in (facts | {"time": _span(document["started"], document["ended"])}).items():
        printing.item(f"  {name:<11} ", text)
    rows = [member_cells(run["host"], run["status"], run["verdict"], run["steps"], run["figures"]) for run in runs]
    columns.show(MEMBER_COLUMNS, rows, "  ")
    say_outliers(fleet.manifest.outliers)
    say_preflight(fleet, only_optional=False)
    reasons = ((run["host"], _reason(fleet, run)) for run in runs)
    say_reasons(NotPassed(host, verdict.Status.FAIL, reason) for host, reason in reasons if reason is not None)
    say_next(f"steelyard {'report' if document['verdict'] else 'check'} {shlex.quote(str(fleet.directory))}")


def _reason(fleet: Fleet, run: Mapping[str, Any]) -> str | None:
    """Why a run failed, from its record and its last check."""
    if run["failure"]:
        return failure_words(run["failure"])
    if run["run"] is None:
        return "not started"
    if run["verdict"] != "fail":
        return None
    try:
        judged = verdict.saved(fleet.directory / run["name"]) or {}
    except InputError:
        return None
    failed = (finding for finding in judged.get("findings", ()) if finding.get("status") == "fail")
    return next((f"{finding.get('check')}: {finding.get('message')}" for finding in failed), None)


def say_fleet(fleet: Fleet, verdicts: Sequence[str | None]) -> None:
    """`fleet: PASS  5 of 5 hosts passed, 1 slow host  runs/nightly`."""
    slow = len(slow_hosts(fleet.manifest.outliers))
    passed = f"{sum(word == 'pass' for word in verdicts)} of {len(verdicts)} hosts passed"
    counts = passed if any(verdicts) else f"{len(verdicts)} hosts"
    slow_words = f", {slow} slow host{'s' * (slow != 1)}" if slow else ""
    say_verdict("fleet", fleet.manifest.verdict, f"{counts}{slow_words}  {fleet.directory}")


def member_cells(
    name: str, status: str, word: str | None, steps: int, figures: Mapping[str, float | None]
) -> dict[str, str]:
    """The row of a host, or of a repeat."""
    cells = {metric: "-" if value is None else number(value) for metric, value in figures.items()}
    return {"name": name, "status": status, "verdict": word or "-", "steps": str(steps), **cells}


def show_few(member_columns: Sequence[Column], rows: Sequence[Cells], most: int, more: str) -> None:
    """The table of the first rows; `more` is the command that shows the others."""
    columns.show(member_columns, rows[:most], "  ")
    if len(rows) > most:
        printing.say(f"  and {len(rows) - most} more: {more}")


def say_outliers(outliers: Sequence[Outlier]) -> None:
    """One line per host: `slow host g5: throughput 22.9% below the median`."""
    by_host: dict[str, list[Outlier]] = {}
    for outlier in outliers:
        by_host.setdefault(outlier.host, []).append(outlier)
    for host, of_host in by_host.items():
        head = "slow host" if any(map(is_slow, of_host)) else "differs"
        shares = [
            f"{_LABELS.get(outlier.metric, outlier.metric)} {abs(outlier.share):.1%} "
            f"{'above' if outlier.share > 0 else 'below'} the median"
            for outlier in of_host
        ]
        printing.item(f"  {head}  ", f"{host}: {', '.join(shares)}", style=Style.DOUBTFUL)


def say_preflight(fleet: Fleet, only_optional: bool) -> None:
    """Failed preflight findings; a required one is already the reason why its run failed."""
    for finding in fleet.manifest.preflight:
        if not (only_optional and finding.required):
            printing.item("  preflight  ", finding.words, style=Style.DOUBTFUL)


class NotPassed(NamedTuple):
    """A host or a repeat that did not pass."""

    name: str
    status: verdict.Status
    reason: str


def say_reasons(not_passed: Iterable[NotPassed]) -> None:
    """Why hosts or repeats did not pass, failures last; those with the same reason share a line."""
    names: dict[tuple[verdict.Status, str], list[str]] = {}
    for name, status, reason in not_passed:
        names.setdefault((status, reason), []).append(name)
    for (status, reason), alike in sorted(names.items(), key=lambda entry: entry[0][0] == verdict.Status.FAIL):
        printing.item(f"  {status.value}  ", f"{few(alike)}: {reason}", style=STATUS_STYLES[status.value])


def few(names: Sequence[str]) -> str:
    """`g1, g2, g3 and 5 more`."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
