"""Three ways to associate detections with tracks.

Each takes costs `[d, s]`, of which +inf forbids a pair, and masks of rows and columns, and returns
`col4row`, `i32[d]`: the column of each row, or -1 where the row stays for `UNMATCHED`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from _tracking_filter import UNMATCHED, Associate
from jax import lax
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int


def exact_jaxmatch(
    cost: Float[Array, "d s"], row_mask: Bool[Array, " d"], col_mask: Bool[Array, " s"]
) -> Int[Array, " d"]:
    return jm.solve_assignment(
        cost, row_mask=row_mask, col_mask=col_mask, unmatched_cost=UNMATCHED
    ).col4row


def exact_scipy(
    cost: Float[Array, "d s"], row_mask: Bool[Array, " d"], col_mask: Bool[Array, " s"]
) -> Int[Array, " d"]:
    """By a callback in each frame: a pair saves what it costs less than `UNMATCHED`."""

    def solve(cost: np.ndarray, row_mask: np.ndarray, col_mask: np.ndarray) -> np.ndarray:
        there = np.ix_(np.asarray(row_mask), np.asarray(col_mask))
        saved = np.minimum(np.asarray(cost)[there] - UNMATCHED, 0)
        rows, cols = linear_sum_assignment(saved)
        used = saved[rows, cols] < 0
        col4row = np.full(len(cost), -1, np.int32)
        col4row[np.flatnonzero(row_mask)[rows[used]]] = np.flatnonzero(col_mask)[cols[used]]
        return col4row

    out = jax.ShapeDtypeStruct(cost.shape[:1], jnp.int32)
    return jax.pure_callback(solve, out, cost, row_mask, col_mask, vmap_method="sequential")


def greedy(
    cost: Float[Array, "d s"], row_mask: Bool[Array, " d"], col_mask: Bool[Array, " s"]
) -> Int[Array, " d"]:
    """The nearest pair, then the nearest pair of the rest, and so on.

    All pairs of which each is nearest to the other can be taken at once.
    """
    rows = jnp.arange(len(cost))

    def take(state: tuple[Array, Array]) -> tuple[Array, Array]:
        cost, col4row = state
        nearest = cost.argmin(1)
        both = (cost.argmin(0)[nearest] == rows) & (cost.min(1) < UNMATCHED)
        at = jnp.where(both, nearest, cost.shape[1])
        taken = jnp.zeros(cost.shape[1], bool).at[at].set(True, mode="drop")
        col4row = jnp.where(both, nearest.astype(jnp.int32), col4row)
        return jnp.where(both[:, None] | taken, jnp.inf, cost), col4row

    def goes_on(state: tuple[Array, Array]) -> Array:
        return state[0].min() < UNMATCHED

    cost = jnp.where(row_mask[:, None] & col_mask, cost, jnp.inf)
    return lax.while_loop(goes_on, take, (cost, jnp.full(len(cost), -1, jnp.int32)))[1]


ASSOCIATIONS: dict[str, Associate] = {
    "greedy": greedy,
    "jaxmatch": exact_jaxmatch,
    "scipy": exact_scipy,
}
