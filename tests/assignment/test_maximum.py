"""The cheapest of the assignments with most pairs: `cardinality="maximum"`."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import to_numpy, x64
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

import jaxmatch as jm
from jaxmatch import Status


solve = partial(jm.solve_assignment, cardinality="maximum")
check = partial(jm.check_assignment, cardinality="maximum")


def truth(cost, sign=1):
    """The number of pairs, and the least cost of so many: a forbidden pair costs more than all."""
    exists = np.isfinite(cost)
    count = (maximum_bipartite_matching(csr_array(exists)) >= 0).sum()
    most = 1 + 4 * np.abs(cost[exists]).sum() if exists.any() else 1.0
    whole = np.where(exists, sign * cost.astype(float), most)
    pairs = linear_sum_assignment(whole)
    chosen = exists[pairs]
    assert chosen.sum() == count
    return count, sign * whole[pairs][chosen].sum()


def drawn(seed, shape, dtype="float32", sign=1, share=0.85, count=6):
    rng = np.random.default_rng(seed)
    cost = rng.integers(-50, 50, (count, *shape)).astype(dtype)
    if np.issubdtype(cost.dtype, np.floating):
        cost[rng.random(cost.shape) < share] = sign * np.inf
    return cost


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(7, 10), (12, 8)])
def test_most_pairs_and_least_cost(shape, dtype, sign, method):
    with x64(dtype.endswith("64")):
        cost, how = drawn(len(dtype), shape, dtype, sign), {"maximize": sign < 0}
        counts = set()
        for given in (cost, jnp.asarray(cost)):
            res = solve(given, method=method, **how)
            proof = check(given, res, **how)
            assert np.asarray(proof.valid).all() and np.asarray(proof.optimal).all()
            assert isinstance(res.cost, type(given))
            res = to_numpy(res)
            for k, one in enumerate(cost):
                count, least = truth(one, sign)
                counts.add(int(count))
                assert res.status[k] == Status.OPTIMAL
                assert (res.col4row[k] >= 0).sum() == count and res.cost[k] == least
        assert len(counts) > 1 or dtype.startswith("int")


def test_masks_and_batches():
    cost, rng = drawn(3, (9, 9), share=0.7), np.random.default_rng(3)
    row_mask, col_mask = rng.random((2, 6, 9)) < 0.7
    masks = {"row_mask": row_mask, "col_mask": col_mask}
    res = to_numpy(
        jax.vmap(lambda c, r, s: solve(c, row_mask=r, col_mask=s))(cost, *masks.values())
    )
    assert check(cost, res, **masks).optimal.all()
    for k, one in enumerate(cost):
        count, least = truth(one[row_mask[k]][:, col_mask[k]])
        assert (res.col4row[k] >= 0).sum() == count and res.cost[k] == least


def test_a_great_cost_hides_nothing():
    """All assignments pay 1e17 for a column that has no other pair."""
    rng = np.random.default_rng(5)
    for _ in range(10):
        cost = rng.random((6, 5))
        cost[:, 2] = 1e17
        cost[3:, 3:] = np.inf
        cost[:4, :2] = np.inf
        res = solve(cost)
        free = np.delete(cost, 2, 1)
        others = [truth(np.delete(free, row, 0)) for row in range(6)]
        rest = min(least for count, least in others if count == 4)
        chosen = [cost[i, j] for i, j in enumerate(res.col4row) if j not in (-1, 2)]
        assert (res.col4row >= 0).sum() == 5 and np.isclose(sum(chosen), rest, rtol=1e-12)


@pytest.mark.parametrize("spec", [("a", None, None), (None, "a", "b"), ("a", None, "b")])
def test_sharded_over_a_mesh(spec):
    """By the axes of a mesh whose types are explicit: batches, and rows and columns of each."""
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    cost = drawn(7, (8, 8), count=4)
    expected = solve(cost)
    with jax.set_mesh(mesh):
        x = jax.device_put(cost, jax.NamedSharding(mesh, jax.P(*spec)))
        for function in (solve, jax.jit(solve)):
            res = function(x)
            np.testing.assert_array_equal(res.cost, expected.cost)
            assert np.asarray(check(x, res).optimal).all()


def test_nothing_is_allowed_or_there():
    res = solve(np.full((2, 3), np.inf, np.float32))
    assert res.status == Status.OPTIMAL and res.cost == 0 and (res.col4row == -1).all()
    for shape in ((0, 3), (3, 0), (2, 0, 4)):
        res = solve(np.zeros(shape, np.float32))
        assert (res.status == Status.OPTIMAL).all() and (res.cost == 0).all()


def test_fewer_or_dearer_pairs_are_not_optimal():
    cost = np.array([[1.0, np.inf, 3.0], [2.0, np.inf, np.inf]], np.float32)
    res = solve(cost)
    assert res.col4row.tolist() == [2, 0] and res.cost == 5
    fewer = res.replace(
        col4row=np.array([0, -1], np.int32), row4col=np.array([0, -1, -1], np.int32)
    )
    proof = check(cost, fewer)
    assert proof.valid and not proof.optimal
    full = jm.solve_assignment(cost[:, [0, 2]])
    assert full.status == Status.OPTIMAL and full.cost == res.cost


def test_an_invalid_cost_proves_nothing():
    """Also between a row and a column that a cover contains both."""
    cost = np.array([[1, 1, 1], [1, np.inf, np.inf], [1, np.inf, np.inf]], np.float32)
    res = solve(cost)
    assert check(cost, res).optimal
    bad = cost.copy()
    bad[0, 0] = np.nan
    assert solve(bad).status == Status.INVALID_COST and not check(bad, res).optimal
    graph = jm.BipartiteGraph.from_dense(np.ones((3, 3)))
    options = {"cardinality": "maximum"}
    proof = jm.check_sparse_assignment(graph, bad.ravel(), res, **options)
    assert not proof.optimal
    assert jm.check_sparse_assignment(graph, cost.ravel(), res, **options).optimal


def test_the_gradient_is_of_the_pairs():
    cost = jnp.array([[1.0, jnp.inf], [2.0, jnp.inf]])
    gradient = jax.grad(lambda c: solve(c).cost)(cost)
    np.testing.assert_array_equal(gradient, [[1, 0], [0, 0]])


@pytest.mark.parametrize(
    "how, words",
    [
        ({"cardinality": "most"}, ["`cardinality`", "'most'"]),
        ({"unmatched_cost": 1.0}, ["`unmatched_cost`", "maximum"]),
        ({"unmatched_col_cost": 1.0}, ["`unmatched_col_cost`", "maximum"]),
        ({"time_limit": 1.0}, ["`time_limit`", "maximum"]),
        ({"row_axis": "x"}, ["`row_axis`", "maximum"]),
        ({"method": "core"}, ["`method`", "'core'"]),
    ],
)
def test_options_that_exclude_each_other(how, words):
    with pytest.raises(ValueError) as error:
        solve(np.eye(3, dtype=np.float32), **how)
    assert all(word in str(error.value) for word in words)
