"""The public API: what `import steelyard` offers. The verb of the same name calls each function.

A function imports what it needs when it is called: most verbs need few of the packages.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from steelyard.errors import InputError

if TYPE_CHECKING:
    from steelyard.comparison import Comparison, Metric
    from steelyard.configs.choose import Asked
    from steelyard.execute import RunOptions
    from steelyard.execute.recording import Observer
    from steelyard.experiment import Problem, Resolved
    from steelyard.experiment.experiment import Mode
    from steelyard.hardware.machine import Machine
    from steelyard.planning import Planned
    from steelyard.records import Event, Run, RunWriter
    from steelyard.verdict import Verdict

PathName = str | PathLike[str]
Settings = Sequence[str] | Mapping[str, Any]
"""`["training.steps=50"]` as typed, or `{"training.steps": 50}`."""
LEAST_MARGIN, MOST_MARGIN = 0.0001, 0.9999


class Selection(TypedDict, total=False):
    """Which experiment of a config, on which hardware."""

    platform: str | None
    model: str | None
    settings: Settings
    gpu: str | None
    gpus: int | None
    nodes: int | None


class PlacedSelection(Selection, total=False):
    """The same, on the hosts of a cluster file."""

    cluster: PathName | None


def load(run: PathName, *, out: PathName = "runs") -> Run:
    """A run: its directory, or its name under `out`."""
    from steelyard import records

    return records.find(str(run), Path(out))


def ingest(
    *paths: PathName,
    config: PathName | None = None,
    framework: str | None = None,
    columns: Mapping[str, str] | None = None,
    follow: bool = False,
    most_unpacked: int | None = None,
    observe: Observer = lambda record: None,
    notice: Callable[[Event], None] = lambda event: None,
    command: Sequence[str] = (),
    out: PathName = "runs",
    name: str | None = None,
    **selection: Unpack[Selection],
) -> Run:
    """Make a run of foreign logs or of a result; `notice` is called with what a person should know of it."""
    from steelyard import ingestion, records
    from steelyard.configs.choose import asked_of
    from steelyard.experiment.resolve import partial_settings

    asked = asked_of(**selection, cluster=None)
    _check_framework(framework)
    values, sources = partial_settings(asked.settings)
    request = ingestion.Request(
        paths=[str(path) for path in paths],
        out=Path(out),
        name=name,
        command=list(command) or sys.argv,
        framework=framework,
        config=None if config is None else _resolved(Path(config), replace(asked, settings=(), nodes=None)),
        settings=values,
        setting_sources=sources,
        gpu=asked.gpu,
        gpus=asked.gpus,
        nodes=asked.nodes,
        columns=columns,
        follow=follow,
        most_unpacked=ingestion.MOST_UNPACKED if most_unpacked is None else most_unpacked,
        observe=observe,
    )
    writer, notices = ingestion.ingest(request)
    for event in notices:
        notice(event)
    return records.load(writer.directory)


def _check_framework(name: str | None) -> None:
    from steelyard.frameworks.registry import dialects

    known = list(dict.fromkeys(dialect.framework for dialect in dialects()))
    if name is not None and name not in known:
        expected, way_on = f"one of {', '.join(known)}", "without --framework, which tells it by itself"
        complaint = f"--framework {name!r} is not known"
        raise InputError(complaint, key="--framework", value=name, expected=expected, next=way_on)


def _resolved(config: Path, asked: Asked) -> Resolved:
    """The config a run was made with, for its platform."""
    from steelyard.configs.choose import one_reading
    from steelyard.configs.files import read_mapping, with_family
    from steelyard.experiment import resolve
    from steelyard.experiment.problems import raise_errors

    reading = one_reading(with_family(read_mapping(config)), asked)
    raise_errors(reading.problems)
    return resolve(reading, (), asked.gpu, asked.gpus)


def lint(*files: PathName, **selection: Unpack[PlacedSelection]) -> list[Problem]:
    """Every problem of configs or cluster files; where several are given, one that cannot be read is a problem too."""
    from steelyard.configs.choose import asked_of
    from steelyard.hardware.machine import discover

    asked, machine = asked_of(**selection), discover()
    return [problem for file in files for problem in _problems(Path(file), asked, machine, len(files) == 1)]


def _problems(file: Path, asked: Asked, machine: Machine, alone: bool) -> list[Problem]:
    from steelyard.configs.files import FileError, UnreadableFileError, unreadable
    from steelyard.experiment import Problem
    from steelyard.linting import lint_file

    try:
        return lint_file(file, asked, machine)
    except InputError as error:
        if alone:
            raise
        if isinstance(error, UnreadableFileError):
            return list(unreadable(file, error.complaint).problems)
        # a platform, model or GPU that this file does not have
        message = error.complaint if isinstance(error, FileError) else error.message
        return [Problem("SY105", "error", str(file), "", message, error.next or "", error.value, error.expected)]


def plan(file: PathName, **selection: Unpack[PlacedSelection]) -> Planned:
    """Exactly what would run, per node, and what to expect of it; what lint calls an error stops it."""
    from steelyard.configs.choose import asked_of
    from steelyard.planning import plan_file

    return plan_file(Path(file), asked_of(**selection))


def run(
    file: PathName | Planned,
    *,
    options: RunOptions | None = None,
    begun: Callable[[RunWriter], None] = lambda writer: None,
    observe: Observer = lambda record: None,
    command: Sequence[str] = (),
    out: PathName = "runs",
    name: str | None = None,
    **selection: Unpack[Selection],
) -> Run:
    """Run an experiment, or what `plan` made of it, to its end, here or on the cluster of `options`, and record it.

    `begun` is called once the record is begun, `observe` with each step and event. `check` judges the run.
    """
    from steelyard import execute, records
    from steelyard.hardware.machine import discover
    from steelyard.planning import Planned

    options = options or execute.RunOptions()
    if isinstance(file, Planned) and selection:
        raise TypeError(f"a plan runs as it was made; {', '.join(selection)} are for plan()")
    planned = file if isinstance(file, Planned) else plan(file, **selection, cluster=options.cluster)
    if planned.plan.fleet:
        path = planned.case.resolved.file
        complaint = f"{path} makes a fleet of {len(planned.plan.nodes)} runs"
        way_on = f"steelyard run {path} --cluster {options.cluster}, or nodes=1"
        raise InputError(complaint, key="file", value=str(path), expected="one run", next=way_on)
    execute.check(planned, discover(), options)
    writer = execute.new_run(planned, Path(out), name, list(command) or sys.argv)
    begun(writer)
    execute.execute(planned, writer, observe, options)
    return records.load(writer.directory)


def check(
    run: PathName | Run,
    *,
    thresholds: Sequence[str] = (),
    warmup_steps: int = 0,
    not_saved: Callable[[Path, OSError], None] | None = None,
    out: PathName = "runs",
) -> Verdict:
    """Judge a run and keep the verdict with it; `not_saved` is called where that cannot be written."""
    from steelyard import verdict
    from steelyard.records import Run

    subject = verdict.read_subject(run if isinstance(run, Run) else load(run, out=out), thresholds, warmup_steps)
    judged = verdict.judge(subject)
    verdict.save(judged, not_saved)
    return judged


def compare(
    target: PathName | Sequence[PathName],
    baseline: PathName | Sequence[PathName],
    *,
    metrics: Sequence[Metric | str] = ("throughput",),
    mode: str | None = None,
    margin: float | str | None = None,
    warmup_steps: int = 0,
    force: bool = False,
    prices: Mapping[str, float] | None = None,
    target_loss: float | None = None,
    out: PathName = "runs",
    name: str | None = None,
) -> Comparison:
    """Compare target runs with baseline runs and keep the comparison under `out`/comparisons.

    Each side is a run, several, a fleet or a directory of runs. `margin` is a share such as 0.03 or `"3%"`.
    """
    from steelyard import comparison

    if target_loss is not None and not 0 < target_loss < math.inf:
        complaint, expected = f"--target-loss {target_loss:g} is no loss", "nats a token, above 0"
        raise InputError(complaint, key="--target-loss", value=target_loss, expected=expected, next="--target-loss 2.8")
    asked, known_mode, share = _metrics(metrics), _mode(mode), margin_share(margin)
    targets = comparison.load_runs("TARGET", _listed(target), Path(out))
    baselines = comparison.load_runs("BASELINE", _listed(baseline), Path(out))
    made = comparison.weigh(targets, baselines, asked, known_mode, warmup_steps, share, force, prices, target_loss)
    return replace(made, directory=comparison.save(made, Path(out), name))


def margin_share(margin: float | str | None) -> float | None:
    """A margin as a share, given as one or as it is typed."""
    if margin is None:
        return None
    text = str(margin)
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not LEAST_MARGIN <= share <= MOST_MARGIN:
        expected = f"a share from {LEAST_MARGIN} to {MOST_MARGIN}, or as much in percent"
        complaint = f"--margin {text} is no share"
        raise InputError(complaint, key="--margin", value=text, expected=expected, next="--margin 0.05")
    return share


def _metrics(words: Sequence[Metric | str]) -> list[Metric]:
    from steelyard.comparison import Metric

    known, given = [metric.value for metric in Metric], ",".join(words)
    wrong = next((word for word in words if word not in known), None)
    if wrong is not None:
        nearest = [next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.0)), known[0]) for word in words]
        expected, way_on = f"one or more of {', '.join(known)}", f"--for {','.join(nearest)}"
        complaint = f"--for {given}: {wrong!r} is no metric"
        raise InputError(complaint, key="--for", value=given, expected=expected, next=way_on)
    return [Metric(word) for word in dict.fromkeys(words)]


def _mode(text: str | None) -> Mode | None:
    match text:
        case None | "best" | "matched":
            return text
    complaint, expected = f"--mode {text} is no mode", "best or matched"
    raise InputError(complaint, key="--mode", value=text, expected=expected, next="--mode best")


def _listed(side: PathName | Sequence[PathName]) -> str:
    return str(side) if isinstance(side, str | PathLike) else ",".join(map(str, side))


def report(
    name: PathName, *, to: str | None = None, output: PathName | None = None, out: PathName = "runs"
) -> list[Path]:
    """Write the report of a run, a fleet or a comparison: the files that were written."""
    from steelyard.reporting.make import write_reports

    return write_reports(str(name), to, None if output is None else str(output), Path(out))
