"""Capacities and minima of columns and rows, against copies of columns and linear programs."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest
from helpers import problem, to_numpy, x64
from scipy.optimize import linear_sum_assignment, linprog

import jaxmatch as jm
from jaxmatch import Status


METHODS = ["auto", "xla"]
solve = jm.solve_capacitated_assignment


def capacities_of(given: dict[str, Any], n: int, m: int) -> tuple[np.ndarray, ...]:
    """Of existing rows and columns, 0 for others."""
    rows = np.broadcast_to(given.get("row_capacity", 1), n) * given.get("row_mask", True)
    cols = np.broadcast_to(given.get("col_capacity", 1), m) * given.get("col_mask", True)
    least = np.broadcast_to(given.get("col_minimum", 0), m) * given.get("col_mask", True)
    return rows, cols, least


def linear_program(cost: Any, given: dict[str, Any]) -> float | None:
    """The optimum of a problem of small integers, None if there is none."""
    n, m = cost.shape
    sign = -1 if given.get("maximize") else 1
    a, b, least = capacities_of(given, n, m)
    exists = (a > 0)[:, None] & (b > 0)[None, :]
    c = np.where(exists, cost, 0).astype(np.float64) * sign
    allowed = np.isfinite(c) & exists
    c = np.where(allowed, c, 0)
    r = given.get("unmatched_cost")
    stays = np.zeros(n) if r is None else sign * np.broadcast_to(r, n).astype(np.float64)
    # Variables: the pairs, and what is left of each row.
    of_rows, of_cols = np.zeros((n, n * m + n)), np.zeros((m, n * m + n))
    for i, j in itertools.product(range(n), range(m)):
        of_rows[i, i * m + j] = of_cols[j, i * m + j] = 1
    of_rows[:, n * m :] = np.eye(n)
    equal, sums = [of_rows], [a]
    if r is None:
        equal.append(of_cols.sum(0, keepdims=True))
        sums.append([min(a.sum(), b.sum())])
    may_stay = np.isfinite(stays)
    bounds = [(0, None if ok else 0) for ok in [*allowed.ravel(), *may_stay]]
    found = linprog(
        np.concatenate([c.ravel(), np.where(may_stay, stays, 0)]),
        A_eq=np.concatenate(equal),
        b_eq=np.concatenate(sums),
        A_ub=np.concatenate([of_cols, -of_cols]),
        b_ub=np.concatenate([b, -least]),
        bounds=bounds,
        method="highs",
    )
    return sign * found.fun if found.success else None


def plan_of(res: Any, m: int) -> np.ndarray:
    """How often each pair of one problem is used."""
    if isinstance(res, jm.Transport):
        return np.asarray(res.todense())
    plan = np.zeros((res.col4row.size, m), np.int64)
    matched = np.flatnonzero(res.col4row >= 0)
    plan[matched, res.col4row[matched]] = 1
    np.testing.assert_array_equal(plan.sum(0), res.col_count)
    return plan


def tolerance(res: Any, method: str) -> float:
    """Duals of the native solver are fractions, which float32 rounds."""
    return 0 if method == "xla" or res.cost.dtype == np.float64 else 1e-4


def assert_optimal(cost: np.ndarray, res: Any, given: dict[str, Any], tol: float = 0) -> None:
    """One problem of small integers, whose sums no float rounds."""
    n, m = cost.shape
    a, b, least = capacities_of(given, n, m)
    expected = linear_program(cost, given)
    if expected is None:
        assert_failed(res, Status.INFEASIBLE)
        return
    assert res.status == Status.OPTIMAL and res.gap == 0
    np.testing.assert_allclose(res.cost, expected, atol=1e-6)
    plan, r = plan_of(res, m), given.get("unmatched_cost")
    left, count = a - plan.sum(1), plan.sum(0)
    assert (left >= 0).all() and (count <= b).all() and (count >= least).all()
    total = (np.where(plan > 0, cost, 0) * plan).sum()
    total += 0 if r is None else (np.where(left > 0, r, 0) * left).sum()
    assert total == res.cost
    # The certificate, as documented.
    sign = -1 if given.get("maximize") else 1
    u, v = (sign * x.astype(np.float64) for x in (res.row_dual, res.col_dual))
    rows, cols = given.get("row_mask", np.ones(n, bool)), given.get("col_mask", np.ones(m, bool))
    assert (u[~rows] == 0).all() and (v[~cols] == 0).all()
    slack = sign * np.where(plan > 0, cost, 0) - u[:, None] - v
    assert (np.abs(slack[plan > 0]) <= tol).all()
    free = np.isfinite(cost) & ((a > 0)[:, None] & (b > 0))
    assert (np.where(free, sign * np.where(free, cost, 0) - u[:, None] - v, 0) >= -tol).all()
    value = a @ u + b @ v
    if r is not None or a.sum() < b.sum():
        assert (v[cols & (count > least)] <= tol).all() and (v[cols & (count < b)] >= -tol).all()
        value = a @ u + b @ np.minimum(v, 0) + least @ np.maximum(v, 0)
    if r is not None or a.sum() > b.sum():
        r = sign * np.broadcast_to(0 if r is None else r, n)
        assert (u <= r + tol)[a > 0].all() and (np.abs(u - r)[left > 0] <= tol).all()
    assert abs(value - sign * res.cost) <= 100 * tol


def assert_failed(res: Any, status: Status) -> None:
    assert (res.status == status).all(), res.status
    for x in (res.cost, res.gap, res.row_dual, res.col_dual):
        assert np.isnan(x).all()
    if isinstance(res, jm.Transport):
        assert (res.rows == -1).all() and (res.cols == -1).all() and (res.mass == 0).all()
    else:
        assert (res.col4row == -1).all() and (res.col_count == 0).all()


# ---------------------------------------------------------------------------------------------
# Optima


@pytest.mark.parametrize("method", METHODS)
def test_against_copies_of_columns(method):
    """As many rows as places, fewer, and more."""
    rng = np.random.default_rng(0)
    cost = rng.integers(-50, 50, (30, 9, 4)).astype(np.float32)
    for capacity in (np.array([3, 1, 2, 3]), np.array([4, 4, 0, 4]), np.array([1, 1, 3, 0])):
        for maximize in (False, True):
            given = {"col_capacity": capacity, "maximize": maximize}
            res = solve(cost, method=method, **given)
            for c, own in zip(cost, [res[k] for k in range(30)], strict=True):
                copies = np.repeat(c, capacity, axis=1)
                best = copies[linear_sum_assignment(copies, maximize)].sum()
                assert own.cost == best and own.status == Status.OPTIMAL
                assert_optimal(c, own, given, tolerance(res, method))
            check = jm.check_capacitated_assignment(cost, res, **given)
            assert check.valid.all() and (check.gap <= 100 * tolerance(res, method)).all()


@pytest.mark.parametrize("method", METHODS)
def test_against_all_assignments(method):
    rng = np.random.default_rng(1)
    n, m = 4, 3
    cost = rng.integers(0, 20, (40, n, m)).astype(np.int32)
    r = rng.integers(0, 15, (40, n)).astype(np.int32)
    capacity, least = np.array([2, 3, 1]), np.array([1, 0, 1])
    res = solve(cost, unmatched_cost=r, col_capacity=capacity, col_minimum=least, method=method)
    choices = np.array(list(itertools.product(range(m + 1), repeat=n)))
    counts = np.stack([(choices == j).sum(1) for j in range(m)], 1)
    choices = choices[((counts <= capacity) & (counts >= least)).all(1)]
    costs = np.concatenate([cost, r[..., None]], -1)
    best = costs[:, np.arange(n), choices].sum(-1).min(-1)
    np.testing.assert_array_equal(res.cost, best)


def random_given(rng: Any, n: int, m: int, *names: str) -> dict[str, Any]:
    """One problem's arguments; costs of masked rows and columns are left to the caller."""
    given: dict[str, Any] = {}
    if "masks" in names:
        given["row_mask"], given["col_mask"] = rng.random(n) < 0.8, rng.random(m) < 0.8
    if "rows" in names:
        given["row_capacity"] = rng.integers(0, 4, n)
    given["col_capacity"] = rng.integers(0, 5, m)
    if "least" in names:
        given["col_minimum"] = rng.integers(-1, 3, m) * (rng.random(m) < 0.5)
    if "unmatched" in names:
        given["unmatched_cost"] = rng.integers(-3, 10, n)
    return given


FEATURES = [
    ("float32", ()),
    ("float32", ("masks", "least")),
    ("float32", ("unmatched", "least", "forbidden", "masks")),
    ("float32", ("rows", "least", "forbidden")),
    ("bfloat16", ("rows", "unmatched", "masks")),
    ("int32", ("least", "masks", "rows", "unmatched")),
    ("int32", ("least",)),
    ("int64", ("rows", "least", "unmatched")),
    ("float64", ("least", "unmatched", "masks", "forbidden")),
    ("float64", ("rows", "least")),
]


# The twin takes ten seconds to compile: three of these have every feature.
@pytest.mark.parametrize(
    "method, dtype, names",
    [("auto", *x) for x in FEATURES] + [("xla", *FEATURES[k]) for k in (2, 5, 9)],
)
def test_features_against_linear_programs(dtype, names, method):
    rng = np.random.default_rng(len(names))
    n, m, size, maximize = 6, 4, 32, "masks" in names
    cost = rng.integers(-9, 10, (size, n, m)).astype(dtype)
    each = [random_given(rng, n, m, *names) for _ in range(size)]
    given = {name: np.stack([x[name] for x in each]) for name in each[0]}
    if "unmatched" in names:
        given["unmatched_cost"] = given["unmatched_cost"].astype(dtype)
    if "forbidden" in names:
        cost[rng.random(cost.shape) < 0.2] = -np.inf if maximize else np.inf
        if "unmatched" in names:
            r = given["unmatched_cost"]
            r[rng.random(r.shape) < 0.1] = -np.inf if maximize else np.inf
    if "masks" in names:
        gone = ~(given["row_mask"][:, :, None] & given["col_mask"][:, None, :])
        cost[gone] = np.nan if "float" in dtype else 2**31 - 1
    res = solve(cost, maximize=maximize, method=method, **given)
    check = jm.check_capacitated_assignment(cost, res, maximize=maximize, **given)
    solved, tol = 0, tolerance(res, method)
    for k in range(size):
        one = {name: x[k] for name, x in given.items()} | {"maximize": maximize}
        own = problem(res, k)
        assert_optimal(cost[k], own, one, tol)
        optimal = own.status == Status.OPTIMAL
        solved += optimal
        assert check.valid[k] == optimal and (tol > 0 or check.optimal[k] == optimal)
        assert check.gap[k] <= 100 * tol if optimal else check.gap[k] == np.inf
    assert solved > size / 3


def test_capacities_of_one_are_plain():
    rng = np.random.default_rng(2)
    for shape in ((5, 7, 7), (5, 4, 9), (5, 9, 4)):
        cost = rng.random(shape)
        for given in ({}, {"maximize": True}, {"unmatched_cost": np.full(shape[1], 0.3)}):
            plain = jm.solve_assignment(cost, **given)
            res = solve(cost, col_capacity=1, **given)
            np.testing.assert_allclose(res.cost, plain.cost, rtol=1e-12)
            np.testing.assert_array_equal(res.col4row, plain.col4row)
            np.testing.assert_array_equal(res.col_count, plain.row4col >= 0)
            plan = solve(cost, row_capacity=1, **given)
            dense = np.asarray(plan.todense())
            np.testing.assert_array_equal(
                dense, np.asarray(res.col4row)[..., None] == np.arange(shape[2])
            )


def test_a_minimum_above_the_default_capacity_is_an_error():
    cost = np.zeros((6, 2), np.float32)
    with pytest.raises(ValueError, match="`col_minimum` goes up to 3, but `col_capacity` is 1"):
        jm.solve_capacitated_assignment(cost, col_minimum=3)
    with pytest.raises(ValueError, match="`col_minimum` goes up to 2"):
        jm.solve_capacitated_assignment_points(cost, cost, col_minimum=[1, 2, 1, 1, 1, 1])


def test_a_minimum_alone_says_which_columns_must_be_matched():
    cost = np.array([[1.0, 9.0], [2.0, 9.0], [3.0, 9.0]])
    assert solve(cost, unmatched_cost=4.0, col_capacity=1).col_count.tolist() == [1, 0]
    res = solve(cost, unmatched_cost=4.0, col_minimum=[0, 1])
    assert res.col_count.tolist() == [1, 1] and res.cost == 14


def test_pairs_that_are_used_more_than_once():
    cost = np.array([[1, 5], [2, 9]])
    res = solve(cost, row_capacity=[3, 1], col_capacity=[2, 4])
    np.testing.assert_array_equal(res.todense(), [[1, 2], [1, 0]])
    assert res.cost == 13 and res.mass.dtype == np.int32
    # A column with a minimum is two columns inside, but one entry for each of its rows.
    res = solve(cost, row_capacity=[3, 1], col_capacity=[2, 4], col_minimum=[1, 1])
    entries = list(zip(res.rows.tolist(), res.cols.tolist(), res.mass.tolist(), strict=True))
    assert entries[:3] == [(0, 0, 1), (0, 1, 2), (1, 0, 1)] and res.mass.size == 5
    assert entries[3:] == [(-1, -1, 0)] * 2


# ---------------------------------------------------------------------------------------------
# Statuses


@pytest.mark.parametrize(
    "method, dtype", [("auto", "float32"), ("auto", "int32"), ("xla", "float32")]
)
def test_statuses(dtype, method):
    cost = np.arange(15).reshape(5, 3).astype(dtype)
    given = [
        (Status.OPTIMAL, [2, 2, 2], [1, 2, 2]),
        (Status.INFEASIBLE, [2, 2, 2], [0, 3, 0]),  # more than the capacity
        (Status.INFEASIBLE, [2, 2, 2], [2, 2, 2]),  # more than the rows
        (Status.INVALID_CAPACITY, [2, -1, 9], [0, 0, 0]),
        (Status.OPTIMAL, [2, 0, 3], [0, -5, 0]),
        (Status.OPTIMAL, [1, 1, 1], [1, 1, 1]),
    ]
    statuses, capacity, least = (np.array(x) for x in zip(*given, strict=True))
    costs = np.broadcast_to(cost, (len(given), 5, 3))
    leave, rows = {"unmatched_cost": np.full(5, 100, dtype)}, {"row_capacity": 1}
    for more in ({}, leave, rows) if method == "auto" else ({}, leave | rows):
        res = solve(costs, col_capacity=capacity, col_minimum=least, method=method, **more)
        np.testing.assert_array_equal(res.status, statuses)
        check = jm.check_capacitated_assignment(
            costs, res, col_capacity=capacity, col_minimum=least, **more
        )
        np.testing.assert_array_equal(check.optimal, statuses == Status.OPTIMAL)
        for k in np.flatnonzero(statuses):
            assert_failed(problem(to_numpy(res), k), statuses[k])
        if dtype == "float32":
            res = solve(
                np.where(costs == 4, np.nan, costs),
                col_capacity=capacity, col_minimum=least, method=method, **more,
            )  # fmt: skip
            assert_failed(to_numpy(res), Status.INVALID_COST)


def test_forbidden_pairs_may_leave_a_minimum_unmet():
    cost = np.array([[0, np.inf], [0, np.inf], [0, 1]])
    res = solve(cost, col_capacity=3, col_minimum=[0, 2])
    assert_failed(res, Status.INFEASIBLE)
    assert solve(cost, col_capacity=3, col_minimum=[0, 1]).cost == 1
    # Columns that rows may not take, but for lack of others.
    assert_failed(solve(cost, col_capacity=[1, 2]), Status.INFEASIBLE)


def test_capacities_of_any_size():
    """Capacities that mean none, in any integer dtype, also where their sum does not fit."""
    rng = np.random.default_rng(3)
    cost = rng.random((20, 6))
    expected = cost.min(1).sum()
    for most in (2**31 - 1, np.int64(2**62), np.uint64(2**64 - 1), np.int32(20), np.uint8(200)):
        for method in METHODS if most == np.uint64(2**64 - 1) else METHODS[:1]:
            res = solve(cost, col_capacity=most, method=method)
            np.testing.assert_allclose(res.cost, expected, rtol=1e-6)
            res = solve(cost, col_capacity=most, col_minimum=np.int8(1), method=method)
            assert res.status == Status.OPTIMAL and res.col_count.min() >= 1
    res = solve(cost, row_capacity=2**28, col_capacity=2**31 - 1)
    assert_failed(res, Status.OVERFLOW)
    res = solve(cost, row_capacity=2**25, col_capacity=2**31 - 1)
    assert res.mass.sum() == 20 * 2**25 and res.status == Status.OPTIMAL
    np.testing.assert_allclose(res.cost, 2**25 * expected)


def test_integers_that_span_their_dtype():
    most = 2**31 - 1
    cost = np.array([[most, -1], [most - 5, 0], [0, -most]], np.int32)
    given = {"col_capacity": 2, "col_minimum": [0, 2]}
    with x64(True):  # 64 bits hold what outweighs them
        assert_optimal(cost.astype(np.int64), solve(cost, **given), given)
    assert_failed(jax.jit(lambda c: solve(c, **given))(cost), Status.OVERFLOW)
    half = cost // 2
    assert_optimal(half.astype(np.int64), solve(half.astype(np.int64), **given), given)
    assert solve(cost, col_capacity=2).status == Status.OPTIMAL


def test_empty_sides():
    for n, m in ((0, 3), (3, 0), (0, 0)):
        for batch in ((), (2,)):
            cost = np.zeros((*batch, n, m), np.float32)
            for method in METHODS[: 1 if batch or m == 0 else 2]:
                res = solve(cost, col_capacity=2, method=method)
                assert res.col4row.shape == (*batch, n) and res.col_count.shape == (*batch, m)
                assert (res.cost == 0).all() and (res.status == 0).all()
                res = solve(cost, col_capacity=2, unmatched_cost=2, method=method)
                assert (res.cost == 2 * n).all()
                res = solve(cost, col_capacity=2, col_minimum=1, method=method)
                assert (res.status == (Status.INFEASIBLE if m > 0 else Status.OPTIMAL)).all()
                plan = solve(cost, row_capacity=2, method=method)
                assert plan.todense().shape == cost.shape and (plan.status == 0).all()
