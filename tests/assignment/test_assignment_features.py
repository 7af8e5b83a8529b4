"""Masks, unmatched costs, maximisation, batches and empty shapes, against exhaustive search."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import (
    DTYPES,
    assert_checked,
    assert_failed,
    assert_proved,
    assert_same_bits,
    numpy_dtype,
    problem,
    to_numpy,
    x64,
)
from oracles import brute_force, scipy_optimum

import jaxmatch as jm


COUNT = 40  # problems in a batch of small ones

both_ways = pytest.mark.parametrize("maximize", [False, True])


def solve_and_compare(costs, oracle, *, size, maximize=False, **given):
    """Solves the batch; every problem has the oracle's optimum, and proves it."""
    given = {name: x for name, x in given.items() if x is not None}
    res = to_numpy(jm.solve_assignment(costs, maximize=maximize, **given))
    optima = [oracle(c, maximize, **problem(given, k)) for k, c in enumerate(costs)]
    feasible = np.array([x is not None for x in optima])
    assert feasible.any()
    assert_failed(problem(res, ~feasible), jm.Status.INFEASIBLE)
    solved, kept = problem((res, given), feasible)
    proved = assert_proved(costs[feasible], solved, maximize=maximize, **kept)
    assert proved == [x for x in optima if x is not None]
    assert_checked(costs[feasible], solved, size, block=len(costs), maximize=maximize, **kept)


def small_batch(rng, shape, dtype, maximize):
    """Quarters between -3 and 3, or integers; for floats, some pairs are forbidden."""
    costs = rng.integers(-12, 13, (COUNT, *shape))
    if dtype == "int32":
        return costs.astype(dtype)
    forbidden = rng.random(costs.shape) < rng.choice([0, 0.2, 0.5], (COUNT, 1, 1))
    return np.where(forbidden, -np.inf if maximize else np.inf, costs / 4).astype(dtype)


def hide(rng, costs, row_mask, col_mask):
    """Puts what nobody should look at where a mask is False."""
    masked = np.zeros(costs.shape, bool)
    if row_mask is not None:
        masked |= ~row_mask[..., :, None]
    if col_mask is not None:
        masked |= ~col_mask[..., None, :]
    rubbish = [-(2**31), 2**31 - 1] if costs.dtype.kind == "i" else [np.nan, np.inf, -np.inf, 3e38]
    return np.where(masked, rng.choice(rubbish, costs.shape), costs).astype(costs.dtype)


@both_ways
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)], ids=str)
def test_masks_and_unmatched_costs(shape, dtype, maximize):
    rng = np.random.default_rng([*shape, maximize])
    n, m = shape
    must = -np.inf if maximize else np.inf
    some = rng.random((COUNT, n)) < 0.4
    leave = {
        "none": None,
        "one for all": np.broadcast_to(rng.integers(-4, 5, (COUNT, 1)) / 4, (COUNT, n)),
        "per row": rng.integers(-12, 13, (COUNT, n)) / 4,
        "some must": np.where(some, must, rng.integers(-12, 13, (COUNT, n)) / 4),
        "integers": rng.integers(-3, 4, (COUNT, n)),
    }
    masks = [(False, False), (True, False), (False, True), (True, True)]
    for (name, r), (by_row, by_col) in itertools.product(leave.items(), masks):
        if by_row != by_col and (dtype == "int32" or name == "integers"):
            continue  # enough is enough
        row_mask = rng.random((COUNT, n)) < 0.7 if by_row else None
        col_mask = rng.random((COUNT, m)) < 0.7 if by_col else None
        costs = hide(rng, small_batch(rng, shape, dtype, maximize), row_mask, col_mask)
        if name != "integers" and r is not None:
            r = r.astype(np.float32)
        solve_and_compare(
            costs,
            brute_force,
            size=5,
            maximize=maximize,
            row_mask=row_mask,
            col_mask=col_mask,
            unmatched_cost=r,
        )


@pytest.mark.parametrize("shape", [(33, 47), (47, 33)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "int32", "int64"])
def test_mask_patterns_of_larger_problems(dtype, shape):
    """Prefixes, windows and scattered entries take different roads through the solver."""
    rng = np.random.default_rng([*shape, 1])

    def patterns(size):
        at = np.arange(size)
        return [
            at < size // 2,
            at >= 5,
            (at >= 4) & (at < size - 7),
            at % 3 != 1,
            rng.random(size) < 0.6,
            at == 11,
            np.ones(size, bool),
            np.zeros(size, bool),
        ]

    masks = list(itertools.product(patterns(shape[0]), patterns(shape[1])))
    row_mask, col_mask = (np.stack(x) for x in zip(*masks, strict=True))
    costs = rng.integers(0, 99, (len(masks), *shape)).astype(numpy_dtype(dtype))
    costs = hide(rng, costs, row_mask, col_mask) if dtype == "float32" else costs
    r = rng.integers(-5, 40, (len(masks), shape[0]))
    for unmatched_cost, maximize in [(None, False), (r, True)]:
        with x64(True):
            solve_and_compare(
                costs,
                scipy_optimum,
                size=47,
                maximize=maximize,
                row_mask=row_mask,
                col_mask=col_mask,
                unmatched_cost=unmatched_cost,
            )


@pytest.mark.parametrize("dtype, wide", DTYPES)
def test_unmatched_cost_equals_a_column_of_its_own(dtype, wide):
    """The square problem with one more column per row, which only that row may take."""
    rng = np.random.default_rng(2)
    n, m = 12, 9
    costs = rng.integers(0, 50, (40, n, m)).astype(numpy_dtype(dtype))
    r = rng.integers(-5, 60, (40, n)).astype(np.int32)
    own = np.where(np.eye(n, dtype=bool), r[:, :, None], 10**6).astype(np.float64)
    with x64(wide):
        res = jm.solve_assignment(costs, unmatched_cost=r)
        extended = jm.solve_assignment(np.concatenate([costs.astype(np.float64), own], 2))
    np.testing.assert_array_equal(res.cost, extended.cost)
    assert_proved(costs, res, unmatched_cost=r)


def test_unmatched_cost_is_part_of_the_problem_and_no_filter():
    """Dropping pairs above a limit afterwards is another answer, and a worse one."""
    costs = np.array([[1.0, 6.0], [0.0, 3.0]])
    res = jm.solve_assignment(costs, unmatched_cost=2.0)
    np.testing.assert_array_equal(res.col4row, [-1, 0])  # the plain optimum is [0, 1]
    assert float(res.cost) == 2.0
    res = jm.solve_assignment(-costs, unmatched_cost=-2.0, maximize=True)
    np.testing.assert_array_equal(res.col4row, [-1, 0])
    assert float(res.cost) == -2.0


def test_fractional_unmatched_cost_beside_integer_costs():
    costs = np.array([[3, 5], [4, 9]], np.int32)
    for r, expected in [(3.5, 6.5), (2.75, 5.5), (4.25, 7.25), (8.5, 9.0)]:
        res = jm.solve_assignment(costs, unmatched_cost=r)
        assert (float(res.cost), float(res.gap)) == (expected, 0.0)
        assert expected == brute_force(costs, unmatched_cost=r)


def test_long_integers_with_unmatched_cost():
    """Costs that doubles would round, and unmatched costs that they would."""
    rng = np.random.default_rng(3)
    for base in (2**50, 2**54, 2**57):
        costs = base + rng.integers(0, 9, (50, 4, 3))
        r = base + rng.integers(0, 9, (50, 4))
        with x64(True):
            res = jm.solve_assignment(costs, unmatched_cost=r)
            must = jm.solve_assignment(costs, unmatched_cost=np.inf)
        assert (np.asarray(res.status) == jm.Status.OPTIMAL).all()
        for k in range(len(costs)):
            paid = np.where(res.col4row[k] < 0, r[k], costs[k, range(4), res.col4row[k]])
            best = brute_force(costs[k], unmatched_cost=r[k])
            assert sum(paid.tolist()) == best, (costs[k], r[k])
        assert (np.asarray(res.gap) == 0).all()
        assert_failed(must, jm.Status.INFEASIBLE)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_unmatched_costs_beyond_the_dtype_of_the_costs(dtype):
    """Integers stay exact, and none of them wraps around."""
    costs = np.ones((2, 1), dtype)
    with x64(True):
        for r in (2**31, 3 * 10**9, 2**32, -(2**40)):
            res = jm.solve_assignment(costs, unmatched_cost=r)
            assert float(res.cost) == brute_force(costs.astype(int), unmatched_cost=r)


@both_ways
def test_maximising_is_minimising_the_negative(maximize):
    rng = np.random.default_rng(4)
    costs = rng.normal(size=(30, 7, 9)).astype(np.float32)
    one = jm.solve_assignment(costs, maximize=maximize)
    other = jm.solve_assignment(-costs, maximize=not maximize)
    np.testing.assert_array_equal(one.col4row, other.col4row)
    for name in ("cost", "row_dual", "col_dual"):
        np.testing.assert_array_equal(getattr(one, name), -getattr(other, name))


@pytest.mark.parametrize("batch", [(), (1,), (6,), (3, 2), (2, 1, 3), (1, 2, 1, 3)], ids=str)
def test_batch_of_any_rank(batch):
    rng = np.random.default_rng(5)
    costs = rng.random((math.prod(batch), 5, 4)).astype(np.float32)
    flat = jm.solve_assignment(costs, unmatched_cost=0.4)
    res = jm.solve_assignment(costs.reshape(*batch, 5, 4), unmatched_cost=0.4)
    assert_same_bits(jax.tree.map(lambda x: x.reshape((*batch, *x.shape[1:])), flat), res)


def test_masks_and_unmatched_costs_broadcast():
    rng = np.random.default_rng(6)
    costs = rng.random((2, 3, 4, 5)).astype(np.float32)
    rows, cols = np.array([True, False, True, True]), rng.random((3, 5)) < 0.8
    r = rng.random((2, 1, 1)).astype(np.float32)
    res = jm.solve_assignment(costs, row_mask=rows, col_mask=cols, unmatched_cost=r)
    full = jm.solve_assignment(
        costs,
        row_mask=np.broadcast_to(rows, (2, 3, 4)),
        col_mask=np.broadcast_to(cols, (2, 3, 5)),
        unmatched_cost=np.broadcast_to(r, (2, 3, 4)),
    )
    assert_same_bits(res, full)


EMPTY = [(0, 0), (0, 3), (3, 0), (0, 3, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0)]


@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_empty(shape):
    *batch, n, m = shape
    for dtype, maximize in (("float32", False), ("int32", True)):
        costs = np.zeros(shape, dtype)
        res = jm.solve_assignment(costs, maximize=maximize)
        assert res.col4row.shape == res.row_dual.shape == (*batch, n)
        assert res.row4col.shape == res.col_dual.shape == (*batch, m)
        assert res.status.shape == res.cost.shape == res.gap.shape == tuple(batch)
        for x in (res.status, res.cost, res.gap, res.row_dual, res.col_dual):
            np.testing.assert_array_equal(x, 0)
        for x in (res.col4row, res.row4col):
            np.testing.assert_array_equal(x, -1)
        check = jm.check_assignment(costs, res, maximize=maximize)
        assert check.valid.all() and (check.gap == 0).all()
        masks = {"row_mask": np.ones(n, bool), "col_mask": np.ones(m, bool)}
        res = jm.solve_assignment(costs, **masks, unmatched_cost=2.5, warm_start=np.zeros(m))
        np.testing.assert_array_equal(res.cost, 0 if m else 2.5 * n)
        np.testing.assert_array_equal(res.row_dual, 2.5)
        must = jm.solve_assignment(costs, unmatched_cost=np.inf)
        np.testing.assert_array_equal(must.status, jm.Status.INFEASIBLE if n and not m else 0)


def test_everything_masked():
    costs = np.full((2, 3, 4), np.nan, np.float32)
    for given in (
        {"row_mask": np.zeros(3, bool)},
        {"col_mask": np.zeros(4, bool)},
        {"row_mask": np.zeros(3, bool), "col_mask": np.zeros(4, bool)},
        {"row_mask": np.zeros(3, bool), "unmatched_cost": np.nan},
    ):
        res = jm.solve_assignment(costs, **given)
        np.testing.assert_array_equal(res.status, jm.Status.OPTIMAL)
        for x in (res.cost, res.gap, res.row_dual, res.col_dual):
            np.testing.assert_array_equal(x, 0)
        for x in (res.col4row, res.row4col):
            np.testing.assert_array_equal(x, -1)
    res = jm.solve_assignment(costs, col_mask=np.zeros(4, bool), unmatched_cost=2.0)
    np.testing.assert_array_equal(res.cost, 6)
    res = jm.solve_assignment(costs, col_mask=np.zeros(4, bool), unmatched_cost=jnp.inf)
    assert_failed(res, jm.Status.INFEASIBLE)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
def test_short_integers_are_widened(dtype):
    costs = np.array([[1, 0, 1], [0, 1, 1]], dtype)
    if dtype != "bool":
        costs *= np.iinfo(dtype).max
    assert_same_bits(jm.solve_assignment(costs), jm.solve_assignment(costs.astype(np.int32)))
    best = jm.solve_assignment(costs, maximize=True)
    assert float(best.cost) == brute_force(costs.astype(int), maximize=True)
