"""`PointProblem`: transport between two sets of points, whose costs are never stored."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxmatch._common.arguments import as_array
from jaxmatch._common.distances import as_points, directions, distances
from jaxmatch._common.given import BOOLEAN, REAL
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.promotion import module_of
from jaxmatch._common.result import result_float
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Num
from jaxmatch._transport.problem import Origin, TransportProblem, as_masses, expanded


class PointProblem(NamedTuple):
    """A batch of problems, as a pytree. All arrays have the batch dimensions.

    With dummies (see `jaxmatch._transport.dummies`) there is a last row and a last column without a
    point. Masses, masks and duals then have one entry more than there are points.
    """

    x: Float[Array, "... n d"]  # unit vectors for metric "cosine"
    y: Float[Array, "... m d"]
    supply: Num[Array, "... n"]
    demand: Num[Array, "... m"]
    row_mask: Bool[Array, "... n"] | None = None
    col_mask: Bool[Array, "... m"] | None = None
    moved: Num[Array, "..."] | None = None
    col_dual: Float[Array, "... m"] | None = None
    origin: Origin | None = None
    # Costs of the dummies, in the dtype of the points; None without dummies. The last entry of
    # `last_row` is the cost of the pair of dummies. Derivatives treat `last_row` as constant.
    last_row: Float[Array, "... m+1"] | None = None
    last_col: Float[Array, "... n"] | None = None


def as_point_problem(
    x: ArrayLike,
    y: ArrayLike,
    metric: str,
    masses: tuple[ArrayLike, ArrayLike],
    masks: tuple[ArrayLike | None, ArrayLike | None],
    partial: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    col_dual: ArrayLike | None = None,
    *,
    place: Place = BY_JAX,
) -> tuple[PointProblem, Float[Array, "... n"] | None]:
    """Checks the arguments and broadcasts them to one batch shape.

    Returns the problem and the unmatched cost. The problem has no dummies yet; its `moved` is
    `partial`.
    """
    rows, cols = as_points(x, y, metric, place)
    fields = as_masses(
        {"x": rows.shape, "y": cols.shape},
        (f"point of `x` {rows.shape}", f"point of `y` {cols.shape}"),
        (rows.shape[-2], cols.shape[-2]),
        masses,
        masks,
        partial,
        col_dual,
        place=place,
    )
    batch = fields[0].shape[:-1]
    if metric == "cosine":
        rows, cols = directions(rows), directions(cols)
    rows, cols = (expanded(points, batch, 2, place.xp) for points in (rows, cols))
    problem = PointProblem(rows, cols, *fields)
    return problem, _as_unmatched_cost(unmatched_cost, problem, place)


def _as_unmatched_cost(
    unmatched_cost: ArrayLike | None, problem: PointProblem, place: Place
) -> Float[Array, "... n"] | None:
    if unmatched_cost is None:
        return None
    r = as_array("unmatched_cost", unmatched_cost, place, REAL - BOOLEAN, "be real")
    shape = problem.x.shape[:-1]
    try:
        return place.xp.broadcast_to(r.astype(problem.x.dtype), shape)
    except ValueError:
        raise ValueError(
            f"`unmatched_cost` has shape {r.shape}, which does not broadcast to {shape} "
            "(the batch shape and one entry per point of `x`)."
        ) from None


def with_point_dummies(
    problem: PointProblem,
    last_row: Float[Array, "... m+1"],
    last_col: Float[Array, "... n"] | None,
    moved: Num[Array, "..."],
) -> PointProblem:
    """The balanced problem, see `jaxmatch._transport.dummies`. If `last_col` is None, it is 0."""

    xp = module_of(problem.x)

    def wider(x: Array | None, value: bool | int) -> Array | None:
        if x is None:
            return None
        return xp.concatenate([x, xp.full_like(x[..., :1], value, shape=(*x.shape[:-1], 1))], -1)

    if last_col is None:
        last_col = xp.zeros_like(problem.x, shape=problem.x.shape[:-1])
    return problem._replace(
        supply=wider(problem.supply, 0),
        demand=wider(problem.demand, 0),
        row_mask=wider(problem.row_mask, True),
        col_mask=wider(problem.col_mask, True),
        col_dual=wider(problem.col_dual, 0),
        moved=moved,
        last_row=last_row,
        last_col=last_col,
    )


def stored(problem: PointProblem, metric: str) -> TransportProblem:
    """The same problem with its costs as a matrix, for solvers that need one.

    Distances are computed in the dtype of results and rounded to the dtype of the points. They may
    differ from the native solver's distances by a few roundings.
    """
    x, y = (p.astype(result_float()) for p in (problem.x, problem.y))
    cost = distances(x[..., :, None, :], y[..., None, :, :], metric).astype(problem.x.dtype)
    if problem.last_row is not None:
        assert problem.last_col is not None
        cost = jnp.concatenate([cost, problem.last_col[..., None]], -1)
        cost = jnp.concatenate([cost, problem.last_row[..., None, :]], -2)
    return TransportProblem(cost, *problem[2:9])
