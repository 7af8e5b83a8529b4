"""Masses of floats: what a plan moves of each row and column, and sums that differ by roundings."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from helpers import x64
from transport_truth import assert_moves, moved

import jaxmatch as jm
from jaxmatch import Status


INF = np.inf
METHODS = ("network_simplex", "xla")


def blocks(classes: list[tuple[int, int]], seed: int = 0) -> np.ndarray:
    """Costs that forbid all pairs between classes."""
    cost = np.full([sum(x) for x in zip(*classes, strict=True)], INF)
    i = j = 0
    for a, b in classes:
        cost[i : i + a, j : j + b] = np.random.default_rng(seed).random((a, b))
        i, j = i + a, j + b
    return cost


# ---------------------------------------------------------------------------------------------
# Forbidden pairs


@pytest.mark.parametrize("seed", range(4))
def test_random_blocks_in_any_order(seed):
    """In batches, masked, maximising, with rows without mass and blocks of one row."""
    random = np.random.default_rng(seed)
    classes = [(1, 3), (4, 1), (5, 6), (2, 2)]
    n, m = (sum(x) for x in zip(*classes, strict=True))
    sign = -1 if seed % 2 else 1
    costs, supplies, demands = [], [], []
    for k in range(5):
        cost, a, b = sign * blocks(classes, k), random.random(n), random.random(m)
        a[3] = 0
        i = j = 0
        for p, q in classes:
            b[j : j + q] *= a[i : i + p].sum() / b[j : j + q].sum()
            i, j = i + p, j + q
        rows, cols = random.permutation(n), random.permutation(m)
        costs.append(cost[rows][:, cols])
        supplies.append(a[rows])
        demands.append(b[cols])
    cost, a, b = (np.stack(x) for x in (costs, supplies, demands))
    mask = np.arange(n + 1) < n
    cost = np.concatenate([cost, np.full((5, 1, m), np.nan)], 1)
    a = np.concatenate([a, np.ones((5, 1))], 1)
    given = {"maximize": sign < 0, "row_mask": mask}
    with x64(True):
        res = jm.solve_transport(cost, a, b, **given)
        check = jm.check_transport(cost, a, b, res, **given)
    assert check.valid.all()
    for k in range(5):
        assert_moves(res[k], np.where(mask, a[k], 0), b[k], 1e-12)


# ---------------------------------------------------------------------------------------------
# Sums that differ by roundings of a coarser dtype


@pytest.mark.parametrize("method", METHODS)
def test_a_float32_histogram_against_a_float64_one(method):
    random = np.random.default_rng(0)
    cost, uniform = random.random((10, 10)), np.full(10, 1 / 10)
    soft = np.exp(random.normal(size=10).astype(np.float32))
    soft /= soft.sum()
    with x64(True):
        for a in (np.full(10, 1 / 10, np.float32), soft, soft.astype(np.float64)):
            res = jm.solve_transport(cost, a, uniform, method=method)
            assert_moves(res, a, uniform, 1e-12)
            assert jm.check_transport(cost, a, uniform, res).valid
            jitted = jax.jit(jm.solve_transport, static_argnames="method")
            jitted = jitted(cost, a, uniform, method=method).cost
            np.testing.assert_allclose(jitted, res.cost, rtol=1e-12)
            wide = a.astype(float)
            want = jm.solve_transport(cost, wide / wide.sum(), uniform).cost * wide.sum()
            np.testing.assert_allclose(res.cost, want, rtol=1e-12)
        off = jm.solve_transport(cost, soft, uniform * 1.001, method=method)
        assert off.status == Status.UNBALANCED


def test_integers_agree_exactly():
    res = jm.solve_transport(np.eye(2), np.array([10**9, 1]), np.array([10**9, 2]))
    assert res.status == Status.UNBALANCED and res.gap == 1


@pytest.mark.parametrize("method", METHODS)
def test_the_gap_of_an_unbalanced_problem_is_the_difference(method):
    with x64(True):
        cost = np.ones((2, 2))
        res = jm.solve_transport(cost, np.array([0.5, 0.5]), np.array([0.5, 0.6]), method=method)
        assert res.status == Status.UNBALANCED
        np.testing.assert_allclose(res.gap, 0.1)
        with pytest.raises(ValueError, match=r"UNBALANCED.* The difference is 0\.1\."):
            res.raise_for_status()
        more = jm.solve_transport(
            cost, np.array([1.0, 2.0]), np.array([4.0, 4.0]), partial=5.0, method=method
        )
        assert more.status == Status.UNBALANCED and more.gap == 2


# ---------------------------------------------------------------------------------------------
# Masses far below the total


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wide", [True, False], ids=["x64", "x32"])
def test_masses_of_many_magnitudes(wide, method):
    random = np.random.default_rng(1)
    dtype, least = (np.float64, 300) if wide else (np.float32, 36)
    with x64(wide):
        for k in range(6):
            a, b = (10.0 ** -random.uniform(0, (3, 20, least)[k % 3], s) for s in (12, 9))
            a, b = ((x / x.sum()).astype(dtype) for x in (a, b))
            cost = random.random((12, 9)).astype(dtype)
            res = jm.solve_transport(cost, a, b, method=method)
            assert_moves(res, a, b, 1e-12 if wide else 4e-6)
            assert res.gap < (1e-14 if wide else 1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_tiny_classes(seed):
    """A class whose mass is far below a unit of the grid, in which each row keeps its own."""
    random = np.random.default_rng(seed)
    classes = [(3, 4), (5, 2), (1, 3), (4, 4)]
    cost = blocks(classes, seed)
    n, m = cost.shape
    a, b = (10.0 ** -random.uniform(0, (20, 100)[seed % 2], s) for s in (n, m))
    i = j = 0
    for p, q in classes:
        b[j : j + q] *= a[i : i + p].sum() / b[j : j + q].sum()
        i, j = i + p, j + q
    with x64(True):
        assert_moves(jm.solve_transport(cost, a, b), a, b, 1e-12)


def test_a_tiny_row_without_an_allowed_pair_is_infeasible():
    cost = np.array([[1.0, 2], [INF, INF]])
    with x64(True):
        res = jm.solve_transport(cost, np.array([1, 1e-30]), np.array([0.5, 0.5]))
    assert res.status == Status.INFEASIBLE


def test_tiny_rows_that_may_stay():
    """`partial` and `unmatched_cost`: what a row moves and leaves is its mass."""
    random = np.random.default_rng(3)
    a, b = (10.0 ** -random.uniform(0, 40, s) for s in (8, 9))
    cost = random.random((8, 9))
    with x64(True):
        stay = jm.solve_transport(cost, a, b, unmatched_cost=0.3)
        assert stay.status == Status.OPTIMAL
        for found, x in zip(moved(stay), (a, b), strict=True):
            assert (found <= x * (1 + 1e-12)).all()
        least = min(a.sum(), b.sum())
        part = jm.solve_transport(cost, a, b, partial=least / 2)
        assert part.status == Status.OPTIMAL
        np.testing.assert_allclose(moved(part)[0].sum(), least / 2, rtol=1e-12)
