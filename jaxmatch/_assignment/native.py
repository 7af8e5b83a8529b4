"""The target that solves batches of dense assignment problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import jax.numpy as jnp

from jaxmatch._common.result import Assignment
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._ffi.call import names_of, native_call
from jaxmatch._ffi.results import assignment_fields, buffers
from jaxmatch._ffi.sizes import most, size


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Num


def fits_cuda(cost: Num[Array, "... n m"]) -> bool:
    """Whether the state of a problem fits the shared memory that the CUDA kernels keep it in."""
    is_integer = jnp.issubdtype(cost.dtype, jnp.integer)
    longest = most("assignment.longest_side", cost.dtype.itemsize, is_integer)
    return is_symbolic(cost.shape[-2:]) or max(cost.shape[-2:]) <= longest


def assignment(
    cost: Num[Array, "... n m"],
    row_mask: Bool[Array, "... n"] | None,
    col_mask: Bool[Array, "... m"] | None,
    unmatched_cost: Num[Array, "... n"] | None,
    col_dual: Float[Array, "... m"] | None,
    *,
    maximize: bool,
    platform: Literal["cpu", "cuda"],
) -> Assignment:
    """Solves every problem of the batch in one native call. Arguments must be checked."""
    optional = {"row_mask": row_mask, "col_mask": col_mask}
    optional |= {"unmatched_cost": unmatched_cost, "col_dual": col_dual}
    operands = [x for x in optional.values() if x is not None]
    n, m = cost.shape[-2:]
    results = fields = assignment_fields(n, m)
    if platform == "cuda":
        present = [x is not None for x in (row_mask, col_mask, unmatched_cost)]
        words = size("assignment.workspace", n, m, cost.dtype.itemsize, *present)
        given = [unmatched_cost is not None, col_dual is not None]
        auction = size("assignment.auction", n, m, cost.dtype.itemsize, *given)
        results = [*fields, *buffers([words, auction])]
    out = native_call(
        "jaxmatch_assignment",
        [cost, *operands],
        results,
        core_dims=[2, *(1 for _ in operands)],
        present=names_of(**optional),
        maximize=maximize,
    )
    return Assignment(*out[: len(fields)])
