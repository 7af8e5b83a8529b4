"""The target that finds minimum cuts of grids."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import jax
import jax.numpy as jnp

from jaxmatch._native._results import grid_cut_results


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int, Num

# By the numbers of GridCutMethod in ffi/include/jaxmatch/grid_cut_operands.h.
GRID_CUT_METHODS = {"auto": 0, "augment": 1, "push_relabel": 2}


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
    results = grid_cut_results(source, sink, pairwise, rank)
    del platform
    call = jax.ffi.ffi_call("jaxmatch_grid_cut", results, vmap_method="broadcast_all")
    return call(
        source, sink, pairwise, connectivity=connectivity, method=GRID_CUT_METHODS[method]
    )
