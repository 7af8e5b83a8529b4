"""Minimum cuts of images and volumes: the public function, dispatch, and the gradient."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_array, check_name, solved_dtype
from jaxmatch._common.given import as_given
from jaxmatch._common.gradient import apart, envelope_value, instantiated, sum_where
from jaxmatch._common.limits import MOST_CELLS
from jaxmatch._common.place import Place, place_of
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.result import MinimumCut
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import Array, ArrayLike, Bool
from jaxmatch._ffi.dispatch import Method, by_platform
from jaxmatch._ffi.repeated import repeated
from jaxmatch._grid_cut import native
from jaxmatch._grid_cut import xla as _xla_grid_cut
from jaxmatch._grid_cut.directions import CONNECTIVITIES, rank_of, steps
from jaxmatch._grid_cut.result import GridCut, Start, as_start, require_start


_METHODS = {
    "auto": Method(cpu="auto", cuda="auto"),
    "augment": Method(cpu="augment", cuda="auto"),
    "push_relabel": Method(cpu="push_relabel", cuda="push_relabel"),
    "xla": Method(cpu=None, cuda=None),
}


@repeated()
@unchecked
def grid_cut(
    source_capacity: ArrayLike,
    sink_capacity: ArrayLike,
    pairwise: ArrayLike,
    *,
    connectivity: int | None = None,
    method: str = "auto",
    nearest: Literal["source", "sink"] = "source",
    warm_start: GridCut | None = None,
    return_flow: bool = False,
) -> MinimumCut:
    """Find minimum cuts of images and volumes, inside or outside of `jax.jit`.

    Puts each cell (a pixel or voxel) on the source side or the sink side such that the total cost
    is smallest. A cell on the sink side costs its `source_capacity`, and a cell on the source side
    its `sink_capacity`. Two neighbours on different sides cost the `pairwise` capacity of the arc
    from the source side to the sink side. Leading dimensions are batch, solved by one native call.

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

    - `source_capacity`, `sink_capacity`: `[..., H, W]`, or `[..., D, H, W]` for volumes; int32 to
      float64 (smaller dtypes are widened). +inf fixes a cell to a side (a hard seed).
    - `pairwise`: `[..., K, H, W]` or `[..., K, D, H, W]`: entry `[..., k, i]` is the capacity of
      the arc from cell i to its neighbour in direction k, see [Directions][grid-directions]. K is
      `connectivity`, or half of it if each entry is for both arcs between two cells.
    - `connectivity`: 4 (the default) or 8 for images; 6, 18 or 26 ([weights][grid-weights]).
    - `method`: `"auto"`, `"augment"` (CPU), `"push_relabel"` (CUDA) or `"xla"`, see
      [Methods][grid-cut-methods].
    - `nearest`: among several minimum cuts, `"source"` selects the one with the fewest cells on the
      source side and `"sink"` the one with the most; both are unique.
    - `warm_start`: an earlier [`GridCut`][jaxmatch.GridCut]; see [Warm starts][grid-warm-starts].

    **Returns:** a [`MinimumCut`][jaxmatch.MinimumCut], verified by
    [`check_grid_cut`][jaxmatch.check_grid_cut]; a `GridCut` with `return_flow` or a warm start.

    **Status:** `OPTIMAL`, `INVALID_CAPACITY`, `OVERFLOW`; see [statuses][]. Without a finite cut,
    the value is +inf.

    **Exact:** integers; floats in fixed point, see [Guarantees][exact].

    **Gradient:** of `value`, for all three capacities: 1 for an arc of the cut and 0 otherwise.

    **Raises:** `TypeError` for other dtypes, `ValueError` for shapes that do not fit, 2^28 cells or
    more, and unknown names.

    **Source:** Boykov and Jolly, ICCV 2001 (the model); more in [Papers][papers-flow].
    """
    connectivity = as_connectivity(connectivity)
    check_name("method", method, _METHODS)
    check_name("nearest", nearest, ("source", "sink"))
    reverse = nearest == "sink"
    require_start(warm_start)
    warm = return_flow or warm_start is not None
    capacities = (
        as_given("source_capacity", source_capacity),
        as_given("sink_capacity", sink_capacity),
        as_given("pairwise", pairwise),
    )
    given = () if warm_start is None else (warm_start.flow, warm_start.unit)
    solver = _METHODS[method].cpu
    options = (connectivity, method, nearest, warm)
    place = place_of(*capacities, *given, options=options, native=solver is not None)
    with place.precision():
        arrays = as_capacities(*capacities, connectivity, place)
        start = as_start(warm_start, arrays[0], connectivity, place) if warm else None
        how: dict[str, Any] = {"connectivity": connectivity, "reverse": reverse}
        if place.native and solver is not None:
            return place.bring_home(_solve_on_cpu(*arrays, start, method=solver, **how))
        return place.bring_home(_solve(*arrays, start, method=method, **how))


# ---------------------------------------------------------------------------------------------
# Arguments


def as_connectivity(connectivity: int | None) -> int:
    if connectivity is None:
        return 4
    if connectivity not in CONNECTIVITIES:
        raise ValueError(
            "`connectivity` must be 4 or 8 (two dimensions) or 6, 18 or 26 (three), got "
            f"{connectivity!r}."
        )
    return int(connectivity)


def as_capacities(
    source_capacity: ArrayLike,
    sink_capacity: ArrayLike,
    pairwise: ArrayLike,
    connectivity: int,
    place: Place,
) -> tuple[Array, Array, Array]:
    """Converts the three capacities to one dtype and one batch shape."""
    names = ("source_capacity", "sink_capacity", "pairwise")
    inputs = (source_capacity, sink_capacity, pairwise)
    arrays = [as_array(name, x, place) for name, x in zip(names, inputs, strict=True)]
    dtype = solved_dtype(common_dtype(*arrays))
    source, sink, pairs = (x.astype(dtype) for x in arrays)

    rank = rank_of(connectivity)
    grid = "D, H, W" if rank == 3 else "H, W"
    hint = "" if rank == 3 else "; volumes need connectivity=6, 18 or 26"
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


def _reversed(
    source: Array, sink: Array, pairwise: Array, connectivity: int
) -> tuple[Array, Array, Array]:
    """The capacities with all arcs reversed. Takes NumPy or JAX arrays."""
    rank, half = rank_of(connectivity), connectivity // 2
    if pairwise.shape[-rank - 1] == half:  # the same in both directions
        return sink, source, pairwise
    xp: Any = np if isinstance(pairwise, np.ndarray) else jnp
    arcs = xp.moveaxis(pairwise, -rank - 1, 0)
    axes = tuple(range(-rank, 0))
    back = [
        xp.roll(arcs[(k + half) % connectivity], tuple(-d for d in step), axes)
        for k, step in enumerate(steps(connectivity))
    ]
    return sink, source, xp.stack(back, -rank - 1)


def _other_side(cut: MinimumCut, connectivity: int) -> MinimumCut:
    """Turns a cut of the reversed grid into a cut of the grid, by exchanging its sides."""
    rank = rank_of(connectivity)
    solved = (cut.status == Status.OPTIMAL)[(..., *(None for _ in range(rank)))]
    return cut.replace(source_side=~cut.source_side & solved)


def _solve_on_cpu(
    source: Array,
    sink: Array,
    pairwise: Array,
    start: Start | None,
    *,
    connectivity: int,
    method: str,
    reverse: bool,
) -> MinimumCut:
    """One native call of the CPU, for NumPy or JAX arrays."""
    how: dict[str, Any] = {"connectivity": connectivity, "method": method}
    arrays = (source, sink, pairwise)
    arrays = _reversed(*arrays, connectivity) if reverse else arrays
    if start is None:
        cut = MinimumCut(*native.grid_cut(*arrays, platform="cpu", **how))
    else:
        cut = GridCut(*native.warm_grid_cut(*arrays, start, reverse=reverse, **how))
    return _other_side(cut, connectivity) if reverse else cut


@compiled(static_argnames=("connectivity", "method", "reverse"))
def _solve(
    source: Array,
    sink: Array,
    pairwise: Array,
    start: Start | None,
    *,
    connectivity: int,
    method: str,
    reverse: bool,
) -> MinimumCut:
    """Calls the native solver of the platform, chosen at lowering, or else the pure-JAX twin."""
    cpu, cuda = _METHODS[method]
    if connectivity > 8:
        cuda = None  # no kernel has so many neighbours
    twin = partial(_xla_grid_cut.solve, connectivity=connectivity)
    call = partial(native.grid_cut, connectivity=connectivity, platform="cuda")
    how: dict[str, Any] = {"connectivity": connectivity, "reverse": reverse}
    on_cpu = None if cpu is None else partial(_solve_on_cpu, method=cpu, **how)

    def cold(find: Any) -> Any:
        """A solver that ignores the start: it returns zero flow."""

        def solve_cold(
            source: Array, sink: Array, pairwise: Array, start: Start | None
        ) -> MinimumCut:
            arrays = (source, sink, pairwise)
            arrays = _reversed(*arrays, connectivity) if reverse else arrays
            cut = MinimumCut(*find(*arrays))
            cut = _other_side(cut, connectivity) if reverse else cut
            if start is None:
                return cut
            return GridCut(*cut, *(jnp.zeros_like(x) for x in start))

        return solve_cold

    def solve_on(source: Array, sink: Array, pairwise: Array, start: Start | None) -> MinimumCut:
        on_cuda = None if cuda is None else cold(partial(call, method=cuda))
        capacities = (source, sink, pairwise, start)
        return by_platform(cold(twin), *capacities, cpu=on_cpu, cuda=on_cuda)

    def solve(source: Array, sink: Array, pairwise: Array, start: Start | None) -> MinimumCut:
        cut = apart(solve_on)(source, sink, pairwise, start)
        if not jnp.issubdtype(source.dtype, jnp.floating):
            return cut
        jvp = partial(_value_jvp, connectivity)
        value = envelope_value(cut.value, (source, sink, pairwise), cut, jvp)
        return cut.replace(value=value)

    rank = rank_of(connectivity)
    return over_batch_shards(solve, source, sink, pairwise, start, core_dims=rank)


def _value_jvp(
    connectivity: int, capacities: tuple[Array, ...], tangents: tuple[Array, ...], cut: MinimumCut
) -> Array:
    source, sink, pairwise = instantiated(tangents, capacities)
    rank = rank_of(connectivity)
    grid = tuple(range(-rank, 0))
    solved = (cut.status == Status.OPTIMAL)[(..., *(None for _ in grid))]
    dot = sum_where(solved & ~cut.source_side, source, grid)
    dot += sum_where(solved & cut.source_side, sink, grid)
    crosses = cut_arcs(cut.source_side, capacities[2].shape[-rank - 1], connectivity)
    crosses &= jnp.expand_dims(solved, -rank - 1)
    return dot + sum_where(crosses, pairwise, (-rank - 1, *grid))


def cut_arcs(side: Bool[Array, "..."], arcs: int, connectivity: int) -> Bool[Array, "..."]:
    """Which entries of a `pairwise` with `arcs` entries per cell belong to the cut."""
    crossing = []
    for step in steps(connectivity)[:arcs]:
        # A missing neighbour is on neither side.
        on_sink_side = _xla_grid_cut.neighbours(~side, step)
        differ = side & on_sink_side
        if arcs < connectivity:
            differ |= ~side & _xla_grid_cut.neighbours(side, step)
        crossing.append(differ)
    return jnp.stack(crossing, axis=side.ndim - rank_of(connectivity))
