"""The target that solves batches of transport problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import jax.numpy as jnp

from jaxmatch._common.result import Transport, result_float
from jaxmatch._ffi.call import Result, names_of, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import size


if TYPE_CHECKING:
    from jaxmatch._transport.problem import TransportProblem


def transport(
    problem: TransportProblem, *, maximize: bool, platform: Literal["cpu", "cuda"]
) -> Transport:
    """Solves every problem of the batch in one native call. Arguments must be checked."""
    return counted(problem, maximize=maximize, platform=platform)[0]


def counted(
    problem: TransportProblem, *, maximize: bool, platform: Literal["cpu", "cuda"]
) -> tuple[Transport, jnp.ndarray]:
    """The result, and the numbers of bids and of pivots, `i32[..., 2]`."""
    cost, supply, demand, *_ = problem
    optional = {
        "row_mask": (problem.row_mask, 1),
        "col_mask": (problem.col_mask, 1),
        "moved": (problem.moved, 0),
        "col_dual": (problem.col_dual, 1),
    }
    given = {name: (x, core) for name, (x, core) in optional.items() if x is not None}
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
    if platform == "cuda":
        results += buffers([size("transport.workspace", n, m)])
    out = native_call(
        "jaxmatch_transport",
        [cost, supply, demand, *(x for x, _ in given.values())],  # type: ignore[list-item]
        results,
        core_dims=[2, 1, 1, *(core for _, core in given.values())],
        present=names_of(**{name: x for name, (x, _) in given.items()}),
        maximize=maximize,
    )
    return Transport(*out[:8]), out[8]
