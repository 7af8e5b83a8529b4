"""Batches, transformations, exported functions, calls on NumPy arrays, and wrong arguments."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, x64
from min_cost_flow_helpers import METHODS, Problem, random_problem

import jaxmatch as jm


@pytest.fixture(scope="module")
def batch():
    """A network, and problems `[2, 3]` on it."""
    rng = np.random.default_rng(0)
    network = random_problem(rng, 6, 20).network
    capacity = rng.integers(1, 9, (2, 3, 20)).astype(np.float32)
    cost = rng.integers(-3, 9, (2, 3, 20)).astype(np.float32)
    supply = rng.integers(-1, 2, (2, 3, 6)).astype(np.float32)
    supply[..., 0] -= supply.sum(-1)
    return network, capacity, cost, supply


def one_by_one(batch, shape=(2, 3)):
    network, *arrays = batch
    found = [jm.minimum_cost_flow(network, *(x[k] for x in arrays)) for k in np.ndindex(*shape)]
    return jax.tree.map(lambda *x: np.stack(x).reshape(*shape, *x[0].shape), *found)


def test_batches(batch):
    network, *arrays = batch
    expected = one_by_one(batch)
    assert {*np.unique(expected.status)} >= {0}
    arrays = [*map(jnp.asarray, arrays)]
    solve = partial(jm.minimum_cost_flow, network)
    ways = [solve, jax.jit(solve), jax.vmap(solve), jax.jit(jax.vmap(jax.vmap(solve)))]
    for way in ways:
        assert_same_bits(way(*arrays), expected)
    assert_same_bits(jax.jit(jax.vmap(solve, 1, 1))(*arrays), expected)
    stacked = jm.FlowNetwork.stack([network] * 3)
    for way in (jm.minimum_cost_flow, jax.jit(jm.minimum_cost_flow)):
        assert_same_bits(way(stacked, *arrays), expected)
    by_network = jax.vmap(jax.vmap(jm.minimum_cost_flow), (None, 0, 0, 0))
    assert_same_bits(jax.jit(by_network)(stacked, *arrays), expected)
    assert expected[1, 2].cost == expected.cost[1, 2]


def test_arguments_broadcast(batch):
    network, capacity, cost, supply = batch
    costs, one = cost[:, :1], supply[0, 0]
    res = jm.minimum_cost_flow(network, capacity[0], costs, one, lower=np.zeros(20, np.float32))
    assert res.batch_shape == (2, 3)
    for k in np.ndindex(2, 3):
        alone = jm.minimum_cost_flow(network, capacity[0, k[1]], cost[k[0], 0], one)
        assert_same_bits(res[k], alone)
    mapped = jax.vmap(partial(jm.minimum_cost_flow, network), (None, 0, None))
    res = mapped(jnp.asarray(capacity[0, 0]), jnp.asarray(cost[0]), jnp.asarray(one))
    alone = jm.minimum_cost_flow(network, capacity[0, 0], cost[0, 1], one)
    assert_same_bits(res.cost[1], alone.cost)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits_each_time(method):
    problem = random_problem(np.random.default_rng(1), 12, 60, lower=True)
    problem = problem._replace(cost=problem.cost // 4)  # many ties
    expected = problem.solve(method=method)
    for _ in range(100):
        assert_same_bits(problem.solve(method=method), expected)
    with x64(True):
        given = [*problem[:4], problem.lower]
        solve = jax.jit(lambda *x: jm.minimum_cost_flow(*x[:4], lower=x[4], method=method))
        assert_same_bits(solve(*given), expected)


def test_numpy_in_numpy_out(batch):
    """In 64 bits, whatever JAX's setting is; lists are taken too."""
    network = jm.FlowNetwork.from_edges([0, 0, 1], [1, 2, 2], 3)
    res = jm.minimum_cost_flow(network, [2, 9, 9], [1, 5, 2], [3, 0, -3])
    assert isinstance(res.flow, np.ndarray) and res.flow.dtype == res.cost.dtype == np.int64
    res = jm.minimum_cost_flow(network, [2.0, 9, 9], [1, 5, 2], [3, 0, -3], method="xla")
    assert isinstance(res.flow, np.ndarray) and res.flow.dtype == res.cost.dtype == np.float64
    check = jm.check_minimum_cost_flow(network, [2.0, 9, 9], [1, 5, 2], [3, 0, -3], res)
    assert check.optimal and isinstance(check.gap, np.ndarray)


@pytest.mark.parametrize("platforms", ["cpu", "cuda"])
def test_export(batch, platforms):
    network, *arrays = batch
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (network, *arrays))
    call = jax.export.export(
        jax.jit(jm.minimum_cost_flow),
        platforms=[platforms],
        disabled_checks=jm.export_safety_checks(),
    )(*types)
    again = jax.export.deserialize(call.serialize())
    if platforms == "cpu":
        assert_same_bits(again.call(network, *arrays), one_by_one(batch))


def test_scan_with_warm_starts(batch):
    network, *arrays = batch
    arrays = [jnp.asarray(x[0]) for x in arrays]
    first = jm.minimum_cost_flow(network, *(x[0] for x in arrays))

    def step(last, given):
        res = jm.minimum_cost_flow(network, *given, warm_start=last)
        return res, (res.cost, res.status)

    _, (cost, status) = jax.jit(lambda x: jax.lax.scan(step, first, x))(tuple(arrays))
    cold = jm.minimum_cost_flow(network, *arrays)
    np.testing.assert_array_equal(status, cold.status)
    np.testing.assert_array_equal(cost, cold.cost)


NETWORK = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
GOOD = {"capacity": np.ones(2), "cost": np.ones(2), "supply": np.zeros(3)}
WRONG = {
    "edges": ({"capacity": np.ones(3)}, ValueError, r"`capacity` .* \[\.\.\., 2\].* edge .*\(3,\)"),
    "scalar": ({"cost": 1.0}, ValueError, r"`cost` must have shape \[\.\.\., 2\]"),
    "nodes": ({"supply": np.ones(2)}, ValueError, r"`supply` .* \[\.\.\., 3\].* node .*\(2,\)"),
    "lower": ({"lower": np.ones(3)}, ValueError, r"`lower` must have shape \[\.\.\., 2\]"),
    "batch": (
        {"capacity": np.ones((2, 2)), "cost": np.ones((3, 2))}, ValueError, "must broadcast, got"
    ),
    "complex": ({"cost": np.ones(2, complex)}, TypeError, "`cost` must .* got complex128"),
    "text": ({"capacity": np.array(["a", "b"])}, TypeError, "`capacity` must .* got strings"),
    "method": ({"method": "simplex"}, ValueError, "`method` must be one of .*'simplex'"),
    "network": ({"network": 3}, TypeError, "`network` must be a FlowNetwork, got int"),
    "start": ({"warm_start": np.ones(2)}, ValueError, r"`warm_start` .* shape \(2,\).*\(3,\)"),
    "other start": (
        {"warm_start": jm.solve_assignment(np.eye(3))}, TypeError,
        "`warm_start` must be a MinimumCostFlow",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    changes, kind, words = WRONG[name]
    given = {"network": NETWORK} | GOOD | changes
    with pytest.raises(kind, match=re.compile(words)):
        jm.minimum_cost_flow(**given)


def test_wrong_results_for_the_check():
    res = jm.minimum_cost_flow(NETWORK, *GOOD.values())
    for changes, kind, words in (
        ({"flow": np.ones(3)}, ValueError, r"`result\.flow` must have shape \(2,\)"),
        ({"flow": np.ones(2, int)}, TypeError, r"`result\.flow` must be floats as `supply` is"),
        ({"potential": np.ones(2)}, ValueError, r"`result\.potential` must have shape \(3,\)"),
        ({"cycle": np.ones(2)}, TypeError, r"`result\.cycle` must be boolean"),
    ):
        with pytest.raises(kind, match=words):
            jm.check_minimum_cost_flow(NETWORK, *GOOD.values(), res.replace(**changes))
    with pytest.raises(TypeError, match="must be a MinimumCostFlow"):
        jm.check_minimum_cost_flow(NETWORK, *GOOD.values(), 3)


def test_empty():
    """No nodes, no edges, no problems."""
    for method in (*METHODS, "xla"):
        none = jm.FlowNetwork.from_edges([], [], 0)
        res = jm.minimum_cost_flow(none, np.ones(0), np.ones(0), np.ones(0), method=method)
        assert res.status == 0 and res.cost == 0 and res.flow.shape == (0,)
        check = jm.check_minimum_cost_flow(none, np.ones(0), np.ones(0), np.ones(0), res)
        assert check.optimal
        alone = Problem(jm.FlowNetwork.from_edges([], [], 2), *np.ones((2, 0)), np.zeros(2))
        assert alone.solve(method=method).status == 0
        alone = alone._replace(supply=np.array([1.0, -1]))
        res = alone.solve(method=method)
        assert res.status == jm.Status.INFEASIBLE and alone.check(res).infeasible
