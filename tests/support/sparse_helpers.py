"""What the tests of sparse assignment share: instances, an independent optimum, assertions."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from helpers import assert_inverse, problem, to_numpy
from matching_helpers import edges_of
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

import jaxmatch as jm


METHODS = ["auto", "xla"]
SIDE, EDGES = 8, 48  # of all stacked graphs: one shape to compile


@dataclasses.dataclass
class Case:
    """One problem on the host; options as for `solve_sparse_assignment`, one array per vertex."""

    graph: jm.BipartiteGraph
    cost: np.ndarray
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    padded_to: int | None = None


def case(rows: Any, cols: Any, cost: Any, shape: tuple[int, int], **options: Any) -> Case:
    maximize = options.get("maximize", False)
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(
        rows, cols, np.asarray(cost), shape, maximize=maximize
    )
    return Case(graph, cost, options)


def random_case(
    rng: np.random.Generator,
    *,
    low: int = -20,
    high: int = 21,
    square: bool = False,
    **options: Any,
) -> Case:
    """At most SIDE vertices a side and EDGES edges; some vertices have none."""
    n, m = rng.integers(1, SIDE + 1, 2)
    m = n if square else m
    e = rng.integers(0, min(2 * n * m, EDGES) + 1)
    rows, cols = rng.integers(0, n, e), rng.integers(0, m, e)
    return case(rows, cols, rng.integers(low, high, e), (int(n), int(m)), **options)


def stacked(cases: list[Case], dtype: Any) -> tuple[jm.BipartiteGraph, np.ndarray]:
    """Graphs and costs of one padded size; padding holds NaN, or a great number."""
    graph = jm.BipartiteGraph.stack(
        [c.graph for c in cases], num_rows=SIDE, num_cols=SIDE, num_edges=EDGES
    )
    floating = jnp.issubdtype(dtype, jnp.floating)
    cost = np.full((len(cases), EDGES), np.nan if floating else np.iinfo(dtype).max, dtype)
    for x, c in zip(cost, cases, strict=True):
        c.padded_to = SIDE
        x[: len(c.cost)] = c.cost
    return graph, cost


def padded(rows: list[np.ndarray], size: int, fill: Any) -> np.ndarray:
    """Arrays of several lengths as rows of one, filled up."""
    return np.stack([np.pad(x, (0, size - len(x)), constant_values=fill) for x in rows])


# ---------------------------------------------------------------------------------------------
# The optimum, by scipy's dense solver


def optimum(case: Case) -> float | None:
    """The least cost (or greatest score); None if there is no solution.

    A square problem: rows and copies of columns against columns and copies of rows. What stays is
    matched to its own copy.
    """
    (n, m), given = case.graph.shape, case.options
    sign = -1 if given.get("maximize") else 1
    rows, cols = edges_of(case.graph)
    has_rows, has_cols = existing(case)
    c = np.full((n, m), np.inf)
    c[rows, cols] = sign * case.cost[: len(rows)].astype(np.float64)
    c[~has_rows], c[:, ~has_cols] = np.inf, np.inf
    assert not np.isnan(c).any()
    r, s = (sign * x for x in prices(case))
    r, s = np.where(has_rows, r, 0), np.where(has_cols, s, 0)
    mirror = np.where(np.isfinite(c.T), 0, np.inf)
    of_rows = np.where(np.eye(n, dtype=bool), r[:, None], np.inf)
    of_cols = np.where(np.eye(m, dtype=bool), s, np.inf)
    square = np.block([[c, of_rows], [of_cols, mirror]])
    try:
        at = linear_sum_assignment(square)
    except ValueError:
        return None
    total = float(square[at].sum())
    if given.get("cardinality") == "maximum":
        stays = (at[1][:n] >= m) & has_rows
        total -= price_of_rows(case) * stays.sum()
    return sign * total


def price_of_rows(case: Case) -> float:
    """M, from its definition, in which padding counts."""
    rows, cols = edges_of(case.graph)
    there = existing(case)[0][rows] & existing(case)[1][cols]
    size = [abs(int(x)) for x in case.cost[: len(rows)][there] if np.isfinite(x)]
    shorter = min(case.graph.shape) if case.padded_to is None else case.padded_to
    least = (2 * shorter + 1) * max(size, default=0)
    return 1.0 if least == 0 else float(1 << (least - 1).bit_length())


def existing(case: Case) -> tuple[np.ndarray, np.ndarray]:
    n, m = case.graph.shape
    row_mask, col_mask = case.options.get("row_mask"), case.options.get("col_mask")
    return (
        np.ones(n, bool) if row_mask is None else np.asarray(row_mask),
        np.ones(m, bool) if col_mask is None else np.asarray(col_mask),
    )


def prices(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """What it costs to leave each row and column; an infinity where it must be matched."""
    (n, m), given = case.graph.shape, case.options
    never = -np.inf if given.get("maximize") else np.inf
    num_rows, num_cols = (x.sum() for x in existing(case))
    if given.get("unmatched_cost") is not None:
        s = given.get("unmatched_col_cost", 0)
        return np.broadcast_to(given["unmatched_cost"], n) * 1.0, np.broadcast_to(s, m) * 1.0
    if given.get("cardinality") == "maximum":
        price = price_of_rows(case)
        return np.full(n, -price if given.get("maximize") else price), np.zeros(m)
    return (
        np.full(n, 0.0 if num_rows > num_cols else never),
        np.full(m, 0.0 if num_cols > num_rows else never),
    )


# ---------------------------------------------------------------------------------------------
# Assertions


def assert_solved(case: Case, res: jm.Assignment, *, exact: bool = True) -> None:
    """Status and cost as `optimum` says, and with `exact` a certificate without a gap."""
    n, m = case.graph.shape
    res = to_numpy(res)
    best = optimum(case)
    if best is None:
        assert res.status == jm.Status.INFEASIBLE
        assert (res.col4row == -1).all() and (res.row4col == -1).all()
        assert np.isnan(res.cost) and np.isnan(res.row_dual).all() and np.isnan(res.col_dual).all()
        return
    assert res.status == jm.Status.OPTIMAL, f"{jm.Status(int(res.status))}, optimum {best}"
    assert (res.col4row[n:] == -1).all() and (res.row4col[m:] == -1).all()
    col4row, row4col = res.col4row[:n], res.row4col[:m]
    assert_inverse(col4row, row4col)
    if exact:
        assert res.cost == best and res.gap == 0
        assert_certified(case, res)
    else:
        np.testing.assert_allclose(res.cost, best, rtol=1e-5)


def assert_certified(case: Case, res: jm.Assignment) -> None:
    """The documented inequalities, and Σu + Σv is the cost. Numbers must be exact in float64."""
    n, m = case.graph.shape
    sign = -1 if case.options.get("maximize") else 1
    rows, cols = edges_of(case.graph)
    has_rows, has_cols = existing(case)
    u = sign * res.row_dual[:n].astype(np.float64)
    v = sign * res.col_dual[:m].astype(np.float64)
    r, s = (sign * x for x in prices(case))
    live = has_rows[rows] & has_cols[cols]
    if case.options.get("cardinality") == "maximum":
        in_rows, in_cols = cover_of(case)
        live &= ~(in_rows[rows] & in_cols[cols])  # no maximum matching contains the others
        all_cols = (has_cols & ~in_cols).sum() == (has_rows & in_rows).sum()
        r, s = np.where(in_rows, np.inf, 0), np.where(in_cols | all_cols, np.inf, 0)
    slack = sign * case.cost[: len(rows)].astype(np.float64) - u[rows] - v[cols]
    assert (slack[live] >= 0).all(), "u_i + v_j <= C_ij"
    col4row = res.col4row[:n]
    own = live & (col4row[rows] == cols)
    assert own.sum() == (col4row >= 0).sum(), "pairs are edges"
    assert (slack[own] == 0).all(), "pairs are tight"
    assert (u <= r)[has_rows].all() and (v <= s)[has_cols].all()
    assert (u[~has_rows] == 0).all() and (v[~has_cols] == 0).all()
    stay, idle = has_rows & (col4row < 0), has_cols & (res.row4col[:m] < 0)
    assert (u == r)[stay].all() and (v == s)[idle].all()
    assert sign * (u.sum() + v.sum()) == res.cost


def cover_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """The rows that no alternating path from an unmatched row reaches, and the columns reached."""
    (n, m), (rows, cols) = case.graph.shape, edges_of(case.graph)
    has_rows, has_cols = existing(case)
    live = has_rows[rows] & has_cols[cols] & np.isfinite(case.cost[: len(rows)].astype(float))
    near = csr_array((np.ones(live.sum()), (rows[live], cols[live])), shape=(n, m))
    partner = maximum_bipartite_matching(near, perm_type="column")
    row_of = {int(j): i for i, j in enumerate(partner) if j >= 0}
    reached, seen = {i for i in range(n) if has_rows[i] and partner[i] < 0}, set()
    waiting = list(reached)
    while waiting:
        i = waiting.pop()
        for j in near.indices[near.indptr[i] : near.indptr[i + 1]]:
            if int(j) not in seen:
                seen.add(int(j))
                reached.add(row_of[int(j)])
                waiting.append(row_of[int(j)])
    return ~np.isin(np.arange(n), [*reached]), np.isin(np.arange(m), [*seen])


def assert_batch(cases: list[Case], res: jm.Assignment, **how: Any) -> None:
    for k, one in enumerate(cases):
        assert_solved(one, problem(to_numpy(res), k), **how)


def solve_batch(
    cases: list[Case], method: str, dtype: Any = np.float32
) -> tuple[jm.Assignment, Any]:
    """Solves and checks cases with the same kinds of options; by the twin in a compiled program."""
    graph, cost = stacked(cases, dtype)
    static, arrays = {"method": method}, {}
    for name, x in cases[0].options.items():
        if name in ("maximize", "cardinality"):
            static[name] = x
        else:
            fill = False if name.endswith("mask") else 0
            arrays[name] = jnp.asarray(padded([c.options[name] for c in cases], SIDE, fill))
    solve = _compiled if method == "xla" else _solve_and_check
    return solve(graph, jnp.asarray(cost), arrays, **static)


def _solve_and_check(
    graph: Any, cost: Any, arrays: Any, *, method: str, **static: Any
) -> tuple[jm.Assignment, Any]:
    res = jm.solve_sparse_assignment(graph, cost, method=method, **static, **arrays)
    return res, jm.check_sparse_assignment(graph, cost, res, **static, **arrays)


_compiled = jax.jit(_solve_and_check, static_argnames=("method", "maximize", "cardinality"))
