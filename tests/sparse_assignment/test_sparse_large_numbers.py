"""Numbers far above all others, such as 1e6 or 1e18, that mark pairs that must not be used."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import jaxmatch as jm


GREATEST = float(np.finfo(np.float64).max)
TIERS = [(1e6,), (1e12,), (1e18,), (1e30,), (GREATEST,), (1e6, 1e18), (1e9, 1e18, 1e300)]


def full_graph(n, m):
    return jm.BipartiteGraph.from_edges(
        np.repeat(np.arange(n), m), np.tile(np.arange(m), n), (n, m)
    )


def best_total(cost, unmatched=None, of_cols=None):
    """The least total in rationals, or None; `cost` is a matrix with infinities."""
    n, m = cost.shape
    full = unmatched is None
    stays = [None if full else Fraction(float(r)) for r in (np.zeros(n) if full else unmatched)]
    wanted = min(n, m)
    best = {(0, 0): Fraction(0)}
    for i in range(n):
        after = {}
        for (used, pairs), total in best.items():
            options = []
            if full and n > m:
                options.append(((used, pairs), total))
            elif not full and np.isfinite(unmatched[i]):
                options.append(((used, pairs), total + stays[i]))
            options += [
                ((used | 1 << j, pairs + 1), total + Fraction(float(cost[i, j])))
                for j in range(m)
                if not used >> j & 1 and np.isfinite(cost[i, j])
            ]
            for state, value in options:
                if state not in after or value < after[state]:
                    after[state] = value
        best = after
    totals = []
    for (used, pairs), total in best.items():
        if full and pairs < wanted:
            continue
        alone = [j for j in range(m) if not used >> j & 1]
        if of_cols is not None:
            if any(not np.isfinite(of_cols[j]) for j in alone):
                continue
            total += sum(Fraction(float(of_cols[j])) for j in alone)
        totals.append(total)
    return min(totals, default=None)


def total_of(cost, res, unmatched=None, of_cols=None):
    col4row, row4col = np.asarray(res.col4row), np.asarray(res.row4col)
    pairs = [Fraction(float(cost[i, j])) for i, j in enumerate(col4row) if j >= 0]
    if unmatched is not None:
        pairs += [Fraction(float(unmatched[i])) for i, j in enumerate(col4row) if j < 0]
    if of_cols is not None:
        pairs += [Fraction(float(of_cols[j])) for j, i in enumerate(row4col) if i < 0]
    return sum(pairs, Fraction(0))


def as_float(x):
    try:
        return float(x)
    except OverflowError:
        return np.inf


def problem(random, shape, tiers, share, dtype=np.float64):
    cost = random.random(shape)
    for value in tiers:
        cost = np.where(random.random(shape) < share, value, cost)
    return cost.astype(dtype)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("tiers", TIERS)
@pytest.mark.parametrize("shape", [(5, 5), (4, 6), (6, 4)])
def test_all_sums_in_rationals(shape, tiers, maximize):
    """The optimum in rationals, whether or not large numbers must be paid."""
    random = np.random.default_rng(1)
    graph, sign = full_graph(*shape), -1 if maximize else 1
    for trial in range(24):
        cost = problem(random, shape, tiers, (0.2, 0.5, 0.8)[trial % 3])
        res = jm.solve_sparse_assignment(graph, sign * cost.ravel(), maximize=maximize)
        assert int(res.status) == jm.Status.OPTIMAL
        best, mine = best_total(cost), total_of(cost, res)
        assert mine - best <= abs(best) * Fraction(2) ** -48
        if max(tiers) <= 1e18:  # what large numbers leave is right too
            assert mine - best <= Fraction(2) ** -40
        np.testing.assert_allclose(sign * float(res.cost), as_float(best), rtol=1e-15)
        assert float(res.gap) <= 1e-12 * as_float(best)


@pytest.mark.parametrize("tiers", TIERS)
def test_prices_of_staying(tiers):
    """Prices of rows and columns may be as large, and mean that these must be matched."""
    random = np.random.default_rng(2)
    for trial in range(40):
        shape = ((5, 5), (4, 6), (6, 4))[trial % 3]
        graph = full_graph(*shape)
        cost = problem(random, shape, tiers, 0.4)
        r = problem(random, shape[:1], tiers, 0.5)
        s = problem(random, shape[1:], tiers, 0.5) if trial % 2 else None
        res = jm.solve_sparse_assignment(
            graph, cost.ravel(), unmatched_cost=r, unmatched_col_cost=s
        )
        assert int(res.status) == jm.Status.OPTIMAL
        best, mine = best_total(cost, r, s), total_of(cost, res, r, s)
        assert mine - best <= abs(best) * Fraction(2) ** -44
        assert mine - best <= float(res.gap) <= 1e-12 * as_float(best)


@pytest.mark.parametrize("big", [1.0, 1e6, 1e18])
def test_checks_prove_what_was_solved(big):
    """Outside of a trace, in NumPy, without a compilation for each shape."""
    random = np.random.default_rng(3)
    for n in range(5, 30, 4):
        graph = full_graph(n, n + 1)
        cost = np.where(random.random(graph.max_edges) < 0.3, big, random.random(graph.max_edges))
        for options in ({}, {"unmatched_cost": 0.2}):
            res = jm.solve_sparse_assignment(graph, cost, **options)
            check = jm.check_sparse_assignment(graph, cost, res, **options)
            assert isinstance(check.gap, np.ndarray) and bool(check.valid & check.optimal)
        worse = np.roll(np.asarray(res.col4row), 1)
        back = np.full(n + 1, -1, np.int32)
        back[worse[worse >= 0]] = np.flatnonzero(worse >= 0)
        other = res.replace(col4row=worse, row4col=back)
        assert not bool(jm.check_sparse_assignment(graph, cost, other, **options).optimal)


def test_no_full_matching_is_found_by_a_matching():
    """Three rows share two columns, beside rows whose prices an auction would raise for long."""
    n = 3000
    random = np.random.default_rng(4)
    rows = np.repeat(np.arange(n), 3)
    cols = random.integers(2, n, rows.size)
    cols[:9] = [0, 1, 1, 0, 1, 0, 1, 0, 0]
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(
        rows, cols, random.random(rows.size), shape=(n, n)
    )
    assert int(jm.solve_sparse_assignment(graph, cost).status) == jm.Status.INFEASIBLE


@pytest.mark.parametrize("size", [5e-324, 2.2e-308, 1e-200])
def test_weights_below_all_units_are_refused(size):
    A = sp.csr_array(size * np.array([[3.0, 1, 2], [1, 3, 3], [2, 2, 1]]))
    if size < 1e-290:
        with pytest.raises(ValueError, match="too far apart, or are below 1e-290"):
            jm.min_weight_full_bipartite_matching(A)
    else:
        assert jm.min_weight_full_bipartite_matching(A)[1].tolist() == [1, 0, 2]
