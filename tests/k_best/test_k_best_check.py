"""`check_k_best` finds what is wrong in a list, and nothing in one that is right."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import to_numpy, x64

import jaxmatch as jm


N, M, K = 4, 5, 6


def listed(seed: int, shape: tuple[int, int] = (N, M)) -> tuple[np.ndarray, jm.KBestAssignments]:
    cost = np.random.default_rng(seed).integers(0, 9999, shape).astype(np.float32)
    return cost, to_numpy(jm.k_best_assignments(cost, K))


def change(x: np.ndarray, at: Any, value: Any) -> np.ndarray:
    x = x.copy()
    x[at] = value
    return x


def swapped(res: jm.KBestAssignments, a: int, b: int) -> jm.KBestAssignments:
    order = np.arange(K)
    order[[a, b]] = b, a
    return res.replace(col4row=res.col4row[order], row4col=res.row4col[order])


FAULTS = {
    "a cost": lambda r: r.replace(cost=r.cost + np.array([0, 0, 1, 0, 0, 0], np.float32)),
    "a cost that is NaN": lambda r: r.replace(cost=change(r.cost, 1, np.nan)),
    "an infinite cost": lambda r: r.replace(cost=change(r.cost, K - 1, np.inf)),
    "all costs": lambda r: r.replace(cost=r.cost - 1),
    "no costs": lambda r: r.replace(cost=r.cost * 0),
    "the order": lambda r: swapped(r, 1, K - 1).replace(
        cost=change(r.cost, [1, K - 1], r.cost[[K - 1, 1]])
    ),
    "whose costs": lambda r: swapped(r, 0, K - 1),
    "twice the same": lambda r: r.replace(
        col4row=change(r.col4row, 3, r.col4row[2]),
        row4col=change(r.row4col, 3, r.row4col[2]),
        cost=change(r.cost, 3, r.cost[2]),
    ),
    "one side": lambda r: r.replace(row4col=r.row4col[::-1]),
    "out of range": lambda r: r.replace(col4row=change(r.col4row, (2, 0), M)),
    "below range": lambda r: r.replace(col4row=change(r.col4row, (2, 0), -2)),
    "a row without its column": lambda r: r.replace(
        col4row=change(r.col4row, (1, 0), -1),
        row4col=change(r.row4col, (1, r.col4row[1, 0]), -1),
    ),
    "too many": lambda r: r.replace(count=np.int32(K + 1)),
    "none": lambda r: r.replace(count=np.int32(0)),
    "more than are counted": lambda r: r.replace(count=np.int32(K - 1)),
}


@pytest.mark.parametrize("shape", [(N, M), (M, N)], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault, shape):
    cost, res = listed(0, shape)
    assert np.unique(res.cost).size == K
    check = jm.check_k_best(cost, res)
    assert check.valid and check.optimal and check.gap == 0
    if shape == (M, N):  # the same faults with rows and columns exchanged
        res = res.replace(col4row=res.row4col, row4col=res.col4row)
        res = FAULTS[fault](res)
        res = res.replace(col4row=res.row4col, row4col=res.col4row)
    else:
        res = FAULTS[fault](res)
    check = jm.check_k_best(cost, res)
    assert not check.valid and not check.optimal and np.isinf(check.gap)


def test_faults_of_the_problem():
    """Pairs that are forbidden or masked, costs that are NaN, and the other direction."""
    cost, res = listed(1)
    i, j = 2, int(res.col4row[4, 2])
    assert not jm.check_k_best(change(cost, (i, j), np.inf), res).valid
    assert not jm.check_k_best(change(cost, (i, j), np.nan), res).valid
    assert not jm.check_k_best(cost, res, maximize=True).valid
    assert not jm.check_k_best(cost, res, row_mask=np.arange(N) > 0).valid
    free = int(np.flatnonzero(res.row4col[0] < 0)[0])
    assert not jm.check_k_best(cost, res, col_mask=np.arange(M) == free).valid
    other = change(cost, (slice(None), free), 1000)
    assert jm.check_k_best(other, res).valid or (res.row4col >= 0).any()


def test_a_list_of_the_second_best_is_valid_but_not_optimal():
    cost, res = listed(2)
    rest = res.replace(
        col4row=np.roll(res.col4row, -1, 0),
        row4col=np.roll(res.row4col, -1, 0),
        cost=np.roll(res.cost, -1),
        count=np.int32(K - 1),
    )
    rest = rest.replace(
        col4row=change(rest.col4row, K - 1, -1),
        row4col=change(rest.row4col, K - 1, -1),
        cost=change(rest.cost, K - 1, np.nan),
    )
    check = jm.check_k_best(cost, rest)
    assert check.valid and not check.optimal
    assert check.gap == res.cost[1] - res.cost[0]


def test_duals_that_prove_less():
    cost, res = listed(3)
    check = jm.check_k_best(cost, res.replace(col_dual=res.col_dual * 0 - 1))
    assert check.valid and not check.optimal and 0 < check.gap < np.inf
    assert not np.isfinite(jm.check_k_best(cost, res.replace(col_dual=res.col_dual * np.nan)).gap)


@pytest.mark.parametrize("dtype", ["float64", "int64", "float32"])
def test_many_digits(dtype):
    """A right list is never refused, and its costs may not differ in more than a rounding."""
    rng = np.random.default_rng(4)
    cost = rng.integers(-(2**45), 2**45, (30, 31)).astype(dtype)
    if dtype != "int64":
        cost = (cost / 3).astype(dtype)
    for on in (False, True):
        with x64(on):
            given = cost if not on else jnp.asarray(cost)
            res = jm.k_best_assignments(given, 40)
            assert bool(jm.check_k_best(given, res).valid)
            eps = float(jnp.finfo(res.cost.dtype).eps)
            wrong = res.replace(cost=res.cost * (1 + 8 * eps))
            assert not bool(jm.check_k_best(given, wrong).valid)


@pytest.mark.parametrize("size", [3e37, 1.6e38, 3.3e38])
@pytest.mark.parametrize("jit", [False, True])
def test_sums_near_the_end_of_the_range(size, jit):
    """Sums of which float32 rounds the last ones to infinity, of either sign."""
    cost = np.random.default_rng(7).uniform(-size, size, (3, 4)).astype(np.float32)
    check = jax.jit(jm.check_k_best) if jit else jm.check_k_best
    res = jm.k_best_assignments(cost, 24)
    if jit:
        res = jax.tree.map(jnp.asarray, res)
    assert res.status == jm.Status.OPTIMAL and res.count == 24
    assert bool(check(cost, res).valid)
    wrong = res.cost.copy() if not jit else res.cost
    wrong = jnp.asarray(wrong).at[12].set(res.cost[13] * 1.01)
    assert not bool(check(cost, res.replace(cost=wrong)).valid)


def test_batches_and_jit(platform):
    rng = np.random.default_rng(5)
    cost = jnp.asarray(rng.random((2, 3, 4, 4)).astype(np.float32))
    res = jm.k_best_assignments(cost, 30)
    assert int(res.count.max()) == 24
    check = jm.check_k_best(cost, res)
    assert check.valid.shape == (2, 3) and bool(check.valid.all())
    bad = res.replace(cost=res.cost.at[1, 2, 3].add(0.5))
    found = np.asarray(jax.jit(lambda r, c: jm.check_k_best(c, r).valid)(bad, cost))
    assert not found[1, 2] and found.sum() == 5
    mapped = jax.vmap(jax.vmap(lambda r, c: jm.check_k_best(c, r).valid))(bad, cost)
    np.testing.assert_array_equal(mapped, found)
    assert bool(jm.check_assignment(cost, res.first).valid.all())


def test_errors():
    cost, res = listed(6)
    with pytest.raises(ValueError, match="`result.row4col` must have shape"):
        jm.check_k_best(cost[:, :3], res)
    with pytest.raises(ValueError, match="`result.count` must have shape"):
        jm.check_k_best(cost, res.replace(count=np.ones(2, np.int32)))
    with pytest.raises(TypeError, match="`result.cost` must"):
        jm.check_k_best(cost, res.replace(cost=res.cost.astype(complex)))
