"""Assignments between two sets of points, whose costs are never stored."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from jaxmatch._assignment import native_large, native_points, native_sharded
from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._assignment.partition import Division, division_of
from jaxmatch._assignment.problem import as_mask
from jaxmatch._assignment.sharded import (
    DividedCosts,
    check_division,
    exchange_and_solve,
    solve_parts,
)
from jaxmatch._assignment.sharded_check import check_parts
from jaxmatch._common.arguments import as_array, as_assignment, check_name
from jaxmatch._common.given import BOOLEAN, REAL
from jaxmatch._common.gradient import envelope_value
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._ffi.place import BY_JAX, in_full_precision


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Float

_JV = "jonker_volgenant"

# Where the CPU begins with cores. Jonker-Volgenant keeps as many rows as in
# ffi/assignment/cpu/points.h and is faster where these are all; beyond, it pays for a row whenever
# it scans one, by the coordinate. Measured for 2 to 128 dimensions and 1000 to 10,000 points.
_KEPT_BYTES, _COORDINATES_OF_A_SIDE = 16 << 20, 15_000


@unchecked
@in_full_precision("x", "y", "row_mask", "col_mask")
def solve_assignment_points(
    x: ArrayLike,
    y: ArrayLike,
    *,
    metric: str = "sqeuclidean",
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    method: str = "auto",
    row_axis: str | None = None,
    col_axis: str | None = None,
) -> Assignment:
    """Solve one linear assignment problem between points, without a matrix of costs.

    The cost of a pair is the distance of its points, computed wherever a solver looks at it:
    memory does not grow with n·m. One problem at a time; small ones, and batches, are solved faster
    by [`solve_assignment`][jaxmatch.solve_assignment] on a matrix.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> x = jax.random.uniform(jax.random.key(0), (300, 2))
    >>> y = jax.random.uniform(jax.random.key(1), (300, 2))
    >>> res = jm.solve_assignment_points(x, y)
    >>> bool(jnp.allclose(res.cost, ((x - y[res.col4row]) ** 2).sum(), rtol=1e-5))
    True

    **Arguments:**

    - `x`, `y`: `[n, d]` and `[m, d]`, the points of rows and columns, in float32 or, under
      `jax_enable_x64` or as NumPy arrays, float64. There integers of 32 and 64
      bits become float64 (beyond 2^53 they are rounded); other real types become float32. Sides
      from 1 to 2^18 − 1.
    - `metric`: `"sqeuclidean"` Σ(x − y)², `"euclidean"` √Σ(x − y)², `"l1"` Σ|x − y|, or `"cosine"`
      1 − x·y / |x||y|, which a point at the origin has not (`INVALID_COST`): points are first
      divided by their norms, in their own type and by XLA.
    - `maximize`, `row_mask`, `col_mask`: as of `solve_assignment`.
    - `method`: `"auto"`, `"core"`, `"classical"`, `"tree"` or `"jonker_volgenant"`, see
      `solve_assignment`. The last one computes a row of distances whenever it scans it, and starts
      from duals that cancel a shift between the clouds. It runs on one thread of a CPU;
      elsewhere, where it is the twin, and with `row_axis` or `col_axis` choose another. `"auto"` is
      `"core"`; on a CPU Jonker-Volgenant for small problems, and where the core matches few rows.
    - `row_axis`, `col_axis`: the mesh axis over which `x`, or `y`, is divided by points, as of
      `solve_assignment`; the other set lies on every device.

    **Returns:**

    An [`Assignment`][jaxmatch.Assignment], the same on all devices. Its certificate is about the
    costs as they are defined here: computed in float64, coordinate after coordinate, without fused
    operations, and rounded to the type of the points. An entry has the same bits whenever, and on
    whichever device, it is looked at (for the cosine: given the normalised points). The twin, on
    platforms without a native library, builds the matrix in the type of the points.

    **Status:** `OPTIMAL`; `INFEASIBLE` where masks leave too little; `INVALID_COST` where a
    distance is NaN or infinite on the wrong side: a point that is not finite, or so far away that
    its distance overflows. An infinite distance forbids a pair.

    **Deterministic:** yes. On one device `"core"`, `"classical"` and `"tree"` return the same as
    `solve_assignment` does of a matrix with these costs; Jonker-Volgenant starts elsewhere, and may
    return another one of several optima.

    **Gradient:** `res.cost` differentiates, forward and in reverse, as the sum of the distances of
    the matched points does, by the envelope theorem (Danskin); zero where the problem is not
    `OPTIMAL`, and where a Euclidean distance is zero. Duals carry none.

    **Time and memory:** for `"core"` a few passes over all pairs, each O(n·m·d), and on one device
    7 KB for each row; more passes where cores lead nowhere, as of `"core"` in `solve_assignment`.
    Jonker-Volgenant takes O(n·m·min(n, m)) steps at most, O((n + m)·d) memory, and up to 16 MB for
    rows that it has computed, or 32 rows if these need more.

    **Raises:** `ValueError` for shapes that do not fit and unknown metrics or methods, `TypeError`
    for points that are not real.
    """
    rows, cols, division = _as_problem(x, y, metric, row_axis, col_axis)
    n, m = division.whole_sides(len(rows), len(cols))
    alone = division.axis is None
    methods = (*native_large.LARGE_METHODS, *[_JV] * alone)
    check_division(division, n, m, rows.dtype, "core" if method == "auto" else method, methods)
    row_mask = as_mask("row_mask", row_mask, (n,))
    col_mask = as_mask("col_mask", col_mask, (m,))
    how = {"metric": metric, "maximize": bool(maximize), "method": method}
    return _solve(rows, cols, row_mask, col_mask, division=division, **how)


@unchecked
@in_full_precision("x", "y", "row_mask", "col_mask")
def check_assignment_points(
    x: ArrayLike,
    y: ArrayLike,
    result: Assignment,
    *,
    metric: str = "sqeuclidean",
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    row_axis: str | None = None,
    col_axis: str | None = None,
) -> AssignmentCheck:
    """Verify a result of [`solve_assignment_points`][jaxmatch.solve_assignment_points].

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> x = jax.random.uniform(jax.random.key(0), (300, 2))
    >>> y = jax.random.uniform(jax.random.key(1), (300, 2))
    >>> check = jm.check_assignment_points(x, y, jm.solve_assignment_points(x, y))
    >>> bool(check.valid), bool(check.gap < 1e-5)
    (True, True)

    **Arguments:** those of the solver, and what it returned.

    **Returns:** an [`AssignmentCheck`][jaxmatch.AssignmentCheck], by the reasoning of
    [`check_assignment`][jaxmatch.check_assignment] and in pure JAX. Distances are computed here
    once more: in float64 and then rounded, as the solver does, under `jax_enable_x64` and for
    NumPy's 64-bit points, else in float32, where they differ from its own by a few roundings. The
    gap is larger by as much for each row, and seldom 0: a result is verified by `gap <= tolerance`,
    not by `optimal`.

    **Time and memory:** one pass over all pairs, blocks of 4 million of them at a time; divided
    points are looked at where they are.

    **Raises:** as the solver, and `ValueError` for results of other shapes.
    """
    rows, cols, division = _as_problem(x, y, metric, row_axis, col_axis)
    n, m = division.whole_sides(len(rows), len(cols))
    masks = as_mask("row_mask", row_mask, (n,)), as_mask("col_mask", col_mask, (m,))
    result = as_assignment(result, (n,), (m,), "`x` and `y`")
    how = {"division": division, "metric": metric, "maximize": bool(maximize)}
    return _check(*lax.stop_gradient((rows, cols)), result, *masks, **how)


@compiled(static_argnames=("division", "metric", "maximize"))
def _check(
    x: Array,
    y: Array,
    result: Assignment,
    row_mask: Array | None,
    col_mask: Array | None,
    *,
    division: Division,
    metric: str,
    maximize: bool,
) -> AssignmentCheck:
    def rows_of(points: tuple[Array, ...], first: Array, count: int) -> Array:
        mine, others = points if division.rows else points[::-1]
        block = lax.dynamic_slice_in_dim(mine, first, count)
        near, far = (p.astype(result_float()) for p in (block[:, None], others[None]))
        return distances(near, far, metric).astype(x.dtype)

    points, specs = (x, y), (PartitionSpec(division.axis), PartitionSpec())
    return check_parts(
        rows_of,
        points if division.rows else points[::-1],
        specs,
        (row_mask, col_mask),
        result,
        sides=division.whole_sides(len(x), len(y)),
        dtype=x.dtype,
        division=division,
        maximize=maximize,
    )


def _as_problem(
    x: ArrayLike, y: ArrayLike, metric: str, row_axis: str | None, col_axis: str | None
) -> tuple[Float[Array, "n d"], Float[Array, "m d"], Division]:
    """Points of one type, for the cosine unit vectors, and how they are divided."""
    points = _as_points("x", x), _as_points("y", y)
    if points[0].shape[1] != points[1].shape[1]:
        raise ValueError(
            "`x` and `y` must have points of the same dimension, got shapes "
            f"{[*points[0].shape]} and {[*points[1].shape]}."
        )
    if 0 in (len(points[0]), len(points[1])):
        raise ValueError(
            "`x` and `y` must have at least one point each, got shapes "
            f"{[*points[0].shape]} and {[*points[1].shape]}."
        )
    check_name("metric", metric, native_sharded.METRICS)
    if row_axis is None and col_axis is None:
        division = Division(None, True, None)
    else:
        division = division_of(points[0 if row_axis is not None else 1], row_axis, col_axis)
    dtype = common_dtype(*points)
    rows, cols = (p.astype(dtype) for p in points)
    if metric == "cosine":
        rows, cols = _directions(rows), _directions(cols)
    return rows, cols, division


def _directions(points: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Unit vectors; NaN, of derivative zero, where a point has no direction."""
    most = jnp.abs(points).max(axis=1, keepdims=True, initial=0)
    has_one = (most > 0) & jnp.isfinite(most)
    points = jnp.where(has_one, points, 1)  # so that no derivative meets a NaN
    points = points / lax.stop_gradient(jnp.where(has_one, most, 1))  # squares must not overflow
    return jnp.where(has_one, points / jnp.linalg.norm(points, axis=1, keepdims=True), jnp.nan)


def _as_points(name: str, points: ArrayLike) -> Float[Array, "n d"]:
    points = as_array(name, points, BY_JAX, REAL - BOOLEAN, "hold real coordinates")
    if points.ndim != 2:
        raise ValueError(
            f"`{name}` must be one set of points [n, d], got shape {[*points.shape]}; for batches "
            "compute the matrices and call `solve_assignment`."
        )
    long = points.dtype == jnp.float64 or (
        points.dtype.itemsize >= 4 and jnp.issubdtype(points.dtype, jnp.integer)
    )
    return points.astype(result_float() if long else jnp.float32)


def distances(x: Float[Array, "... d"], y: Float[Array, "... d"], metric: str) -> Array:
    """Between points, by their last dimension; others broadcast. For the cosine of unit vectors."""
    if metric == "cosine":
        return 1 - (x * y).sum(-1)
    apart = x - y
    if metric == "l1":
        return jnp.abs(apart).sum(-1)
    if metric == "sqeuclidean":
        return (apart * apart).sum(-1)
    # Squares must neither overflow nor vanish.
    most = lax.stop_gradient(jnp.abs(apart).max(-1, initial=0))
    large, power = (400, 560) if apart.dtype == jnp.float64 else (50, 70)
    scale = jnp.where(most > 2.0**large, 2.0**-power, 1).astype(apart.dtype)
    scale = jnp.where(most < 2.0**-large, 2.0**power, scale).astype(apart.dtype)
    squared = ((apart * scale[..., None]) ** 2).sum(-1)
    # With a derivative of zero where points coincide.
    return jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1)), squared) / scale


@compiled(static_argnames=("division", "metric", "maximize", "method"))
def _solve(
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    row_mask: Bool[Array, " n"] | None,
    col_mask: Bool[Array, " m"] | None,
    *,
    division: Division,
    metric: str,
    maximize: bool,
    method: str,
) -> Assignment:
    sides = division.whole_sides(len(x), len(y))

    def all_costs(mine: Array, others: Array) -> Array:
        if division.axis is not None:
            mine = lax.all_gather(mine, division.axis, axis=1, tiled=True)
        x, y = (mine, others) if division.rows else (others, mine)
        return distances(x.T[:, None], y.T[None], metric)

    # Coordinate by coordinate: neighbouring threads look at neighbouring points.
    points = tuple(lax.stop_gradient(p).T for p in (x, y))
    costs = DividedCosts(
        sides=sides,
        specs=(PartitionSpec(None, division.axis), PartitionSpec()),
        call=partial(native_sharded.divided, metric=metric),
        whole=all_costs,
    )
    how = {"division": division, "maximize": maximize}

    def row_by_row(points: tuple[Array, ...], *masks: Array | None) -> Assignment:
        return native_points.points_assignment(points, *masks, metric=metric, maximize=maximize)

    def core_first(points: tuple[Array, ...], *masks: Array | None) -> Assignment:
        found, kept, _ = exchange_and_solve(
            costs, points, *masks, **how, method="core", stops=lambda kept: kept.leads_nowhere
        )
        return lax.cond(kept.done, lambda: found, lambda: row_by_row(points, *masks))

    cpu = None
    if division.axis is None and method in ("auto", _JV):
        cores = method == "auto" and _begins_with_cores(*sides, x.dtype.itemsize, x.shape[1])
        cpu = core_first if cores else row_by_row
    method = "core" if method == "auto" else method
    operands = points if division.rows else points[::-1]
    res = solve_parts(costs, operands, (row_mask, col_mask), **how, method=method, cpu=cpu)
    slope = partial(_slope, division, metric)
    return res.replace(cost=envelope_value(res.cost, (x, y), res, slope))


def _begins_with_cores(n: int, m: int, itemsize: int, dims: int) -> bool:
    return n * m * itemsize > _KEPT_BYTES and min(n, m) * dims >= _COORDINATES_OF_A_SIDE


def _slope(
    division: Division,
    metric: str,
    points: tuple[Array, Array],
    tangents: tuple[Array, Array],
    res: Assignment,
) -> Float[Array, ""]:
    solved = res.status == Status.OPTIMAL

    def total(x: Array, y: Array) -> Array:
        return _matched_distances(division, metric, x, y, res.col4row, res.row4col, solved)

    return jax.jvp(total, points, tangents)[1]


def _matched_distances(
    division: Division,
    metric: str,
    x: Array,
    y: Array,
    col4row: Array,
    row4col: Array,
    solved: Array,
) -> Array:
    """Their sum, each computed where its point of the divided side is."""

    def part(mine: Array, others: Array, partner: Array, solved: Array) -> Array:
        partner = division.part_of(partner)
        paired = solved & (partner >= 0)
        # Points of no pair may be anything: no derivative may meet them.
        mine, partner = (
            jnp.where(paired[:, None], p, k)
            for p, k in ((mine, 1), (others[jnp.maximum(partner, 0)], 0))
        )
        apart = distances(mine, partner, metric)
        return division.total(jnp.where(paired, apart, 0).sum())

    mine, others, partner = (x, y, col4row) if division.rows else (y, x, row4col)
    everywhere = PartitionSpec()
    specs = (PartitionSpec(division.axis), everywhere, everywhere, everywhere)
    return division.on_parts(part, specs, mine, others, partner, solved)
