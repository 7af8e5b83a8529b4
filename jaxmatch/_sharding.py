"""Batches over a mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import jax
from jax.sharding import PartitionSpec


if TYPE_CHECKING:
    from jaxtyping import Array

T = TypeVar("T")


def over_batch_shards(solve: Callable[..., T], cost: Array, *optional: Array | None) -> T:
    """`solve(cost, *optional)`, each device on its own part of a batch that is sharded by type.

    Types carry a sharding on meshes with explicit axes, the default of `jax.make_mesh`. All
    arguments have the batch dimensions of `cost`; the dimensions of one problem are gathered.
    """
    spec = jax.typeof(cost).sharding.spec
    batch = PartitionSpec(*spec[:-2])
    if all(axes is None for axes in spec):
        return solve(cost, *optional)
    return jax.shard_map(solve, in_specs=batch, out_specs=batch)(
        *(None if x is None else jax.sharding.reshard(x, batch) for x in (cost, *optional))
    )
