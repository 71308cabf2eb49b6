"""A log's moments against its step times: which records took longer than the time there was."""

from dataclasses import dataclass

import numpy as np

from steelyard.accounting.arrays import Mask, chosen
from steelyard.records import StepTable

_FEWEST = 5
_MARGIN = 0.1
_SYSTEMATIC = 0.2
_STANDS = 0.05


@dataclass(frozen=True, slots=True)
class Clock:
    artefacts: Mask
    """Records whose steps are stated to take longer than passed between them and the record before."""
    ratio: float | None
    """Time that passed over time that is said, over all records; None where the moments cannot tell."""
    each: float | None = None
    """The same of a step, in the median, which pauses do not move; None too where moments are whole seconds."""

    @property
    def contradicts(self) -> bool:
        """Whether they disagree as a whole, and not by some pauses, so that one of the two is wrong throughout."""
        ratios = [ratio for ratio in (self.ratio, self.each) if ratio is not None]
        return bool(ratios) and all(abs(ratio - 1) > _SYSTEMATIC for ratio in ratios)


def read_clock(steps: StepTable, excused: Mask) -> Clock:
    """Hold each record's time against the moments around it; `excused` are those with an evaluation between."""
    nothing = np.zeros(len(steps), dtype=np.bool_)
    if len(steps) < _FEWEST or np.isnat(steps.time).sum() > len(steps) - _FEWEST:
        return Clock(nothing, None)
    passed = np.diff(steps.time) / np.timedelta64(1, "s")  # NaN where a moment is missing
    stated = steps.step_time_s.values[1:] * steps.steps_covered[1:]
    next_to = np.diff(steps.step) == steps.steps_covered[1:]
    usable = np.isfinite(passed) & np.isfinite(stated) & next_to & ~excused[1:] & (passed >= 0) & (stated > 0)
    if usable.sum() < _FEWEST or chosen(passed, usable).sum() < _STANDS * chosen(stated, usable).sum():
        return Clock(nothing, None)  # a clock that stands says nothing
    usable &= passed <= 3 * stated + 30.0  # a pause: a restart, or an evaluation nobody told of
    whole = bool((np.round(passed) == passed).all(where=usable))
    late = usable & (stated - passed > (1.0 if whole else 0.01) + _MARGIN * stated)
    kept = usable if late.sum() > usable.sum() / 2 else usable & ~late
    passed, stated = chosen(passed, kept), chosen(stated, kept)
    ratio = float(passed.sum() / stated.sum())
    slack = 1.0 / float(stated.sum()) if whole else 0.0
    each = None if whole else float(np.median(passed / stated, overwrite_input=True))
    clock = Clock(nothing.copy(), ratio if abs(ratio - 1) > slack else 1.0, each)
    clock.artefacts[1:] = late
    if clock.contradicts:
        clock.artefacts[:] = True
    return clock
