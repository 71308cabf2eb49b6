"""Where two curves of one start part, and what that looks like: rounding, another order of data, another setting."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

from steelyard.comparison.curve import LossCurve, differences
from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.tiers import Pair
from steelyard.records.columns import Floats, Whole

SAME, PARTED = 1e-3, 1e-2
_FEWEST = 20
_SMOOTH, _ROUGH = 0.6, 0.4
"""Lag-1 correlation of the differences' ranks: above the first they drift, below the second they scatter."""
_ONE_SIDED = 0.75
_SOON = 10
_MOST_DIGITS = 7
"""What a log prints at most; a loss of more is not rounded."""


class Look(Enum):
    """What two curves that part look like, and what would confirm it."""

    FACTOR = (
        "one is {factor:.4g} times the other at every step: the loss is counted in another way",
        "see over what each side averages: masked tokens, ranks, or an auxiliary loss that is added",
    )
    OTHER_START = (
        "it looks like another order of data, or other weights: they differ from the first step on",
        "give both sides one seed of data and of weights",
    )
    TOGETHER_AGAIN = (
        "why is not told: they come together again, as after a spike or a stretch of other data",
        "look at what was trained on there, and whether a run of each side does it again",
    )
    DRIFT = (
        "it looks like another setting (rate, schedule, optimizer): the difference drifts smoothly",
        "compare the learning rates and the optimizer's settings of both logs",
    )
    ROUNDING = (
        "it looks like rounding: they start together, and small differences then scatter to both sides",
        "a run of each side with deterministic kernels, or in fp32, parts later",
    )
    UNEXPLAINED = (
        "why is not told: it is too large or one-sided for rounding, and not smooth as a setting is",
        "a run of each side again: what comes back is no chance",
    )


def _sentence(look: Look, factor: float, first: int, wide: int | None, **_: Any) -> str:
    by_one = f", and by 1 % at step {wide:,}" if wide is not None else ", and never by 1 %"
    return f"the curves part by 0.1 % at step {first:,}{by_one}: {look.value[0].format(factor=factor)}"


def _evidence(at_first: float, at_most: float, smooth: float, one_sided: float, **_: Any) -> Iterator[str]:
    yield f"at step 1 they are {at_first:.1e} apart, at most {at_most:.2g}"
    yield f"lag-1 rank correlation of the differences {smooth:.2f}; {one_sided:.0%} of them to one side"


CODE = Cause("parting", _sentence, evidence=_evidence, confirm=lambda look, **_: str(look.value[1]))
"""Two curves of one start part; how they part says what may be the cause."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    if pair.same("data.source") is False:
        return  # other data from the start
    for target, baseline in pair.matched[:1]:
        step, apart = differences(target, baseline)
        if len(step) < _FEWEST or step[0] != 1:
            continue
        with np.errstate(invalid="ignore"):
            beyond = np.maximum(np.abs(apart) - _printed(target, baseline, step), 0.0)
        if (beyond > SAME).any():
            yield _diagnosis(step, apart, beyond, pair.rounding())


def _diagnosis(step: Whole, apart: Floats, beyond: Floats, rounding: float) -> Diagnosis:
    wide = step[beyond > PARTED]
    ranks = np.argsort(np.argsort(apart))  # a single spike would hide a drift
    smooth = float(np.corrcoef(ranks[1:], ranks[:-1])[0, 1]) if np.ptp(apart) > 0 else 0.0
    one_sided = float(np.mean(np.sign(apart) == np.sign(np.median(apart))))
    small = float(np.quantile(beyond, 0.95)) <= PARTED and float(beyond[step <= _SOON].max()) <= max(SAME, rounding)
    if beyond[0] > max(SAME / 10, rounding):
        look = Look.FACTOR if float(apart.std()) < 0.1 * abs(float(apart.mean())) else Look.OTHER_START
    elif len(wide) and float(np.median(beyond[-max(_SOON, len(step) // 10) :])) <= SAME:
        look = Look.TOGETHER_AGAIN
    elif smooth > _SMOOTH:
        look = Look.DRIFT
    elif small and smooth < _ROUGH and one_sided < _ONE_SIDED:
        look = Look.ROUNDING
    else:
        look = Look.UNEXPLAINED
    values = {"look": look, "factor": 1 + float(apart.mean()), "smooth": smooth, "one_sided": one_sided}
    steps = {"first": int(step[beyond > SAME][0]), "wide": int(wide[0]) if len(wide) else None}
    sizes = {"at_first": float(abs(apart[0])), "at_most": float(np.abs(apart).max())}
    return Diagnosis(CODE, "both", {**values, **steps, **sizes})


def _printed(target: LossCurve, baseline: LossCurve, step: Whole) -> Floats:
    """Half of the last printed digit of both, as a share of the loss."""
    halves = [_half_digit(curve.loss)[np.isin(curve.step, step)] for curve in (target, baseline)]
    with np.errstate(over="ignore"):
        return (halves[0] + halves[1]) / baseline.loss[np.isin(baseline.step, step)]


def _half_digit(loss: Floats) -> Floats:
    """Of losses printed with so many decimals, or so many digits, whichever is coarser; 0 where neither is so."""
    half = np.zeros(len(loss))
    for unit in (np.ones(len(loss)), 10.0 ** np.floor(np.log10(loss))):
        for digits in range(_MOST_DIGITS):
            last = unit / 10.0**digits
            if (np.abs(loss / last - np.round(loss / last)) < 1e-6).all():
                half = np.maximum(half, last / 2)
                break
    return half
