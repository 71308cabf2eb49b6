"""A comparison: the contract, what it allows, the ratios, and what it all comes to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from steelyard.accounting.steady import MIN_STEADY_RECORDS, MIN_STEADY_STEPS
from steelyard.comparison.between_runs import MARGIN
from steelyard.comparison.changes import changes
from steelyard.comparison.contract import Clause, Comparability, Ruling, check_side, contract, ruling
from steelyard.comparison.convergence import Convergence, convergence
from steelyard.comparison.copies import on_both_sides
from steelyard.comparison.diagnoses import Diagnosis, diagnose
from steelyard.comparison.own_figures import APART, batches_apart, clocks_apart, own_step, rates_apart, samples_denied
from steelyard.comparison.policy import Effect, Metric
from steelyard.comparison.ratios import NAME_OF, Ratio, missing, ratio
from steelyard.comparison.side import Side, side
from steelyard.comparison.tiers import Pair
from steelyard.comparison.time_to_loss import Prices, TimeToLoss, time_to_loss
from steelyard.errors import Exit
from steelyard.experiment.experiment import Mode
from steelyard.records import Run
from steelyard.verdict import Subject, figures_document, policy_of, read_subjects

_EXIT_OF = {
    "equivalent": Exit.GOOD,
    "not_equivalent": Exit.FAILED,
    "not_comparable": Exit.NOT_COMPARABLE,
    "unknown": Exit.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Target runs against baseline runs."""

    target: Side
    baseline: Side
    asked: tuple[Metric, ...]
    mode: Mode
    warmup_steps: int
    contract: tuple[Clause, ...]
    comparable: Mapping[Metric, Ruling]
    ratios: Mapping[Metric, Ratio | None]
    convergence: Convergence
    diagnoses: tuple[Diagnosis, ...]
    time_to_loss: TimeToLoss | str
    """Or why it cannot be told."""
    margin: float
    forced: bool
    prices: Prices
    target_loss: float | None

    @property
    def banner(self) -> str | None:
        """What stands above everything where a refused ratio is shown."""
        if not any(ratio is not None and ratio.forced for ratio in self.ratios.values()):
            return None
        return "FORCED: the contract refuses these ratios, and they compare different jobs; see the reasons"

    @property
    def exit(self) -> Exit:
        """The worst of what was asked: refused, then failed, then not known."""
        ends = [self._exit_of(metric) for metric in self.asked]
        return next((end for end in (Exit.NOT_COMPARABLE, Exit.FAILED, Exit.UNKNOWN) if end in ends), Exit.GOOD)

    def _exit_of(self, metric: Metric) -> Exit:
        status = self.comparable[metric].status
        if status == Comparability.NOT_COMPARABLE:
            return Exit.NOT_COMPARABLE  # forced or not
        if metric == Metric.CONVERGENCE:
            return _EXIT_OF[self.convergence.status]
        ratio = self.ratios[metric]
        return Exit.GOOD if ratio is not None and ratio.decided else Exit.UNKNOWN

    def document(self, directory: Path | None) -> dict[str, Any]:
        """What `compare --json` prints."""
        return {
            "comparison": str(directory.resolve()) if directory else None,
            "target": [str(subject.run.directory.resolve()) for subject in self.target.subjects],
            "baseline": [str(subject.run.directory.resolve()) for subject in self.baseline.subjects],
            "asked": [metric.value for metric in self.asked],
            "mode": self.mode,
            "warmup_steps": self.warmup_steps,
            "margin": self.margin,
            "forced": self.forced,
            "banner": self.banner,
            "prices": dict(self.prices),
            "target_loss": self.target_loss,
            "comparable": {
                metric.value: {"status": found.status.value, "reasons": list(found.reasons)}
                for metric, found in self.comparable.items()
            },
            "contract": [_clause_document(clause) for clause in self.contract],
            **{name: asdict(found) if (found := self.ratios[metric]) else None for metric, name in NAME_OF.items()},
            "convergence": self.convergence.document(),
            "time_to_loss": asdict(self.time_to_loss) if isinstance(self.time_to_loss, TimeToLoss) else None,
            "time_to_loss_reason": self.time_to_loss if isinstance(self.time_to_loss, str) else None,
            "diagnoses": [diagnosis.document() for diagnosis in self.diagnoses],
            "runs": {side.name: _runs_document(side) for side in (self.target, self.baseline)},
        }


def _clause_document(clause: Clause) -> dict[str, Any]:
    governs = {metric.value: effect.value for metric, effect in clause.governs.items()}
    return {
        "group": clause.group,
        "key": clause.key,
        "target": clause.target,
        "baseline": clause.baseline,
        "target_source": clause.target_source,
        "baseline_source": clause.baseline_source,
        "status": clause.status.value,
        "governs": governs,
    }


def _runs_document(side: Side) -> list[dict[str, Any]]:
    return [
        {"name": verdict.run.name, "verdict": verdict.status.value, "figures": figures_document(verdict.figures)}
        for verdict in side.verdicts
    ]


@dataclass(frozen=True, slots=True)
class How:
    """How two sides are weighed."""

    asked: tuple[Metric, ...]
    mode: Mode = "best"
    warmup_steps: int = 0
    margin: float = MARGIN
    force: bool = False
    prices: Prices = field(default_factory=dict)
    target_loss: float | None = None


def compare(target: Sequence[Subject], baseline: Sequence[Subject], how: How) -> Comparison:
    """Weigh target against baseline."""
    sides = side("target", tuple(target)), side("baseline", tuple(baseline))
    for one in sides:
        check_side(one)
    clauses = contract(*sides)
    rulings = {metric: ruling(metric, clauses, sides, how.mode) for metric in Metric}
    if (apart := _own_steps_apart(sides)) is not None:
        rulings = {
            metric: found if metric == Metric.MEMORY else found.worsened(Comparability.NOT_COMPARABLE, apart)
            for metric, found in rulings.items()
        }
    if (clocks := _by_the_clock(sides)) is not None:
        for metric in (Metric.THROUGHPUT, Metric.FLOPS):
            rulings[metric] = rulings[metric].affected(clocks[0], how.mode, clocks[1])
    for metric in Metric:
        for effect, told in (change for one in sides for change in changes(metric, one)):
            rulings[metric] = rulings[metric].affected(effect, how.mode, told)
    for apart in (batches_apart(*sides), rates_apart(*sides), samples_denied(*sides)):
        if apart is not None:
            found = rulings[Metric.CONVERGENCE].worsened(Comparability.NOT_COMPARABLE, apart)
            rulings[Metric.CONVERGENCE] = found
    for metric in NAME_OF:
        rulings[metric] = with_figures(metric, rulings[metric], sides)
    if (both := on_both_sides(target, baseline)) is not None:
        rulings = {metric: found.affected(Effect.QUALIFIES, how.mode, both) for metric, found in rulings.items()}
    pair = Pair(sides[0], sides[1], clauses, how.target_loss)
    learnt = convergence(rulings[Metric.CONVERGENCE], pair, how.mode)
    return Comparison(
        target=sides[0],
        baseline=sides[1],
        asked=how.asked,
        mode=how.mode,
        warmup_steps=how.warmup_steps,
        contract=clauses,
        comparable=rulings,
        ratios={metric: _ratio(metric, sides, rulings[metric], how) for metric in NAME_OF},
        convergence=learnt,
        diagnoses=diagnose(pair),
        time_to_loss=_time_to_loss(pair, learnt, rulings[Metric.THROUGHPUT], how),
        margin=how.margin,
        forced=how.force,
        prices=how.prices,
        target_loss=how.target_loss,
    )


NO_PEAKS = ("xla_in_use",)
"""Kinds of memory that hold no activations yet: neither micro batch nor recomputation would change them."""
_HELD = (Comparability.COMPARABLE, Comparability.QUALIFIED)


def _ratio(metric: Metric, sides: tuple[Side, Side], found: Ruling, how: How) -> Ratio | None:
    """What the contract allows; or, insisted on, what it refuses, as far as there are figures."""
    if found.status in _HELD:
        return ratio(metric, *sides, how.margin)
    if how.force and not any(missing(metric, side) for side in sides):
        return replace(ratio(metric, *sides, how.margin), forced=True, decided=False)
    return None


def _time_to_loss(pair: Pair, learnt: Convergence, speed: Ruling, how: How) -> TimeToLoss | str:
    """Where curves and rates may both be compared: neither vouches for the other."""
    if learnt.status == "not_comparable":
        return "the curves are not comparable"
    if speed.status not in _HELD:
        return f"the rates are {speed.status.value.replace('_', ' ')}"
    return time_to_loss(pair, how.prices)


def _own_steps_apart(sides: tuple[Side, Side]) -> str | None:
    """Rate x GPUs x step time of each side, held against the other's: a batch that is not stated shows there."""
    ours, theirs = (own_step(side) for side in sides)
    if ours is None or theirs is None or abs(ours.tokens / theirs.tokens - 1) <= APART:
        return None
    steps = f"{ours.tokens:,.0f} tokens on the target and {theirs.tokens:,.0f} on the baseline"
    return f"by their own figures one step is {steps}"


def _by_the_clock(sides: tuple[Side, Side]) -> tuple[Effect, str] | None:
    """What logs' own moments do to a speedup: beyond the margin it is another one."""
    clocks = clocks_apart(*sides)
    if clocks is None or abs(clocks[0] - 1) <= APART:
        return None
    apart, told = clocks
    effect = Effect.BLOCKS if abs(apart - 1) > MARGIN else Effect.QUALIFIES
    return effect, f"by their own figures the times are not those: {told}"


def weigh(
    target: Sequence[Run],
    baseline: Sequence[Run],
    asked: Sequence[Metric],
    mode: Mode | None = None,
    warmup_steps: int = 0,
    margin: float | None = None,
    force: bool = False,
    prices: Prices | None = None,
    target_loss: float | None = None,
) -> Comparison:
    """Read the runs of both sides and compare them; the runs' own policies stand where nothing else is asked."""
    runs = (*target, *baseline)
    policies = [policy_of(run) for run in runs]
    if mode is None:
        mode = "matched" if any(policy.mode == "matched" for policy in policies) else "best"
    asked_steps = max([warmup_steps, *(policy.warmup_steps for policy in policies)])
    by_place = {run.directory.resolve(): run for run in runs}  # a run that stands on both sides is read once
    read = dict(zip(by_place, read_subjects(list(by_place.values()), asked_steps), strict=True))
    ours, theirs = ([read[run.directory.resolve()] for run in side] for side in (target, baseline))
    if margin is None:
        margin = min(policy.margin for policy in policies)
    how = How(tuple(asked), mode, asked_steps, margin, force, prices or {}, target_loss)
    return compare(ours, theirs, how)


def with_figures(metric: Metric, found: Ruling, sides: tuple[Side, Side]) -> Ruling:
    """A comparison also needs both figures, and rates enough steady steps to stand on."""
    for one in sides:
        if metric != Metric.MEMORY:
            for subject in one.subjects:
                window = subject.figures.window
                run, records = f"{one.called} ({subject.run.directory.name})", int(window.mask.sum())
                if not window.steps and not subject.tells_times:
                    found = found.worsened(Comparability.UNKNOWN, f"{run} tells no step times and no rates")
                elif not window.steps and subject.clock.contradicts:
                    took = f"by the moments of its log a step takes {subject.clock.ratio:.3g} times as long as it says"
                    found = found.worsened(Comparability.NOT_COMPARABLE, f"by its own figures {run}: {took}")
                elif window.steps < MIN_STEADY_STEPS:
                    few = f"{run} has {window.steps} steady steps, expected {MIN_STEADY_STEPS} or more"
                    found = found.worsened(Comparability.NOT_COMPARABLE, few)
                elif records < MIN_STEADY_RECORDS:
                    few = f"{run} has {records} steady records, expected {MIN_STEADY_RECORDS} or more"
                    found = found.worsened(Comparability.NOT_COMPARABLE, few)
        if metric == Metric.MEMORY:
            for told in _no_peaks(one):
                found = found.worsened(Comparability.UNKNOWN, told)
        reason = missing(metric, one)
        if reason:
            found = found.worsened(Comparability.UNKNOWN, reason)
    return found


def _no_peaks(side: Side) -> Iterator[str]:
    if any(subject.figures.memory_kind in NO_PEAKS for subject in side.subjects):
        yield f"what {side.called} says of its memory was read before the first step, and is no peak"
    for subject in side.subjects:
        if subject.events_of("oom"):
            name = subject.run.directory.name
            yield f"{side.called} ({name}) ran out of memory: what it tells is not what it asked for"
