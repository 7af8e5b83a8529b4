"""The derivative of an assignment's cost with respect to the coordinates of its points."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from jaxmatch._assignment.partition import Partition
from jaxmatch._common.distances import distances
from jaxmatch._common.gradient import instantiated
from jaxmatch._common.result import Assignment
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Float


def value_jvp(
    partition: Partition,
    metric: str,
    points: tuple[Array, Array],
    tangents: tuple[Array, Array],
    res: Assignment,
) -> Float[Array, ""]:
    solved = res.status == Status.OPTIMAL

    def total(x: Array, y: Array) -> Array:
        return _matched_distances(partition, metric, x, y, res.col4row, res.row4col, solved)

    return jax.jvp(total, points, instantiated(tangents, points))[1]


def _matched_distances(
    partition: Partition,
    metric: str,
    x: Array,
    y: Array,
    col4row: Array,
    row4col: Array,
    solved: Array,
) -> Array:
    """The sum of the distances of matched pairs. Each device computes those of its own shard."""

    def sum_of_shard(mine: Array, others: Array, partner: Array, solved: Array) -> Array:
        partner = partition.shard_of(partner)
        paired = solved & (partner >= 0)
        # Replace unmatched points, because they may be NaN, which must not reach the derivative.
        mine, partner = (
            jnp.where(paired[:, None], p, k)
            for p, k in ((mine, 1), (others[jnp.maximum(partner, 0)], 0))
        )
        apart = distances(mine, partner, metric)
        return partition.total(jnp.where(paired, apart, 0).sum())

    mine, others, partner = (x, y, col4row) if partition.rows else (y, x, row4col)
    replicated = PartitionSpec()
    specs = (PartitionSpec(partition.axis), replicated, replicated, replicated)
    return partition.map_shards(sum_of_shard, specs, mine, others, partner, solved)
