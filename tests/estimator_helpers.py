"""The formulas of the gradient rules by enumeration, in NumPy and float64."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
from jax.extend.random import threefry_2x32
from scipy.special import ndtri

from jaxmatch.estimators._sum_of_gamma import sum_of_gamma


def matrices(n: int, m: int) -> np.ndarray:
    """All maximal assignments of n rows and m columns."""
    if n > m:
        return matrices(m, n).swapaxes(1, 2)
    found = []
    for cols in itertools.permutations(range(m), n):
        y = np.zeros((n, m))
        y[np.arange(n), cols] = 1
        found.append(y)
    return np.array(found)


def partial_matrices(n: int, m: int) -> np.ndarray:
    """All partial ones `[n, m + 1]`, whose last column tells which rows are left."""
    found = []
    for choice in itertools.product(range(m + 1), repeat=n):
        used = [j for j in choice if j < m]
        if len(used) == len(set(used)):
            y = np.zeros((n, m + 1))
            y[np.arange(n), choice] = 1
            found.append(y)
    return np.array(found)


def best(points: np.ndarray, cost: Any) -> np.ndarray:
    """The point that costs least; costs may be infinite."""
    cost = np.asarray(cost, np.float64)
    total = np.where(points > 0, cost, 0).reshape(len(points), -1).sum(1)
    return points[total.argmin()]


def double_centered(x: np.ndarray) -> np.ndarray:
    n, m = x.shape
    if n <= m:
        x = x - x.mean(1, keepdims=True)
    if m <= n:
        x = x - x.mean(0, keepdims=True)
    return x


def slope(points: np.ndarray, cost: Any, d: Any, strength: float, central: bool) -> np.ndarray:
    cost, d = np.asarray(cost, np.float64), np.asarray(d, np.float64)
    ahead = best(points, cost + strength * d)
    if central:
        return (ahead - best(points, cost - strength * d)) / (2 * strength)
    return (ahead - best(points, cost)) / strength


def numpy_noise(key: Any, sample: int, shape: tuple[int, ...], name: str) -> np.ndarray:
    """The noise as it is documented, from the bits of JAX's own Threefry."""
    size = int(np.prod(shape))
    counter = np.concatenate([np.full(size, sample), np.arange(size)]).astype(np.uint32)
    words = np.asarray(threefry_2x32(jax.random.key_data(key), counter))
    u = (((words[:size] ^ words[size:]) >> 9) + 0.5) / 2**23
    made = {"normal": ndtri, "gumbel": lambda u: np.log(-np.log(u)), "sum_of_gamma": _of_gamma}
    return made[name](u).reshape(shape)


def _of_gamma(u: np.ndarray) -> np.ndarray:
    """Which has a test of its own."""
    return np.asarray(sum_of_gamma(np.asarray(u, np.float32), 5.0), np.float64)
