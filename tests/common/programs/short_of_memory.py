"""Calls each target with room for ever more allocations, until all succeed:
tests/common/test_native_errors.py runs this with short_of_memory.c preloaded."""

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


MATCHINGS = "auto hopcroft_karp pothen_fan push_relabel p_pfp".split()
FLOWS = "auto augment pseudoflow".split()

shim = ctypes.CDLL(None)
shim.allow_allocations.restype = ctypes.c_long


def allow(count: int) -> int:
    refused = shim.allow_allocations(b"libjaxmatch_cpu", ctypes.c_long(count))
    assert refused >= 0, "the library is not loaded"
    return refused


def assignments() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    rng = np.random.default_rng(0)
    cost = jnp.asarray(rng.random((40, 40), np.float32))
    for method in ["core", "auction", "classical", "tree"]:
        yield method, lambda c, m=method: jm.solve_assignment(c, method=m).cost, cost
    batch = jnp.asarray(rng.random((16, 60, 60), np.float32))
    yield "jonker_volgenant", lambda c: jm.solve_assignment(c).cost, batch
    yield "k_best", lambda c: jm.k_best_assignments(c, 20).cost, batch
    points = jnp.asarray(rng.random((300, 2), np.float32))
    yield "points", lambda x: jm.solve_assignment_points(x, x[::-1]).cost, points
    estimator = jm.estimators.Perturbed(num_samples=64)
    matrix = partial(jm.assignment_matrix, estimator=estimator, key=jax.random.key(0))
    yield "perturbed", matrix, cost
    yield "slope", jax.grad(lambda c: (matrix(c) * cost).sum()), cost


def graphs() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, 4000, (2, 9000))
    graph = jm.BipartiteGraph.from_edges(rows, cols, shape=(4000, 4000))
    for method in MATCHINGS:
        solve = partial(jm.maximum_bipartite_matching, method=method)
        yield f"matching_{method}", lambda g, s=solve: s(g).cardinality, graph
    tails, heads = rng.integers(0, 300, (2, 2000))
    network = jm.FlowNetwork.from_edges(tails, heads, num_nodes=300)
    capacity = jnp.asarray(rng.random((4, 2000), np.float32))
    for method in FLOWS:
        solve = partial(jm.maximum_flow, network, source=0, sink=1, method=method)
        yield f"flow_{method}", lambda c, s=solve: s(capacity=c).value, capacity[0]
        yield f"flows_{method}", lambda c, s=solve: s(capacity=c).value, capacity
    source, sink = jnp.asarray(rng.random((2, 4, 60, 60), np.float32))
    arcs = jnp.asarray(rng.random((4, 4, 60, 60), np.float32))
    yield "grid_cut", lambda s: jm.grid_cut(s, sink, arcs).value, source


def failures(f: Callable[..., Any], x: Any) -> int:
    """How often there was too little memory."""
    f = jax.jit(f)
    allow(1 << 60)
    expected = jax.block_until_ready(f(x))
    count = 0
    for room in [*range(40), *range(40, 2000, 40)]:
        allow(room)
        try:
            got = jax.block_until_ready(f(x))
        except (jax.errors.JaxRuntimeError, ValueError) as e:  # as XLA pleases
            assert allow(1 << 60) > 0, "nothing was refused"
            assert "no memory for the workspace" in str(e), str(e)
            assert "jaxmatch_" in str(e), str(e)
            count += 1
            continue
        refused = allow(1 << 60)
        np.testing.assert_array_equal(got, expected)
        if refused == 0:
            return count
    raise AssertionError("always short of memory")


def transports() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    rng = np.random.default_rng(0)
    cost, ones = jnp.asarray(rng.random((4, 40, 50), np.float32)), jnp.ones((4, 40))
    demand = jnp.full((4, 50), np.float32(0.8))
    yield "transport", lambda c: jm.solve_transport(c, ones, demand).cost, cost
    points = jnp.asarray(rng.random((40, 3), np.float32))
    moved = partial(jm.solve_transport_points, points, supply=ones[0], demand=demand[0])
    yield "transport_points", lambda y: moved(y).cost, points[:1] + jnp.ones((50, 3))
    yield "capacities", lambda c: jm.solve_capacitated_assignment(c, col_capacity=2).cost, cost
    near = partial(jm.solve_assignment_points, points, radius=0.4, unmatched_cost=1.0)
    yield "near", lambda y: near(y).cost, points[::-1] + 0.01
    rows, cols = rng.integers(0, 300, (2, 3000))
    graph = jm.BipartiteGraph.from_edges(rows, cols, shape=(300, 300))
    prices = jnp.asarray(rng.random((4, graph.max_edges), np.float32))
    sparse = partial(jm.solve_sparse_assignment, graph, cardinality="maximum")
    yield "sparse", lambda c: sparse(c).cost, prices


def refused_on_arrays() -> int:
    """Calls on NumPy arrays, which go past XLA."""
    cost = np.random.default_rng(0).random((60, 60))
    calls = {
        "assignment": lambda: jm.solve_assignment(cost),
        "core": lambda: jm.solve_assignment(cost, method="core"),
        "k_best": lambda: jm.k_best_assignments(cost, 20),
        "transport": lambda: jm.solve_transport(cost, np.ones(60), np.ones(60)),
    }
    count = 0
    for name, call in calls.items():
        allow(1 << 60)
        expected = call().cost
        for room in range(3):
            allow(room)
            try:
                got = call().cost
            except jax.errors.JaxRuntimeError as e:
                assert allow(1 << 60) > 0, "nothing was refused"
                assert "RESOURCE_EXHAUSTED" in str(e) or "no memory" in str(e), (name, str(e))
                count += 1
            else:
                allow(1 << 60)
                np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(call().cost, expected)
    return count


for problems in [assignments, graphs, transports]:
    for name, solve, x in problems():
        print(name, failures(solve, x), flush=True)
print("arrays", refused_on_arrays(), flush=True)
