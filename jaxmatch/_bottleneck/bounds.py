"""Thresholds: which pairs an assignment may consist of, and why there is none.

A pair is open at a threshold if its key is at most that, else closed. The least number of closed
pairs in an assignment is the optimum of costs that are 0 for open pairs and 1 for the others. If
it is not 0, the duals contain a Kőnig cover of the open pairs (`uncovered`), and this leads to a
greater lower bound on the threshold (`raised`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxmatch._common.proof import module_of
from jaxmatch._common.typing import Array, Bool, Float, Int


class Bound(NamedTuple):
    """A lower bound on the greatest key of an assignment, and the cover that proves it.

    All pairs whose key is less than `least` have a row or a column in the cover, which has fewer
    vertices than an assignment has pairs.
    """

    least: Int[Array, "..."]
    row_cover: Bool[Array, "... n"]
    col_cover: Bool[Array, "... m"]


def uncovered(
    u: Float[Array, "... n"], v: Float[Array, "... m"], closed: Bool[Array, "... n"]
) -> tuple[Bool[Array, "... n"], Bool[Array, "... m"]]:
    """The rows and columns outside of a least cover of the open pairs.

    `u`, `v`: duals of an optimal assignment with k > 0 closed pairs, in the rows `closed`. If
    (i, j) and (i', j') are two of these, u_i + v_j = u_i' + v_j' = 1, and u_i + v_j' ≤ 1 ≥ u_i' +
    v_j, so their row duals are the same number c. Outside are the rows with u_i > c − 1/2 and the
    columns with v_j > 1/2 − c. An open pair has u_i + v_j ≤ 0, so it is not outside with both its
    ends. As duals are integers, an open pair of the assignment is outside with one end, a closed
    one with both. A column that stays unmatched has v_j = 0; then c = 1, as v_j' ≤ 0 for all
    columns and u_i ≤ 1, and it is outside. So is a row that stays unmatched, with c = 0. Hence the
    cover has k vertices less than there are pairs.
    """
    xp, lowest = module_of(u), jnp.finfo(u.dtype).min
    level = xp.where(closed, u, lowest).max(-1, keepdims=True)
    # Only columns that must be matched and are not, in place of a pair with a row of dual 0.
    end = xp.where(closed.any(-1, keepdims=True), level, 0) - 0.5
    return u > end, v > -end


def raised(
    key: Int[Array, "... n m"],
    rows: Bool[Array, "... n"],
    cols: Bool[Array, "... m"],
    closed: Int[Array, "..."],
) -> Bound:
    """The bound that follows if at least `closed` pairs of an assignment join these rows to these
    columns.

    The pairs have different rows, so one of their keys is at least the `closed`-th in the order of
    the least keys of rows; the rows with lesser ones complete the cover. The same holds for
    columns. The bound is the greatest integer if too few pairs remain; forbidden pairs have it.
    """
    xp, never = module_of(key), jnp.iinfo(key.dtype).max
    key = xp.where(rows[..., :, None] & cols[..., None, :], key, never)
    of_rows, of_cols = key.min(-1), key.min(-2)
    by_rows, by_cols = _in_order(of_rows, closed), _in_order(of_cols, closed)
    least = xp.maximum(by_rows, by_cols)
    in_rows, at = (by_rows >= by_cols)[..., None], least[..., None]
    row_cover = ~rows | (in_rows & (of_rows < at))
    return Bound(least, row_cover, ~cols | (~in_rows & (of_cols < at)))


def _in_order(x: Int[Array, "... k"], place: Int[Array, "..."]) -> Int[Array, "..."]:
    xp, at = module_of(x), (place - 1).clip(0, x.shape[-1] - 1)[..., None]
    return xp.take_along_axis(xp.sort(x, axis=-1), at, axis=-1)[..., 0]
