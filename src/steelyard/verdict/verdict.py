"""The verdict of a run: all findings, as a document and as verdict.json in the run directory."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from steelyard.errors import InputError
from steelyard.experiment.thresholds import METRICS
from steelyard.files import place_of, replace_file
from steelyard.records import Run, read_json
from steelyard.records.manifest import Override
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
    """Thresholds in addition to those of the experiment."""
    warmup_steps: int
    """Leading steps that the user excludes from all rates."""
    run_in_files: int = 1
    """Which run of the imported files it is."""
    runs_in_files: int = 1
    """How many runs these files hold."""
    overridden: Mapping[str, Override] = field(default_factory=dict)
    """Settings that replace those of the log."""

    def failed(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.status == Status.FAIL)

    def undecided(self) -> tuple[Finding, ...]:
        """Required findings that are unknown and make the verdict unknown."""
        return tuple(finding for finding in self.findings if finding.status == Status.UNKNOWN and finding.required)

    def by_weight(self) -> list[Finding]:
        """In the order of reading: failed, unknown and required, passed, unknown and not required."""

        def rank(finding: Finding) -> tuple[bool, int, bool]:
            without_effect = finding.status == Status.UNKNOWN and not finding.required
            return without_effect, -[*Status].index(finding.status), not finding.required

        return sorted(self.findings, key=rank)

    def document(self) -> dict[str, Any]:
        """The document of `check --json`."""
        return {
            "run": str(self.run.resolve()),
            "status": self.run_status,
            "verdict": self.status.value,
            "not_applicable": [result.check for result in self.not_applicable],
            "findings": [finding.document() for finding in self.findings],
            "reasons_not_applicable": {result.check: result.message for result in self.not_applicable},
            "not_applicable_codes": {result.check: result.code.name for result in self.not_applicable},
            "figures": figures_document(self.figures),
            "thresholds": list(self.thresholds),
            "warmup_steps": self.warmup_steps,
            "run_in_files": self.run_in_files,
            "runs_in_files": self.runs_in_files,
            "overridden": {key: override.model_dump() for key, override in self.overridden.items()},
        }


def figures_document(figures: Figures) -> dict[str, Any]:
    """The metrics, their steady window, and the reason of each null."""
    named, window = {name: figures.metric(name) for name in METRICS}, figures.window
    return {
        **{name: figure.value for name, figure in named.items()},
        "step_time_p95_s": figures.step_time_p95_s,
        "memory_kind": figures.memory_kind,
        "tokens_per_step": figures.tokens_per_step,
        "unknown": {name: figure.why for name, figure in named.items() if figure.value is None},
        "unknown_codes": {name: figure.reason.code.name for name, figure in named.items() if figure.reason},
        "window": {name: getattr(window, name) for name in ("steps", "first_step", "last_step", "dropped", "settled")},
    }


def file_text(verdict: Verdict) -> str:
    """The content of verdict.json."""
    content = {"schema_version": SCHEMA_VERSION, **verdict.document(), "run": verdict.run.name}
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def save(verdict: Verdict, not_saved: Callable[[Path, OSError], None] | None = None) -> None:
    """Replace verdict.json. `not_saved` is called if it cannot be written."""
    try:
        replace_file(verdict.run / FILE, file_text(verdict))
    except OSError as reason:
        if not_saved is None:
            raise
        not_saved(verdict.run / FILE, reason)


class _Saved(msgspec.Struct):
    """The fields of a saved verdict that are read again."""

    verdict: Status
    thresholds: list[str]
    warmup_steps: Annotated[int, msgspec.Meta(ge=0)]


def saved(run: Path) -> dict[str, Any] | None:
    """The result of the last check of a run; None if it was never checked."""
    try:
        content = read_json(run / FILE)
        msgspec.convert(content, _Saved)
    except FileNotFoundError:
        return None
    except msgspec.ValidationError:
        problem = "not a verdict"
    except (OSError, ValueError) as reason:
        problem = f"not readable ({reason})"
    else:
        return dict(content)
    raise InputError(f"{place_of(run / FILE)} is {problem}", key="RUN", value=str(run), next=f"steelyard check {run}")


def word_of(run: Run) -> str | None:
    """Verdict of the last check; None if there was no check since the run ended, or the file is unreadable."""
    try:
        content = saved(run.directory)
    except InputError:
        return None
    return content["verdict"] if content and content.get("status") == run.status else None
