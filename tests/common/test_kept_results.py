"""A number that is kept of a result outside of `jit` does not keep the arrays beside it."""

import jax
import numpy as np
import pytest

import jaxmatch as jm


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="of native calls")

N = 600
_RNG = np.random.default_rng(0)
C, PAIRS, MASSES = _RNG.random((N, N)), _RNG.random((2, N, N)), np.full(N, 1 / N)
GRAPH = jm.BipartiteGraph.from_dense(np.ones((300, 300)))
NETWORK = jm.FlowNetwork.from_edges(np.arange(90_000) % 300, np.arange(90_000) // 300, 300)

CALLS = {
    "solve_assignment": lambda xp: jm.solve_assignment(xp.asarray(C)),
    "capacities": lambda xp: jm.solve_capacitated_assignment(xp.asarray(C), col_capacity=2),
    "points": lambda xp: jm.solve_assignment_points(xp.asarray(C[:, :2]), xp.asarray(C[:, 2:4])),
    "solve_transport": lambda xp: jm.solve_transport(xp.asarray(C), MASSES, MASSES),
    "k_best": lambda xp: jm.k_best_assignments(xp.asarray(C[:60, :60]), 200),
    "bottleneck": lambda xp: jm.bottleneck_assignment(xp.asarray(C)),
    "grid_cut": lambda xp: jm.grid_cut(xp.asarray(C), xp.asarray(1 - C), xp.asarray(PAIRS)),
    "matching": lambda xp: jm.maximum_bipartite_matching(GRAPH),
    "sparse": lambda xp: jm.solve_sparse_assignment(GRAPH, xp.asarray(C[:300, :300].ravel())),
    "flow": lambda xp: jm.maximum_flow(NETWORK, xp.asarray(C.ravel()[:90_000]), 0, 299),
}


def memory_of(x):
    """The bytes that stay allocated for a NumPy array."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x.nbytes


@pytest.mark.parametrize("name", CALLS)
def test_memory_of_each_number(name):
    for x in jax.tree.leaves(CALLS[name](np)):
        if isinstance(x, np.ndarray):
            # Two sides at most, where a result leaves out what a dummy received.
            assert memory_of(x) <= max(2 * x.nbytes + 64, 4096)
