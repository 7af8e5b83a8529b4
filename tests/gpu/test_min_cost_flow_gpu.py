"""The CUDA kernel for minimum-cost flows against the CPU's solver: every status, every dtype."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmatch as jm


pytestmark = pytest.mark.gpu

PROVED_BY = {
    jm.Status.OPTIMAL: "optimal",
    jm.Status.INFEASIBLE: "infeasible",
    jm.Status.UNBOUNDED: "unbounded",
}


def random_batch(rng, batch, n, e, *, floats):
    """A network and batches of capacities, costs and supplies; some problems have no solution."""
    network = jm.FlowNetwork.from_edges(rng.integers(0, n, e), rng.integers(0, n, e), n)
    capacity = rng.integers(0, 9, (batch, e)).astype(float if floats else int)
    if floats:
        capacity[rng.random((batch, e)) < 0.2] = np.inf
    cost = rng.integers(-3, 10, (batch, e)).astype(capacity.dtype)
    supply = rng.integers(-3, 4, (batch, n)).astype(capacity.dtype)
    supply[:, 0] -= supply.sum(-1)
    lower = np.minimum(rng.integers(-2, 2, (batch, e)), capacity).astype(capacity.dtype)
    return network, (capacity, cost, supply), lower


def on_the_host(tree):
    return jax.tree.map(np.asarray, tree)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("n, e", [(2, 3), (7, 20), (40, 150), (700, 3000)])
def test_as_on_the_cpu(dtype, n, e):
    rng = np.random.default_rng(n)
    with jax.enable_x64(dtype.endswith("64")):
        network, given, lower = random_batch(rng, 32, n, e, floats=dtype.startswith("float"))
        given, lower = [x.astype(dtype) for x in given], lower.astype(dtype)
        arrays = jax.device_put((given, lower))
        found = on_the_host(jax.jit(jm.minimum_cost_flow)(network, *arrays[0], lower=arrays[1]))
        network = on_the_host(network)
        expected = jm.minimum_cost_flow(network, *given, lower=lower)
    np.testing.assert_array_equal(found.status, expected.status)
    solved = found.status == jm.Status.OPTIMAL
    np.testing.assert_allclose(found.cost[solved], expected.cost[solved], rtol=1e-6)
    check = jm.check_minimum_cost_flow(network, *given, found, lower=lower)
    for status, name in PROVED_BY.items():
        assert getattr(check, name)[found.status == status].all()


def test_bits_do_not_depend_on_the_run_or_the_batch():
    rng = np.random.default_rng(0)
    network, given, _ = random_batch(rng, 200, 20, 80, floats=True)
    given = [jnp.asarray(x, jnp.float32) for x in given]
    solve = jax.jit(jm.minimum_cost_flow)
    first = on_the_host(solve(network, *given))
    for _ in range(100):
        for x, y in zip(
            *map(jax.tree.leaves, (first, on_the_host(solve(network, *given)))), strict=True
        ):
            np.testing.assert_array_equal(x, y)
    alone = on_the_host(solve(network, *(x[7] for x in given)))
    for x, y in zip(jax.tree.leaves(first), jax.tree.leaves(alone), strict=True):
        np.testing.assert_array_equal(x[7], y)


def test_warm_starts_do_not_change_the_optimum():
    rng = np.random.default_rng(1)
    network, given, _ = random_batch(rng, 64, 30, 150, floats=False)
    given = [x.astype(np.int32) for x in given]
    dearer = given[1] + (np.arange(150) % 9 == 0).astype(np.int32)
    given, changed = jax.device_put((given, (given[0], dearer, given[2])))
    res = jm.minimum_cost_flow(network, *given)
    cold = on_the_host(jm.minimum_cost_flow(network, *changed))
    warm = on_the_host(jm.minimum_cost_flow(network, *changed, warm_start=res))
    np.testing.assert_array_equal(warm.status, cold.status)
    np.testing.assert_array_equal(warm.cost, cold.cost)
