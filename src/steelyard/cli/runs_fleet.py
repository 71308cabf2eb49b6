"""How `steelyard runs` shows a fleet: in one line among the runs, or host by host."""

import shlex
from pathlib import Path
from typing import Any

from steelyard import verdict
from steelyard.campaign.fleet_verdict import METRICS
from steelyard.cli import printing
from steelyard.errors import InputError
from steelyard.records import Run
from steelyard.records.fleet import Fleet, load_fleet
from steelyard.reporting.curves import number

NOTHING: dict[str, Any] = dict.fromkeys(("experiment", "platform", "framework", "started", "ended", "steps", "verdict"))


def summary(run: Run) -> dict[str, Any]:
    """A run in a line."""
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


def row(path: Path) -> dict[str, Any]:
    """A fleet in one line of the list; one that cannot be read is shown as such, not left out."""
    place = {"fleet": str(path.resolve()), "name": path.name}
    try:
        fleet = load_fleet(path)
        return {**place, **_summary(fleet, fleet.runs()), "error": None}
    except (InputError, OSError) as reason:
        return {**place, "status": "unreadable", **NOTHING, "hosts": None, "error": str(reason)}


def _summary(fleet: Fleet, runs: list[Run | None]) -> dict[str, Any]:
    """With the worst status of its runs."""
    begun = [summary(run) for run in runs if run is not None]
    manifest = fleet.refreshed(runs).manifest
    statuses, count = {one.status for one in manifest.runs}, len(manifest.runs)
    shared = {key: begun[0][key] for key in ("experiment", "framework")} if begun else {}
    return {
        **NOTHING,
        **shared,
        "status": next(word for word in ("running", "failed", "interrupted", "completed") if word in statuses),
        "platform": f"{begun[0]['platform'] if begun else '?'} x {count} hosts",
        "started": min((one["started"] for one in begun), default=None),
        "ended": max((one["ended"] for one in begun if one["ended"]), default=None),
        "steps": sum(one["steps"] for one in begun),
        "verdict": manifest.verdict,
        "hosts": [one.host for one in manifest.runs],
    }


def shown(fleet: Fleet) -> dict[str, Any]:
    """What `runs show FLEET --json` prints."""
    runs = fleet.runs()
    return {
        "fleet": str(fleet.directory.resolve()),
        "name": fleet.directory.name,
        **_summary(fleet, runs),
        "runs": [
            {
                "host": entry.host,
                "run": str(run.directory.resolve()) if run else None,
                "name": entry.directory,
                **(summary(run) if run else {**NOTHING, "status": entry.status, "steps": 0}),
                "figures": _figures(run),
                "failure": entry.failure.model_dump() if entry.failure else None,
            }
            for entry, run in zip(fleet.refreshed(runs).manifest.runs, runs, strict=True)
        ],
        "outliers": [one.model_dump(mode="json") for one in fleet.manifest.outliers],
        "preflight": [one.model_dump(mode="json") for one in fleet.manifest.preflight],
    }


def _figures(run: Run | None) -> dict[str, float | None]:
    """The figures of the last check; null where there was none since the run ended."""
    judged = verdict.saved(run.directory) if run is not None and verdict.word_of(run) is not None else None
    kept = judged.get("figures") if judged else None
    found = kept if isinstance(kept, dict) else {}
    return {name: value if isinstance(value := found.get(name), int | float) else None for name in METRICS}


def show(fleet: Fleet) -> None:
    """What it was, a line a host, why one failed, and what stands out."""
    told = shown(fleet)
    check = f"not judged; next: steelyard check {shlex.quote(str(fleet.directory))}"
    facts = {"fleet": str(fleet.directory), **{key: told[key] or "-" for key in _FACTS}, "steps": told["steps"]}
    for name, value in {**facts, "verdict": told["verdict"] or check}.items():
        printing.say(f"{name:<11} {printing.inert(str(value))}")
    rows = [["host", "status", "verdict", "steps", *METRICS]]
    for run in told["runs"]:
        figures = ["-" if value is None else number(value) for value in run["figures"].values()]
        rows.append([run["host"], run["status"], run["verdict"] or "-", str(run["steps"]), *figures])
    printing.table(rows, "  ")
    for run in told["runs"]:
        if failure := run["failure"]:
            words = f"{run['host']}: {failure['kind']}: {failure['message']}"
            printing.say(printing.hang("  ", printing.inert(words)))
    for outlier in fleet.manifest.outliers:
        printing.say(printing.hang("  ", f"outlier: {printing.inert(outlier.words)}"))
    for one in fleet.manifest.preflight:
        printing.say(printing.hang("  ", f"preflight: {printing.inert(one.words)}"))


_FACTS = ("status", "verdict", "experiment", "platform", "framework", "started", "ended")
