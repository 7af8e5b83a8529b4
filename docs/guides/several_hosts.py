"""A batch, and one problem, over the devices of several hosts: the same program on each."""

# --8<-- [start:start]
import sys
import jax, jaxmatch as jm, numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

if len(sys.argv) > 1:  # such as host0:1234 4 2, on the third of four hosts
    address, hosts, index = sys.argv[1:]
    jax.distributed.initialize(address, int(hosts), int(index))  # before anything else of JAX
mesh = jax.make_mesh((len(jax.devices()),), ("x",), axis_types=(AxisType.Auto,))  # of all hosts
jax.set_mesh(mesh)
# --8<-- [end:start]

# --8<-- [start:batch]
rng = np.random.default_rng(jax.process_index())  # in place of files that this host reads
own = rng.random((8, 100, 100), np.float32)  # its part of the batch
cost = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), own)
batch = jax.jit(jm.solve_assignment)(cost)  # sharded as the batch is
process_allgather(batch, tiled=True).raise_for_status()  # gathers the results of all hosts
# --8<-- [end:batch]

# --8<-- [start:rows]
own_rows = rng.random((400 // jax.process_count(), 400), np.float32)  # those of its devices
rows = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x", None)), own_rows)
one = jm.solve_assignment(rows, row_axis="x")  # one problem, at most 32 devices
one.raise_for_status()  # replicated: every process can read the result
# --8<-- [end:rows]
assert batch.cost.sharding.spec == P("x") and one.cost.is_fully_replicated
