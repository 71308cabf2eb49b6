"""Convergence of two sides: tiers in order, starting with the contract; the first one that fails decides."""

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from steelyard.comparison import tiers
from steelyard.comparison.codes import because, sentence
from steelyard.comparison.contract import Agreement, Comparability, Ruling
from steelyard.comparison.curve import LossCurve, evaluations
from steelyard.comparison.diagnoses.silent_default import LeftOpen, unstated_differences
from steelyard.comparison.intervals import FEWEST
from steelyard.comparison.phrases import each
from steelyard.comparison.reduction import Reduction, reductions
from steelyard.comparison.smoothing import SMOOTHED
from steelyard.comparison.tiers import TIERS, Answer, Pair, Tier
from steelyard.experiment.keys import STATED
from steelyard.experiment.policy import Effect, Metric
from steelyard.reasons import Code, Reason
from steelyard.reasons import Effect as EffectOfReason

CONTRACT = "contract"
LISTED_STEPS = (0, 10, 20, 50, 100)
"""Steps whose losses are listed side by side, counted from 0; the last common step is added."""
Outcome = Literal["equivalent", "not_equivalent", "not_comparable", "unknown"]


@dataclass(frozen=True, slots=True)
class LossesAt:
    """The mean loss of each side at a step counted from 0; None if a run has no record of it."""

    step: int
    target: float | None
    baseline: float | None


@dataclass(frozen=True, slots=True)
class Convergence:
    status: Outcome
    first_failing_tier: str | None
    tiers: tuple[Tier, ...]
    losses: tuple[LossesAt, ...]
    evaluations: tuple[LossesAt, ...]
    """Evaluation losses at the steps where both sides have one; steps counted from 0."""
    reductions: tuple[Reduction, ...]
    """How far the loss of each side falls; without a side that has too few losses."""
    qualified: tuple[Reason, ...]
    scope: tuple[Reason, ...]
    """What the curves cannot show."""
    known_seeds: tuple[int, int]
    """Number of different seeds per side, target first."""

    def document(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "first_failing_tier": self.first_failing_tier,
            "tiers": [tier.document() for tier in self.tiers],
            "losses": [asdict(losses) for losses in self.losses],
            "evaluations": [asdict(losses) for losses in self.evaluations],
            "reductions": {"target": None, "baseline": None} | {each.side: each.document() for each in self.reductions},
            "qualified": [sentence(caveat) for caveat in self.qualified],
            "qualified_codes": [caveat.code.name for caveat in self.qualified],
            "scope": [limit.message for limit in self.scope],
            "scope_codes": [limit.code.name for limit in self.scope],
            "known_seeds": list(self.known_seeds),
        }


def _left_open(differences: Sequence[LeftOpen]) -> str:
    settings = "; ".join(difference.words for difference in differences)
    return f"framework defaults differ in settings that no key states: {settings}"


LEFT_OPEN = Code("contract_left_open", _left_open)
"""The frameworks differ by default in settings that neither side states."""
AGREES = Code("contract_agrees", "{equal} of {governing} settings that affect the loss are recorded and equal")
"""The settings that shape a curve agree, as far as they are known."""
FEW_SEEDS = Code(
    "scope_few_seeds",
    lambda seeds, fewest: f"{each(seeds, 'known seed')}; other seeds may differ, use at least {fewest} per side",
)
"""Too few seeds per side to say anything about another seed."""
SLOW_SETTINGS = Code(
    "scope_slow_settings",
    "settings that are not recorded and act slowly, such as weight decay, may not show in {steps:,} steps",
)
"""Settings are unknown, and some of them act too slowly to show in so few steps."""


def convergence(ruling: Ruling, pair: Pair) -> Convergence:
    """Ask the contract first: if it fails, no other tier is asked; if it is unknown, the others can only fail.

    A smoothed curve lags, so that no tier can be asked of it.
    """
    answers = [_of_contract(ruling, pair)]
    smoothed = any(reason.code is SMOOTHED and reason.effect == EffectOfReason.UNKNOWN for reason in ruling.reasons)
    for name in () if smoothed else TIERS:
        if answers[-1].status == Answer.FAIL:
            break
        answer = importlib.import_module(f"{tiers.__name__}.{name}").ask(pair)
        if answer is not None:  # None: not asked
            answers.append(answer)
    failed = answers[-1].tier if answers[-1].status == Answer.FAIL else None
    status: Outcome = "not_comparable" if failed == CONTRACT else "not_equivalent"
    if not failed:
        status = "unknown" if any(tier.status == Answer.UNKNOWN for tier in answers) else "equivalent"
    qualified = ruling.reasons if ruling.status == Comparability.QUALIFIED else ()
    scope = () if failed else tuple(_scope(pair, answers[0]))
    curves = _losses(pair), _evaluations(pair), reductions(pair)
    return Convergence(status, failed, tuple(answers), *curves, qualified, scope, pair.seeds)


def left_open(pair: Pair) -> Iterator[Reason]:
    """Settings that neither side states and that the frameworks set differently, one reason each."""
    for difference in unstated_differences(pair):
        keys = (difference.key,) if difference.key in STATED else ()
        yield because(LEFT_OPEN, EffectOfReason.UNKNOWN, "both", *keys, differences=[difference])


def _of_contract(ruling: Ruling, pair: Pair) -> Tier:
    if not ruling.holds:
        refused = ruling.status == Comparability.NOT_COMPARABLE
        return Tier(CONTRACT, Answer.FAIL if refused else Answer.UNKNOWN, ruling.reasons[0])
    shapes = [clause for clause in pair.clauses if clause.governs.get(Metric.CONVERGENCE) == Effect.BLOCKS]
    equal = sum(clause.status == Agreement.EQUAL for clause in shapes)
    return Tier(CONTRACT, Answer.PASS, Reason(AGREES, {"equal": equal, "governing": len(shapes)}))


def _scope(pair: Pair, contract: Tier) -> Iterator[Reason]:
    if min(pair.seeds) < FEWEST:
        yield Reason(FEW_SEEDS, {"seeds": pair.seeds, "fewest": FEWEST}, keys=("training.seed",))
    if contract.status != Answer.PASS:
        steps = max((int(curve.step[-1]) for side in pair.curves for curve in side if len(curve)), default=0)
        yield Reason(SLOW_SETTINGS, {"steps": steps})


def _losses(pair: Pair) -> tuple[LossesAt, ...]:
    last = min((int(curve.step[-1]) for side in pair.curves for curve in side if len(curve)), default=1) - 1
    rows = ((step, [_mean_at(side, step) for side in pair.curves]) for step in sorted({*LISTED_STEPS, last}))
    return tuple(LossesAt(step, *losses) for step, losses in rows if losses != [None, None])


def _mean_at(side: Sequence[LossCurve], step: int) -> float | None:
    """The mean loss at a step counted from 0; None if a run has no record of it."""
    losses = [float(curve.loss[row[0]]) for curve in side if len(row := np.flatnonzero(curve.step == step + 1))]
    return float(np.mean(losses)) if losses and len(losses) == len(side) else None


def _evaluations(pair: Pair) -> tuple[LossesAt, ...]:
    sides: list[dict[int, list[float]]] = [{}, {}]
    for side, by_step in zip(pair.sides, sides, strict=True):
        for subject in side.subjects:
            for step, loss in evaluations(subject).items():
                by_step.setdefault(step - 1, []).append(loss)
    steps = sorted(sides[0].keys() & sides[1].keys())
    return tuple(LossesAt(step, *(float(np.mean(side[step])) for side in sides)) for step in steps)
