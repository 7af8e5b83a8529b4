"""Families of costs as people have them, and some as textbooks have them: functions of n and seed.

Each returns `float64[n, m]`, to be rounded to the dtype that is measured.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x[:, None] - y) ** 2).sum(-1)


def _on_sphere(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def sphere_to_shape(n: int, seed: int) -> np.ndarray:
    """Points on a sphere against a flat shape, one half of it moved."""
    rng = np.random.default_rng(seed)
    x, y = _on_sphere(rng, n), _on_sphere(rng, n) * [1, 0.3, 0.1]
    y[: n // 2] += [0, 0.5, 0]
    return squared_distances(x, y + rng.normal(size=(n, 3)) * 0.01)


def shifted(n: int, seed: int) -> np.ndarray:
    """Two normal clouds in the plane, one a standard deviation away in each direction."""
    rng = np.random.default_rng(seed)
    return squared_distances(rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + 1)


def clusters(n: int, seed: int) -> np.ndarray:
    """20 clusters in the plane, with other populations on each side."""
    rng = np.random.default_rng(seed)
    centers = rng.random((20, 2))

    def cloud() -> np.ndarray:
        of_point = rng.choice(20, n, p=rng.dirichlet(np.ones(20)))
        return centers[of_point] + rng.normal(size=(n, 2)) * 0.02

    return squared_distances(cloud(), cloud())


def near(n: int, seed: int) -> np.ndarray:
    """A cloud against itself, every point moved a little."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return squared_distances(x, x + rng.normal(size=(n, 3)) * 0.02)


def cube(n: int, seed: int, d: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return squared_distances(rng.random((n, d)), rng.random((n, d)))


def low_rank(n: int, seed: int) -> np.ndarray:
    """Products of features of 64 dimensions."""
    rng = np.random.default_rng(seed)
    return -(rng.normal(size=(n, 64)) @ rng.normal(size=(64, n)))


def uniform(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((n, n))


def integers(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, n // 10 + 1, (n, n)).astype(np.float64)


def wide(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((n, 2 * n))


FAMILIES: dict[str, Callable[[int, int], np.ndarray]] = {
    "sphere to shape": sphere_to_shape,
    "shifted clouds": shifted,
    "20 clusters": clusters,
    "near": near,
    "cube 3-D": cube,
    "cube 8-D": lambda n, seed: cube(n, seed, 8),
    "features of rank 64": low_rank,
    "uniform": uniform,
    "integers to n/10": integers,
    "uniform, m = 2n": wide,
}
