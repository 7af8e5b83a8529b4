"""Three ways to match predictions to targets inside of a jitted step, for comparison.

Each takes costs `[..., queries, targets]` and a target mask that broadcasts to `[..., targets]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int


def match_jaxmatch(cost: Float[Array, "... n m"], mask: Bool[Array, "... m"]) -> jm.Assignment:
    """One native call for all layers and images; padded targets do not exist for it."""
    return jm.losses.hungarian_matching(cost, mask)


def match_optax(cost: Float[Array, "... n m"], mask: Bool[Array, "... m"]) -> jm.Assignment:
    """`optax.assignment` under `vmap`; it knows no masks, so padding costs every query 0."""
    mask = jnp.broadcast_to(mask, (*cost.shape[:-2], cost.shape[-1]))

    def solve(cost: Array, mask: Array) -> Array:
        rows, cols = optax.assignment.hungarian_algorithm(jnp.where(mask, cost, 0))
        row4col = jnp.zeros(mask.shape, jnp.int32).at[cols].set(rows)
        return jnp.where(mask, row4col, -1)

    for _ in cost.shape[:-2]:
        solve = jax.vmap(solve)
    return _from_row4col(cost, solve(cost, mask))


def match_scipy(cost: Float[Array, "... n m"], mask: Bool[Array, "... m"]) -> jm.Assignment:
    """A host callback that loops over scipy; one NaN and the run ends with an exception."""
    mask = jnp.broadcast_to(mask, (*cost.shape[:-2], cost.shape[-1]))

    def solve(cost: np.ndarray, mask: np.ndarray) -> np.ndarray:
        cost, mask = np.asarray(cost), np.asarray(mask)
        row4col = np.full(mask.shape, -1, np.int32)
        for index in np.ndindex(mask.shape[:-1]):
            real = np.flatnonzero(mask[index])
            rows, cols = linear_sum_assignment(cost[index][:, real])
            row4col[index][real[cols]] = rows
        return row4col

    out = jax.ShapeDtypeStruct(mask.shape, jnp.int32)
    return _from_row4col(cost, jax.pure_callback(solve, out, cost, mask))


def _from_row4col(cost: Array, row4col: Int[Array, "... m"]) -> jm.Assignment:
    """What the losses read of a result: both index arrays and the status."""
    pairs = row4col[..., None, :] == jnp.arange(cost.shape[-2])[:, None]
    return jm.Assignment.empty(cost.shape).replace(
        col4row=jnp.where(pairs.any(-1), pairs.argmax(-1), -1),
        row4col=row4col,
        status=jnp.full(cost.shape[:-2], jm.Status.OPTIMAL, jnp.int32),
    )


MATCHERS = {"jaxmatch": match_jaxmatch, "optax": match_optax, "scipy": match_scipy}
