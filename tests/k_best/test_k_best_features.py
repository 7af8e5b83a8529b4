"""`k_best_assignments` in JAX: batches, `vmap`, gradients, precisions, and its errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, native_calls, problem, to_numpy, x64
from k_best_truth import assert_true

import jaxmatch as jm


BATCH, N, M, K = 8, 4, 5, 7
METHODS = ("murty", "xla")


def costs(seed: int) -> np.ndarray:
    """Ties in every other problem; one has no assignment, another one few."""
    rng = np.random.default_rng(seed)
    cost = rng.normal(size=(BATCH, N, M)).astype(np.float32)
    cost[::2] = rng.integers(0, 3, cost[::2].shape)
    cost[1, 0] = np.inf
    cost[3] = np.where(np.eye(N, M) + np.eye(N, M, 1) > 0, cost[3], np.inf)
    return cost


def solver(method: str) -> Any:
    return jax.jit(partial(jm.k_best_assignments, k=K, method=method))


# ---------------------------------------------------------------------------------------------
# The same bits


@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits_in_any_company(method, platform):
    cost, solve = jnp.asarray(costs(0)), solver(method)
    together = to_numpy(solve(cost))
    assert together.status[1] == jm.Status.INFEASIBLE and 0 < together.count[3] < K
    for b in range(BATCH):
        assert_true(costs(0)[b], problem(together, b))
    assert_same_bits(jax.vmap(solve)(cost), together)
    for b in range(0, BATCH, 3):
        assert_same_bits(solve(cost[b]), problem(together, b))
        assert_same_bits(together[b], problem(together, b))
    if method == "xla":
        return
    nested = cost.reshape(2, 4, N, M)
    for res in (solve(nested), jax.jit(jax.vmap(jax.vmap(solve), 1, 1))(nested)):
        assert_same_bits(jax.tree.map(lambda x: x.reshape(BATCH, *x.shape[2:]), res), together)
    assert_same_bits(jm.k_best_assignments(cost, K), together)
    at_last = jax.vmap(solve, 2)(jnp.moveaxis(cost, 0, 2))
    assert_same_bits(at_last, together)


def test_a_batch_on_many_threads():
    """More problems than threads, each the same as alone."""
    rng = np.random.default_rng(1)
    cost = rng.integers(0, 9, (64, 20, 20)).astype(np.float32)
    res = jm.k_best_assignments(cost, 30)
    assert (res.count == 30).all()
    for b in range(0, 64, 9):
        assert_same_bits(jm.k_best_assignments(cost[b], 30), problem(res, b))


def test_vmap_over_masks(platform):
    cost = jnp.asarray(costs(2)[0])
    masks = jnp.eye(N, dtype=bool) | (jnp.arange(N)[None] < 2)
    solve = jax.jit(lambda rows: jm.k_best_assignments(cost, K, row_mask=rows))
    res = to_numpy(jax.vmap(solve)(masks))
    for b in range(N):
        assert_same_bits(solve(masks[b]), problem(res, b))
        assert_true(np.asarray(cost), problem(res, b), row_mask=np.asarray(masks[b]))


def test_one_native_call(platform):
    solve = solver("auto")
    lowered = jax.jit(jax.vmap(solve)).lower(jnp.zeros((BATCH, N, M))).as_text()
    assert len(native_calls(lowered)) == 1
    twin = solver("xla").lower(jnp.zeros((BATCH, N, M))).as_text()
    assert native_calls(twin) == []


# ---------------------------------------------------------------------------------------------
# Precision


@pytest.mark.parametrize("on", [False, True], ids=["x32", "x64"])
def test_numpy_and_jax_arrays_give_the_same_bits(on):
    with x64(on):
        cost = costs(4)
        res = jm.k_best_assignments(cost, K)
        assert all(type(x) is np.ndarray for x in jax.tree.leaves(res))
        assert_same_bits(jm.k_best_assignments(jnp.asarray(cost), K), res)
        assert_same_bits(solver("auto")(jnp.asarray(cost)), res)
        assert res.gap.dtype == res.cost.dtype == (np.float64 if on else np.float32)


def test_constants_inside_jit_keep_their_digits():
    cost = np.array([[1.0, 1 + 2**-40], [2.0, 2.0]])
    res = jax.jit(lambda: jm.k_best_assignments(cost, 2).col4row)()
    assert np.asarray(res).tolist() == [[0, 1], [1, 0]]


# ---------------------------------------------------------------------------------------------
# Gradients


@pytest.mark.parametrize("method", METHODS)
def test_gradients(method, platform):
    """Of the cost at each place: its own permutation matrix; nothing where there is none."""
    cost, solve = jnp.asarray(costs(5)), solver(method)
    res = to_numpy(solve(cost))
    weight = np.random.default_rng(6).normal(size=(BATCH, K)).astype(np.float32)
    value, pullback = jax.vjp(lambda c: solve(c).cost, cost)
    (slope,) = pullback(jnp.asarray(weight))
    pairs = res.col4row[..., None] == np.arange(M)
    assert not pairs[1].any() and 0 < pairs[3].any((1, 2)).sum() < K
    expected = (weight[..., None, None] * pairs).sum(1)
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6)
    way = np.random.default_rng(7).normal(size=cost.shape).astype(np.float32)
    again, tangent = jax.jvp(lambda c: solve(c).cost, (cost,), (jnp.asarray(way),))
    assert_same_bits((value, again), (res.cost, res.cost))
    expected = np.where(pairs, way[:, None], 0).sum((2, 3))
    np.testing.assert_allclose(tangent, expected, rtol=1e-5, atol=1e-6)


def test_gradients_of_other_kinds(platform):
    """A maximum, masks, under `vmap`; no second derivative; none of integers or of duals."""
    rng = np.random.default_rng(8)
    cost, rows = jnp.asarray(rng.normal(size=(3, 5, 4)).astype(np.float32)), np.arange(5) < 4

    def third(c: Any) -> Any:
        return jm.k_best_assignments(c, 3, maximize=True, row_mask=rows).cost[2]

    slope = np.asarray(jax.vmap(jax.grad(third))(cost))
    res = jm.k_best_assignments(cost, 3, maximize=True, row_mask=rows)
    np.testing.assert_array_equal(slope, np.asarray(res.col4row)[:, 2, :, None] == np.arange(4))
    np.testing.assert_array_equal(jax.jacfwd(jax.grad(third))(cost[0]), 0)
    duals = jax.grad(lambda c: jm.k_best_assignments(c, 3).row_dual.sum())(cost[0])
    np.testing.assert_array_equal(duals, 0)
    whole = jax.jit(jax.linearize, static_argnums=0)(
        lambda c: jm.k_best_assignments(c.astype(jnp.int32), 3).cost, cost[0]
    )[0]
    assert whole.shape == (3,)


# ---------------------------------------------------------------------------------------------
# Errors


@pytest.mark.parametrize("k", [0, -1, 1.5, None, "3", 2**28])
def test_errors_of_k(k):
    with pytest.raises(ValueError, match="`k` must be"):
        jm.k_best_assignments(np.ones((2, 2)), k)


def test_a_traced_k_is_an_error():
    with pytest.raises(ValueError, match="`k` must be"):
        jax.jit(jm.k_best_assignments)(jnp.ones((2, 2)), 2)


def test_errors_of_other_arguments():
    cost = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="`cost` must have shape"):
        jm.k_best_assignments(cost[0], 2)
    with pytest.raises(TypeError, match="`cost` must"):
        jm.k_best_assignments(cost.astype(complex), 2)
    with pytest.raises(ValueError, match="`row_mask` has shape"):
        jm.k_best_assignments(cost, 2, row_mask=np.ones(3, bool))
    with pytest.raises(TypeError, match="`col_mask` must"):
        jm.k_best_assignments(cost, 2, col_mask=np.ones(3))
    with pytest.raises(ValueError, match="`method` must be one of"):
        jm.k_best_assignments(cost, 2, method="fast")
    with pytest.raises(ValueError, match="INFEASIBLE"):
        jm.k_best_assignments(np.full((2, 2), np.inf), 2).raise_for_status()
