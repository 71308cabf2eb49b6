"""Two schedules of the learning rate that are one step apart, or a constant factor."""

from collections.abc import Iterator

import numpy as np

from steelyard.compare.diagnoses.diagnosis import Diagnosis
from steelyard.compare.tiers import Pair
from steelyard.records.columns import Floats
from steelyard.verdict import Subject

CODE = "learning_rate"
_STEPS = 200
_SAME = 1e-3
_FEWEST = 5


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    rates = [_rates(side.subjects[0]) for side in (pair.target, pair.baseline)]
    if rates[0] is None or rates[1] is None:
        return
    ours, theirs = rates[0], rates[1]
    count = min(len(ours), len(theirs))
    if count < _FEWEST or _alike(ours[:count], theirs[:count]):
        return
    for early, late, first, second in (("target", "baseline", ours, theirs), ("baseline", "target", theirs, ours)):
        if _alike(first[: count - 1], second[1:count]):
            at = int(np.argmax(~np.isclose(first[: count - 1], second[: count - 1], rtol=_SAME)))
            yield Diagnosis(
                CODE,
                "both",
                f"the {late}'s learning rates are the {early}'s one step later: the warm-up is off by one",
                (f"at step {at + 1} the rate is {ours[at]:.6g} on the target and {theirs[at]:.6g} on the baseline",),
                "NeMo warms up by (step + 1) / (warm-up + 1), Megatron from 0: shift one warm-up by a step",
            )
            return
    given = (ours[:count] > 0) & (theirs[:count] > 0)
    if given.any():
        ratio = ours[:count][given] / theirs[:count][given]
        at = int(np.flatnonzero(given)[np.argmax(np.abs(np.log(ratio)))])
        same = bool(np.ptp(ratio) <= _SAME * ratio.mean())
        words = (
            f"{ratio.mean():.4g} times the baseline's at every step" if same else "another schedule than the baseline's"
        )
        yield Diagnosis(
            CODE,
            "both",
            f"the target's learning rate is {words}",
            (f"at step {at + 1} it is {ours[at]:.6g} on the target and {theirs[at]:.6g} on the baseline",),
            "give both sides one learning rate, minimum, warm-up and decay",
        )


def _rates(subject: Subject) -> Floats | None:
    """The learning rates of the first steps, where each is recorded by itself."""
    steps = subject.steps
    rows = np.flatnonzero(steps.step <= _STEPS)
    count = len(rows)
    if not count or not steps.learning_rate.finite[rows].all() or (steps.step[rows] != np.arange(1, count + 1)).any():
        return None
    found: Floats = steps.learning_rate.values[rows]
    return found


def _alike(ours: Floats, theirs: Floats) -> bool:
    return bool(np.allclose(ours, theirs, rtol=_SAME, atol=0.0))
