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
    *batch, n, m = cost.shape
    shape = tuple(batch)
    real = result_float()

    def result(dtype: jnp.dtype, *dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*shape, *dims), dtype)

    optional = (row_mask, col_mask, unmatched_cost, col_dual)
    call = jax.ffi.ffi_call(
        "jaxmatch_assignment",
        (
            result(jnp.int32, n),
            result(jnp.int32, m),
            result(real),
            result(real, n),
            result(real, m),
            result(real),
            result(jnp.int32),
        ),
        vmap_method="broadcast_all",
    )
    operands = [x for x in optional if x is not None]
    given = sum(1 << bit for bit, x in enumerate(optional) if x is not None)
    return Assignment(*call(cost, *operands, given=given, maximize=maximize))
