"""The call of the native target for minimum cuts of grids."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from jaxmatch._common.typing import Array, Bool, Int, Num
from jaxmatch._ffi.call import Result, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import size
from jaxmatch._grid_cut.directions import rank_of
from jaxmatch._grid_cut.result import Start, flow_shape


def grid_cut(
    source: Num[Array, "..."],
    sink: Num[Array, "..."],
    pairwise: Num[Array, "..."],
    *,
    connectivity: int,
    method: str,
    platform: Literal["cpu", "cuda"],
) -> tuple[Num[Array, "..."], Bool[Array, "..."], Int[Array, "..."]]:
    """Solves every problem of the batch in one native call.

    Returns value, source side and status.
    """
    rank = rank_of(connectivity)
    grid = source.shape[source.ndim - rank :]
    integral = jnp.issubdtype(source.dtype, jnp.integer)
    value_dtype = jax.dtypes.canonicalize_dtype(int) if integral else source.dtype
    sizes = []
    if platform == "cuda":
        depth = () if rank == 3 else (1,)
        sizes = [size("grid_cut.control"), size("grid_cut.scratch", *depth, *grid, connectivity)]
    value, side, status, *_ = native_call(
        "jaxmatch_grid_cut",
        [source, sink, pairwise],
        [Result((), value_dtype), Result(grid, jnp.bool_), Result((), jnp.int32), *buffers(sizes)],
        core_dims=[rank, rank, rank + 1],
        connectivity=connectivity,
        method=method,
    )
    return value, side, status


def warm_grid_cut(
    source: Num[Array, "..."],
    sink: Num[Array, "..."],
    pairwise: Num[Array, "..."],
    start: Start,
    *,
    connectivity: int,
    method: str,
    reverse: bool,
) -> tuple[Array, ...]:
    """The same on the CPU, beginning with a flow.

    `reverse`: all arcs of the capacities are reversed, those of the flows are not. Returns value,
    source side, status, flow and unit.
    """
    rank = rank_of(connectivity)
    grid = source.shape[source.ndim - rank :]
    integral = jnp.issubdtype(source.dtype, jnp.integer)
    value_dtype = jax.dtypes.canonicalize_dtype(int) if integral else source.dtype
    results = [
        Result((), value_dtype),
        Result(grid, jnp.bool_),
        Result((), jnp.int32),
        Result(flow_shape(grid, connectivity, source.dtype), jnp.int32),
        Result((), jnp.int32),
    ]
    found = native_call(
        "jaxmatch_grid_cut_warm",
        [source, sink, pairwise, *start],
        results,
        core_dims=[rank, rank, rank + 1, rank + 2, 0],
        connectivity=connectivity,
        method=method,
        reversed=int(reverse),
    )
    return tuple(found)
