"""The verdict of a run: all its findings, as a document and as verdict.json beside the run."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from steelyard.errors import InputError
from steelyard.experiment.thresholds import METRICS
from steelyard.files import replace_file
from steelyard.records import Run, read_json
from steelyard.verdict.figures import Figures
from steelyard.verdict.finding import Finding, NotApplicable, Status

FILE = "verdict.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Verdict:
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
        return tuple(finding for finding in self.findings if finding.status == Status.UNKNOWN and finding.required)

    def by_weight(self) -> list[Finding]:
        """As a person wants to read them: what failed, what leaves the verdict open, what passed, the weightless."""

        def rank(finding: Finding) -> tuple[bool, int, bool]:
            weightless = finding.status == Status.UNKNOWN and not finding.required
            return weightless, -[*Status].index(finding.status), not finding.required

        return sorted(self.findings, key=rank)

    def document(self) -> dict[str, Any]:
        """What `check --json` prints."""
        return {
            "run": str(self.run.resolve()),
            "status": self.run_status,
            "verdict": self.status.value,
            "not_applicable": [result.check for result in self.not_applicable],
            "findings": [finding.document() for finding in self.findings],
            "reasons_not_applicable": {result.check: result.message for result in self.not_applicable},
            "figures": figures_document(self.figures),
            "thresholds": list(self.thresholds),
            "warmup_steps": self.warmup_steps,
        }


def figures_document(figures: Figures) -> dict[str, Any]:
    """The metrics, with the window they were taken on and why one is null."""
    named, window = {name: figures.metric(name) for name in METRICS}, figures.window
    return {
        **{name: figure.value for name, figure in named.items()},
        "step_time_p95_s": figures.step_time_p95_s,
        "memory_kind": figures.memory_kind,
        "tokens_per_step": figures.tokens_per_step,
        "unknown": {name: figure.why for name, figure in named.items() if figure.value is None},
        "window": {name: getattr(window, name) for name in ("steps", "first_step", "last_step", "dropped", "settled")},
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


class _Saved(msgspec.Struct):
    """What is read again of a verdict that was saved."""

    verdict: Status
    thresholds: list[str]
    warmup_steps: Annotated[int, msgspec.Meta(ge=0)]


def saved(run: Path) -> dict[str, Any] | None:
    """What the last check of a run came to; None where it was not checked."""
    try:
        content = read_json(run / FILE)
        msgspec.convert(content, _Saved)
    except FileNotFoundError:
        return None
    except msgspec.ValidationError:
        problem = "not a verdict"
    except (OSError, ValueError) as reason:
        problem = f"cannot be read ({reason})"
    else:
        return dict(content)
    raise InputError(f"{run / FILE}: {problem}", key="RUN", value=str(run), next=f"steelyard check {run}")


def word_of(run: Run) -> str | None:
    """The word of the last check; None where there was none since the run ended, or it cannot be read any more."""
    try:
        content = saved(run.directory)
    except InputError:
        return None
    return content["verdict"] if content and content.get("status") == run.status else None
