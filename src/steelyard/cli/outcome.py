"""What a run came to, for the terminal and as a document: verdict, failure, last log lines, next command."""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.cli import printing
from steelyard.errors import Exit
from steelyard.files import open_regular

if TYPE_CHECKING:
    from steelyard.cli.progress import RunView
    from steelyard.planning.make import Planned
    from steelyard.records import RunManifest
    from steelyard.verdict import Finding, Verdict
    from steelyard.verdict.figures import Figures

RECORDED = {"completed": Exit.GOOD, "failed": Exit.FAILED, "interrupted": Exit.INTERRUPTED}
"""Exit status of a run that was not judged."""
_LAST_LINES, _LAST_BYTES = 5, 1 << 16
"""What is shown of a failed run's log."""
_UNEVEN = 1.5
"""Times the median step time, above which the slowest steps are shown too: a rate covers all steps."""
_WIDEST = 24
"""Characters of a check's name that the column of names makes room for."""


class Detail(Enum):
    """How much of a verdict is printed."""

    QUIET = auto()
    USUAL = auto()
    VERBOSE = auto()


def not_saved(path: Path, reason: OSError) -> None:
    """Warn of a verdict that cannot be saved; it is still shown."""
    printing.note(f"warning: cannot write {path} ({reason.strerror})")


def show_verdict(judged: "Verdict", detail: Detail = Detail.USUAL) -> None:
    """The verdict with its counts, the rates, then findings: failures last, so that they stay on the screen."""
    from steelyard.verdict import Status

    word = judged.status.value
    failed, unknown, passed = (
        [finding for finding in judged.findings if finding.status == status]
        for status in (Status.FAIL, Status.UNKNOWN, Status.PASS)
    )
    required = sum(finding.required for finding in unknown)
    counts = {
        "failed": len(failed),
        "required unknown": required,
        "optional unknown": len(unknown) - required,
        "passed": len(passed),
    }
    words = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    printing.item(f"verdict: {word.upper()}", f" ({words})  {judged.run}", 2, printing.STATUS_STYLES[word])
    if detail == Detail.QUIET:
        return
    printing.item("  ", f"{_rates(judged.figures)}; {judged.figures.window.words()}")
    for key, override in judged.overridden.items():
        printing.item("  overridden  ", f"{key} = {override.words}")
    if judged.runs_in_files > 1:
        which = f"run {judged.run_in_files} of {judged.runs_in_files} in its file"
        printing.item("  ", f"{which}; `steelyard ingest … --run N` imports another")
    for name, why in _unknown_rates(judged.figures):
        printing.item("  ", f"{name} unknown: {why}")
    width = max((len(finding.check) for finding in judged.findings if len(finding.check) <= _WIDEST), default=0)
    if detail == Detail.VERBOSE:
        for skipped in judged.not_applicable:
            printing.finding("n/a", skipped.check, skipped.message, width)
        _show_findings(passed, width)
    elif passed:
        printing.finding("pass", f"{len(passed)} checks", "-v lists them", width)
    _show_findings(sorted(unknown, key=lambda finding: not finding.required), width)
    _show_findings(failed, width)


def _show_findings(findings: Sequence["Finding"], width: int) -> None:
    for finding in findings:
        at = finding.evidence
        where = f"  [{at.file}:{at.line}]" if at else ""
        mark = "required: " if finding.required and finding.status.value == "unknown" else ""
        printing.finding(finding.status.value, finding.check, f"{mark}{finding.message}{where}", width)


def _rates(figures: "Figures") -> str:
    rate, time, mfu = figures.tokens_per_s_per_gpu, figures.step_time_s.value, figures.mfu
    words = []
    if rate.value is not None:
        words.append(f"{rate.value:,.1f} tokens/s per GPU{' (as reported)' if rate.reported else ''}")
    if time is not None:
        slow = figures.step_time_p95_s
        tail = f", p95 {slow:.4g} s" if slow is not None and slow > _UNEVEN * time else ""
        words.append(f"{time:.4g} s per step (median{tail})")
    if mfu.value is not None:
        words.append(f"MFU {100 * mfu.value:.1f}%{' (TFLOP/s as reported)' if mfu.reported else ''}")
    return ", ".join(words) or "rates unknown"


def _unknown_rates(figures: "Figures") -> Iterator[tuple[str, str]]:
    """Why a rate is missing that the run could have: its speed, or else its MFU on a GPU with a peak."""
    from steelyard.verdict.figures import FLOPS_PER_TOKEN_UNKNOWN, NO_PEAK_FOR_PRECISION

    rate, mfu = figures.tokens_per_s_per_gpu.reason, figures.mfu.reason
    if rate is not None:
        yield "tokens/s", rate.message
    elif mfu is not None and mfu.code in (FLOPS_PER_TOKEN_UNKNOWN, NO_PEAK_FOR_PRECISION):
        yield "MFU", mfu.message


def say_next(written: Path | None, directory: Path) -> None:
    if written is not None:
        printing.say(f"wrote {written}")
    printing.say(f"next: steelyard report {shlex.quote(str(directory))}")


def run_document(directory: Path, manifest: "RunManifest", steps: int, verdict: str | None) -> dict[str, Any]:
    return {
        "run": str(directory.resolve()),
        "framework": manifest.framework,
        "status": manifest.status,
        "steps": steps,
        "verdict": verdict,
        "failure": manifest.failure.model_dump() if manifest.failure else None,
    }


def say_last_lines(directory: Path, manifest: "RunManifest", say: Callable[[str], None]) -> None:
    log = _failed_log(directory, manifest)
    try:
        with open_regular(log, directory) as content:
            content.seek(max(0, os.fstat(content.fileno()).st_size - _LAST_BYTES))
            lines = content.read(_LAST_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    if last := [line.rstrip()[:300] for line in lines if line.strip()][-_LAST_LINES:]:
        say(f"last lines of {log}:")
        for line in last:
            say(f"  {line}")


def _failed_log(directory: Path, manifest: "RunManifest") -> Path:
    """The log of the node that failed, or of the first node."""
    failure = manifest.failure
    if failure is not None and failure.file:
        return directory / failure.file
    at = manifest.hosts.index(failure.node) if failure is not None and failure.node in manifest.hosts else 0
    return directory / "logs" / f"node{at}.log"


def say_failure(manifest: "RunManifest", head: str = "") -> None:
    """Why a run failed, as `oom: CUDA out of memory (logs/node0.log:12)`."""
    from steelyard.cli import runs_show

    if manifest.failure is not None:
        printing.item(head, runs_show.failure_words(manifest.failure), style=printing.Style.BAD)


def counted(count: int, noun: str) -> str:
    """`1 step`, `20 steps`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def view_of(planned: "Planned", label: str = "recording") -> "RunView":
    from steelyard.cli.progress import RunView

    return RunView(planned.case.resolved.experiment.training.steps, planned.plan.expected.peak_tflops_per_gpu, label)
