"""The result of `grid_cut` with the flow behind the cut, and its use as a warm start."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_array, solved_dtype
from jaxmatch._common.given import require
from jaxmatch._common.place import Place
from jaxmatch._common.registered import registered
from jaxmatch._common.result import MinimumCut
from jaxmatch._common.typing import Array, Bool, Int, Num
from jaxmatch._grid_cut.directions import rank_of


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class GridCut(MinimumCut):
    """A [`MinimumCut`][jaxmatch.MinimumCut] of a grid, with the flow that a warm start begins with.

    [`grid_cut`][jaxmatch.grid_cut] returns it if `return_flow` or `warm_start` is given. It unpacks
    as `value, source_side, status`.

    - `flow`: `i32[..., connectivity / 2, *grid, w]`, the net flow from each cell to its neighbours
      in the first half of the [directions][grid-directions], in units of 2^`unit`. With int32
      capacities w is 1. Otherwise w is 2, and the last dimension holds an integer of 64 bits: its
      lower half, then its upper half. Which of several maximum flows it is may change.
    - `unit`: `i32[...]`, 0 for integers.

    Where a start has no effect (see [Warm starts][grid-warm-starts]), flow and unit are 0.
    """

    value: Num[Array, "..."]
    source_side: Bool[Array, "..."]
    status: Int[Array, "..."]
    flow: Int[Array, "..."]
    unit: Int[Array, "..."]

    def __iter__(self) -> Iterator[Array]:
        return iter((self.value, self.source_side, self.status))

    @staticmethod
    def empty(shape: tuple[int, ...], connectivity: int, dtype: Any) -> GridCut:
        """A result without flow, the first warm start of a `scan`.

        `shape` is that of the cells, `[..., H, W]` or `[..., D, H, W]`, and `dtype` that of the
        capacities.

        >>> import jax, jax.numpy as jnp, jaxmatch as jm
        >>> def step(last, image):
        ...     cut = jm.grid_cut(image, 9 - image, jnp.full((2, 2, 3), 3), warm_start=last)
        ...     return cut, cut.value
        >>> video = jnp.array([[[9, 8, 1], [9, 2, 1]], [[9, 8, 1], [9, 7, 1]]])
        >>> jax.lax.scan(step, jm.GridCut.empty((2, 3), 4, video.dtype), video)[1]
        Array([14, 11], dtype=int32)
        """
        rank = rank_of(connectivity)
        batch, grid = tuple(shape[:-rank]), tuple(shape[-rank:])
        given = solved_dtype(jnp.dtype(dtype))
        integral = jnp.issubdtype(given, jnp.integer)
        start = empty_start(batch, grid, connectivity, given, jnp)
        return GridCut(
            value=jnp.zeros(batch, int if integral else given),
            source_side=jnp.zeros((*batch, *grid), bool),
            status=jnp.zeros(batch, jnp.int32),
            flow=start.flow,
            unit=start.unit,
        )


class Start(NamedTuple):
    """The fields `flow` and `unit` of a `GridCut`."""

    flow: Int[Array, "..."]
    unit: Int[Array, "..."]


def flow_shape(grid: tuple[int, ...], connectivity: int, dtype: Any) -> tuple[int, ...]:
    """The shape of a flow of one problem with capacities of this dtype."""
    return (connectivity // 2, *grid, 1 if dtype == np.int32 else 2)


def empty_start(
    batch: tuple[int, ...], grid: tuple[int, ...], connectivity: int, dtype: Any, xp: Any
) -> Start:
    shape = (*batch, *flow_shape(grid, connectivity, dtype))
    return Start(xp.zeros(shape, np.int32), xp.zeros(batch, np.int32))


def require_start(warm_start: Any) -> None:
    if warm_start is not None:
        advice = "pass what `grid_cut(..., return_flow=True)` or a call with a warm start returned"
        require("warm_start", warm_start, GridCut, advice)


def as_start(warm_start: GridCut | None, source: Array, connectivity: int, place: Place) -> Start:
    """The start of a solve with these capacities of the source; zero flow without a warm start."""
    rank, xp = rank_of(connectivity), place.xp
    batch, grid = source.shape[:-rank], source.shape[-rank:]
    if warm_start is None:
        return empty_start(batch, grid, connectivity, source.dtype, xp)
    shapes = {"flow": flow_shape(grid, connectivity, source.dtype), "unit": ()}
    fields = []
    for name, core in shapes.items():
        argument = f"warm_start.{name}"
        x = as_array(argument, getattr(warm_start, name), place, _INT32, "hold int32", "")
        shape = (*batch, *core)
        if x.shape[x.ndim - len(core) :] != core:
            raise ValueError(
                f"`{argument}` must have shape [..., {', '.join(map(str, core))}] for this grid "
                f"with connectivity={connectivity} and {source.dtype} capacities, got {x.shape}; "
                "start with a cut of the same grid, connectivity and dtype."
            )
        try:
            fields.append(xp.broadcast_to(x, shape))
        except ValueError:
            raise ValueError(
                f"`{argument}` must broadcast to the batch of the capacities, {batch}, got "
                f"{x.shape[: x.ndim - len(core)]}."
            ) from None
    return Start(*fields)


_INT32 = frozenset([np.dtype(np.int32)])
