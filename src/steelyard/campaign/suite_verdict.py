"""Judges the runs of a suite: each by itself, then each cell, then all together."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from steelyard.campaign.resume import is_oom
from steelyard.errors import Exit
from steelyard.execute.executor import TRAINING
from steelyard.records import SUITE, Run
from steelyard.records.fleet import reading_run
from steelyard.records.suite import Suite, SuiteCell
from steelyard.verdict import Finding, Status, Subject, Verdict, judge, read_subject, save


class CellStatus(StrEnum):
    """What came of a cell, worst first."""

    LOST = "lost"
    """A run ended by a failure of a machine, container or connection."""
    FAIL = "fail"
    OOM = "oom"
    MISSING = "missing"
    """A run is still to be made, or was interrupted."""
    UNKNOWN = "unknown"
    SKIPPED = "skipped"
    """Not run: the plan needs more memory than the GPU has."""
    PASS = "pass"

    @property
    def words(self) -> str:
        return _WORDS.get(self, self.value)


_WORDS = {CellStatus.OOM: "OOM", CellStatus.MISSING: "not run", CellStatus.SKIPPED: "predicted OOM"}
_EXITS = {
    CellStatus.LOST: Exit.INFRASTRUCTURE,
    CellStatus.FAIL: Exit.FAILED,
    CellStatus.OOM: Exit.FAILED,
    CellStatus.MISSING: Exit.UNKNOWN,
    CellStatus.UNKNOWN: Exit.UNKNOWN,
}
_WORST = (Exit.INFRASTRUCTURE, Exit.FAILED, Exit.UNKNOWN)
"""The order in which cells decide the exit status of a suite."""
_OF_STATUS = {Status.FAIL: CellStatus.FAIL, Status.UNKNOWN: CellStatus.UNKNOWN, Status.PASS: CellStatus.PASS}


@dataclass(frozen=True, slots=True)
class CellRun:
    """A run of a cell and its verdict; both None if it does not exist."""

    name: str
    run: Run | None
    verdict: Verdict | None

    @property
    def status(self) -> CellStatus:
        if self.run is None or self.verdict is None or self.run.status in ("running", "interrupted"):
            return CellStatus.MISSING
        if is_oom(self.run):
            return CellStatus.OOM
        failure = self.run.manifest.failure
        if failure is not None and failure.kind not in TRAINING and self.run.manifest.ingested is None:
            return CellStatus.LOST
        return _OF_STATUS[self.verdict.status]


@dataclass(frozen=True, slots=True)
class CellVerdict:
    cell: SuiteCell
    runs: tuple[CellRun, ...]

    @property
    def status(self) -> CellStatus:
        if self.cell.skipped:
            return CellStatus.SKIPPED
        statuses = {run.status for run in self.runs}
        return next(status for status in CellStatus if status in statuses)

    @property
    def is_expected(self) -> bool:
        """Whether it ran out of memory as declared."""
        return self.status == CellStatus.OOM and self.cell.expect == "oom"

    @property
    def exit(self) -> Exit:
        return Exit.GOOD if self.is_expected else _EXITS.get(self.status, Exit.GOOD)

    def verdicts(self) -> Iterator[Verdict]:
        return (run.verdict for run in self.runs if run.verdict is not None)

    @property
    def decisive(self) -> tuple[CellRun, Finding] | None:
        """The first finding of its worst run; None if it passed or has no run."""
        for run in self.runs:
            if run.status == self.status and run.verdict is not None:
                findings = (*run.verdict.failed(), *run.verdict.undecided())
                return (run, findings[0]) if findings else None
        return None


@dataclass(frozen=True, slots=True)
class SuiteVerdict:
    suite: Suite
    cells: tuple[CellVerdict, ...]

    @property
    def exit(self) -> Exit:
        """The worst of all cells, in the order 3, 1, 5, 0; unknown if no cell was run."""
        exits = {cell.exit for cell in self.cells if cell.status != CellStatus.SKIPPED} or {Exit.UNKNOWN}
        return next((exit for exit in _WORST if exit in exits), Exit.GOOD)

    @property
    def status(self) -> Status:
        return {Exit.GOOD: Status.PASS, Exit.UNKNOWN: Status.UNKNOWN}.get(self.exit, Status.FAIL)

    def updated(self) -> Suite:
        """The suite with its joint verdict, unless only one platform was judged."""
        if self.suite.platform is not None:
            return self.suite
        return self.suite.updated(verdict=self.status.value)

    def counts(self) -> dict[CellStatus, int]:
        statuses = [cell.status for cell in self.cells]
        return {status: statuses.count(status) for status in reversed(CellStatus) if status in statuses}


def judge_suite(suite: Suite, read: Callable[[Run], Subject] = read_subject) -> SuiteVerdict:
    """Judge every run; `read` sets thresholds and warm-up."""
    return SuiteVerdict(suite, tuple(CellVerdict(cell, tuple(_judged(suite, cell, read))) for cell in suite.cells))


def _judged(suite: Suite, cell: SuiteCell, read: Callable[[Run], Subject]) -> Iterator[CellRun]:
    for name in cell.runs:
        run = suite.run(cell, name)
        with reading_run(suite.directory, cell.path_of(name)):
            yield CellRun(name, run, judge(read(run)) if run is not None else None)


def judge_and_save(
    suite: Suite, not_saved: Callable[[Path, OSError], None], read: Callable[[Run], Subject] = read_subject
) -> SuiteVerdict:
    """Judge a suite; save each verdict with its run, and the joint one of all platforms in suite.json."""
    judged = judge_suite(suite, read)
    for cell in judged.cells:
        for verdict in cell.verdicts():
            save(verdict, not_saved)
    if suite.platform is not None:
        return judged
    saved = judged.updated()
    try:
        saved.save()
    except OSError as reason:
        not_saved(suite.directory / SUITE, reason)
    return SuiteVerdict(saved, judged.cells)
