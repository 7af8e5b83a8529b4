"""`check_k_best`: verifies a list of assignments, by code that the solvers do not share."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.certificate import AssignmentCheck, DualBound, passes
from jaxmatch._assignment.problem import AssignmentProblem, as_problem
from jaxmatch._common.arguments import as_result
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import (
    flushed_to,
    is_inverse,
    module_of,
    over_problems,
    split,
    sum_down,
    take,
)
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check
from jaxmatch._common.sharding import over_batch_shards, vary_alike
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num
from jaxmatch._k_best.result import KBestAssignments


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class KBestCheck(Check):
    """The result of [`check_k_best`][jaxmatch.check_k_best].

    Leading `...` is batch.

    - `valid`: `bool[...]`, the list holds `count` different assignments, at least one, and nothing
      else. Each is feasible, its cost is the sum of the costs of its pairs up to a rounding, and
      the list is sorted by cost.
    - `optimal`: `bool[...]`, the list is valid, and `gap` is no larger than the rounding of costs
      and duals can explain, which proves that no assignment is better than the first; see
      [Checks][optimal].
    - `gap`: `f[...]`, a proved bound on (cost of the first assignment − optimum), +inf where
      nothing is proved.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]
    gap: Float[Array, "..."]


@unchecked
@in_full_precision("cost", "row_mask", "col_mask", on_host=True)
def check_k_best(
    cost: ArrayLike,
    result: KBestAssignments,
    *,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
) -> KBestCheck:
    """Verify a result of [`k_best_assignments`][jaxmatch.k_best_assignments], in jit or out of it.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> res = jm.k_best_assignments(cost, 3)
    >>> check = jm.check_k_best(cost, res)
    >>> bool(check.valid), bool(check.optimal)
    (True, True)
    >>> bool(jm.check_k_best(cost, res.replace(cost=res.cost[::-1])).valid)
    False

    **Arguments:**

    - `cost`, `maximize`, `row_mask`, `col_mask`: as they were passed to the solver.
    - `result`: the solver's result. `col4row`, `row4col`, `cost`, `count` and `col_dual` are read.

    **Returns:** a [`KBestCheck`][jaxmatch.KBestCheck]. The duals prove that no assignment is better
    than the first one. Proving that no later assignment is missing would take as long as finding
    the list.

    **Time and memory:** O(n·m + k (n log k + m)) operations.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for other dtypes.
    """
    place = current_place()
    problem = as_problem(cost, row_mask, col_mask, place=place)
    *batch, n, m = problem.cost.shape
    k = jnp.shape(result.cost)[-1]
    shapes = {
        "col4row": (*batch, k, n),
        "row4col": (*batch, k, m),
        "cost": (*batch, k),
        "count": (*batch,),
        "col_dual": (*batch, m),
    }
    result = as_result(
        result, KBestAssignments, shapes, "`cost`", "that the solver returns", place=place
    )
    if place.native:
        return _check_batch(problem, result, maximize=bool(maximize))
    return _check(*lax.stop_gradient((problem, result)), maximize=bool(maximize))


@compiled(static_argnames="maximize")
def _check(problem: AssignmentProblem, result: KBestAssignments, *, maximize: bool) -> KBestCheck:
    check = partial(_check_batch, maximize=maximize)
    return over_batch_shards(apart(check), problem, result, core_dims=2)


def _check_batch(
    problem: AssignmentProblem, result: KBestAssignments, *, maximize: bool
) -> KBestCheck:
    cost, (row_mask, col_mask) = problem.cost, problem.masks
    col4row, row4col = result.col4row[..., 0, :], result.row4col[..., 0, :]
    bound = DualBound.of(
        cost.shape, row_mask, col_mask, None, result.col_dual, maximize, cost.dtype
    )
    reduce, blocks = passes(cost, bound, col4row, maximize)
    # `verify` takes the whole batch: under `vmap`, its `lax.cond` would not work with a mesh of
    # explicit axes.
    first = bound.verify(reduce, col4row, row4col, result.col_dual, blocks)
    one = partial(_check_one, maximize=maximize)
    return over_problems(one, cost.shape[:-2], cost, bound.rows, bound.cols, result, first)


def _check_one(
    cost: Num[Array, "n m"],
    rows: Bool[Array, " n"],
    cols: Bool[Array, " m"],
    result: KBestAssignments,
    first: AssignmentCheck,
    *,
    maximize: bool,
) -> KBestCheck:
    """`rows`, `cols`: which rows and columns exist. `first`: the check of the first assignment."""
    col4row, row4col = result.col4row, result.row4col
    xp, k = module_of(cost), result.cost.size
    listed = xp.arange(k, dtype=jnp.int32) < result.count
    matched, used = col4row >= 0, row4col >= 0
    valid = is_inverse(col4row, row4col) & is_inverse(row4col, col4row)
    valid &= ~(matched & ~rows[None]).any(1) & ~(used & ~cols[None]).any(1)
    num_rows, num_cols = rows.sum(dtype=jnp.int32), cols.sum(dtype=jnp.int32)
    valid &= matched.sum(1, dtype=jnp.int32) == xp.minimum(num_rows, num_cols)
    value = -result.cost if maximize else result.cost
    valid &= _are_costs(value, cost, col4row, maximize)
    empty = ~matched.any(1) & ~used.any(1)
    valid = xp.where(listed, valid, empty).all() & (result.count >= 1) & (result.count <= k)
    valid &= ((value[1:] >= value[:-1]) | ~listed[1:]).all()
    valid &= _are_different(col4row, listed)
    gap = xp.where(valid, first.gap, jnp.inf)
    return KBestCheck(valid=valid, optimal=valid & first.optimal, gap=gap)


def _are_costs(
    value: Float[Array, " k"], cost: Array, col4row: Int[Array, "k n"], maximize: bool
) -> Bool[Array, " k"]:
    """Whether the pairs of each assignment are allowed and their costs sum to its rounded value."""
    xp, matched, at = module_of(cost), col4row >= 0, col4row.T
    parts = [take(x, at).T for x in split(cost, maximize) if x is not None]
    allowed = (~matched | xp.isfinite(parts[0])).all(1)
    terms = xp.concatenate([xp.where(matched & allowed[:, None], x, 0) for x in parts], 1)
    # Scale costs so that sums do not overflow. An infinite value stands for a sum that overflowed
    # the dtype of the result.
    info, count = jnp.finfo(value.dtype), terms.shape[1] + 1
    large = xp.abs(terms).max(initial=0) > float(jnp.finfo(terms.dtype).max) / (4 * count)
    scale = xp.where(large, 2.0**-34, 1.0).astype(terms.dtype)  # count < 2^32
    terms, most = terms * scale, float(info.max) * scale
    low, high = sum_down(terms), 0 - sum_down(-terms)
    low, high = xp.minimum(low, most), xp.maximum(high, -most)
    value = (value.astype(low.dtype) * scale).clip(-most, most)
    # The slack covers denormal numbers that XLA flushes to 0.
    slack = float(info.eps) * xp.abs(value) + count * 2 * flushed_to(cost.dtype, cost)
    rounded = ((low <= value) | (low - slack <= value)) & (
        (value <= high) | (value <= high + slack)
    )
    return allowed & rounded


def _are_different(col4row: Int[Array, "k n"], listed: Bool[Array, " k"]) -> Bool[Array, ""]:
    """Whether no two listed assignments are the same."""
    if module_of(col4row) is np:
        own = col4row[listed]
        return np.bool_(len(np.unique(own, axis=0)) == len(own))  # type: ignore[return-value]
    places = jnp.arange(listed.size, dtype=jnp.int32)

    def refine(group: Array, col: Array) -> tuple[Array, None]:
        """Splits each group of assignments, equal in all rows so far, by the columns of one row."""
        order = jnp.lexsort((col, group))
        a, b = group[order], col[order]
        begins = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
        number = jnp.concatenate([jnp.zeros_like(a[:1]), jnp.cumsum(begins, dtype=a.dtype)])
        return jnp.zeros_like(group).at[order].set(number), None

    apart = jnp.where(listed, 0, 1 + places)
    group = jnp.sort(lax.scan(refine, vary_alike(apart, col4row), col4row.T)[0])
    return (group[1:] != group[:-1]).all()
