"""Batches over a mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.sharding import PartitionSpec


T = TypeVar("T")


def over_batch_shards(solve: Callable[..., T], *arguments: Any, core_dims: int) -> T:
    """`solve(*arguments)`, each device on its own part of a batch that is sharded by type.

    Types carry a sharding on meshes with explicit axes, the default of `jax.make_mesh`. Arguments
    are pytrees whose arrays all have the same batch dimensions; the first array of all has
    `core_dims` more. The dimensions of one problem are gathered.
    """
    specs = [jax.typeof(x).sharding.spec for x in jax.tree.leaves(arguments)]
    if all(axes is None for spec in specs for axes in spec):
        return solve(*arguments)
    batch = PartitionSpec(*specs[0][: len(specs[0]) - core_dims])
    return jax.shard_map(solve, in_specs=batch, out_specs=batch)(
        *jax.tree.map(lambda x: jax.sharding.reshard(x, batch), arguments)
    )
