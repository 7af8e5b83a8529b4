"""`check_bottleneck`: verifies a bottleneck assignment by its cover.

It shares no code with the solver, so that it does not repeat its errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.problem import AssignmentProblem, as_problem
from jaxmatch._bottleneck.result import BottleneckAssignment, BottleneckCheck
from jaxmatch._common.arguments import as_result
from jaxmatch._common.full_range import widen
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import is_inverse, module_of, take_pairs
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num


@unchecked
@in_full_precision("cost", "row_mask", "col_mask", on_host=True)
def check_bottleneck(
    cost: ArrayLike,
    result: BottleneckAssignment,
    *,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
) -> BottleneckCheck:
    """Verify a result of `bottleneck_assignment`, in jit or out of it.

    Makes one pass over `cost`. `result` may come from any solver.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[1.0, 4.0], [3.0, 9.0]])
    >>> res = jm.bottleneck_assignment(cost)
    >>> jm.check_bottleneck(cost, res)
    BottleneckCheck(valid=Array(True, dtype=bool), optimal=Array(True, dtype=bool))
    >>> pairs = jnp.array([0, 1])
    >>> other = res.replace(col4row=pairs, row4col=pairs, bottleneck=jnp.array(9.0))
    >>> jm.check_bottleneck(cost, other)  # also an assignment, but with a greater cost
    BottleneckCheck(valid=Array(True, dtype=bool), optimal=Array(False, dtype=bool))

    **Arguments:**

    - `cost`, `maximize` and masks: as they were passed to the solver.
    - `result`: the solver's result; `status` is ignored.

    **Returns:**

    A [`BottleneckCheck`][jaxmatch.BottleneckCheck].

    - `valid`: `col4row` and `row4col` describe the same matching, its pairs are neither masked nor
      forbidden, it matches all of the smaller side, and `bottleneck` is its greatest cost, rounded
      to its dtype.
    - `optimal`: `valid`, the costs are valid, and the cover proves the optimum. Each pair that
      costs less than the assignment's greatest cost has its row in `row_cover` or its column in
      `col_cover`, and the cover has fewer existing vertices than the assignment has pairs. So any
      assignment has a pair with neither end in the cover, which costs at least as much (Kőnig). An
      assignment without pairs is optimal. A lexicographic order is not verified.

    **Exact:** for the numbers passed in, since costs are only compared. On a TPU, denormal float64
    count as 0.

    **Time and memory:** O(n·m) operations, and a few temporary arrays of the size of `cost`, unless
    XLA fuses them away.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for other dtypes.
    """
    place = current_place()
    problem = as_problem(cost, row_mask, col_mask, place=place)
    *batch, n, m = problem.cost.shape
    rows, cols = (*batch, n), (*batch, m)
    shapes = {"col4row": rows, "row4col": cols, "bottleneck": tuple(batch)}
    shapes |= {"row_cover": rows, "col_cover": cols}
    advice = "`BottleneckAssignment(...)` makes one of its fields"
    result = as_result(result, BottleneckAssignment, shapes, "`cost`", advice, place=place)
    if place.native:
        return _check_batch(problem, result, maximize=bool(maximize))
    return _check(*lax.stop_gradient((problem, result)), maximize=bool(maximize))


@compiled(static_argnames="maximize")
def _check(
    problem: AssignmentProblem, result: BottleneckAssignment, *, maximize: bool
) -> BottleneckCheck:
    check = partial(_check_batch, maximize=maximize)
    return over_batch_shards(apart(check), problem, result, core_dims=2)


def _check_batch(
    problem: AssignmentProblem, result: BottleneckAssignment, *, maximize: bool
) -> BottleneckCheck:
    cost, row_mask, col_mask = problem.cost, problem.row_mask, problem.col_mask
    xp, col4row, row4col = module_of(cost), result.col4row, result.row4col
    rows = xp.ones_like(col4row, bool) if row_mask is None else row_mask
    cols = xp.ones_like(row4col, bool) if col_mask is None else col_mask
    size = xp.minimum(*(x.sum(-1, dtype=jnp.int32) for x in (rows, cols)))
    matched = col4row >= 0
    valid = is_inverse(col4row, row4col) & is_inverse(row4col, col4row)
    valid &= (~matched | rows).all(-1) & ((row4col < 0) | cols).all(-1)
    valid &= matched.sum(-1, dtype=jnp.int32) == size
    nothing = jnp.inf if maximize else -jnp.inf
    if not cost.size:
        valid &= result.bottleneck == nothing
        return BottleneckCheck(valid, valid)

    own = take_pairs(cost, col4row)
    worst = _worst(own, matched, maximize)
    stated = (size == 0) & (result.bottleneck == nothing)
    stated |= (size > 0) & _is_rounded(worst, result.bottleneck)
    valid &= (~matched | xp.isfinite(own)).all(-1) & stated

    exists = rows[..., :, None] & cols[..., None, :]
    sane = (~exists | _is_sound(cost, nothing)).all((-2, -1))
    covered = result.row_cover[..., :, None] | result.col_cover[..., None, :]
    better = (
        _less(worst[..., None, None], cost) if maximize else _less(cost, worst[..., None, None])
    )
    covers = (~exists | covered | ~better).all((-2, -1))
    few = (rows & result.row_cover).sum(-1, dtype=jnp.int32)
    few += (cols & result.col_cover).sum(-1, dtype=jnp.int32)
    return BottleneckCheck(valid, valid & sane & ((size == 0) | (covers & (few < size))))


def _is_sound(cost: Num[Array, "..."], unbounded: float) -> Bool[Array, "..."]:
    if not jnp.issubdtype(cost.dtype, jnp.floating):
        return module_of(cost).ones_like(cost, bool)
    return ~(module_of(cost).isnan(cost) | (cost == unbounded))


def _is_rounded(x: Num[Array, "..."], stated: Float[Array, "..."]) -> Bool[Array, "..."]:
    """Whether `stated` is x, rounded to the dtype of `stated`."""
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    wider = is_float and x.dtype.itemsize < stated.dtype.itemsize
    x = widen(x, stated.dtype) if wider else x.astype(stated.dtype)
    return ~_less(x, stated) & ~_less(stated, x) & ~module_of(x).isnan(stated)


# ---------------------------------------------------------------------------------------------
# Comparisons without flushing denormal numbers


def _less(x: Num[Array, "..."], y: Num[Array, "..."]) -> Bool[Array, "..."]:
    return _in_order(lambda x, y: x < y, x, y)


def _worst(x: Num[Array, "... n"], among: Bool[Array, "... n"], maximize: bool) -> Array:
    """The greatest number in `among` (the least if `maximize`); any number if there is none."""
    xp = module_of(x)

    def find(rank: Array) -> Int[Array, "..."]:
        floating = jnp.issubdtype(rank.dtype, jnp.floating)
        info = jnp.finfo(rank.dtype) if floating else jnp.iinfo(rank.dtype)
        other = xp.asarray(info.max if maximize else info.min, rank.dtype)
        best = xp.argmin if maximize else xp.argmax
        return best(xp.where(among, rank, other), -1)

    return xp.take_along_axis(x, _in_order(find, x)[..., None], axis=-1)[..., 0]


def _in_order(compare: Callable[..., Array], *numbers: Num[Array, "..."]) -> Array:
    """Calls `compare` on integers in the order of the numbers: XLA would flush denormal floats."""

    def by_rank(*numbers: Array) -> Array:
        return compare(*map(_rank, numbers))

    dtype = numbers[0].dtype
    if not jnp.issubdtype(dtype, jnp.floating) or module_of(numbers[0]) is np:
        return compare(*numbers)  # NumPy does not flush them
    if dtype != jnp.float64:
        return by_rank(*numbers)
    # TPUs cannot bitcast float64.
    return lax.platform_dependent(*numbers, tpu=compare, default=by_rank)


def _rank(x: Float[Array, "..."]) -> Int[Array, "..."]:
    """Unsigned integers in the same order as the numbers.

    Both zeros become the middle of the range. Negative numbers lie below it, in reverse order of
    their bits.
    """
    count = jnp.finfo(x.dtype).bits
    bits = lax.bitcast_convert_type(x, jnp.dtype(f"uint{count}"))
    half = jnp.asarray(2 ** (count - 1), bits.dtype)
    return jnp.where(bits < half, bits + half, -bits)  # `-bits` wraps around
