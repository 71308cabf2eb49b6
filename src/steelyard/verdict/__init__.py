"""Judges one run: every finding with its evidence, and the verdict they come to."""

import importlib
from collections.abc import Iterator
from types import ModuleType

from steelyard.errors import Exit
from steelyard.reasons import Code, codes_in
from steelyard.verdict import figures, finding
from steelyard.verdict.finding import Finding, NotApplicable, Status, together, worst
from steelyard.verdict.subject import Subject, policy_of, read_subject, read_subjects
from steelyard.verdict.verdict import Verdict, figures_document, save, saved, word_of

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
    "stragglers",
    "batch_identity",
    "world_identity",
    "plan_identity",
    "fabric",
    "hosts",
    "errors",
)
"""In the order a person wants to read them: what is required first."""

EXIT_OF = {Status.PASS: Exit.GOOD, Status.FAIL: Exit.FAILED, Status.UNKNOWN: Exit.UNKNOWN}


def judge(subject: Subject) -> Verdict:
    """Every check over one run; fails if one failed, else is unknown if a required one is, else passes."""
    results = [result for check in _checks() for result in check.check(subject)]
    findings = tuple(result for result in results if isinstance(result, Finding))
    return Verdict(
        run=subject.run.directory,
        run_status=subject.run.status,
        status=together(findings),
        findings=findings,
        not_applicable=tuple(result for result in results if isinstance(result, NotApplicable)),
        figures=subject.figures,
        thresholds=subject.extra_thresholds,
        warmup_steps=subject.asked_warmup_steps,
    )


def codes() -> dict[Code, str]:
    """Every code of a finding and of a figure that is not known, with its meaning."""
    return codes_in(*_checks(), finding, figures)


def _checks() -> Iterator[ModuleType]:
    return (importlib.import_module(f"{__name__}.checks.{name}") for name in CHECKS)


__all__ = ["CHECKS", "EXIT_OF", "codes", "judge"]
__all__ += ["Finding", "NotApplicable", "Status", "worst"]
__all__ += ["Subject", "policy_of", "read_subject", "read_subjects"]
__all__ += ["Verdict", "figures_document", "save", "saved", "word_of"]
