"""Capacities: certificates, errors, gradients, warm starts and kinds of arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, to_numpy, x64
from test_capacities import plan_of

import jaxmatch as jm


CAPACITIES = ("row_capacity", "col_capacity", "col_minimum")
solve = jm.solve_capacitated_assignment


def test_errors():
    cost = np.eye(3)
    for method in ("core", "jonker_volgenant", "nonsense"):
        with pytest.raises(ValueError, match="`method` must be one of .*simplex"):
            solve(cost, col_capacity=2, method=method)
    with pytest.raises(ValueError, match="`method` must be one of"):
        jm.solve_assignment(cost, method="network_simplex")
    for name in CAPACITIES:
        for bad in (1.0, np.ones(3), True, jnp.ones(3), "two"):
            with pytest.raises(TypeError, match=f"`{name}` must hold integers"):
                solve(cost, **{name: bad})
        with pytest.raises(ValueError, match=rf"`{name}` has shape \(2,\), which does not broad"):
            solve(cost, **{name: np.array([1, 2])})
    with pytest.raises(TypeError, match="`unmatched_cost` must be an integer"):
        solve(np.eye(3, dtype=np.int32), col_capacity=2, unmatched_cost=0.5)
    res = solve(cost, col_capacity=2)
    with pytest.raises(TypeError, match="`result` must be a CapacitatedAssignment"):
        jm.check_capacitated_assignment(cost, jm.solve_assignment(cost), col_capacity=2)  # pyright: ignore
    with pytest.raises(TypeError, match="`result` must be an Assignment, .*check_capacitated"):
        jm.check_assignment(cost, res)  # pyright: ignore
    with pytest.raises(TypeError, match="`result` must be a Transport"):
        jm.check_capacitated_assignment(cost, res, row_capacity=2)
    with pytest.raises(ValueError, match=r"`result.col_count` must have shape \(3,\)"):
        jm.check_capacitated_assignment(
            cost, res.replace(col_count=np.ones(2, int)), col_capacity=2
        )


# ---------------------------------------------------------------------------------------------
# Certificates


def test_the_check_finds_faults():
    cost = np.array([[1.0, 4.0], [2.0, 6.0], [5.0, 7.0], [4.0, 4.0]], np.float32)
    given = {"col_capacity": np.array([2, 3]), "col_minimum": np.array([0, 1])}
    res = solve(cost, **given)
    check = partial(jm.check_capacitated_assignment, cost, **given)
    assert check(res).optimal and res.col4row.tolist() == [0, 0, 1, 1]

    def other(*col4row: int) -> Any:
        counts = np.bincount(np.array(col4row), minlength=2)[:2]
        return check(res.replace(col4row=np.array(col4row), col_count=counts))

    worse = other(1, 0, 0, 1)
    assert worse.valid and not worse.optimal and 1 <= worse.gap < 1.001  # 15 in place of 14
    assert not other(0, 0, 0, 1).valid  # above the capacity
    assert not other(1, 1, 1, 1).valid
    assert not other(0, 0, 1, 2).valid  # no such column
    assert not check(res.replace(col_count=np.array([1, 3]))).valid
    left = res.replace(col4row=np.array([0, 0, 1, -1]), col_count=np.array([2, 1]))
    assert not check(left).valid  # not all rows
    assert not check(res.replace(col_dual=np.array([np.nan, 0]))).optimal
    assert check(res.replace(col_dual=np.array([-3.0, 0]))).optimal
    wrong = check(res.replace(col_dual=np.array([0.0, 1])))
    assert wrong.valid and wrong.gap > 0
    few = {"col_capacity": 3, "col_minimum": [1, 3]}
    must = solve(cost, **few)
    assert jm.check_capacitated_assignment(cost, must, **few).optimal and (must.col_dual > 0).any()
    assert not jm.check_capacitated_assignment(cost, res, **few).valid  # below the minimum


def test_the_check_of_floats():
    """Costs of many digits: the gap stays within roundings of the duals."""
    rng = np.random.default_rng(4)
    cost = rng.random((6, 40, 7)).astype(np.float32)
    for given in (
        {"col_capacity": 7},
        {"col_capacity": 5, "col_minimum": 3},
        {"col_capacity": 20, "col_minimum": 4},
        {"col_capacity": 6, "col_minimum": 2, "unmatched_cost": np.float32(0.3)},
    ):
        res = solve(cost, **given)
        check = jm.check_capacitated_assignment(cost, res, **given)
        assert check.valid.all() and (check.gap < 1e-5).all() and (res.gap == 0).all()
        wide = (
            cost.astype(np.float64),
            {k: x if k[0] == "c" else float(x) for k, x in given.items()},
        )
        exact = solve(wide[0], **wide[1])
        assert jm.check_capacitated_assignment(wide[0], exact, **wide[1]).gap.max() < 1e-14


# ---------------------------------------------------------------------------------------------
# Gradients, transformations, kinds of arrays


ALL = {
    "plain": {"col_capacity": np.array([2, 1, 3])},
    "too few": {"col_capacity": np.array([2, 1, 1])},
    "least": {"col_capacity": 5, "col_minimum": np.array([1, 3, 0])},
    "rows": {"row_capacity": np.array([1, 2, 0, 3, 1]), "col_capacity": 3, "col_minimum": 1},
}


@pytest.mark.parametrize("name, method", [*zip(ALL, ["auto"] * 4, strict=True), ("least", "xla")])
def test_gradients_against_finite_differences(name, method):
    given = ALL[name]
    rng = np.random.default_rng(5)
    with x64(True):
        cost, tangent = (jnp.asarray(rng.random((5, 3))) for _ in range(2))
        r, of_r = jnp.asarray(rng.random(5)), jnp.asarray(rng.random(5))

        def value(cost: Any, r: Any = None) -> Any:
            return solve(cost, unmatched_cost=r, method=method, **given).cost

        step = 1e-6
        for arguments, tangents in (((cost,), (tangent,)), ((cost, r), (tangent, of_r))):
            moved = [x + step * t for x, t in zip(arguments, tangents, strict=True)]
            expected = (value(*moved) - value(*arguments)) / step
            _, dot = jax.jvp(value, arguments, tangents)
            np.testing.assert_allclose(dot, expected, rtol=1e-6)
            grads = jax.jit(jax.grad(value, range(len(arguments))))(*arguments)
            dots = [(g * t).sum() for g, t in zip(grads, tangents, strict=True)]
            np.testing.assert_allclose(sum(dots), expected, rtol=1e-6)
            plan = plan_of(to_numpy(solve(arguments[0], method=method, **given)), 3)
            if len(arguments) == 1:
                np.testing.assert_array_equal(grads[0], plan)
            else:
                rows = np.broadcast_to(given.get("row_capacity", 1), 5)
                np.testing.assert_array_equal(grads[1], rows - np.asarray(grads[0]).sum(1))


def test_no_gradient_without_an_optimum():
    cost = jnp.ones((2, 4, 2)).at[1].set(jnp.inf)
    least = jnp.array([[5, 0], [0, 0]])

    def value(cost: Any) -> Any:
        res = solve(cost, col_capacity=4, col_minimum=least)
        return jnp.where(res.status == 0, res.cost, 0).sum()

    np.testing.assert_array_equal(jax.grad(value)(cost), 0)


def test_capacities_may_be_traced_and_differ_in_a_batch():
    rng = np.random.default_rng(7)
    cost = rng.random((3, 6, 4)).astype(np.float32)
    capacity, least = rng.integers(1, 5, (3, 4)), rng.integers(0, 2, (3, 4))
    res = jax.jit(lambda c, b, least: solve(c, col_capacity=b, col_minimum=least))(
        cost, capacity, least
    )
    other = solve(cost, col_capacity=capacity, col_minimum=least)
    assert_same_bits(res, other)
    vmapped = jax.vmap(lambda b: solve(cost[0], col_capacity=b))(capacity)
    for k in range(3):
        assert_same_bits(vmapped[k], solve(cost[0], col_capacity=capacity[k]))


@pytest.mark.parametrize("given", ALL.values(), ids=ALL)
def test_warm_starts(given):
    rng = np.random.default_rng(8)
    cost = rng.random((4, 5, 3)).astype(np.float32)
    for more in ({}, {"unmatched_cost": 0.4}, {"maximize": True}):
        res = solve(cost, **given, **more)
        duals = rng.normal(size=(4, 3)).astype(np.float32)
        for start in (res, res.col_dual, np.full_like(duals, np.nan), duals):
            again = solve(cost, warm_start=start, **given, **more)
            np.testing.assert_allclose(again.cost, res.cost, rtol=1e-6)
            assert (again.status == 0).all() and again.cost.dtype == np.float32

    def step(last: Any, cost: Any) -> Any:
        res = solve(cost, col_capacity=2, warm_start=last)
        return res, res.cost

    costs = jax.lax.scan(step, jm.CapacitatedAssignment.empty((5, 3)), jnp.asarray(cost))[1]
    np.testing.assert_allclose(costs, solve(cost, col_capacity=2).cost, rtol=1e-6)


def test_kinds_of_arrays():
    cost = np.random.default_rng(9).random((5, 3))
    for dtype, real in (("float32", "float32"), ("float64", "float64"), ("int32", "float32")):
        given = (cost * 100).astype(dtype)
        for capacity in (2, np.array([2, 2, 2]), np.int64(2)):
            res = solve(given, col_capacity=capacity, col_minimum=np.array([0, 1, 1]))
            for x in jax.tree.leaves(res):
                assert type(x) is np.ndarray
            assert res.cost.dtype == res.row_dual.dtype == real
            assert res.col4row.dtype == res.col_count.dtype == res.status.dtype == np.int32
        res = solve(jnp.asarray(given), row_capacity=np.int64(2))
        assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(res))
        assert res.mass.dtype == np.int32
    wide = np.array([[2**60 // 100, 1], [2**60 // 100 + 1, 3], [5, 7]])
    res = solve(wide, col_capacity=[1, 2])
    assert res.col4row.tolist() == [1, 1, 0] and res.cost == 9
    with x64(True):
        res = jax.jit(lambda c: solve(c, col_capacity=2, col_minimum=1))(jnp.asarray(wide))
        assert res.cost.dtype == np.float64 and res.col_count.dtype == np.int32


# ---------------------------------------------------------------------------------------------
# Clusters


def test_balanced_clusters():
    """Sizes are exact in every step of a compiled k-means, and the sum of squares falls."""
    rng = np.random.default_rng(10)
    k, size = 5, 24
    points = jnp.asarray(rng.normal(size=(k * size, 2)).astype(np.float32))

    def step(centers: Any, _: None) -> Any:
        cost = ((points[:, None] - centers[None]) ** 2).sum(-1)
        res = solve(cost, col_capacity=size)
        onehot = jax.nn.one_hot(res.col4row, k)
        return onehot.T @ points / size, (res.col_count, res.cost, res.status)

    counts, costs, status = jax.jit(lambda c: jax.lax.scan(step, c, length=8)[1])(points[:k])
    assert (status == 0).all() and (counts == size).all()
    assert (np.diff(costs) <= 1e-3).all() and costs[-1] < costs[0]
