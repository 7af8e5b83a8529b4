"""RESULTS ADDRESS PROCESSES INDEX: solves a problem sharded over two processes, without end."""

import sys

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxmatch as jm


def main(_: str, address: str, processes: str, index: str) -> None:
    jax.distributed.initialize(
        address,
        int(processes),
        int(index),
        heartbeat_timeout_seconds=10,
        shutdown_timeout_seconds=10,
    )
    mesh = jax.make_mesh((jax.device_count(),), ("x",), axis_types=(AxisType.Auto,))
    jax.set_mesh(mesh)
    cost = np.random.default_rng(0).integers(0, 8000, (800, 800)).astype(np.float32)
    parts = [cost[: len(cost) // 2], cost[len(cost) // 2 :]]
    sharding = NamedSharding(mesh, PartitionSpec("x", None))
    shards = jax.make_array_from_process_local_data(sharding, parts[int(index)], cost.shape)
    solve = jax.jit(lambda cost: jm.solve_assignment(cost, method="classical", row_axis="x"))
    while True:
        jax.block_until_ready(solve(shards))
        print("solved", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
