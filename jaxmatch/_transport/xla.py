"""The pure-JAX transport solver for any platform: successive shortest paths, for one problem.

The pairs with mass form a forest of rows and columns, stored as an arc from each node to its
parent. A search settles whole trees: their arcs are tight, so all nodes of a tree have the same
distance. A shortest path then enters each tree once and leaves it once, so the pairs that it adds
close no cycle. The plan is basic at any time, and the state of the loop is O(n + m).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
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
from jaxmatch._flow import fixed_point as grid


if TYPE_CHECKING:
    from jax.typing import DTypeLike
    from jaxtyping import Array, Bool, Float, Int, Num


def solve(
    cost: Num[Array, "n m"],
    supply: Num[Array, " n"],
    demand: Num[Array, " m"],
    row_mask: Bool[Array, " n"] | None,
    col_mask: Bool[Array, " m"] | None,
    *,
    maximize: bool,
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
    masses = _in_units(jnp.where(rows, supply, 0), jnp.where(cols, demand, 0))
    overflow = (masses.status == Status.OPTIMAL) & _overflows(cost, exists, masses)
    status = jnp.where(overflow, Status.OVERFLOW, masses.status)
    status = jnp.where(invalid, Status.INVALID_COST, status)

    # Errors that `gap` must cover besides the roundings in `_prove`: integers longer than a float,
    # and numbers so small that XLA may flush them, or their differences, to zero.
    info = jnp.finfo(c.dtype)
    room = 1 << (8 * (n + m)).bit_length()  # an upper bound on the number of terms of any sum
    small = 4 * room * float(info.tiny) / float(info.eps)
    narrow = cost.dtype != c.dtype and jnp.issubdtype(cost.dtype, jnp.floating)
    tiny = float(jnp.finfo(jnp.float32).tiny if narrow else info.tiny)
    flushed = (exists & nonzero_below(cost, small)).any()
    # Huge costs are scaled by a power of two: the sums along a path must stay finite.
    scale = jnp.where(greatest(c) > float(info.max) / room, 1 / room, 1).astype(c.dtype)
    c, c_low = c * scale, c_low * scale
    slop = 3 * greatest(c_low) + jnp.where(flushed, 64 * tiny, 0).astype(c.dtype)

    go = status == Status.OPTIMAL
    moved = go & (masses.supply > 0)[:, None] & (masses.demand > 0)[None, :]
    search = _move(
        jnp.where(moved, c, jnp.inf),
        jnp.where(go, masses.supply, 0),
        jnp.where(go, masses.demand, 0),
    )
    status = jnp.where(go & search.failed, Status.INFEASIBLE, status).astype(jnp.int32)
    plan = _entries(search)
    proof = _prove(c, c_low, moved, plan, search.v, masses, slop)
    solved = status == Status.OPTIMAL

    def value(x: Array, negate: bool = maximize) -> Array:
        x = x / scale
        return jnp.where(solved, 0 - x if negate else x, jnp.nan)  # `0 - x` is never -0

    used = solved & (plan.units > 0)
    return Transport(
        rows=jnp.where(used, plan.rows, -1),
        cols=jnp.where(used, plan.cols, -1),
        mass=jnp.where(used, _as_mass(plan.units, masses.exponent, supply.dtype), 0),
        cost=value(proof.cost),
        row_dual=value(jnp.where(rows, proof.u, 0)),
        col_dual=value(jnp.where(cols, proof.v, 0)),
        gap=value(proof.gap, negate=False),
        status=status,
    )


def _solve_empty(
    cost: Array, supply: Array, demand: Array, rows: Array, cols: Array, *, maximize: bool
) -> Transport:
    """No rows or no columns: the loops need at least one, so a masked one is added."""
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


def _overflows(cost: Array, exists: Bool[Array, "n m"], masses: _Masses) -> Bool[Array, ""]:
    """Whether 2 (k + 1) max|C| exceeds 2^61, with mass in at least k rows and in k columns."""
    counts = [(x > 0).sum(dtype=jnp.int32) for x in (masses.supply, masses.demand)]
    pairs = jnp.minimum(*counts)
    if jnp.issubdtype(cost.dtype, jnp.floating) or cost.dtype.itemsize < 8:
        return pairs < 0
    limit = 2**60 // (pairs.astype(cost.dtype) + 1)
    return (pairs > 0) & (exists & ((cost > limit) | (cost < -limit))).any()


# ---------------------------------------------------------------------------------------------
# Masses


class _Masses(NamedTuple):
    """Masses as integer multiples of 2^exponent."""

    supply: Int[Array, " n"]
    demand: Int[Array, " m"]
    exponent: Int[Array, ""]
    rounded: Bool[Array, ""]  # whether a mass is no multiple, or demands were changed
    status: Int[Array, ""]


def _in_units(supply: Num[Array, " n"], demand: Num[Array, " m"]) -> _Masses:
    """Masses on a grid, and their status. Masked ones must be 0."""
    integer, most = grid.integer_and_most()
    usable = grid.is_usable(supply) & grid.is_usable(demand)
    if jnp.issubdtype(supply.dtype, jnp.integer):
        a, b = supply.astype(integer), demand.astype(integer)
        exponent, rounded = jnp.zeros_like(usable, jnp.int32), jnp.zeros_like(usable)
        # These saturate far above the greatest total that is solved.
        total, other = (grid.totals(x.clip(0, most)[None, :])[0] for x in (a, b))
        status = jnp.where(total >= 1 << grid.bits_of_bound(), Status.OVERFLOW, Status.OPTIMAL)
        status = jnp.where(total == other, status, Status.UNBALANCED)
    else:
        usable &= jnp.isfinite(supply).all() & jnp.isfinite(demand).all()
        wide = [as_float(jnp.where(usable, x, 0))[0] for x in (supply, demand)]
        highest = jnp.maximum(*(grid.exponent_of_sum(x)[0] for x in wide))
        # Masses below the least normal number would be flushed to 0.
        least = jnp.finfo(supply.dtype).minexp
        exponent = jnp.maximum(highest - grid.bits_of_bound(), least)
        exact = [grid.times_power(x, -exponent) for x in wide]
        whole = [jnp.round(x) for x in exact]
        a, b = (x.astype(integer) for x in whole)
        # One rounding for each mass is forgiven, as are those of the sums.
        forgiven = 2 * (a.size + b.size) * float(jnp.finfo(supply.dtype).eps)
        changed, balanced = _balance(a, b, forgiven, wide[0].dtype)
        rounded = (whole[0] != exact[0]).any() | (whole[1] != exact[1]).any()
        rounded |= (changed != b).any()
        b, status = changed, jnp.where(balanced, Status.OPTIMAL, Status.UNBALANCED)
    return _Masses(a, b, exponent, rounded, jnp.where(usable, status, Status.INVALID_MASS))


def _balance(a: Array, b: Array, forgiven: float, dtype: DTypeLike) -> tuple[Array, Array]:
    """Demands changed in proportion to sum as the supplies do, and whether they nearly did."""
    missing = a.sum() - b.sum()
    rate = missing.astype(dtype) / jnp.maximum(b.sum(), 1).astype(dtype)
    changed = b + jnp.trunc(b.astype(dtype) * rate).astype(b.dtype)
    most = lax.argmax(changed, 0, jnp.int32)
    changed = _put(changed, most, changed[most] + (a.sum() - changed.sum()))
    near = jnp.abs(missing).astype(dtype) <= forgiven * a.sum().astype(dtype)
    balanced = (missing == 0) | (near & (changed >= 0).all())
    return jnp.where(balanced & (missing != 0), changed, b), balanced


def _as_mass(units: Int[Array, " k"], exponent: Int[Array, ""], dtype: DTypeLike) -> Array:
    if jnp.issubdtype(dtype, jnp.integer):
        return units.astype(dtype)
    mass = grid.times_power(as_float(units)[0], exponent)
    return jnp.minimum(mass, float(jnp.finfo(dtype).max)).astype(dtype)  # rounded, but not to inf


# ---------------------------------------------------------------------------------------------
# Successive shortest paths


class _Search(NamedTuple):
    """The state of the loop. An index of -1 means none."""

    failed: Bool[Array, ""]
    left: Int[Array, " n"]  # units that rows have still to send
    room: Int[Array, " m"]  # units that columns have still to receive
    u: Float[Array, " n"]
    v: Float[Array, " m"]
    # The forest of pairs with mass: the parent of each node, and the units on that arc.
    row_parent: Int[Array, " n"]
    row_units: Int[Array, " n"]
    col_parent: Int[Array, " m"]
    col_units: Int[Array, " m"]
    # Dijkstra's algorithm from the root. `flow`: units on the arc from `pred` to the node.
    root: Int[Array, ""]
    row_settled: Bool[Array, " n"]
    row_scanned: Bool[Array, " n"]
    row_dist: Float[Array, " n"]
    row_pred: Int[Array, " n"]
    row_flow: Int[Array, " n"]
    col_settled: Bool[Array, " m"]
    col_tied: Bool[Array, " m"]  # gets mass from a scanned row
    col_dist: Float[Array, " m"]
    col_pred: Int[Array, " m"]
    col_flow: Int[Array, " m"]
    # The walk back along the shortest path.
    walking: Bool[Array, ""]
    end: Int[Array, ""]  # the column that the path leads to
    col: Int[Array, ""]  # the column that the walk has come to
    least: Int[Array, ""]  # the units that the path can take
    row_on_path: Bool[Array, " n"]  # without the root
    col_on_path: Bool[Array, " m"]


def _move(c: Float[Array, "n m"], supply: Int[Array, " n"], demand: Int[Array, " m"]) -> _Search:
    """Move all mass at least cost. c is +inf for pairs without supply or demand.

    The loop ends for any numbers: a search scans each row and settles each column at most once, a
    walk leads from a node to one that was settled earlier, and a path moves at least one unit.
    """
    # Has the varying axes of all arguments.
    zero = jnp.zeros_like(c[0, 0] + supply[0].astype(c.dtype) + demand[0].astype(c.dtype))
    units = zero.astype(supply.dtype)
    low = c.min(1)
    start = _search(
        failed=zero > 0,
        left=supply + units,
        room=demand + units,
        u=jnp.where(low < jnp.inf, low, 0) + zero,
        v=jnp.zeros_like(c[0]) + zero,
        row_parent=jnp.full_like(supply, -1, jnp.int32) + zero.astype(jnp.int32),
        row_units=jnp.zeros_like(supply) + units,
        col_parent=jnp.full_like(demand, -1, jnp.int32) + zero.astype(jnp.int32),
        col_units=jnp.zeros_like(demand) + units,
    )
    # One loop instead of nested ones: under vmap no problem waits for the others.
    return lax.while_loop(
        lambda s: (s.left > 0).any() & ~s.failed,
        lambda s: _walk(_select(s.walking, s, _settle(_scan(c, s)))),
        start,
    )


def _search(**kept: Array) -> _Search:
    """The start of a search, from the first row that has mass left."""
    left, room = kept["left"], kept["room"]
    root = lax.argmax(left > 0, 0, jnp.int32)
    no_rows, no_cols = left < 0, room < 0
    return _Search(
        **kept,
        root=root,
        row_settled=_put(no_rows, root, True),
        row_scanned=no_rows,
        row_dist=jnp.zeros_like(kept["u"]),
        row_pred=jnp.full_like(kept["row_parent"], -1),
        row_flow=jnp.zeros_like(left),
        col_settled=no_cols,
        col_tied=no_cols,
        col_dist=jnp.full_like(kept["v"], jnp.inf),
        col_pred=jnp.full_like(kept["col_parent"], -1),
        col_flow=jnp.zeros_like(room),
        walking=jnp.zeros_like(kept["failed"]),
        end=jnp.zeros_like(root),
        col=jnp.zeros_like(root),
        least=jnp.zeros_like(left[0]),
        row_on_path=no_rows,
        col_on_path=no_cols,
    )


def _scan(c: Array, s: _Search) -> _Search:
    """Relax all columns from one settled row, if there is one to scan."""
    waiting = s.row_settled & ~s.row_scanned
    on, row = waiting.any(), lax.argmax(waiting, 0, jnp.int32)
    child = s.col_parent == row
    tied = on & ~s.col_settled & (child | (_indices(s.v) == s.row_parent[row]))
    # Whatever was rounded, no arc is shorter than 0, and arcs with mass have length 0.
    through = s.row_dist[row] + jnp.maximum((c[row] - s.u[row]) - s.v, 0)
    closer = tied | (on & ~s.col_settled & ~s.col_tied & (through < s.col_dist))
    return s._replace(
        row_scanned=_put(s.row_scanned, row, True, on),
        col_tied=s.col_tied | tied,
        col_dist=jnp.where(tied, s.row_dist[row], jnp.where(closer, through, s.col_dist)),
        col_pred=jnp.where(closer, row, s.col_pred),
        col_flow=jnp.where(tied, jnp.where(child, s.col_units, s.row_units[row]), s.col_flow),
    )


def _settle(s: _Search) -> _Search:
    """Settle a column and the rows that send to it, or end the search.

    Columns of the tree at hand come first. Once all of it is settled, the search ends if one of its
    columns has room; otherwise it goes on to the nearest column.
    """
    tied = s.col_tied & ~s.col_settled
    complete = ~tied.any() & ~(s.row_settled & ~s.row_scanned).any()
    with_room = s.col_settled & (s.room > 0)
    found = complete & with_room.any()
    reach = jnp.where(s.col_settled, jnp.inf, jnp.where(tied, -jnp.inf, s.col_dist))
    col = lax.argmin(reach, 0, jnp.int32)
    on = tied.any() | (complete & ~found & (reach[col] < jnp.inf))
    child = s.row_parent == col
    rows = on & ~s.row_settled & (child | (_indices(s.u) == s.col_parent[col]))
    # At the end: reduced costs stay >= 0 and become 0 along the path.
    end = lax.argmax(with_room, 0, jnp.int32)
    row_rise = jnp.maximum(s.col_dist[end] - s.row_dist, 0)
    col_fall = jnp.maximum(s.col_dist[end] - s.col_dist, 0)
    return s._replace(
        failed=complete & ~found & ~on,
        u=jnp.where(found & s.row_settled, s.u + row_rise, s.u),
        v=jnp.where(found & s.col_settled, s.v - col_fall, s.v),
        row_settled=s.row_settled | rows,
        row_dist=jnp.where(rows, s.col_dist[col], s.row_dist),
        row_pred=jnp.where(rows, col, s.row_pred),
        row_flow=jnp.where(rows, jnp.where(child, s.row_units, s.col_units[col]), s.row_flow),
        col_settled=_put(s.col_settled, col, True, on),
        walking=found,
        end=end,
        col=end,
        least=jnp.minimum(s.left[s.root], s.room[end]),
    )


def _walk(s: _Search) -> _Search:
    """One step back along the path: a column and the row before it; at the root, augment."""
    row = s.col_pred[s.col]
    at_root = row == s.root
    inner = s.walking & ~at_root
    s = s._replace(
        col_on_path=_put(s.col_on_path, s.col, True, s.walking),
        row_on_path=_put(s.row_on_path, row, True, inner),
        least=jnp.where(inner, jnp.minimum(s.least, s.row_flow[row]), s.least),
        col=jnp.where(inner, s.row_pred[row], s.col),
    )
    return _select(s.walking & at_root, _augment(s), s)


def _augment(s: _Search) -> _Search:
    """Move what the path can take, and start the next search.

    Settled trees are rooted anew: the parent of a node is its predecessor in the search. Arcs
    without mass are dropped, among them those by which the search entered trees beside the path.
    """
    row_flow = s.row_flow - jnp.where(s.row_on_path, s.least, 0)
    col_flow = s.col_flow + jnp.where(s.col_on_path, s.least, 0)
    row_units = jnp.where(s.row_settled, row_flow, s.row_units)
    col_units = jnp.where(s.col_settled, col_flow, s.col_units)
    row_parent = jnp.where(s.row_settled, s.row_pred, s.row_parent)
    col_parent = jnp.where(s.col_settled, s.col_pred, s.col_parent)
    return _search(
        failed=s.failed,
        left=_put(s.left, s.root, s.left[s.root] - s.least),
        room=_put(s.room, s.end, s.room[s.end] - s.least),
        u=s.u,
        v=s.v,
        row_parent=jnp.where(row_units > 0, row_parent, -1),
        row_units=row_units,
        col_parent=jnp.where(col_units > 0, col_parent, -1),
        col_units=col_units,
    )


def _indices(x: Array) -> Array:
    return jnp.arange(x.size, dtype=jnp.int32)


def _put(x: Array, index: Array, value: Array | int, when: Array | bool = True) -> Array:
    """x[index] = value, as a select: XLA compiles a scatter to a loop on some platforms."""
    return jnp.where((_indices(x) == index) & when, value, x)


def _select(pred: Array, a: _Search, b: _Search) -> _Search:
    return jax.tree.map(lambda x, y: jnp.where(pred, x, y), a, b)


# ---------------------------------------------------------------------------------------------
# The plan and its proof


class _Plan(NamedTuple):
    """Entries by row and column; those without units come last and have any indices."""

    rows: Int[Array, " k"]
    cols: Int[Array, " k"]
    units: Int[Array, " k"]


def _entries(s: _Search) -> _Plan:
    """The arcs of the forest: at most one for each node, and none for the root of a tree."""
    n, m = s.u.size, s.v.size
    units = jnp.concatenate([s.row_units, s.col_units])
    rows = jnp.concatenate([_indices(s.u), s.col_parent])
    cols = jnp.concatenate([s.row_parent, _indices(s.v)])
    ordered = lax.sort((jnp.where(units > 0, rows, n), cols, units), num_keys=2)
    return _Plan(*(x[: n + m - 1] for x in ordered))


class _Proof(NamedTuple):
    cost: Float[Array, ""]
    u: Float[Array, " n"]
    v: Float[Array, " m"]
    gap: Float[Array, ""]


def _prove(
    c: Array, c_low: Array, moved: Array, plan: _Plan, v: Array, masses: _Masses, slop: Array
) -> _Proof:
    """Cost, duals of all rows and columns, and a proved bound on cost - optimum.

    `slop` bounds the errors of c for each unit of mass. Rows and columns without mass take no part
    in the proof: their duals follow from the others.
    """
    n, m = c.shape
    # u_i = min_j C_ij - v_j, exact as a float and a rest.
    x, rest = two_sum(jnp.where(moved, c, jnp.inf), -v[None, :])
    rest = jnp.where(x < jnp.inf, rest, 0)
    u = x.min(1)
    u_rest = jnp.where(x == u[:, None], rest, jnp.inf).min(1)
    u_rest, u = jnp.where(u < jnp.inf, u_rest, 0), jnp.where(u < jnp.inf, u, 0)

    used, rows, cols = plan.units > 0, plan.rows.clip(0, n - 1), plan.cols.clip(0, m - 1)
    slack, slack_rest = two_sum(x[rows, cols], -u[rows])
    rest, rest_rest = two_sum(rest[rows, cols], -u_rest[rows])
    slack = jnp.where(used, add_up(add_up(slack, rest), add_up(slack_rest, rest_rest)), 0)
    mass, mass_low = (grid.times_power(x, masses.exponent) for x in as_float(plan.units))
    # A rounded mass changes the optimum by half a unit times its dual. Balancing moves as many
    # units again as roundings made the totals differ by. (Twice that, for roundings of shares.)
    unit = grid.times_power(jnp.ones_like(slop), masses.exponent)
    dual = jnp.where(masses.rounded, jnp.maximum(greatest(u), greatest(v)), 0)
    total = sum_up(jnp.where(used, mass, 0))
    terms = _times_up(mass, slack), _times_up(total, slop)[None]
    gap = sum_up(jnp.concatenate([*terms, _times_up(2 * (n + m) * unit, dual)[None]]))
    chosen = jnp.where(used, c[rows, cols], 0), jnp.where(used, c_low[rows, cols], 0)
    cost = _sum_of_products(mass, mass_low, *chosen)

    nothing = jnp.zeros_like(v)
    has_supply, has_demand = moved.any(1), moved.any(0)
    v = jnp.where(has_demand, v, _least_below(c.T, u, u_rest, has_supply))
    u = jnp.where(has_supply, u, _least_below(c, v, nothing, nothing == 0))
    return _Proof(cost, u, v, jnp.where(jnp.isnan(gap), jnp.inf, gap))


def _least_below(c: Array, dual: Array, rest: Array, counts: Array) -> Array:
    """A lower bound of min_k C_ik - dual_k - rest_k over those that count; 0 if none is finite."""
    finite = jnp.isfinite(c) & counts[None, :]
    above = add_up(add_up(jnp.where(finite, -c, 0), dual[None, :]), rest[None, :])
    least = jnp.where(finite, 0 - above, jnp.inf).min(1)
    return jnp.where(least < jnp.inf, least, 0)


def _times_up(mass: Array, x: Array) -> Array:
    """An upper bound of the product with x, also of a rounded mass; 0 if one of them is 0."""
    info = jnp.finfo(x.dtype)
    above = jnp.maximum(mass * x * (1 + 8 * float(info.eps)), float(info.tiny))
    return jnp.where(~(x <= 0) & (mass > 0), above, 0)  # NaN stays NaN


def _sum_of_products(a: Array, a_low: Array, b: Array, b_low: Array) -> Array:
    """Sum of (a + a_low) (b + b_low), as if added in twice the precision."""
    split = 2.0 ** ((jnp.finfo(a.dtype).nmant + 2) // 2) + 1

    def halves(x: Array) -> tuple[Array, Array]:  # Veltkamp's splitting
        high = split * x - (split * x - x)
        return high, x - high

    (a_high, a_rest), (b_high, b_rest) = halves(a), halves(b)
    product = a * b
    error = ((a_high * b_high - product) + a_high * b_rest + a_rest * b_high) + a_rest * b_rest
    error = jnp.where(jnp.isfinite(error), error, 0)  # near the end of the range
    total = accurate_sum(jnp.concatenate([product, error, a_low * b, a * b_low]))
    return jnp.where(jnp.isfinite(total), total, product.sum())
