"""`solve_transport` against rational arithmetic, other solvers and problems of known optimum."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from exact import prove
from helpers import numpy_dtype, problem, to_numpy, x64
from hypothesis import given, settings
from ortools.graph.python import min_cost_flow
from transport_truth import Truth, assert_forest, assert_true, best_of_all_bases, plan_of

import jaxmatch as jm


KINDS = ("all", "partial", "unmatched")
COSTS = ("bfloat16", "float16", "float32", "float64", "int32", "int64")
MASSES = ("int32", "int64", "float32", "float64")
EACH = [
    (cost, mass, KINDS[k % 3])
    for k, (cost, mass) in enumerate(itertools.product(COSTS, MASSES + MASSES[2:]))
]


def random_problem(
    rng: Any, n: int, m: int, kind: str, cost: str, mass: str, whole: bool = False
) -> tuple[tuple[Any, Any, Any], dict[str, Any]]:
    """Costs with ties or of many digits, some forbidden; even, sparse or lopsided masses."""
    maximize = bool(rng.integers(2))
    size = 1 if whole or rng.random() < 0.5 else 97.3
    c = (size * rng.integers(-9, 10, (n, m))).astype(numpy_dtype(cost))
    if "float" in cost:
        c[rng.random((n, m)) < rng.choice([0, 0.15])] = -np.inf if maximize else np.inf
    if "int" in mass:
        a = rng.integers(0, 7, n)
        b = rng.multinomial(a.sum(), np.ones(m) / m) if kind == "all" else rng.integers(0, 7, m)
        moved = rng.integers(0, min(a.sum(), b.sum()) + 1)
    else:
        most = rng.choice([1, 0.1])
        # None so small that the grid loses it.
        a, b = (rng.dirichlet(np.full(k, most)) + 1e-9 * (rng.random(k) < 0.8) for k in (n, m))
        a, b = (np.where(x < 1e-12, 0, x) for x in (a, b))
        a, b = a / a.sum(), b / b.sum() * (1 if kind == "all" else rng.choice([0.6, 1, 3]))
        moved = min(a.sum(), b.sum()) * rng.choice([0, 0.1, 0.8])
    given: dict[str, Any] = {"maximize": maximize}
    if kind == "partial":
        given["partial"] = np.asarray(moved, mass)
    if kind == "unmatched":
        given["unmatched_cost"] = rng.integers(-9, 10, n).astype(c.dtype)
    return (c, a.astype(mass), b.astype(mass)), given


# ---------------------------------------------------------------------------------------------
# Rational arithmetic


@pytest.mark.parametrize("n, m, count", [(2, 2, 40), (3, 3, 40), (2, 4, 20), (4, 3, 6), (4, 4, 1)])
def test_the_truth_is_the_best_of_all_bases(n, m, count):
    """Two algorithms of the tests, which share no code."""
    rng = np.random.default_rng(n * m)
    for _ in range(count):
        arrays, options = random_problem(rng, n, m, "all", "float64", rng.choice(MASSES))
        truth = Truth(*arrays, **options)
        best = best_of_all_bases(truth.cost, truth.supply, truth.demand)
        assert truth.optimum() == (None if best is None else truth.sign * best)


@pytest.mark.parametrize("cost, mass, kind", EACH)
def test_small_problems_in_rational_arithmetic(cost, mass, kind):
    """Plan, cost and gap of every combination of dtypes, with x64 where NumPy has it."""
    rng = np.random.default_rng(len(cost + mass + kind))
    seen = set()
    for _ in range(60):
        n, m = rng.integers(1, 5, 2)
        arrays, options = random_problem(rng, n, m, kind, cost, mass)
        res = jm.solve_transport(*arrays, **options)
        assert res.mass.dtype == mass
        wide = {cost, mass} & {"float64", "int64"}
        assert res.cost.dtype == res.gap.dtype == (np.float64 if wide else np.float32)
        seen.add(assert_true(*arrays, res, **options))
        if "int" in cost and "int" in mass:
            assert res.gap == 0
    assert "OPTIMAL" in seen


@pytest.mark.parametrize(
    "kind, mass, on",
    [("all", "float64", True), ("partial", "int64", True), ("unmatched", "float32", False)],
)
def test_the_twin_in_rational_arithmetic(kind, mass, on, optimised):
    rng = np.random.default_rng(3)
    cost = "float64" if on else "float32"
    many = [random_problem(rng, 4, 4, kind, cost, mass) for _ in range(400)]
    many = [(arrays, options) for arrays, options in many if not options["maximize"]][:100]
    with x64(on):
        arrays = [jnp.asarray(np.stack(x)) for x in zip(*(x for x, _ in many), strict=True)]
        options = {k: jnp.asarray(np.stack([x[k] for _, x in many])) for k in many[0][1]}
        res = to_numpy(jm.solve_transport(*arrays, method="xla", **options | {"maximize": False}))
    seen = set()
    for k, (one, options) in enumerate(many):
        own = problem(res, k)
        seen.add(assert_true(*one, own, **options) if on else assert_near(one, own, options))
    assert "OPTIMAL" in seen


def assert_near(arrays: Any, res: Any, given: dict[str, Any]) -> str:
    """On a grid of 2^-30 of the total."""
    best, status = Truth(*arrays, **given).optimum(), jm.Status(int(res.status))
    assert (best is None) == (status == jm.Status.INFEASIBLE)
    if best is not None:
        assert status == jm.Status.OPTIMAL
        assert abs(float(res.cost) - best) <= float(res.gap) + 1e-6 * max(1, abs(best))
        assert res.gap <= 1e-3
    return str(status)


def test_the_gap_covers_demands_that_do_not_sum_as_supplies_do():
    """They differ by less than a unit of the grid for each column: all of it goes to one."""
    unit, m = Fraction(1, 2**59), 100
    demand = np.full(m, 1 / m)
    off = sum(map(Fraction, demand)) - (1 - (m - 1) * unit)
    demand[1] -= float(off)
    assert 0 < 1 - sum(map(Fraction, demand)) < m * unit
    cost = -np.ones((1, m))
    cost[0, demand.argmax()] = 1
    supply = np.ones(1)
    res = jm.solve_transport(cost, supply, demand)
    best = Truth(cost, supply, demand).optimum()
    rounding = Fraction(float(np.spacing(abs(res.cost)))) / 2
    assert abs(Fraction(float(res.cost)) - best) <= Fraction(float(res.gap)) + rounding


@pytest.mark.parametrize("most", [1e-12, 1e-9])
@pytest.mark.parametrize("mass", ["float32", "float64"])
def test_small_masses_beside_great_ones(mass, most):
    """Each of them reaches its row and column, also beside 10^12 times as much."""
    rng = np.random.default_rng(4)
    n = m = 5
    for _ in range(40):
        a, b = (most * rng.integers(0, 9, k).astype(np.float64) for k in (n, m))
        a[rng.integers(n)] = b[rng.integers(m)] = 1
        a[0] += max(b.sum() - a.sum(), 0)
        b[0] += max(a.sum() - b.sum(), 0)
        cost = rng.integers(-9, 10, (n, m)).astype(mass)
        a, b = a.astype(mass), b.astype(mass)
        res = jm.solve_transport(cost, a, b)
        assert assert_true(cost, a, b, res) == "OPTIMAL"
        assert set(res.rows[res.rows >= 0].tolist()) == set(np.flatnonzero(a).tolist())
        assert set(res.cols[res.cols >= 0].tolist()) == set(np.flatnonzero(b).tolist())


# ---------------------------------------------------------------------------------------------
# Other solvers


def histograms(rng: Any, kind: str, n: int) -> np.ndarray:
    x = {
        "even": np.ones(n),
        "random": rng.random(n),
        "sparse": rng.random(n) * (rng.random(n) < 0.3) + np.eye(n)[0] * 1e-3,
        "heavy": 1e-6 * rng.random(n) + np.eye(n)[n // 2],
        "ratios": 10 ** rng.uniform(-12, 0, n),
        "equal": np.repeat(rng.random((n + 3) // 4), 4)[:n],
    }[kind]
    return x / x.sum()


PAIRS = list(
    itertools.combinations_with_replacement(
        ("even", "random", "sparse", "heavy", "ratios", "equal"), 2
    )
)


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_against_pot(kinds):
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(5)
    for n, m in ((40, 40), (50, 23), (1, 30)):
        a, b = (histograms(rng, kind, k) for kind, k in zip(kinds, (n, m), strict=True))
        cost = ((rng.normal(size=(n, 1, 2)) - rng.normal(size=(m, 2))) ** 2).sum(-1)
        expected = ot.emd2(a, b, cost, numItermax=10**6)
        res = jm.solve_transport(cost, a, b)
        np.testing.assert_allclose(res.cost, expected, rtol=1e-7, atol=1e-9)
        plan = res.todense()
        np.testing.assert_allclose(plan.sum(1), a, atol=1e-15 * n)
        np.testing.assert_allclose(plan.sum(0), b, atol=1e-15 * m)
        np.testing.assert_allclose((plan * cost).sum(), res.cost, rtol=1e-12)
        assert 0 <= res.gap <= 1e-13 and (res.rows >= 0).sum() <= n + m - 1
        narrow = jm.solve_transport(*(x.astype(np.float32) for x in (cost, a, b)))
        np.testing.assert_allclose(narrow.cost, expected, rtol=1e-5, atol=1e-6)


def flow_problem(seed: int, n: int, m: int, kind: str) -> tuple[Any, Any, Any, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    cost = rng.integers(-50, 1000, (n, m)).astype(np.float64)
    cost[rng.random((n, m)) < 0.3] = np.inf
    supply = rng.integers(0, 40, n)
    demand = rng.multinomial(supply.sum(), rng.dirichlet(np.ones(m)))
    if kind == "all":
        return cost, supply, demand, {}
    demand = rng.permutation(demand) // 2 + 3
    if kind == "partial":
        return cost, supply, demand, {"partial": int(min(supply.sum(), demand.sum()) * 0.7)}
    return cost, supply, demand, {"unmatched_cost": rng.integers(100, 300, n).astype(np.float64)}


def arcs_of(cost: Any, supply: Any, demand: Any, given: dict[str, Any]) -> list[tuple[int, ...]]:
    """Tail, head, capacity and cost, from node 0 to node 1; and the flow."""
    n, most = len(supply), int(supply.sum() + demand.sum())
    arcs = [(0, 2 + i, int(x), 0) for i, x in enumerate(supply)]
    arcs += [(2 + n + j, 1, int(x), 0) for j, x in enumerate(demand)]
    arcs += [(2 + i, 2 + n + j, most, int(cost[i, j])) for i, j in np.argwhere(np.isfinite(cost))]
    r = given.get("unmatched_cost", [])
    return arcs + [(2 + i, 1, most, int(x)) for i, x in enumerate(r)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n, m", [(30, 50), (60, 20)])
def test_against_or_tools(n, m, kind):
    for seed in range(3):
        cost, supply, demand, given = flow_problem(seed, n, m, kind)
        solver = min_cost_flow.SimpleMinCostFlow()
        for arc in arcs_of(cost, supply, demand, given):
            solver.add_arc_with_capacity_and_unit_cost(*arc)
        flow = int(given.get("partial", supply.sum()))
        for node, amount in ((0, flow), (1, -flow)):
            solver.set_node_supply(node, amount)
        found = solver.solve()
        res = jm.solve_transport(cost, supply, demand, **given)
        if found == solver.INFEASIBLE:
            assert res.status == jm.Status.INFEASIBLE
            continue
        assert found == solver.OPTIMAL
        assert (res.cost, res.gap) == (solver.optimal_cost(), 0)
        assert_forest(plan_of(res))


@pytest.mark.parametrize("kind", KINDS)
def test_against_networkx(kind):
    cost, supply, demand, given = flow_problem(6, 12, 9, kind)
    graph = nx.DiGraph()
    for tail, head, capacity, weight in arcs_of(cost, supply, demand, given):
        graph.add_edge(tail, head, capacity=capacity, weight=weight)
    flow = int(given.get("partial", supply.sum()))
    graph.nodes[0]["demand"], graph.nodes[1]["demand"] = -flow, flow
    expected = nx.network_simplex(graph)[0]
    res = jm.solve_transport(cost, supply, demand, **given)
    assert (res.cost, res.gap, res.status) == (expected, 0, 0)


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
