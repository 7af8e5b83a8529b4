"""`check_sparse_assignment`: verifies the certificate of an assignment on a sparse graph.

It shares no code with the solvers but the checks of arguments, so a wrong result passes only if
check and solver make the same error.

Variables: v are the column duals and u the row duals. r is the cost of leaving a row unmatched, and
s the cost of leaving a column unmatched. A number that does not fit into one float is the sum of a
float, such as `u`, and a rest, such as `u_rest`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._common.arguments import as_assignment, check_name
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import (
    TOLERANCE,
    flushed_to,
    is_inverse,
    is_tiny,
    judged,
    min_at,
    minus,
    module_of,
    over_problems,
    proof_float,
    spacing,
    split,
    sum_down,
    take,
)
from jaxmatch._common.result import Assignment
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Int, Num
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._sparse_assignment.check_edges import existing_edges
from jaxmatch._sparse_assignment.problem import (
    CARDINALITIES,
    SparseProblem,
    as_problem,
    check_options,
)


# A number as an unevaluated sum of a float and a rest.
Pair = tuple[Array, Array]

# The tolerance of the gap, relative to the sum of the chosen costs' magnitudes. It covers the gap
# that the CPU solver causes by rounding costs.
_SMALL_PART = 2.0**-32


@unchecked
@in_full_precision(
    "cost", "row_mask", "col_mask", "unmatched_cost", "unmatched_col_cost", on_host=True
)
def check_sparse_assignment(
    graph: BipartiteGraph,
    cost: ArrayLike,
    result: Assignment,
    *,
    maximize: bool = False,
    cardinality: Literal["full", "maximum"] = "full",
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
) -> AssignmentCheck:
    """Verify a result of `solve_sparse_assignment`, in jit or out of it.

    Makes a few passes over the edges. `result` may come from any solver.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> graph = jm.BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1], (2, 2))
    >>> cost = jnp.array([1.0, 3.0, 2.0, 5.0])
    >>> res = jm.solve_sparse_assignment(graph, cost)
    >>> check = jm.check_sparse_assignment(graph, cost, res)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, True, 0.0)
    >>> other = res.replace(col4row=jnp.array([0, 1]), row4col=jnp.array([0, 1]))
    >>> check = jm.check_sparse_assignment(graph, cost, other)  # costs 6 instead of 5
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, False, 1.0)

    **Arguments:**

    - `graph`, `cost` and options: as they were passed to the solver.
    - `result`: the solver's result. `col4row`, `row4col` and `col_dual` are read; the other fields
      are ignored.

    **Returns:** an [`AssignmentCheck`][jaxmatch.AssignmentCheck].

    - `valid`: `col4row` and `row4col` describe the same matching, its pairs are edges, neither
      masked nor forbidden, and every vertex that must be matched is matched. The cost does not
      matter. Nor does the number of pairs with `cardinality="maximum"`.
    - `optimal`: the result is `valid`, and `gap` is at most 2^-32 of the sum of the chosen costs'
      magnitudes, plus what the rounding of the duals can explain. This proves it optimal; see
      [Checks][check-sparse].
    - `gap`: a bound on cost − optimum that the column duals prove; +inf where they prove none.

    **Exact:** the bound holds for the numbers passed in. Differences of costs and duals are exact,
    and sums are rounded upwards, so a gap of 0 is exact.

    **Time and memory:** O(n + m + e) operations and a few temporary arrays of e numbers.

    **Raises:** `ValueError` for shapes that do not fit and for options that exclude each other,
    `TypeError` for other dtypes.
    """
    check_name("cardinality", cardinality, CARDINALITIES)
    check_options(cardinality, unmatched_cost, unmatched_col_cost)
    place = current_place()
    given = (row_mask, col_mask, unmatched_cost, unmatched_col_cost)
    graph, problem = as_problem(graph, cost, *given, place=place)
    batch, (n, m) = problem.cost.shape[:-1], graph.shape
    result = as_assignment(result, (*batch, n), (*batch, m), "`cost` and `graph`", place)
    options: Any = {"maximize": bool(maximize), "cardinality": cardinality}
    if place.native:
        return _check_batch(graph, problem, result, **options)
    problem, result = lax.stop_gradient((problem, result))
    return _check(graph, problem, result, **options)


@compiled(static_argnames=("maximize", "cardinality"))
def _check(
    graph: BipartiteGraph,
    problem: SparseProblem,
    result: Assignment,
    *,
    maximize: bool,
    cardinality: str,
) -> AssignmentCheck:
    def check(problem: SparseProblem, result: Assignment, graph: BipartiteGraph) -> AssignmentCheck:
        return _check_batch(graph, problem, result, maximize=maximize, cardinality=cardinality)

    if graph.batch_shape:
        return over_batch_shards(apart(check), problem, result, graph, core_dims=1)
    return over_batch_shards(apart(check), problem, result, core_dims=1, shared=(graph,))


def _check_batch(
    graph: BipartiteGraph,
    problem: SparseProblem,
    result: Assignment,
    *,
    maximize: bool,
    cardinality: str,
) -> AssignmentCheck:
    one: Any = partial(check_of_cardinality(cardinality), maximize=maximize)
    batch = problem.cost.shape[:-1]
    if graph.batch_shape:
        return over_problems(one, batch, graph, problem, result)
    return over_problems(partial(one, graph), batch, problem, result)


def check_of_cardinality(cardinality: str) -> Callable[..., AssignmentCheck]:
    """The check of one problem. `recomputed` is that of `DualBound`, for costs of points."""
    return _check_maximum if cardinality == "maximum" else _check_full


def _check_maximum(
    graph: BipartiteGraph,
    problem: SparseProblem,
    result: Assignment,
    *,
    maximize: bool,
    recomputed: tuple[float, float] = (1, 0),
) -> AssignmentCheck:
    """Proves the number of pairs by a vertex cover, and the cost by the duals.

    Every matching with as many pairs as the cover has vertices gives each of these a partner that
    is not in the cover. So it is a matching of all rows of the cover, and one of all columns of the
    cover: two problems, of other rows and columns, whose gaps add up.
    """
    (n, m), xp = graph.shape, module_of(problem.cost)
    rows = xp.ones((n,), bool) if problem.row_mask is None else problem.row_mask
    cols = xp.ones((m,), bool) if problem.col_mask is None else problem.col_mask
    sane, row, col, exists = existing_edges(graph, rows, cols)
    cost = _minimized(problem.cost[: row.size], exists, maximize)[0]
    allowed, sound = cost < xp.inf, ~(cost == -xp.inf).any()
    col4row, row4col = result.col4row, result.row4col
    valid = sane & _are_edges(col4row, row, allowed & (col == take(col4row, row)))
    valid &= is_inverse(col4row, row4col) & is_inverse(row4col, col4row)
    in_rows, in_cols = _cover(col4row, rows, row, col, allowed, m)
    size = (rows & in_rows).sum(dtype=np.int32) + (cols & in_cols).sum(dtype=np.int32)
    most = valid & sound & (size == (col4row >= 0).sum(dtype=np.int32))

    def part(of_rows: Array, of_cols: Array) -> AssignmentCheck:
        return _check_full(
            graph,
            problem._replace(row_mask=rows & of_rows, col_mask=cols & of_cols),
            result.replace(
                col4row=xp.where(of_rows, col4row, -1), row4col=xp.where(of_cols, row4col, -1)
            ),
            maximize=maximize,
            recomputed=recomputed,
        )

    one, other = part(in_rows, ~in_cols), part(~in_rows, in_cols)
    gap = xp.stack([one.gap, other.gap])
    proved = most & xp.isfinite(gap).all()
    gap = 0 - sum_down(xp.where(proved, -gap, 0))
    return AssignmentCheck(
        valid=valid,
        optimal=most & one.optimal & other.optimal,
        gap=xp.where(proved, gap, xp.inf),
    )


def _minimized(cost: Num[Array, " e"], exists: Bool[Array, " e"], maximize: bool) -> Pair:
    """Costs when minimising. The rest is nonzero only for integers too long for one float."""
    xp = module_of(cost)
    c, c_rest = split(cost, maximize)
    c_rest = xp.zeros_like(c) if c_rest is None else xp.where(exists, c_rest, 0)
    return xp.where(exists, xp.where(xp.isnan(c), -xp.inf, c), xp.inf), c_rest


def _are_edges(col4row: Int[Array, " n"], row: Int[Array, " e"], own: Bool[Array, " e"]) -> Array:
    """Whether every matched row has a pair among the edges. `own`: which edges are pairs."""
    xp = module_of(row)
    found = min_at(col4row.size, row, xp.where(own, 0.0, xp.inf)) == 0
    return ((col4row < 0) | found).all()


def _cover(
    col4row: Int[Array, " n"],
    rows: Bool[Array, " n"],
    row: Int[Array, " e"],
    col: Int[Array, " e"],
    exists: Bool[Array, " e"],
    m: int,
) -> tuple[Bool[Array, " n"], Bool[Array, " m"]]:
    """The rows that no alternating path from an unmatched row reaches, and the columns reached.

    If the matching is maximum, these are as many vertices as it has pairs, and they touch all
    edges.
    """
    xp = module_of(row)
    start = rows & (col4row < 0)
    if row.size == 0:
        return ~start, xp.zeros((m,), bool)

    def go_on(state: tuple[Array, Array]) -> Array:
        return ((state[0] & (col4row >= 0)) != (take(state[1], col4row) & (col4row >= 0))).any()

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        reached, cols = state
        reached = reached | (take(cols, col4row) & (col4row >= 0))
        near = min_at(m, col, xp.where(exists & reached[row], 0.0, xp.inf)) == 0
        return reached, cols | near

    state = step((start, start.any() & xp.zeros((m,), bool)))
    if xp is np:
        while go_on(state):
            state = step(state)
    else:
        state = lax.while_loop(go_on, step, state)
    return ~state[0], state[1]


def _check_full(
    graph: BipartiteGraph,
    problem: SparseProblem,
    result: Assignment,
    *,
    maximize: bool,
    recomputed: tuple[float, float] = (1, 0),
) -> AssignmentCheck:
    (n, m), xp, real = graph.shape, module_of(problem.cost), proof_float(problem.cost)
    col4row, row4col = result.col4row, result.row4col
    if xp is jnp:
        # Without this, XLA spends a long time folding large constants, such as an unmatched cost
        # that was broadcast to all rows.
        problem = jax.lax.optimization_barrier(problem)
    rows = xp.ones((n,), bool) if problem.row_mask is None else problem.row_mask
    cols = xp.ones((m,), bool) if problem.col_mask is None else problem.col_mask
    sane, row, col, exists = existing_edges(graph, rows, cols)

    cost = problem.cost[: row.size]
    c, c_rest = _minimized(cost, exists, maximize)  # from here on costs are minimised
    sound = ~(c == -xp.inf).any()
    tiny = (exists & is_tiny(cost)).any()

    (r, r_rest), (s, s_rest) = _prices(problem, rows, cols, maximize=maximize)
    prices = ((problem.unmatched_cost, r, rows), (problem.unmatched_col_cost, s, cols))
    for x, price, there in prices:
        if x is not None:
            sound &= ~(price == -xp.inf).any()
            tiny |= (there & is_tiny(x)).any()

    # A feasible column dual is at most the cost of leaving the column unmatched.
    v = xp.where(cols, -result.col_dual if maximize else result.col_dual, 0).astype(real)
    sound &= xp.isfinite(v).all()
    v = xp.minimum(xp.where(xp.isfinite(v), v, 0), s)
    tiny |= is_tiny(v).any()

    # u_i = min(min_j C_ij − v_j, r_i). Numbers are compared by their floats, and at ties by rests.
    x, x_rest = minus(c, c_rest, v[col])
    least = min_at(n, row, x)
    least_rest = min_at(n, row, xp.where(x == least[row], x_rest, xp.inf))
    u = xp.minimum(least, r)
    u_rest = xp.where(least == u, least_rest, xp.inf)
    u_rest = xp.where(r == u, xp.minimum(u_rest, r_rest), u_rest)

    # C_ij − v_j of the pair of each row; the least such number if the pair has parallel edges.
    own = exists & (c < xp.inf) & (col == take(col4row, row))
    best = min_at(n, row, xp.where(own, x, xp.inf))
    best_rest = min_at(n, row, xp.where(own & (x == best[row]), x_rest, xp.inf))
    matched, used = col4row >= 0, row4col >= 0
    valid = sane & is_inverse(col4row, row4col) & is_inverse(row4col, col4row)
    valid &= _are_edges(col4row, row, own)
    valid &= (~rows | matched | (r < xp.inf)).all() & (~cols | used | (s < xp.inf)).all()

    # Lower bounds of minus the slack: of each row (C_ij − u_i − v_j of its pair, or r_i − u_i if it
    # is unmatched), and of each unmatched column (s_j − v_j).
    pair, pair_rest = xp.where(matched, best, r), xp.where(matched, best_rest, r_rest)
    of_rows = sum_down(xp.stack([-pair, u, -pair_rest, u_rest], -1))
    of_rows = xp.where(rows, of_rows, 0)
    of_cols = sum_down(xp.stack([v, -s, -s_rest], -1))
    of_cols = xp.where(cols & ~used, of_cols, 0)
    flushed = xp.where(tiny, 32 * (n + m) * flushed_to(problem.cost.dtype, v), 0).astype(real)
    gap = 0 - sum_down(xp.concatenate([of_rows, of_cols, -flushed[None]]))
    gap = xp.where(valid & sound & ~xp.isnan(gap), gap, xp.inf)

    # The tolerance: a fraction of the chosen costs' magnitudes, and the rounding of the duals.
    v_of_pair = xp.where(matched, take(v, col4row), 0)
    chosen = xp.where(matched, pair + v_of_pair, r)
    chosen = xp.where(rows, xp.abs(chosen), 0).sum() + xp.where(cols & ~used, xp.abs(s), 0).sum()
    duals = xp.where(rows, xp.abs(v_of_pair) + xp.abs(u), 0).sum()
    rounding = TOLERANCE * spacing(result.col_dual.dtype, real)
    times, more = recomputed
    chosen += more * matched.astype(real).sum()
    tolerance = times * (_SMALL_PART * chosen + rounding * (chosen + duals))
    whole = jnp.issubdtype(problem.cost.dtype, jnp.integer)
    for x in (problem.unmatched_cost, problem.unmatched_col_cost):
        whole = whole and (x is None or jnp.issubdtype(x.dtype, jnp.integer))
    if whole:  # an integer gap below 1 is 0
        gap, tolerance = xp.floor(gap), xp.zeros_like(tolerance)
    optimal, bound = judged(gap, tolerance)
    return AssignmentCheck(valid=valid, optimal=optimal, gap=bound)


def _prices(
    problem: SparseProblem,
    rows: Bool[Array, " n"],
    cols: Bool[Array, " m"],
    *,
    maximize: bool,
) -> tuple[Pair, Pair]:
    """Costs of leaving rows and columns unmatched; +inf if masked, or if a match is required."""
    num_rows = rows.size if problem.row_mask is None else rows.sum(dtype=np.int32)
    num_cols = cols.size if problem.col_mask is None else cols.sum(dtype=np.int32)
    xp, real = module_of(problem.cost), proof_float(problem.cost)
    may_stay = problem.unmatched_cost is not None

    def given(price: Num[Array, " k"]) -> Pair:
        x, rest = split(price, maximize)
        rest = xp.zeros_like(x) if rest is None else rest
        return xp.where(xp.isnan(x), -xp.inf, x), rest

    def free(condition: Bool[Array, ""] | bool) -> Pair:
        x = xp.where(condition, 0, xp.inf).astype(real)
        return x, xp.zeros_like(x)

    r = free(num_rows > num_cols)
    if problem.unmatched_cost is not None:
        r = given(problem.unmatched_cost)
    s = free((num_cols > num_rows) | may_stay)
    if problem.unmatched_col_cost is not None:
        s = given(problem.unmatched_col_cost)
    return _existing(r, rows), _existing(s, cols)


def _existing(price: Pair, there: Bool[Array, " k"]) -> Pair:
    (x, rest), xp = price, module_of(there)
    return xp.where(there, x, xp.inf), xp.where(there, rest, 0)
