"""Batches, ends, arguments, options, and a maximum flow inside everything that JAX does."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_helpers import METHODS, SOME_METHODS, assert_failed, random_edges, random_networks
from helpers import assert_same_bits, to_numpy, x64
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


N, EDGES, BATCH = 9, 36, 8


@pytest.fixture(scope="module")
def shared():
    """One network with a batch of capacities and ends."""
    rng = np.random.default_rng(0)
    network = jm.FlowNetwork.from_edges(*random_edges(rng, N, 18, EDGES).T, N)
    source = rng.integers(0, N, BATCH)
    sink = (source + rng.integers(1, N, BATCH)) % N
    return network, rng.integers(0, 9, (BATCH, EDGES)), source, sink


@pytest.fixture(scope="module")
def batch(shared):
    """As many networks."""
    return random_networks(np.random.default_rng(1), BATCH, N, 18, EDGES), *shared[1:]


def one_by_one(solve, network, capacity, source, sink):
    results = []
    for k in range(BATCH):
        one = jax.tree.map(lambda x: x[k], network) if network.batch_shape else network  # noqa: B023
        results.append(solve(one, capacity[k], source[k], sink[k]))
    return jax.tree.map(lambda *xs: np.stack(xs), *map(to_numpy, results))


# ---------------------------------------------------------------------------------------------
# Batches


@pytest.mark.parametrize("method", SOME_METHODS[:-1])
def test_vmap_is_a_batch_is_a_loop(method, shared, batch, platform):
    solve = partial(jm.maximum_flow, method=method)
    for given, of_network in ((shared, None), (batch, 0)):
        given = (given[0], *map(jnp.asarray, given[1:]))
        expected = one_by_one(solve, *given)
        axes = (of_network, 0, 0, 0)
        nested = [x.reshape(4, 2, *x.shape[1:]) for x in given[1:]]
        network = given[0]
        if of_network == 0:
            network = jax.tree.map(lambda x: x.reshape(4, 2, *x.shape[1:]), network)
        for res in (
            solve(*given),
            jax.vmap(solve, axes)(*given),
            jax.jit(jax.vmap(jax.vmap(solve, axes), axes))(network, *nested),
            jax.vmap(solve, axes)(network, *nested),
            solve(network, *nested),
        ):
            flat = jax.tree.map(lambda x, like: np.reshape(x, like.shape), res, expected)
            if platform == "cpu":
                assert_same_bits(flat, expected)
            np.testing.assert_array_equal(flat.value, expected.value)


@pytest.mark.parametrize("method", SOME_METHODS)
def test_networks_mapped_over_one_axis_of_two(method, shared, batch):
    """Two networks, each with a batch of capacities; and the other way round."""
    networks, capacity, source, sink = batch
    two = jax.tree.map(lambda x: x[:2], networks)
    solve = partial(jm.maximum_flow, method=method)
    expected = np.array(
        [solve(jax.tree.map(lambda x: x[k], two), *batch[1:]).value for k in range(2)]  # noqa: B023
    )
    inner = jax.vmap(solve, (None, 0, 0, 0))
    outer = jax.vmap(inner, (0, None, None, None))(two, capacity, source, sink)
    np.testing.assert_array_equal(outer.value, expected)
    turned = jax.vmap(solve, (0, None, None, None))
    turned = jax.vmap(turned, (None, 0, 0, 0))(two, capacity, source, sink)
    np.testing.assert_array_equal(turned.value, expected.T)
    batched = jax.vmap(solve, (0, None, None, None))(two, capacity, source, sink)
    np.testing.assert_array_equal(batched.value, expected)


def test_ends_alone_may_be_mapped(shared):
    network, capacity, source, sink = shared
    c = capacity[0]
    expected = [int(jm.maximum_flow(network, c, s, t).value) for s, t in zip(source, sink)]  # noqa: B905
    for res in (
        jm.maximum_flow(network, c, source, sink),
        jax.vmap(lambda s, t: jm.maximum_flow(network, c, s, t))(source, sink),
        jax.jit(partial(jm.maximum_flow, network, c))(jnp.asarray(source), jnp.asarray(sink)),
    ):
        np.testing.assert_array_equal(res.value, expected)
    grid = jm.maximum_flow(network, c, source[:, None], sink)
    assert grid.value.shape == (BATCH, BATCH)
    np.testing.assert_array_equal(np.diagonal(grid.value), expected)


def test_one_network_is_not_copied(shared):
    """The native call gets it once, whatever is mapped around it."""
    if not jm.has_cpu_library():
        pytest.skip("needs the native library")
    network, capacity, *_ = shared
    solve = jax.jit(jax.vmap(jax.vmap(lambda c: jm.maximum_flow(network, c, 0, 1).value)))
    traced = solve.trace(jnp.asarray(capacity).reshape(4, 2, EDGES))
    text = traced.lower(lowering_platforms=("cpu",)).as_text()
    (call,) = [line for line in text.splitlines() if "custom_call @jaxmatch_flow(" in line]
    operands = call[call.rindex(": (") :]
    arcs = network.num_arcs
    assert f"tensor<{arcs}xi32>" in operands and f"tensor<4x2x1x{EDGES}xi32>" in operands


def test_an_infinite_value_needs_an_infinite_flow():
    """Of finite flows none proves it, whatever the cut."""
    network = jm.FlowNetwork.from_edges([0, 1, 0], [1, 2, 1], 3)
    for dtype, wide in ((np.float32, False), (np.float64, True)):
        with x64(wide):
            for capacity in ([3, 2, 1], [np.inf, 2, 1], [1, np.inf, 1]):
                c = np.array(capacity, dtype)
                res = jm.maximum_flow(network, c, 0, 2)
                assert jm.check_flow(network, c, 0, 2, res).optimal
                wrong = res.replace(value=np.full_like(res.value, np.inf))
                for side in (res.source_side, [True, False, False], [True, True, False]):
                    claim = wrong.replace(source_side=np.array(side))
                    check = jm.check_flow(network, c, 0, 2, claim)
                    assert not check.valid and not check.optimal


# ---------------------------------------------------------------------------------------------
# Ends


@pytest.mark.parametrize("method", METHODS)
def test_ends_that_are_none(method, shared):
    network, capacity, *_ = shared
    ends = [(0, 0), (-1, 1), (0, -1), (N, 1), (0, N), (2**31 - 1, 1), (0, -(2**31)), (3, 3)]
    source, sink = np.array(ends, np.int32).T
    for c in (capacity, capacity.astype(np.float32)):
        assert_failed(
            jm.maximum_flow(network, c, source, sink, method=method), jm.Status.INVALID_GRAPH
        )
    whole = jm.maximum_flow(network, capacity, np.where(source == 0, 0, source), 5, method=method)
    np.testing.assert_array_equal(whole.status == jm.Status.OPTIMAL, (source >= 0) & (source < N))


def test_wide_ends_do_not_wrap_around(shared):
    network, capacity, *_ = shared
    res = jm.maximum_flow(network, capacity[0], np.array([0, 2**32]), np.array([2**33 + 1, 1]))
    assert_failed(res, jm.Status.INVALID_GRAPH)
    with x64(True):
        res = jm.maximum_flow(network, capacity[0], jnp.array([2**32, 0]), jnp.array([1, 2**40]))
        assert_failed(res, jm.Status.INVALID_GRAPH)
        narrow = jm.maximum_flow(network, capacity[0], jnp.int8(0), np.uint64(5))
        assert narrow.status == jm.Status.OPTIMAL
    # A dtype that does not hold the number of nodes.
    path = jm.FlowNetwork.from_edges(np.arange(300), np.arange(1, 301), 301)
    for node in (jnp.int8(100), jnp.uint8(200), np.uint8(200), jnp.int16(300)):
        res = jm.maximum_flow(path, np.ones(300, np.int32), 0, node)
        assert res.status == jm.Status.OPTIMAL and res.value == 1


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("method", METHODS)
def test_capacities_that_are_none(method, dtype, shared):
    network, capacity, source, sink = shared
    bad = capacity.astype(dtype)
    bad[::2, 5] = -1
    if dtype == "float32":
        bad[2, 5], bad[4, 5] = np.nan, -np.inf
    res = to_numpy(jm.maximum_flow(network, bad, source, sink, method=method))
    assert_failed(jax.tree.map(lambda x: x[::2], res), jm.Status.INVALID_CAPACITY)
    whole = to_numpy(jm.maximum_flow(network, capacity, source, sink, method=method))
    np.testing.assert_array_equal(res.value[1::2], whole.value[1::2])
    assert not jm.check_flow(network, bad, source, sink, res).valid[::2].any()


# ---------------------------------------------------------------------------------------------
# Arguments


def test_arguments_are_checked(shared):
    network, capacity, source, sink = shared
    solve = partial(jm.maximum_flow, network)
    c = capacity[0]
    values = [
        (lambda: solve(c[:-1], 0, 1), r"`capacity` must have shape \[..., 36\].*got \(35,\)"),
        (lambda: solve(np.int32(1), 0, 1), r"`capacity` must have shape"),
        (lambda: solve(capacity, source[:3], 1), r"must broadcast together, got \(8,\), \(3,\)"),
        (lambda: solve(c, 0, 1, method="magic"), r"`method` must be one of \['auto', .*'magic'"),
        (lambda: solve(c, 0, 1, method=["auto"]), r"`method` must be one of"),
        (lambda: solve(c, 0, 1, steps_per_call=0), "`steps_per_call` must be an integer from 1"),
        (lambda: solve(c, 0, 1, options={"tile": 4}), "method 'auto' takes no options, got 'tile'"),
        (
            lambda: solve(c, 0, 1, method="two_level", options={"tile": 5}),
            r"`options\['tile'\]` must be one of \['degree', 4, 8, 16, 32\], got 5",
        ),
        (
            lambda: solve(c, 0, 1, method="thread_centric", options={"cycle": 0.5}),
            r"`options\['cycle'\]` must be an integer from 1 to 10.9, got 0.5",
        ),
    ]
    for call, message in values:
        with pytest.raises(ValueError, match=message):
            call()
    types = [
        (lambda: jm.maximum_flow(np.eye(3), c, 0, 1), "must be a FlowNetwork, got ndarray"),
        (lambda: solve(c.astype(complex), 0, 1), "`capacity` must have one of the dtypes"),
        (lambda: solve(c, 0.0, 1), "`source` must be the number of a node.*got float64"),
        (lambda: solve(c, 0, True), "`sink` must be the number of a node.*got bool"),
        (lambda: solve(c, 0, 1, options="tile"), "`options` must be a dict, got str"),
    ]
    for call, message in types:
        with pytest.raises(TypeError, match=message):
            call()
    broken = jax.tree.map(lambda x: x, network)
    object.__setattr__(broken, "arc_partner", network.arc_partner[:-1])
    with pytest.raises(ValueError, match=r"`network.arc_partner` must have 36 entries"):
        jm.maximum_flow(broken, c, 0, 1)


@pytest.mark.parametrize("method, options", [
    ("two_level", {"tile": 8}), ("two_level", {"tile": "degree", "cycle": 100}),
    ("thread_centric", {"cycle": np.int64(7)}),
])  # fmt: skip
def test_options_for_gpus_are_accepted_everywhere(method, options, shared):
    expected = jm.maximum_flow(*shared)
    res = jm.maximum_flow(*shared, method=method, options=options, steps_per_call=3)
    np.testing.assert_array_equal(res.value, expected.value)


def test_a_check_trusts_nobody(shared):
    network, capacity, source, sink = shared
    for dtype in (np.int32, np.float32):
        c = capacity.astype(dtype)
        res = jm.maximum_flow(network, c, source, sink)
        check = partial(jm.check_flow, network, c, source, sink)
        assert check(res).optimal.all()
        more = check(res.replace(value=res.value + 1))
        assert not more.valid.any() and not more.optimal.any()
        flow = np.array(res.flow)
        flow[:, 0] += c[:, 0] + 1
        assert not check(res.replace(flow=flow)).valid.any()
        assert not check(res.replace(flow=res.flow - 1)).valid.any()
        none = check(res.replace(flow=0 * res.flow, value=0 * res.value))
        assert none.valid.all()
        np.testing.assert_array_equal(none.optimal, res.value == 0)
        for side in (jnp.zeros((BATCH, N), bool), jnp.ones((BATCH, N), bool)):
            other = check(res.replace(source_side=side))
            assert other.valid.all() and not other.optimal.any()
        with pytest.raises(ValueError, match="`result.flow` must have shape"):
            check(res.replace(flow=res.flow[:, 1:]))
    with pytest.raises(TypeError, match="`capacity` must be floats"):
        jm.check_flow(network, capacity, source, sink, res)


# ---------------------------------------------------------------------------------------------
# A citizen of JAX


@pytest.mark.parametrize("axis", [AxisType.Auto, AxisType.Explicit])
def test_networks_on_a_mesh(axis, batch, platform):
    """Each device has its own networks."""
    devices = jax.devices(platform)[:4]
    if len(devices) < 4:
        pytest.skip("needs four devices")
    mesh = jax.make_mesh((4,), ("batch",), axis_types=(axis,), devices=devices)
    expected = jm.maximum_flow(*batch)
    with jax.set_mesh(mesh):
        place = NamedSharding(mesh, PartitionSpec("batch"))
        network, c, *ends = jax.device_put((batch[0], *map(jnp.asarray, batch[1:])), place)
        res = jax.jit(jm.maximum_flow)(network, c, *ends)
        value = lambda c: jm.maximum_flow(network, c, *ends).value.sum()  # noqa: E731
        gradient = jax.jit(jax.grad(value))(c.astype(jnp.float32))
    assert len(res.status.sharding.device_set) == 4
    np.testing.assert_array_equal(res.value, expected.value)
    np.testing.assert_array_equal((np.asarray(gradient) * batch[1]).sum(-1), expected.value)


def test_in_a_scan_and_without_native_libraries(shared, monkeypatch):
    network, capacity, source, sink = shared

    def step(total, given):
        value = jm.maximum_flow(network, *given).value
        return total + value, value

    given = tuple(jnp.asarray(x, jnp.int32) for x in (capacity, source, sink))
    total, values = jax.jit(partial(jax.lax.scan, step))(jnp.int32(0), given)
    np.testing.assert_array_equal(values, jm.maximum_flow(*shared).value)
    monkeypatch.setattr("jaxmatch._library.libraries.has_cpu_library", lambda: False)
    monkeypatch.setattr("jaxmatch._library.libraries.has_cuda_library", lambda: False)
    alone = jm.maximum_flow(network, *(x[:7] for x in given))  # of a shape that is not compiled yet
    np.testing.assert_array_equal(alone.value, values[:7])
    assert total == values.sum()
