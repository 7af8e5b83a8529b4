"""Warm starts of flows: sequences of changes, each solved warm and cold, from any start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_helpers import by_scipy, random_edges

import jaxmatch as jm


on_cpu = pytest.mark.skipif(not jm.has_cpu_library(), reason="of native calls")
DTYPES = ("int32", "int64", "float32", "float64")


def random_case(rng, n, pairs, e, dtype):
    edges = random_edges(rng, n, pairs, e)
    network = jm.FlowNetwork.from_edges(edges[:, 0], edges[:, 1], n)
    return edges, network, capacities(rng, (e,), dtype)


def capacities(rng, shape, dtype):
    whole = rng.integers(0, 30, shape)
    if np.dtype(dtype).kind == "f" and rng.random() < 0.5:
        return (whole * rng.random(shape)).astype(dtype)
    return whole.astype(dtype)


def changed(rng, capacity):
    pick = rng.random(capacity.shape) < rng.choice([0, 0.1, 1], p=[0.2, 0.6, 0.2])
    out = np.where(pick, capacities(rng, capacity.shape, capacity.dtype), capacity)
    if rng.random() < 0.2:
        floats = capacity.dtype.kind == "f"
        out[..., rng.integers(capacity.shape[-1])] = np.inf if floats else 2**31 - 1
    return out


def garbage(rng, capacity):
    if capacity.dtype.kind == "i":
        limits = np.iinfo(capacity.dtype)
        return rng.integers(limits.min, limits.max, capacity.shape, capacity.dtype)
    return rng.choice([np.nan, np.inf, -np.inf, -1, 0, 7, 1e300], capacity.shape)


def assert_same(network, capacity, ends, warm, cold):
    for name in ("value", "source_side", "status"):
        np.testing.assert_array_equal(getattr(warm, name), getattr(cold, name), err_msg=name)
    if np.isfinite(cold.value).all() and not np.any(cold.status):
        check = jm.check_flow(network, capacity, *ends, warm)
        assert np.all(check.valid) and np.all(check.optimal)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["auto", "augment", "pseudoflow"])
def test_sequences_of_changes(method, dtype):
    rng = np.random.default_rng(0)
    for n, pairs, e in ((6, 10, 14), (30, 120, 150), (60, 90, 100)):
        _, network, capacity = random_case(rng, n, pairs, e, dtype)
        ends = (0, n - 1)
        last = jm.maximum_flow(network, capacity, *ends, method=method)
        for step in range(25):
            capacity = changed(rng, capacity)
            if step % 8 == 7:
                ends = tuple(int(x) for x in rng.choice(n, 2, replace=False))
            cold = jm.maximum_flow(network, capacity, *ends, method=method)
            start = garbage(rng, capacity) if step % 4 == 3 else last
            last = jm.maximum_flow(network, capacity, *ends, method=method, warm_start=start)
            assert_same(network, capacity, ends, last, cold)


def test_against_scipy():
    rng = np.random.default_rng(1)
    edges, network, capacity = random_case(rng, 40, 200, 260, "int32")
    last = None
    for _ in range(10):
        last = jm.maximum_flow(network, capacity, 0, 39, warm_start=last)
        assert last.value == by_scipy(40, *edges.T, capacity, 0, 39)
        capacity = changed(rng, np.minimum(capacity, 30))


@on_cpu
def test_flow_around_long_cycles():
    """Each unit that is taken back runs round the cycle: the repair must give up."""
    n = 3000
    around = np.arange(n)
    senders = np.concatenate([around, [n, 0]])
    receivers = np.concatenate([np.roll(around, -1), [0, n + 1]])
    network = jm.FlowNetwork.from_edges(senders, receivers, n + 2)
    capacity = np.full(n + 2, 2**29, np.int32)
    capacity[n:] = 5
    start = np.full(n + 2, 2**29, np.int32)
    for k in range(0, n, 7):
        start[k] -= k
    cold = jm.maximum_flow(network, capacity, n, n + 1)
    warm = jm.maximum_flow(network, capacity, n, n + 1, warm_start=start)
    assert_same(network, capacity, (n, n + 1), warm, cold)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_jit_batches_and_vmap(dtype):
    rng = np.random.default_rng(2)
    _, network, capacity = random_case(rng, 20, 60, 80, dtype)
    video = jnp.asarray(np.stack([changed(rng, capacity) for _ in range(5)]))
    cold = jm.maximum_flow(network, video, 0, 19)
    one = jm.maximum_flow(network, capacity, 0, 19)
    starts = (one, np.full(80, np.nan), cold.flow[::-1], np.ones(80, int))
    for start in starts:
        warm = jm.maximum_flow(network, video, 0, 19, warm_start=start)
        assert_same(network, video, (0, 19), warm, cold)
    solve = jax.jit(lambda c, start: jm.maximum_flow(network, c, 0, 19, warm_start=start))
    assert_same(network, video, (0, 19), solve(video, cold.flow[::-1]), cold)
    for axes in ((0, None), (0, 0)):
        start = one.flow if axes[1] is None else cold.flow[::-1]
        warm = jax.jit(jax.vmap(solve, axes))(video, start)
        assert_same(network, video, (0, 19), warm, cold)

    def step(flow, c):
        res = jm.maximum_flow(network, c, 0, 19, warm_start=flow)
        return res.flow, res

    _, warm = jax.lax.scan(step, jnp.zeros(80, dtype), video)
    assert_same(network, video, (0, 19), warm, cold)


@pytest.mark.parametrize("nearest", ["source", "sink"])
def test_minimum_cuts(nearest):
    rng = np.random.default_rng(3)
    _, network, capacity = random_case(rng, 20, 60, 80, "int32")
    flow = jm.maximum_flow(network, capacity, 0, 19)
    for _ in range(10):
        capacity = changed(rng, capacity)
        cold = jm.minimum_cut(network, capacity, 0, 19, nearest=nearest)
        for start in (flow, flow.flow, garbage(rng, capacity)):
            warm = jm.minimum_cut(network, capacity, 0, 19, nearest=nearest, warm_start=start)
            for name in ("value", "source_side", "status"):
                np.testing.assert_array_equal(getattr(warm, name), getattr(cold, name))


def test_gradients_are_those_of_a_cold_solve():
    rng = np.random.default_rng(4)
    _, network, capacity = random_case(rng, 20, 60, 80, "float32")
    start = jm.maximum_flow(network, capacity, 0, 19)

    def value(c, start=None):
        return jm.maximum_flow(network, c, 0, 19, warm_start=start).value

    near = jnp.asarray(capacity) + 0.25
    np.testing.assert_array_equal(jax.grad(value)(near, start), jax.grad(value)(near))


def test_the_twin_solves_cold():
    rng = np.random.default_rng(5)
    _, network, capacity = random_case(rng, 10, 20, 30, "int32")
    cold = jm.maximum_flow(network, capacity, 0, 9, method="xla")
    start = garbage(rng, capacity)
    warm = jm.maximum_flow(network, capacity, 0, 9, method="xla", warm_start=start)
    assert_same(network, capacity, (0, 9), warm, cold)


def test_errors_name_the_argument():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    capacity = np.ones(2)
    with pytest.raises(ValueError, match=r"`warm_start` has a flow of shape \(3,\)"):
        jm.maximum_flow(network, capacity, 0, 2, warm_start=np.ones(3))
    with pytest.raises(ValueError, match=r"`warm_start` .* does not broadcast"):
        jm.maximum_flow(network, capacity, 0, 2, warm_start=np.ones((4, 2)))
    with pytest.raises(TypeError, match=r"`warm_start` must be a Flow"):
        cut = jm.minimum_cut(network, capacity, 0, 2)
        jm.maximum_flow(network, capacity, 0, 2, warm_start=cut)
    with pytest.raises(TypeError, match=r"`warm_start` must be a Flow or real numbers"):
        jm.maximum_flow(network, capacity, 0, 2, warm_start=np.ones(2, bool))
