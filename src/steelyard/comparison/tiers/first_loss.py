"""The first loss: the same where the weights are, and an untrained model's where each side has its own."""

from steelyard.comparison.between_runs import FEWEST
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import first_steps
from steelyard.comparison.tiers.tier import CUTS, Answer, Pair, Tier
from steelyard.verdict import Status

NAME = "first_loss"
SAME_WEIGHTS = 1e-4
OWN_WEIGHTS = 0.05
"""Nats, as the finding of that name allows each side by itself."""


def ask(pair: Pair) -> Tier:
    firsts = [
        [float(curve.loss[0]) for curve in side if len(curve) and curve.step[0] == 1 and curve.covered[0] == 1]
        for side in pair.curves
    ]
    if any(len(found) < len(side.subjects) for found, side in zip(firsts, (pair.target, pair.baseline), strict=True)):
        return _not_alone(pair)
    if _same_weights(pair):
        return _of_same_weights(pair)
    findings = [_finding(side) for side in (pair.target, pair.baseline)]
    wrong = next((message for status, message in findings if status == Status.FAIL), None)
    if wrong is not None:
        return Tier(NAME, Answer.FAIL, wrong, margin=OWN_WEIGHTS)
    if all(status == Status.PASS for status, _ in findings):
        return Tier(NAME, Answer.PASS, "each side starts as its own untrained model does", margin=OWN_WEIGHTS)
    apart = max(abs(ours - theirs) for ours in firsts[0] for theirs in firsts[1])
    close = apart <= OWN_WEIGHTS
    message = f"the first losses are {apart:.2g} nats apart, {'within' if close else 'not within'} {OWN_WEIGHTS}"
    return Tier(NAME, Answer.PASS if close else Answer.FAIL, message, apart, OWN_WEIGHTS)


def _not_alone(pair: Pair) -> Tier:
    """A loss that is a mean with its neighbours is held by the tiers that look at those."""
    why = "the loss of step 1 alone is not in every record"
    if first_steps.ask(pair).status == Answer.PASS:
        return Tier(NAME, Answer.NOT_APPLICABLE, f"{why}: it stands in those of {first_steps.NAME}")
    if min(pair.seeds) >= FEWEST:
        return Tier(NAME, Answer.NOT_APPLICABLE, f"{why}: level and speed are told over {FEWEST} seeds a side or more")
    return Tier(NAME, Answer.UNKNOWN, why)


def _same_weights(pair: Pair) -> bool:
    """One framework makes the same weights of one seed, as long as it cuts them alike."""
    keys = ("platform.framework", *CUTS, "data.source")
    one_order = pair.same("data.seed") or not pair.clause("data.seed").governs  # runs of one seed are matched
    return bool(pair.matched) and min(pair.seeds) > 0 and bool(one_order) and all(pair.same(key) for key in keys)


def _of_same_weights(pair: Pair) -> Tier:
    margin = max(SAME_WEIGHTS, pair.rounding())
    ours, theirs = max(
        ((float(one.loss[0]), float(other.loss[0])) for one, other in pair.matched),
        key=lambda both: abs(both[0] / both[1] - 1),
    )
    apart = abs(ours / theirs - 1)
    close = apart <= margin
    message = (
        f"the first losses are {ours:.5f} and {theirs:.5f}, {apart:.1e} apart, "
        f"{'within' if close else 'not within'} the {margin:.1e} of equal weights on equal data"
    )
    return Tier(NAME, Answer.PASS if close else Answer.FAIL, message, apart, margin)


def _finding(side: Side) -> tuple[Status | None, str]:
    """What the runs of a side come to in the finding of that name."""
    found = [one for verdict in side.verdicts for one in verdict.findings if one.check == "first_loss"]
    if len(found) < len(side.verdicts):
        return None, ""
    worst = next((one for status in (Status.FAIL, Status.UNKNOWN) for one in found if one.status == status), found[0])
    return worst.status, f"the {side.name}: {worst.message}"
