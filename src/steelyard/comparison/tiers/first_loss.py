"""The first loss: the same where the weights are, and an untrained model's where each side has its own."""

from steelyard.comparison.intervals import FEWEST
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import CUTS, Answer, Pair, Tier, first_steps
from steelyard.reasons import Code, Reason
from steelyard.verdict import Finding, Status

NAME = "first_loss"
SAME_WEIGHTS = 1e-4
OWN_WEIGHTS = 0.05
"""Nats, as the finding of that name allows each side by itself."""

AS_PREDICTED = Code("first_loss_as_predicted", "each side starts as its own untrained model does")
"""Each side's first loss is that of its own model before training."""
NOT_PREDICTED = Code("first_loss_not_predicted", "the {side}: {finding.message}")
"""A side's first loss is not that of its own model before training."""


def _apart(apart: float, margin: float) -> str:
    return f"the first losses are {apart:.2g} nats apart, {'within' if apart <= margin else 'not within'} {margin}"


def _of_equal_weights(target: float, baseline: float, apart: float, margin: float) -> str:
    within = "within" if apart <= margin else "not within"
    losses = f"the first losses are {target:.5f} and {baseline:.5f}, {apart:.1e} apart"
    return f"{losses}, {within} the {margin:.1e} of equal weights on equal data"


APART = Code("first_losses_apart", _apart)
"""How far the first losses are apart, each side with weights of its own."""
OF_EQUAL_WEIGHTS = Code("first_losses_of_equal_weights", _of_equal_weights)
"""How far the first losses are apart, of equal weights."""
NOT_ALONE = Code("first_loss_not_alone", "the loss of step 1 alone is not in every record")
"""Some run has no record of step 1 by itself."""
IN_FIRST_STEPS = Code("first_loss_in_first_steps", f"{NOT_ALONE.sentence}: it stands in those of {first_steps.NAME}")
"""Step 1 has no record by itself; the tier of the first steps includes it and passes."""
OVER_SEEDS = Code(
    "first_loss_over_seeds", f"{NOT_ALONE.sentence}: level and speed are told over {FEWEST} seeds a side or more"
)
"""Step 1 has no record by itself; there are seeds enough to judge level and speed by."""


def ask(pair: Pair) -> Tier:
    firsts = [
        [float(curve.loss[0]) for curve in side if len(curve) and curve.step[0] == 1 and curve.covered[0] == 1]
        for side in pair.curves
    ]
    if any(len(losses) < len(side.subjects) for losses, side in zip(firsts, pair.sides, strict=True)):
        if first_steps.ask(pair).status == Answer.PASS:  # held by the tiers that look at its neighbours
            return Tier(NAME, Answer.NOT_APPLICABLE, Reason(IN_FIRST_STEPS))
        if min(pair.seeds) >= FEWEST:
            return Tier(NAME, Answer.NOT_APPLICABLE, Reason(OVER_SEEDS))
        return Tier(NAME, Answer.UNKNOWN, Reason(NOT_ALONE))
    if _same_weights(pair):
        return _of_same_weights(pair)
    findings = [_finding(side) for side in pair.sides]
    for side, finding in zip(pair.sides, findings, strict=True):
        if finding is not None and finding.status == Status.FAIL:
            wrong = Reason(NOT_PREDICTED, {"side": side.name, "finding": finding}, side=side.name)
            return Tier(NAME, Answer.FAIL, wrong, margin=OWN_WEIGHTS)
    if all(finding is not None and finding.status == Status.PASS for finding in findings):
        return Tier(NAME, Answer.PASS, Reason(AS_PREDICTED), margin=OWN_WEIGHTS)
    apart = max(abs(target - baseline) for target in firsts[0] for baseline in firsts[1])
    status = Answer.PASS if apart <= OWN_WEIGHTS else Answer.FAIL
    return Tier(NAME, status, Reason(APART, {"apart": apart, "margin": OWN_WEIGHTS}), apart, OWN_WEIGHTS)


def _same_weights(pair: Pair) -> bool:
    """One framework makes the same weights of one seed, as long as it cuts them alike."""
    keys = ("platform.framework", *CUTS, "data.source")
    one_order = pair.same("data.seed") or not pair.clause("data.seed").governs  # runs of one seed are matched
    return bool(pair.matched) and min(pair.seeds) > 0 and bool(one_order) and all(pair.same(key) for key in keys)


def _of_same_weights(pair: Pair) -> Tier:
    margin = max(SAME_WEIGHTS, pair.rounding())
    firsts = [(float(target.loss[0]), float(baseline.loss[0])) for target, baseline in pair.matched]
    apart, target, baseline = max(
        ((abs(target / baseline - 1), target, baseline) for target, baseline in firsts), key=lambda first: first[0]
    )
    values = {"target": target, "baseline": baseline, "apart": apart, "margin": margin}
    status = Answer.PASS if apart <= margin else Answer.FAIL
    return Tier(NAME, status, Reason(OF_EQUAL_WEIGHTS, values), apart, margin)


def _finding(side: Side) -> Finding | None:
    """What the runs of a side come to in the finding of that name; None where one of them has none."""
    findings = [finding for verdict in side.verdicts for finding in verdict.findings if finding.check == NAME]
    worst = [Status.FAIL, Status.UNKNOWN, Status.PASS]
    complete = len(findings) == len(side.verdicts)
    return min(findings, key=lambda finding: worst.index(finding.status)) if complete else None
