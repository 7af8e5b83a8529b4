"""An assignment's certificate in rational arithmetic: no rounding, no JAX, no solver's code."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np


def prove(
    cost: Any,
    col4row: Any,
    col_dual: Any,
    maximize: bool = False,
    row_mask: Any = None,
    col_mask: Any = None,
    unmatched_cost: Any = None,
) -> tuple[Fraction, Fraction]:
    """The cost of one assignment, and what the column duals alone prove of its distance to the
    optimum, both exact. `AssertionError` names the first reason why this is no assignment.

    When maximising the cost is the score, and the gap is optimum − score.
    """
    cost, col4row, col_dual = np.asarray(cost), np.asarray(col4row), np.asarray(col_dual)
    n, m = cost.shape
    assert col4row.shape == (n,), f"col4row has shape {col4row.shape}, not {(n,)}"
    rows = np.ones(n, bool) if row_mask is None else np.asarray(row_mask)
    cols = np.ones(m, bool) if col_mask is None else np.asarray(col_mask)
    num_rows, num_cols = int(rows.sum()), int(cols.sum())
    sign = -1 if maximize else 1

    # Who may stay unmatched, and for how much (None: must be matched).
    leave: list[Fraction | None] = [None] * n
    cols_optional = num_cols > num_rows or unmatched_cost is not None
    if unmatched_cost is not None:
        r = np.broadcast_to(np.asarray(unmatched_cost), (n,))
        for i in np.flatnonzero(rows):
            assert not _is(r[i], math.nan, -sign * math.inf), f"unmatched_cost[{i}] is {r[i]}"
            leave[i] = None if _is(r[i], sign * math.inf) else sign * as_fraction(r[i])
    elif num_rows > num_cols:
        leave = [Fraction(0)] * n

    owner = np.full(m, -1)
    for i, j in enumerate(col4row.tolist()):
        assert -1 <= j < m, f"col4row[{i}] = {j} is no column"
        if j < 0:
            assert not rows[i] or leave[i] is not None, f"row {i} must be matched"
            continue
        assert rows[i], f"row {i} is masked but matched"
        assert cols[j], f"row {i} is matched to column {j}, which is masked"
        assert owner[j] < 0, f"column {j} is matched to rows {owner[j]} and {i}"
        assert not _is(cost[i, j], math.nan, math.inf, -math.inf), f"pair {i, j} costs {cost[i, j]}"
        owner[j] = i
    missing = np.flatnonzero(cols & (owner < 0))
    assert cols_optional or missing.size == 0, f"column {missing[:1]} must be matched"

    # Python ints instead of fractions: everything times a power of two.
    v = [Fraction(0)] * m
    for j in np.flatnonzero(cols):
        assert math.isfinite(float(col_dual[j])), f"col_dual[{j}] is {col_dual[j]}"
        v[j] = sign * as_fraction(col_dual[j])
        v[j] = min(v[j], Fraction(0)) if cols_optional else v[j]
    unit = max(x.denominator for x in (*v, *leave, Fraction(1)) if x is not None)
    unit = max(unit, _unit(cost[np.ix_(rows, cols)]))
    v = np.array([int(x * unit) for x in v], object)

    total, gap = 0, 0
    for i in np.flatnonzero(rows):
        finite = cols & np.isfinite(cost[i].astype(float))
        bad = np.flatnonzero(cols & ~finite & (cost[i].astype(float) != sign * math.inf))
        assert bad.size == 0, f"cost[{i}, {bad[:1]}] = {cost[i, bad[:1]]}"
        reduced = sign * _times(cost[i, finite], unit) - v[finite]
        pay = None if leave[i] is None else int(leave[i] * unit)
        u = min([*reduced.tolist(), *([] if pay is None else [pay])])
        j = col4row[i]
        own = pay if j < 0 else int(sign * as_fraction(cost[i, j]) * unit)
        total += own
        gap += own - u - (0 if j < 0 else v[j])
    gap -= sum(v[j] for j in np.flatnonzero(cols & (owner < 0)))
    return sign * Fraction(int(total), unit), Fraction(int(gap), unit)


def _is(x: Any, *values: float) -> bool:
    x = float(x)
    return any(x == y or (math.isnan(x) and math.isnan(y)) for y in values)


def as_fraction(x: Any) -> Fraction:
    """One number of any dtype, exactly."""
    if np.issubdtype(np.asarray(x).dtype, np.integer):
        return Fraction(int(x))
    return Fraction(float(x))  # widening is exact, and NumPy's narrow floats know no ratio


def _unit(x: np.ndarray) -> int:
    """A power of two that makes every finite number an integer."""
    if np.issubdtype(x.dtype, np.integer):
        return 1
    x = x.astype(np.float64)
    x = x[np.isfinite(x) & (x != 0)]
    return 1 << max(0, 53 - int(np.frexp(x)[1].min())) if x.size else 1


def _times(x: np.ndarray, unit: int) -> np.ndarray:
    """x * unit as Python ints."""
    if np.issubdtype(x.dtype, np.integer):
        return x.astype(object) * unit
    mantissa, exponent = np.frexp(x.astype(np.float64))
    whole = np.ldexp(mantissa, 53).astype(np.int64).tolist()
    shift = (exponent - 53 + unit.bit_length() - 1).tolist()
    out = np.empty(x.size, object)
    out[:] = [w << s if w else 0 for w, s in zip(whole, shift, strict=True)]
    return out


def is_rounded(x: Any, exact: Fraction, terms: Fraction | int = 0) -> bool:
    """Whether x is the exact number, rounded to doubles and to its dtype; the error of its
    `terms`, their magnitudes' sum, comes on top. Beyond the dtype it is an infinity."""
    info = np.finfo(x.dtype)
    error = Fraction(terms) / 2**52
    if math.isinf(x):
        return abs(exact) + error >= Fraction(float(info.max)) and (x > 0) == (exact > 0)
    near = max(abs(Fraction(float(x))), abs(exact)) * Fraction(float(info.eps))
    return abs(Fraction(float(x)) - exact) <= error + near + Fraction(
        float(info.smallest_subnormal)
    )


def shown(x: Fraction) -> str:
    """About how much it is, however large."""
    try:
        return str(float(x))
    except OverflowError:
        return f"{'-' if x < 0 else ''}2^{math.log2(abs(x.numerator // x.denominator)):.1f}"
