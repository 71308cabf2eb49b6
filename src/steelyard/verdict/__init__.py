"""Judges one run: findings with evidence, and the verdict that follows from them."""

import importlib
from collections.abc import Iterator
from types import ModuleType

from steelyard.errors import Exit
from steelyard.reasons import Code, codes_in
from steelyard.verdict import figures, finding, reported_flops
from steelyard.verdict.finding import Finding, NotApplicable, Status, together, worst
from steelyard.verdict.subject import Subject, policy_of, read_subject, read_subjects
from steelyard.verdict.verdict import FILE, Verdict, figures_document, file_text, save, saved, word_of

CHECKS = (
    "completed",
    "steps_present",
    "loss_finite",
    "thresholds",
    "throughput_identity",
    "peak_flops",
    "memory_capacity",
    "first_loss",
    "loss_falling",
    "loss_floor",
    "loss_spikes",
    "grad_norm_finite",
    "skipped_steps",
    "stall",
    "step_times",
    "stragglers",
    "batch_identity",
    "world_identity",
    "plan_identity",
    "fabric",
    "hosts",
    "errors",
)
"""In the order of reading: required checks first."""

EXIT_OF = {Status.PASS: Exit.GOOD, Status.FAIL: Exit.FAILED, Status.UNKNOWN: Exit.UNKNOWN}


def judge(subject: Subject) -> Verdict:
    """Run all checks. Fail if a finding failed, else unknown if a required one is unknown, else pass."""
    results = [result for check in _checks() for result in check.check(subject)]
    findings = tuple(result for result in results if isinstance(result, Finding))
    ingested = subject.run.manifest.ingested
    return Verdict(
        run=subject.run.directory,
        run_status=subject.run.status,
        status=together(findings),
        findings=findings,
        not_applicable=tuple(result for result in results if isinstance(result, NotApplicable)),
        figures=subject.figures,
        thresholds=subject.extra_thresholds,
        warmup_steps=subject.asked_warmup_steps,
        run_in_files=ingested.run if ingested else 1,
        runs_in_files=max(1, len(ingested.runs)) if ingested else 1,
        overridden=ingested.overridden if ingested else {},
    )


def codes() -> dict[Code, str]:
    """All codes of findings and of missing figures, with their meanings."""
    return codes_in(*_checks(), finding, figures, reported_flops)


def _checks() -> Iterator[ModuleType]:
    return (importlib.import_module(f"{__name__}.checks.{name}") for name in CHECKS)


__all__ = ["CHECKS", "EXIT_OF", "codes", "judge"]
__all__ += ["Finding", "NotApplicable", "Status", "worst"]
__all__ += ["Subject", "policy_of", "read_subject", "read_subjects"]
__all__ += ["FILE", "Verdict", "figures_document", "file_text", "save", "saved", "word_of"]
