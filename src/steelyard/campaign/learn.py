"""A threshold learnt from runs: a bound that nearly every further run of the same job keeps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import numpy as np

from steelyard import __version__
from steelyard.accounting.steady import MIN_STEADY_STEPS
from steelyard.campaign import check_metric, refused
from steelyard.comparison.codes import made_on
from steelyard.comparison.contract import difference, partly_known
from steelyard.comparison.copies import check_once
from steelyard.comparison.intervals import vary
from steelyard.comparison.side import shared_hosts
from steelyard.experiment.keys import KEYS, STATED
from steelyard.experiment.thresholds import Direction
from steelyard.inert import inert
from steelyard.reasons import Code, Reason
from steelyard.verdict import Status, Subject, judge

FEWEST = 5
"""Runs, below which no bound is learnt."""
SHARE, CONFIDENCE = 0.95, 0.95
"""The bound is kept by this share of all runs, with this confidence."""
MARGIN = 0.05
"""A bound is never closer to the mean than this: runs that happen to be alike promise nothing of the next month."""
AT_MOST = ("step_time_s", "memory_peak_gib")
"""Metrics of which less is better."""
COUNTED = ("memory_peak_gib",)
"""Counted and not timed: the same in every run is no sign of copies."""
DIGITS = 5

ALIKE = tuple(key for key in (*KEYS, *STATED) if key != "training.seed")
"""What the runs must share: a threshold is of one job, whatever a comparison leaves free."""


@dataclass(frozen=True, slots=True)
class LearntRun:
    directory: Path
    value: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the runs were, so that a reader can tell whether the bound is for him."""

    experiment: str | None
    sha256: tuple[str, ...]
    """Of the experiment files; several where their text changed between the runs."""
    platform: str
    nodes: int | None
    hosts: tuple[str, ...]
    began: str
    """When the first of them did."""
    ended: str | None
    learnt: str
    """When the bound was."""
    steelyard: str = __version__


@dataclass(frozen=True, slots=True)
class Learnt:
    metric: str
    direction: Direction
    runs: tuple[LearntRun, ...]
    n: int
    """Runs with a figure."""
    mean: float | None
    sd: float | None
    factor: float | None
    """k: so many standard deviations from the mean; null below the fewest runs."""
    tolerance_bound: float | None
    margin_bound: float | None
    bound: float | None
    """The more lenient of the two, rounded to the lenient side; null where none can be learnt."""
    reason: Reason | None
    notes: tuple[Reason, ...]
    provenance: Provenance

    @property
    def threshold(self) -> str | None:
        """As an experiment file has it."""
        if self.bound is None:
            return None
        text = format(Decimal(repr(self.bound)), "f")
        return f"{self.metric}{self.direction.value}{text.rstrip('0').rstrip('.') if '.' in text else text}"

    @property
    def method(self) -> str:
        by = "above" if self.direction == Direction.AT_MOST else "below"
        k = "" if self.factor is None else f", k = {self.factor:.3f}"
        return (
            f"the more lenient of a one-sided normal tolerance bound (kept by {SHARE:.0%} of runs with "
            f"{CONFIDENCE:.0%} confidence{k}) and {MARGIN:.0%} {by} the mean"
        )

    @property
    def missing_runs(self) -> int:
        return max(0, FEWEST - self.n)

    def document(self) -> dict[str, Any]:
        """What `runs learn --json` prints."""
        return {
            "metric": self.metric,
            "threshold": self.threshold,
            "direction": self.direction.value,
            "value": self.bound,
            "reason": self.reason.message if self.reason else None,
            **{name: getattr(self, name) for name in ("missing_runs", "n", "mean", "sd")},
            **{"share": SHARE, "confidence": CONFIDENCE},
            **{name: getattr(self, name) for name in ("factor", "tolerance_bound", "margin_bound", "method")},
            "notes": [note.message for note in self.notes],
            "runs": [{"run": str(run.directory.resolve()), "value": run.value} for run in self.runs],
            "provenance": asdict(self.provenance),
        }


def _too_few(count: int) -> str:
    more = FEWEST - count
    runs = f"{count} run{'s' * (count != 1)}, and {FEWEST} are the fewest"
    return f"{runs}: {more} more {'is' if more == 1 else 'are'} needed"


NO_FIGURE = Code("learn_no_figure", "{run} has no {metric}: {why}")
"""A run does not give the metric."""
FEW_STEPS = Code("learn_few_steps", "{run} has {steps} steady steps, and {fewest} are the fewest")
"""A run has too few steady steps."""
PARTLY_KNOWN = Code("learn_partly_known", "{why}, so that the runs may be of two jobs")
"""A setting is known of some runs only, so they may be of different jobs."""
TOO_FEW = Code("learn_too_few_runs", _too_few)
"""There are too few runs to learn a bound from."""
NO_SPREAD = Code(
    "learn_no_spread",
    "the runs vary in nothing (figures rounded, or copies): how far the next will be from {mean:.7g} is not known",
)
"""The figures of all runs are equal, so they say nothing about the next run."""
TOO_MUCH_SPREAD = Code(
    "learn_too_much_spread",
    "the runs vary by {share:.1%} (sd over mean), so that {count} of them leave no bound above 0:"
    " see which run stands apart, and repeat them on hosts that do nothing else,"
    " or learn a bound on step_time_s, which is a median",
)
"""The figures vary so much that no bound above 0 is left."""
MARGIN_ALONE = Code(
    "learn_margin_alone",
    "{metric} is the same in every run, which tells no spread: the bound is the {margin:.0%} alone",
)
"""The figures of all runs are equal, so the bound is the margin."""
HOSTS_UNKNOWN = Code("learn_hosts_unknown", "which hosts they ran on is not known of every run")
"""The hosts of some run are not known."""
ONE_PLACE = Code("learn_one_place", "all runs {scope}")
"""All runs used the same hosts."""
FEW_HOSTS = Code(
    "learn_few_hosts", "{runs} runs on {places} hosts or sets of hosts, which are fewer: they speak for those"
)
"""There are fewer sets of hosts than runs."""
REPORTED = Code("learn_reported", "{metric} is as the log reports it")
"""The metric is the log's own figure."""


def tolerance_factor(n: int, share: float = SHARE, confidence: float = CONFIDENCE) -> float:
    """k of the one-sided tolerance bound mean - k x sd of n normal figures, exact by the noncentral t.

    Hahn and Meeker, Statistical Intervals (1991), 4.6.3: t(confidence; n - 1, z(share) sqrt(n)) / sqrt(n).
    """
    from scipy.special import nctdtrit, ndtri

    root = math.sqrt(n)
    return float(nctdtrit(n - 1, ndtri(share) * root, confidence)) / root


def learn(subjects: Sequence[Subject], metric: str, moment: str) -> Learnt:
    """A bound from runs of one job that passed; the reason where they are too few, or vary too much or not at all."""
    _check(subjects, metric)
    runs = tuple(_run(subject, metric) for subject in subjects)
    values = np.asarray([run.value for run in runs if run.value is not None], dtype=np.float64)
    n = len(values)
    mean = float(values.mean()) if n else None
    sd = float(values.std(ddof=1)) if n > 1 else None
    direction = Direction.AT_MOST if metric in AT_MOST else Direction.AT_LEAST
    factor = tolerance = margin = bound = None
    reason = next((run.reason for run in runs if run.reason), None)
    if reason is None and (partly := partly_known(subjects, ALIKE)) is not None:
        reason = Reason(PARTLY_KNOWN, {"why": partly.message}, keys=partly.keys)
    if reason is None and n < FEWEST:
        reason = Reason(TOO_FEW, {"count": n})
    if reason is None and metric not in COUNTED and not vary(values):
        reason = Reason(NO_SPREAD, {"mean": mean})
    if reason is None and mean is not None and sd is not None:
        away = 1 if direction == Direction.AT_MOST else -1
        factor = tolerance_factor(n)
        tolerance, margin = mean + away * factor * sd, mean * (1 + away * MARGIN)
        bound = max(tolerance, margin) if direction == Direction.AT_MOST else min(tolerance, margin)
        if bound <= 0:
            reason, bound = Reason(TOO_MUCH_SPREAD, {"share": sd / mean, "count": n}), None
        else:
            bound = _lenient(bound, direction)
    notes = list(_notes(subjects, metric))
    if bound is not None and not vary(values):
        notes.append(Reason(MARGIN_ALONE, {"metric": metric, "margin": MARGIN}))
    bounds, came = (factor, tolerance, margin, bound), _provenance(subjects, moment)
    return Learnt(metric, direction, runs, n, mean, sd, *bounds, reason, tuple(notes), came)


def _check(subjects: Sequence[Subject], metric: str) -> None:
    check_metric("--metric", metric, "--metric")
    check_once("RUNS", subjects)
    if (differing := difference(subjects, ALIKE)) is not None:
        expected = "runs of one job, which differ in seeds alone"
        raise refused("RUNS", differing.message, expected, differing.keys[0])
    statuses = {str(subject.run.directory): judge(subject).status for subject in subjects}
    if bad := {name: status for name, status in statuses.items() if status != Status.PASS}:
        problem = f"{', '.join(f'{name} ({status.value})' for name, status in bad.items())} did not pass"
        first = next(iter(bad))
        raise refused("RUNS", problem, "runs whose verdict is pass", first, f"steelyard check {first}")


def _run(subject: Subject, metric: str) -> LearntRun:
    figure, steps, directory = subject.figures.metric(metric), subject.figures.window.steps, subject.run.directory
    reason = None
    if figure.value is None:
        reason = Reason(NO_FIGURE, {"run": directory.name, "metric": metric, "why": figure.why})
    elif metric not in COUNTED and steps < MIN_STEADY_STEPS:
        reason = Reason(FEW_STEPS, {"run": directory.name, "steps": steps, "fewest": MIN_STEADY_STEPS})
    return LearntRun(directory, figure.value, reason)


def _lenient(bound: float, direction: Direction) -> float:
    """With so many digits as a person writes, and never stricter than the bound."""
    exact = Decimal(repr(bound))
    place = Decimal(1).scaleb(exact.adjusted() - DIGITS + 1)
    return float(exact.quantize(place, ROUND_CEILING if direction == Direction.AT_MOST else ROUND_FLOOR))


def _notes(subjects: Sequence[Subject], metric: str) -> Iterator[Reason]:
    places = {tuple(sorted(subject.run.manifest.hosts)) for subject in subjects}
    if () in places:
        yield Reason(HOSTS_UNKNOWN)
    elif (hosts := shared_hosts(subjects)) is not None:
        yield Reason(ONE_PLACE, {"scope": made_on(hosts)})
    elif len(places) < len(subjects):
        yield Reason(FEW_HOSTS, {"runs": len(subjects), "places": len(places)})
    if any(subject.figures.metric(metric).reported for subject in subjects):
        yield Reason(REPORTED, {"metric": metric})


def _provenance(subjects: Sequence[Subject], moment: str) -> Provenance:
    manifests = [subject.run.manifest for subject in subjects]
    first, name = manifests[0], manifests[0].experiment.name
    return Provenance(
        experiment=None if name is None else str(name),
        sha256=tuple(sorted({manifest.provenance.sha256 or "" for manifest in manifests} - {""})),
        platform=f"{first.platform.name}: {first.platform.words}, {first.framework}",
        nodes=first.platform.nodes,
        hosts=tuple(dict.fromkeys(host for manifest in manifests for host in manifest.hosts)),
        began=min(manifest.began for manifest in manifests),
        ended=max((manifest.ended for manifest in manifests if manifest.ended), default=None),
        learnt=moment,
    )


def lines(learnt: Learnt) -> Iterator[str]:
    """What stands beside a bound, for a person."""
    came = learnt.provenance
    values = [run.value for run in learnt.runs if run.value is not None]
    if learnt.mean is not None:
        spread = "" if learnt.sd is None else f", sd {learnt.sd:.5g} ({learnt.sd / learnt.mean:.2%})"
        ends = f"from {min(values):.7g} to {max(values):.7g}"
        yield f"{learnt.metric}: n {learnt.n}, mean {learnt.mean:.7g}{spread}, {ends}"
    if learnt.tolerance_bound is not None and learnt.margin_bound is not None:
        yield f"method: {learnt.method}: {learnt.tolerance_bound:.7g} and {learnt.margin_bound:.7g}"
    hashes = f" (sha256 {', '.join(came.sha256)})" if came.sha256 else ""
    yield f"experiment {came.experiment}{hashes}"
    yield f"platform {came.platform}; hosts {', '.join(came.hosts) or 'not known'}"
    yield f"runs made {came.began} to {came.ended or 'an unknown end'}"
    yield from (note.message for note in learnt.notes)


def snippet(learnt: Learnt) -> str:
    """The threshold as an experiment file takes it at its end, under comments that say where it is from."""
    comments = [
        f"Learnt by steelyard {learnt.provenance.steelyard} (`steelyard runs learn`) at {learnt.provenance.learnt}.",
        *lines(learnt),
        *(f"{run.directory}  {run.value!r}" for run in learnt.runs),
    ]
    return "".join(f"# {inert(line)}\n" for line in comments) + f'thresholds: ["{learnt.threshold}"]\n'
