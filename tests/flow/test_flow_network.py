"""Flow networks: built from everything, checked once, and carried through JAX."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from flow_helpers import LAYOUTS, SOME_METHODS, by_search, random_edges
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


SIZES = [(2, 1, 1), (0, 0, 0), (5, 10, 12), (9, 4, 30), (1, 0, 0), (6, 0, 3)]


def unequal_networks(rng):
    found = []
    for n, pairs, e in SIZES:
        loops = np.zeros((e, 2), int)
        edges = random_edges(rng, n, pairs, e) if pairs else loops
        found.append(FlowNetwork.from_edges(*edges.T, n))
    return found


@pytest.mark.parametrize("asked", [{}, {"num_nodes": 11, "num_edges": 64, "num_arcs": 84}], ids=str)
def test_stack(asked):
    """Padded networks are networks, and have the flows of their own."""
    rng = np.random.default_rng(3)
    networks = unequal_networks(rng)
    batch = FlowNetwork.stack(networks, **asked)
    sizes = {name: asked.get(name, max(getattr(x, name) for x in networks)) for name in
             ("num_nodes", "num_edges", "num_arcs")}  # fmt: skip
    assert batch.batch_shape == (len(networks),)
    assert {name: getattr(batch, name) for name in sizes} == sizes
    capacity = rng.integers(0, 9, (len(networks), batch.num_edges)).astype(np.int32)
    sink = np.array([max(x.num_nodes - 1, 1) for x in networks], np.int32)
    for k, network in enumerate(networks):
        one = to_numpy(jax.tree.map(lambda x: x[k], batch))  # noqa: B023
        e, n = network.num_edges, sizes["num_nodes"]
        np.testing.assert_array_equal(one.senders[:e], network.senders)
        np.testing.assert_array_equal(one.receivers[:e], network.receivers)
        assert not one.senders[e:].any() and not one.receivers[e:].any()
        assert len(np.unique(one.arc_head + n * np.repeat(np.arange(n), np.diff(one.arc_ptr)))) == (
            one.num_arcs
        )
    for method in SOME_METHODS:
        res = to_numpy(jm.maximum_flow(batch, capacity, 0, sink, method=method))
        assert (res.status == jm.Status.OPTIMAL).all()
        for k in range(len(networks)):
            edges = batch.senders[k], batch.receivers[k]
            value, side = by_search(batch.num_nodes, *edges, capacity[k], 0, int(sink[k]))
            assert res.value[k] == value
            np.testing.assert_array_equal(res.source_side[k], side)
        assert jm.check_flow(batch, capacity, 0, sink, jm.Flow(**vars(res))).optimal.all()


def test_stacks_of_stacks():
    networks = [FlowNetwork.from_edges([0] * k, [1] * k, 2 + k) for k in range(3)]
    pairs = [FlowNetwork.stack(networks[:2]), FlowNetwork.stack(networks[1:])]
    nested = FlowNetwork.stack(pairs)
    assert nested.batch_shape == (2, 2) and (nested.num_nodes, nested.num_edges) == (4, 2)
    res = jm.maximum_flow(nested, np.ones((2, 2, 2), np.int32), 0, 1)
    assert res.value.tolist() == [[0, 1], [1, 2]]


def test_stacks_of_one_size_are_not_changed():
    network = FlowNetwork.from_edges([0, 1], [1, 2], 3)
    network = dataclasses.replace(network, arc_partner=-network.arc_partner)
    batch = FlowNetwork.stack([network, network])
    np.testing.assert_array_equal(batch.arc_partner, np.stack([network.arc_partner] * 2))
    assert (jm.maximum_flow(batch, [1, 1], 0, 2).status == jm.Status.INVALID_GRAPH).all()


def test_stacks_that_are_refused():
    network = FlowNetwork.from_edges([0, 1], [1, 2], 3)
    with pytest.raises(ValueError, match="`networks` must hold at least one network"):
        FlowNetwork.stack([])
    with pytest.raises(TypeError, match="`networks` must be a list of networks, got FlowNetwork"):
        FlowNetwork.stack(network)
    with pytest.raises(TypeError, match=r"`networks\[0\]` must be a FlowNetwork, got int"):
        FlowNetwork.stack([3])
    for name, least in (("num_nodes", 3), ("num_edges", 2), ("num_arcs", 4)):
        with pytest.raises(ValueError, match=f"`{name}` must be from {least}, the largest"):
            FlowNetwork.stack([network], **{name: least - 1})
    with pytest.raises(ValueError, match="`num_arcs` must be from 4, the largest, to 6; got 8"):
        FlowNetwork.stack([network], num_arcs=8)
    with pytest.raises(ValueError, match="`num_arcs` must be even"):
        FlowNetwork.stack([network], num_arcs=5)
    with pytest.raises(ValueError, match="`num_edges` must be from 0, the largest, to 0; got 1"):
        FlowNetwork.stack([FlowNetwork.from_edges([], [], 0)], num_edges=1)
    with pytest.raises(ValueError, match=r"one layout, got \['rcsr', 'csr'\]"):
        FlowNetwork.stack([network, FlowNetwork.from_edges([0], [1], 2, layout="csr")])
    with pytest.raises(ValueError, match=r"networks\[1\] has \(1,\) and networks\[0\] has \(\)"):
        FlowNetwork.stack([network, FlowNetwork.stack([network])])
    with pytest.raises(TypeError, match="is traced .* networks are built on the host"):
        jax.jit(lambda x: FlowNetwork.stack([x]))(network)


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
    "negative": (([], [], -1), ValueError, r"`num_nodes` must be from 0 to 1073741823, got -1"),
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
