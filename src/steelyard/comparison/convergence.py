"""Whether two sides learn alike: tiers from the contract on, of which the first that fails is named."""

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from steelyard.comparison import tiers
from steelyard.comparison.codes import sentence
from steelyard.comparison.contract import Agreement, Comparability, Ruling
from steelyard.comparison.curve import LossCurve, evaluations
from steelyard.comparison.diagnoses.silent_default import LeftOpen, unstated_differences
from steelyard.comparison.intervals import FEWEST
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import TIERS, Answer, Pair, Tier
from steelyard.experiment.keys import STATED
from steelyard.experiment.policy import Effect, Metric
from steelyard.reasons import Code, Reason

CONTRACT = "contract"
TOLD_STEPS = (0, 10, 20, 50, 100)
"""Steps of which the losses are told side by side, counted from 0 as logs of the field do; the last of all too."""

Outcome = Literal["equivalent", "not_equivalent", "not_comparable", "unknown"]


@dataclass(frozen=True, slots=True)
class LossesAt:
    """The mean loss of each side after so many steps; None where none is recorded there."""

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
    """Losses on data that is not trained on, at the steps where both sides tell one."""
    qualified: tuple[str, ...]
    """What is said beside the answer."""
    scope: tuple[Reason, ...]
    """What the curves cannot tell."""
    known_seeds: tuple[int, int]
    """How many different ones of each side, target first."""

    def document(self) -> dict[str, Any]:
        """`convergence` in JSON."""
        return {
            "status": self.status,
            "first_failing_tier": self.first_failing_tier,
            "tiers": [tier.document() for tier in self.tiers],
            "losses": [asdict(losses) for losses in self.losses],
            "evaluations": [asdict(losses) for losses in self.evaluations],
            "qualified": list(self.qualified),
            "scope": [limit.message for limit in self.scope],
            "known_seeds": list(self.known_seeds),
        }


def _left_open(differences: Sequence[LeftOpen]) -> str:
    words = "; ".join(difference.words for difference in differences)
    return f"what no key states differs, where it was left to the framework: {words}"


LEFT_OPEN = Code("contract_left_open", _left_open)
"""The frameworks differ by default in settings that neither side states."""
AGREES = Code("contract_agrees", "{equal} of {governing} parameters that shape a curve are known and agree")
"""The settings that shape a curve agree, as far as they are known."""
FEW_SEEDS = Code(
    "scope_few_seeds",
    "{seeds[0]} and {seeds[1]} known seeds: what another seed would do is not known; {fewest} a side tell",
)
"""Too few seeds per side to say anything about another seed."""
SLOW_SETTINGS = Code(
    "scope_slow_settings",
    "what acts slowly, such as weight decay, may not show in {steps:,} steps: where settings are not known, "
    "curves that agree do not show that they are equal",
)
"""Settings are not known, and some of them act too slowly to show in so few steps."""


def convergence(ruling: Ruling, pair: Pair) -> Convergence:
    """Contract first: where it fails the others compare different jobs; where it is unknown they can only fail."""
    first = _of_contract(ruling, pair)
    asked, failed = [first], None
    if first.status == Answer.FAIL:
        return Convergence("not_comparable", CONTRACT, (first,), _losses(pair), _evaluations(pair), (), (), pair.seeds)
    for name in TIERS:
        answer = importlib.import_module(f"{tiers.__name__}.{name}").ask(pair)
        if answer is None:  # it was not asked
            continue
        asked.append(answer)
        if answer.status == Answer.FAIL:
            failed = name
            break
    status: Outcome = "not_equivalent" if failed else "equivalent"
    if not failed and any(tier.status == Answer.UNKNOWN for tier in asked):
        status = "unknown"
    qualified = tuple(map(sentence, ruling.reasons)) if ruling.status == Comparability.QUALIFIED else ()
    scope = () if failed else tuple(_scope(pair, first))
    return Convergence(status, failed, tuple(asked), _losses(pair), _evaluations(pair), qualified, scope, pair.seeds)


def _of_contract(ruling: Ruling, pair: Pair) -> Tier:
    match ruling.status:
        case Comparability.NOT_COMPARABLE:
            return Tier(CONTRACT, Answer.FAIL, ruling.reasons[0])
        case Comparability.UNKNOWN:
            return Tier(CONTRACT, Answer.UNKNOWN, ruling.reasons[0])
    if unstated := unstated_differences(pair):
        keys = tuple(difference.key for difference in unstated if difference.key in STATED)
        return Tier(CONTRACT, Answer.UNKNOWN, Reason(LEFT_OPEN, {"differences": unstated}, keys=keys))
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
    steps = sorted({*TOLD_STEPS, last})
    found = (LossesAt(step, *(_mean_at(side, step) for side in pair.curves)) for step in steps)
    return tuple(one for one in found if one.target is not None or one.baseline is not None)


def _evaluations(pair: Pair) -> tuple[LossesAt, ...]:
    sides = [_evaluated(side) for side in (pair.target, pair.baseline)]
    return tuple(LossesAt(step, sides[0][step], sides[1][step]) for step in sorted(sides[0].keys() & sides[1].keys()))


def _evaluated(side: Side) -> dict[int, float]:
    """By step, the mean over the runs that tell it."""
    found: dict[int, list[float]] = {}
    for subject in side.subjects:
        for step, loss in evaluations(subject).items():
            found.setdefault(step - 1, []).append(loss)
    return {step: float(np.mean(losses)) for step, losses in found.items()}


def _mean_at(side: Sequence[LossCurve], step: int) -> float | None:
    """A log that counts from 0 calls its first step 0, and ours 1; the 101st step is its step 100.

    None where a run has no record of it: means of other runs are not to be held against each other.
    """
    values = [float(curve.loss[row[0]]) for curve in side if len(row := np.flatnonzero(curve.step == step + 1))]
    return float(np.mean(values)) if values and len(values) == len(side) else None
