"""Sharded problems on the devices of all processes, the same program in each:

    several_processes.py RESULTS [ADDRESS PROCESSES INDEX]

Writes every result to the file RESULTS. tests/common/test_several_processes.py compares those of
two processes with those of one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxmatch as jm


def globally(mesh: jax.sharding.Mesh, array: np.ndarray, *axes: str | None) -> jax.Array:
    """Each process passes on its own part, as one that reads its own files would."""
    sharding = NamedSharding(mesh, PartitionSpec(*axes))
    parts = sharding.addressable_devices_indices_map(array.shape).values()
    own = array
    for k in range(len(axes)):
        ranges = [part[k].indices(array.shape[k]) for part in parts]
        first, last = min(r[0] for r in ranges), max(r[1] for r in ranges)
        own = np.take(own, range(first, last), axis=k)
    return jax.make_array_from_process_local_data(sharding, own, array.shape)


def batches(mesh: jax.sharding.Mesh, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    cost = globally(mesh, rng.random((8, 12, 20), np.float32), "x")
    yield "batch", jm.solve_assignment(cost)
    yield "batch_check", jm.check_assignment(cost, jm.solve_assignment(cost))
    yield "gradient", jax.jit(jax.grad(lambda c: jm.solve_assignment(c).cost.sum()))(cost)
    yield "bottleneck", jm.bottleneck_assignment(cost)
    yield "k_best", jax.jit(lambda c: jm.k_best_assignments(c, 3))(cost)
    mass = globally(mesh, np.full((8, 12), 5, np.int32), "x"), np.full(20, 3, np.int32)
    yield "transport", jax.jit(jm.solve_transport)(cost, *mass)
    network = jm.FlowNetwork.from_edges([0, 0, 1, 1, 2], [1, 2, 2, 3, 3], num_nodes=4)
    capacity = globally(mesh, rng.integers(0, 9, (8, 5)).astype(np.int32), "x")
    yield "flow", jax.jit(lambda c: jm.maximum_flow(network, c, 0, 3))(capacity)


def detection(mesh: jax.sharding.Mesh, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Arrays that span processes are arguments of a jitted function: it cannot close over them."""
    criterion = jm.losses.DetectionCriterion(classification="focal")

    def loss(*x: jax.Array) -> tuple[jax.Array, Any]:
        found = criterion(*x)
        return found.total, found

    arrays = rng.standard_normal((8, 20, 3), np.float32), rng.uniform(0.2, 0.4, (8, 20, 4))
    arrays += rng.integers(0, 3, (8, 5)), rng.uniform(0.2, 0.4, (8, 5, 4)), rng.random((8, 5)) < 0.7
    given = [globally(mesh, x.astype(np.float32) if x.dtype == float else x, "x") for x in arrays]
    yield "cost", jax.jit(criterion.matching_cost)(*given[:4])
    grads, found = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))(*given)
    yield "sums_loss", found
    yield "sums_gradient", grads


def one_problem(mesh: jax.sharding.Mesh, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    cost = rng.integers(0, 50, (48, 64)).astype(np.float32)
    for by, axes in (("row_axis", ("x", None)), ("col_axis", (None, "x"))):
        shards = globally(mesh, cost, *axes)
        for method in ("core", "classical", "tree"):
            res = jm.solve_assignment(shards, method=method, **{by: "x"})
            yield f"{by}_{method}", res
        yield f"{by}_check", jm.check_assignment(shards, res, **{by: "x"})
    x = globally(mesh, rng.random((48, 2), np.float32), "x", None)
    y = globally(mesh, rng.random((64, 2), np.float32), None, None)
    res = jm.solve_assignment_points(x, y, row_axis="x")
    yield "points", res
    yield "points_check", jm.check_assignment_points(x, y, res, row_axis="x")


def main(results: str, *address: str) -> None:
    if address:
        where, processes, index = address
        jax.distributed.initialize(where, int(processes), int(index), initialization_timeout=200)
    assert jax.process_count() == (int(address[1]) if address else 1)
    mesh = jax.make_mesh((len(jax.devices()),), ("x",), axis_types=(AxisType.Auto,))
    found = {}
    with jax.set_mesh(mesh):
        for family in (batches, detection, one_problem):
            for name, tree in family(mesh, np.random.default_rng(0)):
                whole = multihost_utils.process_allgather(tree, tiled=True)
                found |= {f"{name}{k}": x for k, x in enumerate(jax.tree.leaves(whole))}
    np.savez(results, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
