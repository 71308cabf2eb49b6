"""Learns a threshold from repeats: a limit that nearly every further run of the same job meets."""

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import numpy as np

from steelyard import __version__
from steelyard.accounting.steady import MIN_STEADY_STEPS
from steelyard.campaign import check_metric, figure_text, refused
from steelyard.campaign.samples import FEWEST_FREE, FREE_BOUND, NORMAL, TWO_GROUPS, free_bound, one_day, two_groups
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
"""Fewest runs for a threshold."""
SHARE, CONFIDENCE = 0.95, 0.95
"""This share of all runs meets the threshold, with this confidence."""
MARGIN = 0.05
"""Smallest distance from the mean, as a share: runs with equal figures do not predict next month's runs."""
AT_MOST = ("step_time_s", "memory_peak_gib")
"""Metrics for which less is better."""
COUNTED = ("memory_peak_gib",)
"""Counted, not timed: equal values in all runs are normal and no sign of copied runs."""
DIGITS = 5

ALIKE = tuple(key for key in (*KEYS, *STATED) if key != "training.seed")
"""Keys that must be equal in all runs: a threshold is for one job."""


@dataclass(frozen=True, slots=True)
class LearnedRun:
    directory: Path
    value: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Provenance:
    """The runs behind a threshold, so that a reader can see what it applies to."""

    experiment: str | None
    sha256: tuple[str, ...]
    """Of the experiment files; several if the file changed between runs."""
    platform: str
    nodes: int | None
    hosts: tuple[str, ...]
    began: str
    """Start of the first run."""
    ended: str | None
    learnt: str
    """When the threshold was computed; the name is a key of the JSON document."""
    steelyard: str = __version__


@dataclass(frozen=True, slots=True)
class LearnedThreshold:
    metric: str
    direction: Direction
    runs: tuple[LearnedRun, ...]
    n: int
    """Runs with a figure."""
    mean: float | None
    sd: float | None
    factor: float | None
    """k: distance from the mean in standard deviations; null with too few runs."""
    tolerance_bound: float | None
    margin_bound: float | None
    free_bound: float | None
    """Without an assumption about the distribution; null with fewer than 20 runs."""
    free_confidence: float | None
    """Confidence that 95% of runs meet it."""
    bound: float | None
    """The more lenient of the first two, rounded to the lenient side; null if none can be computed. The free bound
    replaces the tolerance bound where the figures form two groups."""
    reason: Reason | None
    notes: tuple[Reason, ...]
    provenance: Provenance

    @property
    def threshold(self) -> str | None:
        """In the form of an experiment file."""
        if self.bound is None:
            return None
        text = format(Decimal(repr(self.bound)), "f")
        return f"{self.metric}{self.direction.value}{text.rstrip('0').rstrip('.') if '.' in text else text}"

    @property
    def method(self) -> str:
        by = "above" if self.direction == Direction.AT_MOST else "below"
        k = "" if self.factor is None else f", k = {self.factor:.3f}"
        return (
            f"the more lenient of a one-sided normal tolerance bound (met by {SHARE:.0%} of runs with "
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
            "reason_code": self.reason.code.name if self.reason else None,
            **{name: getattr(self, name) for name in ("missing_runs", "n", "mean", "sd")},
            **{"share": SHARE, "confidence": CONFIDENCE},
            **{name: getattr(self, name) for name in ("factor", "tolerance_bound", "margin_bound", "method")},
            **{name: getattr(self, name) for name in ("free_bound", "free_confidence")},
            "notes": [note.message for note in self.notes],
            "note_codes": [note.code.name for note in self.notes],
            "runs": [{"run": str(run.directory.resolve()), "value": run.value} for run in self.runs],
            "provenance": asdict(self.provenance),
        }


def _too_few(count: int) -> str:
    more = FEWEST - count
    return f"{count} run{'s' * (count != 1)}; {more} more {'is' if more == 1 else 'are'} needed (at least {FEWEST})"


NO_FIGURE = Code("learn_no_figure", "{run} has no {metric}: {why}")
"""A run does not contain the metric."""
FEW_STEPS = Code("learn_few_steps", "{run} has {steps} steady steps; at least {fewest} are needed")
"""A run has too few steady steps."""
PARTLY_KNOWN = Code("learn_partly_known", "{why}, so the runs may be different jobs")
"""A setting is recorded for some runs only, so they may be different jobs."""
TOO_FEW = Code("learn_too_few_runs", _too_few)
"""There are too few runs for a threshold."""
NO_SPREAD = Code(
    "learn_no_spread",
    "all runs have the same figure, {mean:.7g} (rounded figures, or copies), so the spread is unknown",
)
"""The figures of all runs are equal, so the spread of further runs is unknown."""
TOO_MUCH_SPREAD = Code(
    "learn_too_much_spread",
    "the figures vary too much: with {count} runs, a standard deviation of {share:.1%} leaves no threshold above 0."
    " Repeat the runs on idle hosts, or use step_time_s, which is a median",
)
"""The figures vary so much that no threshold above 0 is left."""
MARGIN_ALONE = Code(
    "learn_margin_alone",
    "{metric} is the same in every run, so the threshold is the mean plus or minus {margin:.0%}",
)
"""The figures of all runs are equal, so only the margin sets the threshold."""
HOSTS_UNKNOWN = Code("learn_hosts_unknown", "hosts are not recorded for every run")
"""The hosts of a run are not recorded."""
ONE_PLACE = Code("learn_one_place", "all runs {scope}")
"""All runs used the same hosts."""
FEW_HOSTS = Code("learn_few_hosts", "{runs} runs used only {places} different sets of hosts; other hosts may differ")
"""There are fewer sets of hosts than runs."""
REPORTED = Code("learn_reported", "{metric} is taken from the log, not computed")
"""The metric is the log's own figure."""


def tolerance_factor(n: int, share: float = SHARE, confidence: float = CONFIDENCE) -> float:
    """k of the one-sided tolerance bound mean - k x sd of n normal figures, exact with the noncentral t.

    Hahn and Meeker, Statistical Intervals (1991), 4.6.3: t(confidence; n - 1, z(share) sqrt(n)) / sqrt(n).
    """
    from scipy.special import nctdtrit, ndtri

    root = math.sqrt(n)
    return float(nctdtrit(n - 1, ndtri(share) * root, confidence)) / root


def learn(subjects: Sequence[Subject], metric: str, moment: str) -> LearnedThreshold:
    """A threshold from passed runs of one job; a reason instead if they are too few or vary too much or not at all."""
    _check(subjects, metric)
    runs = tuple(_run(subject, metric) for subject in subjects)
    values = np.asarray([run.value for run in runs if run.value is not None], dtype=np.float64)
    n = len(values)
    mean = float(values.mean()) if n else None
    sd = float(values.std(ddof=1)) if n > 1 else None
    direction = Direction.AT_MOST if metric in AT_MOST else Direction.AT_LEAST
    at_most = direction == Direction.AT_MOST
    factor = tolerance = margin = bound = free = None
    groups = two_groups(values)
    reason = next((run.reason for run in runs if run.reason), None)
    if reason is None and (partly := partly_known(subjects, ALIKE)) is not None:
        reason = Reason(PARTLY_KNOWN, {"why": partly.message}, keys=partly.keys)
    if reason is None and n < FEWEST:
        reason = Reason(TOO_FEW, {"count": n})
    if reason is None and metric not in COUNTED and not vary(values):
        reason = Reason(NO_SPREAD, {"mean": mean})
    if reason is None and mean is not None and sd is not None:
        sign = 1 if at_most else -1
        factor, free = tolerance_factor(n), free_bound(values, at_most, SHARE, CONFIDENCE)
        tolerance, margin = mean + sign * factor * sd, mean * (1 + sign * MARGIN)
        bounds = (free.bound if free and groups else tolerance, margin)
        bound = max(bounds) if at_most else min(bounds)
        if bound <= 0:
            reason, bound = Reason(TOO_MUCH_SPREAD, {"share": sd / mean, "count": n}), None
        else:
            bound = _lenient(bound, direction)
    notes = list(_notes(subjects, metric))
    if bound is not None and vary(values):
        notes.append(Reason(NORMAL))
    elif bound is not None:
        notes.append(Reason(MARGIN_ALONE, {"metric": metric, "margin": MARGIN}))
    if groups:
        notes.append(Reason(TWO_GROUPS, {**groups._asdict(), "fewest": FEWEST_FREE}))
    if free:
        notes.append(Reason(FREE_BOUND, {**free._asdict(), "share": SHARE}))
    return LearnedThreshold(
        *(metric, direction, runs, n, mean, sd, factor, tolerance, margin),
        free_bound=free.bound if free else None,
        free_confidence=free.confidence if free else None,
        bound=bound,
        reason=reason,
        notes=tuple(notes),
        provenance=_provenance(subjects, moment),
    )


def _check(subjects: Sequence[Subject], metric: str) -> None:
    check_metric("--metric", metric, "--metric")
    check_once("RUNS", subjects)
    if (differing := difference(subjects, ALIKE)) is not None:
        expected = "runs of one job that differ only in the seed"
        raise refused("RUNS", differing.message, expected, differing.keys[0])
    statuses = {str(subject.run.directory): judge(subject).status for subject in subjects}
    if bad := {name: status for name, status in statuses.items() if status != Status.PASS}:
        problem = f"{', '.join(f'{name} ({status.value})' for name, status in bad.items())} did not pass"
        first = next(iter(bad))
        raise refused("RUNS", problem, "runs that passed", first, f"steelyard check {shlex.quote(first)}")


def _run(subject: Subject, metric: str) -> LearnedRun:
    figure, steps, directory = subject.figures.metric(metric), subject.figures.window.steps, subject.run.directory
    reason = None
    if figure.value is None:
        reason = Reason(NO_FIGURE, {"run": directory.name, "metric": metric, "why": figure.why})
    elif metric not in COUNTED and steps < MIN_STEADY_STEPS:
        reason = Reason(FEW_STEPS, {"run": directory.name, "steps": steps, "fewest": MIN_STEADY_STEPS})
    return LearnedRun(directory, figure.value, reason)


def _lenient(bound: float, direction: Direction) -> float:
    """The bound with five digits, rounded so that it is never stricter."""
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
    yield from one_day(subjects)
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


def lines(learned: LearnedThreshold) -> Iterator[str]:
    """Where a threshold comes from, for a reader."""
    provenance = learned.provenance
    values = [run.value for run in learned.runs if run.value is not None]
    if learned.mean is not None:
        spread = "" if learned.sd is None else f", sd {figure_text(learned.sd)} ({learned.sd / learned.mean:.2%})"
        runs, extent = f"{learned.n} run{'s' * (learned.n != 1)}", " to ".join(map(figure_text, _extent(values)))
        yield f"{learned.metric} of {runs}: mean {figure_text(learned.mean)}{spread}, {extent}"
    if learned.tolerance_bound is not None and learned.margin_bound is not None:
        bounds = " and ".join(map(figure_text, (learned.tolerance_bound, learned.margin_bound)))
        yield f"method: {learned.method}: {bounds}"
    hashes = f" (sha256 {', '.join(provenance.sha256)})" if provenance.sha256 else ""
    yield f"experiment: {provenance.experiment}{hashes}"
    yield f"platform: {provenance.platform}; hosts: {', '.join(provenance.hosts) or 'not recorded'}"
    yield f"runs from {provenance.began} to {provenance.ended or 'unknown'}"
    yield from (note.message for note in learned.notes)


def _extent(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def snippet(learned: LearnedThreshold) -> str:
    """The threshold as lines for the end of an experiment file, with its origin in comments."""
    provenance = learned.provenance
    comments = [
        f"Learned by steelyard {provenance.steelyard} (`steelyard runs learn`) at {provenance.learnt}.",
        *lines(learned),
        *(f"{run.directory}  {run.value!r}" for run in learned.runs),
    ]
    return "".join(f"# {inert(line)}\n" for line in comments) + f'thresholds: ["{learned.threshold}"]\n'
