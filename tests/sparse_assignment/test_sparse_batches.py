"""Batches, `vmap`, `jit`, meshes, NumPy in full precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, problem, to_numpy, x64
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from sparse_helpers import (
    EDGES,
    METHODS,
    SIDE,
    Case,
    assert_batch,
    optimum,
    random_case,
    stacked,
)

import jaxmatch as jm


each_method = pytest.mark.parametrize("method", METHODS)


def shared_problem(batch, seed=0):
    """One graph and a batch of costs, with a full matching."""
    rng = np.random.default_rng(seed)
    has = rng.random((SIDE, SIDE)) < 0.5
    has[np.arange(SIDE), rng.permutation(SIDE)] = True
    rows, cols = np.nonzero(has)
    graph = jm.BipartiteGraph.from_edges(rows, cols, has.shape)
    return graph, rng.random((*batch, len(rows))).astype(np.float32)


def own_graphs(count, seed=1, **options):
    rng = np.random.default_rng(seed)
    return [random_case(rng, **options) for _ in range(count)]


def solver(method, **options):
    def solve(graph, cost):
        return jm.solve_sparse_assignment(graph, cost, method=method, **options)

    return solve


@pytest.mark.usefixtures("platform")
def test_shared_graph():
    """A batch of costs on one graph: as on copies of the graph, and as under `vmap`."""
    graph, cost = shared_problem((2, 3))
    solve = solver("auto")
    res = solve(graph, jnp.asarray(cost))
    assert res.col4row.shape == (2, 3, SIDE) and res.status.shape == (2, 3)
    copies = jax.tree.map(lambda x: jnp.broadcast_to(x, (2, 3, *x.shape)), graph)
    assert_same_bits(res, solve(copies, jnp.asarray(cost)))
    nested = jax.vmap(jax.vmap(solve, (None, 0)), (None, 0))
    assert_same_bits(res, jax.jit(nested)(graph, jnp.asarray(cost)))
    # One row of graphs for all.
    row = jax.tree.map(lambda x: x[0], copies)
    assert_same_bits(res, solve(row, jnp.asarray(cost)))


@pytest.mark.usefixtures("platform")
@each_method
def test_stacked_graphs(method):
    """Of unequal sizes; also by `vmap`, where sizes are traced, and with one cost for all."""
    cases = own_graphs(12)
    graph, cost = stacked(cases, np.float32)
    solve = solver(method)
    res = solve(graph, jnp.asarray(cost))
    assert_batch(cases, res)
    assert_same_bits(res, jax.vmap(solve)(graph, jnp.asarray(cost)))
    one = jnp.arange(EDGES, dtype=jnp.float32)
    res = solve(graph, one)
    for c in cases:
        c.cost = np.asarray(one)[: len(c.cost)]
    assert_batch(cases, res)
    check = jm.check_sparse_assignment(graph, one, res)
    assert np.array_equal(check.optimal, np.asarray(res.status) == jm.Status.OPTIMAL)


@pytest.mark.usefixtures("platform")
@each_method
def test_masks_of_a_batch(method):
    """One mask for all, or one per problem; with the sizes of stacked graphs."""
    cases = own_graphs(12, seed=5)
    graph, cost = stacked(cases, np.float32)
    rng = np.random.default_rng(6)
    rows, cols = rng.random(SIDE) < 0.7, rng.random((12, SIDE)) < 0.7
    res = solver(method, row_mask=rows, col_mask=cols)(graph, jnp.asarray(cost))
    for c, col_mask in zip(cases, cols, strict=True):
        n, m = c.graph.shape
        c.options |= {"row_mask": rows[:n], "col_mask": col_mask[:m]}
    assert_batch(cases, res)


def test_stacked_graphs_on_a_mesh():
    devices = jax.devices("cpu")
    mesh = jax.make_mesh((len(devices),), ("batch",), axis_types=(AxisType.Auto,), devices=devices)
    over = NamedSharding(mesh, PartitionSpec("batch"))
    given = stacked(own_graphs(8), np.float32)
    solve = jax.jit(solver("auto"))
    res = solve(*(jax.device_put(x, over) for x in given))
    assert res.cost.sharding.is_equivalent_to(over, 1)
    assert_same_bits(res, solve(given[0], jnp.asarray(given[1])))


def test_numpy_outside_of_a_trace():
    """64-bit numbers are solved as they are, whether x64 is on or off."""
    graph, _ = shared_problem(())
    rng = np.random.default_rng(2)
    base = rng.integers(0, 10, graph.max_edges) * 1.0
    cost = base + rng.integers(0, 2**12, graph.max_edges) * 2.0**-40
    assert (cost.astype(np.float32) == base).mean() > 0.5
    for x in (cost, rng.integers(2**40, 2**41, graph.max_edges)):
        res = jm.solve_sparse_assignment(graph, x)
        assert isinstance(res.cost, np.generic | np.ndarray) and res.cost.dtype == np.float64
        assert res.cost == optimum(Case(graph, x)) and res.gap == 0
        assert jm.check_sparse_assignment(graph, x, res).optimal
        with x64(True):
            assert_same_bits(res, jm.solve_sparse_assignment(graph, x))
    res = jm.solve_sparse_assignment(graph, jnp.asarray(base, jnp.float32))
    assert isinstance(res.cost, jax.Array) and res.cost.dtype == np.float32
    price = np.array(3 + 2.0**-40)
    res = jm.solve_sparse_assignment(graph, cost, unmatched_cost=price)
    given = {"unmatched_cost": np.broadcast_to(price, SIDE)}
    assert res.cost == optimum(Case(graph, cost, given))


@pytest.mark.usefixtures("platform")
def test_the_same_bits_again():
    cases = own_graphs(12, cardinality="maximum")
    graph, cost = stacked(cases, np.float32)
    solve = jax.jit(solver("auto", cardinality="maximum"))
    first = to_numpy(solve(graph, jnp.asarray(cost)))
    assert_batch(cases, first)
    assert_same_bits(first, solve(graph, jnp.asarray(cost)))
    some = jax.tree.map(lambda x: x[3:7], graph)
    assert_same_bits(problem(first, slice(3, 7)), solve(some, jnp.asarray(cost[3:7])))
