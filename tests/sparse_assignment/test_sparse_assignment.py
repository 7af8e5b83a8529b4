"""Every option against the optimum by scipy's dense solver; solvers of sparse graphs."""

import itertools

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from helpers import DTYPES, x64
from ortools.graph.python import linear_sum_assignment as by_ortools
from scipy.sparse.csgraph import min_weight_full_bipartite_matching as by_scipy
from sparse_helpers import (
    METHODS,
    SIDE,
    Case,
    assert_batch,
    assert_solved,
    optimum,
    random_case,
    solve_batch,
)

import jaxmatch as jm


each_method = pytest.mark.parametrize("method", METHODS)

COUNT = 60


def masks(rng, shape):
    n, m = shape
    return {"row_mask": rng.random(n) < 0.7, "col_mask": rng.random(m) < 0.7}


def rows_pay(rng, shape):
    price = rng.integers(-10, 30, shape[0]).astype(np.float32)
    return {"unmatched_cost": np.where(rng.random(shape[0]) < 0.15, np.inf, price)}


def both_pay(rng, shape):
    price = rng.integers(-20, 30, shape[1]).astype(np.float32)
    cols = {"unmatched_col_cost": np.where(rng.random(shape[1]) < 0.15, np.inf, price)}
    return rows_pay(rng, shape) | cols


KINDS = {
    "full": lambda rng, shape: {},
    "masks": masks,
    "maximum": lambda rng, shape: {"cardinality": "maximum"},
    "maximum with masks": lambda rng, shape: {"cardinality": "maximum"} | masks(rng, shape),
    "rows pay": rows_pay,
    "both pay": both_pay,
    "both pay, with masks": lambda rng, shape: both_pay(rng, shape) | masks(rng, shape),
}


def cases_of(kind, maximize, seed, **how):
    """Without a maximum the options are those of a minimisation, with all signs turned."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(COUNT):
        case = random_case(rng, maximize=maximize, **how)
        options = KINDS[kind](rng, case.graph.shape)
        if maximize:
            options = {k: -x if k.startswith("unmatched") else x for k, x in options.items()}
        found.append(Case(case.graph, case.cost, {"maximize": maximize} | options))
    return found


# The twin compiles for seconds: each kind has one sign, where it can that of `test_ties_and_signs`.
SIGNS = [(kind, sign, "auto") for kind in KINDS for sign in (False, True)]
SIGNS += [(kind, "masks" in kind, "xla") for kind in KINDS]


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("kind, maximize, method", SIGNS)
def test_every_option(kind, maximize, method):
    cases = cases_of(kind, maximize, len(kind))
    res, check = solve_batch(cases, method)
    assert_batch(cases, res)
    solved = np.asarray(res.status) == jm.Status.OPTIMAL
    assert solved.sum() > 5
    assert (np.asarray(check.valid) == solved).all()
    assert (np.asarray(check.optimal) == solved).all()


@pytest.mark.usefixtures("platform")
@each_method
@pytest.mark.parametrize("kind", ["full", "maximum", "both pay"])
@pytest.mark.parametrize("low, high", [(0, 1), (7, 8), (-1, 2), (-2000, -1000)])
def test_ties_and_signs(method, kind, low, high):
    """All equal, all equal to 0, few values, all negative."""
    cases = cases_of(kind, False, abs(high), low=low, high=high, square=kind == "full")
    assert_batch(cases, solve_batch(cases, method)[0])


# The twin computes in floats of 32 or of 64 bits.
TWIN_DTYPES = [("bfloat16", False), ("int32", False), ("float64", True), ("int64", True)]


@pytest.mark.parametrize(
    "dtype, wide, method", [(*x, "auto") for x in DTYPES] + [(*x, "xla") for x in TWIN_DTYPES]
)
@pytest.mark.usefixtures("platform")
def test_every_dtype(dtype, wide, method):
    kinds = ["both pay" if dtype in ("bfloat16", "int32") else "full"]
    if method == "auto":  # three of the seven in turn
        first = DTYPES.index((dtype, wide))
        kinds = [[*KINDS][(first + 2 * k) % len(KINDS)] for k in range(3)]
    with x64(wide):
        for kind in kinds:
            cases = cases_of(kind, False, 5)
            res, check = solve_batch(cases, method, jnp.dtype(dtype))
            assert res.cost.dtype == res.col_dual.dtype == res.gap.dtype
            assert res.cost.dtype == (np.float64 if wide else np.float32)
            assert_batch(cases, res)
            assert np.array_equal(check.optimal, np.asarray(res.status) == jm.Status.OPTIMAL)


@pytest.mark.usefixtures("platform")
@each_method
def test_brute_force(method):
    """Every matching of small graphs; also their greatest number of pairs."""
    rng = np.random.default_rng(9)
    cases = [random_case(rng, cardinality="maximum", maximize=False) for _ in range(300)]
    cases = [c for c in cases if max(c.graph.shape) <= 5][:COUNT]
    assert len(cases) == COUNT
    res, _ = solve_batch(cases, method)
    for k, case in enumerate(cases):
        n, m = case.graph.shape
        rows = np.repeat(np.arange(n), np.diff(case.graph.row_ptr))
        cost = np.full((n, m + n), 10.0**6)
        cost[rows, np.asarray(case.graph.col_ind)] = case.cost
        every = (sum(cost[range(n), p]) for p in itertools.permutations(range(m + n), n))
        pairs = int((np.asarray(res.col4row)[k] >= 0).sum())
        assert min(every) == float(res.cost[k]) + 10.0**6 * (n - pairs)


@pytest.mark.parametrize("maxcardinality", [False, True])
def test_networkx(maxcardinality):
    """Matchings of greatest weight."""
    options = {"cardinality": "maximum"} if maxcardinality else {}
    cases = cases_of("full", True, 7)
    for c in cases:
        c.options |= options if maxcardinality else {"unmatched_cost": np.zeros(c.graph.shape[0])}
    res, _ = solve_batch(cases, "auto")
    for k, case in enumerate(cases):
        graph = nx.Graph()
        rows = np.repeat(np.arange(case.graph.shape[0]), np.diff(case.graph.row_ptr))
        for i, j, w in zip(rows, np.asarray(case.graph.col_ind), case.cost, strict=True):
            graph.add_edge(f"r{i}", f"c{j}", weight=int(w))
        pairs = nx.max_weight_matching(graph, maxcardinality)
        assert float(res.cost[k]) == sum(graph.edges[p]["weight"] for p in pairs)
        if maxcardinality:
            assert (np.asarray(res.col4row)[k] >= 0).sum() == len(pairs)


def larger(seed, n, m, degree, high):
    """A full matching exists."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([np.repeat(np.arange(n), degree), np.arange(n)])
    cols = np.concatenate([rng.integers(0, m, n * degree), rng.permutation(m)[:n]])
    return jm.BipartiteGraph.from_edges_with_cost(
        rows, cols, rng.integers(1, high, len(rows)), (n, m)
    )


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("n, m, degree, high, method", [
    (60, 60, 4, 1000, "auto"), (60, 90, 3, 6, "auto"), (200, 200, 2, 50, "auto"),
    (60, 90, 3, 6, "xla"),
])  # fmt: skip
def test_larger_against_scipy_and_ortools(n, m, degree, high, method):
    graph, cost = larger(n + m, n, m, degree, high)
    A = sp.csr_array((cost, *map(np.asarray, (graph.col_ind, graph.row_ptr))), shape=(n, m))
    best = A[by_scipy(A)].sum()
    res = jm.solve_sparse_assignment(graph, jnp.asarray(cost, jnp.int32), method=method)
    assert float(res.cost) == best and float(res.gap) == 0
    assert jm.check_sparse_assignment(graph, cost.astype(np.int32), res).optimal
    if n == m:
        solver = by_ortools.SimpleLinearSumAssignment()
        rows = np.repeat(np.arange(n), np.diff(graph.row_ptr))
        solver.add_arcs_with_cost(rows, np.asarray(graph.col_ind), cost)
        assert solver.solve() == solver.OPTIMAL
        assert solver.optimal_cost() == best


@pytest.mark.usefixtures("platform")
@each_method
def test_dense_problems(method):
    """A complete graph is a dense problem."""
    rng = np.random.default_rng(4)
    cost = rng.integers(0, 99, (5, SIDE, SIDE)).astype(np.float32)
    cost[rng.random(cost.shape) < 0.4] = np.inf
    graph = jm.BipartiteGraph.from_dense(np.ones((SIDE, SIDE)))
    for given in ({}, {"unmatched_cost": 30.0}, {"maximize": True, "unmatched_cost": 40.0}):
        flat = -cost if given.get("maximize") else cost
        res = jm.solve_sparse_assignment(graph, flat.reshape(5, -1), method=method, **given)
        expected = jm.solve_assignment(flat, **given)
        np.testing.assert_array_equal(res.status, expected.status)
        np.testing.assert_array_equal(res.cost, expected.cost)


def test_the_reference():
    """Itself, on a problem that is solved by hand."""
    hand = jm.BipartiteGraph.from_edges([0, 0, 1], [0, 1, 0], (2, 2))
    cost = np.array([1, 5, 3])
    assert optimum(Case(hand, cost)) == 8
    assert optimum(Case(hand, cost, {"unmatched_cost": np.full(2, 4.0)})) == 5
    assert optimum(Case(hand, cost, {"maximize": True, "cardinality": "maximum"})) == 8


@pytest.mark.skipif(not jm.has_cpu_library(), reason="would compile a program for each")
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("square", [False, True])
def test_outside_of_a_trace(dtype, square):
    """Graphs without padding, where nothing is compiled."""
    for high in (8, 9, 30, 5000):
        for kind in KINDS if square else ("full",):
            for case in cases_of(kind, high == 9, high, low=7, high=high, square=square):
                cost = case.cost.astype(dtype)
                assert_solved(case, jm.solve_sparse_assignment(case.graph, cost, **case.options))
