"""Runs the cells of a suite, or repeats of one job, one after the other, with platforms in turns; judges each run."""

import contextlib
import os
from collections.abc import Container, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from steelyard import execute, records
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet_verdict import judge_run
from steelyard.campaign.resume import RESUME, check_same_experiment, find_series, is_result, matched, set_aside
from steelyard.configs.cells import Cells
from steelyard.errors import InfrastructureError, InputError
from steelyard.execute import RunOptions
from steelyard.execute.recording import Observer
from steelyard.experiment.cells import LADDER_RUNS, Cell, LadderSection, Scalar
from steelyard.experiment.problems import OVERSIZED, InvalidExperimentError
from steelyard.experiment.resolve import Settings
from steelyard.hardware.machine import discover
from steelyard.planning import plan_file
from steelyard.planning.make import Planned, platform_label
from steelyard.records import RunWriter
from steelyard.records.fleet import held_directory
from steelyard.records.suite import LadderSides, Suite, SuiteCell, SuiteManifest, cell_directories
from steelyard.verdict import Verdict

SEED = "training.seed"
MOST_RUNS = 100_000
"""Limit of one series; suite.json lists every run."""


@dataclass(frozen=True, slots=True)
class Turn:
    at: int
    """Position of the cell in the series."""
    cell: Cell
    repeat: int
    """From 1, per cell."""
    seed: int | None
    """training.seed; None: that of the experiment."""

    @property
    def settings(self) -> Settings:
        return [] if self.seed is None else [(SEED, self.seed)]


@dataclass(frozen=True)
class Series:
    source: Cells
    seeds: tuple[int | None, ...]
    """One per repeat; None: that of the experiment."""
    skips_oversized: bool = False
    """Whether cells whose plan needs more memory than the GPU has are left out."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.source.cells

    @property
    def axes(self) -> tuple[str, ...]:
        """Empty for repeats of one job."""
        return self.source.axes

    @cached_property
    def turns(self) -> list[Turn]:
        """Every cell once per repeat. Platforms of a job follow each other in the order A B, B A, A B …, so that a
        machine that warms up or fills up favors neither.
        """
        jobs: dict[tuple[tuple[str, Scalar], ...], list[int]] = {}
        for at, cell in enumerate(self.cells):
            jobs.setdefault(cell.job, []).append(at)
        return [
            Turn(at, self.cells[at], repeat, seed)
            for repeat, seed in enumerate(self.seeds, start=1)
            for number, job in enumerate(jobs.values())
            for at in (job[::-1] if (repeat + number) % 2 == 0 else job)
        ]

    @cached_property
    def run_names(self) -> list[str]:
        """The names of the runs of a cell; they sort in the order of the runs."""
        width = len(str(len(self.seeds)))
        return [
            f"repeat-{repeat:0{width}d}" if seed is None else f"seed-{seed}"
            for repeat, seed in enumerate(self.seeds, start=1)
        ]

    def run_name(self, turn: Turn) -> str:
        return self.run_names[turn.repeat - 1]


@dataclass(slots=True)
class MadeRun:
    """One run of the series."""

    turn: Turn
    name: str
    """Relative to the directory of the series."""
    writer: RunWriter
    judged: Verdict | None = None
    error: InfrastructureError | None = None
    """An infrastructure failure of this run."""

    @property
    def ends_all(self) -> bool:
        """Whether the next run would fail too: true for all failures before training."""
        failure = self.writer.manifest.failure
        return self.error is not None and (failure is None or failure.phase != "train")


@dataclass(slots=True)
class Made:
    """What came of a series."""

    suite: Suite
    series: Series
    num_planned: int
    """Runs of all cells that are not skipped."""
    kept: int = 0
    """Runs of an earlier attempt that were not made again."""
    runs: list[MadeRun] = field(default_factory=list)
    stopped: bool = False

    @property
    def lost(self) -> list[MadeRun]:
        """Runs with an infrastructure failure."""
        return [run for run in self.runs if run.error is not None]


class SeriesReporter(Protocol):
    def planned(self, planned: Planned) -> None:
        """Receives every plan that will run."""

    def series_begins(self, made: Made) -> None: ...

    def run_begins(self, run: MadeRun, made: Made) -> None: ...

    def watch(self, planned: Planned) -> AbstractContextManager[Observer]:
        """Receives the steps and events of one run."""

    def run_ended(self, run: MadeRun, made: Made) -> None: ...

    def not_saved(self, path: Path, reason: OSError) -> None: ...


Plans = dict[tuple[int, int | None], Planned]
"""By the position of the cell and the seed; without the cells that are skipped."""


def run_series(
    series: Series, options: RunOptions, request: CampaignRequest, reporter: SeriesReporter, resume: str | None = None
) -> Made:
    """Plan all cells, then run the turns that are not done; stop at a failure that the next run would have too."""
    plans, skipped = _plans(series, options, reporter)
    suite = find_series(resume, request) if resume else _new(series, plans, skipped, request)
    with held_directory(suite.directory, RESUME if resume else "--name"):
        suite = _renewed(suite, series, skipped) if resume else suite
        turns = [turn for turn in series.turns if turn.at not in skipped]
        made = Made(suite, series, len(turns))
        todo = [turn for turn in turns if not _is_done(made, turn, plans[turn.at, turn.seed])]
        made.kept = len(turns) - len(todo)
        if resume:
            suite.save()
        reporter.series_begins(made)
        try:
            for turn in todo:
                if _run_turn(made, turn, plans[turn.at, turn.seed], options, request, reporter):
                    break
        except KeyboardInterrupt:  # between two runs; during a run, the run handles it
            made.stopped = True
            if made.runs and made.runs[-1].writer.manifest.status == "running":
                made.runs[-1].writer.finish("interrupted", None, None)
    return made


def _run_turn(
    made: Made,
    turn: Turn,
    planned: Planned,
    options: RunOptions,
    request: CampaignRequest,
    reporter: SeriesReporter,
) -> bool:
    """Whether the series ends with this run."""
    cell, name = made.suite.manifest.cells[turn.at], made.series.run_name(turn)
    set_aside(made.suite, cell, name)
    writer = execute.new_run(planned, made.suite.directory / cell.directory, name, request.command)
    run = MadeRun(turn, str(writer.directory.relative_to(made.suite.directory)), writer)
    made.runs.append(run)
    reporter.run_begins(run, made)
    try:
        with reporter.watch(planned) as observe:
            execute.execute(planned, writer, observe, options)
    except InfrastructureError as error:
        run.error = error
    if writer.manifest.status != "interrupted" and request.judges:
        run.judged = judge_run(writer.directory, reporter.not_saved)
    reporter.run_ended(run, made)
    made.stopped = writer.manifest.status == "interrupted"
    return made.stopped or run.ends_all


def _plans(series: Series, options: RunOptions, reporter: SeriesReporter) -> tuple[Plans, dict[int, Planned]]:
    """The plan of every cell and seed, and the cells that are skipped; the first error names its cell."""
    plans: Plans = {}
    skipped: dict[int, Planned] = {}
    machine, source = discover(), series.source
    if (count := len(series.cells) * len(series.seeds)) > MOST_RUNS:
        problem, fix = f"{count:,} runs are too many for one directory", "fewer repeats, or several suites"
        raise InputError(problem, key="--repeats", value=count, expected=f"at most {MOST_RUNS:,}", next=fix)
    for turn in series.turns:
        if (turn.at, turn.seed) in plans or turn.at in skipped:
            continue
        with _naming(turn.cell, series):
            planned = plan_file(source.file, source.asked_of(turn.cell, turn.settings))
            execute.check(planned, machine, options)
            _check_one_job(planned, series)
        expected = planned.plan.expected
        available = expected.usable_gib_per_gpu
        if series.skips_oversized and available is not None and expected.memory_gib_per_gpu > available:
            skipped[turn.at] = planned
        else:
            plans[turn.at, turn.seed] = planned
            reporter.planned(planned)
    return plans, skipped


@contextlib.contextmanager
def _naming(cell: Cell, series: Series) -> Iterator[None]:
    """Add the cell to an error of its plan, and the way past a cell that does not fit."""
    try:
        yield
    except InputError as error:
        if len(series.cells) > 1 and cell.values:
            error.message = f"cell {cell.words}: {error.message}"
        if series.axes and isinstance(error, InvalidExperimentError) and error.problems[0].code == OVERSIZED:
            declared = "; or `expect: oom` for this cell" if series.source.file.family == "steelyard" else ""
            error.next = f"{error.next}; or --skip-oversized{declared}"
        raise


def _check_one_job(planned: Planned, series: Series) -> None:
    if planned.plan.fleet:
        key = "--suite" if series.axes else "--repeats"
        file, num_hosts = planned.case.resolved.file, len(planned.plan.nodes)
        problem = f"{file} on this cluster is a fleet of {num_hosts} runs, which {key} does not support"
        expected = "one job: --nodes 1, or a platform with several nodes"
        raise InputError(problem, key=key, expected=expected, next="--nodes 1")


def _new(series: Series, plans: Plans, skipped: dict[int, Planned], request: CampaignRequest) -> Suite:
    """Make the directory of the series and its manifest."""
    by_cell = {at: planned for (at, _), planned in plans.items()} | skipped
    first = by_cell[0]
    labels = [cell.platform or platform_label(by_cell[at].case) for at, cell in enumerate(series.cells)]
    several = len({cell.platform for cell in series.cells}) > 1
    platforms = [label if several else None for label in labels]
    own = records.stamped(first.plan.experiment, *(["suite"] if series.axes else labels))
    names = [cell.name if series.axes else None for cell in series.cells]
    pairs = list(zip(platforms, names, strict=True))
    directories = cell_directories(pairs) if series.axes or several else ["."]
    cells = [
        _cell(cell, platform, directory, series.run_names, by_cell[at], at in skipped)
        for at, (cell, platform, directory) in enumerate(zip(series.cells, platforms, directories, strict=True))
    ]
    directory = records.new_directory(request.out, request.name, own)
    manifest = SuiteManifest(
        name=directory.name,
        experiment=first.plan.experiment,
        axes=list(series.axes),
        cells=cells,
        ladder=_sides(ladder, directory) if (ladder := series.source.ladder) else None,
    )
    suite = Suite(directory, manifest)
    suite.save()
    return suite


def _sides(ladder: LadderSection, directory: Path) -> LadderSides:
    """The sides of a ladder, with paths relative to the suite, so that a tree of directories can be moved."""
    here = directory.resolve()
    runs = {name: [os.path.relpath(Path(run).resolve(), here) for run in getattr(ladder, name)] for name in LADDER_RUNS}
    return LadderSides(target=ladder.target, baseline=ladder.baseline, **runs)


def _cell(
    cell: Cell, platform: str | None, directory: str, runs: list[str], planned: Planned, is_skipped: bool
) -> SuiteCell:
    expected = planned.plan.expected
    return SuiteCell(
        name=cell.name if cell.values else directory,
        directory=directory,
        values=cell.by_axis,
        platform=platform,
        runs=runs,
        expect=cell.expect,
        skipped="oversized" if is_skipped else None,
        planned_gib=round(expected.memory_gib_per_gpu, 3),
        available_gib=expected.usable_gib_per_gpu,
    )


def _renewed(suite: Suite, series: Series, skipped: Container[int]) -> Suite:
    """The suite to resume; InputError if its cells are not those of the command."""
    earlier = matched(suite, series.axes, series.cells, series.run_names)
    cells = [
        cell.model_copy(update={"skipped": "oversized" if at in skipped else None, "expect": series.cells[at].expect})
        for at, cell in enumerate(earlier)
    ]
    return suite.updated(cells=cells, verdict=None)


def _is_done(made: Made, turn: Turn, planned: Planned) -> bool:
    """Whether the run exists and need not be made again; InputError if it is one of another experiment."""
    run = made.suite.run(made.suite.manifest.cells[turn.at], made.series.run_name(turn))
    if run is None:
        return False
    check_same_experiment(planned, run, made.suite.directory)
    return is_result(run)
