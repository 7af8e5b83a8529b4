"""Batches, `vmap`, `jit`, meshes, NumPy in full precision, gradients, warm starts."""

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
    case,
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
@pytest.mark.parametrize("method, mode", [
    ("auto", "full"), ("auto", "maximum"), ("auto", "both pay"), ("xla", "both pay"),
])  # fmt: skip
def test_gradients(method, mode):
    """Against differences of the optimum, which is unique for random costs."""
    rng = np.random.default_rng(3)
    graph, cost = shared_problem((), seed=3)
    prices = rng.random((2, SIDE)).astype(np.float32) / 2
    graph = jm.BipartiteGraph.stack([graph], num_rows=SIDE + 1)  # a row that does not exist
    graph = jax.tree.map(lambda x: x[0], graph)
    prices = (np.append(prices[0], np.float32(7)), prices[1])

    def value(cost, rows, cols):
        options = {"cardinality": "maximum"} if mode == "maximum" else {}
        if mode == "both pay":
            options = {"unmatched_cost": rows, "unmatched_col_cost": cols}
        return jm.solve_sparse_assignment(graph, cost, method=method, **options).cost

    with x64(True):
        wide = tuple(jnp.asarray(x, jnp.float64) for x in (cost, *prices))
        gradients = jax.jit(jax.grad(value, (0, 1, 2)))(*wide)
        for at, gradient in enumerate(gradients):
            steps = jnp.concatenate([jnp.eye(len(gradient)), -jnp.eye(len(gradient))]) * 1e-6
            axes = tuple(0 if j == at else None for j in range(3))
            moved = (x[None] + steps if j == at else x for j, x in enumerate(wide))
            up, down = jax.jit(jax.vmap(value, axes))(*moved).reshape(2, -1)
            np.testing.assert_allclose((up - down) / 2e-6, gradient, atol=1e-6)
        assert set(np.unique(gradients[0])) == {0, 1}
        if mode == "both pay":
            assert gradients[1].sum() > 0 and gradients[2].sum() > 0
            assert gradients[1][-1] == 0
        forward = jax.jvp(value, wide, tuple(jnp.ones_like(x) for x in wide))[1]
        np.testing.assert_allclose(forward, sum(g.sum() for g in gradients), rtol=1e-12)
        twice = jax.jit(jax.hessian(value))(*wide)
        assert not twice.any()


@pytest.mark.usefixtures("platform")
@each_method
def test_gradient_of_a_failure_is_0(method):
    one = case([0, 1], [0, 0], np.array([1.0, 2.0], np.float32), (2, 2))

    def value(cost):
        return jm.solve_sparse_assignment(one.graph, cost, method=method).cost

    np.testing.assert_array_equal(jax.grad(value)(jnp.asarray(one.cost)), [0, 0])
    np.testing.assert_array_equal(jax.grad(value)(jnp.array([jnp.nan, 1.0])), [0, 0])
    stack = jnp.array([[1.0, 2.0], [jnp.nan, 1.0]])
    gradient = jax.grad(lambda c: jnp.nansum(jax.vmap(value)(c)))(stack)
    np.testing.assert_array_equal(gradient, np.zeros((2, 2)))


@pytest.mark.usefixtures("platform")
@each_method
def test_warm_starts(method):
    """The optimum stays, whatever the start: an earlier result, rubbish, or none yet."""
    graph, cost = shared_problem((3,), seed=7)
    cost = np.round(cost * 50)
    cold = jm.solve_sparse_assignment(graph, jnp.asarray(cost), method=method)
    near = jnp.asarray(np.round(cost + np.random.default_rng(8).random(cost.shape)))
    expected = jm.solve_sparse_assignment(graph, near, method=method)
    rubbish = np.full((3, SIDE), np.nan, np.float32)
    wild = np.random.default_rng(9).integers(-(10**6), 10**6, (3, SIDE)).astype(np.float32)
    empty = jm.Assignment.empty((3, SIDE, SIDE))
    for start in (cold, expected, empty, rubbish, wild, np.float32(0), np.inf * rubbish):
        res = jm.solve_sparse_assignment(graph, near, warm_start=start, method=method)
        np.testing.assert_array_equal(res.cost, expected.cost)
        assert jm.check_sparse_assignment(graph, near, res).optimal.all()


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
