"""Capacities outside of a trace, by one native call: the bits of programs, and repeated calls."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from helpers import assert_same_bits, numpy_dtype, x64

import jaxmatch as jm
from jaxmatch import Status
from jaxmatch._ffi.call import Result, native_call


pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the CPU library"),
]

solve, solve_points = jm.solve_capacitated_assignment, jm.solve_capacitated_assignment_points
MOST = 2**31 - 1
BATCH, N, M = 64, 6, 4


def some(rng: Any, share: float, shape: tuple[int, ...]) -> np.ndarray:
    """True for a share of the entries, in half of the problems."""
    of_problem = rng.random((shape[0], *(1 for _ in shape[1:]))) < 0.5
    return (rng.random(shape) < share) & of_problem


def numbers(rng: Any, shape: tuple[int, ...], dtype: np.dtype, maximize: bool) -> np.ndarray:
    """Small, of many digits, and at the limits of integers; forbidden and invalid floats."""
    if dtype.kind == "i":
        most = np.iinfo(dtype)
        x = rng.integers(-9, 50, shape, dtype)
        wide = rng.integers(most.min, most.max, shape, dtype, endpoint=True)
        x[1::3], x[2::3] = wide[1::3], wide[2::3] // 4
        return x
    x = rng.normal(size=shape)
    x[::2] = np.round(5 * x[::2])
    x = np.where(some(rng, 0.1, shape), -np.inf if maximize else np.inf, x)
    return np.where(some(rng, 0.02, shape), np.nan, x).astype(dtype)


def amounts(rng: Any, size: int, most: int, dtype: Any) -> np.ndarray:
    """Also negative ones, and those whose sums do not fit 32 bits."""
    shape = (BATCH, size)
    x = np.where(some(rng, 0.05, shape), -1, rng.integers(0, most, shape))
    return np.where(some(rng, 0.2, shape), rng.choice([MOST, 2**29], shape), x).astype(dtype)


def drawn(dtype: str, names: tuple[str, ...]) -> tuple[np.ndarray, dict[str, Any], bool]:
    """Costs, the other arrays, and whether to maximize."""
    rng = np.random.default_rng(len(dtype) + 10 * len(names))
    maximize = "maximize" in names
    cost = numbers(rng, (BATCH, N, M), numpy_dtype(dtype), maximize)
    given: dict[str, Any] = {"col_capacity": amounts(rng, M, 5, np.int64)}
    if "rows" in names:
        given["row_capacity"] = amounts(rng, N, 4, np.int32)
    if "least" in names:
        least = rng.integers(-1, 3, (BATCH, M)) * (rng.random((BATCH, M)) < 0.5)
        given["col_minimum"] = least.astype(np.int32)
    if "masks" in names:
        given["row_mask"], given["col_mask"] = (rng.random((BATCH, k)) < 0.8 for k in (N, M))
    if "warm" in names:
        given["warm_start"] = rng.normal(size=(BATCH, M))
    for name in names:
        if name.startswith("stay "):
            left = numbers(rng, (BATCH, N), numpy_dtype(name[5:]), maximize)
            given["unmatched_cost"] = left
    return cost, given, maximize


# ---------------------------------------------------------------------------------------------
# The same bits


@pytest.mark.parametrize(
    "dtype, names",
    [
        ("float32", ()),
        ("float32", ("least", "masks", "stay float32", "maximize")),
        ("float64", ("rows", "least", "warm")),
        ("float64", ("rows", "stay float64", "masks")),
        ("bfloat16", ("least", "stay float16")),  # both become float32
        ("float16", ("rows", "stay float64", "least", "masks", "maximize")),
        ("int32", ("masks", "stay int64", "warm")),
        ("int32", ("least", "rows", "maximize", "masks")),
        ("int64", ("least", "stay int32")),
    ],
)
def test_an_eager_call_gives_the_bits_of_a_program(dtype, names):
    cost, given, maximize = drawn(dtype, names)
    with x64(dtype != "float32"), jax.numpy_dtype_promotion("standard"):
        res = solve(cost, **given, maximize=maximize)
        program = jax.jit(lambda cost, given: solve(cost, **given, maximize=maximize))
        expected = program(cost, given)
    assert all(type(x) is np.ndarray for x in jax.tree.leaves(res))
    assert_same_bits(res, expected)
    statuses = {*res.status.tolist()}
    assert {Status.OPTIMAL, Status.INVALID_CAPACITY} <= statuses
    assert ("least" in names) <= (Status.INFEASIBLE in statuses)
    assert (dtype == "int64") <= (Status.OVERFLOW in statuses)
    assert ("int" not in dtype) <= (Status.INVALID_COST in statuses)


@pytest.mark.parametrize("rows", [False, True])
def test_empty_problems_give_the_bits_of_programs(rows):
    costs = [np.zeros(shape, np.float32) for shape in ((2, 0, 3), (2, 3, 0), (0, 4, 3), (0, 0))]
    given = {"col_capacity": 2, "row_capacity": 2 if rows else None}

    def all_of(costs: list[Any]) -> list[Any]:
        return [solve(c, **given, col_minimum=1) for c in costs]

    assert_same_bits(all_of(costs), jax.jit(all_of)(costs))


@pytest.mark.parametrize("metric, least", [("sqeuclidean", True), ("l1", False)])
def test_points_give_the_bits_of_a_program(metric, least):
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=(k, 3)).astype(np.float32) for k in (N, M))
    masks = {"row_mask": np.arange(N) != 1, "col_mask": np.arange(M) != 2}
    given = {"col_capacity": np.array([2, 3, 9, 1])} | masks
    given |= {"col_minimum": np.array([2, 0, 1, 1])} if least else {"row_capacity": np.arange(N)}
    res = solve_points(x, y, metric=metric, **given)
    program = jax.jit(lambda x, y, given: solve_points(x, y, metric=metric, **given))
    assert res.status == Status.OPTIMAL
    assert_same_bits(res, program(x, y, given))


# ---------------------------------------------------------------------------------------------
# Capacities of every kind


@pytest.mark.parametrize("each", [0, 1, 3, -2, MOST, 2**40, -(2**40)])
def test_one_capacity_for_all(each):
    """A Python integer is no operand. Arrays of 64 bits are; others are converted before."""
    cost = np.random.default_rng(4).random((5, N, M))
    least = min(max(each, -5), 1)
    res = solve(cost, col_capacity=each, col_minimum=least, row_capacity=min(each, 2))
    for dtype in (np.int64, np.int32):
        limits = np.iinfo(dtype)
        cols, rows = (
            np.full((5, size), np.clip(x, limits.min, limits.max), dtype)
            for size, x in ((M, each), (N, min(each, 2)))
        )
        minima = np.full((5, M), least, dtype)
        assert_same_bits(solve(cost, col_capacity=cols, col_minimum=minima, row_capacity=rows), res)
        first = solve(cost, col_capacity=cols[0], col_minimum=minima[0], row_capacity=rows[0])
        assert_same_bits(first, res)


def test_int32_with_minima_is_solved_in_64_bits():
    cost = np.array([[MOST, -1], [MOST - 5, 0], [0, -MOST]], np.int32)
    res = solve(cost, col_capacity=2, col_minimum=[0, 2])
    assert res.status == Status.OPTIMAL and res.cost == -6
    assert res.col4row.tolist() == [1, 0, 1]


# ---------------------------------------------------------------------------------------------
# Repeated calls


FULL = {
    "col_capacity": np.array([2, 3, 1, 2]),
    "row_capacity": np.array([1, 2, 1, 0, 1, 1], np.int32),
    "col_minimum": np.array([1, 0, 1, 0]),
    "row_mask": np.arange(N) != 1,
    "col_mask": np.arange(M) != 0,
    "unmatched_cost": np.full(N, 0.5),
    "warm_start": np.zeros(M),
}


@pytest.mark.parametrize(
    "names", [("col_capacity",), ("row_capacity",), ("col_capacity", "col_minimum"), (*FULL,)]
)
def test_a_repeated_call_runs_the_native_call_alone(names, monkeypatch):
    given = {name: FULL[name] for name in names}
    cost = np.random.default_rng(5).random((N, M))
    of_points = {k: x for k, x in given.items() if k not in ("unmatched_cost", "warm_start")}

    def both(cost: Any) -> Any:
        return solve(cost, maximize=True, **given), solve_points(cost, cost[:M], **of_points)

    first = both(cost)
    monkeypatch.setattr("jaxmatch._assignment.capacity_solve.as_capacity_problem", None)
    monkeypatch.setattr("jaxmatch._assignment.capacity_points._as_problem", None)
    again = both(cost.copy())
    assert_same_bits(again, first)


def test_the_one_capacity_of_all_is_part_of_a_call():
    cost = np.zeros((4, 3))
    for capacity in (2, 3, 2, 1):
        counts = solve(cost, col_capacity=capacity, col_minimum=1).col_count
        assert counts.sum() == min(4, 3 * capacity) and counts.max() <= capacity


def test_minima_are_read_in_each_call_that_needs_it():
    cost = np.zeros((4, 3))
    for _ in range(2):
        assert solve(cost, col_minimum=np.array([1, 0, 1])).col_count.sum() == 3
        with pytest.raises(ValueError, match="`col_minimum` goes up to 2"):
            solve(cost, col_minimum=np.array([1, 0, 2]))


# ---------------------------------------------------------------------------------------------
# Calls that no function of Python makes


@pytest.mark.parametrize(
    "name, x, message",
    [
        ("col_capacity", np.ones((2, M), np.float32), "capacities must be integers"),
        ("unmatched_cost", np.ones((2, N), np.float16), "costs that unmatched costs do not hold"),
        ("unmatched_cost", np.ones((2, N), np.int32), "costs that unmatched costs do not hold"),
        ("col_minimum", np.ones((2, N), np.int32), "col_minimum has 12 entries .* ask for 8"),
    ],
)
def test_operands_that_do_not_fit(name, x, message):
    real, index = np.float32, np.int32
    shapes = [((N,), index), ((M,), index), ((), real), ((N,), real), ((M,), real)]
    results = [Result(*x) for x in (*shapes, ((), real), ((), index))]
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        native_call(
            "jaxmatch_capacities", [np.zeros((2, N, M), np.float32), x], results,
            core_dims=[2, 1], present=name, maximize=False, as_plan=False,
            row_capacity=1, col_capacity=1, col_minimum=-1,
        )  # fmt: skip
