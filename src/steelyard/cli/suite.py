"""A suite on the command line: its cells with their results, and the verdict of all."""

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from steelyard import verdict
from steelyard.campaign.series import Made
from steelyard.campaign.suite_verdict import CellStatus, CellVerdict, SuiteVerdict, judge_and_save, judge_suite
from steelyard.campaign.waterfall import waterfall
from steelyard.cli import columns, printing, runs_show
from steelyard.cli.columns import Cells, Column
from steelyard.cli.outcome import counted, not_saved, run_document, say_next
from steelyard.cli.printing import Style
from steelyard.cli.run_summaries import suite_summary
from steelyard.comparison.intervals import geometric_mean
from steelyard.files import replace_file
from steelyard.reasons import Reason
from steelyard.records import Run
from steelyard.records.suite import JUNIT, Suite
from steelyard.reporting import junit
from steelyard.reporting.curves import number
from steelyard.reporting.waterfall_blocks import headline, parts
from steelyard.verdict import Status, Verdict

if TYPE_CHECKING:
    from steelyard.cli.check import CheckOptions

_COLUMNS = (
    Column("verdict", "verdict"),
    Column("name", "cell"),
    Column("tokens_per_s_per_gpu", "tokens/s/GPU", 1, is_number=True),
    Column("mfu", "MFU", 3, is_number=True),
    Column("memory_peak_gib", "GiB/GPU", 2, is_number=True),
    Column("runs", "runs", 4),
)
_MOST_ROWS = 20
"""Cells in the table; all of them are in `steelyard runs show`."""
_STATUS_OF = {CellStatus.PASS: Status.PASS, CellStatus.UNKNOWN: Status.UNKNOWN, CellStatus.MISSING: Status.UNKNOWN}
_NOT_A_PROBLEM = (CellStatus.PASS, CellStatus.SKIPPED)


def check_suite(suite: Suite, thresholds: Sequence[str], options: "CheckOptions") -> int:
    """Judge each run, each cell and the suite."""
    bounded = partial(verdict.read_subject, thresholds=thresholds, warmup_steps=options.warmup_steps)
    judged = judge_and_save(suite, not_saved, bounded)
    if options.junit is not None:
        junit.write(options.junit, junit.of_suite(judged))
    if options.as_json:
        printing.show_json(document(judged))
    else:
        show(judged, options.quiet)
        if not options.quiet:
            say_next(options.junit, suite.directory)
    return judged.exit


def write_junit(judged: SuiteVerdict) -> None:
    """The JUnit file of a suite that was run, in its directory."""
    place = judged.suite.directory / JUNIT
    try:
        replace_file(place, junit.render(list(junit.of_suite(judged))))
    except OSError as reason:
        not_saved(place, reason)


def document(judged: SuiteVerdict) -> dict[str, Any]:
    """What `check --json` prints of a suite."""
    return {
        **_head(judged.suite),
        "verdict": judged.status.value,
        "cells": [_cell_document(cell) for cell in judged.cells],
        "runs": [
            {"cell": cell.cell.directory, "name": run.name, **(run.verdict.document() if run.verdict else _ABSENT)}
            for cell in judged.cells
            for run in cell.runs
            if not cell.cell.skipped
        ],
        "ladder": _ladder_document(judged),
    }


def _ladder_document(judged: SuiteVerdict) -> dict[str, Any] | None:
    if judged.suite.manifest.ladder is None:
        return None
    made = waterfall(judged)
    return {"unknown": made.document()} if isinstance(made, Reason) else made.document()


_ABSENT: dict[str, Any] = {"run": None, "status": None, "verdict": None, "not_applicable": [], "findings": []}


def _head(suite: Suite) -> dict[str, Any]:
    return {"suite": str(suite.directory.resolve()), "platform": suite.platform, "axes": suite.manifest.axes}


def _cell_document(cell: CellVerdict) -> dict[str, Any]:
    content = cell.cell.model_dump(mode="json", exclude={"directory"})
    return {
        **content,
        "cell": cell.cell.directory,
        "status": cell.status.value,
        "is_expected": cell.is_expected,
        "figures": {metric: figure_of(cell, metric) for metric in _METRICS},
    }


_METRICS = ("tokens_per_s_per_gpu", "mfu", "step_time_s", "memory_peak_gib")


def figure_of(cell: CellVerdict, metric: str) -> float | None:
    """The geometric mean of its completed runs."""
    verdicts = [
        run.verdict for run in cell.runs if run.verdict and run.run and run.run.status in ("completed", "ended")
    ]
    known = [value for each in verdicts if (value := each.figures.metric(metric).value)]
    return geometric_mean(known) if known else None


def run_document_of(made: Made, judged: SuiteVerdict | None) -> dict[str, Any]:
    """What `run --suite --json` prints."""
    suite = made.suite if judged is None else judged.suite
    runs = [
        {"cell": cell.directory, "name": name, **run_document(run.directory, run.manifest, run.num_steps, word)}
        for cell in suite.cells
        for name in cell.runs
        if (run := suite.run(cell, name)) is not None
        for word in [verdict.word_of(run)]
    ]
    return {
        **_head(suite),
        "planned": made.num_planned,
        "made": len(made.runs),
        "kept": made.kept,
        "runs": runs,
        "cells": [_cell_document(cell) for cell in judged.cells] if judged else None,
        "verdict": judged.status.value if judged else None,
        "ladder": _ladder_document(judged) if judged else None,
        "junit": str((suite.directory / JUNIT).resolve()) if judged else None,
    }


def show(judged: SuiteVerdict, quiet: bool = False) -> None:
    """Verdict and counts, one row per cell, then why cells did not pass."""
    suite = judged.suite
    _say_head(judged)
    if quiet:
        return
    cells = sorted(judged.cells, key=lambda cell: cell.status in _NOT_A_PROBLEM)
    if len(cells) <= _MOST_ROWS:
        cells = list(judged.cells)
    rows = [_row(cell) for cell in cells[:_MOST_ROWS]]
    columns.show(_COLUMNS, rows, "  ")
    if len(cells) > _MOST_ROWS:
        all_cells = f"steelyard runs show {shlex.quote(str(suite.directory))}"
        printing.say(f"  and {len(cells) - _MOST_ROWS} more: {all_cells}")
    for cell in judged.cells:
        if cell.status in (CellStatus.OOM, CellStatus.SKIPPED):
            printing.item(
                f"  {cell.status.words}  ", f"{cell.cell.directory}: {memory_words(cell)}", style=_style(cell)
            )
    _say_ladder(judged)
    runs_show.say_reasons(_reasons(judged))


def _say_ladder(judged: SuiteVerdict) -> None:
    """The gap of a ladder and its parts, in two lines."""
    if judged.suite.manifest.ladder is None:
        return
    made = waterfall(judged)
    if isinstance(made, Reason):
        printing.item("ladder: ", made.message, style=Style.DOUBTFUL)
        return
    printing.item("ladder: ", headline(made), style=Style.STRONG)
    printing.item("  ", parts(made))


def _say_head(judged: SuiteVerdict) -> None:
    counts = ", ".join(f"{count} {status.words}" for status, count in judged.counts().items())
    words = f"{counted(len(judged.cells), 'cell')}: {counts}  {judged.suite.directory}"
    runs_show.say_verdict("suite", judged.status.value, words)


def show_suite(suite: Suite, as_json: bool) -> None:
    """What `runs show` prints: every cell, judged as it is now."""
    judged = judge_suite(suite)
    if as_json:
        printing.show_json({**suite_summary(suite), **document(judged)})
        return
    _say_head(judged)
    rows = list(map(_row, judged.cells))
    columns.page(columns.lines(columns.fitting(_COLUMNS, rows, "  "), rows, "  "))
    _say_ladder(judged)
    runs_show.say_next(next_step(suite, judged))


def _style(cell: CellVerdict) -> Style:
    return Style.FAINT if cell.is_expected or cell.status == CellStatus.SKIPPED else Style.BAD


def memory_words(cell: CellVerdict) -> str:
    """`plan 91.2 GiB, available 79.2 GiB (as declared)`."""
    needs, has = cell.cell.planned_gib, cell.cell.available_gib
    plan = "memory of the plan not recorded" if needs is None else f"plan {number(needs, 4)} GiB per GPU"
    limit = "" if has is None else f", available {number(has, 4)} GiB"
    return f"{plan}{limit}{' (as declared)' if cell.is_expected else ''}"


def _row(cell: CellVerdict) -> Cells:
    figures: Mapping[str, float | None] = {metric: figure_of(cell, metric) for metric in _METRICS}
    mfu, done = figures["mfu"], sum(run.run is not None for run in cell.runs)
    texts = {metric: "-" if value is None else number(value) for metric, value in figures.items()}
    runs = f"{done} of {len(cell.runs)}" if done < len(cell.runs) else str(done)
    return {
        "verdict": cell.status.words,
        "name": cell.cell.directory,
        **texts,
        "mfu": "-" if mfu is None else f"{mfu:.1%}",
        "runs": "-" if cell.cell.skipped else runs,
    }


def _reasons(judged: SuiteVerdict) -> list[runs_show.NotPassed]:
    reasons = []
    for cell in judged.cells:
        status = _STATUS_OF.get(cell.status, Status.FAIL)
        if cell.status in (CellStatus.OOM, *_NOT_A_PROBLEM):
            continue
        if cell.status == CellStatus.MISSING:
            reasons.append(runs_show.NotPassed(cell.cell.directory, status, "not run, or interrupted"))
        for run in cell.runs:
            if run.status == cell.status and run.run is not None and run.verdict is not None:
                path = cell.cell.path_of(run.name)
                reasons.append(runs_show.NotPassed(path, status, why(run.run, run.verdict)))
                break
    return reasons


def why(run: Run, judged: Verdict) -> str:
    """Why a run did not pass."""
    if (failure := run.manifest.failure) is not None:
        return runs_show.failure_words(failure)
    findings = (*judged.failed(), *judged.undecided())
    return f"{findings[0].check}: {findings[0].message}" if findings else judged.status.value


def next_step(suite: Suite, judged: SuiteVerdict | None) -> str:
    """The command to type next."""
    place = shlex.quote(str(suite.directory))
    if judged is None:
        return f"steelyard check {place}"
    if any(cell.status == CellStatus.MISSING for cell in judged.cells):
        return f"the same command with --resume {place}"
    if len(suite.platforms) == 2 and judged.exit == 0:
        folders = dict.fromkeys(cell.directory.partition("/")[0] for cell in suite.cells)
        first, second = (shlex.quote(str(suite.directory / folder)) for folder in folders)
        return f"steelyard compare {first} {second}"
    return f"steelyard report {place}"
