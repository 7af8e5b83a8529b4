"""`cardinality="maximum"`: no cost of a missing pair hides what the costs differ in."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import combinations, permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import to_numpy, x64
from scipy.optimize import linear_sum_assignment
from sparse_helpers import METHODS

import jaxmatch as jm


solve = partial(jm.solve_sparse_assignment, cardinality="maximum")
check = partial(jm.check_sparse_assignment, cardinality="maximum")


def cheapest(cost):
    """The most pairs of a small matrix, and the least exact sum of so many finite costs."""
    n, m = cost.shape
    exact = [[Fraction(float(x)) if np.isfinite(x) else None for x in row] for row in cost]
    for count in range(min(n, m), 0, -1):
        sums = [
            sum(exact[i][j] for i, j in zip(rows, cols, strict=True))
            for rows in combinations(range(n), count)
            for cols in permutations(range(m), count)
            if all(exact[i][j] is not None for i, j in zip(rows, cols, strict=True))
        ]
        if sums:
            return count, min(sums)
    return 0, Fraction(0)


def total(cost, res):
    rows = np.flatnonzero(res.col4row >= 0)
    return sum((Fraction(float(cost[i, res.col4row[i]])) for i in rows), Fraction(0))


def test_a_great_cost_hides_nothing():
    """A column of 1e17, which all assignments pay; scipy and units of 1e17/2^50 lose the rest."""
    rng = np.random.default_rng(0)
    graph = jm.BipartiteGraph.from_dense(np.ones((4, 4)))
    for _ in range(20):
        cost = rng.random((4, 4))
        cost[:, rng.integers(4)] = 1e17
        res = solve(graph, cost.ravel())
        assert res.status == jm.Status.OPTIMAL and total(cost, res) == cheapest(cost)[1]


@pytest.mark.parametrize("method", METHODS)
def test_costs_of_any_size(method):
    """Pairs are as many as can be; what they cost beyond the optimum is within the bounds given."""
    rng = np.random.default_rng(1)
    counts = set()
    with x64(True):
        graph = jm.BipartiteGraph.from_dense(np.ones((4, 5)))
        found = jax.jit(lambda c: solve(graph, c, method=method))
        cost = np.sign(rng.normal(size=(40, 4, 5))) * 10.0 ** rng.integers(-12, 13, (40, 4, 5))
        cost *= 1 + rng.random(cost.shape)
        cost[rng.random(cost.shape) < 0.75] = np.inf
        flat = jnp.asarray(cost.reshape(40, -1))
        res = found(flat)
        proof = to_numpy(check(graph, flat, res))
        res = to_numpy(res)
        for k, one in enumerate(cost):
            count, least = cheapest(one)
            own = jax.tree.map(lambda x: x[k], res)  # noqa: B023
            counts.add(count)
            assert own.status == jm.Status.OPTIMAL and (own.col4row >= 0).sum() == count
            beyond = total(one, own) - least
            assert proof.valid[k] and proof.optimal[k] and beyond <= Fraction(float(own.gap))
            assert beyond <= Fraction(float(proof.gap[k]))
    assert len(counts) >= 3


def test_a_dearer_matching_of_a_large_problem_in_float32():
    """Duals do not grow with the number of rows, so that float32 proves the optimum."""
    rng = np.random.default_rng(2)
    n = 1000
    cost = rng.random((n, n), np.float32)
    cost[rng.random((n, n)) > 0.02] = np.inf
    cost[:, :5] = np.inf  # columns that stay
    rows, cols = np.nonzero(np.isfinite(cost))
    graph = jm.BipartiteGraph.from_edges(rows, cols, (n, n))
    own = jnp.asarray(cost[rows, cols])
    res = solve(graph, own)
    proof = check(graph, own, res)
    assert proof.optimal and proof.gap < 1e-3 and abs(res.row_dual).max() < 10
    pairs = np.where(np.isfinite(cost), cost, 1e4)
    i, j = linear_sum_assignment(pairs)
    assert np.isclose(float(res.cost), pairs[i, j][pairs[i, j] < 1e4].sum(), rtol=1e-5)
    # One row takes its second best free partner instead, or none.
    col4row = np.asarray(res.col4row).copy()
    both = [(a, b) for a in range(n) for b in range(a) if min(col4row[a], col4row[b]) >= 0
            and np.isfinite(cost[a, col4row[b]] + cost[b, col4row[a]])][:20]  # fmt: skip
    assert both
    for a, b in both:
        other = col4row.copy()
        other[[a, b]] = other[[b, a]]
        dearer = res.replace(col4row=jnp.asarray(other), row4col=jnp.asarray(inverse(other, n)))
        assert check(graph, own, dearer).valid and not check(graph, own, dearer).optimal
    fewer = np.where(np.arange(n) == np.flatnonzero(col4row >= 0)[0], -1, col4row)
    one = res.replace(col4row=jnp.asarray(fewer), row4col=jnp.asarray(inverse(fewer, n)))
    assert check(graph, own, one).valid and not check(graph, own, one).optimal
    assert check(graph, own, one).gap == np.inf


def inverse(col4row, m):
    row4col = np.full(m, -1, np.int32)
    rows = np.flatnonzero(col4row >= 0)
    row4col[col4row[rows]] = rows
    return row4col


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("maximize", [False, True])
def test_forbidden_edges_and_masks_of_a_batch(maximize):
    """Each problem allows other edges of one graph; eager, compiled and mapped agree."""
    rng = np.random.default_rng(3)
    rows, cols = np.nonzero(rng.random((30, 40)) < 0.08)
    graph = jm.BipartiteGraph.from_edges(rows, cols, (30, 40))
    cost = rng.integers(-50, 50, (6, len(rows))).astype(np.float32)
    cost[1:][rng.random((5, len(rows))) < 0.3] = -np.inf if maximize else np.inf
    masks = {"row_mask": rng.random((6, 30)) < 0.9, "col_mask": rng.random((6, 40)) < 0.9}
    one = partial(solve, graph, maximize=maximize)
    results = [
        one(cost, **masks),
        one(jnp.asarray(cost), **masks),
        jax.jit(one)(cost, **masks),
        jax.vmap(lambda c, r, s: one(c, row_mask=r, col_mask=s))(cost, *masks.values()),
    ]
    for res in results:
        proof = check(graph, cost, to_numpy(res), maximize=maximize, **masks)
        assert proof.optimal.all() and (proof.gap == 0).all()
        np.testing.assert_array_equal(res.cost, results[0].cost)
    cost[2, 0] = np.nan
    status = np.asarray(one(cost).status)
    assert status[2] == jm.Status.INVALID_COST and (np.delete(status, 2) == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_long_alternating_path(method):
    """Row i has columns i and i + 1, so that one free row reaches all, one after the other."""
    n = 3000 if method == "auto" else 60
    rows = np.r_[np.arange(n), np.arange(n - 1), n]
    cols = np.r_[np.arange(n), np.arange(1, n), n - 1]
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(
        rows, cols, np.arange(2 * n, dtype=np.float32), (n + 1, n + 1)
    )
    for given in (cost, jnp.asarray(cost)):
        res = solve(graph, given, method=method)
        assert int((res.col4row >= 0).sum()) == n
        proof = check(graph, given, res)
        assert proof.valid and proof.optimal


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_over_several_devices(method):
    rng = np.random.default_rng(4)
    rows, cols = np.nonzero(rng.random((9, 9)) < 0.2)
    graph = jm.BipartiteGraph.from_edges(rows, cols, (9, 9))
    cost = rng.integers(0, 99, (8, len(rows))).astype(np.float32)
    expected = solve(graph, cost).cost
    mesh = jax.make_mesh((4,), ("a",))
    x = jax.device_put(cost, jax.NamedSharding(mesh, jax.P("a", None)))
    res = jax.jit(partial(solve, graph, method=method))(x)
    np.testing.assert_array_equal(res.cost, expected)
    assert check(graph, x, res).optimal.all()


def test_mapped_within_a_shard_map():
    """Problems of a device, mapped there: no branch may vary otherwise than the other."""
    rng = np.random.default_rng(5)
    graph = jm.BipartiteGraph.from_dense(np.ones((6, 6)))
    cost = rng.integers(0, 99, (4, 3, 36)).astype(np.float32)
    cost[rng.random(cost.shape) < 0.7] = np.inf
    mesh = jax.make_mesh((4,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))

    def of_graph(c):
        return solve(graph, c).cost

    def of_matrix(c):
        return jm.solve_assignment(c.reshape(6, 6), cardinality="maximum").cost

    for one in (of_graph, of_matrix):
        each = jax.vmap(jax.vmap(one))
        sharded = jax.shard_map(each, mesh=mesh, in_specs=jax.P("a"), out_specs=jax.P("a"))
        np.testing.assert_array_equal(jax.jit(sharded)(cost), each(cost))
