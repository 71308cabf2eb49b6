"""How finely figures are printed: the size of the last digit of a column."""

import math

import numpy as np

from steelyard.accounting.arrays import Floats

_MOST_DECIMALS = 9
_HALF_PRECISION = (8, 11)
"""Bits of a bf16 and of an fp16 number."""


def last_digit(values: Floats) -> float:
    """The size of the last decimal that any of these values needs; 0 for more than nine decimals."""
    for decimals in range(_MOST_DECIMALS + 1):
        units = values * 10.0**decimals
        if (np.abs(units - np.rint(units)) <= 1e-6 + 1e-12 * np.abs(units)).all():
            return float(10.0**-decimals)
    return 0.0


def significant(value: float, digits: int) -> float:
    """The size of the last of these significant digits."""
    return float(10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits)) if value else 0.0


def resolution(value: float, values: Floats, digits: int | None) -> float:
    """The smallest change of `value` that its column would show.

    It is the finest digit that the column has, or that its framework prints. A value that was computed in bf16 or
    fp16 changes in larger steps, however many digits are printed.
    """
    unit = last_digit(values)
    if digits is not None:
        unit = min(unit, significant(value, digits)) if unit else 0.0
    mantissa, exponent = math.frexp(value)
    for bits in _HALF_PRECISION:
        step = math.ldexp(1.0, exponent - bits)
        if abs(mantissa * 2**bits - round(mantissa * 2**bits)) * step <= unit / 2 or value == 0:
            return max(unit, step)
    return unit
