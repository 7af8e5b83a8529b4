"""`solve_sparse_transport` against other solvers: plans, limits, b-matchings, no plans."""

import networkx as nx
import numpy as np
import pytest
from matching_helpers import edges_of
from sparse_transport_helpers import (
    KINDS,
    METHODS,
    Case,
    assert_certified,
    assert_witness,
    by_highs,
    matchings,
    random_case,
)

import jaxmatch as jm
from jaxmatch import Status


# ---------------------------------------------------------------------------------------------
# Plans


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_integers(kind, method):
    """Cost, duals and witnesses are exact, and the optimum is that of a linear program."""
    rng = np.random.default_rng(0)
    seen = set()
    for k in range(60):
        case = random_case(rng, *rng.integers(1, 7, 2), kind, limits=k % 4 > 0)
        expected, res = by_highs(case), case.solve(method=method)
        check = case.check(res)
        status = Status(int(res.status))
        seen.add(status)
        if expected is None:
            assert status in (Status.INFEASIBLE, Status.UNBALANCED)
            if status == Status.INFEASIBLE:
                assert_witness(case, res)
                assert check.infeasible
            assert not check.valid
            continue
        assert status == Status.OPTIMAL
        np.testing.assert_allclose(float(res.cost), expected, atol=1e-7)
        assert_certified(case, res)
        assert res.gap == 0 and check.gap == 0 and check.optimal and not check.infeasible
    assert seen >= {Status.OPTIMAL} | ({Status.INFEASIBLE} if kind != "unmatched" else set())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats(kind, method, dtype):
    rng = np.random.default_rng(1)
    solved = 0
    for _ in range(40):
        case = random_case(rng, *rng.integers(1, 7, 2), kind, whole=False)
        arrays = [x.astype(dtype) for x in (case.cost, case.supply, case.demand)]
        case = Case(case.graph, *arrays, {k: np.asarray(x, dtype) for k, x in case.options.items()})
        expected, res = by_highs(case), case.solve(method=method)
        if expected is None:
            continue
        solved += 1
        assert res.status == Status.OPTIMAL
        assert res.mass.dtype == res.cost.dtype == dtype
        check = case.check(res)
        assert check.valid and check.optimal
        np.testing.assert_allclose(res.cost, expected, rtol=1e-5, atol=1e-4)
    assert solved > 10


@pytest.mark.parametrize("kind", KINDS)
def test_complete_graphs_as_matrices(kind):
    """Without limits it is `solve_transport`."""
    rng = np.random.default_rng(2)
    for whole in (True, False) * 10:
        n, m = rng.integers(1, 7, 2)
        case = random_case(rng, n, m, kind, limits=False, density=2, whole=whole)
        res = case.solve()
        dense = jm.solve_transport(
            case.cost.reshape(n, m), case.supply, case.demand, **case.options
        )
        if dense.status == Status.UNBALANCED and kind == "partial":
            assert res.status == Status.INFEASIBLE  # and has a witness
            continue
        assert res.status == dense.status
        if res.status == Status.OPTIMAL:
            np.testing.assert_allclose(float(res.cost), dense.cost, rtol=1e-12, atol=1e-12)


def test_networkx():
    """Integers with limits, by another network simplex method."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        case = random_case(rng, 8, 6)
        graph = nx.DiGraph()
        graph.add_nodes_from((("row", i), {"demand": -int(x)}) for i, x in enumerate(case.supply))
        graph.add_nodes_from((("col", j), {"demand": int(x)}) for j, x in enumerate(case.demand))
        pairs = zip(*edges_of(case.graph), case.cost, case.options["limit"], strict=True)
        for i, j, cost, limit in pairs:
            graph.add_edge(("row", i), ("col", j), weight=int(cost), capacity=int(limit))
        res = case.solve()
        try:
            assert res.cost == nx.network_simplex(graph)[0]
        except nx.NetworkXUnfeasible:
            assert res.status == Status.INFEASIBLE


def test_masses_far_apart():
    """No sum of masses is rounded: what a small row leaves is known to its last digit."""
    graph = jm.BipartiteGraph.from_edges([0, 1], [0, 1], (2, 2))
    supply, demand = np.float32([1e7, 0.3]), np.float32([1e7, 0.1])
    case = Case(graph, np.float32([1, 1]), supply, demand, {"unmatched_cost": np.float32([5, 5])})
    res = case.solve()
    assert res.status == Status.OPTIMAL and case.check(res).optimal
    np.testing.assert_allclose(res.mass, demand, rtol=1e-6)


def test_a_part_that_is_all():
    """It may exceed the lesser sum by roundings, as in `solve_transport`."""
    rng = np.random.default_rng(5)
    graph = jm.BipartiteGraph.from_dense(np.ones((7, 9)))
    for dtype in (np.float32, np.float64):
        for _ in range(20):
            supply, demand = rng.dirichlet(np.ones(7)), 1.5 * rng.dirichlet(np.ones(9))
            arrays = [x.astype(dtype) for x in (rng.random(63), supply, demand)]
            case = Case(graph, *arrays, {"partial": dtype(1 + 3e-7)})
            res = case.solve()
            assert res.status == Status.OPTIMAL
            check = case.check(res)
            assert check.valid and check.optimal
            np.testing.assert_allclose(res.mass.sum(), 1, rtol=1e-6)
    case.options["partial"] = dtype(1.001)
    res = case.solve()
    assert res.status == Status.INFEASIBLE and case.check(res).infeasible


# ---------------------------------------------------------------------------------------------
# b-matchings


def small_matching(rng):
    n, m = rng.integers(1, 5, 2)
    rows, cols = rng.integers(0, n, 9), rng.integers(0, m, 9)
    graph = jm.BipartiteGraph.from_edges(rows, cols, (int(n), int(m)))
    cost = rng.integers(-4, 9, graph.max_edges)
    return Case(graph, cost, rng.integers(0, 4, n), rng.integers(0, 4, m), {"limit": 1})


def test_b_matchings():
    """Of each number of pairs, and of as many as possible, against all sets of edges."""
    rng = np.random.default_rng(4)
    for _ in range(12):
        case = small_matching(rng)
        best = matchings(case)
        for count in range(max(best) + 2):
            res = jm.solve_sparse_transport(*case.given, limit=1, partial=count)
            if count not in best:
                assert res.status == Status.INFEASIBLE
                continue
            assert res.cost == best[count] and set(res.mass.tolist()) <= {0, 1}
        many = jm.solve_sparse_transport(
            *case.given, limit=1, unmatched_cost=np.full(len(case.supply), 1000)
        )
        assert many.mass.sum() == max(best)
        assert many.cost - 1000 * (case.supply.sum() - max(best)) == best[max(best)]


def test_rows_that_must_be_matched():
    """With an infinite unmatched cost, all of a row moves, or there is no plan."""
    graph = jm.BipartiteGraph.from_edges([0, 0, 1], [0, 1, 1], (2, 2))
    price = np.array([np.inf, 3.0])
    given = graph, np.array([1.0, 9, 2]), np.array([2, 1]), np.array([1, 1])
    case = Case(*given, {"limit": 1, "unmatched_cost": price})
    res = case.solve()
    assert res.mass.tolist() == [1, 1, 0] and res.cost == 13 and case.check(res).optimal
    case.supply = np.array([3, 1])
    res = case.solve()
    assert res.status == Status.INFEASIBLE and case.check(res).infeasible
    assert res.row_side.tolist() == [True, False]
