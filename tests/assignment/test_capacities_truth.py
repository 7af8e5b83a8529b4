"""Capacities against copies, all assignments in rational arithmetic, and flows of other solvers."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
from exact import as_fraction
from helpers import numpy_dtype
from hypothesis import given, settings
from ortools.graph.python import min_cost_flow
from test_capacities import plan_of
from transport_truth import Truth

import jaxmatch as jm
from jaxmatch import Status


solve = jm.solve_capacitated_assignment


# ---------------------------------------------------------------------------------------------
# Copies


def copied(cost: Any, rows: Any, cols: Any) -> Any:
    return np.repeat(np.repeat(cost, rows, -2), cols, -1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_capacities_are_copies(dtype):
    """Of rows and of columns, more of either, and rows that may stay; costs of many digits."""
    rng = np.random.default_rng(0)
    for case in range(12):
        n, m = (20, 6) if case % 2 else (9, 12)
        cost = (1000 * rng.random((n, m))).astype(dtype)
        capacity = rng.integers(0, 6, m)
        rows = rng.integers(0, 4, n) if case % 3 == 0 else None
        options: dict[str, Any] = {"maximize": case % 4 == 1}
        copies = dict(options)
        if case % 4 > 1:
            r = (600 * rng.random(n)).astype(dtype)
            options["unmatched_cost"] = r
            copies["unmatched_cost"] = r if rows is None else np.repeat(r, rows)
        given = {"col_capacity": capacity} | ({} if rows is None else {"row_capacity": rows})
        res = solve(cost, **given, **options)
        times = np.ones(n, int) if rows is None else rows
        expected = solve(copied(cost, times, capacity), **copies)
        assert res.status == expected.status == Status.OPTIMAL
        np.testing.assert_allclose(
            res.cost, expected.cost, rtol=1e-6 if dtype == "float32" else 1e-12
        )
        plan = plan_of(res, m)
        assert (plan.sum(1) <= times).all() and (plan.sum(0) <= capacity).all()


def test_minima_are_copies_that_must_be_matched():
    """A minimum as copies whose other rows cost more than all else together."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        n, m = 12, 4
        cost, r = rng.integers(0, 100, (n, m)), rng.integers(0, 60, n)
        capacity, least = rng.integers(2, 6, m), rng.integers(0, 3, m)
        res = solve(cost, col_capacity=capacity, col_minimum=least, unmatched_cost=r)
        # Each copy that must be matched pays so well that it is.
        bonus = 10**6 * (
            np.concatenate([np.arange(b) < k for b, k in zip(capacity, least, strict=True)])
        )
        copies = np.repeat(cost, capacity, 1) - bonus
        expected = jm.solve_assignment(copies.astype(np.int64), unmatched_cost=r.astype(np.int64))
        assert res.cost == expected.cost + bonus.sum()
        assert (res.col_count >= least).all() and (res.col_count <= capacity).all()


# ---------------------------------------------------------------------------------------------
# Rational arithmetic


def best_of_all(cost: Any, r: Any, capacity: Any, least: Any, maximize: bool) -> Fraction | None:
    """Every row tries every column, and none."""
    n, m = cost.shape
    price = [
        [as_fraction(x) if np.isfinite(x) else None for x in row] for row in cost.astype(float)
    ]
    free = r is None and capacity.sum() < n  # then all places are filled
    stay = [as_fraction(0 if r is None else r[i]) for i in range(n)]
    best = None
    for choice in itertools.product(range(m + 1), repeat=n):
        count = np.bincount(choice, minlength=m + 1)
        if (count[:m] > capacity).any() or (count[:m] < least).any():
            continue
        if r is None and (count[m] if not free else (count[:m] < capacity).any()):
            continue
        terms = [stay[i] if j == m else price[i][j] for i, j in enumerate(choice)]
        if any(x is None for x in terms):
            continue
        total = sum(terms, Fraction(0))  # type: ignore[arg-type]
        if best is None or (total > best if maximize else total < best):
            best = total
    return best


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
def test_all_assignments_in_rational_arithmetic(dtype):
    """The cost is off by no more than the gap and its own rounding."""
    rng = np.random.default_rng(2)
    n, m, solved = 5, 3, 0
    for case in range(24):
        maximize = case % 3 == 0
        cost = (100 * rng.normal(size=(n, m))).astype(numpy_dtype(dtype))
        if "float" in dtype:
            cost[rng.random((n, m)) < 0.15] = -np.inf if maximize else np.inf
        r = (50 * rng.normal(size=n)).astype(cost.dtype) if case % 2 else None
        capacity, least = rng.integers(1, 4, m), rng.integers(0, 3, m)
        res = solve(
            cost, unmatched_cost=r, maximize=maximize, col_capacity=capacity, col_minimum=least
        )
        best = best_of_all(cost, r, capacity, least, maximize)
        assert (best is None) == (res.status == Status.INFEASIBLE)
        if best is None:
            continue
        solved += 1
        gap = as_fraction(res.gap) + as_fraction(np.spacing(abs(res.cost)))
        assert abs(as_fraction(res.cost) - best) <= gap
        assert res.gap == 0 or res.gap < 1e-9
    assert solved > 8


def test_capacities_of_rows_in_rational_arithmetic():
    """All of the lesser total is moved: a partial plan of whole units."""
    rng = np.random.default_rng(3)
    for case in range(60):
        n, m = rng.integers(1, 6, 2)
        cost = (100 * rng.normal(size=(n, m))).astype(np.float64)
        rows, cols = rng.integers(0, 6, n), rng.integers(0, 6, m)
        given = {"maximize": bool(case % 2)}
        options: dict[str, Any] = {"partial": min(rows.sum(), cols.sum())}
        if case % 3 == 0:
            options = {"unmatched_cost": 100 * rng.normal(size=n)}
            given |= options
        res = solve(cost, row_capacity=rows, col_capacity=cols, **given)
        truth = Truth(cost, rows, cols, **options, maximize=given["maximize"])
        best = truth.optimum()
        assert best is not None and res.status == Status.OPTIMAL
        near = as_fraction(res.gap) + Fraction(1, 2**40)
        assert abs(as_fraction(res.cost) - best) <= near
        plan = {(i, j): Fraction(int(x)) for (i, j), x in np.ndenumerate(res.todense()) if x}
        assert abs(truth.cost_of(plan) - as_fraction(res.cost)) <= Fraction(1, 2**40)


# ---------------------------------------------------------------------------------------------
# Other solvers


def flow_of(seed: int, n: int, m: int) -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    cost = rng.integers(-50, 1000, (n, m)).astype(np.float64)
    cost[rng.random((n, m)) < 0.3] = np.inf
    capacity = rng.integers(0, 3 * n // m, m)
    return cost, {
        "row_capacity": rng.integers(0, 4, n),
        "col_capacity": capacity,
        "col_minimum": rng.integers(0, 3, m).clip(0, capacity),
        "unmatched_cost": rng.integers(100, 300, n).astype(np.float64),
    }


def arcs_of(cost: Any, given: dict[str, Any]) -> tuple[list[tuple[int, ...]], int, int]:
    """From node 0 to node 1; minima are arcs that pay much more than others cost. And the flow."""
    n, m = cost.shape
    bonus, rows = 10**7, given["row_capacity"]
    arcs = [(0, 2 + i, int(x), 0) for i, x in enumerate(rows)]
    arcs += [(2 + i, 1, int(x), int(given["unmatched_cost"][i])) for i, x in enumerate(rows)]
    for i, j in np.argwhere(np.isfinite(cost)):
        arcs.append((2 + int(i), 2 + n + int(j), int(rows[i]), int(cost[i, j])))
    for j in range(m):
        # Parallel arcs would be one in NetworkX.
        arcs.append((2 + n + j, 2 + n + m + j, int(given["col_minimum"][j]), -bonus))
        arcs.append((2 + n + m + j, 1, int(given["col_minimum"][j]), 0))
        arcs.append((2 + n + j, 1, int(given["col_capacity"][j] - given["col_minimum"][j]), 0))
    return arcs, int(rows.sum()), bonus * int(given["col_minimum"].sum())


@pytest.mark.parametrize("n, m", [(40, 7), (12, 15), (100, 4)])
def test_against_or_tools(n, m):
    for seed in range(4):
        cost, given = flow_of(seed, n, m)
        arcs, flow, paid = arcs_of(cost, given)
        solver = min_cost_flow.SimpleMinCostFlow()
        for arc in arcs:
            solver.add_arc_with_capacity_and_unit_cost(*arc)
        solver.set_node_supply(0, flow)
        solver.set_node_supply(1, -flow)
        assert solver.solve() == solver.OPTIMAL
        res = solve(cost, **given)
        expected = solver.optimal_cost() + paid
        if expected >= 10**6:  # a minimum was left unpaid
            assert res.status == Status.INFEASIBLE
            continue
        assert (res.status, res.cost, res.gap) == (Status.OPTIMAL, expected, 0)
        count = res.todense().sum(0)
        assert (count >= given["col_minimum"]).all() and (count <= given["col_capacity"]).all()


def test_against_networkx():
    for seed in range(4, 7):
        cost, given = flow_of(seed, 9, 5)
        arcs, flow, paid = arcs_of(cost, given)
        graph = nx.DiGraph()
        for tail, head, capacity, weight in arcs:
            graph.add_edge(tail, head, capacity=capacity, weight=weight)
        graph.nodes[0]["demand"], graph.nodes[1]["demand"] = -flow, flow
        expected = nx.network_simplex(graph)[0] + paid
        res = solve(cost, **given)
        if expected >= 10**6:
            assert res.status == Status.INFEASIBLE
        else:
            assert (res.cost, res.gap) == (expected, 0)


def test_hall_sets():
    """Twelve rows that fit two columns only, whose capacities are 12 or one less."""
    rng = np.random.default_rng(4)
    cost = rng.integers(0, 99, (20, 6)).astype(np.float32)
    cost[:12, 2:] = np.inf
    order, others = rng.permutation(20), rng.permutation(6)
    for last, expected in ((5, Status.OPTIMAL), (4, Status.INFEASIBLE), (9, Status.OPTIMAL)):
        capacity = np.array([7, last, 3, 3, 3, 3])[others]
        for options in ({}, {"row_capacity": 1}):
            c = cost[order][:, others]
            res = solve(c, col_capacity=capacity, **options)
            assert res.status == expected
            if expected == Status.INFEASIBLE:
                free = solve(c, col_capacity=capacity, unmatched_cost=np.float32(5000), **options)
                assert (free.cost // 5000, free.status) == (1, Status.OPTIMAL)
                minimum = np.where(others == 1, 5, 0)
                more = solve(c, col_capacity=capacity + 1, col_minimum=minimum, **options)
                assert more.status == Status.OPTIMAL


# ---------------------------------------------------------------------------------------------
# What must hold for all problems

always_the_same = settings(derandomize=True, deadline=None, database=None, max_examples=60)


@st.composite
def cases(draw: Any, shapes: Any = ((1, 1), (5, 3), (3, 4))) -> tuple[Any, dict[str, Any]]:
    n, m = draw(st.sampled_from(shapes))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    given: dict[str, Any] = {"col_capacity": rng.integers(0, 4, m)}
    given["col_minimum"] = rng.integers(0, 2, m).clip(0, given["col_capacity"])
    if draw(st.booleans()):
        given["row_capacity"] = rng.integers(0, 4, n)
    if draw(st.booleans()):
        given["unmatched_cost"] = rng.integers(-5, 9, n).astype(np.float64)
    cost = rng.integers(-9, 10, (n, m)).astype(np.float64)
    cost[rng.random((n, m)) < 0.1] = np.inf
    return cost, given


@always_the_same
@given(cases(((5, 3),)))  # the check is compiled for each shape
def test_the_check_proves_every_result(case):
    cost, given = case
    res = solve(cost, **given)
    check = jm.check_capacitated_assignment(cost, res, **given)
    assert check.optimal == (res.status == Status.OPTIMAL)


@always_the_same
@given(cases(), st.randoms(use_true_random=False))
def test_rows_and_columns_in_another_order(case, random):
    cost, given = case
    p, q = (np.array(random.sample(range(k), k)) for k in cost.shape)
    moved = {k: x[q if k.startswith("col") else p] for k, x in given.items()}
    res, other = solve(cost, **given), solve(cost[p][:, q], **moved)
    assert res.status == other.status
    np.testing.assert_array_equal(res.cost, other.cost)


@always_the_same
@given(cases())
def test_more_freedom_costs_no_more(case):
    """With costs of what stays: higher capacities, lower minima; and minima at 0 are none."""
    cost, given = case
    given = given | {"unmatched_cost": given.get("unmatched_cost", np.full(len(cost), 3.0))}
    res = solve(cost, **given)
    if res.status != Status.OPTIMAL:
        return
    wider = solve(cost, **given | {"col_capacity": given["col_capacity"] + 1})
    freer = solve(cost, **{k: x for k, x in given.items() if k != "col_minimum"})
    none = solve(cost, **given | {"col_minimum": 0})
    assert wider.cost <= res.cost and freer.cost <= res.cost and none.cost == freer.cost
    # The duals bound what a place more may save.
    bound = res.cost + np.minimum(res.col_dual, 0).sum()
    assert wider.cost >= bound - 1e-9
