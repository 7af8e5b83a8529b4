"""The target that solves batches of transport problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

from jaxmatch._common.result import Transport, result_float
from jaxmatch._ffi.call import Result, names_of, native_call


if TYPE_CHECKING:
    from jaxmatch._transport.problem import TransportProblem


def transport(problem: TransportProblem, *, maximize: bool) -> Transport:
    """Solves every problem of the batch in one native call. Arguments must be checked."""
    return counted(problem, maximize=maximize)[0]


def counted(problem: TransportProblem, *, maximize: bool) -> tuple[Transport, jnp.ndarray]:
    """The result, and the numbers of bids and of pivots, `i32[..., 2]`."""
    cost, supply, demand, row_mask, col_mask = problem
    optional = {"row_mask": row_mask, "col_mask": col_mask}
    masks = [x for x in optional.values() if x is not None]
    n, m = cost.shape[-2:]
    entries, real = max(n + m - 1, 0), result_float()
    results = [
        Result((entries,), jnp.int32),
        Result((entries,), jnp.int32),
        Result((entries,), supply.dtype),
        Result((), real),
        Result((n,), real),
        Result((m,), real),
        Result((), real),
        Result((), jnp.int32),
        Result((2,), jnp.int32),
    ]
    *fields, counts = native_call(
        "jaxmatch_transport",
        [cost, supply, demand, *masks],
        results,
        core_dims=[2, 1, 1, *(1 for _ in masks)],
        present=names_of(**optional),
        maximize=maximize,
    )
    return Transport(*fields), counts
