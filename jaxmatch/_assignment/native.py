"""The target that solves batches of dense assignment problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import jax.numpy as jnp

from jaxmatch._common.result import Assignment
from jaxmatch._ffi.call import native_call
from jaxmatch._ffi.results import assignment_fields, buffers


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Num


def fits_cuda(cost: Num[Array, "... n m"]) -> bool:
    """Whether the CUDA kernels take these costs.

    They keep the state of a problem in one multiprocessor's shared memory, where 64-bit integers
    need twice the room. The same limits stand in ffi/assignment/cuda/batch.h.
    """
    return max(cost.shape[-2:]) <= (2048 if cost.dtype == jnp.int64 else 4096)


def workspace_words(
    cost: Array, row_mask: Array | None, col_mask: Array | None, unmatched_cost: Array | None
) -> int:
    """How many int32 a CUDA kernel needs to copy one problem's costs to, beyond shared memory.

    Wide and square problems are read in place; tall ones are transposed, scattered ones gathered,
    16-bit ones widened. The same rules stand in ffi/assignment/cuda/plan.h.
    """
    n, m = cost.shape[-2:]
    tall = unmatched_cost is None and n > m
    if not (tall or row_mask is not None or col_mask is not None or cost.dtype.itemsize == 2):
        return 0
    rows, cols = (min(n, m), max(n, m)) if unmatched_cost is None else (n, m)
    longs = 2 if cost.dtype.itemsize == 8 else 1
    # In shared memory, beside the state of a problem, at most 42 bytes for each row and column. One
    # warp for each problem has to share with others.
    pack = 1 if cols <= 32 else 2 if cols <= 64 else 4
    copy = 4 * longs * rows * pack * (-(-cols // pack) | 1)
    most = 48 << 10 if cols <= 128 else 72 << 10
    if copy <= most and copy + 42 * (rows + cols) <= 80 << 10:
        return 0
    return longs * rows * -(-cols // 4) * 4


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
    """Solves every problem of the batch in one native call; arguments are checked already."""
    optional = (row_mask, col_mask, unmatched_cost, col_dual)
    operands = [x for x in optional if x is not None]
    results = assignment_fields(*cost.shape[-2:])
    if platform == "cuda":
        results += buffers([workspace_words(cost, row_mask, col_mask, unmatched_cost)])
    out = native_call(
        "jaxmatch_assignment",
        [cost, *operands],
        results,
        core_dims=[2, *(1 for _ in operands)],
        given=sum(1 << bit for bit, x in enumerate(optional) if x is not None),
        maximize=maximize,
    )
    return Assignment(*out[:7])
