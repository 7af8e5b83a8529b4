"""The pure-JAX solver of sparse assignments for any platform.

Converts a problem to a minimisation in floats (`_Canonical`), solves it by `xla_paths`, and
converts the result back.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxmatch._common.result import Assignment
from jaxmatch._common.rounding import (
    accurate_sum,
    add_up,
    greatest,
    nonzero_below,
    sum_up,
    two_sum,
)
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._sparse_assignment.edges import Edges
from jaxmatch._sparse_assignment.exponents import minimized
from jaxmatch._sparse_assignment.price import prices_of_staying
from jaxmatch._sparse_assignment.problem import SparseProblem
from jaxmatch._sparse_assignment.xla_paths import Arcs, Doubled, match_all


class _Canonical(NamedTuple):
    """A problem as a minimisation in floats."""

    c: Float[Array, " e"]  # costs; +inf: the edge does not exist
    c_low: Float[Array, " e"]  # rounding errors of the costs
    r: Float[Array, " n"]  # cost of leaving a row unmatched; +inf: it must be matched; 0 if masked
    s: Float[Array, " m"]  # cost of leaving a column unmatched, as `r`
    scale: Float[Array, ""]  # the factor by which all numbers were multiplied
    slop: Float[Array, ""]  # a bound on other errors than the roundings in `_prove`, for the gap
    status: Int[Array, ""]


def solve(
    graph: BipartiteGraph,
    problem: SparseProblem,
    limit: Int[Array, ""] | None = None,
    *,
    maximize: bool,
) -> tuple[Assignment, Int[Array, " n"]]:
    """Solves one problem as documented in `solve_sparse_assignment`; use `vmap` for a batch.

    Costs whose binary exponent reaches `limit` count as infinite. Returns also the edge of each
    row's pair, −1 if unmatched.
    """
    n, m = graph.shape
    arrays = (graph.row_ptr, graph.col_ind, *(x for x in problem[:-1] if x is not None))
    # `zero` gives all arrays, and so all loop states, the same varying axes in a `shard_map`.
    zero = sum((jnp.zeros_like(x, jnp.int32).sum(dtype=jnp.int32) for x in arrays), jnp.int32(0))
    edges = Edges.of(graph)
    edges = edges._replace(
        row=edges.row + zero, col=edges.col + zero, sound=edges.sound & (zero == 0)
    )
    rows = zero == jnp.zeros_like(zero, shape=(n,))
    cols = zero == jnp.zeros_like(zero, shape=(m,))
    rows = rows if problem.row_mask is None else rows & problem.row_mask
    cols = cols if problem.col_mask is None else cols & problem.col_mask
    exists = edges.live & rows[edges.row] & cols[edges.col]
    edges = edges._replace(live=exists)
    cost = problem.cost[: len(exists)] + zero.astype(problem.cost.dtype)
    problem = problem._replace(cost=cost)

    form = _canonical(edges, problem, rows, cols, limit, maximize=maximize)
    go = form.status == Status.OPTIMAL
    live = jnp.where(go, form.c, jnp.inf)
    doubled = Doubled(
        edges.row,
        edges.col,
        Arcs(
            live,
            jnp.where(live < jnp.inf, 0, jnp.inf).astype(live.dtype),
            jnp.where(go, form.r, 0),
            jnp.where(go, form.s, 0),
        ),
    )
    matched = match_all(doubled)
    status = jnp.where(go & matched.failed, Status.INFEASIBLE, form.status).astype(jnp.int32)
    solved = status == Status.OPTIMAL
    col4row, row4col = matched.right_of[:n], matched.left_of[:m]
    col4row = jnp.where(solved & (col4row < m), col4row, -1)
    row4col = jnp.where(solved & (row4col < n), row4col, -1)
    edge = edges.of_pairs(cost, col4row, maximize=maximize)
    v = jnp.minimum(matched.b[:m] + matched.a[n:], form.s)
    u, gap = _prove(edges, form, edge, row4col, jnp.where(cols, v, 0))

    def value(x: Array, negate: bool = maximize) -> Array:
        x = x / form.scale
        return jnp.where(solved, 0 - x if negate else x, jnp.nan)  # `0 - x` is never -0

    stays = problem.unmatched_cost is not None
    return Assignment(
        col4row=col4row,
        row4col=row4col,
        cost=value(_total(form, edge, row4col, stays)),
        row_dual=value(u),
        col_dual=value(jnp.where(cols, v, 0)),
        gap=value(gap, negate=False),
        status=status,
    ), edge


def _canonical(
    edges: Edges,
    problem: SparseProblem,
    rows: Bool[Array, " n"],
    cols: Bool[Array, " m"],
    limit: Int[Array, ""] | None,
    *,
    maximize: bool,
) -> _Canonical:
    n, m, sign, exists = len(rows), len(cols), -1 if maximize else 1, edges.live
    c, c_low = minimized(problem.cost, limit, sign=sign)
    c, c_low = jnp.where(exists, c, jnp.inf), jnp.where(exists, c_low, 0)
    (r, s), lost = prices_of_staying(problem, rows, cols, limit, sign=sign)
    bad = [jnp.isnan(x) | (x == -jnp.inf) for x in (c, r, s)]
    invalid = bad[0].any() | bad[1].any() | bad[2].any()
    c, r, s = (jnp.where(wrong, 0, x) for wrong, x in zip(bad, (c, r, s), strict=True))

    # Huge costs are scaled by a power of two, so that sums along a path stay finite. No sum exceeds
    # `room` times the greatest cost.
    room = 1 << (16 * (n + m)).bit_length()
    info = jnp.finfo(c.dtype)
    most = jnp.maximum(greatest(c), jnp.maximum(greatest(r), greatest(s)))
    scale = jnp.where(most > float(info.max) / room, 1 / room, 1).astype(c.dtype)
    c, c_low, r, s, lost = (x * scale for x in (c, c_low, r, s, lost))

    # Whether some numbers are so small that XLA may flush them, or their differences, to zero.
    small = 4 * room * float(info.tiny) / float(info.eps)
    flushed = (exists & nonzero_below(problem.cost, small)).any()
    for x, there in ((problem.unmatched_cost, rows), (problem.unmatched_col_cost, cols)):
        if x is not None:
            flushed |= (there & nonzero_below(x, small)).any()
    dtype = problem.cost.dtype
    narrow = dtype != c.dtype and jnp.issubdtype(dtype, jnp.floating)
    tiny = float(jnp.finfo(jnp.float32).tiny if narrow else info.tiny)
    slop = 3 * (n + m) * jnp.maximum(greatest(c_low), lost)
    slop += jnp.where(flushed, 64 * (n + m) * tiny, 0)

    overflow = _overflows(problem, most, (r, s), n, m)
    status = jnp.where(overflow, Status.OVERFLOW, Status.OPTIMAL)
    status = jnp.where(invalid, Status.INVALID_COST, status)
    status = jnp.where(edges.sound, status, Status.INVALID_GRAPH).astype(jnp.int32)
    return _Canonical(c, c_low, r, s, scale, slop.astype(c.dtype), status)


def _overflows(
    problem: SparseProblem,
    most: Array,
    stays: tuple[Array, Array],
    n: int,
    m: int,
) -> Bool[Array, ""]:
    """Whether sums of integers may overflow in the native solvers, which refuse such a problem."""
    if jnp.issubdtype(problem.cost.dtype, jnp.floating):
        return jnp.zeros_like(most, bool)
    arcs = 2.0 * min(n, m) + 2
    r, s = stays
    if problem.unmatched_col_cost is not None:
        most = most * jnp.where((s == jnp.inf).any(), 4 * arcs, 2).astype(most.dtype)
    whole = jnp.where(jnp.isfinite(r), r == jnp.round(r), True).all()
    whole &= jnp.where(jnp.isfinite(s), s == jnp.round(s), True).all()
    return whole & (most * arcs > 2.0**61)


def _prove(
    edges: Edges, form: _Canonical, edge: Int[Array, " n"], row4col: Array, v: Array
) -> tuple[Array, Array]:
    """Row duals, and a proved bound on cost - optimum."""

    def least_at_rows(x: Array) -> Array:
        return jnp.full_like(form.r, jnp.inf).at[edges.row].min(x)

    # u_i = min(min_j C_ij - v_j, r_i), exactly, as the sum of a float and a rest.
    x, rest = two_sum(form.c, -v[edges.col])
    rest = jnp.where(x < jnp.inf, rest, 0)
    u = jnp.minimum(least_at_rows(x), form.r)
    u_rest = least_at_rows(jnp.where(x == u[edges.row], rest, jnp.inf))
    u_rest = jnp.where(form.r == u, jnp.minimum(u_rest, 0), u_rest)

    # The gap is the slack of all rows (of the pair, or of staying unmatched) and unmatched columns.
    slack, slack_rest = two_sum(_chosen(edge, x, form.r), -u)
    rest, rest_rest = two_sum(_chosen(edge, rest, jnp.zeros_like(u)), -u_rest)
    slack = add_up(add_up(slack, rest), add_up(slack_rest, rest_rest))
    unused = jnp.where(row4col < 0, add_up(form.s, -v), 0)
    gap = sum_up(jnp.concatenate([slack, unused, form.slop[None]]))
    return u, jnp.where(jnp.isnan(gap), jnp.inf, gap)


def _chosen(edge: Int[Array, " n"], x: Array, otherwise: Array) -> Array:
    """The entry of x at the edge that matches each row, `otherwise` for unmatched rows."""
    if x.size == 0:
        return otherwise
    return jnp.where(edge < 0, otherwise, x[jnp.maximum(edge, 0)])


def _total(form: _Canonical, edge: Array, row4col: Array, stays: bool) -> Float[Array, ""]:
    """The costs of pairs; if `stays`, also those of unmatched rows and columns."""
    nothing = jnp.zeros_like(form.r)
    parts = [
        _chosen(edge, form.c, form.r if stays else nothing),
        _chosen(edge, form.c_low, nothing),
        jnp.where(row4col < 0, form.s, 0) if stays else jnp.zeros_like(form.s),
        jnp.zeros_like(form.slop)[None],
    ]
    return accurate_sum(jnp.concatenate(parts))
