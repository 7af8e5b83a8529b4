"""The exact derivative of smoothed assignments that are small enough to enumerate: what gradients
are held against in `learning/quality.py`. NumPy alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np


SIGMAS = (0.25, 1.0)
LOSSES = ("linear", "hamming")
QUARTERS = 4  # of the draws, which are kept apart to tell bias from noise


class Law(NamedTuple):
    """Of one number of noise: how it is drawn, and its density."""

    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    density: Callable[[np.ndarray], np.ndarray]


LAWS = {
    "normal": Law(
        lambda rng, shape: rng.standard_normal(shape),
        lambda z: np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi),
    ),
    # Negative, as costs are minimised.
    "gumbel": Law(
        lambda rng, shape: -rng.gumbel(size=shape),
        lambda z: np.exp(np.minimum(z, 50) - np.exp(np.minimum(z, 50))),
    ),
}


@cache
def permutation_matrices(n: int) -> np.ndarray:
    """All of them, `f64[n!, n * n]`."""
    return np.array([np.eye(n)[list(p)].ravel() for p in itertools.permutations(range(n))])


def exact_jacobian(
    cost: np.ndarray, sigma: float, noise: str, draws: int, seed: int, parts: int = 8
) -> np.ndarray:
    """`f64[parts, entry of the costs, entry of the solution]`, one estimate from each of so many
    independent parts of the draws; their spread tells the standard error of their mean.

    As a function of its own cost c alone an entry e is used below a break point t and unused above
    it, where t is the least total without e minus the least of the rest of a solution with e. Given
    the noise of all other entries, the mean solution is therefore
    `F((t - C_e) / sigma) (y_with - y_without) + y_without` with the noise's distribution function
    F, and its slope in C_e is exact. Noise of all others is what remains to be averaged over.
    """
    n = len(cost)
    points = permutation_matrices(n)
    law, rng = LAWS[noise], np.random.default_rng(seed)
    flat = np.asarray(cost, np.float64).ravel()
    found = np.zeros((parts, n * n, len(points)))
    for part in found:
        x = flat[:, None] + sigma * law.draw(rng, (n * n, draws // parts))
        totals = _numbered(points @ x)
        for e, uses in enumerate(points.T > 0):
            used, unused = totals[uses].min(0), totals[~uses].min(0)
            t = unused - (used - x[e])
            weight = law.density((t - flat[e]) / sigma) / sigma
            part[e] = np.bincount(_number(unused), weight, len(points))
            part[e] -= np.bincount(_number(used), weight, len(points))
    return found @ points / (draws // parts)


# The least of many numbers is found ten times as fast as where it is. So each total has the number
# of its permutation in its last 7 bits, which changes it by less than 2^-45 of itself.
def _numbered(totals: np.ndarray) -> np.ndarray:
    number = np.arange(len(totals), dtype=np.int64)[:, None]
    return ((np.ascontiguousarray(totals).view(np.int64) & ~np.int64(127)) | number).view(float)


def _number(total: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(total).view(np.int64) & 127


class Problems(NamedTuple):
    """Costs `f32[problems, n, n]`, cotangents `f32[losses, problems, n, n]`, and the exact gradient
    by law of noise and sigma, `f64[quarters, losses, problems, n, n]`."""

    cost: np.ndarray
    cotangent: np.ndarray
    gradient: dict[tuple[str, float], np.ndarray]


def make_problems(
    n: int, matrices: int, cotangents: int, draws: int, sigmas: tuple[float, ...] = SIGMAS
) -> Problems:
    """Costs are standard normal numbers. Of the losses, `linear` has a cotangent of such numbers;
    `hamming` counts wrong pairs, where right is the solution of costs with as much noise as
    signal."""
    rng = np.random.default_rng(n)
    cost = rng.standard_normal((matrices, n, n)).astype(np.float32)
    shape = (matrices, cotangents, n, n)
    points = permutation_matrices(n)
    other = cost[:, None] + rng.standard_normal(shape)
    wanted = points[(other.reshape(-1, n * n) @ points.T).argmin(1)].reshape(shape)
    d = np.stack([rng.standard_normal(shape), 1 - 2 * wanted]).astype(np.float32)
    gradient = {}
    for i, (noise, sigma) in enumerate(itertools.product(LAWS, sigmas)):
        each = [
            exact_jacobian(c, sigma, noise, draws, 1000 * i + k).reshape(QUARTERS, -1, n * n, n * n)
            for k, c in enumerate(cost)
        ]
        jacobian = np.stack(each, 1).mean(2)  # quarters, matrices
        along = d.reshape(len(LOSSES), matrices, cotangents, n * n).astype(np.float64)
        exact = np.einsum("qpij,lpcj->qlpci", jacobian, along)
        gradient[noise, sigma] = exact.reshape(QUARTERS, len(LOSSES), -1, n, n)
    return Problems(np.repeat(cost, cotangents, 0), d.reshape(len(LOSSES), -1, n, n), gradient)
