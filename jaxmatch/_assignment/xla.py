"""The pure-JAX assignment solver for any platform: conversion to canonical form and back.

`jaxmatch._assignment.xla_paths` solves problems in canonical form.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxmatch._assignment.xla_paths import Placement, place
from jaxmatch._common.result import Assignment
from jaxmatch._common.rounding import as_float, greatest, nonzero_below
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


def solve(
    cost: Num[Array, "n m"],
    row_mask: Bool[Array, " n"] | None,
    col_mask: Bool[Array, " m"] | None,
    unmatched_cost: Num[Array, " n"] | None,
    col_dual: Float[Array, " m"] | None,
    *,
    maximize: bool,
) -> Assignment:
    """Solves one problem as documented in `solve_assignment`; use `vmap` for a batch."""
    n, m = cost.shape
    rows = jnp.ones_like(cost, bool, shape=(n,)) if row_mask is None else row_mask
    cols = jnp.ones_like(cost, bool, shape=(m,)) if col_mask is None else col_mask
    allowed = rows[:, None] & cols[None, :]

    # Canonical form: minimise; +inf forbids a pair; r is the cost of leaving a row unmatched, +inf
    # for rows that must be matched and 0 for masked rows.
    sign = -1 if maximize else 1
    c, c_low = as_float(cost)
    c = jnp.where(allowed, sign * c, jnp.inf)
    if unmatched_cost is None:
        r, r_low = jnp.full_like(c, jnp.inf, shape=(n,)), jnp.zeros_like(c, shape=(n,))
    else:
        r, r_low = as_float(unmatched_cost)
        r = sign * r
    r = jnp.where(rows, r, 0)

    invalid = (jnp.isnan(c) | (c == -jnp.inf)).any() | (jnp.isnan(r) | (r == -jnp.inf)).any()
    num_rows, num_cols = rows.sum(dtype=jnp.int32), cols.sum(dtype=jnp.int32)
    overflow = jnp.zeros_like(invalid)
    if jnp.issubdtype(cost.dtype, jnp.integer):
        pairs = jnp.minimum(num_rows, num_cols)
        overflow |= _overflows(cost, allowed, pairs)
        if unmatched_cost is not None:
            overflow |= _overflows(unmatched_cost, rows, pairs)
    go = ~(invalid | overflow)

    # Errors that `gap` must cover besides the roundings in `_prove` (xla_paths): from integers that
    # do not fit into a float, and from numbers so small that XLA may flush them, or differences of
    # them, to zero.
    info = jnp.finfo(c.dtype)
    room = 1 << (8 * (n + m)).bit_length()  # an upper bound on the number of terms of any sum
    small = 4 * room * float(info.tiny) / float(info.eps)
    flushed = (allowed & nonzero_below(cost, small)).any()
    if unmatched_cost is not None:
        flushed |= (rows & nonzero_below(unmatched_cost, small)).any()
    inputs = (cost, c if unmatched_cost is None else unmatched_cost)
    narrow = any(x.dtype != c.dtype and jnp.issubdtype(x.dtype, jnp.floating) for x in inputs)
    tiny = float(jnp.finfo(jnp.float32).tiny if narrow else info.tiny)
    low = jnp.maximum(greatest(jnp.where(allowed, c_low, 0)), greatest(jnp.where(rows, r_low, 0)))
    # Huge costs are scaled down by a power of two, so that the sums along a path stay finite.
    huge = jnp.maximum(greatest(c), greatest(r)) > float(info.max) / room
    scale = jnp.where(huge, 1 / room, 1).astype(c.dtype)
    c, r = c * scale, r * scale
    slop = 3 * n * low * scale + jnp.where(flushed, 64 * (n + m) * tiny, 0)
    start = None
    if col_dual is not None:
        start = jnp.where(cols, sign * col_dual * scale, 0)
        start = jnp.where(jnp.abs(start) < small, 0, start)

    def place_rows(go: Array, optional: Array) -> Placement:
        return place(c, r, rows & go, optional, slop, start)

    def place_cols(go: Array) -> Placement:
        """Solves the transposed problem. Columns must be matched; a warm start has row duals."""
        leave = jnp.where(cols, jnp.inf, 0).astype(c.dtype)
        row_start = None
        if start is not None:
            row_start = (c - start[None, :]).min(1, initial=jnp.inf)
            row_start = jnp.where(row_start == jnp.inf, 0, row_start)
        res = place(c.T, leave, cols & go, num_rows != num_cols, slop, row_start)
        return res._replace(col4row=res.row4col, row4col=res.col4row, u=res.v, v=res.u)

    if unmatched_cost is not None:
        placed = place_rows(go, jnp.ones_like(go))
    elif n <= m and col_mask is None:
        placed = place_rows(go, num_rows != num_cols)
    elif n >= m and row_mask is None:
        placed = place_cols(go)
    else:
        # Masks decide at run time which side must be matched. So both calls run, one of them with
        # no active rows.
        flip = num_rows > num_cols
        by_row, by_col = place_rows(go & ~flip, num_rows != num_cols), place_cols(go & flip)
        placed = jax.tree.map(lambda a, b: jnp.where(flip, b, a), by_row, by_col)

    status = jnp.where(placed.failed, Status.INFEASIBLE, Status.OPTIMAL)
    status = jnp.where(overflow, Status.OVERFLOW, status)
    status = jnp.where(invalid, Status.INVALID_COST, status).astype(jnp.int32)
    solved = status == Status.OPTIMAL

    def value(x: Array, negate: bool = maximize) -> Array:
        x = x / scale
        return jnp.where(solved, 0 - x if negate else x, jnp.nan)  # `0 - x` is never -0

    return Assignment(
        col4row=jnp.where(solved, placed.col4row, -1),
        row4col=jnp.where(solved, placed.row4col, -1),
        cost=value(placed.cost),
        row_dual=value(placed.u),
        col_dual=value(placed.v),
        gap=value(placed.gap, negate=False),
        status=status,
    )


def _overflows(x: Num[Array, "..."], exists: Array, pairs: Int[Array, ""]) -> Array:
    """Whether pairs * max|x| or max|x| reaches 2^61. 32-bit integers never do."""
    pairs = jnp.maximum(pairs, 1)
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = jnp.where(exists & jnp.isfinite(x), jnp.abs(x), 0)
        return pairs.astype(x.dtype) * x.max(initial=0) >= 2.0**61
    if x.dtype.itemsize < 8:
        return jnp.zeros_like(pairs, bool)
    limit = -((-(2**61)) // pairs.astype(x.dtype))
    return (exists & ((x >= limit) | (x <= -limit))).any()
