"""`check_capacitated_assignment`: verifies results by their column duals.

It shares no code with the solvers, so that it does not repeat their errors.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.capacity_limited_check import check_limited
from jaxmatch._assignment.capacity_problem import (
    CapacityProblem,
    as_capacities,
    as_capacity_problem,
)
from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._common.arguments import as_array
from jaxmatch._common.given import INTEGERS, REAL, require
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import BY_JAX, Place, current_place, in_full_precision
from jaxmatch._common.proof import (
    add_at,
    flushed_to,
    is_tiny,
    module_of,
    over_problems,
    proof_float,
    spacing,
    split,
    sum_up,
)
from jaxmatch._common.result import CapacitatedAssignment, Transport
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.tighten import Pairs, Stays, tightened
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int
from jaxmatch._transport.check_costs import CheckCosts, Pair, RowMinima, StoredCosts, with_unmatched
from jaxmatch._transport.check_masses import Entries, left_of
from jaxmatch._transport.check_plan import (
    are_different,
    at,
    existing,
    in_range,
    proved_gap,
    slack_of_pairs,
    times_up,
)
from jaxmatch._transport.problem import TransportProblem


class Claim(NamedTuple):
    """What a result claims: pairs, how often each is used, and duals that prove the optimum."""

    rows: Int[Array, "... k"]
    cols: Int[Array, "... k"]
    times: Int[Array, "... k"]  # how often each pair is used
    consistent: Bool[Array, "..."]  # whether the fields of the result agree with each other
    col_dual: Float[Array, "... m"]
    row_dual: Float[Array, "... n"] | None = None  # read only if pairs have limits


@unchecked
@in_full_precision(
    "cost", "row_mask", "col_mask", "unmatched_cost", "unmatched_col_cost", on_host=True
)
def check_capacitated_assignment(
    cost: ArrayLike,
    result: CapacitatedAssignment | Transport,
    *,
    col_capacity: ArrayLike | None = None,
    col_minimum: ArrayLike | None = None,
    row_capacity: ArrayLike | None = None,
    limit: ArrayLike | None = None,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
) -> AssignmentCheck:
    """Verify a result of `solve_capacitated_assignment`, in jit or out of it.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> res = jm.solve_capacitated_assignment(cost, col_capacity=2)
    >>> check = jm.check_capacitated_assignment(cost, res, col_capacity=2)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, True, 0.0)
    >>> bool(jm.check_capacitated_assignment(cost, res, col_capacity=1).valid)
    False

    **Arguments:**

    - `cost`, capacities, `limit`, `maximize`, masks, `unmatched_cost`, `unmatched_col_cost`: as
      they were passed to the solver.
    - `result`: the solver's result. The check reads `col4row`, `col_count` and `col_dual`; with
      `row_capacity` it reads `rows`, `cols`, `mass` and `col_dual`; with `limit` also `row_dual`.

    **Returns:** an [`AssignmentCheck`][jaxmatch.AssignmentCheck] with the same bound as
    [`check_assignment`][jaxmatch.check_assignment]. Valid results exceed no capacity or limit,
    meet all minima, and are complete, see [Checks][check-assignment].

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for other dtypes.
    """
    place = current_place()
    rows, cols, least = as_capacities(
        row_capacity=row_capacity, col_capacity=col_capacity, col_minimum=col_minimum
    )
    masks, limit = (row_mask, col_mask), as_capacities(limit=limit)[0]
    problem = as_capacity_problem(
        cost,
        rows,
        cols,
        least,
        *masks,
        unmatched_cost,
        unmatched_col_cost=unmatched_col_cost,
        limit=limit,
        place=place,
    )
    claim = as_claim(result, problem, as_plan=row_capacity is not None, place=place)
    return check_claim(problem, claim, maximize=bool(maximize), place=place)


def check_claim(
    problem: CapacityProblem, claim: Claim, *, maximize: bool, place: Place
) -> AssignmentCheck:
    if place.native:
        return _check_batch(problem, claim, maximize=maximize)
    return _check(*lax.stop_gradient((problem, claim)), maximize=maximize)


def as_claim(
    result: Any, problem: CapacityProblem, *, as_plan: bool, place: Place = BY_JAX
) -> Claim:
    kind = Transport if as_plan else CapacitatedAssignment
    require("result", result, kind, "that the solver returns for such capacities")
    supply, demand = problem.transport.supply, problem.transport.demand
    (*batch, n), m = supply.shape, demand.shape[-1]

    def field(name: str, size: int | None, real: bool = False) -> Array:
        """A field of the result, checked. A `size` of None allows any length."""
        must = "be real numbers" if real else "be integers"
        dtypes = REAL if real else INTEGERS
        x = as_array(f"result.{name}", getattr(result, name), place, dtypes, must, "")
        size = x.shape[-1] if size is None and x.ndim else size
        if x.shape != (*batch, size):
            raise ValueError(
                f"`result.{name}` must have shape {(*batch, size)} to go with the costs, got "
                f"{x.shape}."
            )
        return x if real else x.astype(jnp.int32)

    v = field("col_dual", m, real=True)
    limited = problem.limit is not None
    u = field("row_dual", n, real=True) if limited else None
    if as_plan:
        rows, cols, times = (field(name, None) for name in ("rows", "cols", "mass"))
        if not rows.shape == cols.shape == times.shape:
            raise ValueError("`rows`, `cols` and `mass` of `result` must have one shape.")
        used = times != 0
        consistent = ((rows == -1) & (cols == -1) | used).all(-1) & (times >= 0).all(-1)
        return Claim(rows, cols, times, consistent, v, u)
    col4row, counts = field("col4row", n), field("col_count", m)
    matched = col4row != -1
    xp = place.xp

    def count(col4row: Array) -> Array:
        col = xp.where(col4row != -1, col4row, m).clip(0, m)
        return add_at(m + 1, col, xp.ones_like(col))[:m].astype(jnp.int32)

    consistent = (over_problems(count, tuple(batch), col4row) == counts).all(-1)
    rows = xp.broadcast_to(xp.arange(n, dtype=jnp.int32), col4row.shape)
    return Claim(rows, col4row, matched.astype(jnp.int32), consistent, v, u)


@compiled(static_argnames="maximize")
def _check(problem: CapacityProblem, claim: Claim, *, maximize: bool) -> AssignmentCheck:
    check = partial(_check_batch, maximize=maximize)
    return over_batch_shards(apart(check), problem, claim, core_dims=2)


def _check_batch(problem: CapacityProblem, claim: Claim, *, maximize: bool) -> AssignmentCheck:
    batch = problem.transport.supply.shape[:-1]
    one = partial(_check_one, maximize=maximize)
    if problem.limit is not None:
        one = partial(check_limited, maximize=maximize)
    return over_problems(one, batch, problem, claim)


def _check_one(problem: CapacityProblem, claim: Claim, *, maximize: bool) -> AssignmentCheck:
    assert isinstance(problem.transport, TransportProblem)
    rows, cols = existing(problem.transport)
    costs = StoredCosts(problem.transport.cost, rows, cols, maximize)
    return check_pairs(costs, problem, claim, maximize=maximize)


class _Duals(NamedTuple):
    """The column duals of the minimisation problem."""

    v: Float[Array, " m"]

    def lowered(self, spacing: float) -> _Duals:
        """The duals minus the bound on their rounding error, so at most the exact duals."""
        return _Duals(self.v - spacing * module_of(self.v).abs(self.v))


class _Stays(NamedTuple):
    """The capacities that the pairs of a result leave unused."""

    left: Int[Array, " n"]  # unused capacity of rows
    room: Int[Array, " m"]  # unused capacity of columns
    above: Int[Array, " m"]  # number of matched rows of a column minus its minimum
    optional: Bool[Array, " m"]  # whether a column may stay without rows
    price: Pair  # the cost of leaving a row unmatched, as a float and a rest
    col_price: Pair  # the same of a column


def check_pairs(
    costs: CheckCosts, problem: CapacityProblem, claim: Claim, *, maximize: bool
) -> AssignmentCheck:
    """Checks the claim for one problem, whose costs are read through `costs`."""
    xp, (rows, cols) = module_of(claim.times), existing(problem.transport)
    real = proof_float(claim.times)
    v = xp.where(cols, -claim.col_dual if maximize else claim.col_dual, 0).astype(real)
    used = claim.times > 0
    there = in_range(claim.rows, rows.size) & in_range(claim.cols, cols.size)
    valid = claim.consistent & (~used | there).all()
    used &= there
    i, j = xp.where(used, claim.rows, 0), xp.where(used, claim.cols, 0)
    entries = Entries(i, j, used, xp.where(used, claim.times, 0))
    own = costs.pairs(i, j)
    valid &= are_different(i, j, used) & (~used | xp.isfinite(own[0])).all()
    stays, moves = _stays(problem, entries, maximize)
    valid &= moves

    tiny = is_tiny(v).any()
    if problem.unmatched_cost is not None:
        tiny |= (rows & is_tiny(problem.unmatched_cost)).any()
    if problem.unmatched_col_cost is not None:
        tiny |= (cols & is_tiny(problem.unmatched_col_cost)).any()
    duals = _Duals(xp.where(stays.optional, xp.minimum(v, stays.col_price[0]), v))
    minima = costs.minima(*duals)
    units = (entries.mass, stays.left, stays.room, stays.above)
    total = sum_up(*(xp.maximum(x, 0).astype(real) for x in units))
    small = 64 * flushed_to(costs.dtype, v)
    flushed = xp.where(tiny | minima.has_tiny.any(), times_up(total, xp.full_like(total, small)), 0)
    sound = xp.isfinite(v).all() & minima.is_sound.all() & (stays.price[0] > -xp.inf).all()
    sound &= (stays.col_price[0] > -xp.inf).all()
    bound = partial(_gap, own=own, entries=entries, stays=stays, flushed=flushed)
    r, c = problem.unmatched_cost, problem.unmatched_col_cost
    dtypes = [costs.dtype, *(x.dtype for x in (r, c) if x is not None)]
    whole = all(jnp.issubdtype(x, jnp.integer) for x in dtypes)
    near, tighten = spacing(claim.col_dual.dtype, real), None
    if xp is np and own[1] is None and stays.col_price[1] is None:
        tighten = partial(_tightened, costs, own=own[0], entries=entries, stays=stays)
    given = (bound, costs, duals, minima, near, valid & sound, whole, tighten)
    return AssignmentCheck(valid, *proved_gap(*given, exact=xp is np and c is not None))


def _tightened(
    costs: CheckCosts,
    duals: _Duals,
    minima: RowMinima,
    *,
    own: Any,
    entries: Entries,
    stays: _Stays,
) -> _Duals | None:
    used = entries.mass > 0
    pairs = Pairs(entries.i[used], entries.j[used], own[used])
    of_cols = stays.col_price[0]
    capped = costs.exist[1] & (stays.optional | (stays.above > 0)) & np.isfinite(of_cols)
    more = Stays(stays.price[0], stays.left > 0, capped, stays.room > 0, col_price=of_cols)
    v = tightened(costs.blocks(), pairs, minima.least, duals.v, more)
    return None if v is None else _Duals(v[:-1] - v[-1])


def _stays(
    problem: CapacityProblem, entries: Entries, maximize: bool
) -> tuple[_Stays, Bool[Array, ""]]:
    """The unused capacities, and whether pairs obey capacities and minima and are complete."""
    xp, (rows, cols) = module_of(entries.mass), existing(problem.transport)
    of_row = xp.where(rows, problem.transport.supply, 0)
    of_col = xp.where(cols, problem.transport.demand, 0)
    least = xp.zeros_like(of_col) if problem.col_minimum is None else problem.col_minimum
    least = xp.where(cols, xp.maximum(least, 0), 0)
    left, fits = left_of(entries.mass, entries.i, of_row)
    room, fits_too = left_of(entries.mass, entries.j, of_col)
    fits &= fits_too & (of_col - room >= least).all()
    # Pairs are complete if one side is matched in full, or if rows may stay unmatched at a cost.
    all_rows, all_cols = (left == 0).all(), (room == 0).all()
    if problem.unmatched_cost is None:
        fits &= all_rows | all_cols
        real = proof_float(entries.mass)
        r, r_rest = xp.where(all_rows, xp.inf, xp.zeros_like(of_row, real)), None
        least = xp.where(all_cols, of_col, least)
    else:
        r, r_rest = split(problem.unmatched_cost, maximize)
        r = xp.where(rows, xp.where(xp.isnan(r), -xp.inf, r), xp.inf)
        fits &= ((left == 0) | (r < xp.inf)).all()
    c, c_rest = xp.zeros_like(of_col, proof_float(entries.mass)), None
    if problem.unmatched_col_cost is not None:
        c, c_rest = split(problem.unmatched_col_cost, maximize)
        c = xp.where(cols, xp.where(xp.isnan(c), -xp.inf, c), 0)
        fits &= ((room == 0) | (c < xp.inf)).all()
    optional = (least == 0) & (c < xp.inf)
    above = of_col - room - least
    return _Stays(left, room, above, optional, (r, r_rest), (c, c_rest)), fits


def _gap(
    duals: _Duals,
    minima: RowMinima,
    *,
    own: Pair,
    entries: Entries,
    stays: _Stays,
    flushed: Float[Array, ""],
) -> tuple[Float[Array, ""], ...]:
    """The gap that duals prove, and three sums over all pairs: of |cost|, of |duals|, and of 1.

    A pair counts as often as it is used.
    """
    (i, j, _, times), v = entries, duals.v
    xp = module_of(v)
    # Unmatched units of rows are pairs with a dummy column, whose dual is 0. Column j adds
    # c_j − v_j to the gap for each unused unit of its capacity, and v_j − c_j for each matched row
    # above its minimum. All units are used if c_j is infinite.
    (u, u_rest), pairs = with_unmatched(minima, own, stays.price)
    dual = xp.concatenate([at(v, j), xp.zeros_like(stays.price[0])])
    i = xp.concatenate([i, xp.arange(stays.left.size, dtype=jnp.int32)])
    times = xp.concatenate([times, xp.maximum(stays.left, 0)])
    slack = slack_of_pairs(pairs, dual, at(u, i), at(u_rest, i))
    less, more = _differences(v, *stays.col_price)
    terms = [times_up(stays.room, less), times_up(stays.above, more), times_up(times, slack)]
    # Columns that stay at a cost are pairs, too.
    c = stays.col_price[0]
    stay = xp.where(xp.isfinite(c) & (c != 0), xp.maximum(stays.room, 0), 0)
    times = xp.concatenate([times, stay])
    sizes = (
        (pairs[0], c),
        (xp.abs(dual) + xp.abs(at(u, i)), v),
        (xp.ones_like(dual), xp.ones_like(v)),
    )
    sizes = (xp.abs(xp.concatenate(x)) for x in sizes)
    sizes = (xp.where(times > 0, times.astype(v.dtype) * x, 0).sum() for x in sizes)
    return sum_up(*terms, flushed[None]), *sizes


def _differences(
    v: Float[Array, " m"], c: Float[Array, " m"], c_rest: Float[Array, " m"] | None
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Upper bounds of c − v and of v − c, 0 where c is infinite."""
    xp = module_of(v)
    parts = [c, -v, xp.zeros_like(c) if c_rest is None else c_rest]
    parts = [xp.where(xp.isfinite(c), x, 0) for x in parts]
    return sum_up(xp.stack(parts, -1)), sum_up(-xp.stack(parts, -1))
