"""Reported rates against derived ones, within what the printed digits can carry."""

from dataclasses import dataclass

import numpy as np

from steelyard.accounting.arrays import BLOCK, Floats, Mask, blocks, chosen
from steelyard.accounting.printed import last_digit
from steelyard.verdict.subject import Subject

MARGIN = 0.02
"""Share; logs print three or four digits."""
_HALF = 0.505
"""Half of the last digit, and what arithmetic adds to it."""
_HALF_A_MILLISECOND = 0.00051
_COARSE = 0.2


@dataclass(frozen=True, slots=True)
class Deviation:
    """The row where a reported rate is furthest from the derived one."""

    row: int
    ratio: float
    holds: bool


def half_a_digit(subject: Subject, reported: Floats, rows: Mask, largest: float) -> float:
    """Rounding of a printed column, whose last digit is at most `largest`; 0 for exact records."""
    if not subject.as_printed:
        return 0.0
    values = chosen(reported, rows & np.isfinite(reported))[:BLOCK]
    return _HALF * min(last_digit(values), largest) if len(values) else 0.0


def is_coarse(derived: Floats, half: float) -> bool:
    """Whether rounding hides what the digits should show."""
    return half > _COARSE * float(np.median(derived))


def furthest(
    subject: Subject, rows: Mask, reported: Floats, derived: Floats, per_token: float = 1.0, half: float = 0.0
) -> Deviation:
    """The largest deviation of `reported` from `derived` x `per_token`; NaN is the largest."""
    row, ratio, furthest_away = 0, np.nan, -np.inf
    for part in blocks(len(rows)):
        if not rows[part].any():
            continue
        with np.errstate(all="ignore"):
            expected = derived[part] * per_token
            off = reported[part] - expected
            away = (np.abs(off) - half) / np.abs(expected) - _rounded_time(subject, part)
        away = np.where(np.isnan(away), np.where(np.abs(off) <= half, -1.0, np.inf), away)
        at = int(np.argmax(np.where(rows[part], away, -np.inf)))
        if away[at] > furthest_away:
            with np.errstate(all="ignore"):
                ratio = float(reported[part][at] / expected[at])
            row, furthest_away = int(part.start + at), float(away[at])
    return Deviation(row, ratio, furthest_away <= MARGIN)


def _rounded_time(subject: Subject, rows: slice) -> Floats:
    """The largest share by which rounding of the step time changes a rate."""
    if not subject.as_printed:
        return np.zeros(rows.stop - rows.start)
    share: Floats = np.nan_to_num(_HALF_A_MILLISECOND / np.abs(subject.steps.step_time_s.values[rows]), posinf=0.0)
    return share
