"""The pure-JAX transport solver for any platform: successive shortest paths, for one problem.

Duals of rows are u and duals of columns v. Masses are multiples of one unit (see `xla_masses`).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.result import Transport
from jaxmatch._common.rounding import (
    accurate_sum,
    add_up,
    as_float,
    greatest,
    nonzero_below,
    sum_up,
    two_sum,
)
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._flow import fixed_point as grid
from jaxmatch._transport.xla_flows import Flows, recompute
from jaxmatch._transport.xla_masses import Masses, as_mass, in_units, indices
from jaxmatch._transport.xla_paths import Search, move


def solve(
    cost: Num[Array, "n m"],
    supply: Num[Array, " n"],
    demand: Num[Array, " m"],
    row_mask: Bool[Array, " n"] | None,
    col_mask: Bool[Array, " m"] | None,
    moved: Num[Array, ""] | None = None,
    *,
    maximize: bool,
    origin: np.dtype | None = None,
) -> Transport:
    """Solves one problem as documented in `solve_transport`; use `vmap` for a batch."""
    n, m = cost.shape
    rows = jnp.ones_like(cost, bool, shape=(n,)) if row_mask is None else row_mask
    cols = jnp.ones_like(cost, bool, shape=(m,)) if col_mask is None else col_mask
    if n == 0 or m == 0:
        return _solve_empty(cost, supply, demand, rows, cols, maximize=maximize)
    exists = rows[:, None] & cols[None, :]

    # Canonical form: minimise; +inf forbids a pair.
    sign = -1 if maximize else 1
    c, c_low = as_float(cost)
    c, c_low = jnp.where(exists, sign * c, jnp.inf), jnp.where(exists, sign * c_low, 0)
    invalid = (jnp.isnan(c) | (c == -jnp.inf)).any()
    counted_rows, counted_cols, scaled = rows, cols, moved is None
    if moved is not None:
        counted_rows, counted_cols = rows & (indices(rows) < n - 1), cols & (indices(cols) < m - 1)
    masses = in_units(
        jnp.where(counted_rows, supply, 0),
        jnp.where(counted_cols, demand, 0),
        moved,
        c < jnp.inf,
        supply.dtype if origin is None else origin,
    )
    overflow = (masses.status == Status.OPTIMAL) & _overflows(cost, exists, masses)
    status = jnp.where(overflow, Status.OVERFLOW, masses.status)
    status = jnp.where(invalid, Status.INVALID_COST, status)

    # `slop`, a part of the gap, covers two errors besides the roundings in `_prove`. Integers may
    # be too long for a float. XLA may flush small numbers, or their differences, to zero.
    info = jnp.finfo(c.dtype)
    room = 1 << (8 * (n + m)).bit_length()  # an upper bound on the number of terms of any sum
    small = 4 * room * float(info.tiny) / float(info.eps)
    narrow = cost.dtype != c.dtype and jnp.issubdtype(cost.dtype, jnp.floating)
    tiny = float(jnp.finfo(jnp.float32).tiny if narrow else info.tiny)
    flushed = (exists & nonzero_below(cost, small)).any()
    # Huge costs are scaled by a power of two, so that sums along a path stay finite.
    scale = jnp.where(greatest(c) > float(info.max) / room, 1 / room, 1).astype(c.dtype)
    c, c_low = c * scale, c_low * scale
    slop = 3 * greatest(c_low) + jnp.where(flushed, 64 * tiny, 0).astype(c.dtype)

    go = status == Status.OPTIMAL
    moved = go & (masses.supply > 0)[:, None] & (masses.demand > 0)[None, :]
    search = move(
        jnp.where(moved, c, jnp.inf),
        jnp.where(go, masses.supply, 0),
        jnp.where(go, masses.demand, 0),
    )
    status = jnp.where(go & search.failed, Status.INFEASIBLE, status).astype(jnp.int32)
    duals = _duals(c, moved, search.v)
    plan = _entries(search, masses)
    coarse = masses.coarse & (status == Status.OPTIMAL)
    slack = _slack(c, exists, duals)
    flows = recompute(search, masses, slack, coarse, scaled=scaled)
    status = jnp.where(coarse & flows.failed, Status.INFEASIBLE, status)
    plan = jax.tree.map(partial(jnp.where, coarse), _merged(flows, n, m), plan)
    off = jnp.where(coarse, flows.off, 0)
    proof = _prove(c, c_low, moved, plan, duals, masses, slop, off)
    solved = status == Status.OPTIMAL

    def value(x: Array, negate: bool = maximize) -> Array:
        x = x / scale
        return jnp.where(solved, 0 - x if negate else x, jnp.nan)  # `0 - x` is never -0

    used = solved & (plan.units > 0)
    mass = as_mass(plan.units, masses.exponent, supply.dtype)
    if jnp.issubdtype(supply.dtype, jnp.floating):
        mass = jnp.where(coarse, plan.mass.astype(supply.dtype), mass)
    unbalanced = status == Status.UNBALANCED
    return Transport(
        rows=jnp.where(used, plan.rows, -1),
        cols=jnp.where(used, plan.cols, -1),
        mass=jnp.where(used, mass, 0),
        cost=value(proof.cost),
        row_dual=value(jnp.where(rows, duals.u_of_all, 0)),
        col_dual=value(jnp.where(cols, duals.v_of_all, 0)),
        gap=jnp.where(unbalanced, masses.lacking, value(proof.gap, negate=False)),
        status=status,
    )


def _solve_empty(
    cost: Array, supply: Array, demand: Array, rows: Array, cols: Array, *, maximize: bool
) -> Transport:
    """Solves a problem without rows or columns, by adding masked ones: the loops need some."""
    n, m = cost.shape
    more_rows, more_cols = (0, int(n == 0)), (0, int(m == 0))
    supply, rows = jnp.pad(supply, more_rows), jnp.pad(rows, more_rows)
    demand, cols = jnp.pad(demand, more_cols), jnp.pad(cols, more_cols)
    cost = jnp.pad(cost, (more_rows, more_cols))
    res = solve(cost, supply, demand, rows, cols, maximize=maximize)
    count = max(n + m - 1, 0)
    return res.replace(
        **{name: getattr(res, name)[:count] for name in ("rows", "cols", "mass")},
        row_dual=res.row_dual[:n],
        col_dual=res.col_dual[:m],
    )


def _overflows(cost: Array, exists: Bool[Array, "n m"], masses: Masses) -> Bool[Array, ""]:
    """Whether 2 (k + 1) max|C| exceeds 2^61.

    k is the lesser of two numbers: of rows with mass, and of columns with mass.
    """
    counts = [(x > 0).sum(dtype=jnp.int32) for x in (masses.supply, masses.demand)]
    pairs = jnp.minimum(*counts)
    if jnp.issubdtype(cost.dtype, jnp.floating) or cost.dtype.itemsize < 8:
        return pairs < 0
    limit = 2**60 // (pairs.astype(cost.dtype) + 1)
    return (pairs > 0) & (exists & ((cost > limit) | (cost < -limit))).any()


class _Plan(NamedTuple):
    """Entries sorted by row and column. Entries of 0 units come last, with arbitrary indices."""

    rows: Int[Array, " k"]
    cols: Int[Array, " k"]
    units: Int[Array, " k"]  # 1 for used entries if flows were recomputed as floats
    mass: Float[Array, " k"]
    mass_low: Float[Array, " k"]


def _entries(s: Search, masses: Masses) -> _Plan:
    """The plan of a search: the arcs of its forest, one from each node that is not a root."""
    n, m = s.u.size, s.v.size
    units = jnp.concatenate([s.row_units, s.col_units])
    rows = jnp.concatenate([indices(s.u), s.col_parent])
    cols = jnp.concatenate([s.row_parent, indices(s.v)])
    ordered = lax.sort((jnp.where(units > 0, rows, n), cols, units), num_keys=2)
    rows, cols, units = (x[: n + m - 1] for x in ordered)
    mass, mass_low = (grid.times_power(x, masses.exponent) for x in as_float(units))
    return _Plan(rows, cols, units, mass, mass_low)


def _merged(flows: Flows, n: int, m: int) -> _Plan:
    """The plan of recomputed flows. Flows of the same pair become one entry."""
    rows = jnp.where(flows.mass > 0, flows.rows, n)
    rows, cols, mass = lax.sort((rows, flows.cols, flows.mass), num_keys=2)
    first = jnp.concatenate(
        [jnp.ones_like(rows[:1], bool), (rows[1:] != rows[:-1]) | (cols[1:] != cols[:-1])]
    )
    place = jnp.cumsum(first.astype(jnp.int32)) - 1
    mass = jnp.where(first, jnp.zeros_like(mass).at[place].add(mass)[place], 0)
    rows, cols, mass = lax.sort((jnp.where(mass > 0, rows, n), cols, mass), num_keys=2)
    rows, cols, mass = (x[: n + m - 1] for x in (rows, cols, mass))
    units = (mass > 0).astype(grid.integer_and_most()[0])
    return _Plan(rows, cols, units, mass, jnp.zeros_like(mass))


class _Duals(NamedTuple):
    """Duals of rows and columns with units, and duals of all rows and columns."""

    u: Float[Array, " n"]
    u_rest: Float[Array, " n"]  # pairs of the plan cost u + u_rest + v
    v: Float[Array, " m"]
    u_of_all: Float[Array, " n"]
    v_of_all: Float[Array, " m"]


def _duals(c: Array, moved: Array, v: Array) -> _Duals:
    """Computes the duals. Rows and columns without units take no part in the proof."""
    # u_i = min_j C_ij - v_j, exactly: a float and a rest.
    x, rest = _less_v(c, moved, v)
    u = x.min(1)
    u_rest = jnp.where(x == u[:, None], rest, jnp.inf).min(1)
    u_rest, u = jnp.where(u < jnp.inf, u_rest, 0), jnp.where(u < jnp.inf, u, 0)
    nothing = jnp.zeros_like(v)
    has_supply, has_demand = moved.any(1), moved.any(0)
    v_of_all = jnp.where(has_demand, v, _least_below(c.T, u, u_rest, has_supply))
    u_of_all = jnp.where(has_supply, u, _least_below(c, v_of_all, nothing, nothing == 0))
    return _Duals(u, u_rest, v, u_of_all, v_of_all)


def _less_v(c: Array, moved: Array, v: Array) -> tuple[Array, Array]:
    x, rest = two_sum(jnp.where(moved, c, jnp.inf), -v[None, :])
    return x, jnp.where(x < jnp.inf, rest, 0)


def _slack(c: Array, exists: Array, duals: _Duals) -> Array:
    """Upper bounds of reduced costs; infinite for pairs that are forbidden or do not exist."""
    finite = exists & jnp.isfinite(c)
    u, v = duals.u_of_all[:, None], duals.v_of_all[None, :]
    above = add_up(add_up(jnp.where(finite, c, 0), -u), -v) + jnp.abs(duals.u_rest)[:, None]
    return jnp.where(finite, jnp.maximum(above, 0), jnp.inf)


class _Proof(NamedTuple):
    cost: Float[Array, ""]
    gap: Float[Array, ""]


def _prove(
    c: Array,
    c_low: Array,
    moved: Array,
    plan: _Plan,
    duals: _Duals,
    masses: Masses,
    slop: Array,
    off: Array,
) -> _Proof:
    """The cost, and a proved bound on cost - optimum.

    `slop` bounds the error of c per unit of mass, and `off` the error of recomputed masses.
    """
    n, m = c.shape
    used, rows, cols = plan.units > 0, plan.rows.clip(0, n - 1), plan.cols.clip(0, m - 1)
    x, rest = _less_v(c, moved, duals.v)
    slack, slack_rest = two_sum(x[rows, cols], -duals.u[rows])
    rest, rest_rest = two_sum(rest[rows, cols], -duals.u_rest[rows])
    slack = add_up(add_up(slack, rest), add_up(slack_rest, rest_rest))
    # The slack of pairs whose row or column has no units.
    other = _slack(c, jnp.isfinite(c), duals)[rows, cols]
    slack = jnp.where(used, jnp.where(moved[rows, cols], slack, other), 0)
    # Rounding a mass to units changes the optimum by at most half a unit times the dual. It also
    # makes the totals differ, and balancing changes demands by as many units as they differ. The
    # factor 2 covers the rounding of each demand's share.
    unit = grid.times_power(jnp.ones_like(slop), masses.exponent)
    most = jnp.maximum(greatest(duals.u_of_all), greatest(duals.v_of_all))
    dual = jnp.where(masses.rounded, most, 0)
    total = sum_up(jnp.where(used, plan.mass, 0))
    terms = [_times_up(plan.mass, slack), _times_up(total, slop)[None]]
    terms += [_times_up(2 * (n + 2 * m) * unit, dual)[None], _times_up(off, most)[None]]
    gap = sum_up(jnp.concatenate(terms))
    chosen = jnp.where(used, c[rows, cols], 0), jnp.where(used, c_low[rows, cols], 0)
    cost = _sum_of_products(
        jnp.where(used, plan.mass, 0), jnp.where(used, plan.mass_low, 0), *chosen
    )
    return _Proof(cost, jnp.where(jnp.isnan(gap), jnp.inf, gap))


def _least_below(c: Array, dual: Array, rest: Array, counts: Array) -> Array:
    """A lower bound of min C_ik - dual_k - rest_k over k in `counts`; 0 if no cost is finite."""
    finite = jnp.isfinite(c) & counts[None, :]
    above = add_up(add_up(jnp.where(finite, -c, 0), dual[None, :]), rest[None, :])
    least = jnp.where(finite, 0 - above, jnp.inf).min(1)
    return jnp.where(least < jnp.inf, least, 0)


def _times_up(mass: Array, x: Array) -> Array:
    """An upper bound of mass·x, even if `mass` was rounded; 0 unless both factors are positive."""
    info = jnp.finfo(x.dtype)
    above = jnp.maximum(mass * x * (1 + 8 * float(info.eps)), float(info.tiny))
    return jnp.where(~(x <= 0) & (mass > 0), above, 0)  # NaN stays NaN


def _sum_of_products(a: Array, a_low: Array, b: Array, b_low: Array) -> Array:
    """Sum of (a + a_low) (b + b_low), as if added in twice the precision.

    The result is infinite only if the total is beyond the range of floats. Products and partial
    sums may be beyond it.
    """
    split = 2.0 ** ((jnp.finfo(a.dtype).nmant + 2) // 2) + 1

    def halves(x: Array) -> tuple[Array, Array]:  # Veltkamp's splitting
        high = split * x - (split * x - x)
        return high, x - high

    # If a product overflows, scale all numbers. Numbers that then underflow are far below the last
    # digit of this product.
    beyond = jnp.isfinite(a) & jnp.isfinite(b) & jnp.isinf(a * b)
    by_a, by_b = (jnp.where(beyond.any(), _far_from_the_end(x), 1) for x in (a, b))
    a, a_low, b, b_low = a * by_a, a_low * by_a, b * by_b, b_low * by_b
    (a_high, a_rest), (b_high, b_rest) = halves(a), halves(b)
    product = a * b
    error = ((a_high * b_high - product) + a_high * b_rest + a_rest * b_high) + a_rest * b_rest
    error = jnp.where(jnp.isfinite(error), error, 0)  # it can overflow where `product` does not
    total = accurate_sum(jnp.concatenate([product, error, a_low * b, a * b_low]))
    total = jnp.where(jnp.isfinite(total), total, product.sum())
    return total / by_a / by_b


def _far_from_the_end(x: Array) -> Array:
    """A power of two that scales x down so that products with it do not overflow."""
    half = jnp.finfo(x.dtype).maxexp // 2
    return jnp.where(jnp.abs(x).max() > 2.0 ** (half - 1), jnp.asarray(0.5**half / 256, x.dtype), 1)
