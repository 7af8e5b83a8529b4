"""Numbers of a batch as integers times a power of two for each problem: no rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


# What 64-bit sums of a few numbers hold.
_BITS = 58
_ABSENT = 1 << 20


def flat(x: np.ndarray) -> np.ndarray:
    """[b, k], also where there is nothing."""
    return x.reshape(len(x), math.prod(x.shape[1:]))


def whole(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers and exponents of [b, k]: x = integer * 2^exponent; what is not finite is 0.

    The integers are int64 where all of them are short, else Python's.
    """
    if x.dtype == object:
        return x, np.zeros(len(x), np.int64)
    if x.dtype.kind in "iu":
        wide = x.astype(np.int64)
        short = (np.abs(wide) >> _BITS == 0).all()
        return wide if short else wide.astype(object), np.zeros(len(x), np.int64)
    wide = x.astype(np.float64)
    mantissa, exponent = np.frexp(np.where(np.isfinite(wide), wide, 0))
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    zeros = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    zeros = np.where(digits == 0, 0, zeros)
    digits >>= zeros
    exponent = np.where(digits == 0, _ABSENT, exponent - 53 + zeros).astype(np.int64)
    unit = exponent.min(1, initial=_ABSENT)
    unit = np.where(unit == _ABSENT, 0, unit)
    shift = np.where(digits == 0, 0, exponent - unit[:, None])
    length = np.frexp(np.abs(digits).astype(np.float64))[1]
    if (shift + length).max(initial=0) <= _BITS:
        return digits << shift, unit
    flat = [a << s for a, s in zip(digits.ravel().tolist(), shift.ravel().tolist(), strict=True)]
    out = np.empty(digits.size, object)
    out[:] = flat
    return out.reshape(digits.shape), unit


def real(x: int, unit: int) -> float:
    """The double nearest to x * 2^unit, or an infinity."""
    try:
        return float(x << unit) if unit >= 0 else x / (1 << -unit)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def is_at_most(x: int, unit: int, bound: Any) -> bool:
    """Whether x * 2^unit <= bound, a float."""
    bound = float(bound)
    if math.isinf(bound) or math.isnan(bound):
        return bound > 0
    p, q = bound.as_integer_ratio()
    return (x * q << unit) <= p if unit >= 0 else x * q <= p << -unit
