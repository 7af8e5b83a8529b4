"""`k_best_assignments` against all assignments of small problems."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import DTYPES, assert_failed, assert_proved, numpy_dtype, problem, to_numpy, x64
from k_best_truth import assert_true

import jaxmatch as jm


BATCH = 8
SHAPES = [(1, 1), (2, 2), (3, 3), (5, 5), (6, 6), (1, 5), (5, 1), (6, 3), (3, 6), (4, 5)]

# The twin takes seconds to compile: a few shapes and dtypes tell whether it is right.
METHODS = ("murty", "xla")
CASES = [*(("murty", s) for s in SHAPES), *(("xla", s) for s in [(1, 1), (3, 4), (4, 3)])]
OF_TWIN = [("float16", False), ("int32", False), ("float64", True)]


def solve(cost: Any, k: int, **given: Any) -> jm.KBestAssignments:
    return to_numpy(jm.k_best_assignments(jnp.asarray(cost), k, **given))


def small_integers(seed: int, shape: tuple[int, int], *, maximize: bool = False) -> np.ndarray:
    """Ties everywhere, and from problem to problem more forbidden pairs."""
    rng = np.random.default_rng(seed)
    cost = rng.integers(-2, 3, (BATCH, *shape)).astype(np.float32)
    forbidden = rng.random(cost.shape) < np.linspace(0, 0.6, BATCH)[:, None, None]
    return np.where(forbidden, -np.inf if maximize else np.inf, cost).astype(np.float32)


@pytest.mark.parametrize("method, shape", CASES, ids=str)
def test_all_of_small_problems(method, shape, platform):
    """Also more than there are. Problems are minimised and maximised in turn."""
    maximize = CASES.index((method, shape)) % 2 == 1
    cost = small_integers(hash(shape) % 99, shape, maximize=maximize)
    k = 12 if method == "xla" else 130
    res = solve(cost, k, maximize=maximize, method=method)
    counts = [assert_true(cost[b], problem(res, b), maximize=maximize) for b in range(BATCH)]
    assert max(counts) > 0
    solved = res.status == jm.Status.OPTIMAL
    assert_proved(cost[solved], problem(res, solved).first, maximize=maximize)
    check = jm.check_k_best(cost[solved], problem(res, solved), maximize=maximize)
    assert np.asarray(check.optimal).all()


@pytest.mark.parametrize(
    "method, dtype, on",
    [*(("murty", *x) for x in DTYPES), *(("xla", *x) for x in OF_TWIN)],
)
def test_dtypes(method, dtype, on, platform):
    """Numbers of so few bits that no solver rounds, halves and negative ones among them."""
    rng = np.random.default_rng(1)
    cost = rng.integers(-99, 100, (3, 4, 5)) / (1 if dtype.startswith("int") else 4)
    cost = cost.astype(numpy_dtype(dtype))
    with x64(on):
        res = solve(cost, 25, method=method)
        assert res.cost.dtype == (np.float64 if on else np.float32)
    for b in range(3):
        assert_true(cost[b], problem(res, b))
    assert (res.gap == 0).all()
    assert_proved(cost, res.first)


def test_costs_are_summed_exactly(platform):
    """Great terms cancel in each assignment, and the smallest numbers are what is left."""
    rng = np.random.default_rng(5)
    cost = np.empty((6, 5, 5))
    for one, great in zip(cost, [2.0**53 + 2, 1e40, 2.0**978, 2.0**1022, 1e-300, 0], strict=True):
        less = 4 - 2.0**-51
        one[:, :4] = [great, less, -less, -great]
        one[:, 4] = rng.integers(-9, 10, 5) * 2.0**-1074
    with x64(True):
        res = solve(cost, 120)
    for b, one in enumerate(cost):
        assert_true(one, problem(res, b))
        expected = np.repeat(np.sort(one[:, 4]), 24)
        assert (res.cost[b] == expected).all()


@pytest.mark.parametrize(
    "terms, expected",
    [
        ([1, 2**-53], 1),  # a tie goes to the even number
        ([1 + 2**-52, 2**-53], 1 + 2**-51),
        ([1, 2**-53, 2**-1074], 1 + 2**-52),
        ([-1, -(2**-53), -(2**-1074)], -1 - 2**-52),
        ([2.0**1023, 2.0**1023], np.inf),
        ([2.0**1023, 2.0**1023, -(2.0**1023)], 2.0**1023),
    ],
    ids=str,
)
def test_rounding_of_costs(terms, expected, platform):
    terms = np.array([*terms, 1e-300, -1e-300])  # too far apart for common units
    cost = np.where(np.eye(len(terms), dtype=bool), terms[:, None], np.inf)
    with x64(True):
        res = solve(cost, 1)
    assert res.status == jm.Status.OPTIMAL and res.cost[0] == expected


@pytest.mark.parametrize("widest", [2, 60, 1000])
def test_costs_are_rounded_once(widest, platform):
    """One assignment is allowed; Python's `math.fsum` rounds the sum of its costs once."""
    rng = np.random.default_rng(widest)
    size = rng.random((500, 9)) * 2.0 ** rng.integers(-widest, widest, (500, 9))
    terms = np.where(rng.random((500, 9)) < 0.5, size, -size[:, rng.permutation(9)])
    terms[:, 7] = -terms[:, 2]
    cost = np.where(np.eye(9, dtype=bool), terms[:, None], np.inf)
    with x64(True):
        res = solve(cost, 1)
    assert (res.status == jm.Status.OPTIMAL).all()
    assert (res.gap > 0).any()  # with a gap of 0, units are summed as integers
    expected = np.array([math.fsum(x) for x in terms])
    assert (res.cost[:, 0] == expected).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16"])
def test_narrow_dtypes_are_widened(dtype):
    cost = np.random.default_rng(2).integers(0, 2, (4, 4)).astype(dtype)
    assert_true(cost.astype(np.int32), solve(cost, 24))


@pytest.mark.parametrize(
    "method, shape", [*(("murty", s) for s in [(4, 4), (3, 5), (5, 3)]), ("xla", (4, 4))], ids=str
)
def test_masks(method, shape, platform):
    """Of any pattern: which side is the smaller one differs from problem to problem."""
    n, m = shape
    rng = np.random.default_rng(3)
    cost = rng.integers(0, 5, (BATCH, n, m)).astype(np.float32)
    rows, cols = rng.random((BATCH, n)) < 0.7, rng.random((BATCH, m)) < 0.7
    rows[0], cols[1] = False, False
    rows[2:5], cols[2:5] = np.arange(n) < 2, np.arange(m)[::-1] < np.arange(1, 4)[:, None]
    cost[~(rows[:, :, None] & cols[:, None])] = np.nan
    res = solve(cost, 20, row_mask=rows, col_mask=cols, method=method)
    sides = set()
    for b in range(BATCH):
        one = {"row_mask": rows[b], "col_mask": cols[b]}
        assert_true(cost[b], problem(res, b), **one)
        sides.add(np.sign(int(rows[b].sum()) - int(cols[b].sum())))
    assert sides == {-1, 0, 1}
    assert_proved(cost, res.first, row_mask=rows, col_mask=cols)
    assert np.asarray(jm.check_k_best(cost, res, row_mask=rows, col_mask=cols).optimal).all()
    if method == "xla":
        return
    one_sided = solve(np.nan_to_num(cost), 20, col_mask=cols, method=method)
    for b in range(BATCH):
        assert_true(np.nan_to_num(cost[b]), problem(one_sided, b), col_mask=cols[b])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_empty_shapes(shape, method, platform):
    """There is one assignment: that without pairs."""
    res = solve(np.zeros((2, *shape), np.float32), 3, method=method)
    for b in range(2):
        assert assert_true(np.zeros(shape), problem(res, b)) == 1
    assert (res.row_dual == 0).all() and (res.col_dual == 0).all() and (res.gap == 0).all()
    empty = solve(np.zeros((0, 3, 4), np.float32), 2, method=method)
    assert empty.col4row.shape == (0, 2, 3) and empty.count.shape == (0,)


@pytest.mark.parametrize("method", METHODS)
def test_status(method, platform):
    cost = np.ones((6, 3, 3), np.float32)
    cost[0, 1, 1], cost[1, 2, 0] = np.nan, -np.inf
    cost[2, 1] = np.inf
    cost[3, :, :2] = np.inf
    cost[4, 0, :2] = np.inf
    res = solve(cost, 4, method=method)
    expected = ["INVALID_COST"] * 2 + ["INFEASIBLE"] * 2 + ["OPTIMAL"] * 2
    assert [jm.Status(int(x)).name for x in res.status] == expected
    assert res.count.tolist() == [0, 0, 0, 0, 2, 4]
    failed = problem(res, slice(4))
    assert_failed(failed.first, failed.status)
    assert (failed.col4row == -1).all() and np.isnan(failed.cost).all()
    assert not np.asarray(jm.check_k_best(cost[:4], failed).valid).any()


def test_overflow(platform):
    """(min(n, m) + 1) max|C| beyond 2^56; just below, sums are exact."""
    with x64(True):
        most = 2**56 // 4
        cost = np.full((4, 3, 4), most, np.int64)
        cost[1, 0, 0] += 1
        cost[2] = np.random.default_rng(4).integers(-most, most, (3, 4))
        cost[3, 0, 0] = np.iinfo(np.int64).min
        res = solve(cost, 24)
        assert res.status.tolist() == [0, jm.Status.OVERFLOW, 0, jm.Status.OVERFLOW]
        for b in (0, 2):
            assert assert_true(cost[b], problem(res, b)) == 24


# ---------------------------------------------------------------------------------------------
# Floats


def test_wide_floats_are_within_their_gap():
    """Numbers of more digits than the grid holds: places may be swapped within the gap."""
    rng = np.random.default_rng(5)
    cost = rng.random((6, 4, 5))
    cost[1:3] *= 10.0 ** rng.integers(-9, 9, (2, 4, 5))
    cost[3:] = 1 + rng.random((3, 4, 5)) * 2.0**-48  # ties on the grid
    with x64(True):
        res = solve(cost, 60)
    assert (res.gap > 0).all()
    np.testing.assert_array_less(res.gap, 1e-14 * 5 * np.abs(cost).max((1, 2)))
    for b in range(6):
        assert_true(cost[b], problem(res, b))


def test_costs_that_vanish_in_the_unit_are_not_exact():
    """Denormals beside 2^53, which the unit of the grid takes for zeros."""
    cost = np.where(np.eye(3, dtype=bool), 2.0**53, 1e-323)
    res = jm.k_best_assignments(cost[None], 2)
    assert (res.status == jm.Status.OPTIMAL).all() and (res.gap > 0).all()


def test_sums_that_the_twin_rounds_are_within_its_gap():
    """Each cost is a double, their sums are not: the list is out of order by a rounding."""
    cost = 2.0**53 + np.array([[0, 0, 2], [-1, -2, -3], [0, 4, -1]])
    with x64(True):
        assert assert_true(cost, solve(cost, 5, method="xla")) == 5
        exact = solve(cost - 2.0**53, 5, method="xla")
    assert exact.gap == 0 and assert_true(cost - 2.0**53, exact) == 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extreme_floats(dtype):
    """Denormal and huge numbers, and sums that overflow."""
    info, rng = np.finfo(dtype), np.random.default_rng(6)
    units = (2.0**-149, 2.0**120) if dtype == "float32" else (2.0**-950, 2.0**1018)
    cost = rng.integers(0, 9, (2, 4, 4)).astype(dtype) * np.array(units, dtype)[:, None, None]
    with x64(True):
        res = solve(cost, 24)
        assert (res.gap == 0).all()
        for b in range(2):
            assert_true(cost[b], problem(res, b))
    least = np.full((2, 3), 5e-324)  # below the grid, which ends at 2^-1000
    assert_true(least, jm.k_best_assignments(least, 9))
    over = np.full((3, 3), info.max, dtype)
    res = jm.k_best_assignments(over, 2)
    assert (res.status, int(res.count)) == (jm.Status.OPTIMAL, 2)
    assert np.isinf(res.cost).all()


def test_float64_input_keeps_its_digits():
    """NumPy's float64 and int64 are solved as they are, x64 or not."""
    cost = np.arange(9.0).reshape(3, 3) ** 2 + 2.0**-30
    res = jm.k_best_assignments(cost, 6)
    assert isinstance(res.cost, np.ndarray) and res.cost.dtype == np.float64
    assert_true(cost, res)
    whole = (cost * 2**40).astype(np.int64)
    for method in METHODS:
        res = jm.k_best_assignments(whole, 6, method=method)
        assert res.cost.dtype == np.float64
        assert_true(whole, res)
        assert np.asarray(jm.check_k_best(whole, res).optimal).all()
