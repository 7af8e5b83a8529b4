"""The CPU engine for sparse costs: what it counts on larger problems, and warm starts."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmatch as jm
from jaxmatch._sparse_assignment.native import sparse_assignment


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the CPU library")


def solve(graph: Any, cost: np.ndarray, **given: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    options = {"maximize": False, "cardinality": "full"} | given
    res, edge, counts = sparse_assignment(graph, jnp.asarray(cost), platform="cpu", **options)
    return res, np.asarray(edge), np.asarray(counts)


def sparse(random: Any, n: int, m: int, density: float, low: int = -5, high: int = 6) -> Any:
    """Edges, their costs and the dense matrix with +inf elsewhere."""
    has = random.random((n, m)) < density
    dense = np.where(has, random.integers(low, high, (n, m)), np.inf)
    rows, cols = np.nonzero(has)
    return jm.BipartiteGraph.from_edges(rows, cols, shape=(n, m)), dense[rows, cols], dense


def assert_proved(graph: Any, cost: np.ndarray, res: Any, edge: np.ndarray, row_price: Any) -> None:
    """Exact: the duals are feasible, and add up to the cost."""
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.row_ptr))
    cols = np.asarray(graph.col_ind)
    u, v = (np.asarray(x, np.float64) for x in (res.row_dual, res.col_dual))
    assert (u[rows] + v[cols] <= cost).all()
    assert (u <= row_price).all()
    assert u.sum() + v.sum() == float(res.cost)
    col4row = np.asarray(res.col4row)
    matched = col4row >= 0
    assert (edge[matched] >= 0).all() and (edge[~matched] == -1).all()
    assert (rows[edge[matched]] == np.flatnonzero(matched)).all()
    assert (cols[edge[matched]] == col4row[matched]).all()
    assert (np.asarray(res.row4col)[col4row[matched]] == np.flatnonzero(matched)).all()


@pytest.mark.parametrize("cardinality", ["full", "maximum"])
def test_larger_square_problems(cardinality):
    """Large enough for several scales of the auction, and for searches after it."""
    random = np.random.default_rng(4)
    for high in (3, 1000):
        density = 0.03 if cardinality == "full" else 0.012
        graph, cost, dense = sparse(random, 300, 300, density, 0, high)
        res, _, counts = solve(graph, cost.astype(np.int32), cardinality=cardinality)
        if cardinality == "full":
            expected = jm.solve_assignment(dense.astype(np.float32))
            assert int(res.status) == int(expected.status)
        else:
            expected = jm.solve_assignment(dense.astype(np.float32), unmatched_cost=1e4)
            left = (np.asarray(res.col4row) < 0).sum()
            assert float(res.cost) == float(expected.cost) - 1e4 * left
            assert left > 0
        assert counts[1] > 0


def test_warm_starts():
    """From its own duals an auction has little left to do; from any others the optimum is the
    same."""
    random = np.random.default_rng(8)
    graph, cost, _ = sparse(random, 300, 300, 0.03, 0, 1000)
    cost = cost.astype(np.int32)
    cold, _, bids = solve(graph, cost)
    assert cold.status == jm.Status.OPTIMAL
    warm, _, fewer = solve(graph, cost, col_dual=cold.col_dual)
    assert warm.cost == cold.cost and fewer[0] < bids[0] / 2
    for duals in (random.normal(size=300) * 1e3, np.full(300, np.nan), np.full(300, 1e30)):
        res, edge, _ = solve(graph, cost, col_dual=jnp.asarray(duals, cold.col_dual.dtype))
        assert res.cost == cold.cost
        assert_proved(graph, cost, res, edge, np.inf)
