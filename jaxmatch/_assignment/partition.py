"""Which part of one large problem a device of a mesh has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.core
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec


if TYPE_CHECKING:
    from jaxtyping import Array, Int


T = TypeVar("T")


class Division(NamedTuple):
    """The mesh axis over which the rows of a problem are divided, or its columns."""

    axis: str | None  # None: not at all
    rows: bool
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
        """Whether arrays are those of one device, within a `shard_map` or because it is alone."""
        return self.mesh is None

    @property
    def spec(self) -> PartitionSpec:
        return PartitionSpec(self.axis, None) if self.rows else PartitionSpec(None, self.axis)

    def whole_sides(self, n: int, m: int) -> tuple[int, int]:
        """Of the problem, where arrays have so many rows and columns."""
        parts = self.size if self.is_local else 1
        n, m = (n * parts, m) if self.rows else (n, m * parts)
        side, what = (n, "rows") if self.rows else (m, "columns")
        if side % self.size:
            raise ValueError(
                f"the {what} of `cost` must divide evenly over the {self.size} devices of axis "
                f"{self.axis!r}, got {side}; pad them, and mask the padding by "
                f"`{self.name.replace('axis', 'mask')}`."
            )
        return n, m

    def here(self) -> Int[Array, ""]:
        """Which part this device has."""
        return jnp.int32(0) if self.axis is None else lax.axis_index(self.axis).astype(jnp.int32)

    def gather(self, x: Array) -> Array:
        """Those of all devices, one after another."""
        return x[None] if self.axis is None else lax.all_gather(x, self.axis)

    def total(self, x: Array) -> Array:
        return x if self.axis is None else lax.psum(x, self.axis)

    def part_of(self, x: Array) -> Array:
        """This device's part of an array of all rows, or columns."""
        each = x.shape[0] // self.size
        return lax.dynamic_slice_in_dim(x, self.here() * each, each)

    def on_parts(self, f: Callable[..., T], in_specs: Any, *arguments: Any) -> T:
        """`f` on the arrays of each device; what it returns is the same everywhere."""
        if self.is_local:
            return f(*arguments)
        spec, arguments = PartitionSpec(), self.laid_out(in_specs, arguments)
        return jax.shard_map(f, mesh=self.mesh, in_specs=in_specs, out_specs=spec)(*arguments)

    def laid_out(self, specs: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """On a mesh with explicit axes `shard_map` takes what lies by type as it asks for."""
        if self.mesh is None or AxisType.Explicit not in self.mesh.axis_types:
            return arrays
        mesh = self.mesh
        shardings = jax.tree.map(
            lambda x, spec: NamedSharding(mesh, spec),
            arrays,
            jax.tree.broadcast(specs, arrays, is_leaf=lambda x: isinstance(x, PartitionSpec)),
        )
        return jax.tree.map(jax.reshard, arrays, shardings)


def division_of(cost: Array, row_axis: str | None, col_axis: str | None) -> Division:
    if row_axis is not None and col_axis is not None:
        raise ValueError(
            "costs are divided by rows or by columns, got both "
            f"`row_axis={row_axis!r}` and `col_axis={col_axis!r}`; give the one by which they lie "
            "on the mesh."
        )
    rows = row_axis is not None
    axis = row_axis if row_axis is not None else col_axis
    assert axis is not None
    context = jax.sharding.get_abstract_mesh()
    if axis in context.manual_axes:
        return Division(axis, rows, None)
    sharding = None if isinstance(cost, jax.core.Tracer) else cost.sharding
    own = sharding.mesh if isinstance(sharding, NamedSharding) else None
    for mesh in (own, jax.typeof(cost).sharding.mesh, context):
        if mesh is not None and axis in mesh.axis_names:
            return Division(axis, rows, mesh)
    name = "row_axis" if rows else "col_axis"
    raise ValueError(
        f"`{name}` must be an axis of the mesh that the costs lie on, got {axis!r}; put them on "
        "one with `jax.device_put(cost, NamedSharding(mesh, ...))`, or in a jitted function set "
        "the mesh with `jax.set_mesh(mesh)`."
    )
