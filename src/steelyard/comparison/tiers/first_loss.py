"""The first loss: equal for equal weights, otherwise that of an untrained model on each side."""

from collections.abc import Mapping

from steelyard.comparison.phrases import listed, percent, plain_percent
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Answer, Pair, Tier, first_steps
from steelyard.reasons import Code, Reason
from steelyard.verdict import Finding, Status

NAME = "first_loss"
SAME_WEIGHTS, OTHER_STACK = first_steps.SAME_START, 1e-3
"""Relative, for equal weights on one stack, and for bf16 on two stacks."""
OWN_WEIGHTS, OTHER_MODEL = 0.05, 0.5
"""Nats: the check of that name allows the first for each run. Public pairs of one job differ by at most 0.2."""

AS_PREDICTED = Code("first_loss_as_predicted", "each side starts at the loss of its untrained model")
"""Each side's first loss is that of its own model before training."""


def _not_predicted(findings: Mapping[str, Finding]) -> str:
    """Of sides with the same sentence it is given once."""
    sides: dict[str, list[str]] = {}
    for side, finding in findings.items():
        sides.setdefault(finding.message, []).append(side)
    if len(sides) == 1:
        return "".join(f"{listed(names)}: {message}" for message, names in sides.items())
    (side, finding), *others = findings.items()
    rest = "".join(f"; {other} starts at {own.observed:.5g}, expected {own.expected:.5g}" for other, own in others)
    return f"{side}: {finding.message}{rest}"


NOT_PREDICTED = Code("first_loss_not_predicted", _not_predicted)
"""The first loss of a side, or of both, is not that of its own model before training."""


def _apart(apart: float, margin: float) -> str:
    return f"the first losses differ by {apart:.2g} nats, {'within' if apart <= margin else 'more than'} {margin}"


def _of_equal_weights(target: float, baseline: float, apart: float, margin: float) -> str:
    limit = f"{'within' if apart <= margin else 'more than'} {plain_percent(margin)} for equal weights"
    return f"the first losses, {target:.5f} and {baseline:.5f}, differ by {percent(apart, decimals=4)}, {limit}"


APART = Code("first_losses_apart", _apart)
"""The difference of the first losses, if each side has its own weights."""
OF_EQUAL_WEIGHTS = Code("first_losses_of_equal_weights", _of_equal_weights)
"""The difference of the first losses for equal weights."""
NOT_ALONE = Code("first_loss_not_alone", "not every run records the loss of step 1 by itself")
"""At least one run has no record of step 1 by itself."""
OTHER_MODELS = Code(
    "first_loss_other_models",
    "the first losses differ by {apart:.2g} nats, more than seeds explain: another vocabulary, or trained weights",
)
"""The sides start so far apart that their models differ, or one of them was trained before."""


def ask(pair: Pair) -> Tier:
    """Fail only for equal weights; elsewhere the first losses are reported, and weigh only if the models differ."""
    firsts = [
        [float(curve.loss[0]) for curve in side if len(curve) and curve.step[0] == 1 and curve.covered[0] == 1]
        for side in pair.curves
    ]
    if any(len(losses) < len(side.subjects) for losses, side in zip(firsts, pair.sides, strict=True)):
        return Tier(NAME, Answer.NOT_APPLICABLE, Reason(NOT_ALONE))
    if pair.matched:
        tier = _of_same_weights(pair)
        if pair.doubt is None or tier.status == Answer.PASS:
            return tier
    findings = [_finding(side) for side in pair.sides]
    apart = max(abs(target - baseline) for target in firsts[0] for baseline in firsts[1])
    if apart > OTHER_MODEL:
        return Tier(NAME, Answer.UNKNOWN, Reason(OTHER_MODELS, {"apart": apart}), apart, OWN_WEIGHTS)
    failed = {
        side.called: finding
        for side, finding in zip(pair.sides, findings, strict=True)
        if finding is not None and finding.status == Status.FAIL
    }
    if failed:
        return Tier(NAME, Answer.NOT_APPLICABLE, Reason(NOT_PREDICTED, {"findings": failed}), apart, OWN_WEIGHTS)
    if all(finding is not None and finding.status == Status.PASS for finding in findings):
        return Tier(NAME, Answer.PASS, Reason(AS_PREDICTED), apart, OWN_WEIGHTS)
    status = Answer.PASS if apart <= OWN_WEIGHTS else Answer.NOT_APPLICABLE
    return Tier(NAME, status, Reason(APART, {"apart": apart, "margin": OWN_WEIGHTS}), apart, OWN_WEIGHTS)


def _of_same_weights(pair: Pair) -> Tier:
    margin = max(SAME_WEIGHTS if pair.one_stack or pair.doubt else OTHER_STACK, pair.rounding())
    firsts = [(float(target.loss[0]), float(baseline.loss[0])) for target, baseline in pair.matched]
    apart, target, baseline = max(
        ((abs(target / baseline - 1), target, baseline) for target, baseline in firsts), key=lambda first: first[0]
    )
    values = {"target": target, "baseline": baseline, "apart": apart, "margin": margin}
    status = Answer.PASS if apart <= margin else Answer.FAIL
    return Tier(NAME, status, Reason(OF_EQUAL_WEIGHTS, values), apart, margin)


def _finding(side: Side) -> Finding | None:
    """The worst finding of that name among the runs of a side; None if one of them has none."""
    findings = [finding for verdict in side.verdicts for finding in verdict.findings if finding.check == NAME]
    worst = [Status.FAIL, Status.UNKNOWN, Status.PASS]
    complete = len(findings) == len(side.verdicts)
    return min(findings, key=lambda finding: worst.index(finding.status)) if complete else None
