"""What solvers of cheapest maximum matchings share, on graphs and on matrices.

By Kőnig's theorem some vertices, as many as a maximum matching has pairs, touch all edges. Every
maximum matching gives each of them a partner that is not among them. So it consists of two parts:
the rows of this cover with columns outside of it, all of which must be matched, and the columns of
the cover with rows outside of it. Edges between two vertices of the cover are in no maximum
matching (Dulmage and Mendelsohn, Canad. J. Math. 10, 1958). A missing pair has no cost, so it
hides none of the others.

The cover is the one that checks find, too: the rows that no alternating path from an unmatched row
reaches, and the columns that one reaches. It does not depend on the matching.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.proof import module_of
from jaxmatch._common.result import Assignment
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Int


def cover_of(
    unmatched: Bool[Array, " n"],
    col4row: Int[Array, " n"],
    m: int,
    reached_from: Callable[[Bool[Array, " n"]], Bool[Array, " m"]],
) -> tuple[Bool[Array, " n"], Bool[Array, " m"]]:
    """The cover of a maximum matching. `reached_from(rows)`: the columns next to the rows."""
    xp = module_of(col4row)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rows, cols = state[0], reached_from(state[0])
        wider = rows | ((col4row >= 0) & cols[col4row.clip(0, m - 1)])
        return wider, cols, (wider != rows).any()

    some = unmatched.any()
    state = (unmatched, some & xp.zeros((m,), bool), some)
    if 0 in (m, col4row.shape[0]):
        return ~state[0], state[1]
    if xp is np:
        while state[2]:
            state = step(state)
    else:
        state = lax.while_loop(lambda state: state[2], step, state)
    return ~state[0], state[1]


def kept(
    ptr: Int[Array, " k+1"], ind: Int[Array, " e"], live: Bool[Array, " e"]
) -> tuple[Int[Array, " k+1"], Int[Array, " e"]]:
    """Pointers and indices of the live edges alone."""
    xp = module_of(ind)
    before = xp.concatenate([xp.zeros(1, np.int32), live.cumsum(dtype=np.int32)])
    if xp is np:
        rest: Any = np.zeros_like(ind)
        rest[: before[-1]] = ind[live]
    else:
        rest = (
            jnp.zeros_like(ind).at[jnp.where(live, before[:-1], ind.shape[0])].set(ind, mode="drop")
        )
    return before[ptr.clip(0, ind.shape[0])], rest


def joined(
    first: Assignment,
    second: Assignment,
    row_cover: Bool[Array, "... n"],
    col_cover: Bool[Array, "... m"],
    failure: Int[Array, "..."],
) -> Assignment:
    """The result of both parts: of the rows of the cover, and of its columns.

    `failure`: a status other than `OPTIMAL` of problems that have failed already.
    """
    xp = module_of(first.cost)
    status = xp.where(first.status != Status.OPTIMAL, first.status, second.status)
    status = xp.where(failure != Status.OPTIMAL, failure, status)
    solved = status == Status.OPTIMAL

    def pairs(x: Array, y: Array) -> Array:
        return xp.where(solved[..., None], xp.maximum(x, y), np.int32(-1))

    def number(x: Array) -> Array:
        ok = solved[..., None] if x.ndim > solved.ndim else solved
        return xp.where(ok, x, x.dtype.type(np.nan))

    return Assignment(
        col4row=pairs(first.col4row, second.col4row),
        row4col=pairs(first.row4col, second.row4col),
        cost=number(first.cost + second.cost),
        row_dual=number(xp.where(row_cover, first.row_dual, second.row_dual)),
        col_dual=number(xp.where(col_cover, second.col_dual, first.col_dual)),
        gap=number(_sum_of_gaps(first.gap, second.gap)),
        status=status,
    )


def _sum_of_gaps(x: Array, y: Array) -> Array:
    """Rounded upwards if it may be inexact."""
    total = x + y
    return module_of(x).where(x * y == 0, total, total * (1 + 2 * jnp.finfo(x.dtype).eps))
