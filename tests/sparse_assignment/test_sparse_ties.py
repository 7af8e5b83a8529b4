"""Costs with many ties, for which the CPU engine takes all rows that are left at once."""

from __future__ import annotations

import time
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import to_numpy
from matching_helpers import edges_of
from sparse_helpers import Case, assert_certified, assert_solved, case

import jaxmatch as jm
from jaxmatch._sparse_assignment.native import sparse_assignment


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the CPU library")

FORMS = ["full", "gated", "rectangular", "maximum"]


def ties(form: str, n: int, degree: int, greatest: int, seed: int = 0) -> Case:
    """Random edges and, unless as many as possible are wanted, a matching of all rows."""
    rng = np.random.default_rng(seed)
    m = n + n // 50 if form == "rectangular" else n
    rows, cols = np.repeat(np.arange(n), degree), rng.integers(0, m, n * degree)
    if form != "maximum":
        rows, cols = np.append(rows, np.arange(n)), np.append(cols, rng.permutation(m)[:n])
    cost = rng.integers(1, greatest + 1, len(rows), np.int32)
    options: dict[str, Any] = {}
    if form == "gated":
        options = {"unmatched_cost": float(greatest)}
    elif form == "maximum":
        options = {"cardinality": "maximum"}
    return case(rows, cols, cost, (n, m), **options)


def solve(one: Case) -> tuple[jm.Assignment, int]:
    """Also the number of searches, if it is one native call."""
    if "cardinality" in one.options:
        return jm.solve_sparse_assignment(one.graph, jnp.asarray(one.cost), **one.options), 0
    given = {"maximize": False} | one.options
    if "unmatched_cost" in given:
        given["unmatched_cost"] = jnp.full(one.graph.shape[0], given["unmatched_cost"], jnp.float32)
    cost = jnp.asarray(one.cost)
    res, _, counts = sparse_assignment(one.graph, cost, platform="cpu", **given)
    return res, int(counts[1])


@pytest.mark.parametrize("form", FORMS)
def test_as_a_dense_solver(form):
    for seed in range(4):
        for greatest in (1, 2, 3):
            one = ties(form, 400, 3, greatest, seed)
            assert_solved(one, solve(one)[0])


@pytest.mark.parametrize("form", FORMS)
def test_time_of_many_ties(form):
    """Some seconds at most: one search after the other took half a minute and more."""
    one = ties(form, 100_000, 9, 2)
    start = time.process_time()
    res, _ = solve(one)
    assert time.process_time() - start < 8
    assert_proved(one, res)


def test_number_of_searches():
    """With one for each row that bids leave there were four times as many, 9,450."""
    one = ties("full", 30_000, 20, 5)
    res, searches = solve(one)
    assert 0 < searches < 3000
    assert_proved(one, res)


def assert_proved(one: Case, res: jm.Assignment) -> None:
    assert res.status == jm.Status.OPTIMAL and res.gap == 0
    assert_certified(one, to_numpy(res))


@pytest.mark.parametrize("alone", [1, 2])
def test_no_solution(alone):
    """One row without edges, or two that have one column: found among many that have a pair."""
    one = ties("full", 20_000, 9, 2)
    rows, cols = edges_of(one.graph)
    kept = rows >= alone
    more = np.arange(alone if alone > 1 else 0)
    rows, cols = np.append(rows[kept], more), np.append(cols[kept], 0 * more)
    cost = np.append(one.cost[kept], more + 1).astype(np.int32)
    bad = case(rows, cols, cost, one.graph.shape)
    assert solve(bad)[0].status == jm.Status.INFEASIBLE
