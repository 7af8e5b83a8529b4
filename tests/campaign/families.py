"""Families of numbers: what costs, capacities and masses of a batch are drawn from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from extreme_helpers import Kind, hostile, palette
from grid_cut_hostile import numbers as palette_of_integers
from helpers import numpy_dtype


FLOATS = ("bfloat16", "float16", "float32", "float64")
INTEGERS = ("int32", "int64")
Rng = np.random.Generator


@dataclasses.dataclass(frozen=True)
class Family:
    """Numbers to minimise, [count, ...]; in the dtype, but maybe wider than it."""

    numbers: Callable[[Rng, str, tuple[int, ...]], np.ndarray]
    dtypes: tuple[str, ...] = (*FLOATS, *INTEGERS)
    # What else is unusual: "empty" sides and batches, or "malformed" graphs.
    form: str = "usual"

    def draw(self, rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            x = self.numbers(rng, dtype, shape)
            if dtype in INTEGERS:  # symmetric, so that it can be negated
                most = np.iinfo(dtype).max
                return np.clip(x, -most, most).astype(dtype)
            limit = float(ml_dtypes.finfo(numpy_dtype(dtype)).max)
            # Rounding to the dtype makes no infinities.
            x = np.where(np.isfinite(x), np.clip(x, -limit, limit), x)
            return x.astype(numpy_dtype(dtype))


def _info(dtype: str) -> tuple[float, float, float, float]:
    """The greatest number, the least normal one, the least one, and the spacing at 1."""
    info = ml_dtypes.finfo(numpy_dtype(dtype))
    return float(info.max), float(info.tiny), float(info.smallest_subnormal), float(info.eps)


def _each(rng: Rng, shape: tuple[int, ...], values: Any) -> np.ndarray:
    """One of the values for each problem."""
    return np.broadcast_to(rng.choice(values, (shape[0], *(1 for _ in shape[1:]))), shape)


def _digits(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype in INTEGERS:
        return rng.integers(-(2**28), 2**28, shape)
    return rng.normal(size=shape) * _each(rng, shape, [1.0, 1e-3, 100.0])


def _small(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-9, 10, shape) * (1 if dtype in INTEGERS else 1.0)


def _tied(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    values = [0, 1, -7, 2**20] if dtype in INTEGERS else palette(dtype)
    return _each(rng, shape, values)


def _two_values(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    a, b = _digits(rng, dtype, shape[:1]), _digits(rng, dtype, shape[:1])
    a, b = (x.reshape(shape[0], *(1 for _ in shape[1:])) for x in (a, b))
    return np.where(rng.random(shape) < 0.5, a, b)


def _greatest(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype in INTEGERS:
        most = np.iinfo(dtype).max
        values = np.array([most, most - 1, most // 2, most // 4, most // 16, 1, 0], np.int64)
    else:
        most, _, _, eps = _info(dtype)
        values = np.array([most, most * (1 - eps), most / 2, most / 4, most * eps, 1.0, 0.0])
    few = rng.choice(values, (shape[0], 3))
    x = np.take_along_axis(few, rng.integers(0, 3, (shape[0], int(np.prod(shape[1:])))), 1)
    return x.reshape(shape) * np.where(rng.random(shape) < _each(rng, shape, [0, 0.5]), -1, 1)


def _tiny(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return _info(dtype)[1] * rng.integers(-8, 9, shape)


def _denormal(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    most = min(int(_info(dtype)[1] / _info(dtype)[2]), 2**20)
    return _info(dtype)[2] * rng.integers(-most, most, shape)


def _odd(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Around the integers from which a float of half the length holds the even ones only."""
    if dtype in INTEGERS:
        return _each(rng, shape, [2**24, *([2**53] if dtype == "int64" else [])]) + rng.integers(
            -3, 4, shape
        )
    base = 2 / _info(dtype)[3]
    return base + rng.integers(-3, 4, shape) * 1.0


def _mixture(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Powers of ten far apart."""
    most, tiny, _, _ = _info(dtype)
    top = min(40.0, np.log10(most) - 0.1)
    power = rng.choice([-1.0, 0.0, 1.0], shape) * _each(rng, shape, [top, top, top / 2])
    size = np.maximum(10.0**power, tiny)
    return size * rng.choice([-1, 1], shape) * rng.choice([1.0, 1.0 + 1 / 3], shape)


def _hostile(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype in INTEGERS:
        values = palette_of_integers(dtype, 16)
        few = rng.choice(values, (shape[0], 4))
        x = np.take_along_axis(few, rng.integers(0, 4, (shape[0], int(np.prod(shape[1:])))), 1)
        return x.reshape(shape) * rng.choice([-1, 1, 1], shape)
    return hostile(rng, Kind("auto", dtype, False, (0, 0)), shape)


def _sentinel(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """A great number in the place of what should be forbidden."""
    if dtype in INTEGERS:
        great: Any = rng.choice([10**6, 10**9])
        return np.where(rng.random(shape) < 0.4, great, rng.integers(-50, 50, shape))
    great = rng.choice([10**4, min(1e9, _info(dtype)[0]), _info(dtype)[0] / 1000])
    return np.where(rng.random(shape) < 0.4, great, rng.random(shape))


def _with(value: float, share: float, of: Callable[..., np.ndarray] = _digits) -> Any:
    """A special value in some places of some problems."""

    def numbers(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        here = rng.random(shape) < share * _each(rng, shape, [0.0, 0.5, 1.0])
        return np.where(here, value, of(rng, dtype, shape))

    return numbers


def _forbidden(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, np.inf)


def _zeros(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.where(rng.random(shape) < 0.5, 0.0, -0.0)


FAMILIES: dict[str, Family] = {
    "digits": Family(_digits),
    "small": Family(_small),
    "tied": Family(_tied),
    "two values": Family(_two_values),
    "greatest": Family(_greatest),
    "tiny": Family(_tiny, FLOATS),
    "denormal": Family(_denormal, FLOATS),
    "2^24+1": Family(_odd),
    "10^40": Family(_mixture, FLOATS),
    "hostile": Family(_hostile),
    "sentinel": Family(_sentinel),
    "zeros": Family(_zeros, FLOATS),
    "sparse": Family(_with(np.inf, 0.6), FLOATS),
    "forbidden": Family(_forbidden, FLOATS),
    "NaN": Family(_with(np.nan, 0.1), FLOATS),
    "-inf": Family(_with(-np.inf, 0.1, _small), FLOATS),
    "empty": Family(_small, form="empty"),
    "malformed": Family(_small, form="malformed"),
}
