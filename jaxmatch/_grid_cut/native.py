"""The target that finds minimum cuts of grids."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import jax
import jax.numpy as jnp

from jaxmatch._ffi.call import Result, native_call
from jaxmatch._ffi.results import buffers


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int, Num

# By the numbers of GridCutMethod in ffi/grid_cut/operands.h.
GRID_CUT_METHODS = {"auto": 0, "augment": 1, "push_relabel": 2}


_CONTROL_WORDS = 32


def _scratch_words(grid: tuple[int, ...], connectivity: int) -> int:
    """Enough for whatever ffi/grid_cut/cuda/tiling.h lays out for one grid, in int32.

    Two messages of four words for each arc over a border of tiles, and excess, arcs and height of
    each cell where tiles take turns. Where that leaves no doubt, a grid that fits the shared memory
    of any GPU has none.
    """
    *depth, height, width = grid
    if math.prod(grid) <= 1024 and max(height, width, *depth) <= 32:
        across = max(8 if depth else 16, 1 << (width - 1).bit_length())
        up = max(4, 1 << (height - 1).bit_length()) if depth else height
        inside = across * up * math.prod(depth)
        padded = (across + 2) * (up + 2) * math.prod(d + 2 for d in depth)
        links = (padded - inside) * (3 if connectivity == 8 else 1)
        if 8 * padded * (connectivity + 2) + 12 * links <= 96_000:
            return 4
    parts = (8, 8, 8) if depth else (8, 16)
    rounded = math.prod(-(-size // part) * part for size, part in zip(grid, parts, strict=True))
    messages = {4: 8, 6: 12, 8: 24}[connectivity]
    return rounded * (messages + 2 * (connectivity + 1) + 1) + 65536


def grid_cut(
    source: Num[Array, "..."],
    sink: Num[Array, "..."],
    pairwise: Num[Array, "..."],
    *,
    connectivity: int,
    method: str,
    platform: Literal["cpu", "cuda"],
) -> tuple[Num[Array, "..."], Bool[Array, "..."], Int[Array, "..."]]:
    """Value, source side and status of every problem of the batch, by one native call."""
    rank = 3 if connectivity == 6 else 2
    grid = source.shape[source.ndim - rank :]
    integral = jnp.issubdtype(source.dtype, jnp.integer)
    value_dtype = jax.dtypes.canonicalize_dtype(int) if integral else source.dtype
    sizes = [_CONTROL_WORDS, _scratch_words(grid, connectivity)] if platform == "cuda" else []
    value, side, status, *_ = native_call(
        "jaxmatch_grid_cut",
        [source, sink, pairwise],
        [Result((), value_dtype), Result(grid, jnp.bool_), Result((), jnp.int32), *buffers(sizes)],
        core_dims=[rank, rank, rank + 1],
        connectivity=connectivity,
        method=GRID_CUT_METHODS[method],
    )
    return value, side, status
