"""Batches over a mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.sharding import PartitionSpec


T = TypeVar("T")


def over_batch_shards(
    solve: Callable[..., T], *arguments: Any, core_dims: int, shared: tuple[Any, ...] = ()
) -> T:
    """`solve(*arguments, *shared)`, each device on its own part of a batch that is sharded by type.

    Types carry a sharding on meshes with explicit axes, the default of `jax.make_mesh`. Arguments
    are pytrees whose arrays all have the same batch dimensions; the first array of all has
    `core_dims` more. The dimensions of one problem are gathered, and so is what all share.
    """
    specs = [jax.typeof(x).sharding.spec for x in jax.tree.leaves((arguments, shared))]
    if all(axes is None for spec in specs for axes in spec):
        return solve(*arguments, *shared)
    batch = PartitionSpec(*specs[0][: len(specs[0]) - core_dims])
    everywhere = PartitionSpec()
    in_specs = (batch,) * len(arguments) + (everywhere,) * len(shared)
    return jax.shard_map(solve, in_specs=in_specs, out_specs=batch)(
        *jax.tree.map(lambda x: jax.sharding.reshard(x, batch), arguments),
        *jax.tree.map(lambda x: jax.sharding.reshard(x, everywhere), shared),
    )
