"""The gradient of a maximum flow: the edges of the cut nearest to the source."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_helpers import SOME_METHODS, random_edges, random_networks

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


def problem(seed=0):
    rng = np.random.default_rng(seed)
    network = jm.FlowNetwork.from_edges(*random_edges(rng, 8, 18, 30).T, 8)
    return network, rng.uniform(0.5, 2, (5, 30))


def value_of(network, method="auto", source=0, sink=7):
    return lambda c: jm.maximum_flow(network, c, source, sink, method=method).value


@pytest.mark.parametrize("method", SOME_METHODS)
def test_the_gradient_is_the_cut(method):
    network, capacities = problem(1)
    c = jnp.asarray(capacities, jnp.float32)
    res = jm.maximum_flow(network, c, 0, 7, method=method)
    side = np.asarray(res.source_side)
    cut = side[:, network.senders] & ~side[:, network.receivers]
    gradient = jax.jit(jax.grad(lambda c: value_of(network, method)(c).sum()))(c)
    np.testing.assert_array_equal(gradient, cut.astype(np.float32))
    assert gradient.dtype == jnp.float32
    ways = (
        jax.vmap(jax.jit(jax.grad(jax.checkpoint(value_of(network, method))))),
        jax.vmap(jax.grad(value_of(network, method))),
        lambda c: jax.vmap(jax.jacfwd(value_of(network, method)))(c),
        lambda c: jax.lax.map(jax.grad(value_of(network, method)), c),
    )
    for transformed in ways[: 1 if method == "xla" else 4]:  # which compiles for seconds
        np.testing.assert_array_equal(transformed(c), gradient)


def test_networks_in_a_batch():
    rng = np.random.default_rng(3)
    networks = random_networks(rng, 6, 6, 9, 20)
    c = jnp.asarray(rng.uniform(0.5, 2, (6, 20)), jnp.float32)
    together = jax.grad(lambda c: value_of(networks, sink=5)(c).sum())(c)
    mapped = jax.vmap(lambda net, c: jax.grad(value_of(net, sink=5))(c))(networks, c)
    np.testing.assert_array_equal(together, mapped)
    for k in range(6):
        one = jax.tree.map(lambda x: x[k], networks)  # noqa: B023
        np.testing.assert_array_equal(jax.grad(value_of(one, sink=5))(c[k]), together[k])


def test_ties_take_the_cut_nearest_to_the_source():
    network = jm.FlowNetwork.from_edges([0, 1, 2], [1, 2, 3], 4)
    for method in SOME_METHODS:
        gradient = jax.grad(value_of(network, method, sink=3))(jnp.ones(3))
        np.testing.assert_array_equal(gradient, [1, 0, 0])
    value, source_side, _ = jm.minimum_cut(network, jnp.ones(3), 0, 3)
    assert value == 1 and source_side.tolist() == [True, False, False, False]


def test_nothing_flows_back_where_there_is_no_value():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    bad = jnp.array([[-1.0, 1.0], [jnp.nan, 1.0], [jnp.inf, jnp.inf], [1.0, 2.0]])
    solve = jax.vmap(lambda c: jm.maximum_flow(network, c, 0, 2).value)
    _, pull = jax.vjp(solve, bad)
    expected = np.array([[0, 0], [0, 0], [0, 0], [1, 0]])
    np.testing.assert_array_equal(pull(jnp.ones(4))[0], expected)
    _, pull = jax.vjp(lambda c: jm.maximum_flow(network, c, 0, 0).value, bad)
    np.testing.assert_array_equal(pull(jnp.full(4, jnp.nan))[0], 0)
