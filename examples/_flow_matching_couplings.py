"""Three couplings of a minibatch: which target point each source point is joined to.

Each takes points `x` and `y`, both `[n, d]`, and returns `target`, `i32[n]`, a permutation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm


if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int


def squared_distances(x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """By one matrix product, in full float32 precision on a GPU as well."""
    norms = (x**2).sum(-1)[:, None] + (y**2).sum(-1)
    return norms - 2 * jnp.matmul(x, y.T, precision="highest")


def independent(x: Float[Array, "n d"], y: Float[Array, "n d"]) -> Int[Array, " n"]:
    """Points in the order in which they were drawn."""
    return jnp.arange(len(x), dtype=jnp.int32)


def exact_jaxmatch(x: Float[Array, "n d"], y: Float[Array, "n d"]) -> Int[Array, " n"]:
    """Optimal transport of equal weights has a permutation as its plan: an assignment."""
    return jm.solve_assignment(squared_distances(x, y)).col4row


def exact_scipy(x: Float[Array, "n d"], y: Float[Array, "n d"]) -> Int[Array, " n"]:
    """The same by a callback: the step waits for the host."""

    def solve(cost: np.ndarray) -> np.ndarray:
        return linear_sum_assignment(np.asarray(cost))[1].astype(np.int32)

    out = jax.ShapeDtypeStruct((len(x),), jnp.int32)
    return jax.pure_callback(solve, out, squared_distances(x, y), vmap_method="sequential")


COUPLINGS: dict[str, Callable[[Array, Array], Array]] = {
    "independent": independent,
    "jaxmatch": exact_jaxmatch,
    "scipy": exact_scipy,
}
