"""The summary of a run, a fleet or a suite, as `runs list` and `runs show` print it."""

import statistics
from pathlib import Path
from typing import Any

from steelyard import records, verdict
from steelyard.campaign.fleet_verdict import METRICS
from steelyard.errors import InputError
from steelyard.records import Run
from steelyard.records.fleet import Fleet, load_fleet
from steelyard.records.suite import Suite, load_suite
from steelyard.reporting.curves import number

RATE = "tokens_per_s_per_gpu"
_EMPTY: dict[str, Any] = dict.fromkeys(
    ("experiment", "platform", "framework", "started", "ended", "steps", "verdict", RATE)
)


_WORST = ("running", "failed", "interrupted", "ended", "completed")
"""The status of several runs is the first of these that one of them has."""


def summary_at(kind: str, path: Path, name: str) -> dict[str, Any]:
    """The summary of the run, fleet or suite in a directory; with an error if it cannot be read."""
    place = {kind: str(path.resolve()), "name": name}
    try:
        if kind == "run":
            return {**place, **run_summary(records.load(path)), "error": None}
        if kind == "suite":
            return {**place, **suite_summary(load_suite(path)), "error": None}
        fleet = load_fleet(path)
        return {**place, **fleet_summary(fleet, fleet.runs()), "error": None}
    except (InputError, OSError) as reason:
        hosts = {"fleet": {"hosts": None}, "suite": {"cells": None}}.get(kind, {})
        return {**place, "status": "unreadable", **_EMPTY, **hosts, "error": str(reason)}


def run_summary(run: Run) -> dict[str, Any]:
    word, figures = last_check(run)
    return _summary(run, word, figures)


def _summary(run: Run, word: str | None, figures: dict[str, float | None]) -> dict[str, Any]:
    manifest = run.manifest
    return {
        "status": run.status,
        "experiment": manifest.experiment.name,
        "platform": manifest.platform.name,
        "framework": manifest.framework,
        "started": manifest.began,
        "ended": manifest.provenance.ended,
        "steps": run.num_steps,
        "verdict": word,
        RATE: figures[RATE],
    }


def last_check(run: Run | None) -> tuple[str | None, dict[str, float | None]]:
    """Verdict and figures of the last check; None if the run was not checked since its end."""
    try:
        judged = verdict.saved(run.directory) if run is not None else None
    except InputError:
        judged = None
    if run is None or judged is None or judged.get("status") != run.status:
        return None, dict.fromkeys(METRICS)
    figures = judged.get("figures")
    values = figures if isinstance(figures, dict) else {}
    known = {name: value if isinstance(value := values.get(name), int | float) else None for name in METRICS}
    return str(judged["verdict"]), known


def rate_text(value: float) -> str:
    """`7,754`: tokens/s without digits that vary from run to run."""
    return f"{value:,.0f}" if 100 <= value < 1e12 else number(value)


def fleet_summary(fleet: Fleet, runs: list[Run | None]) -> dict[str, Any]:
    """With the worst status of its runs and the median of their figures."""
    started = [run_summary(run) for run in runs if run is not None]
    manifest = fleet.refreshed(runs).manifest
    statuses = {entry.status for entry in manifest.runs}
    shared = {key: started[0][key] for key in ("experiment", "framework")} if started else {}
    rates = [run[RATE] for run in started if run["status"] == "completed" and run[RATE] is not None]
    return {
        **_EMPTY,
        **shared,
        "status": next(word for word in _WORST if word in statuses),
        "platform": f"{started[0]['platform'] if started else '?'} x {len(manifest.runs)} hosts",
        "started": min((run["started"] for run in started), default=None),
        "ended": max((run["ended"] for run in started if run["ended"]), default=None),
        "steps": sum(run["steps"] for run in started),
        "verdict": manifest.verdict,
        RATE: statistics.median(rates) if rates else None,
        "hosts": [entry.host for entry in manifest.runs],
    }


def suite_summary(suite: Suite) -> dict[str, Any]:
    """With the worst status of its runs; without reading their steps."""
    runs = [run for cell in suite.cells if not cell.skipped for run in suite.runs(cell)]
    made = [run for run in runs if run is not None]
    waiting = "running" if suite.is_running else "interrupted"
    statuses = {run.status for run in made} | ({waiting} if len(made) < len(runs) else set())
    first = made[0].manifest if made else None
    platforms = dict.fromkeys(run.manifest.platform.name for run in made)
    return {
        **_EMPTY,
        "experiment": suite.manifest.experiment,
        "framework": first.framework if first else None,
        "status": next((word for word in _WORST if word in statuses), "completed"),
        "platform": f"{', '.join(platforms) or '?'}, {len(suite.cells)} cells",
        "started": min((run.manifest.began for run in made), default=None),
        "ended": max((run.manifest.provenance.ended or "" for run in made), default="") or None,
        "steps": sum(run.manifest.steps or 0 for run in made),
        "verdict": suite.manifest.verdict,
        "cells": len(suite.cells),
    }


def fleet_document(fleet: Fleet) -> dict[str, Any]:
    """What `runs show FLEET --json` prints."""
    runs = fleet.runs()
    hosts = []
    for entry, run in zip(fleet.refreshed(runs).manifest.runs, runs, strict=True):
        word, figures = last_check(run)
        summary = _summary(run, word, figures) if run else {**_EMPTY, "status": entry.status, "steps": 0}
        hosts.append(
            {
                "host": entry.host,
                "run": str(run.directory.resolve()) if run else None,
                "name": entry.directory,
                **summary,
                "figures": figures,
                "failure": entry.failure.model_dump() if entry.failure else None,
            }
        )
    return {
        "fleet": str(fleet.directory.resolve()),
        "name": fleet.directory.name,
        **fleet_summary(fleet, runs),
        "runs": hosts,
        **fleet.manifest.model_dump(mode="json", include={"outliers", "preflight"}),
    }
