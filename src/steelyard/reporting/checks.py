"""The checks of one run or of several: failed, unknown, passed and not applicable."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from steelyard.reporting.evidence import excerpts
from steelyard.reporting.page import Cell, Excerpt, Group, Table, typeset
from steelyard.verdict import Finding, Status, Subject, Verdict
from steelyard.verdict.checks.loss_finite import LOSS_NOT_FINITE

Judged = tuple[str, Subject, Verdict]
"""A run: its label, its content and its verdict."""


_LOSS_LEFT_OUT = re.compile(r"(?i)^(?=.*\bloss scale\b)(?!.*\bloss\b(?! scale))")
"""A line with the loss scale of the optimizer and without the loss: some trainers leave out a loss that is NaN."""


@dataclass
class _Row:
    """One finding, with every run that has it."""

    check: str
    message: str
    required: bool
    excerpt: Excerpt | None
    runs: list[str] = field(default_factory=list)

    def cells(self, several: bool) -> list[str | Cell]:
        weight = "required" if self.required else "optional"
        message = Cell(typeset(self.message), excerpt=self.excerpt)
        return [self.check, message, weight, *([", ".join(self.runs)] if several else [])]


def checks_group(runs: Sequence[Judged]) -> Group:
    """Failed and unknown required checks are open, the others folded."""
    several = len(runs) > 1
    rows = _rows(runs)
    required = [row for row in rows[Status.UNKNOWN] if row.required]
    optional = [row for row in rows[Status.UNKNOWN] if not row.required]
    columns = ["check", "finding", "weight", *(["runs"] if several else [])]
    kinds = (
        ("failed", rows[Status.FAIL], False),
        ("unknown (required)", required, False),
        ("unknown (optional)", optional, True),
        ("passed", rows[Status.PASS], True),
    )
    tables = [
        Table(f"{len(members)} {word}", columns, [row.cells(several) for row in members], folded=folded)
        for word, members, folded in kinds
        if members
    ]
    window = runs[0][2].figures.window.words() if runs else ""
    note = f"Rates use {window}." if window and not several else ""
    return Group("Checks", [*tables, *_not_applicable(runs)], note)


def _noted(excerpt: Excerpt | None, finding: Finding) -> Excerpt | None:
    """Says so if the line of an invalid loss has no loss."""
    if excerpt is None or finding.code is not LOSS_NOT_FINITE:
        return excerpt
    line = next((line.text for line in excerpt.lines if line.number == excerpt.line), "")
    return replace(excerpt, note="This line has no loss.") if _LOSS_LEFT_OUT.search(line) else excerpt


def _not_applicable(runs: Sequence[Judged]) -> list[Table]:
    skipped = dict.fromkeys(
        (result.check, result.message) for _, _, verdict in runs for result in verdict.not_applicable
    )
    title = f"{len(skipped)} not applicable"
    return [Table(title, ["check", "reason"], [list(row) for row in skipped], folded=True)] if skipped else []


def _rows(runs: Sequence[Judged]) -> dict[Status, list[_Row]]:
    """By status, in the order of their weight; runs with the same finding share a row and the evidence of the first."""
    rows: dict[tuple[Status, str, str], _Row] = {}
    for label, subject, verdict in runs:
        findings = {(finding.status, finding.check, finding.message): finding for finding in verdict.by_weight()}
        places = [finding.evidence for key, finding in findings.items() if key not in rows]
        lines = excerpts(subject.run.directory, places)
        for key, finding in findings.items():
            excerpt = _noted(lines.get(finding.evidence) if finding.evidence else None, finding)
            rows.setdefault(key, _Row(finding.check, finding.message, finding.required, excerpt)).runs.append(label)
    return {status: [row for key, row in rows.items() if key[0] == status] for status in Status}
