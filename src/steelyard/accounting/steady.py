"""The steady window: the steps whose times speak for the platform, warm-up and marked steps out."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MARKS = ("eval", "checkpoint", "profile", "recompile")
"""What a step may be marked with that its time then speaks of, and not of training."""

MIN_STEADY_STEPS = 20
"""A comparison asks for so many; a check judges what there is."""

_BATCH = 5
_SPIKE = 1.5
_ALIKE = (0.02, 0.05)
_SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class SteadyWindow:
    """Which records count, and what became of the others."""

    mask: Mask
    steps: int
    """Optimizer steps in it."""
    first_step: int | None
    last_step: int | None
    dropped: Mapping[str, int]
    """Steps left out, by reason."""
    settled: bool
    """False where the times still drifted at the middle of the run, so that half of it was dropped."""
    untimed: int
    """Steps after the warm-up that should count and give no usable time."""

    def words(self) -> str:
        """What was kept and what was dropped, as a sentence."""
        if self.first_step is None:
            kept = "no steady steps"
        else:
            kept = f"{self.steps:,} steady steps, {self.first_step:,} to {self.last_step:,}"
        left = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items() if count)
        drift = "" if self.settled else "; step times had not settled by the middle of the run"
        return f"{kept}{f' (dropped: {left})' if left else ''}{drift}"


def steady_window(
    step: Whole, covered: Whole, step_time_s: Floats, marks: Mapping[str, Mask], asked_warmup_steps: int = 0
) -> SteadyWindow:
    """Drop the larger of the asked and the detected warm-up, then the marked steps."""
    timed = np.isfinite(step_time_s) & (step_time_s > 0)
    marked = np.zeros(len(step), dtype=np.bool_)
    for mark in MARKS:
        if mark in marks:
            marked |= marks[mark]
    candidates = np.flatnonzero(timed & ~marked)
    detected, settled = warmup_records(step_time_s[candidates])
    late = step > asked_warmup_steps
    if detected:
        late &= np.arange(len(step)) >= candidates[detected]
    mask = late & timed & ~marked
    dropped = {"warm-up": int(covered[~late].sum())}
    for mark in MARKS:
        if mark in marks:
            dropped[mark] = int(covered[late & marks[mark]].sum())
    untimed = int(covered[late & ~timed & ~marked].sum())
    dropped["without a time"] = untimed
    inside = step[mask]
    return SteadyWindow(
        mask=mask,
        steps=int(covered[mask].sum()),
        first_step=int(inside[0]) if len(inside) else None,
        last_step=int(inside[-1]) if len(inside) else None,
        dropped=dropped,
        settled=settled,
        untimed=untimed,
    )


def warmup_records(times: Floats) -> tuple[int, bool]:
    """How many leading records are warm-up, and whether the times settled in the first half.

    MSER (White, Simulation 69, 1997) drops the d leading batches that minimise the squared standard error of the mean
    of the rest, sum (x_i - mean)^2 / (n - d)^2; in batches of five (White, Cobb, Spratt 2000), in short runs of one. On
    quiet times it drops a drift of a few parts in a thousand with as much zeal as a compilation, so batches before
    its cut come back, from the last, while they are within three sigma of what it kept (2 to 5 %). At most half is
    dropped, and a lone spike after the first batch is taken down to its neighbours' median while we look: one slow
    step amid steady ones is no warm-up and must not be dropped as one.
    """
    size = _BATCH if len(times) >= 4 * _BATCH else 1
    batches = len(times) // size
    if batches < 4:
        return 0, True
    means = _without_spikes(times, size)[: batches * size].reshape(batches, size).mean(axis=1)
    centred = means - means[-1]  # small numbers, so that sums of squares keep their digits
    left = np.arange(batches, 0, -1)
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum(centred[::-1] ** 2)[::-1]
    error = np.maximum(squares - sums**2 / left, 0.0) / left**2
    most = batches // 2
    best = int(np.argmin(error[: most + 1]))
    tail = float(np.median(means[best:]))
    alike = tail * float(np.clip(_SIGMAS * np.std(means[best:]) / tail, *_ALIKE))
    unlike = np.flatnonzero(np.abs(means[:best] - tail) > alike)
    cut = int(unlike[-1]) + 1 if len(unlike) else 0
    return cut * size, cut < most or size == 1


def _without_spikes(times: Floats, first: int) -> Floats:
    if len(times) <= first + _BATCH:
        return times
    around = np.lib.stride_tricks.sliding_window_view(np.pad(times, _BATCH // 2, mode="edge"), _BATCH)
    usual = np.median(around, axis=1)
    cleaned = np.where(times > _SPIKE * usual, usual, times)
    cleaned[:first] = times[:first]
    return cleaned
