"""The partition of one large problem over the devices of a mesh axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.core
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from jaxmatch._common.typing import Array, Int


T = TypeVar("T")


class Partition(NamedTuple):
    """How a problem is sharded: the mesh axis, and whether its rows or its columns are sharded."""

    axis: str | None  # None: not sharded
    rows: bool  # rows are sharded; False: columns
    mesh: Mesh | AbstractMesh | None  # None within a `shard_map` over the axis

    @property
    def name(self) -> str:
        return "row_axis" if self.rows else "col_axis"

    @property
    def size(self) -> int:
        if self.axis is None:
            return 1
        return lax.axis_size(self.axis) if self.mesh is None else self.mesh.shape[self.axis]

    @property
    def is_local(self) -> bool:
        """Whether arrays are local: inside a `shard_map`, or on a single device."""
        return self.mesh is None

    @property
    def spec(self) -> PartitionSpec:
        return PartitionSpec(self.axis, None) if self.rows else PartitionSpec(None, self.axis)

    def global_shape(self, n: int, m: int) -> tuple[int, int]:
        """The sides of the whole problem, given the sides of the array that the caller passed."""
        shards = self.size if self.is_local else 1
        n, m = (n * shards, m) if self.rows else (n, m * shards)
        side, what = (n, "rows") if self.rows else (m, "columns")
        if side % self.size:
            raise ValueError(
                f"the {what} of `cost` must divide evenly over the {self.size} devices of axis "
                f"{self.axis!r}, got {side}; pad them, and mask the padding by "
                f"`{self.name.replace('axis', 'mask')}`."
            )
        return n, m

    def shard_index(self) -> Int[Array, ""]:
        """The index of this device's shard."""
        return jnp.int32(0) if self.axis is None else lax.axis_index(self.axis).astype(jnp.int32)

    def gather(self, x: Array) -> Array:
        """All-gather: the arrays of all devices along a new leading dimension."""
        return x[None] if self.axis is None else lax.all_gather(x, self.axis)

    def total(self, x: Array) -> Array:
        return x if self.axis is None else lax.psum(x, self.axis)

    def shard_of(self, x: Array) -> Array:
        """This device's shard of an array over all rows or columns."""
        each = x.shape[0] // self.size
        return lax.dynamic_slice_in_dim(x, self.shard_index() * each, each)

    def map_shards(self, f: Callable[..., T], in_specs: Any, *arguments: Any) -> T:
        """Calls `f` on each device's shards. All devices must return the same result."""
        if self.is_local:
            return f(*arguments)
        spec, arguments = PartitionSpec(), self.resharded(in_specs, arguments)
        return jax.shard_map(f, mesh=self.mesh, in_specs=in_specs, out_specs=spec)(*arguments)

    def resharded(self, specs: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """Reshards arrays to `specs` on meshes with explicit axes, where types carry a sharding."""
        if self.mesh is None or AxisType.Explicit not in self.mesh.axis_types:
            return arrays
        mesh = self.mesh
        shardings = jax.tree.map(
            lambda x, spec: NamedSharding(mesh, spec),
            arrays,
            jax.tree.broadcast(specs, arrays, is_leaf=lambda x: isinstance(x, PartitionSpec)),
        )
        return jax.tree.map(jax.reshard, arrays, shardings)


def partition_of(cost: Array, row_axis: str | None, col_axis: str | None) -> Partition:
    if row_axis is not None and col_axis is not None:
        raise ValueError(
            "costs are sharded by rows or by columns, got both "
            f"`row_axis={row_axis!r}` and `col_axis={col_axis!r}`; give the one by which they lie "
            "on the mesh."
        )
    rows = row_axis is not None
    axis = row_axis if row_axis is not None else col_axis
    assert axis is not None
    context = jax.sharding.get_abstract_mesh()
    if axis in context.manual_axes:
        return Partition(axis, rows, None)
    sharding = None if isinstance(cost, jax.core.Tracer) else cost.sharding
    own = sharding.mesh if isinstance(sharding, NamedSharding) else None
    for mesh in (own, jax.typeof(cost).sharding.mesh, context):
        if mesh is not None and axis in mesh.axis_names:
            return Partition(axis, rows, mesh)
    name = "row_axis" if rows else "col_axis"
    raise ValueError(
        f"`{name}` must be an axis of the mesh that the costs lie on, got {axis!r}; put them on "
        "one with `jax.device_put(cost, NamedSharding(mesh, ...))`, or in a jitted function set "
        "the mesh with `jax.set_mesh(mesh)`."
    )
