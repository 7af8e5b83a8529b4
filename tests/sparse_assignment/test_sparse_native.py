"""The CPU engine for sparse costs: what it counts, warm starts, graphs that are matrices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import numpy_dtype, x64
from oracles import scipy_optimum
from scipy.optimize import linear_sum_assignment
from scipy.spatial import KDTree

import jaxmatch as jm
from jaxmatch._sparse_assignment.native import sparse_assignment


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the CPU library")


def solve(graph: Any, cost: np.ndarray, **given: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    options = {"maximize": False} | given
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
    assert_pairs_are_edges(graph, res, edge)


def assert_pairs_are_edges(graph: Any, res: Any, edge: np.ndarray) -> None:
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.row_ptr))
    cols, col4row = np.asarray(graph.col_ind), np.asarray(res.col4row)
    matched = col4row >= 0
    assert (edge[matched] >= 0).all() and (edge[~matched] == -1).all()
    assert (rows[edge[matched]] == np.flatnonzero(matched)).all()
    assert (cols[edge[matched]] == col4row[matched]).all()
    assert (np.asarray(res.row4col)[col4row[matched]] == np.flatnonzero(matched)).all()


def test_larger_square_problems():
    """Large enough for several scales of the auction, and for searches after it."""
    random = np.random.default_rng(4)
    for high in (3, 1000):
        graph, cost, dense = sparse(random, 300, 300, 0.03, 0, high)
        res, _, counts = solve(graph, cost.astype(np.int32))
        assert (res.status, float(res.cost)) == (jm.Status.OPTIMAL, scipy_optimum(dense))
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


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape, density", [((30, 30), 1), ((20, 31), 0.8), ((31, 20), 0.6)])
def test_graphs_of_nearly_all_pairs_are_solved_as_matrices(shape, density, dtype):
    """That solver counts neither bids nor searches; edges are still places in `col_ind`."""
    random = np.random.default_rng(9)
    graph, cost, dense = sparse(random, *shape, density, -5, 60)
    rows, cols = random.random(shape[0]) < 0.9, random.random(shape[1]) < 0.9
    with x64(dtype.endswith("64")):
        for given in ({}, {"maximize": True}, {"row_mask": rows, "col_mask": cols},
                      {"unmatched_cost": np.full(shape[0], 3, np.float32)}):  # fmt: skip
            sign = -1 if "maximize" in given else 1
            res, edge, counts = solve(graph, cost.astype(numpy_dtype(dtype)), **given)
            expected = scipy_optimum(np.where(np.isinf(dense), sign * np.inf, dense), **given)
            assert (res.status, counts.tolist()) == (0, [0, 0])
            assert expected is not None and float(res.cost) == expected
            assert_pairs_are_edges(graph, res, edge)
            if not {"maximize", "row_mask"} & given.keys():
                assert_proved(graph, cost, res, edge, given.get("unmatched_cost", np.inf))


def test_graphs_whose_costs_lie_far_apart_are_not():
    """The solver of matrices has one unit for all costs."""
    random = np.random.default_rng(10)
    cost = np.where(random.random((6, 6)) < 0.3, 1e18, random.random((6, 6)))
    np.fill_diagonal(cost, random.random(6))
    graph = jm.BipartiteGraph.from_dense(np.ones((6, 6)))
    with x64(True):
        res, _, counts = solve(graph, cost.ravel())
    assert counts.any() and 0 <= float(res.gap) < 1e-12


@pytest.mark.parametrize("escape", [1.0, 100.0])
def test_scales_are_carried_to_their_end(escape):
    """Neighbours in the plane, and an edge of each row that costs far more. Scales that ended with
    some rows free left 208 and 215 rows to searches, which took nearly all of the time."""
    random = np.random.default_rng(11)
    n = 4000
    x, y = random.random((2, n, 2))
    distance, cols = KDTree(y).query(x, 10)
    rows = np.concatenate([np.repeat(np.arange(n), 10), np.arange(n)])
    cost = np.concatenate([np.asarray(distance).ravel() ** 2, np.full(n, escape)])
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(
        rows, np.concatenate([np.ravel(cols), np.arange(n)]), cost, (n, n)
    )
    with x64(True):
        res, _, (_, searches) = solve(graph, cost)
    assert res.status == jm.Status.OPTIMAL and 0 <= float(res.gap) < 1e-12 * float(res.cost)
    assert searches < n / 100


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_costs_of_unmatched_rows(dtype):
    """The solver of matrices would read them as something else."""
    graph = jm.BipartiteGraph.from_dense(np.ones((2, 2)))
    price = jnp.asarray([0.5, 3], dtype)
    for of_costs in (np.float32, np.int32):
        res, _, _ = solve(graph, np.array([5, 1, 2, 7], of_costs), unmatched_cost=price)
        assert res.cost == 2.5


def test_long_integers_in_matrices_stay_exact():
    """Beside missing pairs, which would make them floats, and as costs of unmatched rows."""
    for seed in range(8):
        random = np.random.default_rng(seed)
        has, rough = random.random((60, 60)) < 0.7, random.integers(-(2**52), 2**52, (2, 60))
        np.fill_diagonal(has, True)
        cost = rough[0][:, None] + rough[1] + random.integers(0, 100, (60, 60))
        cost = np.clip(cost, -(2**53), 2**53)
        rows, cols = np.nonzero(has)
        graph = jm.BipartiteGraph.from_edges(rows, cols, (60, 60))
        with x64(True):
            res, _, _ = solve(graph, cost[rows, cols])
        own = np.asarray(res.col4row)
        low = np.where(has, cost - rough[0][:, None] - rough[1], 10**6)  # the same optimum
        best = low[linear_sum_assignment(low)].sum()
        assert res.gap == 0 and low[np.arange(60), own].sum() == best
    graph = jm.BipartiteGraph.from_edges([0, 1], [0, 0], (2, 2))
    with x64(True):
        price = np.array([2**54 + 1, 2**54 + 2])
        res, _, _ = solve(graph, np.zeros(2, np.int64), unmatched_cost=jnp.asarray(price))
    assert res.col4row.tolist() == [-1, 0] and float(res.gap) == 0


def test_large_duals_of_a_warm_start_in_wide_units():
    """They ended in a search that did not."""
    random = np.random.default_rng(0)
    n = 40
    rows = np.append(np.repeat(np.arange(n), 6), np.arange(n))
    cols = np.append(random.integers(0, n, 6 * n), random.permutation(n))
    cost = random.choice([-1.0, 1.0], len(rows))
    tiny = random.random(len(rows)) < 0.5
    cost[tiny] = (2 * random.integers(0, 50, tiny.sum()) + 1) * 2.0**-112
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(rows, cols, cost, (n, n))
    with x64(True):
        cold, _, _ = solve(graph, cost)
        for start in (32768.0, 32769.0, 98310.0):
            warm, _, _ = solve(graph, cost, col_dual=jnp.full(n, start))
            assert warm.cost == cold.cost and warm.status == jm.Status.OPTIMAL


def test_many_rows_that_need_a_higher_tier():
    """Bids whose steps follow the lower tier took seconds for these."""
    random = np.random.default_rng(12)
    n = 3000
    rows = np.concatenate([np.repeat(np.arange(n), 6), np.repeat(np.arange(n), 6), np.arange(n)])
    cols = np.concatenate([random.integers(0, n // 2, 6 * n), random.integers(0, n, 6 * n),
                           random.permutation(n)])  # fmt: skip
    cost = np.concatenate([random.random(6 * n), 1e6 * (1 + random.random(7 * n))])
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(rows, cols, cost, (n, n))
    with x64(True):
        res, _, (bids, searches) = solve(graph, cost)
        assert jm.check_sparse_assignment(graph, cost, res).optimal
    assert bids < 100 * n and searches < n


def test_gaps_count_the_unit_to_which_costs_were_rounded():
    """The only costs above 0 that are left are wholes, so the solver takes 1 for its unit."""
    rows = np.repeat(np.arange(6), 2)
    cols = np.stack([np.arange(6), (np.arange(6) + 1) % 6], 1).ravel()
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(
        rows, cols, np.tile([1.0, -1.0, 1e-60], 4), (6, 6)
    )
    with x64(True):
        res, _, _ = solve(graph, cost)
        check = jm.check_sparse_assignment(graph, cost, res)
    assert check.valid and 0 <= float(res.gap) < 1e-12
