"""Two geometric graphs whose vertices correspond, in an order that nothing tells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


RADIUS = 0.2


class Pair(NamedTuple):
    """Vertex i of the first graph is vertex `partner[i]` of the second."""

    first: np.ndarray  # adjacency
    second: np.ndarray
    places: tuple[np.ndarray, np.ndarray]  # of the vertices in the plane
    partner: np.ndarray


def draw_pair(seed: int, n: int, noise: float) -> Pair:
    """Points that are joined if they are near, and the same points after all of them have moved.

    `noise` is the standard deviation of a move in each direction, in units of the mean distance
    between points, 1 / sqrt(n).
    """
    rng = np.random.default_rng(seed)
    before = rng.random((n, 2))
    after = before + noise / np.sqrt(n) * rng.normal(size=(n, 2))
    partner = rng.permutation(n)
    shuffled = np.empty_like(after)
    shuffled[partner] = after
    return Pair(_joined(before), _joined(shuffled), (before, shuffled), partner)


def _joined(places: np.ndarray) -> np.ndarray:
    distance = np.linalg.norm(places[:, None] - places, axis=-1)
    return ((distance < RADIUS) & ~np.eye(len(places), dtype=bool)).astype(np.int64)
