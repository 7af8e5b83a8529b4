"""Assignments between two sets of points; the cost matrix is never stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from jaxmatch._assignment import native_large, native_sharded
from jaxmatch._assignment.methods import method_with_limit
from jaxmatch._assignment.partition import Partition
from jaxmatch._assignment.sharded import (
    ShardedCosts,
    check_partition,
    solve_and_gather,
    solve_shards,
)
from jaxmatch._assignment_points import as_matrix, levels, native
from jaxmatch._assignment_points.arguments import as_point_problem, refuse_with_radius
from jaxmatch._assignment_points.gradient import value_jvp
from jaxmatch._assignment_points.near_points import (
    NEAR_METHODS,
    solve_near,
)
from jaxmatch._assignment_points.near_problem import as_near_problem
from jaxmatch._assignment_points.on_host import levels_on_host, radius_on_host
from jaxmatch._common.arguments import as_count, as_seconds, check_name
from jaxmatch._common.cost_arguments import as_mask
from jaxmatch._common.distances import Metric, distances
from jaxmatch._common.gradient import envelope_value
from jaxmatch._common.place import (
    in_full_precision,
    is_on_cpu,
)
from jaxmatch._common.result import Assignment
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float
from jaxmatch._ffi.repeated import repeated
from jaxmatch._ffi.sizes import most
from jaxmatch._library.libraries import has_cpu_library
from jaxmatch._sparse_assignment.problem import CARDINALITIES


_JV, _LEVELS = "jonker_volgenant", levels.NAME
# Jonker-Volgenant on the CPU caches computed rows of distances (ffi/assignment/cpu/points.h). If
# all rows fit the cache, it is faster than `"core"`. Otherwise it computes distances whenever it
# scans a row, which takes time for each coordinate. So `"auto"` begins with `"core"` if the rows do
# not fit and the smaller side has at least this many coordinates (points times dimensions).
# Measured for 2 to 128 dimensions and 1000 to 10,000 points.
_COORDINATES_OF_A_SIDE = 15_000

_PRICES = ("unmatched_cost", "unmatched_col_cost")

Solver: TypeAlias = Callable[..., Assignment]


@levels_on_host
@repeated("radius")
@unchecked
@radius_on_host
@in_full_precision("x", "y", "row_mask", "col_mask", "radius", *_PRICES)
def solve_assignment_points(
    x: ArrayLike,
    y: ArrayLike,
    *,
    metric: Metric = "sqeuclidean",
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    method: str = "auto",
    time_limit: float | None = None,
    row_axis: str | None = None,
    col_axis: str | None = None,
    radius: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    cardinality: Literal["full", "maximum"] = "full",
    max_pairs: int | None = None,
) -> Assignment:
    """Solve one linear assignment problem between points, without a cost matrix.

    The cost of a pair is the distance of its points, computed on demand. Takes one problem at a
    time; batches are faster as a matrix.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> x = jax.random.uniform(jax.random.key(0), (300, 2))
    >>> y = jax.random.uniform(jax.random.key(1), (300, 2))
    >>> res = jm.solve_assignment_points(x, y)
    >>> bool(jnp.allclose(res.cost, ((x - y[res.col4row]) ** 2).sum(), rtol=1e-5))
    True

    **Arguments:**

    - `x`, `y`: `[n, d]` and `[m, d]`, the points of rows and columns, in float32 or, under
      `jax_enable_x64` or as NumPy arrays, float64. Each side has up to 2^18 − 1 points; by
      `"levels"` up to 2^24 − 1, see [Methods][point-methods]; with `radius` up to 2^30.
    - `metric`: `"sqeuclidean"`, `"euclidean"`, `"l1"` or `"cosine"`.
    - `maximize`, `row_mask`, `col_mask`, `time_limit`: as in `solve_assignment`.
    - `method`: `"auto"`, or a name of [Methods][point-methods].
    - `row_axis`, `col_axis`: the mesh axis over which points are sharded, see Methods.
    - `radius`: only pairs within this distance exist. For `"sqeuclidean"` the radius is a Euclidean
      distance, but costs and `unmatched_cost` are squared.
    - `unmatched_cost`, `unmatched_col_cost`: with a radius, a number, or `[n]` and `[m]`: the cost
      of leaving a row or a column unmatched, see [Methods][point-methods].
    - `cardinality`: `"maximum"` makes as many pairs within the radius as possible, at least cost.
    - `max_pairs`: with a radius and traced points on a GPU, the number of pairs to make room for.

    **Returns:** an [`Assignment`][jaxmatch.Assignment], verified by `check_assignment_points`.

    **Status:** as `solve_assignment`; `INVALID_COST` also if a distance is NaN, `OVERFLOW` also for
    more pairs within the radius than there is room for. An infinite distance forbids a pair.

    **Exact:** for distances computed in float64 and rounded to the type of the points, see
    [Methods][point-methods].

    **Gradient:** of `res.cost`, with respect to the points: the gradient of the sum of the matched
    distances; zero for a Euclidean distance of zero.

    **Time and memory:** native solvers store nothing of size n·m, except `"auto"` on a GPU for
    up to 2^20 pairs of float32 points, which a matrix of 4 MB makes faster.

    **Raises:** `ValueError` for shapes that do not fit and unknown metrics or methods, `TypeError`
    for points that are not real.
    """
    axes = {"row_axis": row_axis, "col_axis": col_axis}
    others: dict[str, Any] = {**axes, "time_limit": time_limit}
    if time_limit is not None:
        time_limit = as_seconds("time_limit", time_limit)
        method = method_with_limit(method, False)
    rows, cols, partition = as_point_problem(x, y, metric, row_axis, col_axis)
    check_name("cardinality", cardinality, CARDINALITIES)
    prices = (unmatched_cost, unmatched_col_cost)
    if radius is not None or any(x is not None for x in prices):
        refuse_with_radius(others, radius, maximize)
        check_name("method", method, NEAR_METHODS)
        given = (radius, unmatched_cost, row_mask, col_mask, unmatched_col_cost)
        problem = as_near_problem(rows, cols, *given, cardinality=cardinality)
        room = None if max_pairs is None else as_count("max_pairs", max_pairs)
        how = {"metric": metric, "method": method, "cardinality": cardinality}
        return solve_near(problem, **how, max_pairs=room)
    if max_pairs is not None:
        raise ValueError("`max_pairs` goes with a `radius`; leave it out.")
    n, m = partition.global_shape(len(rows), len(cols))
    alone = partition.axis is None
    methods = (*native_large.LARGE_METHODS, _JV, _LEVELS) if alone else native_large.SHARDED_METHODS
    if time_limit is not None and not alone:
        raise ValueError("`time_limit` does not go with sharded points; leave it out.")
    plain = row_mask is None and col_mask is None and not maximize and time_limit is None
    by_levels = plain and levels.fit(n, m, rows.shape[1])
    if method == _LEVELS and not (by_levels and alone):
        raise ValueError(
            f"`method='levels'` takes {levels.TAKES}, and no masks, `maximize`, `time_limit` or "
            f"axes; got {n} and {m} points in {rows.shape[1]} dimensions. Leave out `method`."
        )
    by_levels &= method in ("auto", _LEVELS)
    # The twin, which runs where there is no library, stores all costs.
    has_room = max(n, m) <= native_large.longest_side() or not is_on_cpu(rows)
    if not by_levels or not (has_room or has_cpu_library()):
        name = "core" if method in ("auto", _LEVELS) else method
        check_partition(partition, n, m, rows.dtype, name, methods)
    row_mask = as_mask("row_mask", row_mask, (n,))
    col_mask = as_mask("col_mask", col_mask, (m,))
    return _solve(
        rows,
        cols,
        row_mask,
        col_mask,
        partition=partition,
        metric=metric,
        maximize=bool(maximize),
        method=method,
        time_limit=time_limit,
    )


@compiled(static_argnames=("partition", "metric", "maximize", "method", "time_limit"))
def _solve(
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    row_mask: Bool[Array, " n"] | None,
    col_mask: Bool[Array, " m"] | None,
    *,
    partition: Partition,
    metric: str,
    maximize: bool,
    method: str,
    time_limit: float | None,
) -> Assignment:
    sides = partition.global_shape(len(x), len(y))

    def all_costs(mine: Array, others: Array) -> Array:
        if partition.axis is not None:
            mine = lax.all_gather(mine, partition.axis, axis=1, tiled=True)
        x, y = (mine, others) if partition.rows else (others, mine)
        return distances(x.T[:, None], y.T[None], metric)

    # Arrays [dims, points], so that neighbouring threads load neighbouring numbers.
    points = tuple(lax.stop_gradient(p).T for p in (x, y))
    costs = ShardedCosts(
        sides=sides,
        specs=(PartitionSpec(None, partition.axis), PartitionSpec()),
        call=partial(native_sharded.sharded_assignment, metric=metric),
        whole=all_costs,
    )
    sharding: dict[str, Any] = {"partition": partition, "maximize": maximize}

    def row_by_row(points: tuple[Array, ...], *masks: Array | None) -> Assignment:
        return native.points_assignment(points, *masks, metric=metric, maximize=maximize)

    def core_first(points: tuple[Array, ...], *masks: Array | None) -> Assignment:
        found, state, _ = solve_and_gather(
            costs, points, *masks, **sharding, method="core", stops=lambda state: state.has_stalled
        )
        return lax.cond(state.done, lambda: found, lambda: row_by_row(points, *masks))

    def on_one_device(points: tuple[Array, ...], *masks: Array | None) -> Assignment:
        x, y = points
        own = "core" if method in ("auto", _LEVELS) else method
        given: dict[str, Any] = {"maximize": maximize, "method": own, "metric": metric}
        given |= {"time_limit": time_limit}
        return native_large.large(x, *masks, col_points=y, **given)[0]

    is_long = max(sides) > native_large.longest_side()

    def divided(points: tuple[Array, ...], *masks: Array | None) -> Assignment:
        return solve_and_gather(costs, points, *masks, **sharding, method="core").result

    def by_levels(platform: levels.Platform, otherwise: Solver) -> Solver:
        def solve(points: tuple[Array, ...], *masks: Array | None) -> Assignment:
            x, y = points
            if partition.axis is not None:  # memory is O(n): all devices solve all of it alike
                x = lax.all_gather(x, partition.axis, axis=1, tiled=True)
                x, y = (x, y) if partition.rows else (y, x)
            res, solved = levels.solve(x.T, y.T, metric=metric, platform=platform)
            if is_long:
                return levels.with_status(res, solved)
            if partition.axis is not None:  # devices must agree on what follows
                solved = lax.pmin(solved.astype(jnp.int32), partition.axis) > 0
            return lax.cond(solved, lambda: res, lambda: otherwise(points, *masks))

        return solve

    cpu = cuda = None
    if partition.axis is None and method in ("auto", _JV, _LEVELS):
        cores = method != _JV and _begins_with_cores(*sides, x.dtype.itemsize, x.shape[1])
        cpu = core_first if cores and not is_long else row_by_row
    plain = row_mask is None and col_mask is None and not maximize and time_limit is None

    def takes_levels(platform: levels.Platform) -> bool:
        pays = is_long or (plain and levels.pay(*sides, x.shape[1], platform))
        return method == _LEVELS or (method == "auto" and pays)

    alone = partition.axis is None
    if takes_levels("cpu"):
        cpu = by_levels("cpu", cpu or on_one_device if alone else divided)
    if takes_levels("cuda"):
        cuda = by_levels("cuda", on_one_device if alone else divided)
    elif alone and method == "auto" and time_limit is None:
        if as_matrix.pays(x, y):
            cuda = partial(as_matrix.solve, metric=metric, maximize=maximize)
    method = "core" if method in ("auto", _LEVELS) else method
    if alone and method in native_large.LARGE_METHODS:
        cpu, cuda = cpu or on_one_device, cuda or on_one_device
    operands = points if partition.rows else points[::-1]
    res = solve_shards(
        costs, operands, (row_mask, col_mask), **sharding, method=method, cpu=cpu, cuda=cuda
    )
    jvp = partial(value_jvp, partition, metric)
    return res.replace(cost=envelope_value(res.cost, (x, y), res, jvp))


def _begins_with_cores(n: int, m: int, itemsize: int, dims: int) -> bool:
    cached = most("assignment.points.cached_bytes")
    return n * m * itemsize > cached and min(n, m) * dims >= _COORDINATES_OF_A_SIDE
