"""Runs repeats one after the other, with platforms in turns, and judges each."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard import execute, records
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet_verdict import judge_run
from steelyard.errors import InfrastructureError, InputError
from steelyard.execute import RunOptions
from steelyard.execute.recording import Observer
from steelyard.planning.make import Planned, platform_label
from steelyard.records import RunWriter
from steelyard.records.fleet import directory_names
from steelyard.verdict import Status, Verdict, worst

MakePlan = Callable[[str | None, Sequence[str], bool], Planned]
"""Plans a platform with extra settings; the flag: whether to show warnings."""


@dataclass(frozen=True, slots=True)
class Turn:
    platform: str | None
    """None if --platform was not given."""
    repeat: int
    """From 1, per platform."""
    seed: int | None
    """training.seed; None: that of the experiment."""


@dataclass(frozen=True, slots=True)
class Series:
    platforms: tuple[str | None, ...]
    seeds: tuple[int | None, ...]
    """One per repeat; None: that of the experiment."""

    @property
    def turns(self) -> list[Turn]:
        """In the order A B, B A, A B …, so that a machine that warms up or fills up favors neither platform."""
        orders = self.platforms[::-1], self.platforms
        repeats = enumerate(self.seeds, start=1)
        return [Turn(platform, repeat, seed) for repeat, seed in repeats for platform in orders[repeat % 2]]


@dataclass(slots=True)
class Repeat:
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


@dataclass(frozen=True, slots=True)
class Repeats:
    directory: Path
    places: dict[str, Path]
    num_planned: int
    runs: tuple[Repeat, ...]
    stopped: bool

    @property
    def status(self) -> Status | None:
        """The worst verdict of its runs; None if they were not judged or the series was stopped."""
        statuses = [repeat.judged.status for repeat in self.runs if repeat.judged]
        return None if self.stopped or not statuses else worst(statuses)

    @property
    def lost(self) -> list[Repeat]:
        """Runs with an infrastructure failure."""
        return [repeat for repeat in self.runs if repeat.error is not None]


class RepeatsReporter(Protocol):
    def series_begins(self, directory: Path, series: Series) -> None: ...

    def run_begins(self, repeat: Repeat, number: int) -> None:
        """`number`: position in the series, from 1."""

    def watch(self, planned: Planned) -> AbstractContextManager[Observer]:
        """Receives the steps and events of one run."""

    def run_ended(self, repeat: Repeat) -> None: ...

    def not_saved(self, path: Path, reason: OSError) -> None: ...


def run_repeats(
    series: Series, plan: MakePlan, options: RunOptions, request: CampaignRequest, reporter: RepeatsReporter
) -> Repeats:
    turns = series.turns
    plans: dict[tuple[str | None, int | None], Planned] = {}
    for turn in turns:
        if (turn.platform, turn.seed) not in plans:
            plans[turn.platform, turn.seed] = _plan(plan, turn)
    labels = {name: name or platform_label(plans[name, series.seeds[0]].case) for name in series.platforms}
    experiment = plans[turns[0].platform, turns[0].seed].plan.experiment
    directory = records.new_directory(request.out, request.name, records.stamped(experiment, *labels.values()))
    places = _places(directory, labels)
    reporter.series_begins(directory, series)
    runs: list[Repeat] = []
    stopped = False
    try:
        for number, turn in enumerate(turns, start=1):
            planned, place = plans[turn.platform, turn.seed], places[labels[turn.platform]]
            writer = execute.new_run(planned, place, _name(turn, series), request.command)
            runs.append(Repeat(turn, str(writer.directory.relative_to(directory)), writer))
            reporter.run_begins(runs[-1], number)
            _run(runs[-1], planned, options, request.judges, reporter)
            stopped = writer.manifest.status == "interrupted"
            if stopped or runs[-1].ends_all:
                break
    except KeyboardInterrupt:  # between two runs; during a run, the run handles it
        stopped = True
        if runs and runs[-1].writer.manifest.status == "running":
            runs[-1].writer.finish("interrupted", None, None)
    return Repeats(directory, places, len(turns), tuple(runs), stopped)


def _plan(plan: MakePlan, turn: Turn) -> Planned:
    own = [] if turn.seed is None else [f"training.seed={turn.seed}"]
    planned = plan(turn.platform, own, turn.repeat == 1)
    if planned.plan.fleet:
        file, num_hosts = planned.case.resolved.file, len(planned.plan.nodes)
        problem = f"{file} on this cluster is a fleet of {num_hosts} runs, which --repeats does not support"
        expected = "one job: --nodes 1, or a platform with several nodes"
        raise InputError(problem, key="--repeats", expected=expected, next="--nodes 1")
    return planned


def _places(directory: Path, labels: dict[str | None, str]) -> dict[str, Path]:
    """The directory itself for one platform; a subdirectory per platform for several."""
    several = [*labels.values()]
    names = directory_names(directory, several) if len(several) > 1 else ["."]
    return {label: directory / name for label, name in zip(several, names, strict=True)}


def _name(turn: Turn, series: Series) -> str:
    """The name of a run directory; names sort in the order of the runs."""
    width = len(str(len(series.seeds)))
    return f"repeat-{turn.repeat:0{width}d}" if turn.seed is None else f"seed-{turn.seed}"


def _run(repeat: Repeat, planned: Planned, options: RunOptions, judges: bool, reporter: RepeatsReporter) -> None:
    writer = repeat.writer
    try:
        with reporter.watch(planned) as observe:
            execute.execute(planned, writer, observe, options)
    except InfrastructureError as error:
        repeat.error = error
    if writer.manifest.status != "interrupted" and judges:
        repeat.judged = judge_run(writer.directory, reporter.not_saved)
    reporter.run_ended(repeat)
