"""Checks of cuts: every cut of small networks, wrong ones, and everything that JAX does."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_helpers import random_edges, random_networks
from helpers import assert_same_bits, to_numpy, x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform", "optimised")

N, EDGES, BATCH = 5, 16, 12
DTYPES = [("int32", False), ("float32", False), ("bfloat16", False), ("uint8", False)]
DTYPES += [("int64", True), ("float64", True), ("float32", True)]


def all_cuts(network, capacity, source, sink):
    """All cuts, minimum or not, as a batch of claims."""
    sides = np.array([*itertools.product([False, True], repeat=N)])
    sides = sides[sides[:, source] & ~sides[:, sink]]
    crosses = sides[:, network.senders] & ~sides[:, network.receivers]
    value = np.where(crosses, np.asarray(capacity), 0).sum(-1)
    status = np.zeros(len(sides), np.int32)
    return jm.MinimumCut(jnp.asarray(value), jnp.asarray(sides), status)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    network = random_networks(rng, BATCH, N, 8, EDGES)
    source = rng.integers(0, N, BATCH)
    sink = (source + rng.integers(1, N, BATCH)) % N
    return network, rng.integers(0, 4, (BATCH, EDGES)), source, sink


@pytest.mark.parametrize("dtype, wide", DTYPES)
def test_of_all_cuts_the_minimum_ones(batch, dtype, wide):
    network, capacity, source, sink = batch
    with x64(wide):
        check = jax.jit(jm.check_minimum_cut)
        for k in range(BATCH):
            one = jax.tree.map(lambda x: x[k], network)  # noqa: B023
            c = jnp.asarray(capacity[k], dtype)
            widened = c.astype({"bfloat16": "float32", "uint8": "int32"}.get(dtype, dtype))
            cuts = all_cuts(one, widened, source[k], sink[k])
            found = check(one, c, source[k], sink[k], cuts)
            assert found.valid.all()
            np.testing.assert_array_equal(found.optimal, cuts.value == cuts.value.min())
            for more in (1, -1):
                moved = check(one, c, source[k], sink[k], cuts.replace(value=cuts.value + more))
                assert not moved.valid.any() and not moved.optimal.any()


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("nearest", ["source", "sink"])
def test_moved_nodes(batch, nearest, dtype):
    """One node on the other side is another cut: of another capacity, or not to be refused."""
    network, capacity, source, sink = batch
    given = (network, capacity.astype(dtype), source, sink)
    cut = jm.minimum_cut(*given, nearest=nearest)
    assert jm.check_minimum_cut(*given, cut).optimal.all()
    for node in range(N):
        side = np.array(cut.source_side)
        side[:, node] ^= True
        check = jm.check_minimum_cut(*given, cut.replace(source_side=side))
        crosses = side[np.arange(BATCH)[:, None], network.senders]
        crosses = crosses & ~side[np.arange(BATCH)[:, None], network.receivers]
        same = np.where(crosses, capacity, 0).sum(-1) == np.asarray(cut.value)
        same &= (source != node) & (sink != node)
        np.testing.assert_array_equal(check.valid, same)
        np.testing.assert_array_equal(check.optimal, same)


def test_wrong_claims(batch):
    network, capacity, source, sink = batch
    for dtype in (np.int32, np.float32):
        given = (network, capacity.astype(dtype), source, sink)
        cut = jm.minimum_cut(*given)
        assert (cut.value > 0).any()
        wrong = [cut.replace(value=cut.value * 2 + 1), cut.replace(value=-cut.value - 1)]
        wrong += [cut.replace(source_side=~cut.source_side)]
        wrong += [cut.replace(source_side=jnp.ones_like(cut.source_side))]
        if dtype == np.float32:
            wrong += [cut.replace(value=x + 0 * cut.value) for x in (np.inf, -np.inf, np.nan)]
        for claim in wrong:
            check = jm.check_minimum_cut(*given, claim)
            assert not check.valid.any() and not check.optimal.any()
        wild = cut.replace(status=np.full(BATCH, 3))
        assert jm.check_minimum_cut(*given, wild).optimal.all()


@pytest.mark.parametrize("wide", [False, True])
def test_capacities_without_bound(wide):
    network = jm.FlowNetwork.from_edges([0, 1, 0], [1, 2, 2], 3)
    inf = np.inf
    with x64(wide):
        check = jax.jit(partial(jm.check_minimum_cut, network))
        c = jnp.array([[inf, 2, 1], [inf, inf, 1], [inf, inf, inf], [3, inf, 1], [1, 1, inf]])
        cut = jm.minimum_cut(network, c, 0, 2)
        assert cut.value.tolist() == [3, inf, inf, 4, inf]
        assert check(c, 0, 2, cut).optimal.all()
        last = jm.minimum_cut(network, c, 0, 2, nearest="sink")
        assert check(c, 0, 2, last).optimal.all()
        # Cuts of an infinite capacity where there is a finite one.
        sides = jnp.broadcast_to(jnp.array([True, False, False]), cut.source_side.shape)
        worst = cut.replace(value=cut.value.at[:].set(inf), source_side=sides)
        found = check(c, 0, 2, worst)
        assert found.valid.tolist() == [True, True, True, False, True]
        assert found.optimal.tolist() == [False, True, True, False, True]


def test_what_is_no_problem():
    """Capacities and ends that make no sense, no edges, no nodes."""
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    cut = jm.minimum_cut(network, np.ones(2, np.float32), 0, 2)
    for c in ([-1.0, 1], [1, np.nan]):
        assert not jm.check_minimum_cut(network, jnp.array(c), 0, 2, cut).valid
    for ends in ((0, 0), (-1, 2), (0, 3), (2, 0)):
        assert not jm.check_minimum_cut(network, np.ones(2, np.float32), *ends, cut).valid
    empty = jm.FlowNetwork.from_edges([], [], 2)
    for c in (np.zeros(0, np.int32), np.zeros(0, np.float32)):
        cut = jm.minimum_cut(empty, c, 0, 1)
        check = jm.check_minimum_cut(empty, c, 0, 1, cut)
        assert check.valid and check.optimal
        assert not jm.check_minimum_cut(empty, c, 0, 1, cut.replace(value=cut.value + 1)).valid
    for n in (0, 1):
        one = jm.FlowNetwork.from_edges([], [], n)
        cut = jm.MinimumCut(np.float32(0), np.ones(n, bool), np.int32(0))
        assert not jm.check_minimum_cut(one, np.zeros(0, np.float32), 0, 0, cut).valid


def test_batches_and_transformations():
    rng = np.random.default_rng(1)
    network = jm.FlowNetwork.from_edges(*random_edges(rng, N, 8, EDGES).T, N)
    capacity = rng.random((3, 1, EDGES)).astype(np.float32)
    sink = np.array([1, 4, 2, 3], np.int32)
    cut = to_numpy(jm.minimum_cut(network, capacity, 0, sink))
    expected = jm.check_minimum_cut(network, capacity, 0, sink, cut)
    assert expected.batch_shape == (3, 4) and expected.optimal.all()
    mapped = jax.vmap(
        jax.vmap(jm.check_minimum_cut, (None, None, None, 0, 0)), (None, 0, None, None, 0)
    )
    again = mapped(network, capacity[:, 0], 0, sink, cut)
    assert_same_bits(to_numpy(again), to_numpy(expected))
    assert_same_bits(
        to_numpy(jax.jit(jm.check_minimum_cut)(network, capacity, 0, sink, cut)), to_numpy(expected)
    )


def test_numbers_of_64_bits():
    """NumPy's count in full, x64 or not."""
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    for c in (np.array([2**40 + 1, 2**40 + 2]), np.array([1 + 2e-12, 1 + 4e-12])):
        cut = jm.minimum_cut(network, c, 0, 2)
        assert cut.value == c[0]
        assert jm.check_minimum_cut(network, c, 0, 2, cut).optimal
        assert not jm.check_minimum_cut(network, c, 0, 2, cut.replace(value=c[1])).valid
        other = cut.replace(value=c[1], source_side=np.array([True, True, False]))
        check = jm.check_minimum_cut(network, c, 0, 2, other)
        assert check.valid and not check.optimal


def test_a_solver_is_not_believed(monkeypatch):
    """A flow that is none proves nothing."""
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    c = np.array([5, 2], np.int32)
    liar = jm.Flow(np.int32(5), np.array([5, 5], np.int32), np.array([True, False, False]),
                   np.int32(0))  # fmt: skip
    monkeypatch.setattr("jaxmatch._flow.cut_check.maximum_flow", lambda *_: liar)
    cut = jm.MinimumCut(np.int32(5), np.array([True, False, False]), np.int32(0))
    check = jm.check_minimum_cut(network, c, 0, 2, cut)
    assert check.valid and not check.optimal


def test_arguments():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    c = np.ones(2, np.int32)
    cut = jm.minimum_cut(network, c, 0, 2)
    check = partial(jm.check_minimum_cut, network)
    with pytest.raises(ValueError, match=r"`capacity` must have shape \[..., 2\]"):
        check(np.ones(3, np.int32), 0, 2, cut)
    with pytest.raises(ValueError, match=r"`cut.source_side` must have shape \(3,\)"):
        check(c, 0, 2, cut.replace(source_side=np.ones(2, bool)))
    with pytest.raises(ValueError, match="`sink` has shape .* one for each of `cut.value`"):
        check(c, 0, np.array([1, 2]), cut)
    with pytest.raises(TypeError, match="`cut.value` must be integers as `capacity` is"):
        check(c, 0, 2, cut.replace(value=np.float32(1)))
