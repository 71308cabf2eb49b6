"""Repeats and suites on the command line: run them one after the other and show the result."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from steelyard import verdict
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet_verdict import METRICS
from steelyard.campaign.learn import FEWEST
from steelyard.campaign.series import SEED, Made, MadeRun, Series, run_series
from steelyard.campaign.suite_verdict import SuiteVerdict, judge_and_save
from steelyard.cli import columns, printing, runs_show, suite
from steelyard.cli.outcome import RECORDED, counted, not_saved, run_document, view_of
from steelyard.cli.plan import notes
from steelyard.configs.cells import Cells
from steelyard.errors import Exit, InfrastructureError, InputError
from steelyard.execute import RunOptions
from steelyard.experiment.problems import shown
from steelyard.planning import Planned
from steelyard.records import Run
from steelyard.verdict import Status

MOST_SEED = 2**63 - 1
"""Largest `training.seed`."""


def series_of(cells: Cells, repeats: int | None, seeds: str | None, skips_oversized: bool) -> Series:
    """The runs of these cells; --repeats or --seeds replace the repeats of the file."""
    every = _seeds(repeats, seeds, cells) or (None,) * cells.repeats
    return Series(cells, every, skips_oversized)


def _seeds(repeats: int | None, seeds: str | None, cells: Cells) -> tuple[int | None, ...]:
    """One entry per repeat; empty if neither option is given."""
    if seeds is None:
        return (None,) * (repeats or 0)
    numbers = [_seed(word) for word in words_of("--seeds", seeds)]
    _check_different("--seeds", seeds, [*map(str, numbers)])  # 1 and 01 are different words
    if repeats is not None and repeats != len(numbers):
        complaint, expected = f"--repeats {repeats}, but {len(numbers)} seeds", "one run per seed"
        way_on = f"--seeds {shlex.quote(seeds)} without --repeats"
        raise InputError(complaint, key="--repeats", value=repeats, expected=expected, next=way_on)
    by_cells = any(SEED in dict(cell.settings) for cell in cells.cells)
    if by_cells or SEED in dict(cells.asked.settings):
        other, key = ("the suite", "--seeds") if by_cells else (f"--set {SEED}", "--set")
        complaint, way_on = f"{other} and --seeds both set the seed", "the same command without --seeds"
        raise InputError(complaint, key=key, value=SEED, expected="one of them", next=way_on)
    return tuple(numbers)


def words_of(option: str, text: str) -> list[str]:
    """Values separated by commas, each once."""
    words = [word.strip() for word in text.split(",")]
    _check_different(option, text, words)
    return words


def _check_different(option: str, text: str, words: Sequence[str]) -> None:
    if not all(words) or len(set(words)) < len(words):
        complaint = f"{option} {shown(text)} contains {'a value twice' if all(words) else 'an empty value'}"
        expected = "different values, separated by commas"
        way_on = f"{option} {shlex.quote(','.join(dict.fromkeys(filter(None, words))) or '…')}"
        raise InputError(complaint, key=option, value=text, expected=expected, next=way_on)


def _seed(word: str) -> int:
    digits = word.lstrip("0") or "0"
    if not word.isascii() or not word.isdigit() or len(digits) > len(str(MOST_SEED)) or int(digits) > MOST_SEED:
        complaint = f"--seeds: {shown(word)} is not a seed"
        expected = f"whole numbers from 0 to {MOST_SEED}, separated by commas"
        raise InputError(complaint, key="--seeds", value=shown(word), expected=expected, next="--seeds 1,2,3")
    return int(digits)


class _Reporter:
    watch = staticmethod(view_of)
    not_saved = staticmethod(not_saved)

    def __init__(self) -> None:
        self._noted: set[str] = set()
        self._begun_at = 0.0
        self._seconds: dict[int, float] = {}
        """Duration of the last run of each cell."""

    def planned(self, planned: Planned) -> None:
        for note in notes(planned):
            if note not in self._noted:
                printing.note(note)
            self._noted.add(note)

    def series_begins(self, made: Made) -> None:
        cells = made.suite.manifest.cells
        platforms = " and ".join(made.suite.platforms)
        in_turns = f", {platforms} in turns" if platforms else ""
        todo = counted(made.num_planned - made.kept, "run")
        of_cells = f" of {counted(len(cells), 'cell')}" if made.series.axes else ""
        printing.note(f"recording {todo}{of_cells} in {made.suite.directory}{in_turns}")
        if made.kept:
            printing.note(f"keeping {counted(made.kept, 'run')} of the earlier command")
        for cell in cells:
            if cell.skipped:
                printing.note(f"skipping {cell.directory}: {cell.planned_gib} GiB planned, of {cell.available_gib} GiB")

    def run_begins(self, run: MadeRun, made: Made) -> None:
        turn, series, self._begun_at = run.turn, made.series, time.monotonic()
        number, planned = made.kept + len(made.runs), made.num_planned
        seed = "" if turn.seed is None else f", seed {turn.seed}"
        if series.axes:
            left = planned - number
            eta = self._eta(made, left + 1)
            printing.note(f"run {number} of {planned}: {run.name}{seed} ({left} left{eta})")
            return
        of_all = f" on {turn.cell.platform} (run {number} of {planned})" if len(series.cells) > 1 else ""
        printing.note(f"repeat {turn.repeat} of {len(series.seeds)}{of_all}{seed}: {run.writer.directory}")

    def _eta(self, made: Made, left: int) -> str:
        """`, about 12 min`: from the durations so far; of cells without a run, their mean."""
        if not self._seconds:
            return ""
        mean = sum(self._seconds.values()) / len(self._seconds)
        done = {(run.turn.at, run.turn.repeat) for run in made.runs[:-1]}
        rest = [turn for turn in made.series.turns if (turn.at, turn.repeat) not in done][-left:]
        seconds = sum(self._seconds.get(turn.at, mean) for turn in rest)
        return f", about {seconds / 60:.0f} min" if seconds >= 90 else f", about {seconds:.0f} s"

    def run_ended(self, run: MadeRun, made: Made) -> None:
        self._seconds[run.turn.at] = time.monotonic() - self._begun_at
        word = f", {run.judged.status.value}" if run.judged else ""
        status, steps = run.writer.manifest.status, counted(run.writer.steps, "step")
        printing.note(f"{run.name}: {status} after {steps}{word}")


def launch_series(
    series: Series, options: RunOptions, request: CampaignRequest, as_json: bool, resume: str | None = None
) -> int:
    """Run a series and show the result."""
    made = run_series(series, options, request, _Reporter(), resume)
    judged = _judged(made) if request.judges and not made.stopped else None
    if judged is not None and series.axes:
        suite.write_junit(judged)
    document = suite.run_document_of(made, judged) if series.axes else _document(made, judged)
    if not as_json:
        suite.show(judged) if judged and series.axes else _show(made, judged)
    if made.lost and not made.stopped:
        printing.show_error(_lost(made), as_json, extra=document)
    elif as_json:
        printing.show_json(document)
    else:
        runs_show.say_next(_next(made, judged))
    return _exit_of(made, judged)


def _judged(made: Made) -> SuiteVerdict | None:
    try:
        return judge_and_save(made.suite, not_saved)
    except KeyboardInterrupt:  # every run is recorded; the next command judges them
        made.stopped = True
        return None


def runs_of(made: Made) -> list[tuple[int, str, Run]]:
    """Every recorded run in the order of the turns, with the position of its cell and its name."""
    runs = []
    for turn in made.series.turns:
        cell, name = made.suite.manifest.cells[turn.at], made.series.run_name(turn)
        if (run := made.suite.run(cell, name)) is not None:
            runs.append((turn.at, cell.path_of(name), run))
    return runs


def _document(made: Made, judged: SuiteVerdict | None) -> dict[str, Any]:
    turns = {(turn.at, made.series.run_name(turn)): turn for turn in made.series.turns}
    directory, cells = made.suite.directory, made.suite.manifest.cells
    runs = [
        {
            "platform": run.manifest.platform.name,
            "repeat": turns[at, run.directory.name].repeat,
            "seed": run.manifest.experiment.value("training.seed"),
            **run_document(run.directory, run.manifest, run.num_steps, verdict.word_of(run)),
        }
        for at, _, run in runs_of(made)
    ]
    places = {cell.platform or (runs[0]["platform"] if runs else "."): directory / cell.directory for cell in cells}
    return {
        "repeats": str(directory.resolve()),
        "directories": {name: str(place.resolve()) for name, place in places.items()},
        "planned": made.num_planned,
        "kept": made.kept,
        "runs": runs,
        "verdict": judged.status.value if judged else None,
    }


def _exit_of(made: Made, judged: SuiteVerdict | None) -> Exit:
    """The worst exit status: infrastructure, failed, unknown, good."""
    if made.stopped:
        return Exit.INTERRUPTED
    if made.lost:
        return Exit.INFRASTRUCTURE
    if judged is not None:
        return judged.exit
    ends = {RECORDED[run.writer.manifest.status] for run in made.runs}
    return next((end for end in (Exit.FAILED, Exit.UNKNOWN) if end in ends), Exit.GOOD)


def _lost(made: Made) -> InfrastructureError:
    first, left = made.lost[0], made.num_planned - made.kept - len(made.runs)
    error = first.error
    assert error is not None
    skipped = f"; {counted(left, 'run')} not started" if left else ""
    failed = f"infrastructure failure in {len(made.lost)} of {made.num_planned} runs{skipped}"
    message, again = f"{failed}: {first.name}: {error.message}", _again(made)
    way_on = f"{error.next}; then {again}" if error.next else again
    return InfrastructureError(message, key=error.key, value=error.value, expected=error.expected, next=way_on)


def _again(made: Made) -> str:
    return f"the same command with --resume {shlex.quote(str(made.suite.directory))}"


def _next(made: Made, judged: SuiteVerdict | None) -> str:
    directory, cells = made.suite.directory, made.suite.manifest.cells
    places = [shlex.quote(str(directory / cell.directory)) for cell in cells]
    if made.stopped:
        return _again(made)
    if made.series.axes:
        return suite.next_step(made.suite, judged)
    for cell in judged.cells if judged else ():
        for run in cell.runs:
            if run.verdict is not None and run.verdict.status != Status.PASS:
                return f"steelyard check {shlex.quote(str(run.verdict.run))}"
    if len(places) > 1:
        return f"steelyard compare {' '.join(places[:2])}"
    learn = f"steelyard runs learn {places[0]}, or " if made.num_planned >= FEWEST else ""
    return f"{learn}steelyard compare {places[0]} BASELINE"


_COLUMNS = [replace(column, head="run") if column.key == "name" else column for column in runs_show.MEMBER_COLUMNS]


def _show(made: Made, judged: SuiteVerdict | None) -> None:
    """Verdict and counts, one row per run, then why runs did not pass."""
    recorded = runs_of(made)
    statuses = {str(verdict.run): verdict for cell in judged.cells for verdict in cell.verdicts()} if judged else {}
    passed = sum(each.status == Status.PASS for each in statuses.values())
    made_words = f"{len(recorded)} of {counted(made.num_planned, 'run')} made"
    counts = [f"{passed} of {counted(made.num_planned, 'run')} passed"] if judged else []
    counts += [made_words] if len(recorded) < made.num_planned else []
    words = ", ".join([*(["interrupted"] if made.stopped else []), *counts])
    kind = "suite" if made.series.axes else "repeats"
    runs_show.say_verdict(kind, judged.status.value if judged else None, f"{words}  {made.suite.directory}".lstrip())
    rows, reasons = [], []
    for _, name, run in recorded:
        own = statuses.get(str(run.directory))
        figures = {metric: own.figures.metric(metric).value if own else None for metric in METRICS}
        rows.append(runs_show.member_cells(name, run.status, own.status.value if own else None, run.num_steps, figures))
        if own is not None and own.status != Status.PASS:
            reasons.append(runs_show.NotPassed(name, own.status, suite.why(run, own)))
    columns.show(_COLUMNS, rows, "  ")
    runs_show.say_reasons(reasons)
