"""Lower bounds on the smallest threshold at which an assignment exists.

Keys are costs as integers, see `keys`. A pair is open at a threshold if its key is at most the
threshold, else closed. An assignment exists at a threshold if it consists of open pairs. Let open
pairs cost 0 and closed pairs 1. Then the optimal cost is the least number of closed pairs in an
assignment. If it is not 0, the optimal duals contain a Kőnig cover of the open pairs (`uncovered`).
This cover leads to a greater lower bound on the threshold (`raised`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxmatch._common.proof import module_of
from jaxmatch._common.typing import Array, Bool, Float, Int


class Bound(NamedTuple):
    """A lower bound on the greatest key in any assignment, and the vertex cover that proves it.

    All pairs whose key is less than `least` have their row or their column in the cover. The cover
    has fewer vertices than an assignment has pairs.
    """

    least: Int[Array, "..."]
    row_cover: Bool[Array, "... n"]
    col_cover: Bool[Array, "... m"]


def uncovered(
    u: Float[Array, "... n"], v: Float[Array, "... m"], closed: Bool[Array, "... n"]
) -> tuple[Bool[Array, "... n"], Bool[Array, "... m"]]:
    """The rows and columns outside of a minimum vertex cover of the open pairs.

    `u`, `v`: duals of an optimal assignment with k > 0 closed pairs, in the rows `closed`. If
    (i, j) and (i', j') are two closed pairs of the assignment, then u_i + v_j = u_i' + v_j' = 1,
    u_i + v_j' ≤ 1 and u_i' + v_j ≤ 1. So the row duals of all closed pairs are the same number c.
    Outside of the cover are the rows with u_i > c − 1/2 and the columns with v_j > 1/2 − c.

    An open pair has u_i + v_j ≤ 0, so its row or its column is in the cover. Duals are integers. So
    an open pair of the assignment has exactly one of the two in the cover, and a closed pair
    neither. An unmatched column has v_j = 0. If there is one, all column duals are at most 0 and
    all row duals at most 1, so c = 1 and the column is outside of the cover. If there is an
    unmatched row, c = 0 by the same argument, and the row is outside of the cover. Hence the cover
    has k vertices fewer than the assignment has pairs.
    """
    xp, lowest = module_of(u), jnp.finfo(u.dtype).min
    level = xp.where(closed, u, lowest).max(-1, keepdims=True)
    # Without closed pairs, this is called because columns that must be matched (`must` in `tested`)
    # are unmatched. Then c = 0.
    end = xp.where(closed.any(-1, keepdims=True), level, 0) - 0.5
    return u > end, v > -end


def raised(
    key: Int[Array, "... n m"],
    rows: Bool[Array, "... n"],
    cols: Bool[Array, "... m"],
    closed: Int[Array, "..."],
) -> Bound:
    """The bound if every assignment has at least `closed` pairs between these rows and columns.

    Take the least key of each of these rows, and sort these keys. The `closed` pairs are in
    different rows, so one of them has a key that is at least the `closed`-th of the sorted keys,
    which is the bound. The rows with smaller least keys complete the cover. The same holds for
    columns. If too few pairs remain, the bound is the greatest integer, which is also the key of
    forbidden pairs.
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
