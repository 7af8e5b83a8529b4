"""All assignments of a small problem in rational arithmetic: no rounding, no JAX, no solver."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
from exact import as_fraction, is_rounded, shown

import jaxmatch as jm


def all_assignments(
    cost: Any, *, maximize: bool = False, row_mask: Any = None, col_mask: Any = None
) -> dict[tuple[tuple[int, int], ...], Fraction]:
    """The costs of all assignments, by their pairs in the order of rows; the best one first."""
    cost = np.asarray(cost)
    rows, cols = (
        np.flatnonzero(np.ones(size, bool) if mask is None else np.asarray(mask)).tolist()
        for mask, size in zip((row_mask, col_mask), cost.shape, strict=True)
    )
    price = {
        (i, j): as_fraction(cost[i, j])
        for i in rows
        for j in cols
        if np.isfinite(float(cost[i, j]))
    }
    if len(rows) <= len(cols):
        every = (zip(rows, own, strict=True) for own in itertools.permutations(cols, len(rows)))
    else:
        every = (zip(own, cols, strict=True) for own in itertools.permutations(rows, len(cols)))
    found = {}
    for pairs in map(tuple, map(sorted, every)):
        if all(pair in price for pair in pairs):
            found[pairs] = sum((price[pair] for pair in pairs), Fraction(0))
    return dict(sorted(found.items(), key=lambda item: -item[1] if maximize else item[1]))


def assert_true(
    cost: Any, res: jm.KBestAssignments, *, maximize: bool = False, **masks: Any
) -> int:
    """One problem's list is right: with gap 0 exactly, else within its gap. Returns the count."""
    truth = all_assignments(cost, maximize=maximize, **masks)
    best = [*truth.values()]
    k, count = res.cost.shape[0], int(res.count)
    assert res.status == (jm.Status.OPTIMAL if truth else jm.Status.INFEASIBLE)
    assert count == min(k, len(truth)), f"{count} of {len(truth)} assignments, k = {k}"
    gap = float(res.gap) if truth else 0.0  # +inf proves nothing
    assert gap >= 0, f"gap {gap}"
    seen = set()
    for r in range(count):
        pairs = pairs_of(res.col4row[r])
        assert pairs == tuple(sorted((i, j) for j, i in pairs_of(res.row4col[r])))
        assert pairs in truth, f"{pairs} is no assignment\n{cost}"
        seen.add(pairs)
        total = truth[pairs]
        assert abs(total - best[r]) <= gap, (
            f"place {r}: {shown(total)}, not {shown(best[r])}, gap {gap}\n{cost}"
        )
        assert is_rounded(res.cost[r], total), f"place {r}: {res.cost[r]}, not {shown(total)}"
    assert len(seen) == count, "an assignment is listed twice"
    assert (res.col4row[count:] == -1).all() and (res.row4col[count:] == -1).all()
    assert np.isnan(res.cost[count:]).all()
    cost, after = res.cost[: max(count - 1, 0)], res.cost[1:count]  # infinities have no difference
    assert ((after <= cost) if maximize else (after >= cost)).all()
    return count


def pairs_of(partner: np.ndarray) -> tuple[tuple[int, int], ...]:
    return tuple((i, j) for i, j in enumerate(partner.tolist()) if j >= 0)
