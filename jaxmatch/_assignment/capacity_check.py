"""`check_assignment` with capacities: verifies pairs by their column duals.

Shares no code with the solvers: an error would have to be made twice.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment.capacity_problem import (
    CapacityProblem,
    as_capacities,
    as_capacity_problem,
)
from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._common.arguments import as_array
from jaxmatch._common.given import INTEGERS, REAL, require
from jaxmatch._common.gradient import apart
from jaxmatch._common.proof import is_tiny, split, sum_down
from jaxmatch._common.result import CapacitatedAssignment, Transport, result_float
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int
from jaxmatch._transport.check import (
    _are_different,
    _at,
    _flushed,
    _in_range,
    _left,
    _times_up,
    existing,
    slack_of_pairs,
)
from jaxmatch._transport.check_costs import CheckCosts, StoredCosts, with_unmatched
from jaxmatch._transport.problem import TransportProblem


class Claim(NamedTuple):
    """Pairs and how often each is used, and the duals that prove them."""

    rows: Int[Array, "... k"]
    cols: Int[Array, "... k"]
    times: Int[Array, "... k"]
    consistent: Bool[Array, "..."]
    col_dual: Float[Array, "... m"]


def check_with_capacities(
    cost: ArrayLike,
    result: Any,
    capacities: tuple[ArrayLike | None, ArrayLike | None, ArrayLike | None],
    *others: ArrayLike | None,
    maximize: bool,
) -> AssignmentCheck:
    """As documented in `check_assignment`. `others`: masks, and the cost of unmatched rows."""
    row_capacity, col_capacity, col_minimum = capacities
    given = as_capacities(
        row_capacity=row_capacity, col_capacity=col_capacity, col_minimum=col_minimum
    )
    problem = as_capacity_problem(cost, *given, *others)
    claim = as_claim(result, problem, as_plan=row_capacity is not None)
    return _check(*lax.stop_gradient((problem, claim)), maximize=maximize)


def as_claim(result: Any, problem: CapacityProblem, *, as_plan: bool) -> Claim:
    kind = Transport if as_plan else CapacitatedAssignment
    require("result", result, kind, "that `solve_assignment` returns for such capacities")
    supply, demand = problem.transport.supply, problem.transport.demand
    (*batch, n), m = supply.shape, demand.shape[-1]

    def field(name: str, size: int | None, real: bool = False) -> Array:
        """Any size, if None."""
        must = "be real numbers" if real else "be integers"
        dtypes = REAL if real else INTEGERS
        x = as_array(f"result.{name}", getattr(result, name), dtypes=dtypes, must=must, advice="")
        size = x.shape[-1] if size is None and x.ndim else size
        if x.shape != (*batch, size):
            raise ValueError(
                f"`result.{name}` must have shape {(*batch, size)} to go with the costs, got "
                f"{x.shape}."
            )
        return x if real else x.astype(jnp.int32)

    v = field("col_dual", m, real=True)
    if as_plan:
        rows, cols, times = (field(name, None) for name in ("rows", "cols", "mass"))
        if not rows.shape == cols.shape == times.shape:
            raise ValueError("`rows`, `cols` and `mass` of `result` must have one shape.")
        used = times != 0
        consistent = ((rows == -1) & (cols == -1) | used).all(-1) & (times >= 0).all(-1)
        return Claim(rows, cols, times, consistent, v)
    col4row, counts = field("col4row", n), field("col_count", m)
    matched = col4row != -1
    at = jnp.where(matched, col4row, m)

    def count(at: Array) -> Array:
        return jnp.bincount(at, length=m + 1)[:m].astype(jnp.int32)

    for _ in batch:
        count = jax.vmap(count)
    consistent = (count(at.clip(0, m)) == counts).all(-1)
    rows = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), col4row.shape)
    return Claim(rows, col4row, matched.astype(jnp.int32), consistent, v)


@compiled(static_argnames="maximize")
def _check(problem: CapacityProblem, claim: Claim, *, maximize: bool) -> AssignmentCheck:
    def check(*arguments: Any) -> AssignmentCheck:
        one = partial(_check_one, maximize=maximize)
        for _ in problem.transport.supply.shape[:-1]:
            one = jax.vmap(one)
        return one(*arguments)

    return over_batch_shards(apart(check), problem, claim, core_dims=2)


def _check_one(problem: CapacityProblem, claim: Claim, *, maximize: bool) -> AssignmentCheck:
    assert isinstance(problem.transport, TransportProblem)
    rows, cols = existing(problem.transport)
    costs = StoredCosts(problem.transport.cost, rows, cols, maximize)
    return check_pairs(costs, problem, claim, maximize=maximize)


def check_pairs(
    costs: CheckCosts, problem: CapacityProblem, claim: Claim, *, maximize: bool
) -> AssignmentCheck:
    """Checks one problem, whose costs are read through `costs`."""
    of_row, of_col = problem.transport.supply, problem.transport.demand
    n, m, real = of_row.size, of_col.size, result_float()
    rows, cols = existing(problem.transport)
    of_row, of_col = jnp.where(rows, of_row, 0), jnp.where(cols, of_col, 0)
    least = jnp.zeros_like(of_col) if problem.col_minimum is None else problem.col_minimum
    least = jnp.where(cols, jnp.maximum(least, 0), 0)
    v = jnp.where(cols, -claim.col_dual if maximize else claim.col_dual, 0).astype(real)

    used = claim.times > 0
    in_range = _in_range(claim.rows, n) & _in_range(claim.cols, m)
    valid = claim.consistent & (~used | in_range).all()
    used &= in_range
    times = jnp.where(used, claim.times, 0)
    i, j = jnp.where(used, claim.rows, 0), jnp.where(used, claim.cols, 0)
    own = costs.pairs(i, j)
    valid &= _are_different(i, j, used) & (~used | jnp.isfinite(own[0])).all()
    zero = jnp.zeros((), real)
    left, fits = _left(times, i, of_row, zero)
    room, fits_too = _left(times, j, of_col, zero)
    valid &= fits & fits_too & (of_col - room >= least).all()
    # The lesser total is matched if all of one side is.
    all_rows, all_cols = (left == 0).all(), (room == 0).all()
    if problem.unmatched_cost is None:
        valid &= all_rows | all_cols
        r, r_rest = jnp.where(all_rows, jnp.inf, jnp.zeros_like(of_row, real)), None
        least = jnp.where(all_cols, of_col, least)
    else:
        r, r_rest = split(problem.unmatched_cost, maximize)
        r = jnp.where(rows, jnp.where(jnp.isnan(r), -jnp.inf, r), jnp.inf)
        valid &= ((left == 0) | (r < jnp.inf)).all()

    tiny = is_tiny(v).any()
    if problem.unmatched_cost is not None:
        tiny |= (rows & is_tiny(problem.unmatched_cost)).any()
    # Rows left over go to one more column, whose dual is 0. A column pays for room that it leaves,
    # or for more rows than it must have.
    v = jnp.where(least == 0, jnp.minimum(v, 0), v)
    above = of_col - room - least
    terms = [_times_up(room, -v), _times_up(above, v)]
    minima = costs.minima(v)
    (u, u_rest), pairs = with_unmatched(minima, own, (r, r_rest))
    dual = jnp.concatenate([_at(v, j), jnp.zeros_like(r)])
    i = jnp.concatenate([i, jnp.arange(n, dtype=jnp.int32)])
    times = jnp.concatenate([times, jnp.maximum(left, 0)])
    slack = slack_of_pairs(pairs, dual, _at(u, i), _at(u_rest, i))
    terms.append(_times_up(times, slack))
    tiny |= minima.has_tiny.any()
    units = jnp.concatenate([times, jnp.maximum(room, 0), jnp.maximum(above, 0)])
    flushed = jnp.where(tiny, _flushed(costs.dtype, units), 0)
    gap = 0 - sum_down(-jnp.concatenate([*terms, flushed[None]]))
    sound = jnp.isfinite(v).all() & minima.is_sound.all() & (r > -jnp.inf).all()
    proved = valid & sound & ~jnp.isnan(gap)
    gap = jnp.where(proved, gap, jnp.inf)
    return AssignmentCheck(valid=valid, optimal=gap == 0, gap=gap)
