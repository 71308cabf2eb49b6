"""Spread by medians, which a few outliers do not move."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SIGMAS = 1.4826
"""Median deviations of normal noise in one standard deviation: 1 / 0.6745."""


def around_median(values: Floats) -> tuple[Floats, Floats]:
    """The median along the last axis, and the spread about it as a standard deviation would be."""
    median = np.median(values, axis=-1)
    spread = SIGMAS * np.median(np.abs(values - median[..., None]), axis=-1)
    return median, spread
