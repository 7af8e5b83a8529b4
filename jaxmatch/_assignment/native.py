"""The call of the native target that solves batches of dense assignment problems."""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp

from jaxmatch._common.result import Assignment
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, Bool, Float, Num
from jaxmatch._ffi.call import names_of, native_call
from jaxmatch._ffi.results import assignment_fields, buffers
from jaxmatch._ffi.sizes import most, size


# Bytes of shared memory for a thread block: on an H100, and at least on all supported GPUs.
_BYTES_ON_H100, BYTES_ON_EVERY_GPU = 227 << 10, 99 << 10


def fits_cuda(cost: Num[Array, "... n m"]) -> bool:
    """Whether the state of a problem fits the shared memory in which the CUDA kernels keep it.

    It must fit on all GPUs of this process. If there are none, an H100 is assumed.
    """
    if is_symbolic(cost.shape[-2:]):
        return True
    is_integer = jnp.issubdtype(cost.dtype, jnp.integer)
    longest = most("assignment.longest_side", cost.dtype.itemsize, is_integer)
    side = max(cost.shape[-2:])
    if side > longest or side * _BYTES_ON_H100 <= longest * BYTES_ON_EVERY_GPU:
        return side <= longest
    return side * _BYTES_ON_H100 <= longest * (shared_memory() or _BYTES_ON_H100)


@functools.cache
def shared_memory() -> int | None:
    """Bytes of shared memory for a thread block on the GPUs of this process; None without a GPU.

    If the GPUs differ, this is the least number.
    """
    try:
        gpus = jax.local_devices(backend="cuda")
        return min(gpu.shared_memory_per_block_optin for gpu in gpus)
    except (RuntimeError, AttributeError, ValueError):
        return None


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
