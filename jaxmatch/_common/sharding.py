"""Batches over a mesh.

On meshes with automatic axes the compiler divides a batch, and the native calls tell it how (see
`jaxmatch._ffi.call`). On meshes with explicit axes types carry the sharding, and every
operation would need a rule for it: there a solver runs on what each device has.
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
    """`solve(*arguments, *shared)`, each device on its own part of a batch that is sharded by type.

    Types carry a sharding on meshes with explicit axes, the default of `jax.make_mesh`. Arguments
    are pytrees whose arrays all have the same batch dimensions; the first array of all has
    `core_dims` more. The dimensions of one problem are gathered, and so is what all share.
    """
    shardings = [jax.typeof(x).sharding for x in jax.tree.leaves((arguments, shared))]
    everywhere = PartitionSpec()
    if all(axes is None for s in shardings for axes in s.spec):
        if any(AxisType.Explicit in s.mesh.axis_types for s in shardings):
            # Dimensions that `vmap` has taken away may be divided, which is not to be seen here.
            inside = jax.sharding.auto_axes(solve, out_sharding=everywhere)
            return inside(*arguments, *shared)  # type: ignore[return-value]
        return solve(*arguments, *shared)
    batch = PartitionSpec(*shardings[0].spec[: len(shardings[0].spec) - core_dims])
    in_specs = (batch,) * len(arguments) + (everywhere,) * len(shared)
    mesh = shardings[0].mesh  # arrays have one outside of `jax.set_mesh`, too
    divided, alike = (NamedSharding(mesh, spec) for spec in (batch, everywhere))
    return jax.shard_map(solve, mesh=mesh, in_specs=in_specs, out_specs=batch)(
        *jax.tree.map(lambda x: jax.sharding.reshard(x, divided), arguments),
        *jax.tree.map(lambda x: jax.sharding.reshard(x, alike), shared),
    )


def vary_alike(tree: T, others: Any) -> T:
    """The arrays of a tree, typed as different on all devices of a `shard_map` on which an array of
    the others is.

    A loop's state has to be typed as what it becomes. And where costs are the same on all devices,
    but keys are not, each device then has a derivative of its own, and `shard_map` adds them up.
    Without it they would be taken for the same: cotangents would be added first.
    """
    axes = {axis for leaf in jax.tree.leaves(others) for axis in varying_axes(leaf)}

    def vary(x: Any) -> Any:
        missing = tuple(sorted(axes - set(varying_axes(x))))
        return lax.pcast(x, missing, to="varying") if missing else x

    return jax.tree.map(vary, tree)


def varying_axes(x: Any) -> Any:
    return jax.typeof(x).manual_axis_type.varying
