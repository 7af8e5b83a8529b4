"""`check_transport`: verifies a transport plan by its column duals.

It shares no code with the solvers, so a wrong result passes only if check and solver make the same
error.
"""

from __future__ import annotations

from functools import partial as bind

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.arguments import as_array
from jaxmatch._common.given import INTEGERS, REAL, SOLVED, require
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import BY_JAX, Place, current_place, in_full_precision
from jaxmatch._common.proof import (
    over_problems,
)
from jaxmatch._common.result import Transport, result_float
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike
from jaxmatch._transport.check_costs import StoredCosts
from jaxmatch._transport.check_plan import TransportCheck, check_plan, existing
from jaxmatch._transport.dummies import as_unmatched_cost
from jaxmatch._transport.limited import with_limit
from jaxmatch._transport.limited_check import check_limited
from jaxmatch._transport.point_problem import PointProblem
from jaxmatch._transport.problem import TransportProblem, as_problem


@unchecked
@in_full_precision(
    "cost",
    "supply",
    "demand",
    "limit",
    "row_mask",
    "col_mask",
    "partial",
    "unmatched_cost",
    on_host=True,
)
def check_transport(
    cost: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    result: Transport,
    *,
    limit: ArrayLike | None = None,
    maximize: bool = False,
    partial: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
) -> TransportCheck:
    """Verify a result of [`solve_transport`][jaxmatch.solve_transport], in jit or out of it.

    Makes one pass over `cost`. `result` may come from any solver.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[0.0, 2.0], [1.0, 0.0]])
    >>> supply, demand = jnp.array([3, 1]), jnp.array([2, 2])
    >>> res = jm.solve_transport(cost, supply, demand)
    >>> check = jm.check_transport(cost, supply, demand, res)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, True, 0.0)
    >>> rows, cols, mass = jnp.array([[0, 0, 1], [0, 1, 0], [1, 2, 1]])  # costs 5 instead of 2
    >>> other = res.replace(rows=rows, cols=cols, mass=mass)
    >>> check = jm.check_transport(cost, supply, demand, other)
    >>> bool(check.valid), bool(check.optimal), round(float(check.gap), 3)  # rounded upwards
    (True, False, 3.0)

    **Arguments:**

    - `cost` to `col_mask`: as they were passed to the solver.
    - `result`: the solver's result, a plan with any number of entries. `rows`, `cols`, `mass` and
      `col_dual` are read, with `partial` or `limit` also `row_dual`; other fields are ignored.

    **Returns:** a [`TransportCheck`][jaxmatch.TransportCheck].

    - `valid`: the entries are different pairs, neither masked nor forbidden, of positive mass (or
      empty: indices −1 and mass 0). They move all supply and all demand, or with `partial` or
      `unmatched_cost` at most the supply of each row and the demand of each column, and no more
      than `limit`. Integer masses must agree exactly, floats up to rounding.
    - `optimal`: the plan is `valid`, and `gap` is no larger than the rounding of costs and duals
      can explain, which proves it optimal; see [Checks][optimal].
    - `gap`: a bound on cost − optimum that the column duals prove; +inf where they prove none, see
      [Checks][check-transport].

    **Exact:** the bound holds for the numbers passed in. Differences of costs and duals are exact,
    and products and sums are rounded upwards, so a gap of 0 is exact.

    **Time and memory:** O(n·m) operations, and a few temporary arrays of the size of `cost`.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for other dtypes.
    """
    place = current_place()
    problem = as_problem(cost, supply, demand, row_mask, col_mask, partial, place=place)
    unmatched = as_unmatched_cost(unmatched_cost, problem, place)
    problem = with_limit(problem, limit, place)
    result = as_claim(result, problem, "`cost`", place)
    if place.native:
        return _check_batch(problem, unmatched, result, maximize=bool(maximize))
    return _check(*lax.stop_gradient((problem, unmatched, result)), maximize=bool(maximize))


def as_claim(
    result: Transport,
    problem: TransportProblem | PointProblem,
    beside: str,
    place: Place = BY_JAX,
) -> Transport:
    """The result reduced to the fields that the check reads, with checked shapes and dtypes.

    Float masses are converted to the dtype of results.
    """
    require("result", result, Transport, "that the solver returns")
    batch = problem.supply.shape[:-1]
    n, m = problem.supply.shape[-1], problem.demand.shape[-1]
    whole = jnp.issubdtype(problem.supply.dtype, jnp.integer)
    of_mass = (INTEGERS & SOLVED, "integers, as `supply` is") if whole else (REAL, "real numbers")
    kinds = {
        "rows": (INTEGERS, "integers"),
        "cols": (INTEGERS, "integers"),
        "mass": of_mass,
        "col_dual": (REAL, "real numbers"),
    }
    if problem.moved is not None or getattr(problem, "limit", None) is not None:
        kinds["row_dual"] = kinds["col_dual"]
    fields = {
        name: as_array(f"result.{name}", getattr(result, name), place, dtypes, f"be {words}")
        for name, (dtypes, words) in kinds.items()
    }
    entries = fields["rows"].shape[-1:]
    for name, x in fields.items():
        shape = (*batch, *{"row_dual": (n,), "col_dual": (m,)}.get(name, entries))
        if x.shape != shape or len(shape) != len(batch) + 1:
            raise ValueError(
                f"`result.{name}` must have shape {shape} to go with {beside}, `supply` and "
                f"`demand`, got {x.shape}."
            )
    if not whole:
        fields["mass"] = fields["mass"].astype(result_float())
    others = {name: None for name in vars(result) if name not in fields}
    return Transport(**fields, **others)  # type: ignore[arg-type]


@compiled(static_argnames="maximize")
def _check(
    problem: TransportProblem, unmatched_cost: Array | None, result: Transport, *, maximize: bool
) -> TransportCheck:
    check = bind(_check_batch, maximize=maximize)
    return over_batch_shards(apart(check), problem, unmatched_cost, result, core_dims=2)


def _check_batch(
    problem: TransportProblem, unmatched_cost: Array | None, result: Transport, *, maximize: bool
) -> TransportCheck:
    if problem.limit is not None:
        return check_limited(problem, unmatched_cost, result, maximize=maximize)
    one, batch = bind(_check_one, maximize=maximize), problem.cost.shape[:-2]
    return over_problems(one, batch, problem, unmatched_cost, result)


def _check_one(
    problem: TransportProblem, unmatched_cost: Array | None, result: Transport, *, maximize: bool
) -> TransportCheck:
    rows, cols = existing(problem)
    costs = StoredCosts(problem.cost, rows, cols, maximize)
    return check_plan(costs, problem, unmatched_cost, result, maximize=maximize)
