"""The target that solves batches of dense assignment problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from jaxmatch._result import Assignment, result_float


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Num


def assignment(
    cost: Num[Array, "... n m"],
    row_mask: Bool[Array, "... n"] | None,
    col_mask: Bool[Array, "... m"] | None,
    unmatched_cost: Num[Array, "... n"] | None,
    col_dual: Float[Array, "... m"] | None,
    *,
    maximize: bool,
) -> Assignment:
    """Solves every problem of the batch in one native call; arguments are checked already."""
    optional = (row_mask, col_mask, unmatched_cost, col_dual)
    operands = [x for x in optional if x is not None]
    real = result_float()

    # Results as reductions of the operands: that gives them the axes over which a surrounding
    # `shard_map` varies, in every version of jax that has a word for it.
    def results(cost: Array, *operands: Array) -> tuple[Array, ...]:
        nothing = sum((x.sum().astype(real) for x in operands), jnp.zeros((), real))
        per_row, per_col = cost.sum(-1).astype(real), cost.sum(-2).astype(real)
        value = per_row.sum(-1)
        shapes = (per_row, per_col, value, per_row, per_col, value, value)
        dtypes = (jnp.int32, jnp.int32, real, real, real, real, jnp.int32)
        return tuple((x + nothing).astype(d) for x, d in zip(shapes, dtypes, strict=True))

    call = jax.ffi.ffi_call(
        "jaxmatch_assignment",
        jax.eval_shape(results, cost, *operands),
        vmap_method="broadcast_all",
    )
    given = sum(1 << bit for bit, x in enumerate(optional) if x is not None)
    return Assignment(*call(cost, *operands, given=given, maximize=maximize))
