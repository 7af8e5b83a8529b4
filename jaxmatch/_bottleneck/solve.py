"""Bottleneck assignment: the public function and the gradient rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxmatch._assignment.methods import HERE, METHODS, UNSIZED
from jaxmatch._assignment.problem import AssignmentProblem, as_problem
from jaxmatch._bottleneck.keys import as_keys, as_numbers
from jaxmatch._bottleneck.levels import find_lexicographic
from jaxmatch._bottleneck.result import BottleneckAssignment
from jaxmatch._bottleneck.search import Pairs, Sides, find, first, own_keys
from jaxmatch._common.arguments import check_name
from jaxmatch._common.gradient import apart, entries, envelope_value, is_constant, sum_where
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import module_of
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num
from jaxmatch._library import libraries


@unchecked
@in_full_precision("cost", "row_mask", "col_mask", on_host=True)
def bottleneck_assignment(
    cost: ArrayLike,
    *,
    maximize: bool = False,
    lexicographic: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    method: str = "auto",
) -> BottleneckAssignment:
    """Find assignments with the smallest maximum cost, inside or outside of `jax.jit`.

    Matches all of the smaller side, as [`solve_assignment`][jaxmatch.solve_assignment] does, but
    minimises the greatest cost of a pair in place of the sum. Leading dimensions are batch.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[1.0, 9.0, 4.0], [2.0, 5.0, 8.0], [3.0, 6.0, 7.0]])
    >>> res = jax.jit(jm.bottleneck_assignment)(cost)
    >>> res.bottleneck, int(res.status) == jm.Status.OPTIMAL
    (Array(5., dtype=float32), True)
    >>> res.row_cover, res.col_cover  # all costs below 5 are in columns 0 and 2
    (Array([False, False, False], dtype=bool), Array([ True, False,  True], dtype=bool))

    **Arguments:**

    - `cost`: `[..., n, m]`, bfloat16 to float64, int32 or int64. +inf forbids a pair.
    - `maximize`: find an assignment whose least score is greatest; −inf then forbids a pair.
    - `lexicographic`: of all optimal assignments, find one that also minimises the second greatest
      cost, then the third, and so on. When maximising, it also maximises the second least score,
      and so on.
    - `row_mask`, `col_mask`: bool, broadcast to `[..., n]` and `[..., m]`. False: the row or column
      does not exist.
    - `method`: the method of `solve_assignment` for intermediate problems, see
      [Methods][bottleneck-methods].

    **Returns:** a [`BottleneckAssignment`][jaxmatch.BottleneckAssignment], verified by
    [`check_bottleneck`][jaxmatch.check_bottleneck].

    **Status:** `OPTIMAL`, `INFEASIBLE`, `INVALID_COST`, and `OVERFLOW` with `lexicographic`; see
    [statuses][].

    **Certificate:** every pair that costs less than `bottleneck` has its row in `row_cover` or its
    column in `col_cover`. The cover has fewer vertices than an assignment has pairs (Kőnig).

    **Exact:** costs are only compared. The bottleneck of integer costs is rounded to a float.

    **Gradient:** of `bottleneck`: 1 at the first pair, in the order of rows, that has this cost.

    **Raises:** `ValueError` for shapes that do not fit and unknown methods, `TypeError` for other
    dtypes.

    **Source:** Burkard, Dell'Amico and Martello, *Assignment Problems*, SIAM 2009, section 6.2.
    """
    check_name("method", method, METHODS)
    options: dict[str, Any] = {"maximize": bool(maximize), "lexicographic": bool(lexicographic)}
    place = current_place()
    if not (method in HERE and libraries.has_cpu_library()):
        place = place.by_jax()
    problem = as_problem(cost, row_mask, col_mask, place=place, symbolic=method in UNSIZED)
    if place.native:
        return _solved(problem, solve=HERE[method], **options)[0]
    return _solve(problem, **options, method=method)


class _Critical(NamedTuple):
    """The first pair in the order of rows whose cost is the bottleneck."""

    row: Int[Array, "..."]
    col: Int[Array, "..."]
    exists: Bool[Array, "..."]


@compiled(static_argnames=("maximize", "lexicographic", "method"))
def _solve(
    problem: AssignmentProblem, *, maximize: bool, lexicographic: bool, method: str
) -> BottleneckAssignment:
    def solve(problem: AssignmentProblem) -> BottleneckAssignment:
        options: dict[str, Any] = {"maximize": maximize, "lexicographic": lexicographic}
        res, critical = apart(_solved)(problem, solve=METHODS[method], **options)
        value = envelope_value(res.bottleneck, problem.cost, critical, _value_jvp)
        return res.replace(bottleneck=value)

    return over_batch_shards(solve, problem, core_dims=2)


def _solved(
    problem: AssignmentProblem,
    *,
    maximize: bool,
    lexicographic: bool,
    solve: Callable[..., Assignment],
) -> tuple[BottleneckAssignment, _Critical]:
    cost, row_mask, col_mask = problem.cost, problem.row_mask, problem.col_mask
    xp, (*batch, n, m) = module_of(cost), cost.shape
    rows = xp.ones_like(cost, bool, shape=(*batch, n)) if row_mask is None else row_mask
    cols = xp.ones_like(cost, bool, shape=(*batch, m)) if col_mask is None else col_mask
    sides = Sides(rows, cols, problem.masks)
    empty = xp.minimum(*sides.counts) == 0
    if 0 in (n, m):
        return _without_pairs(sides, empty, maximize)
    key, most, invalid = _keys(cost, rows[..., :, None] & cols[..., None, :], maximize)
    start, solve = first(key, most, sides), partial(solve, maximize=False)
    skip, overflow = empty | invalid, xp.zeros_like(empty)
    if lexicographic:
        end = find_lexicographic(start, key, sides, skip, solve)
        search, proof, overflow = end.search, end.proof, end.overflow
    else:
        search = find(start, key, sides, skip, solve)
        proof = search.bound

    status = xp.where(search.found, Status.OPTIMAL, Status.INFEASIBLE)
    status = xp.where(overflow, Status.OVERFLOW, status)
    status = xp.where(empty, Status.OPTIMAL, status)
    status = xp.where(invalid, Status.INVALID_COST, status).astype(jnp.int32)
    solved = status == Status.OPTIMAL
    proved = (solved & ~empty)[..., None]
    value = as_numbers(proof.least, cost.dtype, maximize)
    value = xp.where(empty, jnp.inf if maximize else -jnp.inf, value)
    res = BottleneckAssignment(
        col4row=xp.where(proved, search.pairs.col4row, -1),
        row4col=xp.where(proved, search.pairs.row4col, -1),
        bottleneck=xp.where(solved, value, jnp.nan),
        row_cover=proved & rows & proof.row_cover,
        col_cover=proved & cols & proof.col_cover,
        status=status,
    )
    return res, _critical(key, proof.least, res)


def _without_pairs(
    sides: Sides, empty: Bool[Array, "..."], maximize: bool
) -> tuple[BottleneckAssignment, _Critical]:
    xp = module_of(empty)
    zero = xp.zeros_like(empty, jnp.int32)
    res = BottleneckAssignment(
        col4row=sides.rows.astype(jnp.int32) * 0 - 1,
        row4col=sides.cols.astype(jnp.int32) * 0 - 1,
        bottleneck=xp.full_like(zero, jnp.inf if maximize else -jnp.inf, result_float()),
        row_cover=sides.rows & False,
        col_cover=sides.cols & False,
        status=zero + int(Status.OPTIMAL),
    )
    return res, _Critical(zero, zero, ~empty)


def _keys(
    cost: Num[Array, "... n m"], exists: Bool[Array, "... n m"], maximize: bool
) -> tuple[Int[Array, "... n m"], Int[Array, "..."], Bool[Array, "..."]]:
    """The keys, the greatest key of an allowed pair, and whether a cost is invalid.

    The key of a forbidden pair is the greatest integer.
    """
    xp, key = module_of(cost), as_keys(cost, maximize)
    invalid = xp.zeros_like(exists[..., 0, 0])
    least, never = jnp.iinfo(key.dtype).min, jnp.iinfo(key.dtype).max
    if jnp.issubdtype(cost.dtype, jnp.floating):
        unbounded = jnp.inf if maximize else -jnp.inf
        invalid = (exists & (xp.isnan(cost) | (cost == unbounded))).any(-2).any(-1)
        exists = exists & xp.isfinite(cost)
    most = xp.where(exists, key, least).max(-2).max(-1)
    return xp.where(exists, key, never), most, invalid


def _critical(
    key: Int[Array, "... n m"], least: Int[Array, "..."], res: BottleneckAssignment
) -> _Critical:
    xp = module_of(key)
    own = own_keys(key, Pairs(res.col4row, res.row4col))
    is_critical = (res.col4row >= 0) & (own == least[..., None])
    row = xp.argmax(is_critical, -1).astype(jnp.int32)
    col = xp.take_along_axis(res.col4row, row[..., None], -1)[..., 0]
    return _Critical(row, xp.maximum(col, 0), is_critical.any(-1))


def _value_jvp(
    cost: Num[Array, "... n m"], tangent: Array, critical: _Critical
) -> Float[Array, "..."]:
    if is_constant(tangent) or not cost.size:
        return jnp.zeros_like(critical.exists, result_float())
    own = entries(tangent, critical.row[..., None], critical.col[..., None])
    return sum_where(critical.exists[..., None], own)
