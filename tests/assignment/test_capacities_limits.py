"""Assignments with capacities whose pairs may be used only so often."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64
from scipy.optimize import linprog

import jaxmatch as jm
from jaxmatch import Status


def truth(cost, limit, rows, cols, least=None, of_row=None, of_col=None, sign=1):
    """The optimum by HiGHS; None if there is no assignment."""
    (n, m), there = cost.shape, np.isfinite(cost)
    c = sign * np.where(there, cost, 0).astype(float)
    bounds = [(0, x) for x in np.where(there, limit, 0).ravel()]
    sums = np.concatenate([np.repeat(np.eye(n), m, 1), np.tile(np.eye(m), n)])
    least = np.zeros(m) if least is None else least
    how = {"A_ub": np.concatenate([sums, -sums[n:]])}
    how["b_ub"] = np.concatenate([rows, cols, -least])
    constant = 0.0
    if of_row is None:
        how |= {"A_eq": np.ones((1, n * m)), "b_eq": [min(rows.sum(), cols.sum())]}
    else:
        of_col = np.zeros(m) if of_col is None else of_col
        c = c - sign * (of_row[:, None] + of_col)
        constant = float((of_row * rows).sum() + (of_col * cols).sum())
    found = linprog(c.ravel(), bounds=bounds, **how)
    assert found.status in (0, 2)
    return sign * found.fun + constant if found.status == 0 else None


def drawn(rng, dtype, sign, alone):
    """A problem with some options, and its truth."""
    n, m = rng.integers(1, 7, 2)
    cost = rng.integers(-20, 20, (n, m)).astype(dtype)
    if np.issubdtype(cost.dtype, np.floating):
        cost[rng.random((n, m)) < 0.1] = sign * np.inf
    rows = np.ones(n, int) if alone else rng.integers(0, 4, n)
    cols, limit = rng.integers(0, 5, m), rng.integers(0, 2 if alone else 3, (n, m))
    how = {"col_capacity": cols, "limit": limit, "maximize": sign < 0}
    how |= {} if alone else {"row_capacity": rows}
    least = of_row = of_col = None
    if rng.random() < 0.4:
        least = how["col_minimum"] = rng.integers(0, 2, m)
    if rng.random() < 0.6:
        of_row = how["unmatched_cost"] = rng.integers(-5, 20, n).astype(dtype)
        if rng.random() < 0.6:
            of_col = how["unmatched_col_cost"] = rng.integers(-5, 20, m).astype(dtype)
    row_mask, col_mask = np.ones(n, bool), np.ones(m, bool)
    if rng.random() < 0.3:
        row_mask, col_mask = rng.random(n) < 0.8, rng.random(m) < 0.8
        how |= {"row_mask": row_mask, "col_mask": col_mask}
    there = row_mask[:, None] & col_mask
    least = None if least is None else least * col_mask
    given = (cost, limit * there, rows * row_mask, cols * col_mask, least, of_row, of_col)
    return cost, how, truth(*given, sign=sign)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_optimum(dtype, sign, alone):
    rng, solved = np.random.default_rng(7), 0
    for k in range(40):
        cost, how, least = drawn(rng, dtype, sign, alone)
        given = jnp.asarray(cost) if k % 2 and dtype.endswith("32") else cost
        res = jm.solve_capacitated_assignment(given, **how)
        check = jm.check_capacitated_assignment(given, res, **how)
        assert isinstance(res, jm.CapacitatedAssignment if alone else jm.Transport)
        assert isinstance(res.cost, type(given))
        assert check.valid == check.optimal == (least is not None)
        if least is None:
            assert res.status == Status.INFEASIBLE
            continue
        solved += 1
        assert res.status == Status.OPTIMAL and res.cost == pytest.approx(least)
        if alone:
            pairs = np.flatnonzero(np.asarray(res.col4row) >= 0)
            assert how["limit"][pairs, np.asarray(res.col4row)[pairs]].all()
            count = np.bincount(np.asarray(res.col4row)[pairs], minlength=cost.shape[1])
            assert (count == np.asarray(res.col_count)).all()
        else:
            assert (np.asarray(res.todense()) <= how["limit"]).all()
            assert res.rows.shape == (cost.size,)
    assert solved >= 8


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_programs(method):
    """Different reviewers of each paper, in batches, in programs, and with a gradient."""
    rng = np.random.default_rng(0)
    score = jnp.asarray(rng.integers(0, 99, (4, 6, 5)), jnp.float32)

    def solve(c):
        how = {"row_capacity": 3, "col_capacity": 4, "col_minimum": 2, "limit": 1}
        return jm.solve_capacitated_assignment(c, maximize=True, method=method, **how)

    results = [solve(score), jax.jit(solve)(score), jax.vmap(solve)(score)]
    slopes = jax.grad(lambda c: solve(c).cost.sum())(score)
    rows, cols = np.full(6, 3), np.full(5, 4)
    best = [truth(x, 1, rows, cols, np.full(5, 2), sign=-1) for x in np.asarray(score)]
    for res in results:
        assert (res.cost == jnp.asarray(best)).all()
        plan = res.todense()
        assert (
            (plan <= 1).all()
            and (plan.sum(-1) == 3).all()
            and (plan.astype(slopes.dtype) == slopes).all()
        )
        how = {"row_capacity": 3, "col_capacity": 4, "col_minimum": 2, "maximize": True}
        assert jm.check_capacitated_assignment(score, res, limit=1, **how).optimal.all()
        check = jax.jit(lambda c, r: jm.check_capacitated_assignment(c, r, limit=1, **how))  # noqa: B023
        assert check(score, res).optimal.all()
        assert not jm.check_capacitated_assignment(score, res, limit=0, **how).valid.any()


def test_wrong_results():
    cost = np.array([[1.0, 4.0, 2.0], [3.0, 1.0, 9.0]])
    how = {"row_capacity": 2, "col_capacity": 2}
    res, free = (jm.solve_capacitated_assignment(cost, **how, **x) for x in ({"limit": 1}, {}))
    assert res.cost == 7 and free.cost == 4
    check = jm.check_capacitated_assignment
    assert check(cost, res, **how, limit=1).optimal
    assert not check(cost, free, **how, limit=1).valid and check(cost, free, **how, limit=2).optimal
    other = check(cost, res, **how, limit=2)
    assert other.valid and not other.optimal and other.gap >= 3
    less = res.replace(mass=np.where(np.arange(6) == 3, 0, res.mass))
    assert not check(cost, less, **how, limit=1).valid


def test_statuses_and_errors():
    cost = np.zeros((2, 2))
    how = {"row_capacity": 2, "col_capacity": 2}
    for limit, status in [
        (0, Status.INFEASIBLE),
        (-1, Status.INVALID_CAPACITY),
        (1, Status.OPTIMAL),
    ]:
        assert jm.solve_capacitated_assignment(cost, limit=limit, **how).status == status
    # A side that pays nothing may have any capacity.
    most = {"row_capacity": 1, "col_capacity": 2**31 - 1}
    res = jm.solve_capacitated_assignment(cost, limit=1, **most)
    assert res.status == Status.OPTIMAL
    assert jm.check_capacitated_assignment(cost, res, limit=1, **most).optimal
    res = jm.solve_capacitated_assignment(cost, limit=1, unmatched_cost=1.0, row_capacity=2**30)
    assert res.status == Status.OVERFLOW
    with pytest.raises(TypeError, match="`limit` must hold integers"):
        jm.solve_capacitated_assignment(cost, limit=0.5, **how)
    with pytest.raises(ValueError, match="`limit` has shape"):
        jm.solve_capacitated_assignment(cost, limit=[1, 2, 3], **how)


def test_duals_beyond_float32():
    """Integer costs have duals in floats; what these lose is a rounding, not a gap."""
    rng = np.random.default_rng(5)
    cost = rng.integers(-(2**28), 2**28, (6, 7)).astype(np.int32)
    how = {"row_capacity": 3, "col_capacity": 3, "limit": 1}
    res = jm.solve_capacitated_assignment(cost, **how)
    assert jm.check_capacitated_assignment(cost, res, **how).optimal
    few = jnp.asarray(cost // 16)  # so that the total fits into int32
    res = jm.solve_capacitated_assignment(few, **how)
    assert jm.check_capacitated_assignment(few, res, **how).optimal
    with x64(True):
        exact = jm.solve_capacitated_assignment(cost, **how)
        assert exact.cost == truth(cost, 1, np.full(6, 3), np.full(7, 3))
        assert jm.check_capacitated_assignment(cost, exact, **how).gap == 0
