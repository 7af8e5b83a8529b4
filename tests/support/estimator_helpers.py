"""The formulas of the gradient rules by enumeration, in NumPy and float64."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np

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


def threefry13(key: Any, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Threefry-2x32 with 13 rounds, as Salmon et al. (SC 2011) write it."""
    first, second = (int(word) for word in key)
    schedule = [first, second, first ^ second ^ 0x1BD11BDA]
    x, y = (np.asarray(word, np.uint64) for word in (x, y))
    modulus = np.uint64(2**32 - 1)
    x, y = x + np.uint64(schedule[0]) & modulus, y + np.uint64(schedule[1]) & modulus
    rotations = [13, 15, 26, 6, 17, 29, 16, 24]
    for number in range(1, 14):
        turn = np.uint64(rotations[(number - 1) % 8])
        x = x + y & modulus
        y = ((y << turn | y >> np.uint64(32) - turn) & modulus) ^ x
        injection, rest = divmod(number, 4)
        if rest == 0:
            x = x + np.uint64(schedule[injection % 3]) & modulus
            y = y + np.uint64(schedule[(injection + 1) % 3] + injection) & modulus
    return x, y


def numpy_noise(
    key: Any, sample: int, shape: tuple[int, ...], name: str, core_dims: int = 2
) -> np.ndarray:
    """The noise as it is documented, `shape[-core_dims:]` being one problem."""
    entries = int(np.prod(shape[len(shape) - core_dims :]))
    pairs = (entries + 1) // 2
    place = np.arange(int(np.prod(shape)) // entries)[:, None] * pairs + np.arange(pairs)
    words = threefry13(np.asarray(jax.random.key_data(key)), sample, place)
    u, v = (((word >> np.uint64(9)).astype(np.float64) + 0.5) / 2**23 for word in words)
    if name == "normal":
        radius = np.sqrt(-2 * np.log(u))
        made = radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)
    else:
        of_uniform = {"gumbel": lambda u: np.log(-np.log(u)), "sum_of_gamma": _of_gamma}[name]
        made = of_uniform(u), of_uniform(v)
    return np.concatenate(made, -1)[:, :entries].reshape(shape)


def _of_gamma(u: np.ndarray) -> np.ndarray:
    """Which has a test of its own."""
    return -np.asarray(sum_of_gamma(np.asarray(u, np.float32), 5.0), np.float64)
