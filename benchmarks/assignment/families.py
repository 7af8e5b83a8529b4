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


Points = tuple[np.ndarray, np.ndarray]
Family = Callable[[int, int], np.ndarray]


def sphere_and_shape(n: int, seed: int) -> Points:
    """Points on a sphere against a flat shape, one half of it moved."""
    rng = np.random.default_rng(seed)
    x, y = _on_sphere(rng, n), _on_sphere(rng, n) * [1, 0.3, 0.1]
    y[: n // 2] += [0, 0.5, 0]
    return x, y + rng.normal(size=(n, 3)) * 0.01


def shifted(n: int, seed: int) -> np.ndarray:
    """Two normal clouds in the plane, one a standard deviation away in each direction."""
    rng = np.random.default_rng(seed)
    return squared_distances(rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + 1)


def two_clusterings(n: int, seed: int, count: int = 20, spread: float = 0.02) -> Points:
    """`count` clusters in the plane, with other populations on each side."""
    rng = np.random.default_rng(seed)
    centers = rng.random((count, 2))

    def cloud() -> np.ndarray:
        of_point = rng.choice(count, n, p=rng.dirichlet(np.ones(count)))
        return centers[of_point] + rng.normal(size=(n, 2)) * spread

    return cloud(), cloud()


def in_a_plane(n: int, seed: int) -> Points:
    rng = np.random.default_rng(seed)
    return rng.random((n, 2)), rng.random((n, 2))


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


def few_too_many(n: int, seed: int) -> np.ndarray:
    """Ten clusters, five of which have three rows more than columns, and five three fewer."""
    rows = np.repeat(np.arange(10), [n // 10 + 3] * 5 + [n // 10 - 3] * 5)
    apart = np.abs(rows[:, None] - np.repeat(np.arange(10), n // 10))
    return 100.0 * apart + np.random.default_rng(seed).random((n, n))


def few_zeros(n: int, seed: int) -> np.ndarray:
    """About three zeros in each row, else ones."""
    return (np.random.default_rng(seed).random((n, n)) > 3 / n).astype(np.float64)


def classes(n: int, seed: int) -> np.ndarray:
    """Eight classes of rows and of columns."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 50, (8, 8))
    return table[rng.integers(0, 8, n)][:, rng.integers(0, 8, n)].astype(np.float64)


def outer_product(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.outer(rng.integers(0, 99, n), rng.integers(0, 99, n)).astype(np.float64)


POINTS: dict[str, Callable[[int, int], Points]] = {
    "sphere to shape": sphere_and_shape,
    "20 clusters": two_clusterings,
    "uniform in the plane": in_a_plane,
}
# On these the candidates of `"core"` lead nowhere.
MISLEADING: dict[str, Family] = {
    "clusters, few rows too many": few_too_many,
    "three zeros a row": few_zeros,
    "eight classes": classes,
    "outer product": outer_product,
}
FAMILIES: dict[str, Family] = {
    "sphere to shape": lambda n, seed: squared_distances(*sphere_and_shape(n, seed)),
    "shifted clouds": shifted,
    "20 clusters": lambda n, seed: squared_distances(*two_clusterings(n, seed)),
    "near": near,
    "cube 3-D": cube,
    "cube 8-D": lambda n, seed: cube(n, seed, 8),
    "features of rank 64": low_rank,
    "uniform": uniform,
    "integers to n/10": integers,
    "uniform, m = 2n": wide,
}
