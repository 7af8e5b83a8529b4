"""Proves that an assignment has as many pairs as possible, and of these the least cost.

It shares no code with the solver, so that it does not repeat its errors.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._common.proof import is_inverse, module_of, sum_down, take, take_pairs
from jaxmatch._common.result import Assignment
from jaxmatch._common.typing import Array, Bool, Int


def check_maximum(
    check_full: Callable[[AssignmentProblem, Assignment], AssignmentCheck],
    problem: AssignmentProblem,
    result: Assignment,
    *,
    maximize: bool,
) -> AssignmentCheck:
    """`check_full` checks that all of the smaller side is matched, at the least cost.

    As many vertices as pairs that touch all allowed pairs prove that no matching has more. Every
    matching with so many gives each of these vertices a partner outside: two problems, of other
    rows and columns, whose gaps add up.
    """
    xp, (*batch, n, m) = module_of(problem.cost), problem.cost.shape
    rows = xp.ones((*batch, n), bool) if problem.row_mask is None else problem.row_mask
    cols = xp.ones((*batch, m), bool) if problem.col_mask is None else problem.col_mask
    col4row, row4col = result.col4row, result.row4col
    matched = col4row >= 0
    allowed = rows[..., :, None] & cols[..., None, :]
    sound = xp.ones(tuple(batch), bool)
    if jnp.issubdtype(problem.cost.dtype, jnp.floating):
        never = -np.inf if maximize else np.inf
        invalid = xp.isnan(problem.cost) | (problem.cost == -never)
        sound = ~(allowed & invalid).any((-2, -1))
        allowed = allowed & (problem.cost != never)
    own = take_pairs(allowed, col4row) if m else ~matched
    valid = is_inverse(col4row, row4col) & is_inverse(row4col, col4row) & (~matched | own).all(-1)
    of_rows, of_cols = _cover(allowed, rows & ~matched, col4row)
    size = (rows & of_rows).sum(-1, dtype=np.int32) + (cols & of_cols).sum(-1, dtype=np.int32)
    most = valid & sound & (size == matched.sum(-1, dtype=np.int32))

    def part(of_rows: Array, of_cols: Array) -> AssignmentCheck:
        return check_full(
            problem._replace(row_mask=rows & of_rows, col_mask=cols & of_cols),
            result.replace(
                col4row=xp.where(of_rows, col4row, -1), row4col=xp.where(of_cols, row4col, -1)
            ),
        )

    one, other = part(of_rows, ~of_cols), part(~of_rows, of_cols)
    gaps = xp.stack([one.gap, other.gap], -1)
    proved = most & xp.isfinite(gaps).all(-1)
    gap = 0 - sum_down(xp.where(proved[..., None], -gaps, 0))
    return AssignmentCheck(
        valid=valid,
        optimal=most & one.optimal & other.optimal,
        gap=xp.where(proved, gap, xp.inf),
    )


def _cover(
    allowed: Bool[Array, "... n m"], start: Bool[Array, "... n"], col4row: Int[Array, "... n"]
) -> tuple[Bool[Array, "... n"], Bool[Array, "... m"]]:
    """The rows that no alternating path from an unmatched row reaches, and the columns reached."""
    xp = module_of(allowed)

    def next_rows(cols: Array) -> Array:
        return start | (take(cols, col4row) & (col4row >= 0))

    def next_cols(rows: Array) -> Array:
        return (allowed & rows[..., None]).any(-2)

    def go_on(cols: Array) -> Array:
        return (next_cols(next_rows(cols)) != cols).any()

    cols = next_cols(start)
    if xp is np:
        while go_on(cols):
            cols = next_cols(next_rows(cols))
    else:
        cols = lax.while_loop(go_on, lambda cols: next_cols(next_rows(cols)), cols)
    return ~next_rows(cols), cols
