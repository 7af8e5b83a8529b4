"""A batch, and one problem, over several devices."""

# --8<-- [start:batch]
import jax, jax.numpy as jnp
import jaxmatch as jm
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((len(jax.devices()),), ("x",), axis_types=(AxisType.Auto,))
jax.set_mesh(mesh)

cost = jax.random.uniform(jax.random.key(0), (32, 100, 100))
cost = jax.device_put(cost, NamedSharding(mesh, P("x")))  # each device has its own problems
res = jax.jit(jm.solve_assignment)(cost)  # sharded alike; nothing is moved
# --8<-- [end:batch]
assert res.cost.sharding.spec == P("x")

# --8<-- [start:rows]
rows = jax.random.uniform(jax.random.key(1), (400, 400))
rows = jax.device_put(rows, NamedSharding(mesh, P("x", None)))  # one problem, its rows divided
res = jax.jit(lambda cost: jm.solve_assignment(cost, row_axis="x"))(rows)  # replicated
jm.check_assignment(rows, res, row_axis="x").gap  # each device checks its own rows
# --8<-- [end:rows]
assert bool((jm.solve_assignment(jnp.asarray(rows)).col4row == res.col4row).all())
