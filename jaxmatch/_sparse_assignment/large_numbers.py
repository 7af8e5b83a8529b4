"""Handles huge costs, such as 1e12, that callers write in place of forbidden pairs.

In units in which huge costs fit, a solver would round all other costs to 0. So we forbid all costs
whose binary exponent reaches a limit, and solve. We accept the solution if its duals prove that no
forbidden cost could improve it. Otherwise we try the next higher limit. The native CPU solver does
this itself (ffi/sparse_assignment/tiers.h).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.rounding import as_float
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._sparse_assignment.edges import Edges
from jaxmatch._sparse_assignment.exponents import exponents, minimized, no_limit
from jaxmatch._sparse_assignment.price import prices_of_staying
from jaxmatch._sparse_assignment.problem import SparseProblem


# An assignment, and for each row the edge of its pair (−1 if unmatched).
Solution = tuple[Assignment, Int[Array, "... n"]]

# Statuses that a higher limit may change.
_DEPEND_ON_LIMIT = (Status.INFEASIBLE, Status.OVERFLOW)


def has_rounded_integers(problem: SparseProblem) -> bool:
    """Whether some costs are integers that floats may round, or integers beside floats."""
    given = _given(problem)
    return not all(map(_is_short, given)) and not all(map(_is_float, given))


def _given(problem: SparseProblem) -> list[Array]:
    given = (problem.cost, problem.unmatched_cost, problem.unmatched_col_cost)
    return [x for x in given if x is not None]


def _is_float(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def _is_short(x: Array) -> bool:
    return not _is_float(x) and x.dtype.itemsize < result_float().itemsize


def _is_long(x: Array) -> bool:
    return not _is_float(x) and not _is_short(x)


def solve_below(
    solve: Callable[[Int[Array, "..."]], Solution],
    graph: BipartiteGraph,
    problem: SparseProblem,
    *,
    maximize: bool,
    keeps_integers: bool = False,
) -> Solution:
    """The result of `solve(limit)` for the lowest limit of each problem that duals confirm.

    Limits are binary exponents. If the costs of a problem have similar magnitudes, its only limit
    is above all of them. `solve` is called in a loop, so that the compiled program contains it only
    once. With `keeps_integers`, every limit is above all integers that floats would round.
    """
    if 0 in (*graph.shape, graph.max_edges):
        return solve(jnp.full(problem.cost.shape[:-1], no_limit(), jnp.int32))

    def each(function: Callable[..., Any], *arrays: Any) -> Any:
        function = partial(function, maximize=maximize)
        axes = (0 if graph.batch_shape else None, *(0 for _ in arrays))
        for _ in problem.cost.shape[:-1]:
            function = jax.vmap(function, in_axes=axes)
        return function(graph, *arrays)

    limits = each(partial(_limits, keeps_integers=keeps_integers), problem)
    place = lax.broadcasted_iota(jnp.int32, limits.shape, limits.ndim - 1)

    def next_limit(after: Array | int) -> Array:
        return jnp.where(limits & (place > after), place, no_limit()).min(-1)

    def step(state: tuple[Array, Array, Solution]) -> tuple[Array, Array, Solution]:
        limit, done, last = state
        found = solve(limit)
        status = found[0].status
        fails = jnp.isin(status, jnp.array(_DEPEND_ON_LIMIT, jnp.int32))
        fails |= (status == Status.OPTIMAL) & ~each(_proves, problem, found[0], limit)
        settled = done | ~fails | (limit == no_limit())
        kept = jax.tree.map(lambda a, b: jnp.where(_as(done, a), a, b), last, found)
        return jnp.where(settled, limit, next_limit(limit[..., None])), settled, kept

    first = next_limit(-1)
    # `zero` gives all states of the loop the same varying axes in a `shard_map`.
    leaves = jax.tree.leaves((graph, problem))
    zero = sum((jnp.zeros_like(x, jnp.int32).sum(dtype=jnp.int32) for x in leaves), jnp.int32(0))
    empty = jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype) + zero.astype(x.dtype), jax.eval_shape(solve, first)
    )
    start = (first + zero, jnp.zeros_like(first, bool) & (zero > 0), empty)
    return lax.while_loop(lambda state: ~state[1].all(), step, start)[2]


def solve_without_large_numbers(
    solve: Callable[[BipartiteGraph, SparseProblem], Solution],
    graph: BipartiteGraph,
    problem: SparseProblem,
    *,
    maximize: bool,
) -> Solution:
    """As `solve_below`, for a solver that takes no limit.

    Costs that reach the limit are replaced by infinity in the arguments of `solve`. Integers that
    floats would round are not replaced, because solvers take them exactly.
    """
    sign, names = -1 if maximize else 1, ("cost", "unmatched_cost", "unmatched_col_cost")
    if not any(map(_is_float, _given(problem))):
        return solve(graph, problem)  # solvers do not round integers

    def below(x: Array, limit: Array) -> Array:
        if _is_long(x):
            return x
        x = x if _is_float(x) else x.astype(result_float())
        low, _ = minimized(x, limit[..., None], sign=sign)
        return jnp.where(low == jnp.inf, jnp.asarray(sign * jnp.inf, x.dtype), x)

    def solve_one(limit: Array) -> Solution:
        arrays = {k: getattr(problem, k) for k in names}
        low = {k: below(x, limit) for k, x in arrays.items() if x is not None}
        return solve(graph, problem._replace(**low))

    return solve_below(solve_one, graph, problem, maximize=maximize, keeps_integers=True)


def _as(done: Bool[Array, "..."], like: Array) -> Bool[Array, "..."]:
    return done.reshape(done.shape + (1,) * (like.ndim - done.ndim))


def _numbers(
    graph: BipartiteGraph, problem: SparseProblem, maximize: bool
) -> tuple[Edges, Float[Array, " e"], Float[Array, " n"], Float[Array, " m"]]:
    """The existing edges, and costs to minimise: of edges, unmatched rows and unmatched columns."""
    (n, m), sign, edges = graph.shape, -1 if maximize else 1, Edges.of(graph)
    rows = jnp.ones(n, bool) if problem.row_mask is None else problem.row_mask
    cols = jnp.ones(m, bool) if problem.col_mask is None else problem.col_mask
    edges = edges._replace(live=edges.live & rows[edges.row] & cols[edges.col])
    cost = jnp.where(edges.live, sign * as_float(problem.cost)[0], jnp.inf)
    (r, s), _ = prices_of_staying(problem, rows, cols, None, sign=sign)
    return edges, cost, r, s


def _limits(
    graph: BipartiteGraph, problem: SparseProblem, *, maximize: bool, keeps_integers: bool
) -> Bool[Array, " k"]:
    """Which biased exponents are limits: those more than `width` above the next lower one in use.

    Below a limit there must be:

    - all negative costs, by more than `width`;
    - for each row and each column, the cost of a pair or of leaving it unmatched;
    - with `keeps_integers`, all integers that floats would round.
    """
    edges, *numbers = _numbers(graph, problem, maximize)
    most = no_limit()
    x = jnp.concatenate(numbers)
    found = jnp.where(jnp.isfinite(x), exponents(x), -1)
    width = 8 + ((min(graph.shape) + 1).bit_length() - 1) // 2
    place = jnp.arange(most, dtype=jnp.int32)
    is_here = jnp.zeros_like(x, bool, shape=(most,))
    is_here = is_here.at[jnp.where(found < 0, most, found)].set(True, mode="drop")
    below = lax.cummax(jnp.where(is_here, place, -1))
    below = jnp.concatenate([jnp.full_like(below, -1, shape=(1,)), below[:-1]])
    wanted = jnp.where(x < 0, found, -1).max()
    lowest = jnp.where(wanted >= 0, wanted + width, -1)
    for x in filter(_is_long, _given(problem) if keeps_integers else ()):
        lowest = jnp.maximum(lowest, exponents(as_float(x)[0]).max())
    of_pairs, of_rows, of_cols = (
        jnp.where(x <= 0, -1, jnp.where(x < jnp.inf, exponents(x), most)) for x in numbers
    )
    for of_side, ends in ((of_rows, edges.row), (of_cols, edges.col)):
        lowest = jnp.maximum(lowest, of_side.at[ends].min(of_pairs).max())
    return is_here & (below >= 0) & (place - below > width) & (place > lowest)


def _proves(
    graph: BipartiteGraph,
    problem: SparseProblem,
    res: Assignment,
    limit: Int[Array, ""],
    *,
    maximize: bool,
) -> Bool[Array, ""]:
    """Whether duals prove, despite rounding, that no cost that reaches `limit` improves `res`."""
    edges, cost, r, s = _numbers(graph, problem, maximize)
    sign = -1 if maximize else 1
    u, v, eps = sign * res.row_dual, sign * res.col_dual, 8 * float(jnp.finfo(result_float()).eps)

    def too_dear(x: Array, *duals: Array) -> Array:
        slack, margin = x * (1 - eps), jnp.zeros_like(x)
        for dual in duals:
            slack, margin = slack - dual, margin + eps * jnp.abs(dual)
        return ~((x > 0) & (x < jnp.inf) & (exponents(x) >= limit)) | (slack > margin)

    return (
        too_dear(cost, v[edges.col], u[edges.row]).all()
        & too_dear(r, u).all()
        & too_dear(s, v).all()
    )
