"""How `steelyard runs` shows runs and fleets: in one line among others, or whole."""

import json
import shlex
from pathlib import Path
from typing import Any

from steelyard import records, verdict
from steelyard.campaign.fleet_verdict import METRICS
from steelyard.cli import printing
from steelyard.errors import InputError
from steelyard.records import Run, Step
from steelyard.records.fleet import Fleet, fleets_under, load_fleet, repeats_under
from steelyard.records.step import to_line
from steelyard.reporting.curves import figures_row

_COLUMNS = ("name", "status", "verdict", "steps", "started", "experiment", "platform")
_FACTS = ("status", "verdict", "experiment", "platform", "framework", "started", "ended")
_NOTHING: dict[str, Any] = dict.fromkeys(
    ("experiment", "platform", "framework", "started", "ended", "steps", "verdict")
)


def show_list(out: Path, as_json: bool) -> None:
    """Every run and fleet under a directory; one that cannot be read is shown as such, not left out."""
    runs = [*records.runs_under(out), *repeats_under(out)]
    rows = sorted((_row("run", path, path.relative_to(out).as_posix()) for path in runs), key=_age)
    fleets = sorted((_row("fleet", path, path.name) for path in fleets_under(out)), key=_age)
    if as_json:
        printing.show_json({"runs": rows, "fleets": fleets})
    elif rows or fleets:
        printing.table(
            [_COLUMNS, *([_cell(row, key) for key in _COLUMNS] for row in sorted([*rows, *fleets], key=_age))]
        )
        for row in (*rows, *fleets):
            if row["error"] is not None:
                printing.note(f"unreadable: {row['error']}")
    else:
        printing.say(f"no runs under {out.resolve()}; --out DIR or $STEELYARD_RUNS says where they are kept")


def _cell(row: dict[str, Any], key: str) -> str:
    text = "-" if row[key] is None else str(row[key])
    return text[:19].replace("T", " ") if key == "started" else text[:100]


def _age(row: dict[str, Any]) -> tuple[str, str]:
    """Oldest first; a run that cannot be read has no age and comes last."""
    return row["started"] or "~", row["name"]


def _row(kind: str, path: Path, name: str) -> dict[str, Any]:
    place = {kind: str(path.resolve()), "name": name}
    try:
        if kind == "run":
            return {**place, **_run_summary(records.load(path)), "error": None}
        fleet = load_fleet(path)
        return {**place, **_fleet_summary(fleet, fleet.runs()), "error": None}
    except (InputError, OSError) as reason:
        hosts = {"hosts": None} if kind == "fleet" else {}
        return {**place, "status": "unreadable", **_NOTHING, **hosts, "error": str(reason)}


def _run_summary(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    return {
        "status": run.status,
        "experiment": manifest.experiment.name,
        "platform": manifest.platform.name,
        "framework": manifest.framework,
        "started": manifest.began,
        "ended": manifest.provenance.ended,
        "steps": run.num_steps,
        "verdict": verdict.word_of(run),
    }


def show_run(run: Run, as_json: bool) -> None:
    first, last = records.first_and_last(run.directory)
    if not as_json:
        _print_facts(_run_facts(run, first, last))
        return
    printing.show_json(
        {
            "run": str(run.directory.resolve()),
            "name": run.directory.name,
            **_run_summary(run),
            "first_step": None if first is None else json.loads(to_line(first)),
            "last_step": None if last is None else json.loads(to_line(last)),
            "manifest": run.manifest.model_dump(mode="json"),
        }
    )


def _run_facts(run: Run, first: Step | None, last: Step | None) -> dict[str, Any]:
    manifest, platform, peak = run.manifest, run.manifest.platform, run.manifest.platform.peak_tflops_per_gpu
    known, planned = manifest.experiment.known("training.steps")
    facts = {
        "run": run.directory,
        "status": run.status + (f" ({manifest.failure.message})" if manifest.failure else ""),
        "verdict": verdict.word_of(run) or _not_judged(run.directory),
        "experiment": manifest.experiment.name,
        "platform": f"{platform.name}: {platform.words}",
        "framework": manifest.framework + "".join(f", {k} {v}" for k, v in manifest.software.items() if k == "torch"),
        "started": manifest.began,
        "ended": manifest.ended or "-",
        "steps": f"{run.num_steps} of {planned if known else 'unknown'}",
    }
    if first is not None and last is not None:
        expected = manifest.expected
        facts["first loss"] = f"{_loss(first.loss)} (expected {_loss(expected.get('first_loss'))})"
        facts["last loss"] = f"{_loss(last.loss)} (floor {_loss(expected.get('loss_floor'))})"
        if last.tokens_per_s_per_gpu is not None:
            facts["last rate"] = f"{last.tokens_per_s_per_gpu:,.0f} tok/s/GPU"
        if peak and last.tflops_per_gpu:
            facts["last MFU"] = f"{100 * last.tflops_per_gpu / peak:.1f} % of {peak} TFLOP/s"
    return facts


def _print_facts(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        printing.say(f"{name:<11} {printing.inert(str(value))}")


def _not_judged(directory: Path) -> str:
    return f"not judged; next: steelyard check {shlex.quote(str(directory))}"


def _loss(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) and abs(value) < 1e30 else "unknown"


def _fleet_summary(fleet: Fleet, runs: list[Run | None]) -> dict[str, Any]:
    """With the worst status of its runs."""
    begun = [_run_summary(run) for run in runs if run is not None]
    manifest = fleet.refreshed(runs).manifest
    statuses = {entry.status for entry in manifest.runs}
    shared = {key: begun[0][key] for key in ("experiment", "framework")} if begun else {}
    return {
        **_NOTHING,
        **shared,
        "status": next(word for word in ("running", "failed", "interrupted", "completed") if word in statuses),
        "platform": f"{begun[0]['platform'] if begun else '?'} x {len(manifest.runs)} hosts",
        "started": min((run["started"] for run in begun), default=None),
        "ended": max((run["ended"] for run in begun if run["ended"]), default=None),
        "steps": sum(run["steps"] for run in begun),
        "verdict": manifest.verdict,
        "hosts": [entry.host for entry in manifest.runs],
    }


def show_fleet(fleet: Fleet, as_json: bool) -> None:
    """What it was, a line a host, why one failed, and what stands out."""
    document = _fleet_document(fleet)
    if as_json:
        printing.show_json(document)
        return
    facts = {"fleet": fleet.directory, **{key: document[key] or "-" for key in _FACTS}, "steps": document["steps"]}
    _print_facts({**facts, "verdict": document["verdict"] or _not_judged(fleet.directory)})
    rows = [["host", "status", "verdict", "steps", *METRICS]]
    for run in document["runs"]:
        figures = figures_row(run["figures"].values())
        rows.append([run["host"], run["status"], run["verdict"] or "-", str(run["steps"]), *figures])
    printing.table(rows, "  ")
    for run in document["runs"]:
        if failure := run["failure"]:
            printing.item("  ", f"{run['host']}: {failure['kind']}: {failure['message']}")
    for outlier in fleet.manifest.outliers:
        printing.item("  ", f"outlier: {outlier.words}")
    for finding in fleet.manifest.preflight:
        printing.item("  ", f"preflight: {finding.words}")


def _fleet_document(fleet: Fleet) -> dict[str, Any]:
    runs = fleet.runs()
    return {
        "fleet": str(fleet.directory.resolve()),
        "name": fleet.directory.name,
        **_fleet_summary(fleet, runs),
        "runs": [
            {
                "host": entry.host,
                "run": str(run.directory.resolve()) if run else None,
                "name": entry.directory,
                **(_run_summary(run) if run else {**_NOTHING, "status": entry.status, "steps": 0}),
                "figures": _figures(run),
                "failure": entry.failure.model_dump() if entry.failure else None,
            }
            for entry, run in zip(fleet.refreshed(runs).manifest.runs, runs, strict=True)
        ],
        **fleet.manifest.model_dump(mode="json", include={"outliers", "preflight"}),
    }


def _figures(run: Run | None) -> dict[str, float | None]:
    """The figures of the last check; null where there was none since the run ended."""
    judged = verdict.saved(run.directory) if run is not None and verdict.word_of(run) is not None else None
    kept = judged.get("figures") if judged else None
    figures = kept if isinstance(kept, dict) else {}
    return {name: value if isinstance(value := figures.get(name), int | float) else None for name in METRICS}
