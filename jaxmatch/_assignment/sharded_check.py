"""Checks large assignments, sharded or not. Costs are read in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from jaxmatch._assignment.certificate import AssignmentCheck, DualBound, RowReductions, reduce_rows
from jaxmatch._assignment.partition import Partition, partition_of
from jaxmatch._common.arguments import as_assignment
from jaxmatch._common.blocks import blocks_of, in_blocks, rows_from
from jaxmatch._common.cost_arguments import as_mask
from jaxmatch._common.proof import as_costs, constant, module_of
from jaxmatch._common.result import Assignment
from jaxmatch._common.switches import compiled
from jaxmatch._common.tighten import Blocks
from jaxmatch._common.typing import Array, ArrayLike, Bool, Num


T = TypeVar("T")


def check_sharded(
    cost: Num[Array, "a b"],
    result: Assignment,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    *,
    row_axis: str | None,
    col_axis: str | None,
    maximize: bool,
) -> AssignmentCheck:
    """`check_assignment` for sharded costs."""
    partition = partition_of(cost, row_axis, col_axis)
    if cost.ndim != 2:
        raise ValueError(
            f"`cost` must be one problem [n, m] where `{partition.name}` is given, got shape "
            f"{[*cost.shape]}."
        )
    n, m = partition.global_shape(*cost.shape)
    masks = as_mask("row_mask", row_mask, (n,)), as_mask("col_mask", col_mask, (m,))
    result = as_assignment(result, (n,), (m,), "`cost`")
    return _check_costs(
        lax.stop_gradient(cost), result, *masks, partition=partition, maximize=maximize
    )


@compiled(static_argnames=("partition", "maximize"))
def _check_costs(
    cost: Array,
    result: Assignment,
    row_mask: Array | None,
    col_mask: Array | None,
    *,
    partition: Partition,
    maximize: bool,
) -> AssignmentCheck:
    def rows_of(costs: tuple[Array, ...], first: Array, count: int) -> Array:
        return lax.dynamic_slice_in_dim(costs[0], first, count)

    return check_shards(
        rows_of,
        (cost,),
        (partition.spec,),
        (row_mask, col_mask),
        result,
        sides=partition.global_shape(*cost.shape),
        dtype=cost.dtype,
        partition=partition,
        maximize=maximize,
    )


def check_shards(
    rows_of: Callable[[tuple[Array, ...], Any, int], Array],
    costs: tuple[Array, ...],
    specs: tuple[PartitionSpec, ...],
    masks: tuple[Array | None, Array | None],
    result: Assignment,
    *,
    sides: tuple[int, int],
    dtype: Any,
    partition: Partition,
    maximize: bool,
    unmatched_cost: Array | None = None,
    recomputed: tuple[float, float] = (1, 0),
) -> AssignmentCheck:
    """Verifies a result. `rows_of(costs, first, count)` returns `count` rows of a shard's costs."""
    result = constant(result)
    bound = DualBound.of(sides, *masks, unmatched_cost, result.col_dual, maximize, dtype)
    bound = bound._replace(recomputed=recomputed)

    def reduce_shard(
        costs: tuple[Array, ...], rows: Array, cols: Array, v: Array, col4row: Array
    ) -> RowReductions:
        return _reduce_shard(partial(rows_of, costs), rows, cols, v, col4row, partition, maximize)

    def reduce(v: Array) -> RowReductions:
        replicated = PartitionSpec()
        shared = (bound.rows, bound.cols, v, result.col4row)
        if partition.is_local:
            return reduce_shard(constant(costs), *shared)
        return jax.shard_map(
            reduce_shard,
            mesh=partition.mesh,
            in_specs=(specs, *(replicated for _ in shared)),
            out_specs=replicated,
            check_vma=False,  # all devices gather the same numbers
        )(partition.resharded(specs, costs), *shared)

    def blocks(_: tuple[int, ...]) -> Blocks:
        for first, count in blocks_of(*sides):
            exists = bound.rows[first : first + count, None] & bound.cols
            yield first, as_costs(rows_of(costs, first, count), exists, maximize)[0]

    on_host = module_of(bound.v) is np
    pairs = result.col4row, result.row4col, result.col_dual
    return bound.verify(reduce, *pairs, blocks if on_host else None)


def _reduce_shard(
    rows_of: Callable[[Array, int], Array],
    rows: Bool[Array, " n"],
    cols: Bool[Array, " m"],
    v: Array,
    col4row: Array,
    partition: Partition,
    maximize: bool,
) -> RowReductions:
    """The row reductions of the whole problem, combined from those of all shards."""
    if partition.axis is None:
        pass
    elif partition.rows:
        rows, col4row = partition.shard_of(rows), partition.shard_of(col4row)
    else:
        cols, v = partition.shard_of(cols), partition.shard_of(v)
        col4row = col4row - partition.shard_index() * len(cols)

    def reduce_block(first: Array, count: int) -> RowReductions:
        block = (rows_from(x, first, count) for x in (rows, col4row))
        mine, partner = block
        return reduce_rows(rows_of(first, count), mine, cols, v, partner, maximize)

    reductions = in_blocks(reduce_block, len(rows), len(cols), xp=module_of(rows))
    if partition.axis is None:
        return reductions
    if partition.rows:
        return jax.tree.map(lambda x: lax.all_gather(x, partition.axis, tiled=True), reductions)
    # The pair of a row is in one shard. The minimum of its reduced costs may be in another.
    is_mine = (col4row >= 0) & (col4row < len(cols))
    every, has_pair = jax.tree.map(partition.gather, (reductions, is_mine))
    least = every.least.min(0)
    least_rest = jnp.where(every.least == least[None], every.least_rest, jnp.inf).min(0)
    own, own_rest = (
        jnp.where(has_pair, x, 0).sum(0) for x in (every.own, every.own_rest)
    )  # at most one term is not 0
    own = jnp.where(has_pair.any(0), own, jnp.inf)
    return RowReductions(least, least_rest, own, own_rest, every.has_tiny.any(0))
