"""Batches of sparse problems that are sharded over a mesh."""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from sharded_helpers import mesh_of

import jaxmatch as jm
from jaxmatch._sparse_assignment.problem import SparseProblem
from jaxmatch._sparse_assignment.solve import _cuda


def test_a_gpu_gathers_no_batch():
    """The program for CUDA, compiled for CPU devices: edges by columns are shared operands, too."""
    n, k = 200, 3
    rng = np.random.default_rng(0)
    cols = (np.arange(n)[:, None] + rng.choice(n, k, replace=False)) % n
    graph = jm.BipartiteGraph.from_edges(np.repeat(np.arange(n), k), cols.ravel(), (n, n))

    def solve(cost):
        problem = SparseProblem(cost, *(None for _ in SparseProblem._fields[1:]))
        return _cuda(graph, problem, maximize=False, cardinality="full")

    cost = rng.random((8, n * k), np.float32)
    cost = jax.device_put(cost, NamedSharding(mesh_of(4), PartitionSpec("x")))
    text = jax.jit(solve).lower(cost).compile().as_text()
    assert "jaxmatch_sparse_assignment" in text
    assert "all-gather" not in text and "all-to-all" not in text
