"""`check_grid_cut`: verifies a minimum cut of a grid by a flow in the network of the grid.

It shares only the checks of arguments with the grid solvers: even the list of directions is written
out again.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_result
from jaxmatch._common.given import require
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import module_of
from jaxmatch._common.result import MinimumCut
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Int
from jaxmatch._flow.cut_check import ADVICE, MinimumCutCheck, check_cut
from jaxmatch._flow.network import FlowNetwork, network_on_host
from jaxmatch._grid_cut.solve import as_capacities, as_connectivity


# The steps from a cell to its neighbours, in the order of the first half of `pairwise`. The second
# half has the opposite steps.
_DIRECTIONS: dict[int, tuple[tuple[int, ...], ...]] = {
    4: ((0, 1), (1, 0)),
    8: ((0, 1), (1, 0), (1, 1), (1, -1)),
    6: ((0, 0, 1), (0, 1, 0), (1, 0, 0)),
}
_DIRECTIONS[18] = (
    *_DIRECTIONS[6],
    *((0, 1, 1), (0, 1, -1), (1, 0, 1), (1, 0, -1), (1, 1, 0), (1, -1, 0)),
)
_DIRECTIONS[26] = (*_DIRECTIONS[18], (1, 1, 1), (1, 1, -1), (1, -1, 1), (1, -1, -1))


@unchecked
@in_full_precision("source_capacity", "sink_capacity", "pairwise", on_host=True)
def check_grid_cut(
    source_capacity: ArrayLike,
    sink_capacity: ArrayLike,
    pairwise: ArrayLike,
    cut: MinimumCut,
    *,
    connectivity: int | None = None,
) -> MinimumCutCheck:
    """Verify a result of [`grid_cut`][jaxmatch.grid_cut], in jit or out of it.

    Works as [`check_minimum_cut`][jaxmatch.check_minimum_cut], on the network of the grid.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> image, smooth = jnp.array([[9, 8, 1], [9, 2, 1]]), jnp.full((2, 2, 3), 3)
    >>> cut = jm.grid_cut(image, 10 - image, smooth)
    >>> jm.check_grid_cut(image, 10 - image, smooth, cut)
    MinimumCutCheck(valid=Array(True, dtype=bool), optimal=Array(True, dtype=bool))

    **Arguments:**

    - `source_capacity`, `sink_capacity`, `pairwise`, `connectivity`: as they were passed to
      `grid_cut`.
    - `cut`: the solver's result; `status` is ignored.

    **Returns:** a [`MinimumCutCheck`][jaxmatch.MinimumCutCheck].

    **Time and memory:** as for `maximum_flow` with two edges per cell and one per arc between
    cells, about 10 times as much as for `grid_cut`. The network is built on the host.

    **Raises:** as `grid_cut`, and `ValueError` if the network has 2^30 edges or more.
    """
    connectivity, place = as_connectivity(connectivity), current_place()
    source, sink, pairs = as_capacities(
        source_capacity, sink_capacity, pairwise, connectivity, place
    )
    rank = len(_DIRECTIONS[connectivity][0])
    batch, grid = source.shape[:-rank], source.shape[-rank:]
    require("cut", cut, MinimumCut, ADVICE)
    cut = MinimumCut(cut.value, cut.source_side, cut.status)
    beside = "the capacities"
    shapes = {"value": batch, "source_side": (*batch, *grid)}
    cut = as_result(cut, MinimumCut, shapes, beside, "", "cut", place)
    network, entry = _network(grid, connectivity, pairs.shape[-rank - 1])
    if place.native:
        return _check_batch(source, sink, pairs, cut, network, entry, rank=rank)
    return _check(source, sink, pairs, cut, network, entry, rank=rank)


@compiled(static_argnames="rank")
def _check(
    source: Array,
    sink: Array,
    pairs: Array,
    cut: MinimumCut,
    network: FlowNetwork,
    entry: Int[Array, " a"],
    *,
    rank: int,
) -> MinimumCutCheck:
    check = partial(_check_batch, rank=rank)
    arguments = (source, sink, pairs, cut)
    return over_batch_shards(check, *arguments, core_dims=rank, shared=(network, entry))


def _check_batch(
    source: Array,
    sink: Array,
    pairs: Array,
    cut: MinimumCut,
    network: FlowNetwork,
    entry: Int[Array, " a"],
    *,
    rank: int,
) -> MinimumCutCheck:
    xp, batch = module_of(source), source.shape[:-rank]
    size = math.prod(source.shape[-rank:])
    source, sink, side = (x.reshape(*batch, size) for x in (source, sink, cut.source_side))
    pairs = pairs.reshape(*batch, pairs.shape[-rank - 1] * size)
    capacity = xp.concatenate([source, sink, pairs[..., entry]], -1)
    ends = xp.broadcast_to(xp.array([True, False]), (*batch, 2))
    whole = cut.replace(source_side=xp.concatenate([side, ends], -1))
    first, rest = xp.int32(size), None
    if jnp.issubdtype(source.dtype, jnp.integer):
        # What flows through a single cell need not fit the solver of flows.
        shared = xp.minimum(source, sink)
        less = xp.concatenate([source - shared, sink - shared, pairs[..., entry]], -1)
        rest = less, cut.value - shared.sum(-1, dtype=cut.value.dtype)
    return check_cut(network, capacity, first, first + xp.int32(1), whole, rest)


class _GridNetwork(NamedTuple):
    network: FlowNetwork
    entry: Any  # `int[a]`: for each edge between cells, its index in the flattened `pairwise`


@lru_cache(maxsize=4)
def _network(grid: tuple[int, ...], connectivity: int, arcs: int) -> _GridNetwork:
    """The network of a grid.

    Nodes: the cells, then source and sink. Edges, in this order: from the source to each cell, from
    each cell to the sink, between cells.
    """
    cells = np.arange(np.prod(grid, dtype=np.int64)).reshape(grid)
    n = cells.size
    tails, heads, entries = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, int)]

    def add(tail: np.ndarray, head: np.ndarray, entry: np.ndarray) -> None:
        tails.append(tail.ravel())
        heads.append(head.ravel())
        entries.append(entry.ravel())

    half = _DIRECTIONS[connectivity]
    for k, step in enumerate(half):
        axes = [*zip(step, grid, strict=True)]
        one = cells[tuple(slice(max(0, -d), size - max(0, d)) for d, size in axes)]
        other = cells[tuple(slice(max(0, d), size - max(0, -d)) for d, size in axes)]
        add(one, other, k * n + one)
        add(other, one, k * n + one if arcs == len(half) else (k + len(half)) * n + other)
    every = cells.ravel()
    tail = np.concatenate([np.full(n, n), every, *tails])
    head = np.concatenate([every, np.full(n, n + 1), *heads])
    network = network_on_host(tail, head, n + 2)
    # JAX caches the lowered form of a constant, and without x64 it lowers int64 to int32. Programs
    # with and without x64 share this constant, so it is int32 wherever its values fit.
    entry, pairs = np.concatenate(entries), arcs * n
    return _GridNetwork(network, entry.astype(np.int32) if pairs < 2**31 else entry)
