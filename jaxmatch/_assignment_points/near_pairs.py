"""Finds the pairs of points within a radius on a GPU, by strips of columns (see `Strips`)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.core
import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment_points.near_problem import NearProblem
from jaxmatch._common.limits import MOST_GRAPH_EDGES
from jaxmatch._common.switches import compiled
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._ffi.call import Result, names_of, native_call
from jaxmatch._matching.graph import BipartiteGraph


_STRIP_BITS = 15  # as in ffi/sparse_assignment/cuda/near_pairs.cuh
_MOST_CELLS = 1 << (_STRIP_BITS - 1)  # cells along a coordinate
_FEW_PAIRS = 1 << 22  # room for up to this many pairs is made without counting
_PAIRS_OF_A_POINT = 64  # if points are traced, room is made for this many pairs per point


class Strips(NamedTuple):
    """The columns, sorted by strip, and within a strip by first coordinate.

    A strip holds the points in one cell of a grid over the second and third coordinates.
    """

    of_row: Int[Array, " n"]  # strip of each row; -1: the row has no pair
    strip: Int[Array, " m"]
    first_coordinate: Float[Array, " m"]
    col: Int[Array, " m"]


def room_for(problem: NearProblem, metric: str) -> int:
    """How many pairs to make room for. If points are on a GPU and not traced, pairs are counted."""
    n, m = len(problem.x), len(problem.y)
    most = min(n * m, MOST_GRAPH_EDGES)
    if most <= _FEW_PAIRS:
        return most
    if any(isinstance(p, jax.core.Tracer) for p in jax.tree.leaves(problem)) or any(
        device.platform != "gpu" for device in problem.x.devices()
    ):
        return min(most, max(_FEW_PAIRS, _PAIRS_OF_A_POINT * max(n, m)))
    row_ptr, fits = _row_ptr(problem, metric=metric, room=most)
    if not fits:
        return 1  # then pairs do not fit, and the solver returns OVERFLOW
    # Round up to a power of two, so that few programs are compiled.
    return min(most, 1 << max(int(row_ptr[-1]) - 1, 1023).bit_length())


def near_graph(
    problem: NearProblem, *, metric: str, room: int
) -> tuple[BipartiteGraph, Float[Array, " room"], Bool[Array, ""]]:
    """The graph of the pairs, their costs, and whether they fit into `room`.

    If they do not fit, the graph has no edges. Points that are not masked must be finite.
    """
    n, m = len(problem.x), len(problem.y)
    strips = _strips(problem, metric)
    row_ptr, fits = _pointers(_counts(problem, strips, metric), room)
    col_ind, cost = _native(problem, strips, metric, row_ptr, room)
    is_pair = jnp.arange(room, dtype=jnp.int32) < row_ptr[-1]
    degree = jnp.zeros(m + 1, jnp.int32).at[jnp.where(is_pair, col_ind, m)].add(1)[:m]
    col_ptr = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(degree, dtype=jnp.int32)])
    # The solver reads `col_ptr`. It only checks the range of `row_ind`, so zeros suffice.
    row_ind = jnp.zeros(room, jnp.int32)
    sides = jnp.asarray(n, jnp.int32), jnp.asarray(m, jnp.int32)
    return BipartiteGraph(row_ptr, col_ind, col_ptr, row_ind, *sides), cost, fits


@compiled(static_argnames=("metric", "room"))
def _row_ptr(problem: NearProblem, *, metric: str, room: int) -> tuple[Array, Array]:
    return _pointers(_counts(problem, _strips(problem, metric), metric), room)


def _pointers(count: Int[Array, " n"], room: int) -> tuple[Int[Array, " n+1"], Bool[Array, ""]]:
    ends = jnp.cumsum(count, dtype=jnp.int32)
    row_ptr = jnp.concatenate([jnp.zeros(1, jnp.int32), ends])
    # No count exceeds 2^30, so the first sum beyond 2^31 - 1 wraps to a negative number.
    fits = (row_ptr >= 0).all() & (row_ptr[-1] <= room)
    return jnp.where(fits, row_ptr, 0), fits


def _strips(problem: NearProblem, metric: str) -> Strips:
    x, y, radius = problem.x, problem.y, problem.radius.astype(problem.x.dtype)
    has_row = jnp.isfinite(x).all(-1)
    has_col = jnp.isfinite(y).all(-1)
    has_row = has_row if problem.row_mask is None else has_row & problem.row_mask
    has_col = has_col if problem.col_mask is None else has_col & problem.col_mask
    tiny, rounding = jnp.finfo(x.dtype).tiny, 8 * float(jnp.finfo(x.dtype).eps)
    # The most by which two points of a pair differ in any coordinate, as in
    # ffi/sparse_assignment/point_pairs.h.
    reach = jnp.sqrt(2 * radius + rounding) if metric == "cosine" else radius

    of_row, of_col = (jnp.zeros(len(p), jnp.int32) for p in (x, y))
    for axis in range(1, min(x.shape[-1], 3)):
        at = y[:, axis]
        least = jnp.where(has_col, at, jnp.inf).min()
        most = jnp.where(has_col, at, -jnp.inf).max()
        # Cells are wider than the reach by more than the rounding of quotients.
        width = jnp.maximum(jnp.maximum(reach * 1.0625, (most - least) / _MOST_CELLS), tiny)
        # Cells of columns are numbered from 2. Rows farther out get the cells 0 and
        # _MOST_CELLS + 4.
        cells = (
            jnp.nan_to_num(jnp.floor((p[:, axis] - least) / width), posinf=jnp.inf) for p in (x, y)
        )
        cells = (2 + jnp.clip(c, -2, _MOST_CELLS + 2).astype(jnp.int32) for c in cells)
        rows, cols = (c << (_STRIP_BITS * (axis - 1)) for c in cells)
        of_row, of_col = of_row + rows, of_col + cols
    strip = jnp.where(has_col, of_col, jnp.iinfo(jnp.int32).max)
    cols = lax.iota(jnp.int32, len(y))
    strip, first_coordinate, col = lax.sort((strip, y[:, 0], cols), num_keys=2, is_stable=True)
    return Strips(jnp.where(has_row, of_row, -1), strip, first_coordinate, col)


def _counts(problem: NearProblem, strips: Strips, metric: str) -> Int[Array, " n"]:
    return _native(problem, strips, metric, None, 0)[0]


def _native(
    problem: NearProblem, strips: Strips, metric: str, row_ptr: Array | None, room: int
) -> list[Array]:
    """The number of pairs of each row; with `row_ptr`, the columns and distances of all pairs."""
    index = jnp.dtype(jnp.int32)
    counts = [Result((len(problem.x),), index)]
    pairs = [Result((room,), index), Result((room,), problem.x.dtype)]
    optional = [] if row_ptr is None else [row_ptr]
    return native_call(
        "jaxmatch_near_pairs",
        [problem.x, problem.y, problem.radius, *strips, *optional],
        counts if row_ptr is None else pairs,
        core_dims=[2, 2, 0, *[1] * (len(strips) + len(optional))],
        metric=metric,
        present=names_of(row_ptr=row_ptr),
    )
