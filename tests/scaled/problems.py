"""A few small problems, and a batch of their copies at every power of two of a dtype."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from helpers import numpy_dtype


INTEGERS = ("int32", "int64")
_LONGEST = 62  # bits of the integers that bases are


@dataclasses.dataclass(frozen=True)
class Batch:
    """Copies of problems of one shape. What `scaled` names has the batch dimension first."""

    dtype: str
    power: np.ndarray  # [b]
    arrays: dict[str, np.ndarray]
    scaled: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.power)

    def take(self, index: Any) -> Batch:
        """The problems at these places."""
        arrays = {name: x[index] for name, x in self.arrays.items()}
        return dataclasses.replace(self, power=self.power[index], arrays=arrays)


def powers(dtype: str) -> range:
    """Those at which the greatest number of a base is neither 0 nor infinite."""
    if dtype in INTEGERS:
        return range(1, np.iinfo(dtype).bits)
    info = ml_dtypes.finfo(numpy_dtype(dtype))
    return range(int(np.log2(float(info.smallest_subnormal))), int(info.maxexp) + 1)


def at_every_power(
    dtype: str, bases: dict[str, np.ndarray], power: np.ndarray, **constant: Any
) -> Batch:
    """Of bases [k, ...], whose numbers are below 0.95, at k problems for each power."""
    count = len(next(iter(bases.values())))
    arrays = {}
    for name, base in bases.items():
        arrays[name] = np.concatenate([scale(base, dtype, int(e)) for e in power])
    for name, x in constant.items():
        arrays[name] = np.concatenate([x] * len(power)) if len(power) else x[:0]
    return Batch(dtype, np.repeat(power, count), arrays, tuple(bases))


def scale(base: np.ndarray, dtype: str, power: int) -> np.ndarray:
    """base * 2^power, rounded to the dtype: integers down."""
    if dtype not in INTEGERS:
        with np.errstate(under="ignore"):
            return np.ldexp(base, power).astype(numpy_dtype(dtype))
    digits = np.ldexp(base, 53).astype(np.int64) << (_LONGEST - 53)
    digits += np.where(base == np.ldexp(np.rint(np.ldexp(base, 9)), -9), 0, 0x155)  # more digits
    shift = _LONGEST - power
    return (digits >> shift if shift >= 0 else digits << -shift).astype(dtype)


# ---------------------------------------------------------------------------------------------
# Bases


def bases(n: int, m: int, seed: int = 0) -> np.ndarray:
    """[8, n, m], float64: of many digits and few, tied, structured, far apart, of both signs."""
    rng = np.random.default_rng([seed, n, m])
    i, j = np.indices((n, m))
    every = [
        rng.random((n, m)),
        rng.normal(size=(n, m)),
        rng.integers(0, 4, (n, m)),
        rng.integers(-9, 10, (n, m)),
        (i * n / m - j) ** 2,  # Monge: the diagonal
        (i + 1) * (j + 1),  # the other one
        # Some of the least do not fit a grid of the greatest.
        rng.random((n, m)) * 2.0 ** -rng.choice([0, 1, 20, 50, 70], (n, m)),
        np.where(rng.random((n, m)) < 0.3, 1.0, rng.random((n, m)) * 2.0**-30),
    ]
    return np.stack([_below_one(x) for x in every])


def _below_one(x: np.ndarray) -> np.ndarray:
    """Integers become multiples of 2^-k; the greatest is below 0.95."""
    most = np.abs(x).max()
    if (x == np.rint(x)).all():
        return np.ldexp(x.astype(float), -int(np.ceil(np.log2(most * 1.1))))
    return x * (0.9 / most)


def positive_bases(*shape: int, seed: int = 0) -> np.ndarray:
    """[8, ...], float64, of capacities: none is negative, some are 0."""
    rng = np.random.default_rng([seed, *shape])
    every = [
        rng.random(shape),
        rng.exponential(size=shape),
        rng.integers(1, 4, shape),
        rng.integers(0, 10, shape),
        np.where(rng.random(shape) < 0.5, 1.0, rng.random(shape)),
        np.arange(np.prod(shape)).reshape(shape) + 1,
        rng.random(shape) * 2.0 ** -rng.choice([0, 1, 20, 50, 70], shape),
        np.where(rng.random(shape) < 0.3, 1.0, rng.random(shape) * 2.0**-30),
    ]
    return np.stack([_below_one(x) for x in every])


def canonical(batch: Batch) -> Iterator[tuple[dict[str, np.ndarray], int, bytes]]:
    """Each problem times a power of two: its arrays, the exponent, and a key that is that of its
    copies where nothing was rounded."""
    if batch.dtype in INTEGERS:
        exponent = np.zeros(batch.count, np.int64)
        arrays = batch.arrays
    else:
        wide = {name: batch.arrays[name].astype(np.float64) for name in batch.scaled}
        flat = [x.reshape(batch.count, -1) for x in wide.values()]
        size = np.abs(np.concatenate(flat, 1))
        most = np.where(np.isfinite(size), size, 0).max(1, initial=0)
        exponent = np.frexp(most)[1].astype(np.int64)
        arrays = batch.arrays | {
            name: np.ldexp(x, -exponent.reshape(-1, *(1,) * (x.ndim - 1)))
            for name, x in wide.items()
        }
    for k in range(batch.count):
        one = {name: x[k] for name, x in arrays.items()}
        yield one, int(exponent[k]), b"".join(x.tobytes() for x in one.values())
