"""`check_assignment_points`: verifies results by their column duals."""

from __future__ import annotations

from typing import Literal

from jax.sharding import PartitionSpec

from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._assignment.partition import Partition
from jaxmatch._assignment.sharded_check import check_shards
from jaxmatch._assignment_points.arguments import as_point_problem, refuse_with_radius
from jaxmatch._assignment_points.near_check import check_near_on_host
from jaxmatch._assignment_points.near_check_edges import check_edges_on_host, check_every_pair
from jaxmatch._assignment_points.near_points import check_near
from jaxmatch._assignment_points.near_problem import as_near_problem
from jaxmatch._common.arguments import as_assignment, check_name
from jaxmatch._common.blocks import rows_from
from jaxmatch._common.cost_arguments import as_mask
from jaxmatch._common.distances import Metric, distances, recomputed
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import constant, proof_float
from jaxmatch._common.result import Assignment
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike
from jaxmatch._sparse_assignment.problem import CARDINALITIES


@unchecked
@in_full_precision(
    "x",
    "y",
    "row_mask",
    "col_mask",
    "radius",
    "unmatched_cost",
    "unmatched_col_cost",
    on_host=True,
)
def check_assignment_points(
    x: ArrayLike,
    y: ArrayLike,
    result: Assignment,
    *,
    metric: Metric = "sqeuclidean",
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    row_axis: str | None = None,
    col_axis: str | None = None,
    radius: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    cardinality: Literal["full", "maximum"] = "full",
) -> AssignmentCheck:
    """Verify a result of [`solve_assignment_points`][jaxmatch.solve_assignment_points].

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> x = jax.random.uniform(jax.random.key(0), (300, 2))
    >>> y = jax.random.uniform(jax.random.key(1), (300, 2))
    >>> check = jm.check_assignment_points(x, y, jm.solve_assignment_points(x, y))
    >>> bool(check.valid), bool(check.optimal)
    (True, True)

    **Arguments:**

    - `x`, `y`, `metric`, `maximize`, masks, axes, `radius`, unmatched costs, `cardinality`: as they
      were passed to the solver.
    - `result`: the solver's result, read as by `check_assignment`.

    **Returns:** an [`AssignmentCheck`][jaxmatch.AssignmentCheck] with the same bound as
    [`check_assignment`][jaxmatch.check_assignment]. Distances are computed anew and rounded to the
    dtype of the points. The computation is in float64 with `jax_enable_x64`, for 64-bit NumPy
    arrays, and outside of a trace on one CPU device; elsewhere it is in float32. Distances may
    differ from those of the solver by a few roundings and increase the gap; `optimal` allows for
    this. With a radius, a pair whose distance is within rounding of the radius exists if it is
    matched, see [Checks][check-assignment].

    **Time and memory:** one pass over all pairs, in blocks of 4 million pairs. With a radius,
    outside of a trace on the CPU, only pairs within the radius are read. Each device reads its own
    shard of points.

    **Raises:** as the solver, and `ValueError` for results of other shapes.
    """
    axes = {"row_axis": row_axis, "col_axis": col_axis}
    check_name("cardinality", cardinality, CARDINALITIES)
    prices = (unmatched_cost, unmatched_col_cost)
    place, near = current_place(), any(x is not None for x in (radius, *prices))
    rows, cols, partition = as_point_problem(x, y, metric, row_axis, col_axis, place)
    if near:
        refuse_with_radius(axes, radius, maximize)
        given = (radius, unmatched_cost, row_mask, col_mask, unmatched_col_cost)
        problem = as_near_problem(rows, cols, *given, cardinality=cardinality, place=place)
        result = as_assignment(result, (len(rows),), (len(cols),), "`x` and `y`", place)
        if cardinality == "maximum" or unmatched_col_cost is not None:
            check_edges = check_edges_on_host if place.native else check_every_pair
            return check_edges(problem, result, metric=metric, cardinality=cardinality)
        check = check_near_on_host if place.native else check_near
        return check(problem, result, metric=metric)
    n, m = partition.global_shape(len(rows), len(cols))
    masks = (
        as_mask("row_mask", row_mask, (n,), place),
        as_mask("col_mask", col_mask, (m,), place),
    )
    result = as_assignment(result, (n,), (m,), "`x` and `y`", place)
    return (_check if place.native else _check_compiled)(
        *constant((rows, cols)),
        result,
        *masks,
        partition=partition,
        metric=metric,
        maximize=bool(maximize),
    )


def _check(
    x: Array,
    y: Array,
    result: Assignment,
    row_mask: Array | None,
    col_mask: Array | None,
    *,
    partition: Partition,
    metric: str,
    maximize: bool,
) -> AssignmentCheck:
    def rows_of(points: tuple[Array, ...], first: Array, count: int) -> Array:
        mine, others = points if partition.rows else points[::-1]
        block = rows_from(mine, first, count)
        near, far = (p.astype(proof_float(p)) for p in (block[:, None], others[None]))
        return distances(near, far, metric).astype(x.dtype)

    points, specs = (x, y), (PartitionSpec(partition.axis), PartitionSpec())
    return check_shards(
        rows_of,
        points if partition.rows else points[::-1],
        specs,
        (row_mask, col_mask),
        result,
        sides=partition.global_shape(len(x), len(y)),
        dtype=x.dtype,
        partition=partition,
        maximize=maximize,
        recomputed=recomputed(x.shape[-1], metric),
    )


_check_compiled = compiled(static_argnames=("partition", "metric", "maximize"))(_check)
