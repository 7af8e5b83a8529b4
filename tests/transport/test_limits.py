"""Transport of matrices with a limit for each pair."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import to_numpy, x64
from scipy.optimize import linprog

import jaxmatch as jm
from jaxmatch import Status


KINDS = ("all", "partial", "unmatched")


def truth(cost, supply, demand, limit, sign, partial=None, unmatched_cost=None):
    """The optimum by HiGHS; None if there is no plan."""
    (n, m), there = cost.shape, np.isfinite(cost)
    c = sign * np.where(there, cost, 0).astype(float)
    bounds = [(0, x) for x in np.where(there, limit, 0).ravel()]
    sums = np.concatenate([np.repeat(np.eye(n), m, 1), np.tile(np.eye(m), n)])
    masses, constant = np.concatenate([supply, demand]), 0.0
    if unmatched_cost is not None:
        c = c - sign * unmatched_cost[:, None]
        constant = float((unmatched_cost * supply).sum())
    if partial is not None or unmatched_cost is not None:
        how = {"A_ub": sums, "b_ub": masses}
        how |= {} if partial is None else {"A_eq": np.ones((1, n * m)), "b_eq": [partial]}
    else:
        how = {"A_eq": sums, "b_eq": masses}
    found = linprog(c.ravel(), bounds=bounds, **how)
    assert found.status in (0, 2)
    return sign * found.fun + constant if found.status == 0 else None


def drawn(rng, n, m, kind, dtype, sign):
    """Not all problems have a plan. Masses are small integers."""
    plan = rng.integers(0, 4, (n, m))
    limit = np.maximum(plan + rng.integers(-(rng.random() < 0.5), 3, (n, m)), 0)
    cost = rng.integers(-20, 20, (n, m)).astype(dtype)
    if np.issubdtype(cost.dtype, np.floating):
        cost[(rng.random((n, m)) < 0.2) & (plan == 0)] = sign * np.inf
    how = {}
    if kind == "partial":
        how["partial"] = int(rng.integers(0, plan.sum() + 1))
    elif kind == "unmatched":
        how["unmatched_cost"] = rng.integers(-5, 20, n).astype(dtype)
    return cost, plan.sum(1), plan.sum(0), limit, how


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_optimum(dtype, kind, sign):
    rng, solved = np.random.default_rng(len(kind)), 0
    for k in range(24):
        n, m = rng.integers(1, 7, 2)
        cost, supply, demand, limit, how = drawn(rng, n, m, kind, dtype, sign)
        masks = {}
        if k % 3 == 2:
            masks = {"row_mask": rng.random(n) < 0.8, "col_mask": rng.random(m) < 0.8}
            if kind == "all":
                masks["row_mask"][:] = masks["col_mask"][:] = True
        rows, cols = (masks.get(x, True) for x in ("row_mask", "col_mask"))
        there = np.broadcast_to(rows, n)[:, None] & np.broadcast_to(cols, m)
        least = truth(cost, supply * rows, demand * cols, limit * there, sign, **how)
        for given in (cost, jnp.asarray(cost)) if dtype.endswith("32") else (cost,):
            options = {"limit": limit, "maximize": sign < 0, **how, **masks}
            res = jm.solve_transport(given, supply, demand, **options)
            proof = jm.check_transport(given, supply, demand, res, **options)
            assert isinstance(res.cost, type(given))
            assert proof.valid == proof.optimal == (least is not None)
            assert res.mass.shape == (n * m,)
            if least is None:
                assert res.status == Status.INFEASIBLE
                assert (np.asarray(res.rows) == -1).all() and np.isnan(res.cost)
                continue
            solved += 1
            assert res.status == Status.OPTIMAL and abs(res.cost - least) < 1e-6
            plan = np.asarray(res.todense())
            assert (plan <= limit).all() and not plan[~there].any()
            used = np.asarray(res.rows) >= 0
            assert (used == (np.asarray(res.mass) > 0)).all() and (
                np.diff(used.astype(int)) <= 0
            ).all()
            if kind == "all":
                assert (plan.sum(1) == supply).all() and (plan.sum(0) == demand).all()
    assert solved >= 8


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_batches_and_programs(method):
    rng = np.random.default_rng(1)
    plan = rng.integers(0, 4, (6, 3, 4))
    cost = rng.integers(0, 50, (6, 3, 4)).astype(np.float32)
    limit = plan + rng.integers(0, 2, plan.shape)
    supply, demand = plan.sum(-1), plan.sum(-2)

    def solve(c, s, d, x):
        return jm.solve_transport(c, s, d, limit=x, method=method)

    given = [jnp.asarray(x) for x in (cost, supply, demand, limit)]
    results = solve(*given), jax.jit(solve)(*given), jax.vmap(solve)(*given)
    results += (
        (jax.jit(jax.vmap(solve, (0, 0, 0, None)))(*given[:3], 4),) if method == "auto" else ()
    )
    for res, of in zip(results, (limit, limit, limit, np.full_like(limit, 4)), strict=False):
        check = jm.check_transport(*given[:3], res, limit=of)
        assert check.optimal.all()
        traced = jax.jit(lambda r, x: jm.check_transport(*given[:3], r, limit=x))(res, of)
        assert traced.optimal.all()
        for k in range(6):
            least = truth(cost[k], supply[k], demand[k], of[k], 1)
            assert res.cost[k] == pytest.approx(least)
            assert (np.asarray(res[k].todense()) <= of[k]).all()
    one = jm.solve_transport(cost[0], supply, demand, limit=limit)  # shares a matrix
    assert one.batch_shape == (6,)


def test_a_limit_that_does_not_bind_changes_nothing():
    rng = np.random.default_rng(2)
    plan, cost = rng.integers(0, 9, (7, 5)), rng.random((7, 5))
    supply, demand = plan.sum(1), plan.sum(0)
    free = jm.solve_transport(cost, supply, demand)
    for limit in (10**6, 2**31 - 1, 2**40, np.full((7, 5), 2**63 - 1)):
        res = jm.solve_transport(cost, supply, demand, limit=limit)
        assert res.cost == pytest.approx(free.cost)
        assert (res.todense() == free.todense()).all()
    real = jm.solve_transport(cost, supply * 0.5, demand * 0.5, limit=np.inf)
    assert real.cost == pytest.approx(free.cost / 2)
    assert (free.rows >= -1).all() and free.rows.shape == (11,)


def test_wrong_plans():
    cost, two = np.array([[0.0, 1.0], [1.0, 3.0]]), np.array([2, 2])
    res = jm.solve_transport(cost, two, two, limit=1)
    check = lambda r, **how: jm.check_transport(cost, two, two, r, **how)  # noqa: E731
    assert check(res, limit=1).optimal and res.cost == 5
    free = jm.solve_transport(cost, two, two)
    assert free.cost == 4 and not check(free, limit=1).valid and check(free, limit=2).optimal
    dear = res.replace(rows=np.array([0, 1, -1, -1]), cols=np.array([0, 1, -1, -1]))
    dear = dear.replace(mass=np.array([2, 2, 0, 0]))
    other = check(dear, limit=2)
    assert other.valid and not other.optimal and other.gap >= 2
    assert not check(res.replace(mass=res.mass[::-1] * 0), limit=1).valid
    assert not check(res.replace(rows=res.rows * 0, cols=res.cols * 0), limit=1).valid
    moved = res.replace(col_dual=res.col_dual + np.array([5, 0]))
    assert not check(moved, limit=2).optimal


def test_statuses():
    cost, two = np.zeros((2, 2)), np.array([2, 2])
    for limit, masses, status in [
        (0, two, Status.INFEASIBLE),
        (-1, two, Status.INVALID_CAPACITY),
        (np.nan, two * 1.0, Status.INVALID_CAPACITY),
        (2, np.array([2, 3]), Status.UNBALANCED),
        (2, np.array([-1, 5]), Status.INVALID_MASS),
    ]:
        res = jm.solve_transport(cost, two.astype(masses.dtype), masses, limit=limit)
        assert res.status == status
        assert not jm.check_transport(
            cost, two.astype(masses.dtype), masses, res, limit=limit
        ).valid
        assert (res.gap == 1) == (status == Status.UNBALANCED)
    res = jm.solve_transport(np.full((2, 2), np.nan), two, two, limit=2)
    assert res.status == Status.INVALID_COST
    # A masked pair may have any numbers.
    cost = np.array([[1.0, np.nan], [2.0, -np.inf]])
    mask, limit = np.array([True, False]), np.array([[2.0, np.nan], [1.0, -1.0]])
    res = jm.solve_transport(cost, [2.0, 1.0], [3.0, np.nan], limit=limit, col_mask=mask)
    assert res.status == Status.OPTIMAL and res.cost == 4
    lowest = np.full((1, 1), np.iinfo(np.int32).min, np.int32)
    res = jm.solve_transport(lowest, [1], [1], limit=1, maximize=True)
    assert res.status == Status.OVERFLOW


@pytest.mark.parametrize("wide", [False, True])
def test_gradients(wide):
    """By differences: in a nondegenerate problem a small change changes the basis nowhere."""
    with x64(wide):
        rng = np.random.default_rng(3)
        cost = rng.random((3, 4))
        supply, demand = np.array([2.0, 1.9, 2.1]), np.array([1.6, 1.5, 1.4, 1.5])
        limit, price = np.full((3, 4), 0.77), rng.random(3)
        given = [jnp.asarray(x) for x in (cost, supply, demand, limit, price)]

        def value(c, s, d, x, r):
            return jm.solve_transport(c, s, d, limit=x, unmatched_cost=r).cost

        found = jax.jit(jax.grad(value, range(5)))(*given)
        base, step = truth(cost, supply, demand, limit, 1, unmatched_cost=price), 1e-4
        for place, (x, slope) in enumerate(
            zip((cost, supply, demand, limit, price), found, strict=True)
        ):
            for k in np.ndindex(x.shape):
                changed = [y.copy() for y in (cost, supply, demand, limit, price)]
                changed[place][k] += step
                c, s, d, lim, r = changed
                rise = truth(c, s, d, lim, 1, unmatched_cost=r) - base
                assert rise / step == pytest.approx(float(slope[k]), abs=1e-3)


def test_gradients_as_without_limits():
    rng = np.random.default_rng(6)
    plan, cost = rng.random((4, 5)).astype(np.float32), rng.random((4, 5)).astype(np.float32)
    given = [jnp.asarray(x) for x in (cost, plan.sum(1), plan.sum(0))]
    slopes = [
        jax.grad(lambda *x: jm.solve_transport(*x, limit=limit).cost, range(3))(*given)  # noqa: B023
        for limit in (None, 1e6)
    ]
    for one, other in zip(*slopes, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_warm_starts():
    rng = np.random.default_rng(4)
    plan, last = rng.integers(0, 4, (5, 6)), jm.Transport.empty((5, 6))
    for dtype in (np.float32, np.int32):
        for _ in range(5):
            cost = rng.integers(0, 40, (5, 6)).astype(dtype)
            given = cost, plan.sum(1), plan.sum(0)
            cold = jm.solve_transport(*given, limit=3)
            warm = jm.solve_transport(*given, limit=3, warm_start=to_numpy(last))
            assert warm.status == cold.status
            assert (warm.cost == cold.cost) | (cold.status != Status.OPTIMAL)
            last = cold


def test_errors():
    cost, two = np.zeros((2, 2)), np.array([2, 2])
    with pytest.raises(ValueError, match=r"`limit` has shape \(3,\)"):
        jm.solve_transport(cost, two, two, limit=[1, 2, 3])
    with pytest.raises(TypeError, match="`limit` must be an integer"):
        jm.solve_transport(cost, two, two, limit=0.5)
    for n, m in ((0, 3), (3, 0), (0, 0)):
        nothing = np.zeros((n, m)), np.zeros(n), np.zeros(m)
        res = jm.solve_transport(*nothing, limit=1.0)
        assert res.status == Status.OPTIMAL and res.cost == 0 and res.todense().shape == (n, m)
        assert jm.check_transport(*nothing, res, limit=1.0).optimal
