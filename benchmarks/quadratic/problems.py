"""Instances: two of QAPLIB with known optima, perturbed graphs, and spaces of points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Instance(NamedTuple):
    name: str
    a: np.ndarray
    b: np.ndarray
    maximize: bool
    known: float | None  # the optimum of QAPLIB, or what the hidden correspondence gives


def chr12c() -> Instance:
    """Christofides and Benavent (1989): a tree of 12 nodes; as in the tests of scipy (BSD)."""
    edges = (
        "0 1 90  0 2 10  1 3 23  2 4 43  3 5 88  4 6 26  5 7 16  6 8 1  7 9 96  8 10 29  9 11 37"
    )
    distances = """
        36 54 26 59 72 9 34 79 17 46 95  73 35 90 58 30 78 35 44 79 36  21 10 97 58 66 69 61 54 63
        93 12 46 40 37 48 68 85  64 5 29 76 16 5 76  96 55 38 54 0 34  83 35 11 56 37
        44 12 15 80  64 39 33  70 86  18"""
    a, b = np.zeros((2, 12, 12))
    for i, j, weight in np.array(edges.split(), int).reshape(-1, 3):
        a[i, j] = weight
    b[np.triu_indices(12, 1)] = np.array(distances.split(), int)
    return Instance("chr12c", a + a.T, b + b.T, False, 11156)


def tai64c() -> Instance:
    """Taillard (1995): 13 black cells of an 8x8 pattern, which repeats, far from each other."""
    a = np.zeros((64, 64))
    a[:13, :13] = 1
    apart = np.abs(np.arange(8)[:, None] - np.arange(8))
    near = np.minimum(apart, 8 - apart) ** 2
    squared = (near[:, None, :, None] + near[None, :, None, :]).reshape(64, 64)
    b = np.round(1e5 * np.divide(1, squared, out=np.zeros((64, 64)), where=squared > 0))
    return Instance("tai64c", a, b, False, 1855928)


def graphs(n: int, degree: float = 12, noise: float = 0.1) -> Instance:
    """Points of the plane that are joined if near, and again after they moved, in another order."""
    rng = np.random.default_rng(n)
    before = rng.random((n, 2))
    after = before + noise / np.sqrt(n) * rng.normal(size=(n, 2))
    order = rng.permutation(n)
    radius = np.sqrt(degree / (np.pi * n))

    def joined(x: np.ndarray) -> np.ndarray:
        far = np.linalg.norm(x[:, None] - x, axis=-1)
        return ((far < radius) & ~np.eye(n, dtype=bool)).astype(float)

    a, b = joined(before), joined(after)
    hidden = float((a * b).sum())
    return Instance(f"graphs of {n}", a, b[np.ix_(order, order)], True, hidden)


def starts(n: int, count: int) -> np.ndarray:
    """The barycentre, then halfway to random doubly stochastic matrices, for both solvers."""
    rng = np.random.default_rng(count)
    x = rng.random((count, n, n))
    for _ in range(50):
        x /= x.sum(-1, keepdims=True)
        x /= x.sum(-2, keepdims=True)
    x[0] = 1 / n
    return (x + 1 / n) / 2


def spaces(n: int, kind: str, count: int | None = None) -> tuple[np.ndarray, ...]:
    """Distances within two clouds in the plane and in space, and masses: equal, or random."""
    rng = np.random.default_rng(n)
    lead = () if count is None else (count,)
    found: list[np.ndarray] = []
    for d in (2, 3):
        x = rng.random((*lead, n, d))
        found.append(np.linalg.norm(x[..., :, None, :] - x[..., None, :, :], axis=-1))
    masses = [
        np.ones((*lead, n)) if kind == "equal" else rng.random((*lead, n)) + 0.2 for _ in range(2)
    ]
    return (*found, *(x / x.sum(-1, keepdims=True) for x in masses))
