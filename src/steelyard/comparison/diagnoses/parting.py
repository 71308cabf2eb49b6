"""Where two loss curves with one start diverge, and the pattern: rounding, data order, or a setting."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

from steelyard.comparison.curve import LossCurve, differences
from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.phrases import percent
from steelyard.comparison.starts import OTHER_GPUS
from steelyard.comparison.tiers import Pair
from steelyard.records.columns import Floats, Whole

SAME, WIDE = 1e-3, 1e-2
_FEWEST = 20
_SMOOTH, _ROUGH = 0.6, 0.4
"""Lag-1 rank correlation of the differences: above the first they drift, below the second they scatter."""
_ONE_SIDED = 0.75
_SOON = 10
_MOST_DIGITS = 7
"""Most digits a log prints; a loss with more is not rounded."""


class Look(Enum):
    """The pattern of two diverging curves, and what would confirm its cause."""

    FACTOR = (
        "one is {factor:.4g} times the other at every step, so the loss is computed in another way",
        "check what each side averages: masked tokens, ranks, or an added auxiliary loss",
    )
    OTHER_START = (
        "different data order or initial weights are likely, because the first step differs",
        "use one data seed and one weight seed on both sides",
    )
    TOGETHER_AGAIN = (
        "cause unknown: they meet again, as after a spike or other data",
        "look at the data of these steps, and repeat one run of each side",
    )
    DRIFT = (
        "a different setting (learning rate, schedule, optimizer) is likely, because the difference drifts",
        "compare the learning rates and optimizer settings of both logs",
    )
    ROUNDING = (
        "rounding is likely, because small differences scatter to both sides",
        "run each side with deterministic kernels or in fp32: the curves should diverge later",
    )
    UNEXPLAINED = (
        "cause unknown: too large or one-sided for rounding, and not smooth enough for a setting",
        "repeat one run of each side: a difference that returns is not chance",
    )


def _sentence(look: Look, factor: float, first: int, wide: int | None, **_: Any) -> str:
    by_one = f" and by 1% from step {wide:,}" if wide is not None else ", but never by 1%"
    return f"losses differ by 0.1% from step {first:,}{by_one}: {look.value[0].format(factor=factor)}"


def _evidence(at_first: float, at_most: float, smooth: float, one_sided: float, **_: Any) -> Iterator[str]:
    yield f"difference {percent(at_first, decimals=4)} at step 1, at most {percent(at_most)}"
    yield f"lag-1 rank correlation of the differences {smooth:.2f}; {one_sided:.0%} of them to one side"


CODE = Cause("parting", _sentence, evidence=_evidence, confirm=lambda look, **_: str(look.value[1]))
"""Two loss curves with one start diverge; the pattern of the difference shows a likely cause."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    if pair.same("data.source") is False or (pair.doubt is not None and pair.doubt.code is OTHER_GPUS):
        return  # different data or weights from the start
    for target, baseline in (pair.matched or _only(pair))[:1]:
        step, apart = differences(target, baseline)
        if len(step) < _FEWEST or step[0] != 1:
            continue
        with np.errstate(invalid="ignore"):
            beyond = np.maximum(np.abs(apart) - _printed(target, baseline, step), 0.0)
        if (beyond > SAME).any():
            yield _diagnosis(step, apart, beyond, pair.rounding())


def _only(pair: Pair) -> list[tuple[LossCurve, LossCurve]]:
    """The curves of one run per side whose seeds are not recorded: they may have one start."""
    same = max(pair.seeds) == 0 and pair.same("platform.framework") is not False
    return list(zip(*pair.curves, strict=True)) if same and list(map(len, pair.curves)) == [1, 1] else []


def _diagnosis(step: Whole, apart: Floats, beyond: Floats, rounding: float) -> Diagnosis:
    wide = step[beyond > WIDE]
    ranks = np.argsort(np.argsort(apart))  # ranks, because a single spike would hide a drift
    smooth = float(np.corrcoef(ranks[1:], ranks[:-1])[0, 1]) if np.ptp(apart) > 0 else 0.0
    one_sided = float(np.mean(np.sign(apart) == np.sign(np.median(apart))))
    small = float(np.quantile(beyond, 0.95)) <= WIDE and float(beyond[step <= _SOON].max()) <= max(SAME, rounding)
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
    # The steps of the tier `first_steps`: printed digits are not subtracted.
    steps = {"first": _first(step, apart, SAME), "wide": _first(step, apart, WIDE)}
    sizes = {"at_first": float(abs(apart[0])), "at_most": float(np.abs(apart).max())}
    return Diagnosis(CODE, "both", {**values, **steps, **sizes})


def _first(step: Whole, apart: Floats, share: float) -> int | None:
    """The first step at which the curves differ by more than a share."""
    return next(iter(step[np.abs(apart) > share].tolist()), None)


def _printed(target: LossCurve, baseline: LossCurve, step: Whole) -> Floats:
    """Half of the last printed digit of both losses, relative to the loss."""
    halves = [_half_digit(curve.loss)[np.isin(curve.step, step)] for curve in (target, baseline)]
    with np.errstate(over="ignore"):
        return (halves[0] + halves[1]) / baseline.loss[np.isin(baseline.step, step)]


def _half_digit(loss: Floats) -> Floats:
    """Half of the last digit of losses printed with few decimals or digits; 0 if they are not."""
    half = np.zeros(len(loss))
    for unit in (np.ones(len(loss)), 10.0 ** np.floor(np.log10(loss))):
        for digits in range(_MOST_DIGITS):
            last = unit / 10.0**digits
            if (np.abs(loss / last - np.round(loss / last)) < 1e-6).all():
                half = np.maximum(half, last / 2)
                break
    return half
