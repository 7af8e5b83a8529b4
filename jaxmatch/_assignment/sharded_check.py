"""Proofs of large problems, divided over devices or not, by blocks of rows: few costs at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from jaxmatch._assignment.certificate import AssignmentCheck, Claim, SeenCosts, look_at_costs
from jaxmatch._assignment.partition import Division, division_of
from jaxmatch._assignment.problem import as_mask
from jaxmatch._common.arguments import as_assignment
from jaxmatch._common.result import Assignment
from jaxmatch._common.switches import compiled


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Num


# Of a block of costs, which the arithmetic of a proof multiplies by some ten.
_MOST_ENTRIES = 1 << 22


def check_divided(
    cost: Num[Array, "a b"],
    result: Assignment,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    *,
    row_axis: str | None,
    col_axis: str | None,
    maximize: bool,
) -> AssignmentCheck:
    """`check_assignment` for costs that are divided."""
    division = division_of(cost, row_axis, col_axis)
    if cost.ndim != 2:
        raise ValueError(
            f"`cost` must be one problem [n, m] where `{division.name}` is given, got shape "
            f"{[*cost.shape]}."
        )
    n, m = division.whole_sides(*cost.shape)
    masks = as_mask("row_mask", row_mask, (n,)), as_mask("col_mask", col_mask, (m,))
    result = as_assignment(result, (n,), (m,), "`cost`")
    how = {"division": division, "maximize": maximize}
    return _check_costs(lax.stop_gradient(cost), result, *masks, **how)


@compiled(static_argnames=("division", "maximize"))
def _check_costs(
    cost: Array,
    result: Assignment,
    row_mask: Array | None,
    col_mask: Array | None,
    *,
    division: Division,
    maximize: bool,
) -> AssignmentCheck:
    def rows_of(costs: tuple[Array, ...], first: Array, count: int) -> Array:
        return lax.dynamic_slice_in_dim(costs[0], first, count)

    sides = division.whole_sides(*cost.shape)
    costs, specs = (cost,), (division.spec,)
    masks = (row_mask, col_mask)
    how = {"sides": sides, "dtype": cost.dtype, "division": division, "maximize": maximize}
    return check_parts(rows_of, costs, specs, masks, result, **how)


def check_parts(
    rows_of: Callable[[tuple[Array, ...], Array, int], Array],
    costs: tuple[Array, ...],
    specs: tuple[PartitionSpec, ...],
    masks: tuple[Array | None, Array | None],
    result: Assignment,
    *,
    sides: tuple[int, int],
    dtype: Any,
    division: Division,
    maximize: bool,
) -> AssignmentCheck:
    """`rows_of(costs, first, count)`: the costs of so many rows of a device's part."""
    result = lax.stop_gradient(result)
    claim = Claim.of(sides, *masks, None, result.col_dual, maximize, dtype)

    def part(
        costs: tuple[Array, ...], rows: Array, cols: Array, v: Array, col4row: Array
    ) -> SeenCosts:
        look_up = partial(rows_of, costs)
        return _look_at_part(look_up, rows, cols, v, col4row, division, maximize)

    everywhere = PartitionSpec()
    known = (claim.rows, claim.cols, claim.v, result.col4row)
    arguments = (lax.stop_gradient(costs), *known)
    if division.is_local:
        seen = part(*arguments)
    else:
        in_specs = (specs, *(everywhere for _ in known))
        laid_out = division.laid_out(specs, costs)
        seen = jax.shard_map(
            part,
            mesh=division.mesh,
            in_specs=in_specs,
            out_specs=everywhere,
            check_vma=False,  # all devices gather the same
        )(laid_out, *known)
    return claim.judge(seen, result.col4row, result.row4col, result.col_dual)


def _look_at_part(
    rows_of: Callable[[Array, int], Array],
    rows: Bool[Array, " n"],
    cols: Bool[Array, " m"],
    v: Array,
    col4row: Array,
    division: Division,
    maximize: bool,
) -> SeenCosts:
    """What this device sees in its part, put together with what others see in theirs."""
    if division.rows:
        rows, col4row = division.part_of(rows), division.part_of(col4row)
    else:
        cols, v = division.part_of(cols), division.part_of(v)
        col4row = col4row - division.here() * len(cols)

    def look(first: Array, count: int) -> SeenCosts:
        block = (lax.dynamic_slice_in_dim(x, first, count) for x in (rows, col4row))
        mine, partner = block
        return look_at_costs(rows_of(first, count), mine, cols, v, partner, maximize)

    seen = _in_blocks(look, len(rows), len(cols))
    if division.axis is None:
        return seen
    if division.rows:
        return jax.tree.map(lambda x: lax.all_gather(x, division.axis, tiled=True), seen)
    # A row's pair lies on one device; its least cost on any.
    is_mine = (col4row >= 0) & (col4row < len(cols))
    every, has_pair = jax.tree.map(division.gather, (seen, is_mine))
    least = every.least.min(0)
    least_rest = jnp.where(every.least == least[None], every.least_rest, jnp.inf).min(0)
    own, own_rest = (
        jnp.where(has_pair, x, 0).sum(0) for x in (every.own, every.own_rest)
    )  # one of them, and zeros
    own = jnp.where(has_pair.any(0), own, jnp.inf)
    return SeenCosts(least, least_rest, own, own_rest, every.has_tiny.any(0))


def _in_blocks(look: Callable[[Array, int], SeenCosts], n: int, m: int) -> SeenCosts:
    """`look(first, count)` at all of n rows, so many at a time that blocks stay small."""
    if n == 0:
        return look(jnp.int32(0), 0)
    count = min(n, max(1, _MOST_ENTRIES // max(m, 1)))
    blocks = -(-n // count)
    first = jnp.minimum(jnp.arange(blocks) * count, n - count)  # the last one may overlap
    seen = lax.map(lambda first: look(first, count), first)
    kept = n - (blocks - 1) * count
    return jax.tree.map(
        lambda x: jnp.concatenate([x[:-1].reshape(-1), x[-1, count - kept :]]), seen
    )
