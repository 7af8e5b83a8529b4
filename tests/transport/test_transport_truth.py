"""`solve_transport` against rational arithmetic and other solvers."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from helpers import problem, to_numpy, x64
from ortools.graph.python import min_cost_flow
from transport_truth import (
    Truth,
    assert_forest,
    assert_true,
    best_of_all_bases,
    plan_of,
    random_problem,
)

import jaxmatch as jm


KINDS = ("all", "partial", "unmatched")
COSTS = ("bfloat16", "float16", "float32", "float64", "int32", "int64")
MASSES = ("int32", "int64", "float32", "float64")
EACH = [
    (cost, mass, KINDS[k % 3])
    for k, (cost, mass) in enumerate(itertools.product(COSTS, MASSES + MASSES[2:]))
]


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
