"""Rows and columns that may stay unmatched, each at a cost: `unmatched_col_cost`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import to_numpy, x64
from scipy.optimize import linear_sum_assignment, linprog

import jaxmatch as jm
from jaxmatch import Status


def truth(cost: Any, of_row: Any, of_col: Any, sign: int) -> float | None:
    """By a matrix with one more column for each row, and one more row for each column."""
    (n, m), huge = cost.shape, 2.0**40
    whole = np.zeros((n + m, n + m))
    whole[:n, :m] = sign * cost.astype(float)
    whole[:n, m:] = sign * of_row.astype(float)[:, None]
    whole[n:, :m] = sign * of_col.astype(float)
    whole = np.where(np.isfinite(whole), whole, huge)
    total = whole[linear_sum_assignment(whole)].sum()
    return None if total > huge / 2 else sign * total


def drawn(seed: int, dtype: str, count: int = 8) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    n, m = [(3, 5), (5, 4)][seed % 2]
    cost, of_row, of_col = (
        rng.integers(-9, 10, (count, *shape)).astype(dtype) for shape in ((n, m), (n,), (m,))
    )
    return cost, of_row // 2, of_col // 2


def forbid(seed: int, sign: int, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        np.where(rng.random(x.shape) < share, sign * np.inf, x).astype(x.dtype)
        for x, share in zip(arrays, (0.4, 0.2, 0.2), strict=True)
    )


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_assignment(dtype, sign, method):
    statuses = set()
    for seed in range(2):
        given = drawn(seed, dtype, 24)
        given = forbid(seed, sign, *given) if "float" in dtype else given
        cost, of_row, of_col = given
        how: Any = {"unmatched_cost": of_row, "unmatched_col_cost": of_col, "maximize": sign < 0}
        with x64(dtype.endswith("64")):
            res = jm.solve_assignment(cost, method=method, **how)
            check = jm.check_assignment(cost, res, **how)
            assert isinstance(res.cost, np.ndarray)
            traced = jax.jit(lambda c, res, how=how: jm.check_assignment(c, res, **how))(cost, res)
        for k in range(len(cost)):
            best = truth(cost[k], of_row[k], of_col[k], sign)
            statuses.add(int(res.status[k]))
            if best is None:
                assert res.status[k] == Status.INFEASIBLE and (res.col4row[k] == -1).all()
                assert not check.valid[k] and not traced.valid[k]
                continue
            assert res.status[k] == Status.OPTIMAL and res.cost[k] == best and res.gap[k] == 0
            assert check.optimal[k] and check.gap[k] == 0 and traced.optimal[k]
    assert statuses == ({0, 1} if "float" in dtype else {0})


@pytest.mark.parametrize("shape", [(30, 300), (100, 100), (300, 30), (5, 200)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_solved_is_proved(dtype, shape):
    """With costs that duals have to round, and many columns that stay."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        cost, of_col = rng.random(shape).astype(dtype), 0.3 * rng.random(shape[1]).astype(dtype)
        how = {"unmatched_cost": 0.3, "unmatched_col_cost": of_col}
        with x64(dtype == "float64"):
            res = jm.solve_assignment(cost, **how)
            assert jm.check_assignment(cost, res, **how).optimal
            given = jnp.asarray(cost), to_numpy(res)
            check = jax.jit(lambda c, r, how=how: jm.check_assignment(c, r, **how))(*given)
            # In a trace, the grid of transport is coarser than float64 with 100 rows and columns.
            assert check.optimal or (dtype == "float64" and check.gap < 1e-13)


def test_integers_need_a_gap_of_zero():
    cost = np.array([[2**56 + 3, 2**56 + 1], [2**56 + 1, 2**56 + 7]])
    how = {"unmatched_cost": 2**57, "unmatched_col_cost": 2**57}
    with x64(True):
        res = jm.solve_assignment(cost, **how)
        assert res.col4row.tolist() == [1, 0]
        order = np.arange(2, dtype=np.int32)
        worse = res.replace(col4row=order, row4col=order)
        assert not jm.check_assignment(cost, worse, **how).optimal


def test_masks_and_batches():
    cost, of_row, of_col = drawn(3, "float32", 12)
    rng = np.random.default_rng(0)
    rows, cols = rng.random(of_row.shape) < 0.7, rng.random(of_col.shape) < 0.7
    beneath = np.where(rows[:, :, None] & cols[:, None, :], cost, np.nan)
    how = {"row_mask": rows, "col_mask": cols, "unmatched_col_cost": np.where(cols, of_col, np.nan)}
    how["unmatched_cost"] = np.where(rows, of_row, np.nan)

    @jax.jit
    @jax.vmap
    def solve(cost, how):
        return jm.solve_assignment(cost, **how)

    one = to_numpy(jm.solve_assignment(beneath.astype("f4"), **how))
    for res in (one, to_numpy(solve(beneath.astype("f4"), how))):
        for k in range(len(cost)):
            own = cost[k][rows[k]][:, cols[k]]
            assert res.cost[k] == truth(own, of_row[k][rows[k]], of_col[k][cols[k]], 1)
            assert (res.col4row[k][~rows[k]] == -1).all()
        assert jm.check_assignment(beneath.astype("f4"), res, **how).optimal.all()


def test_calls_of_one_shape_see_their_own_numbers():
    for seed in range(9):
        rng = np.random.default_rng(seed)
        cost, of_row, of_col = (rng.integers(-9, 9, s).astype("f4") for s in ((4, 5), (4,), (5,)))
        for kind in (np.asarray, jnp.asarray):
            how = {"unmatched_cost": kind(of_row), "unmatched_col_cost": kind(of_col)}
            assert jm.solve_assignment(kind(cost), **how).cost == truth(cost, of_row, of_col, 1)
            res = jm.solve_capacitated_assignment(kind(cost), **how)
            assert res.cost == truth(cost, of_row, of_col, 1)


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("minima", [False, True])
def test_capacities(minima, dtype, method):
    """A linear program whose optimum is integral."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        cost, of_row, of_col = (x[0] for x in drawn(seed, dtype, 1))
        n, m = cost.shape
        rows, cols = rng.integers(0, 4, n), rng.integers(0, 4, m)
        least = np.minimum(cols, rng.integers(0, 3, m)) if minima else np.zeros(m, int)
        pair = np.eye(n * m).reshape(n, m, n * m)
        zero = np.zeros
        of = np.block([[pair.sum(1), np.eye(n), zero((n, m))],
                       [pair.sum(0), zero((m, n)), np.eye(m)]])  # fmt: skip
        more = np.block([-pair.sum(0), zero((m, n + m))])
        prices = np.concatenate([cost.ravel(), of_row, of_col]).astype(float)
        best = linprog(prices, more, -least, of, np.concatenate([rows, cols]))
        how: Any = {"row_capacity": rows, "col_capacity": cols, "unmatched_cost": of_row,
                    "unmatched_col_cost": of_col}  # fmt: skip
        how |= {"col_minimum": least} if minima else {}
        with x64(True):
            res = jm.solve_capacitated_assignment(cost, method=method, **how)
            if best.status == 2:
                assert res.status == Status.INFEASIBLE
                continue
            assert res.status == Status.OPTIMAL
            assert abs(res.cost - best.fun) < 1e-9
            check = jm.check_capacitated_assignment(cost, res, **how)
            assert check.optimal and check.gap == 0
            worse = how | {"unmatched_col_cost": of_col - 99}
            other = jm.solve_capacitated_assignment(cost, method=method, **worse)
            check = jm.check_capacitated_assignment(cost, other, **how)
            if other.status == Status.OPTIMAL and check.valid:
                plan = np.asarray(other.todense())
                stay = (rows - plan.sum(1)) @ of_row + (cols - plan.sum(0)) @ of_col
                assert check.gap >= (plan * cost).sum() + stay - best.fun


def test_gradients_are_what_stays():
    cost, of_row, of_col = (jnp.asarray(x[0]) for x in drawn(3, "float32"))

    def value(cost, of_row, of_col):
        how = {"unmatched_cost": of_row, "unmatched_col_cost": of_col}
        return jm.solve_assignment(cost, **how).cost

    res = jm.solve_assignment(cost, unmatched_cost=of_row, unmatched_col_cost=of_col)
    of_pairs, rows, cols = jax.grad(value, (0, 1, 2))(cost, of_row, of_col)
    np.testing.assert_array_equal(of_pairs.argmax(1)[res.col4row >= 0],
                                  res.col4row[res.col4row >= 0])  # fmt: skip
    np.testing.assert_array_equal(rows, res.col4row < 0)
    np.testing.assert_array_equal(cols, res.row4col < 0)
    assert 0 < rows.sum() < rows.size or 0 < cols.sum() < cols.size


def test_wrong_results_are_refused():
    cost, of_row, of_col = (x[0] for x in drawn(3, "float64"))
    how = {"unmatched_cost": of_row, "unmatched_col_cost": of_col}
    with x64(True):
        res = jm.solve_assignment(cost, **how)
        stays = res.replace(
            col4row=np.full_like(res.col4row, -1), row4col=np.full_like(res.row4col, -1)
        )
        check = jm.check_assignment(cost, stays, **how)
        assert check.valid and not check.optimal
        above = of_row.sum() + of_col.sum() - res.cost
        assert above > 0 and above <= check.gap <= above * (1 + 1e-12)
        must = how | {"unmatched_col_cost": np.full_like(of_col, np.inf)}
        assert not jm.check_assignment(cost, stays, **must).valid
        twice = res.replace(col4row=np.zeros_like(res.col4row))
        assert not jm.check_assignment(cost, twice, **how).valid


def test_errors():
    cost = np.zeros((3, 4), np.float32)
    with pytest.raises(ValueError, match="`unmatched_col_cost` needs `unmatched_cost`"):
        jm.solve_assignment(cost, unmatched_col_cost=1)
    with pytest.raises(ValueError, match="does not go with `unmatched_col_cost`"):
        jm.solve_assignment(cost, unmatched_cost=1, unmatched_col_cost=1, time_limit=1)
    with pytest.raises(ValueError, match=r"`unmatched_col_cost` has shape \(3,\)"):
        jm.solve_assignment(cost, unmatched_cost=1, unmatched_col_cost=np.zeros(3))
    with pytest.raises(TypeError, match="`unmatched_col_cost` must be an integer"):
        whole = cost.astype(np.int32)
        jm.solve_assignment(whole, unmatched_cost=1, unmatched_col_cost=np.zeros(4))
    with pytest.raises(ValueError, match="`method` must be"):
        how: Any = {"unmatched_cost": 1, "unmatched_col_cost": 1}
        jm.solve_assignment(cost, method="core", **how)
