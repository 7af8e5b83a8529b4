"""Bipartite matchings through maximum flow."""

import jax
import numpy as np
import pytest
from helpers import to_numpy, x64
from matching_helpers import (
    assert_all_maximum,
    assert_invalid,
    assert_maximum,
    by_scipy,
    families,
    random_graph,
)
from test_matching_invalid import DAMAGE, GRAPH, damaged

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


def solve(graph, **given):
    return jm.maximum_bipartite_matching(graph, method="flow", **given)


@pytest.mark.parametrize("padding", [0, 100])
def test_families(padding):
    graphs = [g for name, g in families(16).items() if name != "ladder"]  # scipy is exponential
    most = max(g.max_edges for g in graphs)
    batch = jm.BipartiteGraph.stack(graphs, num_edges=most + padding)
    res = solve(batch)
    np.testing.assert_array_equal(res.cardinality, [by_scipy(g) for g in graphs])
    assert_all_maximum(batch, res)
    assert jm.check_matching(batch, res).optimal.all()


@pytest.mark.parametrize("on", [False, True])
def test_random_graphs_alone_and_together(on):
    rng = np.random.default_rng(0)
    graphs = [random_graph(rng, 12, 15, e) for e in rng.integers(5, 50, 40)]
    expected = [by_scipy(g) for g in graphs]
    with x64(on):
        batch = jm.BipartiteGraph.stack(graphs)
        for res in (solve(batch), jax.jit(jax.vmap(solve))(batch)):
            np.testing.assert_array_equal(res.cardinality, expected)
            assert_all_maximum(batch, res)
            assert {x.dtype for x in jax.tree.leaves(res)} == {np.dtype("int32"), np.dtype(bool)}
        one = solve(graphs[0], init="cheap", warm_start=np.zeros(12, int), steps_per_call=2)
        assert_maximum(graphs[0], one)


def test_damage():
    graphs = [x for name in DAMAGE for x in (damaged(name), GRAPH)]
    batch = jax.tree.map(lambda *xs: np.stack(xs), *map(to_numpy, graphs))
    res = solve(batch)
    assert_invalid(jax.tree.map(lambda x: x[::2], res))
    np.testing.assert_array_equal(res.cardinality[1::2], by_scipy(GRAPH))
    assert jm.check_matching(batch, res).optimal[1::2].all()


def test_too_large_is_refused():
    def array(size):
        return jax.ShapeDtypeStruct((size,), np.int32)

    n, one = 2**29, jax.ShapeDtypeStruct((), np.int32)
    graph = jm.BipartiteGraph(array(n + 1), array(2), array(n + 1), array(2), one, one)
    with pytest.raises(ValueError, match="`method='flow'` takes graphs whose edges"):
        jax.eval_shape(solve, graph)
