"""Successive shortest augmenting paths in pure JAX, for one problem in canonical form.

Canonical form: minimise, +inf forbids a pair, every active row i must be matched or left unmatched
at the cost leave_i, and columns may stay unmatched unless there are as many active rows as columns.

Rows are placed one at a time: the row, and rows that were placed earlier, are matched or left
unmatched along a shortest path of reduced costs C_ij - u_i - v_j. Dijkstra's algorithm finds this
path (Jonker and Volgenant, Computing 38, 1987, section 3, without their initialisation). Only the
column duals v are stored: u_i is C_ij - v_j for the column j that row i is matched to.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.rounding import accurate_sum, add_up, sum_up, two_sum
from jaxmatch._common.typing import Array, Bool, DTypeLike, Float, Int


class Placement(NamedTuple):
    """The result of `place`. Where `failed`, the numbers are meaningless."""

    col4row: Int[Array, " p"]
    row4col: Int[Array, " q"]
    u: Float[Array, " p"]
    v: Float[Array, " q"]
    cost: Float[Array, ""]
    gap: Float[Array, ""]
    failed: Bool[Array, ""]


def place(
    c: Float[Array, "p q"],
    leave: Float[Array, " p"],
    active: Bool[Array, " p"],
    optional: Bool[Array, ""],
    slop: Float[Array, ""],
    start: Float[Array, " q"] | None,
) -> Placement:
    """Match every active row i, or leave it unmatched at the cost leave_i.

    `optional`: columns may stay unmatched, so v_j <= 0. `slop`: an error bound that is added to the
    gap. `start`: column duals for a warm start.
    """
    p, q = c.shape
    if p == 0 or q == 0:
        # The loops need at least one entry: pad with an inactive row and a forbidden column.
        grown = jnp.pad(c, (0, 1), constant_values=jnp.inf)
        leave, active = jnp.pad(leave, (0, 1)), jnp.pad(active, (0, 1))
        res = place(grown, leave, active, optional, slop, None)
        return res._replace(
            col4row=res.col4row[:p], row4col=res.row4col[:q], u=res.u[:p], v=res.v[:q]
        )
    cold = jnp.zeros_like(c[0])
    if start is None:
        return _place_from(c, leave, active, slop, cold)
    # Any column duals are feasible, because the row duals follow from them. But a column that stays
    # unmatched needs the dual 0, and if duals are much larger than costs, rounding loses the costs.
    # So the result of a warm start is used only if its gap is 0. Otherwise the solve starts again
    # with all duals 0.
    warm = jnp.isfinite(start).all()
    start = jnp.where(optional, jnp.minimum(start, 0), start)

    def attempt(tries: tuple[Array, Placement]) -> tuple[Array, Placement]:
        v = jnp.where(tries[0] == 0, start, cold)
        return tries[0] + 1, _place_from(c, leave, active, slop, v)

    def again(tries: tuple[Array, Placement]) -> Array:
        return (tries[0] < 2) & (tries[1].gap != 0)

    zero = jnp.zeros_like(start[0] + c[0, 0] + leave[0])
    nothing = jax.tree.map(
        lambda x: jnp.full_like(zero, jnp.inf if x.dtype == c.dtype else 0, x.dtype, shape=x.shape),
        jax.eval_shape(_place_from, c, leave, active, slop, start),
    )
    return lax.while_loop(again, attempt, (jnp.where(warm, 0, 1).astype(jnp.int32), nothing))[1]


class _Search(NamedTuple):
    """The state of the loop in `_place_from`."""

    placed: Int[Array, ""]  # the number of rows placed; the next one is the root of the search
    failed: Bool[Array, ""]
    col4row: Int[Array, " p"]
    row4col: Int[Array, " q"]
    v: Float[Array, " q"]
    # The state of Dijkstra's algorithm, which starts at the root.
    row: Int[Array, ""]  # the row to scan
    offset: Float[Array, ""]  # the distance of that row minus its dual
    dist: Float[Array, " q"]  # length of the shortest known path to a column
    pred: Int[Array, " q"]  # the row that precedes a column on that path
    scanned: Bool[Array, " q"]
    leave_dist: Float[Array, ""]  # length of the shortest known path that leaves a row unmatched
    leave_row: Int[Array, ""]  # that row
    # The state of the augmentation along the shortest path.
    augmenting: Bool[Array, ""]
    col: Int[Array, ""]  # the column that is matched next, to the row that precedes it


def _place_from(c: Array, leave: Array, active: Array, slop: Array, v: Array) -> Placement:
    """Place every active row, starting from the column duals v."""
    p, q = c.shape
    order = jnp.argsort(~active)
    count = active.sum(dtype=jnp.int32)
    zero = jnp.zeros_like(c[0, 0] + leave[0] + v[0])  # varies over the mesh axes of c, leave and v

    def filled(shape: tuple[int, ...], value: float, dtype: DTypeLike) -> Array:
        return jnp.full_like(zero, value, dtype, shape=shape)

    def search(placed: Array, failed: Array, col4row: Array, row4col: Array, v: Array) -> _Search:
        return _Search(
            *(placed, failed, col4row, row4col, v),
            row=order[placed].astype(jnp.int32),
            offset=zero,
            dist=filled((q,), jnp.inf, c.dtype),
            pred=filled((q,), 0, jnp.int32),
            scanned=filled((q,), False, bool),
            leave_dist=filled((), jnp.inf, c.dtype),
            leave_row=filled((), 0, jnp.int32),
            augmenting=filled((), False, bool),
            col=filled((), -1, jnp.int32),
        )

    def scan(s: _Search) -> _Search:
        """One step of Dijkstra: relax all columns from a row, then select the nearest column."""
        through = s.offset + (c[s.row] - s.v)
        closer = ~s.scanned & (through < s.dist)
        dist = jnp.where(closer, through, s.dist)
        pred = jnp.where(closer, s.row, s.pred)
        left = s.offset + leave[s.row] < s.leave_dist
        leave_dist = jnp.where(left, s.offset + leave[s.row], s.leave_dist)
        leave_row = jnp.where(left, s.row, s.leave_row)

        col = lax.argmin(jnp.where(s.scanned, jnp.inf, dist), 0, jnp.int32)
        nearest = jnp.where(s.scanned[col], jnp.inf, dist[col])
        length = jnp.minimum(nearest, leave_dist)
        leaves, owner = leave_dist < nearest, s.row4col[col]
        found = leaves | (owner < 0) | ~(length < jnp.inf)
        # Once the path is found, lower the dual of each scanned column by the length of the path
        # minus the column's distance. Reduced costs stay >= 0 and become 0 along the path.
        v = jnp.where(found & s.scanned, s.v + jnp.minimum(dist - length, 0), s.v)
        return s._replace(
            failed=~(length < jnp.inf),
            v=v,
            row=jnp.maximum(owner, 0),
            offset=nearest - (c[owner, col] - s.v[col]),
            dist=dist,
            pred=pred,
            scanned=_put(s.scanned, col, True, ~found),
            leave_dist=leave_dist,
            leave_row=leave_row,
            augmenting=found,
            col=jnp.where(leaves, s.col4row[leave_row], col),
            col4row=_put(s.col4row, leave_row, -1, leaves),
        )

    def augment(s: _Search) -> _Search:
        """Match one column to the row that precedes it; at the root, start the next search."""
        on = s.augmenting & (s.col >= 0)
        row = s.pred[s.col]
        s = s._replace(
            row4col=_put(s.row4col, s.col, row, on),
            col4row=_put(s.col4row, row, s.col, on),
            col=jnp.where(on, s.col4row[row], s.col),
        )
        fresh = search(s.placed + 1, s.failed, s.col4row, s.row4col, s.v)
        return _select(s.augmenting & (s.col < 0), fresh, s)

    # One loop instead of three nested ones (rows, searches, paths), so that under `vmap` no problem
    # waits for another. The loop ends whatever the numbers are: a search scans each column at most
    # once, and each step back along a path leads to a column that was scanned earlier.
    s = lax.while_loop(
        lambda s: (s.placed < count) & ~s.failed,
        lambda s: augment(_select(s.augmenting, s, scan(s))),
        search(
            filled((), 0, jnp.int32),
            filled((), False, bool),
            filled((p,), -1, jnp.int32),
            filled((q,), -1, jnp.int32),
            v + zero,
        ),
    )
    u, cost, gap = _prove(c, leave, slop, s)
    return Placement(s.col4row, s.row4col, u, s.v, cost, gap, s.failed)


def _put(x: Array, index: Array, value: Array | int, when: Array) -> Array:
    """x[index] = value, as a select: XLA compiles a scatter to a loop on some platforms."""
    return jnp.where(when & (jnp.arange(x.size, dtype=index.dtype) == index), value, x)


def _select(pred: Array, a: _Search, b: _Search) -> _Search:
    return jax.tree.map(lambda x, y: jnp.where(pred, x, y), a, b)


def _prove(c: Array, leave: Array, slop: Array, s: _Search) -> tuple[Array, Array, Array]:
    """Row duals, cost, and a proved bound on cost - optimum."""
    # u_i = min_j C_ij - v_j, exact as a float and a rest.
    x, rest = two_sum(c, -s.v[None, :])
    rest = jnp.where(x < jnp.inf, rest, 0)
    u = jnp.minimum(x.min(1), leave)
    u = jnp.where(u == 0, 0, u)  # whether a minimum is -0 or +0 depends on how XLA splits the work
    u_rest = jnp.where(x == u[:, None], rest, jnp.inf).min(1)
    u_rest = jnp.where(leave == u, jnp.minimum(u_rest, 0), u_rest)

    col = jnp.maximum(s.col4row, 0)[:, None]

    def chosen(x: Array, otherwise: Array) -> Array:
        return jnp.where(s.col4row < 0, otherwise, jnp.take_along_axis(x, col, 1)[:, 0])

    # gap = Σ slack of each row's pair (or of leaving it unmatched) + Σ slack of unmatched columns.
    slack, slack_rest = two_sum(chosen(x, leave), -u)
    rest, rest_rest = two_sum(chosen(rest, jnp.zeros_like(u)), -u_rest)
    slack = add_up(add_up(slack, rest), add_up(slack_rest, rest_rest))
    unused = jnp.where(s.row4col < 0, 0 - s.v, 0)
    gap = sum_up(jnp.concatenate([slack, unused, slop[None]]))
    return u, accurate_sum(chosen(c, leave)), jnp.where(jnp.isnan(gap), jnp.inf, gap)
