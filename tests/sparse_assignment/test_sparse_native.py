"""The CPU engine for sparse costs against dense problems: every option, and its certificate."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64

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


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("kind", ["full", "partial", "maximum weight", "maximum"])
def test_small_problems(kind, dtype):
    random = np.random.default_rng(len(kind + dtype))
    with x64(True):
        for _ in range(25):
            n, m = random.integers(1, 9, 2)
            graph, cost, dense = sparse(random, n, m, random.choice([0.3, 0.6, 1.0]))
            given: dict[str, Any] = {}
            price = np.full(n, np.inf)
            if kind == "partial":
                price = random.integers(-4, 5, n).astype(float)
            if kind == "maximum weight":
                cost, dense, price, given = -cost, -dense, np.zeros(n), {"maximize": True}
            reference = {} if kind in ("full", "maximum") else {"unmatched_cost": price}
            if kind == "maximum":
                given, reference = {"cardinality": "maximum"}, {"unmatched_cost": 1e5}
            elif reference:
                given["unmatched_cost"] = jnp.asarray(price)
            res, edge, _ = solve(graph, cost.astype(jnp.dtype(dtype)), **given)
            dense_given = reference | {k: x for k, x in given.items() if k == "maximize"}
            expected = jm.solve_assignment(dense, **dense_given)
            assert int(res.status) == int(expected.status)
            if int(res.status) != jm.Status.OPTIMAL:
                continue
            assert res.gap == 0
            left = int((np.asarray(res.col4row) < 0).sum())
            if kind == "maximum":
                assert n - left == int(jm.maximum_bipartite_matching(graph).cardinality)
                assert float(res.cost) == float(expected.cost) - 1e5 * left
                continue
            assert float(res.cost) == float(expected.cost)
            if kind == "full" and n > m:
                price = np.zeros(n)
            sign = -1 if given.get("maximize") else 1
            signed = jm.Assignment(
                *(res.col4row, res.row4col, sign * res.cost, sign * res.row_dual),
                *(sign * res.col_dual, res.gap, res.status),
            )
            staying = price[np.asarray(res.col4row) < 0].sum() if kind == "partial" else 0
            assert np.isfinite(staying)
            assert_proved(graph, sign * cost, signed, edge, sign * price)


def test_columns_that_pay_to_stay():
    random = np.random.default_rng(3)
    with x64(True):
        for _ in range(100):
            n, m = random.integers(1, 7, 2)
            graph, cost, dense = sparse(random, n, m, 0.7)
            rows, cols = random.integers(-4, 5, n).astype(float), random.integers(-4, 5, m) * 1.0
            must = random.random(m) < 0.2
            cols[must] = np.inf
            res, _, _ = solve(
                graph, cost, unmatched_cost=jnp.asarray(rows), unmatched_col_cost=jnp.asarray(cols)
            )
            # A square problem: rows and copies of columns against columns and copies of rows.
            never = np.inf
            stays = np.where(np.eye(n, dtype=bool), rows[:, None], never)
            empty = np.where(np.eye(m, dtype=bool), cols, never)
            square = np.block([[dense, stays], [empty, np.where(np.isfinite(dense.T), 0, never)]])
            expected = jm.solve_assignment(square)
            assert int(res.status) == int(expected.status)
            if int(res.status) == jm.Status.OPTIMAL:
                assert float(res.cost) == float(expected.cost)


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


def test_masks_and_invalid_costs():
    random = np.random.default_rng(5)
    for _ in range(40):
        graph, cost, dense = sparse(random, 7, 6, 0.8)
        masks = {"row_mask": random.random(7) < 0.8, "col_mask": random.random(6) < 0.8}
        outside = ~(masks["row_mask"][:, None] & masks["col_mask"])
        rows, cols = np.nonzero(np.isfinite(dense))
        cost = np.where(outside[rows, cols], np.nan, cost).astype(np.float32)
        res, _, _ = solve(graph, cost, **{k: jnp.asarray(x) for k, x in masks.items()})
        expected = jm.solve_assignment(dense.astype(np.float32), **masks)
        assert int(res.status) == int(expected.status)
        np.testing.assert_array_equal(res.cost, expected.cost)
    for wrong in (np.nan, -np.inf):
        bad = np.nan_to_num(cost)
        bad[3] = wrong
        assert int(solve(graph, bad)[0].status) == jm.Status.INVALID_COST


def test_batches_share_a_graph():
    random = np.random.default_rng(6)
    graph, cost, _ = sparse(random, 6, 8, 0.6)
    costs = cost + random.random((5, len(cost)))
    together, edges, _ = solve(graph, costs.astype(np.float32))
    for k in range(5):
        res, edge, _ = solve(graph, costs[k].astype(np.float32))
        np.testing.assert_array_equal(together.cost[k], res.cost)
        np.testing.assert_array_equal(edges[k], edge)


@pytest.mark.parametrize("at, value", [(0, 1), (2, 99), (-1, 10**6), (3, -1)])
def test_graphs_that_make_no_sense(at, value):
    graph, cost, _ = sparse(np.random.default_rng(7), 6, 8, 0.6)
    wrong = np.asarray(graph.row_ptr).copy()
    wrong[at] = value
    bad = jm.BipartiteGraph(
        jnp.asarray(wrong), *(graph.col_ind, graph.col_ptr, graph.row_ind), 6, 8
    )
    res, _, _ = solve(bad, cost.astype(np.float32))
    assert int(res.status) == jm.Status.INVALID_GRAPH
    assert (np.asarray(res.col4row) == -1).all()
