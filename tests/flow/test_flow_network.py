"""Flow networks: built from everything, checked once, and carried through JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from flow_helpers import LAYOUTS, random_edges
from helpers import to_numpy, x64

import jaxmatch as jm
from jaxmatch import FlowNetwork


def assert_consistent(network, senders, receivers, n):
    """Every array is what its documentation says, by the slow way."""
    x = to_numpy(network)
    for leaf in jax.tree.leaves(network):
        assert isinstance(leaf, jax.Array) and leaf.dtype == jnp.int32
    np.testing.assert_array_equal(x.senders, senders)
    np.testing.assert_array_equal(x.receivers, receivers)
    edges = list(zip(senders, receivers, strict=True))
    pairs = {(u, v) for u, v in edges if u != v}
    arcs = sorted(pairs | {(v, u) for u, v in pairs})
    assert (x.num_nodes, x.num_edges, x.num_arcs) == (n, len(edges), len(arcs))
    tails = np.repeat(np.arange(n), np.diff(x.arc_ptr))
    assert x.arc_ptr[0] == 0 and list(zip(tails, x.arc_head, strict=True)) == arcs
    assert [arcs[p] for p in x.arc_partner] == [(v, u) for u, v in arcs]
    of_arc = [x.arc_edge[a:b].tolist() for a, b in zip(x.edge_ptr, x.edge_ptr[1:], strict=False)]
    assert x.edge_ptr[0] == 0
    assert of_arc == [[k for k, edge in enumerate(edges) if edge == arc] for arc in arcs]
    loops = [k for k, (u, v) in enumerate(edges) if u == v]
    np.testing.assert_array_equal(x.arc_edge[x.edge_ptr[-1] :], loops)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_edges(layout):
    rng = np.random.default_rng(0)
    for n, pairs, e in [(2, 1, 1), (3, 3, 3), (4, 2, 9), (9, 20, 50), (40, 30, 35), (30, 200, 500)]:
        senders, receivers = random_edges(rng, n, pairs, e).T
        network = FlowNetwork.from_edges(senders, receivers, n, layout=layout)
        assert_consistent(network, senders, receivers, n)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n, edges", [
    (0, []), (1, []), (5, []), (1, [(0, 0), (0, 0)]), (2, [(1, 1), (0, 1), (1, 1), (0, 0)]),
    (2, [(0, 1), (1, 0), (0, 1), (1, 0)]), (3, [(2, 0), (2, 0), (2, 0)]),
])  # fmt: skip
def test_small_and_odd(layout, n, edges):
    senders, receivers = np.array(edges, int).reshape(-1, 2).T
    network = FlowNetwork.from_edges(senders, receivers, n, layout=layout)
    assert_consistent(network, senders, receivers, n)


def test_many_kinds_of_integers():
    for dtype in (np.int8, np.uint16, np.int32, np.uint64):
        network = FlowNetwork.from_edges(np.array([0, 2], dtype), np.array([1, 1], dtype), 3)
        assert_consistent(network, [0, 2], [1, 1], 3)
    assert_consistent(
        FlowNetwork.from_edges([0, 2], jnp.array([1, 1]), np.int64(3)), [0, 2], [1, 1], 3
    )
    with x64(True):
        assert_consistent(FlowNetwork.from_edges([0, 2], [1, 1], 3), [0, 2], [1, 1], 3)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_from_scipy(kind):
    dense = np.array([[1, 5, 0], [0, 0, 2], [3, 4, 0]], np.int32)
    network, capacity = FlowNetwork.from_scipy(kind(dense), layout="csr")
    senders, receivers = np.nonzero(dense)
    assert_consistent(network, senders, receivers, 3)
    np.testing.assert_array_equal(capacity, dense[senders, receivers])
    assert capacity.dtype == np.int32
    assert jm.maximum_flow(network, capacity, 0, 2).value == 2


def test_stored_zeros_and_duplicates_are_edges():
    matrix = sp.csr_array((np.array([4, 0, 3, 7]), [1, 2, 1, 0], [0, 3, 4, 4]), shape=(3, 3))
    network, capacity = FlowNetwork.from_scipy(matrix)
    assert_consistent(network, [0, 0, 0, 1], [1, 2, 1, 0], 3)
    np.testing.assert_array_equal(capacity, [4, 0, 3, 7])
    capacity[0] = 9
    assert matrix.data[0] == 4


def test_networks_of_one_shape_share_a_program():
    traced = []
    solve = jax.jit(lambda network: traced.append(1) or network.arc_ptr)
    rng = np.random.default_rng(1)
    for _ in range(3):
        edges = random_edges(rng, 60, 400, 500)
        solve(FlowNetwork.from_edges(*edges.T, 60))
    assert len(traced) == 1


def test_a_pytree():
    network = FlowNetwork.from_edges([0, 1], [1, 2], 3)
    same = jax.jit(lambda x: x)(network)
    assert same.layout == "rcsr"
    np.testing.assert_array_equal(same.arc_head, network.arc_head)
    assert repr(same) == "FlowNetwork(num_nodes=3, num_edges=2, layout='rcsr')"
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), network)
    assert batch.batch_shape == (2,) and "batch_shape=(2,)" in repr(batch)
    assert "FlowNetwork" in repr(jax.tree.structure(network).unflatten([object()] * 7))


REFUSED = {
    "sender": (
        ([0, 3], [1, 1], 3),
        ValueError,
        r"`senders` holds 3 for edge 1, where 3 nodes.*index < 3",
    ),
    "receiver": (([0, 1], [-1, 1], 3), ValueError, r"`receivers` holds -1 for edge 0"),
    "wide": (([0], [2**32], 3), ValueError, r"`receivers` holds 4294967296 for edge 0"),
    "no nodes": (([0], [0], 0), ValueError, r"`senders` holds 0 for edge 0, where 0 nodes"),
    "lengths": (([0, 1], [1], 3), ValueError, r"lengths 2 and 1"),
    "floats": (([0.0], [1], 3), ValueError, r"`senders` must hold integers, got float64"),
    "bools": (([0], [True], 3), ValueError, r"`receivers` must hold integers, got bool"),
    "dimensions": (([[0]], [1], 3), ValueError, r"one dimension, got shape \(1, 1\)"),
    "negative": (([], [], -1), ValueError, r"`num_nodes` must be from 0 to 2\^30 - 1, got -1"),
    "too many": (([], [], 2**30), ValueError, r"`num_nodes` must be from 0"),
    "fraction": (([], [], 2.5), ValueError, r"`num_nodes` must be an integer.*got 2.5"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    given, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        FlowNetwork.from_edges(*given)


def test_refused_in_other_ways():
    with pytest.raises(ValueError, match=r"`layout` must be one of \['csr', .*got 'coo'"):
        FlowNetwork.from_edges([0], [1], 2, layout="coo")
    with pytest.raises(TypeError, match="`senders` is traced .* built on the host"):
        jax.jit(lambda x: FlowNetwork.from_edges(x, [1], 2))(jnp.array([0]))
    with pytest.raises(TypeError, match="must be a scipy.sparse matrix or array, got ndarray"):
        FlowNetwork.from_scipy(np.eye(3))
    with pytest.raises(ValueError, match=r"must be square.*got shape \(2, 3\)"):
        FlowNetwork.from_scipy(sp.csr_array((2, 3)))
    broken = sp.csr_array(np.eye(3))
    broken.indptr = np.array([0, 2, 1, 3], np.int32)
    with pytest.raises(ValueError, match="`matrix.indptr` must rise"):
        FlowNetwork.from_scipy(broken)
