"""Prices: the costs of leaving rows and columns unmatched."""

from __future__ import annotations

import jax.numpy as jnp

from jaxmatch._common.result import result_float
from jaxmatch._common.rounding import greatest
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._sparse_assignment.exponents import minimized
from jaxmatch._sparse_assignment.problem import SparseProblem


def prices_of_staying(
    problem: SparseProblem,
    rows: Bool[Array, " n"],
    cols: Bool[Array, " m"],
    limit: Int[Array, ""] | None,
    *,
    sign: int,
) -> tuple[tuple[Array, Array], Float[Array, ""]]:
    """The prices of rows and columns when minimising, and the largest error of rounding a price.

    A price is 0 if the row or column is masked. It is +inf if the row or column must be matched, or
    if the price reaches `limit`.
    """
    dtype = result_float()
    lost = jnp.zeros((), dtype)
    num_rows, num_cols = rows.sum(dtype=jnp.int32), cols.sum(dtype=jnp.int32)
    may_stay = problem.unmatched_cost is not None
    if problem.unmatched_cost is not None:
        r, low = minimized(problem.unmatched_cost, limit, sign=sign)
        lost = jnp.maximum(lost, greatest(jnp.where(rows, low, 0)))
    else:
        r = jnp.where(num_rows > num_cols, 0, jnp.inf).astype(dtype)
    if problem.unmatched_col_cost is not None:
        s, low = minimized(problem.unmatched_col_cost, limit, sign=sign)
        lost = jnp.maximum(lost, greatest(jnp.where(cols, low, 0)))
    else:
        s = jnp.where((num_cols > num_rows) | may_stay, 0, jnp.inf).astype(dtype)
    return (jnp.where(rows, r, 0), jnp.where(cols, s, 0)), lost
