"""The public API of `import steelyard`. Each function is called by the command of the same name.

A function imports what it needs when it is called, because most commands need few of the packages.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from steelyard.errors import InputError
from steelyard.ingesting import FolderRequests, LogOptions, PathName, Peaks, Selection, request_of, stated_figures

if TYPE_CHECKING:
    from steelyard.campaign.suite_comparison import SuiteComparison
    from steelyard.campaign.suite_import import ImportedSuite
    from steelyard.comparison import Comparison, Metric
    from steelyard.configs.cells import Cells
    from steelyard.configs.choose import Asked
    from steelyard.execute import RunOptions
    from steelyard.execute.recording import Observer
    from steelyard.experiment import Problem
    from steelyard.hardware.machine import Machine
    from steelyard.ingestion import RunChoice
    from steelyard.planning import Planned
    from steelyard.records import Event, Run, RunWriter
    from steelyard.reporting.make import Rendering
    from steelyard.reporting.verify import Unpacking, Verification
    from steelyard.verdict import Verdict

AnyRun: TypeAlias = "PathName | Run"


class Allowing(Selection, total=False):
    """The same, with lint codes that do not stop it: `["SY503"]` or `"SY503,SY403"`."""

    allow: str | Sequence[str] | None


class PlacedSelection(Allowing, total=False):
    """The same, on the hosts of a cluster file."""

    cluster: PathName | None


def load(run: AnyRun, *, out: PathName = "runs") -> Run:
    """Load a run, given by its directory or by its name in `out`."""
    from steelyard import records

    return records.find(_name_of(run), Path(out))


def ingest(
    *paths: PathName,
    follow: bool = False,
    run: RunChoice = "last",
    observe: Observer = lambda record: None,
    notice: Callable[[Event], None] = lambda event: None,
    command: Sequence[str] = (),
    out: PathName = "runs",
    name: str | None = None,
    **options: Unpack[LogOptions],
) -> Run:
    """Import logs or a result file as a run; `notice` is called with events that the user should see.

    If the files hold several runs, `run` is "last", the number of one, or "all": all are imported as `name`-1 to
    `name`-N, and the last is returned. `settings` may contradict the log only with `override`; both are recorded.
    `gpu_peak` states dense TFLOP/s per GPU, such as `{"bf16": 209}`, and `gpu_memory` GiB per GPU.
    """
    from steelyard import ingestion, records

    _check_paths(paths)
    request = request_of(list(map(str, paths)), out, name, command, options)
    writer, notices = ingestion.ingest(replace(request, follow=follow, run=run, observe=observe))[-1]
    for event in notices:
        notice(event)
    return records.load(writer.directory)


def _check_paths(paths: Sequence[PathName]) -> None:
    if not paths:
        complaint, expected = "ingest() got no paths", "one or more logs or results"
        raise InputError(complaint, key="paths", value=None, expected=expected, next='steelyard.ingest("train.log")')


def ingest_suite(
    folder: PathName,
    *,
    run: RunChoice = "all",
    progress: Callable[[int, int], None] = lambda read, total: None,
    command: Sequence[str] = (),
    out: PathName = "runs",
    name: str | None = None,
    **options: Unpack[LogOptions],
) -> ImportedSuite:
    """Import each log and result of a folder as a run of one suite; runs with equal settings are repeats of one cell.

    The options apply to every file; `settings` may have keys such as `"mbs8*.log:training.micro_batch_size"`.
    """
    from steelyard.campaign.suite_import import import_suite

    return import_suite(Path(folder), Path(out), name, FolderRequests(command, run, options), progress)


def lint(*files: PathName, **selection: Unpack[PlacedSelection]) -> list[Problem]:
    """All problems of configs or cluster files. With several files, an unreadable file is a problem, not an error."""
    from steelyard.hardware.machine import discover

    asked, machine = _asked(selection), discover()
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


def cells(
    file: PathName, platforms: Sequence[str] = (), suite: bool = True, **selection: Unpack[PlacedSelection]
) -> Cells:
    """The cells of a config: those of its `suite`, or else every platform, or every model and GPU.

    Without `suite`, one job on each of `platforms`.
    """
    from steelyard.configs.cells import cells_of, repeats_of
    from steelyard.configs.files import read_mapping, with_family

    make = cells_of if suite else repeats_of
    return make(with_family(read_mapping(Path(file))), _asked(selection), platforms)


def plan(file: PathName, **selection: Unpack[PlacedSelection]) -> Planned:
    """The exact commands, environment and files per node, and expected figures; a lint error raises InputError."""
    from steelyard.planning import plan_file

    return plan_file(Path(file), _asked(selection))


def _asked(selection: PlacedSelection) -> Asked:
    """The selection; a code that cannot be allowed is refused."""
    from steelyard.configs.choose import asked_of
    from steelyard.linting.allowing import check_allowed

    asked = asked_of(**selection)
    check_allowed(asked.allow)
    return asked


def run(
    file: PathName | Planned,
    *,
    options: RunOptions | None = None,
    begun: Callable[[RunWriter], None] = lambda writer: None,
    observe: Observer = lambda record: None,
    command: Sequence[str] = (),
    out: PathName = "runs",
    name: str | None = None,
    **selection: Unpack[Allowing],
) -> Run:
    """Run an experiment or a plan to its end and record it, on this machine or on the cluster of `options`.

    `begun` is called when the run directory exists, `observe` with each step and event. The run is not judged; call
    `check` for that.
    """
    from steelyard import execute, records
    from steelyard.hardware.machine import discover
    from steelyard.planning import Planned

    options = options or execute.RunOptions()
    if isinstance(file, Planned) and selection:
        raise TypeError(f"a plan cannot be changed; pass {', '.join(selection)} to plan()")
    planned = file if isinstance(file, Planned) else plan(file, **selection, cluster=options.cluster)
    if planned.plan.fleet:
        path = planned.case.resolved.file
        complaint = f"{path} is a fleet of {len(planned.plan.nodes)} runs"
        expected, way_on = "one run (nodes=1)", f"steelyard run {path} --cluster {options.cluster}"
        raise InputError(complaint, key="file", value=str(path), expected=expected, next=way_on)
    execute.check(planned, discover(), options)
    writer = execute.new_run(planned, Path(out), name, list(command) or sys.argv)
    begun(writer)
    execute.execute(planned, writer, observe, options)
    return records.load(writer.directory)


def check(
    run: AnyRun,
    *,
    thresholds: str | Sequence[str] = (),
    warmup_steps: int = 0,
    gpu: str | None = None,
    gpu_peak: Peaks | None = None,
    gpu_memory: float | None = None,
    not_saved: Callable[[Path, OSError], None] | None = None,
    out: PathName = "runs",
) -> Verdict:
    """Judge a run and save the verdict in its directory; `not_saved` is called if that fails.

    `gpu`, `gpu_peak` and `gpu_memory` are recorded in the run, for runs whose GPU is not recorded or not listed.
    """
    from steelyard import verdict

    limits = [thresholds] if isinstance(thresholds, str) else thresholds
    judging = load(run, out=out)
    if gpu is not None or gpu_peak or gpu_memory is not None:
        from steelyard.verdict.gpu import with_gpu

        judging = with_gpu(judging, gpu, stated_figures(gpu_peak, gpu_memory), not_saved)
    subject = verdict.read_subject(judging, limits, warmup_steps)
    judged = verdict.judge(subject)
    verdict.save(judged, not_saved)
    return judged


def compare(
    target: AnyRun | Sequence[AnyRun],
    baseline: AnyRun | Sequence[AnyRun],
    *,
    metrics: str | Sequence[Metric | str] = ("throughput",),
    mode: str | None = None,
    margin: float | str | None = None,
    warmup_steps: int = 0,
    accept: str | Sequence[str] | Mapping[str, str | None] = (),
    assume: str | Sequence[str] | Mapping[str, Any] = (),
    prices: Mapping[str, float] | None = None,
    target_loss: float | None = None,
    out: PathName = "runs",
    name: str | None = None,
) -> Comparison:
    """Compare target runs with baseline runs and save the comparison in `out`/comparisons.

    Each side is one or more runs, a fleet, or a directory of runs. `margin` is a share such as 0.03 or `"3%"`.
    `accept` declares that differences or unknowns do not matter, such as `{"data.path": "two mounts of one corpus"}`.
    `assume` supplies settings that a side does not record, such as `{"target:training.sequence_length": 8192}`.
    """
    from steelyard import comparison
    from steelyard.comparison import acceptance, assumption
    from steelyard.comparison.declared import Declared
    from steelyard.comparison.options import margin_share, metrics_of, mode_of

    if target_loss is not None and not 0 < target_loss < math.inf:
        complaint, expected = f"--target-loss {target_loss:g} is not a loss", "nats per token, above 0"
        raise InputError(complaint, key="--target-loss", value=target_loss, expected=expected, next="--target-loss 2.8")
    asked, known_mode, share = metrics_of(metrics), mode_of(mode), margin_share(margin)
    declared = Declared(acceptance.parse(accept), assumption.parse(assume))
    targets = comparison.load_runs("TARGET", _names_of(target), Path(out))
    baselines = comparison.load_runs("BASELINE", _names_of(baseline), Path(out))
    how = (known_mode, warmup_steps, share, declared, prices, target_loss)
    made = comparison.weigh(targets, baselines, asked, *how, look=comparison.look_at(targets, baselines, Path(out)))
    return replace(made, directory=comparison.save(made, Path(out), name))


def compare_suites(
    target: PathName,
    baseline: PathName,
    *,
    metrics: str | Sequence[Metric | str] = ("throughput",),
    mode: str | None = None,
    margin: float | str | None = None,
    warmup_steps: int = 0,
    accept: str | Sequence[str] | Mapping[str, str | None] = (),
    assume: str | Sequence[str] | Mapping[str, Any] = (),
    out: PathName = "runs",
    name: str | None = None,
) -> SuiteComparison:
    """Compare two suites cell by cell and save the comparison; options as for `compare`, for every cell.

    Each side is a suite, or one platform of a suite as `SUITE/PLATFORM`.
    """
    from steelyard.campaign import saved_suites, suite_matching
    from steelyard.campaign.suite_comparison import Options
    from steelyard.comparison import acceptance, assumption
    from steelyard.comparison.declared import Declared
    from steelyard.comparison.options import margin_share, metrics_of, mode_of
    from steelyard.records.suite import the_suite

    declared = Declared(acceptance.parse(accept), assumption.parse(assume))
    options = Options(tuple(metrics_of(metrics)), mode_of(mode), warmup_steps, margin_share(margin), declared)
    sides = (the_suite("TARGET", str(target), Path(out)), the_suite("BASELINE", str(baseline), Path(out)))
    return saved_suites.save(suite_matching.compare_suites(*sides, options), Path(out), name)


def _names_of(side: AnyRun | Sequence[AnyRun]) -> list[str]:
    from steelyard.records import Run

    return [_name_of(side)] if isinstance(side, str | PathLike | Run) else list(map(_name_of, side))


def _name_of(run: PathName | Run | Comparison) -> str:
    """Where a run or a comparison is kept, by its name, its directory or itself."""
    return str(run if isinstance(run, str | PathLike) else run.directory)


def report(name: AnyRun | Comparison, *, out: PathName = "runs", **how: Unpack[Rendering]) -> list[Path]:
    """Write the report of a run, a fleet or a comparison, and return the written files.

    `to` are formats such as "html,md", and `output` a file or a directory. `figures` such as "svg,png" writes plots as
    files of their own. `text` is a file with texts for a paper. `bundle` is a zip for the report and its records.
    """
    from steelyard.reporting.make import write_reports

    return write_reports(_name_of(name), Path(out), **how)


def verify(bundle: PathName, **how: Unpack[Unpacking]) -> Verification:
    """Make every figure of a bundle's report again from its records; `status` is pass, fail or unknown."""
    from steelyard.reporting.verify import verify_bundle

    return verify_bundle(Path(bundle), **how)
