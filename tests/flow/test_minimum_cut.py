"""Of all minimum cuts the one nearest to the source, or to the sink, against all cuts there are."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_helpers import random_edges, random_networks
from helpers import assert_same_bits, to_numpy
from test_flow_invalid import DAMAGE, changed

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")

N, EDGES, BATCH = 6, 20, 24


def all_minimum_cuts(senders, receivers, capacity, source, sink):
    """The least capacity of a cut, and the source sides `[cuts, n]` that have it."""
    sides = np.array([*itertools.product([False, True], repeat=N)])
    sides = sides[sides[:, source] & ~sides[:, sink]]
    crosses = sides[:, senders] & ~sides[:, receivers]
    total = np.where(crosses, capacity, 0).sum(-1)
    return total.min(), sides[total == total.min()]


def assert_nearest(cut, edges, capacity, source, sink, nearest):
    """The least side holds no node that another does not; the greatest holds every node of all."""
    value, sides = all_minimum_cuts(*edges, capacity, source, sink)
    assert (cut.status, cut.value) == (jm.Status.OPTIMAL, value)
    expected = sides.all(0) if nearest == "source" else sides.any(0)
    np.testing.assert_array_equal(cut.source_side, expected)


@pytest.fixture(scope="module", params=["one network", "many networks"])
def batch(request):
    """Small capacities: many cuts are minimum."""
    rng = np.random.default_rng(0)
    network = random_networks(rng, BATCH, N, 9, EDGES)
    if request.param == "one network":
        network = jm.FlowNetwork.from_edges(*random_edges(rng, N, 9, EDGES).T, N)
    source = rng.integers(0, N, BATCH)
    sink = (source + rng.integers(1, N, BATCH)) % N
    return network, rng.integers(0, 3, (BATCH, EDGES)).astype(np.int32), source, sink


@pytest.mark.parametrize(
    "method, dtype", [("auto", "int32"), ("auto", "float32"), ("xla", "int32")]
)
@pytest.mark.parametrize("nearest", ["source", "sink"])
def test_against_all_cuts(batch, nearest, method, dtype):
    network, capacity, source, sink = batch
    capacity = capacity.astype(dtype)

    solve = partial(jm.minimum_cut, method=method, nearest=nearest)
    cuts = to_numpy(jax.jit(solve)(network, capacity, source, sink))
    for k in range(BATCH):
        edges = [x[k] if x.ndim == 2 else x for x in (network.senders, network.receivers)]
        assert_nearest(cuts[k], edges, capacity[k], source[k], sink[k], nearest)
    if method == "auto":
        assert_same_bits(solve(network, capacity, source, sink), cuts)


def test_vmap_is_a_batch(batch):
    network, *given = batch
    solve = partial(jm.minimum_cut, nearest="sink")
    mapped = jax.vmap(solve, (0 if network.batch_shape else None, 0, 0, 0))(network, *given)
    assert_same_bits(mapped, solve(network, *given))


def test_gradient_is_that_of_the_cut():
    network = jm.FlowNetwork.from_edges([0, 1, 2, 3], [1, 2, 3, 0], 4)
    for nearest, expected in (("source", [1, 0, 0, 0]), ("sink", [0, 0, 1, 0])):
        gradient = jax.grad(lambda c: jm.minimum_cut(network, c, 0, 3, nearest=nearest).value)  # noqa: B023
        np.testing.assert_array_equal(gradient(jnp.ones(4)), expected)


def test_no_finite_cut():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    cut = jm.minimum_cut(network, jnp.array([jnp.inf, jnp.inf]), 0, 2, nearest="sink")
    assert cut.value == jnp.inf and cut.source_side.tolist() == [True, True, False]


def test_what_cannot_be_solved_has_no_side():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    capacity = jnp.array([[1.0, -1.0], [jnp.nan, 1.0], [1.0, 1.0]])
    cut = jm.minimum_cut(network, capacity, 0, 2, nearest="sink")
    bad = jm.Status.INVALID_CAPACITY
    assert cut.status.tolist() == [bad, bad, jm.Status.OPTIMAL]
    assert not cut.source_side[:2].any() and jnp.isnan(cut.value[:2]).all()
    assert jm.minimum_cut(network, capacity[2], 1, 1, nearest="sink").status == (
        jm.Status.INVALID_GRAPH
    )


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_damaged_networks_stay_so(method):
    """With the edges turned round."""
    batch = jax.tree.map(lambda *xs: jnp.stack(xs), *(changed(*x) for x in DAMAGE.values()))
    capacity = np.array([4, 3, 1, 2, 5, 1, 6, 2], np.int32)
    solve = partial(jm.minimum_cut, method=method, nearest="sink")
    names = np.array([*DAMAGE])
    for call in (jax.jit(solve),) if method == "xla" else (solve, jax.jit(solve)):
        cut = call(batch, capacity, 0, 3)
        assert set(names[np.asarray(cut.status) != jm.Status.INVALID_GRAPH]) == set()
        assert not cut.source_side.any() and (cut.value == -1).all()


@pytest.mark.parametrize("n, e", [(2, 0), (3, 0), (2, 2)])
def test_without_arcs(n, e):
    """No edges, or self-loops alone."""
    network = jm.FlowNetwork.from_edges([1] * e, [1] * e, n)
    cut = jm.minimum_cut(network, np.ones(e, np.int32), 0, n - 1, nearest="sink")
    assert cut.value == 0 and cut.source_side.tolist() == [True] * (n - 1) + [False]


def test_arguments():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    with pytest.raises(ValueError, match="`nearest` must be 'source' or 'sink', got 'both'"):
        jm.minimum_cut(network, np.ones(2), 0, 2, nearest="both")
    with pytest.raises(TypeError, match="`source` must be the number of a node"):
        jm.minimum_cut(network, np.ones(2), 0.5, 2, nearest="sink")
    with pytest.raises(ValueError, match="`method` must be one of"):
        jm.minimum_cut(network, np.ones(2), 0, 2, nearest="sink", method="none")
