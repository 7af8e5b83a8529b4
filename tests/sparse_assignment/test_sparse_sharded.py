"""Batches of sparse problems that are sharded over a mesh."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from sharded_helpers import mesh_of

import jaxmatch as jm
from jaxmatch._sparse_assignment.problem import SparseProblem
from jaxmatch._sparse_assignment.solve import _cuda


@pytest.mark.parametrize("mapped", ["row_ptr", "col_ind", "both"])
def test_a_part_of_the_graph_may_be_mapped(mapped):
    """A batch of the arrays of one graph, of which `vmap` maps some."""
    rng = np.random.default_rng(1)
    graph = jm.BipartiteGraph.from_edges([0, 0, 1, 1, 2], [0, 1, 0, 2, 2], (3, 3))
    cost = rng.random((4, 5), np.float32)
    names = ("row_ptr", "col_ind") if mapped == "both" else (mapped,)
    fields = {name: jnp.stack([getattr(graph, name)] * 4) for name in names}

    def solve(fields, cost):
        return jm.solve_sparse_assignment(dataclasses.replace(graph, **fields), cost).cost

    found = jax.vmap(solve)(fields, cost)
    np.testing.assert_array_equal(found, jm.solve_sparse_assignment(graph, cost).cost)


def test_a_gpu_gathers_no_batch():
    """The program for CUDA, compiled for CPU devices: edges by columns are shared operands, too."""
    n, k = 200, 3
    rng = np.random.default_rng(0)
    cols = (np.arange(n)[:, None] + rng.choice(n, k, replace=False)) % n
    graph = jm.BipartiteGraph.from_edges(np.repeat(np.arange(n), k), cols.ravel(), (n, n))

    def solve(cost):
        problem = SparseProblem(cost, *(None for _ in SparseProblem._fields[1:]))
        return _cuda(graph, problem, maximize=False)

    cost = rng.random((8, n * k), np.float32)
    cost = jax.device_put(cost, NamedSharding(mesh_of(4), PartitionSpec("x")))
    text = jax.jit(solve).lower(cost).compile().as_text()
    assert "jaxmatch_sparse_assignment" in text
    assert "all-gather" not in text and "all-to-all" not in text
