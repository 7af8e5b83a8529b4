"""Optima from elsewhere: exhaustive search for tiny problems, scipy for the rest.

All take NumPy arrays and the arguments of `solve_assignment`, and return None where no assignment
exists. Optima are summed exactly, as a `Fraction`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from exact import as_fraction
from scipy.optimize import linear_sum_assignment, linprog


def brute_force(
    cost: Any,
    maximize: bool = False,
    row_mask: Any = None,
    col_mask: Any = None,
    unmatched_cost: Any = None,
) -> Fraction | None:
    """The best of all matchings, by trying them all."""
    cost, r = _used(cost, row_mask, col_mask, unmatched_cost)
    n, m = cost.shape
    best = max if maximize else min
    forbidden = -math.inf if maximize else math.inf
    # Without unmatched costs, all but this many rows must be matched.
    spare = n if unmatched_cost is not None else max(n - m, 0)
    found: Fraction | None = None

    def search(i: int, free: frozenset[int], spare: int, total: Fraction) -> None:
        nonlocal found
        if i == n:
            found = total if found is None else best(found, total)
            return
        for j in free:
            if cost[i, j] != forbidden:
                search(i + 1, free - {j}, spare, total + as_fraction(cost[i, j]))
        if spare > 0 and r[i] != forbidden:
            search(i + 1, free, spare - 1, total + as_fraction(r[i]))

    search(0, frozenset(range(m)), spare, Fraction(0))
    return found


def scipy_optimum(
    cost: Any,
    maximize: bool = False,
    row_mask: Any = None,
    col_mask: Any = None,
    unmatched_cost: Any = None,
) -> Fraction | None:
    """The cost of scipy's assignment; scipy rounds inside, but its choice is summed exactly."""
    cost, r = _used(cost, row_mask, col_mask, unmatched_cost)
    n = len(cost)
    if unmatched_cost is not None:
        # A virtual column for each row, which costs what leaving the row unmatched costs.
        virtual = np.full((n, n), -math.inf if maximize else math.inf)
        np.fill_diagonal(virtual, r.astype(float))
        padded = np.concatenate([cost.astype(float), virtual], axis=1)
    else:
        padded = cost.astype(float)
    try:
        chosen = linear_sum_assignment(padded, maximize)
    except ValueError as e:
        assert "infeasible" in str(e)
        return None
    m = cost.shape[1]
    pairs = zip(*chosen, strict=True)
    return sum((as_fraction(cost[i, j] if j < m else r[i]) for i, j in pairs), Fraction(0))


def linear_program(
    cost: Any,
    maximize: bool = False,
    row_mask: Any = None,
    col_mask: Any = None,
    unmatched_cost: Any = None,
) -> tuple[np.ndarray, np.ndarray] | None:
    """An optimal `col4row` and its `col_dual` by the simplex method, for integral costs."""
    n, m = np.asarray(cost).shape
    rows = np.arange(n) if row_mask is None else np.flatnonzero(row_mask)
    cols = np.arange(m) if col_mask is None else np.flatnonzero(col_mask)
    cost, r = _used(cost, row_mask, col_mask, unmatched_cost)
    sign = -1 if maximize else 1
    c, r = sign * cost.astype(float), sign * r.astype(float)
    # One variable for each pair that is allowed, then one for each row that may stay unmatched.
    i, j = np.nonzero(c < np.inf)
    may_leave = (r < np.inf) & (unmatched_cost is not None or len(rows) > len(cols))
    k = np.flatnonzero(may_leave)
    per_row = np.concatenate([np.eye(len(rows))[:, i], np.eye(len(rows))[:, k]], axis=1)
    per_col = np.concatenate([np.eye(len(cols))[:, j], np.zeros((len(cols), len(k)))], axis=1)
    cols_optional = unmatched_cost is not None or len(rows) < len(cols)
    equal = [per_row] if cols_optional else [per_row, per_col]
    if sum(map(len, equal)) == 0:
        x, v = np.zeros(0), np.zeros(len(cols))
    elif per_row.shape[1] == 0:
        return None
    else:
        res = linprog(
            np.concatenate([c[i, j], r[k]]),
            A_eq=np.concatenate(equal),
            b_eq=np.ones(sum(map(len, equal))),
            A_ub=per_col if cols_optional else None,
            b_ub=np.ones(len(cols)) if cols_optional else None,
            method="highs-ds",
        )
        if res.status == 2:
            return None
        assert res.status == 0, res.message
        x, v = res.x, res.ineqlin.marginals if cols_optional else res.eqlin.marginals[len(rows) :]
    # Bipartite constraints are totally unimodular: vertices are integers, of both programs.
    chosen = np.flatnonzero(np.rint(x[: len(i)]))
    col4row, col_dual = np.full(n, -1), np.zeros(m)
    col4row[rows[i[chosen]]] = cols[j[chosen]]
    col_dual[cols] = sign * np.rint(v)
    return col4row, col_dual


def _used(
    cost: Any, row_mask: Any, col_mask: Any, unmatched_cost: Any
) -> tuple[np.ndarray, np.ndarray]:
    cost = np.asarray(cost)
    n, m = cost.shape
    r = np.broadcast_to(np.asarray(0 if unmatched_cost is None else unmatched_cost), (n,))
    rows = np.ones(n, bool) if row_mask is None else np.asarray(row_mask)
    cols = np.ones(m, bool) if col_mask is None else np.asarray(col_mask)
    return cost[np.ix_(rows, cols)], r[rows]
