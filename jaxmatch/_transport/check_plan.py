"""Bounds by column duals how far a transport plan is from the optimum, for one problem.

It shares no code with the solvers, so a wrong result passes only if check and solver make the same
error. Duals of columns are v and duals of rows u. A number that does not fit into one float is the
sum of a float, such as `least`, and a rest, such as `least_rest`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial as bind
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.proof import (
    flushed_to,
    is_tiny,
    judged,
    minus,
    module_of,
    proof_float,
    spacing,
    split,
    sum_up,
    tolerance,
)
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check, Transport
from jaxmatch._common.tighten import WORTH_IT_ON_GRIDS, Pairs, Stays, tightened
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._transport.check_costs import CheckCosts, Pair, RowMinima, with_unmatched
from jaxmatch._transport.check_masses import Entries, left_of, scaled_demand
from jaxmatch._transport.point_problem import PointProblem
from jaxmatch._transport.problem import TransportProblem, coarsest, sum_tolerance


# Masses below this fraction of the total mass do not change a gap.
_FEW_ROUNDINGS = float(np.finfo(np.float64).eps) / 4


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class TransportCheck(Check):
    """The result of [`check_transport`][jaxmatch.check_transport]; leading `...` is batch.

    - `valid`: `bool[...]`, the plan is feasible, whatever its cost.
    - `optimal`: `bool[...]`, the plan is valid, and `gap` is no larger than the rounding of costs
      and duals can explain, which proves that no plan costs less; see [Checks][optimal].
    - `gap`: `f[...]`, a proved bound on cost − optimum, +inf where nothing is proved.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]
    gap: Float[Array, "..."]


def existing(problem: TransportProblem | PointProblem) -> tuple[Array, Array]:
    """Which rows and columns of one problem exist."""
    xp, rows, cols = module_of(problem.supply), problem.row_mask, problem.col_mask
    rows = xp.ones_like(problem.supply, bool) if rows is None else rows
    return rows, xp.ones_like(problem.demand, bool) if cols is None else cols


class _Stays(NamedTuple):
    """The mass that a plan does not move."""

    left: Num[Array, " n"]  # supply of each row that is not moved
    unmet: Num[Array, " m"]  # demand of each column that is not met
    price: Pair | None  # cost of leaving a unit of supply; None without `unmatched_cost`


class _Duals(NamedTuple):
    """Duals when minimising. `u` is used only with `partial`."""

    v: Float[Array, " m"]
    u: Float[Array, " n"] | None

    def lowered(self, spacing: float) -> _Duals:
        """Duals lowered by a spacing of floats, so that none is above its value before rounding."""

        def lower(x: Array) -> Array:
            return x - spacing * module_of(x).abs(x)

        return _Duals(lower(self.v), None if self.u is None else lower(self.u))


def check_plan(
    costs: CheckCosts,
    problem: TransportProblem | PointProblem,
    unmatched_cost: Array | None,
    result: Transport,
    *,
    maximize: bool,
) -> TransportCheck:
    """Checks one problem, whose costs are read through `costs`."""
    xp, (rows, cols) = module_of(result.rows), existing(problem)
    entries, valid = entries_of(result, problem.supply.size, problem.demand.size)
    own = costs.pairs(entries.i, entries.j)
    valid &= (~entries.used | xp.isfinite(own[0])).all()
    duals = _duals(problem, unmatched_cost, result, (rows, cols), maximize)
    price = None
    if unmatched_cost is not None:
        r, r_rest = split(unmatched_cost, maximize)
        price = xp.where(rows, xp.where(xp.isnan(r), -xp.inf, r), xp.inf), r_rest
    minima = costs.minima(*duals)
    left, unmet, moves = _moves(problem, unmatched_cost is not None, entries, minima)
    valid &= moves
    sound = xp.isfinite(duals.v).all() & minima.is_sound.all()
    if price is not None:
        valid &= ((left == 0) | (price[0] < xp.inf)).all()
        sound &= (price[0] > -xp.inf).all()
    if duals.u is not None:
        valid &= xp.isfinite(duals.u).all()

    stays, proved = _Stays(left, unmet, price), valid & sound
    given = [x for x in (duals.v, duals.u) if x is not None]
    tiny = xp.stack([is_tiny(x).any() for x in given]).any() | minima.has_tiny.any()
    if unmatched_cost is not None:
        tiny |= (rows & is_tiny(unmatched_cost)).any()
    real = proof_float(left)
    moved = sum_up(entries.mass.astype(real), left.astype(real))
    least = xp.full_like(moved, 64 * flushed_to(costs.dtype, left))
    flushed = xp.where(tiny, times_up(moved, least), 0)
    dtypes = [problem.supply.dtype, costs.dtype]
    dtypes += [] if unmatched_cost is None else [unmatched_cost.dtype]
    near = spacing(result.col_dual.dtype, real)
    bound = bind(_gap, own=own, entries=entries, stays=stays, flushed=flushed)
    tighten = None
    if xp is np and own[1] is None:
        tighten = bind(_tightened, costs, own=own[0], entries=entries, stays=stays)
    whole = all(jnp.issubdtype(x, jnp.integer) for x in dtypes)
    return TransportCheck(
        valid, *proved_gap(bound, costs, duals, minima, near, proved, whole, tighten)
    )


def proved_gap(
    bound: Callable[[Any, RowMinima], tuple[Array, ...]],
    costs: CheckCosts,
    duals: Any,
    minima: RowMinima,
    near: float,
    proved: Bool[Array, ""],
    whole: bool,
    tighten: Callable[[Any, RowMinima], Any] | None,
    *,
    exact: bool = False,
) -> tuple[Bool[Array, ""], Float[Array, ""]]:
    """Whether the gap is within the tolerance for rounding, and the gap.

    If the gap of the given duals is larger, other duals are tried.

    - `bound`: returns the gap that duals prove, and three sums: of the magnitudes of costs, of the
      magnitudes of duals, and of the mass.
    - `near`: the relative spacing of floats in the dtype of the duals.
    - `whole`: whether all costs and masses are integers, so that the gap is an integer too.
    - `tighten`: returns duals with more correct digits, or None if it finds none. It is called on
      the host only.
    - `exact`: whether integers need a gap of 0.
    """
    xp = module_of(proved)

    def gap_of(duals: Any, minima: RowMinima) -> tuple[Array, Array, tuple[Array, Array]]:
        gap, *sizes = bound(duals, minima)
        gap = xp.floor(gap) if whole else gap
        gap = xp.where(proved & ~xp.isnan(gap), gap, xp.inf)
        times, more = costs.recomputed
        of_costs = sizes[0] + more * sizes[2]
        return gap, times * tolerance(of_costs, sizes[1], near), (sizes[0] + sizes[1], sizes[2])

    def is_worth_it() -> bool:
        """Whether the gap may come from rounding duals to the units of a solver."""
        on_grid = sizes[1] * max((_greatest(block) for _, block in costs.blocks()), default=0.0)
        return bool(gap <= WORTH_IT_ON_GRIDS * (sizes[0] + on_grid))

    def better(duals: Any) -> Array:
        """The gap that other duals prove if it is within the tolerance, else the first gap."""
        other = gap_of(duals, costs.minima(*duals))[0]
        return xp.where(other <= rounding, xp.minimum(gap, other), gap)

    gap, rounding, sizes = gap_of(duals, minima)
    if exact and whole:
        rounding = xp.minimum(rounding, 0.5)
    more = proved & (gap > rounding)
    if xp is jnp:
        gap = lax.cond(more, lambda: better(duals.lowered(near)), lambda: gap)
    elif more and tighten is not None and is_worth_it():
        tight = tighten(duals, minima)
        gap = gap if tight is None else better(tight)
    return judged(gap, rounding)


def _greatest(block: Any) -> float:
    """The greatest magnitude of the finite costs."""
    size = np.abs(block)
    return float(size.max(where=np.isfinite(size), initial=0))


def _tightened(
    costs: CheckCosts,
    duals: _Duals,
    minima: RowMinima,
    *,
    own: Any,
    entries: Entries,
    stays: _Stays,
) -> _Duals | None:
    """Duals with slack 0 wherever the plan moves mass or leaves it.

    If there are no such duals, masses below a rounding error of the total are ignored.
    """
    total = sum(float(x.sum()) for x in (entries.mass, stays.left, stays.unmet))
    for most in (0.0, _FEW_ROUNDINGS * total):
        tight = _tight_above(costs, duals, minima, own, entries, stays, most)
        if tight is not None:
            return tight
    return None


def _tight_above(
    costs: CheckCosts,
    duals: _Duals,
    minima: RowMinima,
    own: Any,
    entries: Entries,
    stays: _Stays,
    most: float,
) -> _Duals | None:
    """Duals with slack 0 wherever the plan moves or leaves more mass than `most`."""
    used, v = entries.mass > most, duals.v
    rows, cols = costs.exist
    pairs = Pairs(entries.i[used], entries.j[used], own[: used.size][used])
    left, room = stays.left > most, stays.unmet > most
    more = None
    if duals.u is not None:
        assert minima.slack is not None
        price, least = np.where(rows, 0, np.inf), -minima.slack.min(initial=np.inf)
        more = Stays(price, left, cols, room, least if np.isfinite(least) else 0, tied=False)
    elif stays.price is not None:
        more = Stays(stays.price[0], left, cols, room)
    tight = tightened(costs.blocks(), pairs, minima.least, v, more)
    if tight is None or duals.u is None:
        return None if tight is None else _Duals(tight[:-1] - tight[-1] * (more is not None), None)
    v, last = tight[:-1], tight[-1]
    least: Any = np.minimum(costs.minima(v, duals.u).least + last, 0)
    u: Any = np.where(rows, least, 0)
    return _Duals(v - v.max(where=cols, initial=-np.inf), u)


def entries_of(result: Transport, n: int, m: int) -> tuple[Entries, Bool[Array, ""]]:
    """The entries that are used, and whether all are valid: empty, or different pairs in range."""
    xp = module_of(result.rows)
    empty = (result.rows == -1) & (result.cols == -1) & (result.mass == 0)
    real = in_range(result.rows, n) & in_range(result.cols, m) & (result.mass > 0)
    used = real & ~empty
    i = xp.where(used, result.rows, 0).astype(jnp.int32)
    j = xp.where(used, result.cols, 0).astype(jnp.int32)
    valid = (empty | real).all() & are_different(i, j, used)
    return Entries(i, j, used, xp.where(used, result.mass, 0)), valid


def _duals(
    problem: TransportProblem | PointProblem,
    unmatched_cost: Array | None,
    result: Transport,
    exist: tuple[Array, Array],
    maximize: bool,
) -> _Duals:
    xp, real = module_of(result.col_dual), proof_float(result.col_dual)

    def dual(x: Array, there: Array) -> Array:
        return xp.where(there, -x if maximize else x, 0).astype(real)

    v = dual(result.col_dual, exist[1])
    if problem.moved is not None:
        return _Duals(xp.minimum(v, 0), xp.minimum(dual(result.row_dual, exist[0]), 0))
    return _Duals(v if unmatched_cost is None else xp.minimum(v, 0), None)


def _moves(
    problem: TransportProblem | PointProblem, may_stay: bool, entries: Entries, minima: RowMinima
) -> tuple[Num[Array, " n"], Num[Array, " m"], Bool[Array, ""]]:
    """The supply and demand that a plan leaves, and whether it moves all mass that it must move."""
    rows, cols = existing(problem)
    xp, dtype, moved = module_of(rows), problem.supply.dtype, problem.moved
    supply, demand = xp.where(rows, problem.supply, 0), xp.where(cols, problem.demand, 0)
    must = moved is None and not may_stay
    if must and not jnp.issubdtype(dtype, jnp.integer):
        forgiven = sum_tolerance(coarsest(problem), rows.size + cols.size)
        demand = scaled_demand(supply, demand, entries, forgiven, ~minima.has_forbidden.any())
    left, fits = left_of(entries.mass, entries.i, supply, dtype)
    unmet, fits_too = left_of(entries.mass, entries.j, demand, dtype)
    fits &= fits_too
    if must:
        fits &= (left == 0).all() & (unmet == 0).all()
    if moved is not None:
        one = xp.zeros_like(entries.i)
        still, fits_too = left_of(entries.mass, one, moved[None], dtype)
        fits &= fits_too & (still == 0).all()
    return left, unmet, fits


def _gap(
    duals: _Duals,
    minima: RowMinima,
    *,
    own: Pair,
    entries: Entries,
    stays: _Stays,
    flushed: Float[Array, ""],
) -> tuple[Float[Array, ""], ...]:
    """The gap that duals prove; then Σ mass·|cost|, Σ mass·(|u| + |v|) and Σ mass over the plan."""
    (i, j, _, mass), (v, u), (left, unmet, price) = entries, duals, stays
    xp, real = module_of(v), v.dtype
    least, least_rest = minima.least, minima.least_rest
    dual = at(v, j)
    if u is not None:
        of_row = at(u, i)
        terms = [times_up(mass, _partial_slack(own, minima, of_row, dual))]
        terms += [times_up(left, -u), times_up(unmet, -v)]
    else:
        if price is not None:  # the supply that is left goes to a dummy column with dual 0
            (least, least_rest), own = with_unmatched(minima, own, price)
            mass = xp.concatenate([mass, left.astype(mass.dtype)])
            i = xp.concatenate([i, xp.arange(left.size, dtype=jnp.int32)])
            dual = xp.concatenate([dual, xp.zeros_like(price[0])])
        of_row = at(least, i)
        slack = slack_of_pairs(own, dual, of_row, at(least_rest, i))
        terms = [times_up(mass, slack)]
        terms += [] if price is None else [times_up(unmet, -v)]
    gap = sum_up(*terms, flushed[None])
    sizes = xp.abs(own[0]), xp.abs(dual) + xp.abs(of_row), xp.ones_like(dual)
    return gap, *(xp.where(mass > 0, mass.astype(real) * x, 0).sum() for x in sizes)


def in_range(index: Int[Array, " k"], size: int) -> Bool[Array, " k"]:
    return (index >= 0) & (index < size)


def at(x: Num[Array, " n"], index: Int[Array, " k"]) -> Num[Array, " k"]:
    return x[index] if x.size else module_of(x).zeros(index.shape, x.dtype)


def are_different(i: Array, j: Array, used: Bool[Array, " k"]) -> Bool[Array, ""]:
    """Whether no two used entries are the same pair."""
    xp = module_of(i)
    if xp is np:
        pairs = i[used].astype(np.int64) << 32 | j[used]
        return np.bool_(np.unique(pairs).size == pairs.size)  # type: ignore[return-value]
    i = jnp.where(used, i, -1)
    j = jnp.where(used, j, jnp.arange(j.size, dtype=j.dtype))  # unused entries all differ
    i, j = lax.sort((i, j), num_keys=2)
    return ~((i[1:] == i[:-1]) & (j[1:] == j[:-1])).any()


def slack_of_pairs(
    own: Pair, v: Float[Array, " k"], least: Float[Array, " k"], least_rest: Float[Array, " k"]
) -> Float[Array, " k"]:
    """Upper bounds of (cost − v − least − least_rest) of each pair."""
    xp = module_of(v)
    x, x_rest = minus(-own[0], None if own[1] is None else -own[1], -v)
    return sum_up(xp.stack([-x, -least, -x_rest, -least_rest], -1))


def _partial_slack(
    own: Pair, minima: RowMinima, u: Float[Array, " k"], v: Float[Array, " k"]
) -> Float[Array, " k"]:
    """Upper bounds of (slack − least slack of any pair) for the pairs of the plan.

    With `partial` every plan moves the same mass, and pays at least the least slack for each unit.
    So only slack above the least slack adds to the gap.
    """
    assert minima.slack is not None
    xp = module_of(u)
    least = minima.slack.min(initial=xp.inf)
    least = xp.where(least < xp.inf, least, 0)
    parts = [own[0], -v, -u] + ([] if own[1] is None else [own[1]])
    return sum_up(xp.stack([*parts, xp.broadcast_to(-least, u.shape)], -1))


def times_up(mass: Num[Array, "..."], x: Float[Array, "..."]) -> Float[Array, "..."]:
    """An upper bound of mass·x, even if `mass` was rounded; 0 unless both factors are positive."""
    xp, info = module_of(x), jnp.finfo(x.dtype)
    product = mass.astype(x.dtype) * x
    least = float(info.smallest_subnormal if xp is np else info.tiny)
    above = xp.maximum(product + product * (8 * float(info.eps)), least)
    return xp.where((mass > 0) & ~(x <= 0), above, 0)  # NaN stays NaN
