"""`solve_transport` on families whose optimum is known, and what must hold for all problems."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from exact import prove
from hypothesis import given, settings
from transport_truth import assert_forest, plan_of, random_problem

import jaxmatch as jm


KINDS = ("all", "partial", "unmatched")


# ---------------------------------------------------------------------------------------------
# Families


def of_line(x: Any, a: Any, y: Any, b: Any, p: int) -> int:
    """The optimum of integers on a line, by sorting."""
    order_x, order_y = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    left, unmet = a[order_x].tolist(), b[order_y].tolist()
    i = j = total = 0
    while i < len(left) and j < len(unmet):
        mass = min(left[i], unmet[j])
        total += mass * abs(int(x[order_x[i]]) - int(y[order_y[j]])) ** p
        left[i] -= mass
        unmet[j] -= mass
        done = left[i] == 0, unmet[j] == 0
        i, j = i + done[0], j + done[1]
    return total


def integers(rng: Any, n: int, m: int, most: int = 50) -> tuple[np.ndarray, np.ndarray]:
    a = rng.integers(1, most, n)
    return a, rng.multinomial(a.sum() - m, np.ones(m) / m) + 1


@pytest.mark.parametrize("method", ["network_simplex", "xla"])
def test_costs_on_a_line(method):
    rng = np.random.default_rng(7)
    n, m = (60, 45) if method == "network_simplex" else (12, 9)
    for p in (1, 2, 3):
        x, y = rng.integers(0, 100, n), rng.integers(0, 100, m)
        a, b = integers(rng, n, m)
        cost = np.abs(x[:, None] - y) ** p
        res = jm.solve_transport(cost, a, b, method=method)
        assert (res.cost, res.gap) == (of_line(x, a, y, b, p), 0)


@pytest.mark.parametrize("method", ["network_simplex", "xla"])
def test_equal_costs_and_outer_products(method):
    """Of a product of two falling factors, the greatest total pairs the greatest with them."""
    rng = np.random.default_rng(8)
    n, m = (50, 70) if method == "network_simplex" else (12, 9)
    a, b = integers(rng, n, m)
    res = jm.solve_transport(np.full((n, m), 7), a, b, method=method)
    assert (res.cost, res.gap) == (7 * a.sum(), 0)
    assert_forest(plan_of(res))
    x, y = rng.integers(-30, 30, n), rng.integers(-30, 30, m)
    least, most = (
        jm.solve_transport(np.outer(x, y), a, b, maximize=k, method=method) for k in (False, True)
    )
    # (x - y)^2 = x^2 + y^2 - 2 x y
    squares = (a * x**2).sum() + (b * y**2).sum()
    assert 2 * most.cost == squares - of_line(x, a, y, b, 2)
    assert 2 * least.cost == of_line(x, a, -y, b, 2) - squares
    assert least.gap == most.gap == 0


@pytest.mark.parametrize("shift", [0, 1])
def test_machol_wien_costs(shift):
    """Hard for assignments: products of row and column number, here with masses."""
    n = 40
    index = np.arange(1, n + 1)
    cost = index[:, None] * (index + shift)
    a = np.where(index % 3 == 0, 5, 1)
    b = a[::-1].copy()
    res = jm.solve_transport(cost, a, b)
    squares = (a * index**2).sum() + (b * (index + shift) ** 2).sum()
    assert 2 * res.cost == of_line(index, a, -index - shift, b, 2) - squares
    assert res.gap == 0


def forced(rng: Any, n: int, m: int) -> tuple[np.ndarray, ...]:
    """A staircase of allowed pairs: one tree, so one plan."""
    at = [(0, 0)]
    while at[-1] != (n - 1, m - 1):
        i, j = at[-1]
        down = j == m - 1 or (i < n - 1 and rng.random() < n / (n + m))
        at.append((i + 1, j) if down else (i, j + 1))
    plan = np.zeros((n, m), np.int64)
    for i, j in at:
        plan[i, j] = rng.integers(1, 30)
    cost = np.where(plan > 0, rng.integers(-99, 99, (n, m)), np.inf)
    p, q = rng.permutation(n), rng.permutation(m)
    return cost[p][:, q], plan[p][:, q], plan.sum(1)[p], plan.sum(0)[q]


@pytest.mark.parametrize("mass", ["int64", "float64"])
def test_forbidden_pairs_force_the_plan(mass):
    rng = np.random.default_rng(9)
    for n, m in ((5, 5), (30, 41), (64, 17)):
        cost, plan, a, b = forced(rng, n, m)
        res = jm.solve_transport(cost, a.astype(mass), b.astype(mass))
        assert res.cost == (np.where(plan > 0, cost, 0) * plan).sum()
        np.testing.assert_array_equal(res.todense(), plan)
        # Each pair of it is needed.
        for i, j in rng.permutation(np.argwhere(plan > 0))[:5]:
            less = cost.copy()
            less[i, j] = np.inf
            res = jm.solve_transport(less, a.astype(mass), b.astype(mass))
            assert res.status == jm.Status.INFEASIBLE


@pytest.mark.parametrize("method", ["network_simplex", "xla"])
def test_hall_sets_of_masses(method):
    """Rows whose columns have exactly the mass that is needed, and a unit less."""
    rng = np.random.default_rng(10)
    n, m, rows, cols = (40, 40, 15, 10) if method == "network_simplex" else (12, 9, 5, 3)
    cost = rng.integers(0, 99, (n, m)).astype(np.float64)
    cost[:rows, cols:] = np.inf
    a = rng.integers(1, 9, n)
    inner, outer = a[:rows].sum(), a[rows:].sum()

    def parts(total: int, k: int) -> np.ndarray:
        return rng.multinomial(total, np.ones(k) / k)

    for less, expected in ((0, "OPTIMAL"), (1, "INFEASIBLE"), (-1, "OPTIMAL")):
        b = np.concatenate([parts(inner - less, cols), parts(outer + less, m - cols)])
        p, q = rng.permutation(n), rng.permutation(m)
        res = jm.solve_transport(cost[p][:, q], a[p], b[q], method=method)
        assert str(jm.Status(int(res.status))) == expected
        if less == 0 and method != "xla":  # two problems beside each other
            apart = [
                jm.solve_transport(cost[:rows, :cols], a[:rows], b[:cols]).cost,
                jm.solve_transport(cost[rows:, cols:], a[rows:], b[cols:]).cost,
            ]
            assert res.cost == sum(apart)
        if method == "xla":
            continue
        left = jm.solve_transport(cost, a, b, partial=a.sum() - max(less, 0), method=method)
        assert left.status == jm.Status.OPTIMAL  # without that unit there is a plan


def test_equal_rows_share_what_one_row_moves():
    rng = np.random.default_rng(11)
    cost = rng.integers(0, 99, (6, 8))
    a, b = integers(rng, 6, 8)
    res = jm.solve_transport(cost, a, b)
    halves = np.concatenate([a // 2, a - a // 2])
    again = jm.solve_transport(np.concatenate([cost, cost]), halves, b)
    assert again.cost == res.cost
    assert_forest(plan_of(again))


def test_unit_masses_are_an_assignment():
    rng = np.random.default_rng(12)
    for n in (1, 2, 40):
        for cost in (rng.integers(0, 99, (n, n)), rng.random((n, n)), rng.integers(0, 2, (n, n))):
            one = np.ones(n, np.int32)
            for maximize in (False, True):
                res = jm.solve_transport(cost, one, one, maximize=maximize)
                expected = jm.solve_assignment(cost, maximize=maximize)
                np.testing.assert_allclose(res.cost, expected.cost, rtol=1e-15)
                assert (res.mass[:n] == 1).all() and (res.rows[:n] == np.arange(n)).all()
                # Either's duals prove the pairs of the other.
                for pairs, by in ((res.cols[:n], expected), (expected.col4row, res)):
                    assert prove(cost, pairs, by.col_dual, maximize)[1] <= n * 1e-15


# ---------------------------------------------------------------------------------------------
# What must hold for all problems

always_the_same = settings(derandomize=True, deadline=None, database=None, max_examples=60)
# Few shapes, as the check is compiled for each.
cases = st.tuples(
    st.sampled_from([(1, 1), (3, 4), (5, 2)]), st.sampled_from(KINDS), st.integers(0, 2**31)
)


def as_given(case: Any) -> tuple[Any, dict[str, Any]]:
    (n, m), kind, seed = case
    rng = np.random.default_rng(seed)
    arrays, given = random_problem(rng, n, m, kind, "float64", "int64", whole=True)
    cost = np.where(np.isinf(arrays[0]), np.inf, arrays[0])
    return (cost, *arrays[1:]), given | {"maximize": False}


@always_the_same
@given(cases)
def test_the_check_proves_every_result(case):
    arrays, given = as_given(case)
    res = jm.solve_transport(*arrays, **given)
    check = jm.check_transport(*arrays, res, **given)
    optimal = res.status == jm.Status.OPTIMAL
    assert check.optimal == optimal and (check.valid or not optimal)
    assert check.gap == (0 if optimal else np.inf)


@always_the_same
@given(cases, st.randoms(use_true_random=False))
def test_rows_and_columns_in_another_order(case, random):
    (cost, a, b), given = as_given(case)
    p, q = (np.array(random.sample(range(k), k)) for k in cost.shape)
    res = jm.solve_transport(cost, a, b, **given)
    if "unmatched_cost" in given:
        given["unmatched_cost"] = given["unmatched_cost"][p]
    moved = jm.solve_transport(cost[p][:, q], a[p], b[q], **given)
    assert moved.status == res.status
    np.testing.assert_array_equal(moved.cost, res.cost)
    if res.status == jm.Status.OPTIMAL:  # the moved duals prove the plan of the other
        other = moved.replace(row_dual=res.row_dual[p], col_dual=res.col_dual[q])
        assert jm.check_transport(cost[p][:, q], a[p], b[q], other, **given).optimal


@always_the_same
@given(cases, st.integers(-3, 3))
def test_scaled_costs_and_masses(case, power):
    (cost, a, b), given = as_given(case)
    res = jm.solve_transport(cost, a, b, **given)
    factor, times = 2.0**power, 1 + abs(power)
    of_cost, of_mass = dict(given), dict(given)
    if "unmatched_cost" in given:
        of_cost["unmatched_cost"] = given["unmatched_cost"] * factor
    if "partial" in given:
        of_mass["partial"] = given["partial"] * times
    scaled = jm.solve_transport(cost * factor, a, b, **of_cost)
    for name in ("rows", "cols", "mass", "status"):
        np.testing.assert_array_equal(getattr(scaled, name), getattr(res, name))
    for name in ("cost", "row_dual", "col_dual"):
        np.testing.assert_array_equal(getattr(scaled, name), getattr(res, name) * factor)
    more = jm.solve_transport(cost, a * times, b * times, **of_mass)
    assert more.status == res.status
    np.testing.assert_array_equal(more.cost, res.cost * times)
    # One more unit of cost in a row costs its supply, where all of it moves.
    if not set(given) & {"unmatched_cost", "partial"}:
        more = jm.solve_transport(cost + np.eye(len(a))[0][:, None], a, b)
        np.testing.assert_array_equal(more.cost, res.cost + a[0])


@always_the_same
@given(cases)
def test_maximising_is_minimising_the_opposite(case):
    (cost, a, b), given = as_given(case)
    res = jm.solve_transport(cost, a, b, **given)
    opposite = given | {"maximize": True}
    if "unmatched_cost" in given:
        opposite["unmatched_cost"] = -given["unmatched_cost"]
    most = jm.solve_transport(-cost, a, b, **opposite)
    for name in ("rows", "cols", "mass", "gap", "status"):
        np.testing.assert_array_equal(getattr(most, name), getattr(res, name))
    for name in ("cost", "row_dual", "col_dual"):
        np.testing.assert_array_equal(getattr(most, name), 0 - getattr(res, name))


@always_the_same
@given(cases)
def test_rows_and_columns_change_places(case):
    (cost, a, b), given = as_given(case)
    if "unmatched_cost" in given:
        return
    res, other = jm.solve_transport(cost, a, b, **given), jm.solve_transport(cost.T, b, a, **given)
    assert (other.status, np.isnan(other.cost)) == (res.status, np.isnan(res.cost))
    np.testing.assert_array_equal(other.cost, res.cost)
