"""Repeated calls with graphs of NumPy arrays: they run the prepared native call, and read the graph
anew each time."""

import jax
import numpy as np
import pytest
from helpers import to_numpy

import jaxmatch as jm
from jaxmatch._common import place
from jaxmatch._ffi.host_call import recorded_calls


def random_graph(rng, n, m, edges):
    rows, cols = rng.integers(0, n, edges), rng.integers(0, m, edges)
    graph = jm.BipartiteGraph.from_edges(rows, cols, (n, m))
    return jax.tree.map(np.array, graph)


def assert_solved(graph, res):
    fresh = jm.maximum_bipartite_matching(graph, method="hopcroft_karp")
    assert res.cardinality == fresh.cardinality
    assert jm.check_matching(graph, res).optimal


@pytest.mark.parametrize("method", ["auto", "pothen_fan"])
def test_later_calls_are_prepared(method):
    rng = np.random.default_rng(0)
    graph = random_graph(rng, 21, 23, 60)
    if not place.here(graph.row_ptr):
        pytest.skip("no native code here")
    first = jm.maximum_bipartite_matching(graph, method=method)
    with recorded_calls() as calls:  # prepared calls are not recorded
        again = jm.maximum_bipartite_matching(graph, method=method)
    assert not calls
    for x, y in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        assert type(x) is type(y) and x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
    assert_solved(graph, again)


def test_nothing_is_stale():
    rng = np.random.default_rng(1)
    graph = random_graph(rng, 20, 20, 50)
    for _ in range(3):
        assert_solved(graph, jm.maximum_bipartite_matching(graph))
    other = random_graph(rng, 20, 20, 50)
    graph, other = (
        jm.BipartiteGraph.stack([g], num_edges=60) for g in (graph, other)
    )  # one shape, hence one prepared call
    graph, other = (jax.tree.map(lambda x: np.array(x[0]), g) for g in (graph, other))
    jm.maximum_bipartite_matching(graph)
    for name in ("row_ptr", "col_ind", "col_ptr", "row_ind"):
        getattr(graph, name)[:] = getattr(other, name)
    assert_solved(graph, jm.maximum_bipartite_matching(graph))
    graph.row_ind[3] = 20
    assert jm.maximum_bipartite_matching(graph).status == jm.Status.INVALID_GRAPH
    graph.row_ind[3] = other.row_ind[3]
    assert_solved(graph, jm.maximum_bipartite_matching(graph))


def test_read_only_and_mixed_arrays():
    rng = np.random.default_rng(2)
    graph = random_graph(rng, 30, 17, 80)
    frozen = jax.tree.map(lambda x: np.asarray(x).view(), graph)
    for x in jax.tree.leaves(frozen):
        x.flags.writeable = False
    on_device = jax.tree.map(jax.numpy.asarray, graph)
    for g in (graph, frozen, on_device, frozen, on_device):
        for start in (None, np.full(30, -1, np.int32)):
            res = to_numpy(jm.maximum_bipartite_matching(g, warm_start=start))
            assert_solved(graph, res)
    half = jm.BipartiteGraph(
        graph.row_ptr, on_device.col_ind, graph.col_ptr, graph.row_ind, np.int32(30), np.int32(17)
    )
    assert_solved(graph, to_numpy(jm.maximum_bipartite_matching(half)))


def test_many_calls_with_a_graph_of_jax_arrays(monkeypatch):
    """After many calls of one shape, one compiled program solves them all."""
    monkeypatch.setattr(place, "CALLS_BEFORE_COMPILATION", 3)
    rng = np.random.default_rng(3)
    for _ in range(8):
        graph = random_graph(rng, 19, 18, 40)
        graph = jm.BipartiteGraph.stack([graph], num_edges=40)
        graph = jax.tree.map(lambda x: jax.numpy.asarray(x[0]), graph)
        res = jm.maximum_bipartite_matching(graph)
        assert isinstance(res.col4row, jax.Array)
        assert_solved(jax.tree.map(np.asarray, graph), to_numpy(res))
