"""Transport problems as people have them: costs of `assignment/families.py`, and weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.assignment.families import FAMILIES, in_a_plane, squared_distances


class Problem(NamedTuple):
    """A problem or a batch of them; costs in float64, masses in float64 or int32."""

    cost: np.ndarray
    supply: np.ndarray
    demand: np.ndarray


class Clusters(NamedTuple):
    """A step of balanced k-means: so many rows to each column, and the costs one step before."""

    cost: np.ndarray
    before: np.ndarray
    least: int
    most: int


COSTS: dict[str, Callable[[int, int], np.ndarray]] = {
    "plane": lambda n, seed: squared_distances(*in_a_plane(n, seed)),
    **{k: FAMILIES[k] for k in ("sphere to shape", "shifted clouds", "20 clusters", "cube 3-D")},
    "features": FAMILIES["features of rank 64"],
    "uniform": FAMILIES["uniform"],
}
FEW = ["sphere to shape", "20 clusters", "uniform"]
WEIGHTS = ["Dirichlet", "histogram", "integers"]
MOST_MASS = 10**6


def _masses(rng: np.random.Generator, kind: str, size: int) -> np.ndarray:
    if kind == "Dirichlet":
        return rng.dirichlet(np.ones(size))
    if kind == "histogram":  # about half of the bins are empty
        counts = rng.poisson(rng.gamma(0.5, 8.0, size)) * (rng.random(size) < 0.67)
        counts[0] += 1
        return counts / counts.sum()
    return rng.integers(0, MOST_MASS + 1, size)


def with_weights(cost: np.ndarray, kind: str, seed: int) -> Problem:
    rng = np.random.default_rng(1_000_000 + seed)
    supply, demand = (_masses(rng, kind, size) for size in cost.shape)
    if kind == "integers":
        less, more = sorted((supply, demand), key=np.sum)
        gap = int(more.sum() - less.sum())
        less += rng.multinomial(gap, np.full(len(less), 1 / len(less)))
        supply, demand = supply.astype(np.int32), demand.astype(np.int32)
    return Problem(np.ascontiguousarray(cost), supply, demand)


@cache
def problem(name: str, weights: str, n: int, seed: int = 0) -> Problem:
    return with_weights(COSTS[name](n, seed), weights, seed)


@cache
def rectangle(n: int, m: int, weights: str) -> Problem:
    rng = np.random.default_rng(0)
    return with_weights(squared_distances(rng.random((n, 2)), rng.random((m, 2))), weights, 0)


@cache
def clusters(n: int, k: int, dimensions: int, slack: float) -> Clusters:
    """Blobs of very different weight; centres start at points and move by one plain step."""
    rng = np.random.default_rng(dimensions)
    weights = 0.9 ** np.arange(k)
    blob = rng.choice(k, n, p=weights / weights.sum())
    x = 2 * rng.normal(size=(k, dimensions))[blob] + rng.normal(size=(n, dimensions))
    centers = x[rng.choice(n, k, replace=False)]
    before = squared_distances(x, centers)
    near = before.argmin(1)
    moved = np.stack([x[near == j].mean(0) for j in range(k)])  # a centre is in its own cluster
    least, most = int((1 - slack) * n / k), int(np.ceil((1 + slack) * n / k))
    return Clusters(squared_distances(x, moved), before, least, most)


def as_transport(given: Clusters) -> Problem:
    """The same problem for solvers without bounds: each column in two parts, of which the dummy row
    may fill only the second. (What the least sizes leave is more than the dummy row has.)"""
    n, m = given.cost.shape
    parts = [given.least, given.most - given.least]
    empty = given.most * m - n
    forbidden = 2.0 * given.cost.max()  # an exchange with a row that is elsewhere costs less
    cost = np.vstack([np.repeat(given.cost, 2, 1), np.tile([forbidden, 0.0], m)])
    supply, demand = np.append(np.ones(n), empty), np.tile(np.asarray(parts, np.float64), m)
    return without_empty(Problem(cost, supply, demand))


def without_empty(given: Problem) -> Problem:
    """Only rows and columns with mass."""
    rows, cols = given.supply > 0, given.demand > 0
    cost = np.ascontiguousarray(given.cost[rows][:, cols])
    return Problem(cost, given.supply[rows], given.demand[cols])


def as_integers(
    given: Problem, most: int = 10**8
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """Costs and masses as `i64`, for solvers that take nothing else; and what a unit of their value
    is worth."""
    per_cost = most / np.abs(given.cost).max()
    supply, demand = given.supply, given.demand
    per_mass = 1.0
    if not np.issubdtype(supply.dtype, np.integer):
        whole = bool((supply == np.rint(supply)).all() and (demand == np.rint(demand)).all())
        per_mass = 1.0 if whole else 1e9 / supply.sum()
        supply, demand = np.rint(supply * per_mass), np.rint(demand * per_mass)
    supply, demand = supply.astype(np.int64), demand.astype(np.int64)
    demand[demand.argmax()] += supply.sum() - demand.sum()
    return np.rint(given.cost * per_cost).astype(np.int64), supply, demand, per_cost * per_mass
