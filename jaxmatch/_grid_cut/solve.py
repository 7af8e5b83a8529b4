"""Minimum cuts of images and volumes: the public function, dispatch, and the gradient."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.arguments import as_array, check_name, solved_dtype
from jaxmatch._common.given import as_given
from jaxmatch._common.gradient import envelope_value, instantiated, sum_where
from jaxmatch._common.limits import MOST_CELLS
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.result import MinimumCut
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._ffi.dispatch import Method, by_platform
from jaxmatch._ffi.place import Place, place_of
from jaxmatch._grid_cut import native
from jaxmatch._grid_cut import xla as _xla_grid_cut


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool


_METHODS = {
    "auto": Method(cpu="auto", cuda="auto"),
    "augment": Method(cpu="augment", cuda="auto"),
    "push_relabel": Method(cpu="push_relabel", cuda="push_relabel"),
    "xla": Method(cpu=None, cuda=None),
}


@unchecked
def grid_cut(
    source_capacity: ArrayLike,
    sink_capacity: ArrayLike,
    pairwise: ArrayLike,
    *,
    connectivity: int | None = None,
    method: str = "auto",
) -> MinimumCut:
    """Find minimum cuts of images and volumes, inside or outside of `jax.jit`.

    Every pixel or voxel is a cell. Arcs lead from a source to each cell, from each cell to a sink,
    and between neighbours. The cut puts each cell on the source side or the sink side, so that the
    total capacity of arcs from the source side to the sink side is least. A cell on the sink side
    costs its `source_capacity`, a cell on the source side its `sink_capacity`. Neighbours on
    different sides cost the `pairwise` capacity of the arc from the source side to the sink side.
    All other leading dimensions are batch, solved by one native call.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> image = jnp.array([[9, 8, 1], [9, 2, 1]])
    >>> smooth = jnp.full((2, 2, 3), 3)  # to the right and down, both ways
    >>> res = jax.jit(jm.grid_cut)(image, 10 - image, smooth)
    >>> res.source_side.astype(int)
    Array([[1, 1, 0],
           [1, 0, 0]], dtype=int32)
    >>> int(res.value), int(res.status) == jm.Status.OPTIMAL
    (17, True)

    **Arguments:**

    - `source_capacity`, `sink_capacity`: `[..., H, W]`, or `[..., D, H, W]` with connectivity 6,
      the capacities of the arcs from the source and to the sink. +inf fixes a cell to a side (a
      hard seed).
    - `pairwise`: `[..., K, H, W]` or `[..., K, D, H, W]`, the capacities of the arcs to neighbours.
      `pairwise[..., k, i]` is that of the arc from cell i to its neighbour in direction k. With K =
      `connectivity` there is an entry for each direction. With K = `connectivity` / 2 there are
      entries for the first half of the directions, each for both arcs. Entries of arcs that leave
      the grid are ignored.
    - `connectivity`: 4 (the default) or 8 neighbours in two-dimensional grids, 6 in
      three-dimensional ones. It determines which dimensions are the grid; the others are batch, and
      broadcast.
    - `method`: `"auto"`, `"augment"` (incremental breadth-first search, on CPUs), `"push_relabel"`
      (on GPUs) or `"xla"` (the pure-JAX twin). Every name is accepted on every platform; each
      platform has one native solver, which runs for any name but `"xla"`.

    Directions as steps (y, x) or (z, y, x); direction k + `connectivity` / 2 is opposite to k:

    | `connectivity` | first half | second half |
    | --- | --- | --- |
    | 4 | (0, 1), (1, 0) | (0, −1), (−1, 0) |
    | 8 | (0, 1), (1, 0), (1, 1), (1, −1) | (0, −1), (−1, 0), (−1, −1), (−1, 1) |
    | 6 | (0, 0, 1), (0, 1, 0), (1, 0, 0) | (0, 0, −1), (0, −1, 0), (−1, 0, 0) |

    The three are promoted to one dtype; small integers and booleans are cast to int32,
    bfloat16 and float16 to float32.

    | capacities | value without x64 | value with `jax_enable_x64` |
    | --- | --- | --- |
    | int32 | int32 | int64 |
    | int64 | – | int64 |
    | float32 | float32 | float32 |
    | float64 | – | float64 |

    64-bit NumPy arrays are treated as under x64. On the CPU, outside of a trace, NumPy arguments
    give NumPy results.

    **Returns:**

    A [`MinimumCut`][jaxmatch.MinimumCut], which [`check_grid_cut`][jaxmatch.check_grid_cut]
    verifies. Among several minimum cuts it is the one with the fewest cells on the source side,
    those that residual arcs reach from the source. This cut is unique, so it is the same for every
    method, backend and batch.

    **Status:** `OPTIMAL`. `INVALID_CAPACITY` if a capacity is negative or NaN. `OVERFLOW` for
    integers if both Σ source_capacity and Σ sink_capacity reach 2^59, or if the value does not fit
    its dtype (including a finite cut beyond all floats). No exception is raised, and the rest of
    the batch is unaffected. Empty grids have value 0.

    **Exact:** integers. Floats are solved in fixed point, with a unit of about 2^-59 of the largest
    sum of the capacities around a cell, without those that no flow can fill. If every capacity is a
    multiple of the unit, as integers are, the cut is exactly minimum. Otherwise capacities are
    rounded down to units, and the cut exceeds the minimum by at most the number of arcs times the
    unit. This holds from the smallest denormal to the largest double, also with +inf. The value is
    the sum of the given capacities in float64 (in an order that may differ between a single grid
    and a batch). If no finite cut exists, the value is +inf and the status `OPTIMAL`. The twin
    without x64 has 32-bit integers only: a unit of 2^-29, sums in float32, and `OVERFLOW` if the
    integer capacities around a cell reach 2^30. Denormal numbers, and denormal
    differences, are read as zero.

    **Deterministic:** yes, the entire result.

    **Gradient:** of `value`, forward and reverse, with respect to all three: 1 for an arc of the
    cut and 0 otherwise. If several cuts are minimum, this is one of the supergradients. 0 if the
    status is not `OPTIMAL`.

    **Time and memory:** on the CPU each problem has one thread, and a batch uses all of them. The
    worst case is polynomial (n²·arcs, Goldberg et al.); in practice a few visits per cell. On CUDA
    tiles of the grid push and relabel in the shared memory of all multiprocessors, and exchange
    border flow through global memory. Grids of up to 1024 cells that fit one tile, and in a batch
    all that fit one multiprocessor, have one block each, in one launch. Larger ones are solved one
    at a time, with about 80 bytes per cell (110 with 6 neighbours, 170 with 8) for each problem of
    the batch besides the arguments. Termination: after 1024 relabellings, more than any grid we
    know needs, heights stay valid between them, and push-relabel's polynomial bound holds. Each
    step of the twin is a pass over all cells.

    **Raises:** `TypeError` for other dtypes; `ValueError` for shapes that do not fit, grids of 2^28
    cells or more, integers that JAX would truncate, and an unknown `connectivity` or `method`.

    **Source:** Boykov and Jolly, *Interactive graph cuts for optimal boundary and region
    segmentation of objects in N-D images*, ICCV 2001 (the model). Goldberg, Hed, Kaplan, Tarjan and
    Werneck, *Maximum flows by incremental breadth-first search*, ESA 2011 (CPU). Goldberg and
    Tarjan, *A new approach to the maximum-flow problem*, J. ACM 35 (1988); Delong and Boykov, *A
    scalable graph-cut algorithm for N-D grids*, CVPR 2008; Shekhovtsov and Hlaváč, *A distributed
    mincut/maxflow algorithm combining path augmentation and push-relabel*, IJCV 104 (2013) (CUDA).
    """
    connectivity = as_connectivity(connectivity)
    check_name("method", method, _METHODS)
    capacities = (
        as_given("source_capacity", source_capacity),
        as_given("sink_capacity", sink_capacity),
        as_given("pairwise", pairwise),
    )
    place = place_of(*capacities, options=(connectivity, method))
    solver = _METHODS[method].cpu
    if solver is None:
        place = place.by_jax()
    with place.precision():
        arrays = as_capacities(*capacities, connectivity, place)
        if place.native and solver is not None:
            cut = native.grid_cut(*arrays, connectivity=connectivity, method=solver, platform="cpu")
            return place.bring_home(MinimumCut(*cut))
        return place.bring_home(_solve(*arrays, connectivity=connectivity, method=method))


# ---------------------------------------------------------------------------------------------
# Arguments


def as_connectivity(connectivity: int | None) -> int:
    if connectivity is None:
        return 4
    if connectivity not in (4, 6, 8):
        raise ValueError(
            f"`connectivity` must be 4 or 8 (two dimensions) or 6 (three), got {connectivity!r}."
        )
    return int(connectivity)


def as_capacities(
    source_capacity: ArrayLike,
    sink_capacity: ArrayLike,
    pairwise: ArrayLike,
    connectivity: int,
    place: Place,
) -> tuple[Array, Array, Array]:
    """Converts all three to one dtype and one batch shape."""
    names = ("source_capacity", "sink_capacity", "pairwise")
    inputs = (source_capacity, sink_capacity, pairwise)
    arrays = [as_array(name, x, place) for name, x in zip(names, inputs, strict=True)]
    dtype = solved_dtype(common_dtype(*arrays))
    source, sink, pairs = (x.astype(dtype) for x in arrays)

    rank = 3 if connectivity == 6 else 2
    grid = "D, H, W" if rank == 3 else "H, W"
    hint = "" if rank == 3 else "; volumes need connectivity=6"
    for name, x in zip(names[:2], (source, sink), strict=True):
        if x.ndim < rank:
            raise ValueError(
                f"`{name}` must have shape [..., {grid}] with connectivity={connectivity}, got "
                f"{x.shape}."
            )
    shape = source.shape[-rank:]
    require_sizes(names[0], shape, "give cells of its padding no capacities")
    if math.prod(shape) > MOST_CELLS:
        raise ValueError(
            f"Grids must have at most {MOST_CELLS} cells, got {shape}; cut it into parts."
        )
    if sink.shape[-rank:] != shape:
        raise ValueError(
            f"`sink_capacity` must have the grid {shape} of `source_capacity` as its last "
            f"dimensions, got shape {sink.shape}{hint}."
        )
    counts = (connectivity // 2, connectivity)
    if (
        pairs.ndim < rank + 1
        or pairs.shape[-rank:] != shape
        or pairs.shape[-rank - 1] not in counts
    ):
        raise ValueError(
            f"`pairwise` must have shape [..., K, {grid}] with K in {counts} and the grid {shape} "
            f"of `source_capacity`, for connectivity={connectivity}; got {pairs.shape}{hint}."
        )
    try:
        batch = jnp.broadcast_shapes(
            source.shape[:-rank], sink.shape[:-rank], pairs.shape[: -rank - 1]
        )
    except ValueError:
        raise ValueError(
            "The batch dimensions, all in front of the grid, must broadcast: got "
            f"{source.shape[:-rank]} for `source_capacity`, {sink.shape[:-rank]} for "
            f"`sink_capacity`, {pairs.shape[: -rank - 1]} for `pairwise`{hint}."
        ) from None
    xp = place.xp
    return (
        xp.broadcast_to(source, (*batch, *shape)),
        xp.broadcast_to(sink, (*batch, *shape)),
        xp.broadcast_to(pairs, (*batch, *pairs.shape[-rank - 1 :])),
    )


# ---------------------------------------------------------------------------------------------
# Solving


@compiled(static_argnames=("connectivity", "method"))
def _solve(
    source: Array, sink: Array, pairwise: Array, *, connectivity: int, method: str
) -> MinimumCut:
    """The native solver where the platform has one, chosen at lowering; the twin elsewhere."""
    cpu, cuda = _METHODS[method]
    twin = partial(_xla_grid_cut.solve, connectivity=connectivity)
    call = partial(native.grid_cut, connectivity=connectivity)
    on_cpu = None if cpu is None else partial(call, method=cpu, platform="cpu")
    on_cuda = None if cuda is None else partial(call, method=cuda, platform="cuda")

    def solve(source: Array, sink: Array, pairwise: Array) -> MinimumCut:
        capacities = lax.stop_gradient((source, sink, pairwise))
        cut = MinimumCut(*by_platform(twin, *capacities, cpu=on_cpu, cuda=on_cuda))
        if not jnp.issubdtype(source.dtype, jnp.floating):
            return cut
        jvp = partial(_value_jvp, connectivity)
        value = envelope_value(cut.value, (source, sink, pairwise), cut, jvp)
        return cut.replace(value=value)

    rank = 3 if connectivity == 6 else 2
    return over_batch_shards(solve, source, sink, pairwise, core_dims=rank)


def _value_jvp(
    connectivity: int, capacities: tuple[Array, ...], tangents: tuple[Array, ...], cut: MinimumCut
) -> Array:
    source, sink, pairwise = instantiated(tangents, capacities)
    rank = 3 if connectivity == 6 else 2
    grid = tuple(range(-rank, 0))
    solved = (cut.status == Status.OPTIMAL)[(..., *(None for _ in grid))]
    dot = sum_where(solved & ~cut.source_side, source, grid)
    dot += sum_where(solved & cut.source_side, sink, grid)
    crosses = cut_arcs(cut.source_side, capacities[2].shape[-rank - 1], connectivity)
    crosses &= jnp.expand_dims(solved, -rank - 1)
    return dot + sum_where(crosses, pairwise, (-rank - 1, *grid))


def cut_arcs(side: Bool[Array, "..."], arcs: int, connectivity: int) -> Bool[Array, "..."]:
    """Which entries of `pairwise`, with `arcs` per cell, belong to the cut."""
    crossing = []
    for step in _xla_grid_cut.steps(connectivity)[:arcs]:
        # A missing neighbour is on neither side.
        on_sink_side = _xla_grid_cut.neighbours(~side, step)
        differ = side & on_sink_side
        if arcs < connectivity:
            differ |= ~side & _xla_grid_cut.neighbours(side, step)
        crossing.append(differ)
    return jnp.stack(crossing, axis=side.ndim - (3 if connectivity == 6 else 2))
