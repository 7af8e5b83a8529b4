"""Batches that are sharded over a mesh.

On meshes with automatic axes the compiler partitions a batch, by the sharding rules of native calls
(see `jaxmatch._ffi.call`). On meshes with explicit axes the sharding is part of the type, and every
operation would need a rule for it. So there a solver runs in a `shard_map`, on each device's shard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec


T = TypeVar("T")


def over_batch_shards(
    solve: Callable[..., T], *arguments: Any, core_dims: int, shared: tuple[Any, ...] = ()
) -> T:
    """Calls `solve(*arguments, *shared)`, on each device's own shard if types carry a sharding.

    Types carry a sharding on meshes with explicit axes, the default of `jax.make_mesh`. Arguments
    are pytrees of arrays with the same batch dimensions; the first array has `core_dims` more.
    These core dimensions, and the `shared` arrays, are gathered on each device.
    """
    shardings = [jax.typeof(x).sharding for x in jax.tree.leaves((arguments, shared))]
    everywhere = PartitionSpec()
    if all(axes is None for s in shardings for axes in s.spec):
        if any(AxisType.Explicit in s.mesh.axis_types for s in shardings):
            # A dimension mapped by an outer `vmap` may be sharded, which the types do not show.
            inside = jax.sharding.auto_axes(solve, out_sharding=everywhere)
            return inside(*arguments, *shared)  # type: ignore[return-value]
        return solve(*arguments, *shared)
    batch = PartitionSpec(*shardings[0].spec[: len(shardings[0].spec) - core_dims])
    in_specs = (batch,) * len(arguments) + (everywhere,) * len(shared)
    mesh = shardings[0].mesh  # taken from an array, because `jax.set_mesh` may not be in effect
    sharded, replicated = (NamedSharding(mesh, spec) for spec in (batch, everywhere))
    return jax.shard_map(solve, mesh=mesh, in_specs=in_specs, out_specs=batch)(
        *jax.tree.map(lambda x: jax.sharding.reshard(x, sharded), arguments),
        *jax.tree.map(lambda x: jax.sharding.reshard(x, replicated), shared),
    )


def vary_alike(tree: T, others: Any) -> T:
    """Marks every leaf as device-varying over each mesh axis on which any leaf of `others` varies
    (`lax.pcast`).

    Needed for the initial state of a loop, whose type must not change. Also needed if costs are
    replicated but random keys are not. Then each device has its own derivative with respect to the
    costs, and `shard_map` must sum these. If costs were not marked, JAX would take the derivative
    for the same on all devices, and multiply it by the sum of the devices' cotangents.
    """
    axes = {axis for leaf in jax.tree.leaves(others) for axis in varying_axes(leaf)}

    def vary(x: Any) -> Any:
        missing = tuple(sorted(axes - set(varying_axes(x))))
        return lax.pcast(x, missing, to="varying") if missing else x

    return jax.tree.map(vary, tree)


def varying_axes(x: Any) -> Any:
    return jax.typeof(x).manual_axis_type.varying
