"""The public API: what `import steelyard` offers. Each function does what the verb of its name does."""

import difflib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from steelyard import comparison, execute, ingestion, linting, records, verdict
from steelyard.comparison import Comparison, Metric
from steelyard.configs.choose import asked_of, check_gpu, one_reading
from steelyard.configs.files import read_mapping, with_family
from steelyard.errors import InputError
from steelyard.execute import RunOptions
from steelyard.execute.recording import Observer
from steelyard.experiment import Problem, Resolved, parse_settings, resolve
from steelyard.experiment.experiment import Mode
from steelyard.experiment.problems import raise_errors
from steelyard.experiment.resolve import partial_settings
from steelyard.hardware.machine import discover
from steelyard.planning import Planned, plan_file
from steelyard.records import Event, Run
from steelyard.reporting.make import write_reports
from steelyard.verdict import Verdict

PathName = str | PathLike[str]
Settings = Sequence[str] | Mapping[str, Any]
"""`["training.steps=50"]` as typed, or `{"training.steps": 50}`."""


def load(run: PathName, *, out: PathName = "runs") -> Run:
    """A run: its directory, or its name under `out`."""
    return records.find(str(run), Path(out))


def ingest(
    *paths: PathName,
    gpu: str | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    settings: Settings = (),
    config: PathName | None = None,
    platform: str | None = None,
    model: str | None = None,
    framework: str | None = None,
    columns: Mapping[str, str] | None = None,
    follow: bool = False,
    most_unpacked: int = ingestion.MOST_UNPACKED,
    observe: Observer = lambda record: None,
    notice: Callable[[Event], None] = lambda event: None,
    command: Sequence[str] = (),
    out: PathName = "runs",
    name: str | None = None,
) -> Run:
    """Make a run of foreign logs or of a result; `notice` is called with what a person should know of it."""
    check_gpu(gpu)
    values, sources = partial_settings(parse_settings(settings))
    resolved = None if config is None else _resolved(Path(config), platform, model, gpu, gpus)
    request = ingestion.Request(
        paths=[str(path) for path in paths],
        out=Path(out),
        name=name,
        command=list(command) or sys.argv,
        framework=framework,
        config=resolved,
        settings=values,
        setting_sources=sources,
        gpu=gpu,
        gpus=gpus,
        nodes=nodes,
        columns=columns,
        follow=follow,
        most_unpacked=most_unpacked,
        observe=observe,
    )
    writer, notices = ingestion.ingest(request)
    for event in notices:
        notice(event)
    return records.load(writer.directory)


def _resolved(config: Path, platform: str | None, model: str | None, gpu: str | None, gpus: int | None) -> Resolved:
    """The config a run was made with, for its platform."""
    reading = one_reading(with_family(read_mapping(config)), asked_of(platform, None, gpu, gpus, model))
    raise_errors(reading.problems)
    return resolve(reading, (), gpu, gpus)


def lint(
    file: PathName,
    *,
    platform: str | None = None,
    model: str | None = None,
    settings: Settings = (),
    gpu: str | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    cluster: PathName | None = None,
) -> list[Problem]:
    """Every problem of a config or a cluster file."""
    asked = asked_of(platform, settings, gpu, gpus, model, nodes, Path(cluster) if cluster else None)
    return linting.lint_file(Path(file), asked, discover())


def plan(
    file: PathName,
    *,
    platform: str | None = None,
    model: str | None = None,
    settings: Settings = (),
    gpu: str | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    cluster: PathName | None = None,
) -> Planned:
    """Exactly what would run, per node, and what to expect of it; what lint calls an error stops it."""
    return plan_file(
        Path(file), asked_of(platform, settings, gpu, gpus, model, nodes, Path(cluster) if cluster else None)
    )


def run(
    file: PathName,
    *,
    platform: str | None = None,
    model: str | None = None,
    settings: Settings = (),
    gpu: str | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    options: RunOptions | None = None,
    observe: Observer = lambda record: None,
    command: Sequence[str] = (),
    out: PathName = "runs",
    name: str | None = None,
) -> Run:
    """Run an experiment to its end, here or on the cluster of `options`, and record it; `check` judges it."""
    options = options or RunOptions()
    planned = plan(
        file,
        platform=platform,
        model=model,
        settings=settings,
        gpu=gpu,
        gpus=gpus,
        nodes=nodes,
        cluster=options.cluster,
    )
    if planned.plan.fleet:
        raise InputError(
            f"{file} makes a fleet of {len(planned.plan.nodes)} runs",
            key="file",
            value=str(file),
            expected="one run",
            next=f"steelyard run {file} --cluster {options.cluster}, or nodes=1",
        )
    execute.check(planned, discover(), options)
    writer = execute.new_run(planned, Path(out), name, list(command) or sys.argv)
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
    found = run if isinstance(run, Run) else load(run, out=out)
    judged = verdict.judge(verdict.read_subject(found, thresholds, warmup_steps))
    verdict.save(judged, not_saved)
    return judged


def compare(
    target: PathName | Sequence[PathName],
    baseline: PathName | Sequence[PathName],
    *,
    metrics: Sequence[Metric | str] = (Metric.THROUGHPUT,),
    mode: str | None = None,
    margin: float | None = None,
    warmup_steps: int = 0,
    force: bool = False,
    prices: Mapping[str, float] | None = None,
    target_loss: float | None = None,
    out: PathName = "runs",
    name: str | None = None,
) -> Comparison:
    """Compare target runs with baseline runs and keep the comparison under `out`/comparisons.

    Each side is a run, several, a fleet or a directory of runs.
    """
    if target_loss is not None and not 0 < target_loss < math.inf:
        raise InputError(
            f"--target-loss {target_loss:g} is no loss",
            key="--target-loss",
            value=target_loss,
            expected="nats a token, above 0",
            next="--target-loss 2.8",
        )
    asked, known_mode = _metrics(metrics), _mode(mode)
    sides = [
        comparison.load_runs(label, _listed(side), Path(out))
        for label, side in (("TARGET", target), ("BASELINE", baseline))
    ]
    made = comparison.weigh(sides[0], sides[1], asked, known_mode, warmup_steps, margin, force, prices, target_loss)
    return replace(made, directory=comparison.save(made, Path(out), name))


def _metrics(words: Sequence[Metric | str]) -> list[Metric]:
    known, given = [metric.value for metric in Metric], ",".join(words)
    wrong = next((word for word in words if word not in known), None)
    if wrong is not None:
        nearest = [next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.0)), known[0]) for word in words]
        raise InputError(
            f"--for {given}: {wrong!r} is no metric",
            key="--for",
            value=given,
            expected=f"one or more of {', '.join(known)}",
            next=f"--for {','.join(nearest)}",
        )
    return [Metric(word) for word in dict.fromkeys(words)]


def _mode(text: str | None) -> Mode | None:
    match text:
        case None | "best" | "matched":
            return text
    raise InputError(
        f"--mode {text} is no mode", key="--mode", value=text, expected="best or matched", next="--mode best"
    )


def _listed(side: PathName | Sequence[PathName]) -> str:
    return str(side) if isinstance(side, str | PathLike) else ",".join(map(str, side))


def report(
    what: PathName, *, to: str | None = None, output: PathName | None = None, out: PathName = "runs"
) -> list[Path]:
    """Write the report of a run, a fleet or a comparison: the files that were written."""
    return write_reports(str(what), to, None if output is None else str(output), Path(out))
