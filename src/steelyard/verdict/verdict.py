"""The verdict of a run: all its findings, as a document and as verdict.json beside the run."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.errors import InputError
from steelyard.files import replace_file
from steelyard.records import Run, read_json
from steelyard.verdict.figures import Figure, Figures
from steelyard.verdict.finding import Finding, NotApplicable, Status

FILE = "verdict.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run comes to."""

    run: Path
    run_status: str
    status: Status
    findings: tuple[Finding, ...]
    not_applicable: tuple[NotApplicable, ...]
    figures: Figures
    thresholds: tuple[str, ...]
    """Bounds asked beside the experiment's own."""
    warmup_steps: int
    """Steps asked to be left out of every rate."""

    def failed(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.status == Status.FAIL)

    def undecided(self) -> tuple[Finding, ...]:
        """Required findings that are unknown: why the verdict is."""
        return tuple(one for one in self.findings if one.status == Status.UNKNOWN and one.required)

    def by_weight(self) -> list[Finding]:
        """As a person wants to read them: what failed, what leaves the verdict open, what passed, the weightless."""

        def rank(finding: Finding) -> tuple[int, bool]:
            weightless = finding.status == Status.UNKNOWN and not finding.required
            order = 3 if weightless else (Status.FAIL, Status.UNKNOWN, Status.PASS).index(finding.status)
            return order, not finding.required

        return sorted(self.findings, key=rank)

    def document(self) -> dict[str, Any]:
        """What `check --json` prints."""
        return {
            "run": str(self.run.resolve()),
            "status": self.run_status,
            "verdict": self.status.value,
            "not_applicable": [one.check for one in self.not_applicable],
            "findings": [finding.document() for finding in self.findings],
            "reasons_not_applicable": {one.check: one.message for one in self.not_applicable},
            "figures": figures_document(self.figures),
            "thresholds": list(self.thresholds),
            "warmup_steps": self.warmup_steps,
        }


def figures_document(figures: Figures) -> dict[str, Any]:
    """The metrics, with the window they were taken on and why one is null."""
    named: dict[str, Figure] = {
        "tokens_per_s_per_gpu": figures.tokens_per_s_per_gpu,
        "tflops_per_gpu": figures.tflops_per_gpu,
        "mfu": figures.mfu,
        "step_time_s": figures.step_time_s,
        "memory_peak_gib": figures.memory_peak_gib,
    }
    window = figures.window
    return {
        **{name: figure.value for name, figure in named.items()},
        "step_time_p95_s": figures.step_time_p95_s,
        "memory_kind": figures.memory_kind,
        "tokens_per_step": figures.tokens_per_step,
        "unknown": {name: figure.why for name, figure in named.items() if figure.value is None},
        "window": {
            "steps": window.steps,
            "first_step": window.first_step,
            "last_step": window.last_step,
            "dropped": dict(window.dropped),
            "settled": window.settled,
        },
    }


def save(verdict: Verdict, not_saved: Callable[[Path, OSError], None] | None = None) -> None:
    """Write verdict.json, replacing an earlier one whole; `not_saved` is called where that cannot be."""
    content = {"schema_version": SCHEMA_VERSION, **verdict.document(), "run": verdict.run.name}
    try:
        replace_file(verdict.run / FILE, json.dumps(content, indent=2, allow_nan=False) + "\n")
    except OSError as reason:
        if not_saved is None:
            raise
        not_saved(verdict.run / FILE, reason)


def saved(run: Path) -> dict[str, Any] | None:
    """What the last check of a run came to; None where it was not checked."""
    try:
        content = read_json(run / FILE)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as reason:
        raise InputError(
            f"{run / FILE}: cannot be read ({reason})", key="RUN", value=str(run), next=f"steelyard check {run}"
        ) from None
    if not isinstance(content, dict) or not _is_verdict(content):
        raise InputError(
            f"{run / FILE}: not a verdict", key="RUN", value=str(run), next=f"steelyard check {run}"
        ) from None
    return content


def _is_verdict(content: dict[str, Any]) -> bool:
    thresholds, warmup_steps = content.get("thresholds"), content.get("warmup_steps")
    return (
        content.get("verdict") in [*Status]
        and isinstance(thresholds, list)
        and all(isinstance(one, str) for one in thresholds)
        and type(warmup_steps) is int
        and warmup_steps >= 0
    )


def word_of(run: Run) -> str | None:
    """The word of the last check; None where there was none since the run ended, or it cannot be read any more."""
    try:
        content = saved(run.directory)
    except InputError:
        return None
    return content["verdict"] if content and content.get("status") == run.status else None
