"""Flows of denormal numbers: a check accepts what is right and nothing else, and a capacity below
zero is one however small."""

import jax.numpy as jnp
import numpy as np
import pytest
from flow_helpers import METHODS
from helpers import x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("optimised")


DTYPES = [("float32", False), ("float32", True), ("float64", True)]
each_dtype = pytest.mark.parametrize("dtype, wide", DTYPES)


@pytest.mark.parametrize("wide", [False, True])
def test_two_edges(wide):
    """The sum is 6.300069e-34, of which XLA sees 6.3e-34."""
    network = jm.FlowNetwork.from_edges([0, 0], [1, 1], num_nodes=2)
    with x64(wide):
        capacity = jnp.array([6.9e-39, 6.3e-34], jnp.float32)
        res = jm.maximum_flow(network, capacity, 0, 1)
        check = jm.check_flow(network, capacity, 0, 1, res)
        assert check.valid and check.optimal
        check = jm.check_flow(network, capacity, 0, 1, res.replace(value=capacity[1]))
        assert not check.optimal


def hostile_capacities(rng, dtype, shape):
    """From the least number up, spread over a few bits or many, and some zeros."""
    least = np.log2(float(np.finfo(dtype).smallest_subnormal))
    spread = rng.choice([8, 24, 40, 60, 80, 200], (shape[0], 1))
    x = 2.0 ** (least + spread * rng.random(shape)) * (rng.random(shape) < 0.7)
    return jnp.asarray(x.astype(dtype))


@each_dtype
@pytest.mark.parametrize("method", ["auto", "augment", "pseudoflow"])
def test_right_results_are_accepted_and_wrong_ones_are_not(method, dtype, wide):
    rng = np.random.default_rng(0)
    least, up = np.finfo(dtype).smallest_subnormal, np.asarray(1.01, dtype)
    with x64(wide):
        for n in (2, 4, 6):
            network = jm.FlowNetwork.from_edges(*rng.integers(0, n, (2, 24)), num_nodes=n)
            capacity = hostile_capacities(rng, dtype, (100, 24))
            res = jm.maximum_flow(network, capacity, 0, 1, method=method)
            value, flow = np.asarray(res.value), np.asarray(res.flow)
            assert (np.asarray(res.status) == jm.Status.OPTIMAL).all() and (value != 0).any()
            check = jm.check_flow(network, capacity, 0, 1, res)
            assert np.asarray(check.valid).all() and np.asarray(check.optimal).all()
            more = jnp.asarray((value * up + 3 * least).astype(dtype))
            check = jm.check_flow(network, capacity, 0, 1, res.replace(value=more))
            assert not np.asarray(check.optimal).any()
            # More than an edge takes, by the least there is.
            full = jnp.asarray(np.nextafter(np.asarray(capacity), np.asarray(np.inf, dtype)))
            check = jm.check_flow(network, capacity, 0, 1, res.replace(flow=full))
            assert not np.asarray(check.valid).any()
            assert not np.asarray(jm.check_flow(network, -capacity, 0, 1, res).valid).any()
            some = jnp.asarray(np.where(flow > 0, -flow, flow))
            check = jm.check_flow(network, capacity, 0, 1, res.replace(flow=some))
            assert not np.asarray(check.valid)[value != 0].any()


@each_dtype
@pytest.mark.parametrize("method", METHODS)
def test_capacities_below_zero(method, dtype, wide):
    """The least number below zero, which XLA takes for zero; zeros of either sign are none."""
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    least = np.finfo(dtype).smallest_subnormal
    with x64(wide):
        first = np.array([-least, -np.finfo(dtype).tiny, -0.0, 0.0, least, np.nan], dtype)
        capacity = jnp.asarray(np.stack([first, np.ones_like(first)], 1))
        status = np.asarray(jm.maximum_flow(network, capacity, 0, 2, method=method).status)
        bad, good = jm.Status.INVALID_CAPACITY, jm.Status.OPTIMAL
        np.testing.assert_array_equal(status, [bad, bad, good, good, good, bad])
