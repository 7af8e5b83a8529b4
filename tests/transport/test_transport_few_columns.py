"""Many rows and few columns, which the CPU library solves by paths between columns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

import jaxmatch as jm
from jaxmatch import Status
from jaxmatch._transport.native import counted
from jaxmatch._transport.problem import TransportProblem


COSTS = {
    "plane": lambda rng, n, m: ((rng.random((n, 1, 2)) - rng.random((1, m, 2))) ** 2).sum(-1),
    "features": lambda rng, n, m: rng.normal(size=(n, 8)) @ rng.normal(size=(8, m)),
    "ties": lambda rng, n, m: rng.integers(0, 3, (n, m)).astype(np.float64),
    "constant": lambda rng, n, m: np.full((n, m), -2.5),
    "equal rows": lambda rng, n, m: np.tile(rng.random(m), (n, 1)),
    "equal columns": lambda rng, n, m: np.tile(rng.random((n, 1)), (1, m)),
    "wide range": lambda rng, n, m: (
        rng.choice([-1, 1], (n, m)) * 10.0 ** rng.uniform(-9, 4, (n, m))
    ),
}
SHAPES = [(64, 2), (200, 6), (320, 10), (700, 17), (33, 1)]


def linear_program(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> float | None:
    """The optimum, None if forbidden pairs leave no plan."""
    n, m = cost.shape
    allowed = np.isfinite(cost).ravel()
    i, j = (x.ravel()[allowed] for x in np.indices((n, m)))
    k = np.arange(len(i))
    one = np.ones(2 * len(i))
    sums = coo_array((one, (np.concatenate([i, n + j]), np.concatenate([k, k]))), (n + m, len(i)))
    found = linprog(
        cost.ravel()[allowed], A_eq=sums.tocsr(), b_eq=np.concatenate([a, b]), method="highs"
    )
    return float(found.fun) if found.success else None


def weights(rng: np.random.Generator, kind: str, size: int) -> np.ndarray:
    if kind == "dirichlet":
        return rng.dirichlet(np.ones(size))
    if kind == "zeros":
        x = rng.random(size) * (rng.random(size) < 0.6) + (np.arange(size) == 0)
        return x / x.sum()
    heavy = np.where(np.arange(size) == size // 2, 1000.0, rng.random(size))
    return heavy / heavy.sum()


def check(
    res: jm.Transport, cost: np.ndarray, a: Any, b: Any, best: float, *, maximize: bool = False
) -> None:
    assert res.status == Status.OPTIMAL
    at = np.asarray(res.rows) >= 0
    rows, cols, mass = (np.asarray(x)[at] for x in (res.rows, res.cols, res.mass))
    scale = (np.abs(cost[rows, cols]) * mass).sum()
    assert abs(float(res.cost) - best) <= 1e-9 * scale
    np.testing.assert_allclose(np.bincount(rows, mass, len(a)), a, atol=1e-12 * np.sum(a))
    np.testing.assert_allclose(np.bincount(cols, mass, len(b)), b, atol=1e-12 * np.sum(b))
    proof = jm.check_transport(cost, a, b, res, maximize=maximize)
    assert proof.valid
    assert proof.gap <= 1e-11 * scale


@pytest.mark.parametrize("kind", ["dirichlet", "zeros", "heavy"])
@pytest.mark.parametrize("family", COSTS)
def test_equals_a_linear_program(family: str, kind: str) -> None:
    rng = np.random.default_rng(len(family))
    # The linear programs take the time: each family has the largest shape with one kind.
    shapes = [x for x in SHAPES if x != (700, 17) or kind == "dirichlet"]
    with jax.enable_x64(True):
        for n, m in shapes:
            cost, a, b = COSTS[family](rng, n, m), weights(rng, kind, n), weights(rng, kind, m)
            best = linear_program(cost, a, b)
            assert best is not None
            check(jm.solve_transport(cost, a, b), cost, a, b, best)
            turned = jm.solve_transport(cost.T, b, a)
            check(turned, cost.T, b, a, best)
            largest = jm.solve_transport(-cost, a, b, maximize=True)
            check(largest, -cost, a, b, -best, maximize=True)


def test_integer_masses_and_a_warm_start() -> None:
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        for n, m in SHAPES:
            cost = COSTS["plane"](rng, n, m)
            a, b = rng.integers(0, 10**6, n), rng.multinomial(10**6, np.ones(m) / m)
            a[-1] += max(0, b.sum() - a.sum())
            b[0] += a.sum() - b.sum()
            best = linear_program(cost, a, b)
            assert best is not None
            cold = jm.solve_transport(cost, a, b)
            check(cold, cost, a, b, best)
            for start in (cold, rng.normal(size=m), np.full(m, 1e30)):
                check(jm.solve_transport(cost, a, b, warm_start=start), cost, a, b, best)


def test_forbidden_pairs() -> None:
    rng = np.random.default_rng(2)
    seen = set()
    with jax.enable_x64(True):
        for _ in range(20):
            n, m = 130, 4
            cost = np.where(rng.random((n, m)) < rng.choice([0.3, 0.6]), np.inf, rng.random((n, m)))
            a, b = weights(rng, "dirichlet", n), rng.dirichlet(np.ones(m))
            cost[np.isinf(cost).all(1), 1] = 1
            best = linear_program(cost, a, b)
            res = jm.solve_transport(cost, a, b)
            seen.add(best is None)
            if best is None:
                assert res.status == Status.INFEASIBLE
            else:
                check(res, cost, a, b, best)
        cost = np.ones((64, 2))
        cost[5] = np.inf
        a = np.full(64, 1 / 64)
        assert jm.solve_transport(cost, a, np.array([0.5, 0.5])).status == Status.INFEASIBLE
    assert seen == {False, True}


def _problem(n: int, m: int, seed: int) -> TransportProblem:
    rng = np.random.default_rng(seed)
    cost = COSTS["plane"](rng, n, m)
    masses = weights(rng, "dirichlet", n), weights(rng, "dirichlet", m)
    supply, demand = map(jnp.asarray, masses)
    return TransportProblem(jnp.asarray(cost), supply, demand, None, None, None, None)


@pytest.mark.parametrize("n", [2000, 6000])
def test_paths_are_few_and_leave_no_pivots(n: int) -> None:
    """An auction takes more bids than there are rows, and leaves hundreds of pivots."""
    with jax.enable_x64(True):
        _, counts = counted(_problem(n, 40, n), maximize=False, platform="cpu")
    paths, pivots = map(int, counts)
    assert paths < n / 2
    assert pivots <= 5


def check_against_duals(res: jm.CapacitatedAssignment, cost: np.ndarray) -> None:
    """Every row sits in its best column at the prices of columns."""
    reduced = cost - np.asarray(res.col_dual)
    own = np.take_along_axis(reduced, np.asarray(res.col4row)[:, None], 1)[:, 0]
    np.testing.assert_allclose(own, reduced.min(1), atol=1e-4)


def test_balanced_clusters() -> None:
    """Steps of balanced k-means: dummies hold much of the mass."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, 3))
    centers = x[:20]
    bounds: dict[str, Any] = {"col_capacity": 210, "col_minimum": 190}
    start = None
    for _ in range(4):
        cost = ((x[:, None] - centers) ** 2).sum(-1).astype(np.float32)
        cold = jm.solve_capacitated_assignment(cost, **bounds)
        warm = jm.solve_capacitated_assignment(cost, warm_start=start, **bounds)
        for res in (cold, warm):
            assert res.status == Status.OPTIMAL
            assert ((190 <= res.col_count) & (res.col_count <= 210)).all()
        np.testing.assert_allclose(cold.cost, warm.cost, rtol=1e-6)
        check_against_duals(cold, cost)
        start = cold
        labels = np.asarray(cold.col4row)
        centers = np.stack([x[labels == j].mean(0) for j in range(20)])
