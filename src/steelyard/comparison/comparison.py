"""A comparison: contract, rulings, ratios, convergence, diagnoses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from steelyard.comparison import acceptance, assumption, codes, declared
from steelyard.comparison.acceptance import Acceptance
from steelyard.comparison.arguments import arguments_apart
from steelyard.comparison.assumption import Assumption
from steelyard.comparison.contract import Clause, Comparability, Ruling, check_side, contract, effect_in, ruling
from steelyard.comparison.convergence import Convergence, convergence, left_open
from steelyard.comparison.copies import on_both_sides
from steelyard.comparison.declared import NOTHING, Declared
from steelyard.comparison.device_memory import on_one_measure
from steelyard.comparison.diagnoses import Diagnosis, diagnose
from steelyard.comparison.own_figures import changes, clocks_apart, curves_apart, steps_apart
from steelyard.comparison.ratios import NAME_OF, Ratio, lacking, ratio
from steelyard.comparison.side import Side, names_of, side
from steelyard.comparison.tiers import Pair
from steelyard.comparison.time_to_loss import Prices, TimeToLoss, time_to_loss
from steelyard.errors import Exit
from steelyard.experiment.experiment import Mode
from steelyard.experiment.policy import Effect, Metric
from steelyard.reasons import Reason
from steelyard.records import Run
from steelyard.verdict import Verdict, figures_document, policy_of, read_subjects

Value = TypeVar("Value")
_EXIT_OF = {
    "equivalent": Exit.GOOD,
    "not_equivalent": Exit.FAILED,
    "not_comparable": Exit.NOT_COMPARABLE,
    "unknown": Exit.UNKNOWN,
}


class ByMetric(dict[Metric, Value]):
    """A value for each metric, which may be looked up by the metric's name: `ratios["throughput"]`."""

    def __getitem__(self, metric: str) -> Value:
        return super().__getitem__(Metric(metric))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Target runs against baseline runs."""

    target: Side
    baseline: Side
    asked: tuple[Metric, ...]
    mode: Mode
    warmup_steps: int
    contract: tuple[Clause, ...]
    comparable: ByMetric[Ruling]
    ratios: ByMetric[Ratio | None]
    convergence: Convergence
    diagnoses: tuple[Diagnosis, ...]
    time_to_loss: TimeToLoss | Reason
    """Or why it is unknown."""
    margin: float
    accepted: tuple[Acceptance, ...]
    assumed: tuple[Assumption, ...]
    prices: Prices
    target_loss: float | None
    look: int = 1
    """1: the first comparison of these runs; earlier ones of a part of them make claims stricter."""
    directory: Path | None = None
    """Where it is saved; None if it is not."""

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.target, self.baseline

    @property
    def banner(self) -> str | None:
        """What the user declared, for the first lines of every output; None if nothing was used."""
        return declared.banner(self.accepted, self.assumed, self.sides)

    @property
    def exit(self) -> Exit:
        """The worst answer of the asked metrics: not comparable, then failed, then unknown."""
        ends = [self.exit_of(metric) for metric in self.asked]
        return next((end for end in (Exit.NOT_COMPARABLE, Exit.FAILED, Exit.UNKNOWN) if end in ends), Exit.GOOD)

    def exit_of(self, metric: Metric) -> Exit:
        """The answer of one metric as an exit status."""
        status = self.comparable[metric].status
        if status == Comparability.NOT_COMPARABLE:
            return Exit.NOT_COMPARABLE
        if metric == Metric.CONVERGENCE:
            return _EXIT_OF[self.convergence.status]
        ratio = self.ratios[metric]
        return Exit.GOOD if ratio is not None and ratio.decided else Exit.UNKNOWN

    def document(self, directory: Path | None) -> dict[str, Any]:
        time = self.time_to_loss
        timed, untimed = (time, None) if isinstance(time, TimeToLoss) else (None, time)
        return {
            "comparison": str(directory.resolve()) if directory else None,
            **{side.name: [str(subject.run.directory.resolve()) for subject in side.subjects] for side in self.sides},
            "asked": [metric.value for metric in self.asked],
            **{name: getattr(self, name) for name in ("mode", "warmup_steps", "margin", "look", "banner")},
            "accepted": [each.document() for each in self.accepted],
            "assumed": [each.document() for each in self.assumed],
            "prices": dict(self.prices),
            "target_loss": self.target_loss,
            "comparable": {metric.value: ruling.document() for metric, ruling in self.comparable.items()},
            "contract": [clause.document() for clause in self.contract],
            **{name: made.document() if (made := self.ratios[metric]) else None for metric, name in NAME_OF.items()},
            "convergence": self.convergence.document(),
            "time_to_loss": timed.document() if timed else None,
            "time_to_loss_reason": untimed.message if untimed else None,
            "time_to_loss_code": untimed.code.name if untimed else None,
            "diagnoses": [diagnosis.document() for diagnosis in self.diagnoses],
            "runs": {side.name: list(map(_run_document, side.verdicts)) for side in self.sides},
        }


def _run_document(verdict: Verdict) -> dict[str, Any]:
    return {"name": verdict.run.name, "verdict": verdict.status.value, "figures": figures_document(verdict.figures)}


def _rulings(pair: Pair, mode: Mode, declarations: Declared) -> ByMetric[Ruling]:
    """One ruling per metric, from the contract, the verdicts, the records, missing figures, and declarations."""
    clauses, sides = pair.clauses, pair.sides
    apart, clocks = steps_apart(sides), clocks_apart(sides, mode)
    arguments = arguments_apart(sides, mode)
    copied = on_both_sides(sides[0].subjects, sides[1].subjects)

    def reasons(metric: Metric) -> Iterator[Reason]:
        if apart is not None and metric != Metric.MEMORY:
            yield apart
        if clocks is not None and metric in (Metric.THROUGHPUT, Metric.FLOPS):
            yield clocks
        if arguments is not None:
            yield arguments
        for each in sides:
            yield from changes(metric, each, mode)
        if metric == Metric.CONVERGENCE:
            yield from (*curves_apart(sides), *left_open(pair))
        else:
            yield from lacking(metric, sides)
        yield from (*assumption.caveats(metric, sides, declarations.assumed), *declared.override_caveats(metric, sides))
        if copied:
            yield codes.because(codes.RUN_ON_BOTH_SIDES, effect_in(mode, Effect.QUALIFIES), "both", runs=tuple(copied))

    rulings = ((metric, ruling(metric, clauses, sides, mode).worsened(*reasons(metric))) for metric in Metric)
    return ByMetric((metric, acceptance.apply(ruled, declarations.accepted)) for metric, ruled in rulings)


def _policy(runs: Sequence[Run], mode: Mode | None, margin: float | None, warmup_steps: int) -> tuple[Mode, float, int]:
    """What is asked for, or else the strictest policy of the runs."""
    policies = [policy_of(run) for run in runs]
    if mode is None:
        mode = "matched" if any(policy.mode == "matched" for policy in policies) else "best"
    if margin is None:
        margin = min(policy.margin for policy in policies)
    return mode, margin, max([warmup_steps, *(policy.warmup_steps for policy in policies)])


def weigh(  # noqa: PLR0913 - one per option of `compare`
    target: Sequence[Run],
    baseline: Sequence[Run],
    asked: Sequence[Metric],
    mode: Mode | None = None,
    warmup_steps: int = 0,
    margin: float | None = None,
    declarations: Declared = NOTHING,
    prices: Prices | None = None,
    target_loss: float | None = None,
    look: int = 1,
    called: tuple[str, str] | None = None,
) -> Comparison:
    """Read the runs of both sides and compare them; mode, margin and warm-up default to the policies of the runs.

    `called` are the names of the sides in sentences, by default those of the runs.
    """
    runs = (*target, *baseline)
    mode, margin, warmup_steps = _policy(runs, mode, margin, warmup_steps)
    by_place = {run.directory.resolve(): run for run in runs}  # a run on both sides is read once
    read = dict(zip(by_place, read_subjects(list(by_place.values()), warmup_steps), strict=True))
    targets, baselines = (tuple(read[run.directory.resolve()] for run in runs) for runs in (target, baseline))
    names = called or names_of(targets, baselines)
    targets, baselines, declarations = declarations.supplied(targets, baselines, names)
    sides = on_one_measure((side("target", targets, names[0]), side("baseline", baselines, names[1])))
    for each in sides:
        check_side(each, [each.key for each in declarations.accepted])
    clauses = contract(*sides)
    pair = Pair(*sides, clauses, target_loss)
    rulings = _rulings(pair, mode, declarations)
    curves, speed = convergence(rulings[Metric.CONVERGENCE], pair), rulings[Metric.THROUGHPUT]
    if curves.status == "not_comparable":
        timed: TimeToLoss | Reason = Reason(codes.CURVES_NOT_COMPARABLE)
    elif not speed.holds:
        timed = Reason(codes.RATES_NOT_COMPARABLE, {"status": speed.status.value})
    else:
        timed = time_to_loss(pair, prices or {})
    return Comparison(
        *sides,
        asked=tuple(asked),
        mode=mode,
        warmup_steps=warmup_steps,
        contract=clauses,
        comparable=rulings,
        ratios=ByMetric(
            (metric, ratio(metric, *sides, margin, look=look) if rulings[metric].holds else None) for metric in NAME_OF
        ),
        convergence=curves,
        diagnoses=diagnose(pair),
        time_to_loss=timed,
        margin=margin,
        accepted=acceptance.applied(declarations.accepted, rulings),
        assumed=declarations.assumed,
        prices=prices or {},
        target_loss=target_loss,
        look=look,
    )
