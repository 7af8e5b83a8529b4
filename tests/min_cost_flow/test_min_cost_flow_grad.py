"""The gradient of the minimum cost: flow, potentials and reduced costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64
from min_cost_flow_helpers import random_problem, scaled

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


@pytest.fixture(scope="module", autouse=True)
def in_64_bits():
    with x64(True):
        yield


def problem(seed):
    """A feasible problem in floats with one optimum and one set of potentials."""
    rng = np.random.default_rng(seed)
    nodes, edges = 6, 20
    ring = np.arange(nodes)
    ends = np.concatenate([rng.integers(0, nodes, (2, edges)), [ring, np.roll(ring, -1)]], 1)
    network = jm.FlowNetwork.from_edges(*ends, nodes)
    capacity = np.concatenate([rng.uniform(0.5, 2, edges), np.full(nodes, np.inf)])
    cost = rng.uniform(-1, 5, edges + nodes)
    cost[edges:] += 3
    lower = rng.uniform(-0.3, 0.4, edges + nodes)
    supply = rng.normal(size=nodes)
    supply -= supply.mean()
    return network, *map(jnp.asarray, (capacity, cost, supply, lower))


def value(network, *given):
    return jm.minimum_cost_flow(network, *given[:3], lower=given[3]).cost


@pytest.mark.parametrize("seed", range(4))
def test_differences(seed):
    network, *given = problem(seed)
    res = jm.minimum_cost_flow(network, *given[:3], lower=given[3]).raise_for_status()
    slopes = jax.grad(value, (1, 2, 3, 4))(network, *given)
    reduced = given[1] - res.potential[network.senders] + res.potential[network.receivers]
    expected = jnp.where(given[0] < jnp.inf, jnp.minimum(reduced, 0), 0), res.flow, res.potential
    for slope, other in zip(slopes, (*expected, jnp.maximum(reduced, 0)), strict=True):
        np.testing.assert_allclose(slope, other, atol=1e-14)
    rng, step = np.random.default_rng(seed), 2.0**-24
    for k, slope in enumerate(slopes):
        for _ in range(4):
            way = rng.normal(size=given[k].shape)
            if k == 2:
                way -= way.mean()  # supplies keep their sum
            up, down = (
                value(network, *[x + s * way if j == k else x for j, x in enumerate(given)])
                for s in (step, -step)
            )
            np.testing.assert_allclose(
                (slope * way).sum(), (up - down) / (2 * step), rtol=1e-6, atol=1e-7
            )


def test_of_integers():
    """Only floats have derivatives: costs, or masses."""
    network, capacity, cost, supply, _ = problem(0)
    whole = jnp.where(capacity < jnp.inf, jnp.round(4 * capacity), 99).astype(int)
    masses = jnp.array([3, -1, 0, 2, -2, -2])
    res = jm.minimum_cost_flow(network, whole, cost, masses).raise_for_status()
    slope = jax.grad(lambda c: jm.minimum_cost_flow(network, whole, c, masses).cost)(cost)
    np.testing.assert_array_equal(slope, res.flow)
    costs = jnp.round(cost).astype(int)
    res = jm.minimum_cost_flow(network, capacity, costs, supply).raise_for_status()
    slope = jax.grad(lambda b: jm.minimum_cost_flow(network, capacity, costs, b).cost)(supply)
    np.testing.assert_array_equal(slope, res.potential)


def test_zero_without_an_optimum():
    given = scaled(random_problem(np.random.default_rng(1), 6, 18), 1, 1)
    network, capacity, cost, supply, _ = given
    supply = supply + 100 * np.eye(6)[0] - 100 * np.eye(6)[1]
    given = *map(jnp.asarray, (capacity, cost, supply)), jnp.zeros(18)
    assert jm.minimum_cost_flow(network, *given[:3]).status == jm.Status.INFEASIBLE
    for slope in jax.grad(value, (1, 2, 3, 4))(network, *given):
        assert not slope.any()


def test_forbidden_edges():
    """Their costs and bounds have slope 0."""
    network = jm.FlowNetwork.from_edges([0, 0], [1, 1], 2)
    given = jnp.array([2.0, 2]), jnp.array([jnp.inf, 3]), jnp.array([1.0, -1]), jnp.zeros(2)
    slopes = jax.grad(value, (1, 2, 3, 4))(network, *given)
    assert all(jnp.isfinite(x).all() for x in slopes)
    assert slopes[1].tolist() == [0, 1] and not slopes[3].any()


def test_second_derivatives():
    network, *given = problem(2)
    assert not jax.hessian(lambda c: value(network, given[0], c, *given[2:]))(given[1]).any()
    for k in (0, 2, 3):
        f = lambda x, c, k=k: value(  # noqa: E731
            network, *[x if j == k else c if j == 1 else y for j, y in enumerate(given)]
        )
        with pytest.raises(TypeError, match="no second derivative across costs and masses"):
            jax.jacfwd(jax.grad(f, 0), 1)(given[k], given[1])
        with pytest.raises(TypeError, match="no second derivative across costs and masses"):
            jax.jacfwd(jax.grad(f, 1), 0)(given[k], given[1])


def test_batches_and_modes():
    network, *given = problem(3)
    costs = jnp.stack([given[1], given[1] + 0.1, 2 * given[1]])
    f = lambda c: value(network, given[0], c, *given[2:])  # noqa: E731
    one_by_one = jnp.stack([jax.grad(f)(c) for c in costs])
    together = jax.grad(lambda c: value(network, given[0], c, *given[2:]).sum())(costs)
    np.testing.assert_array_equal(together, one_by_one)
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.grad(f)))(costs), one_by_one)
    np.testing.assert_array_equal(jax.jacfwd(f)(costs[0]), one_by_one[0])
