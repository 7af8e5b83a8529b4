"""Partial problems as balanced ones, by a dummy row and a dummy column.

The dummy column takes the supply that is not moved, and the dummy row brings the demand that is not
met. The solvers compute the masses of the two dummies from `moved`, in their own units. If the pair
of the dummies is forbidden, exactly `moved` moves between the other rows and columns. If the pair
is allowed, at cost 0, at least `moved` moves: with `moved` = 0 the costs alone decide how much.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import MUST, as_array
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.result import Transport
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, ArrayLike, Bool, Num
from jaxmatch._transport.problem import TransportProblem


def as_unmatched_cost(
    unmatched_cost: ArrayLike | None, problem: TransportProblem, place: Place = BY_JAX
) -> Num[Array, "... n"] | None:
    """The unmatched cost in the dtype of the costs, or in a wider one if costs are floats."""
    if unmatched_cost is None:
        return None
    return as_row_costs(unmatched_cost, problem.cost.dtype, problem.cost.shape[:-1], place)


def as_row_costs(
    unmatched_cost: ArrayLike,
    dtype: np.dtype,
    shape: tuple[Any, ...],
    place: Place = BY_JAX,
    *,
    name: str = "unmatched_cost",
    of: str = "row",
) -> Num[Array, "... n"]:
    """`dtype`: of the costs of pairs. `shape`: the batch shape, and the number of rows, or of what
    `of` says."""
    r = as_array(name, unmatched_cost, place, must=f"be real and {MUST}")
    if jnp.issubdtype(dtype, jnp.integer):
        if not jnp.issubdtype(r.dtype, jnp.integer):
            raise TypeError(
                f"`{name}` must be an integer, as `cost` is ({dtype}), got {r.dtype}; cast "
                "one of them."
            )
    elif isinstance(unmatched_cost, (bool, int, float)):
        r = r.astype(dtype)
    r = r.astype(common_dtype(dtype, r.dtype), copy=False)
    try:
        return r if r.shape == shape else place.xp.broadcast_to(r, shape)
    except ValueError:
        raise ValueError(
            f"`{name}` has shape {r.shape}, which does not broadcast to {shape} "
            f"(the batch shape of `cost` and one entry per {of})."
        ) from None


def with_dummies(
    problem: TransportProblem, unmatched_cost: Array | None, *, maximize: bool, xp: Any = jnp
) -> TransportProblem:
    """The balanced problem. Either `problem.moved` or `unmatched_cost` must be given."""
    cost = problem.cost
    *batch, n, m = cost.shape
    if unmatched_cost is None:
        unmatched, both = xp.zeros((*batch, n), cost.dtype), _forbidding(problem, maximize, xp)
    else:
        cost = cost.astype(unmatched_cost.dtype)
        unmatched, both = unmatched_cost, xp.zeros(batch, cost.dtype)
    last = xp.concatenate([xp.zeros((*batch, m), cost.dtype), both[..., None]], -1)
    cost = xp.concatenate([cost, unmatched[..., None]], -1)
    cost = xp.concatenate([cost, last[..., None, :]], -2)

    def wider(x: Array | None, value: bool | int) -> Any:
        if x is None:
            return None
        return xp.concatenate([x, xp.full((*batch, 1), value, x.dtype)], -1)

    moved = problem.moved
    return TransportProblem(
        cost,
        wider(problem.supply, 0),
        wider(problem.demand, 0),
        wider(problem.row_mask, True),
        wider(problem.col_mask, True),
        xp.zeros(batch, problem.supply.dtype) if moved is None else moved,
        wider(problem.col_dual, 0),
        problem.origin,
    )


def _forbidding(problem: TransportProblem, maximize: bool, xp: Any) -> Num[Array, "..."]:
    """A cost for the pair of the dummies that no optimal plan pays.

    It is +inf, or for integers more than any pair can save, if the dtype holds such a number.
    """
    cost, row_mask, col_mask = problem.cost, problem.row_mask, problem.col_mask
    batch = cost.shape[:-2]
    if jnp.issubdtype(cost.dtype, jnp.floating):
        return xp.full(batch, -np.inf if maximize else np.inf, cost.dtype)
    if row_mask is not None:
        cost = xp.where(row_mask[..., :, None], cost, 0)
    if col_mask is not None:
        cost = xp.where(col_mask[..., None, :], cost, 0)
    if maximize:
        return -1 - cost.max((-2, -1), initial=0)
    least = cost.min((-2, -1), initial=0)
    most = np.iinfo(cost.dtype).max
    return xp.where(least < 1 - most, most, 1 - xp.maximum(least, 1 - most)).astype(cost.dtype)


def moves_between_dummies(res: Transport, problem: TransportProblem) -> Bool[Array, "..."]:
    """Whether mass moves between the dummies, so that elsewhere more than `moved` moves.

    This happens if the dtype of the costs, or a solver's precision, has no number that is large
    enough to forbid the pair.
    """
    n, m = problem.cost.shape[-2:]
    return ((res.rows == n) & (res.cols == m) & (res.mass > 0)).any(-1)


def overflowed(res: Transport, where: Bool[Array, "..."], xp: Any) -> Transport:
    """Replaces the results of problems in `where` by empty ones of status `OVERFLOW`."""
    each = where[..., None]
    return Transport(
        rows=xp.where(each, -1, res.rows).astype(res.rows.dtype),
        cols=xp.where(each, -1, res.cols).astype(res.cols.dtype),
        mass=xp.where(each, 0, res.mass).astype(res.mass.dtype),
        cost=xp.where(where, np.nan, res.cost).astype(res.cost.dtype),
        row_dual=xp.where(each, np.nan, res.row_dual).astype(res.row_dual.dtype),
        col_dual=xp.where(each, np.nan, res.col_dual).astype(res.col_dual.dtype),
        gap=xp.where(where, np.nan, res.gap).astype(res.gap.dtype),
        status=xp.where(where, Status.OVERFLOW, res.status).astype(res.status.dtype),
    )


def without_dummies(res: Transport, problem: Any, xp: Any = jnp) -> Transport:
    """The result for the problem before dummies were added.

    `problem`: that problem, a `TransportProblem` or a `PointProblem`. Duals are shifted so that the
    duals of the dummies become 0. Then no dual is above 0 where mass may stay (or below 0, when
    maximising).
    """
    n, m = problem.supply.shape[-1], problem.demand.shape[-1]
    own = (res.rows >= 0) & (res.rows < n) & (res.cols < m)
    # Entries of the dummies go to the end; the other entries keep their order.
    order = xp.argsort(~own, axis=-1, stable=True)[..., : max(n + m - 1, 0)]

    def kept(x: Array, value: int) -> Array:
        return xp.take_along_axis(xp.where(own, x, value).astype(x.dtype), order, -1)

    return res.replace(
        rows=kept(res.rows, -1),
        cols=kept(res.cols, -1),
        mass=kept(res.mass, 0),
        row_dual=_shifted(res.row_dual[..., :n], res.col_dual[..., m:], problem.row_mask, xp),
        col_dual=_shifted(res.col_dual[..., :m], res.row_dual[..., n:], problem.col_mask, xp),
    )


def shift_duals(dual: Array, shift: Array, xp: Any) -> Array:
    """The dual plus the shift. An infinite dual, which is out of range, stays infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return xp.where(xp.isinf(dual), dual, dual + shift)


def _shifted(dual: Array, shift: Array, mask: Array | None, xp: Any) -> Array:
    dual = shift_duals(dual, shift, xp)
    if mask is None:
        return dual
    return xp.where(mask | xp.isnan(dual), dual, xp.zeros_like(dual))  # NaN where not solved
