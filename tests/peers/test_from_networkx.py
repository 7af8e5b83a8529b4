"""Graphs and networks of networkx, against its own functions."""

import networkx as nx
import numpy as np
import pytest

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


def random_graph(kind, seed):
    graph = nx.gnm_random_graph(9, 20, seed=seed, directed=kind is nx.DiGraph)
    names = {k: f"node {k}" for k in graph}
    graph = kind(nx.relabel_nodes(graph, names))
    rng = np.random.default_rng(seed)
    for u, v in graph.edges:
        if rng.random() < 0.9:  # the others have no limit
            graph.edges[u, v]["weight"] = int(rng.integers(1, 9))
    return graph


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph])
@pytest.mark.parametrize("seed", range(4))
def test_maximum_flow(kind, seed):
    graph = random_graph(kind, seed)
    s, t = "node 3", "node 7"
    network, capacity, nodes = jm.FlowNetwork.from_networkx(graph, "weight")
    res = jm.maximum_flow(network, capacity, nodes.index(s), nodes.index(t))
    try:
        value, _ = nx.maximum_flow(graph, s, t, capacity="weight")
    except nx.NetworkXUnbounded:
        value = np.inf
    assert res.value == value
    if value < np.inf:
        first = {v for v, here in zip(nodes, res.source_side, strict=True) if here}
        left = sum(d.get("weight", np.inf) for u, v, d in graph.edges(data=True)
                   if u in first and v not in first or
                   not graph.is_directed() and v in first and u not in first)  # fmt: skip
        assert left == value


def test_parallel_edges_and_no_edges():
    graph = nx.MultiDiGraph([("s", "t", {"capacity": 2}), ("s", "t", {"capacity": 3})])
    network, capacity, nodes = jm.FlowNetwork.from_networkx(graph)
    assert nodes == ["s", "t"] and capacity.dtype == np.int64
    assert jm.maximum_flow(network, capacity, 0, 1).value == 5
    network, capacity, nodes = jm.FlowNetwork.from_networkx(nx.empty_graph(3))
    assert network.num_nodes == 3 and capacity.shape == (0,)


@pytest.mark.parametrize("seed", range(3))
def test_maximum_matching(seed):
    given = nx.bipartite.gnmk_random_graph(7, 9, 20, seed=seed)
    top = [v for v, side in given.nodes(data="bipartite") if side == 0]
    theirs = nx.bipartite.maximum_matching(given, top_nodes=top)
    for graph, rows, cols in (
        jm.BipartiteGraph.from_networkx(given),
        jm.BipartiteGraph.from_networkx(given, top_nodes=set(top)),
    ):
        assert rows == top and len(cols) == 9
        res = jm.maximum_bipartite_matching(graph)
        assert 2 * int(res.cardinality) == len(theirs)
        for i, j in enumerate(np.asarray(res.col4row)):
            assert j < 0 or given.has_edge(rows[i], cols[j])


def test_what_is_no_such_graph():
    with pytest.raises(TypeError, match="networkx graph"):
        jm.FlowNetwork.from_networkx([(0, 1)])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="networkx graph"):
        jm.BipartiteGraph.from_networkx(np.eye(2))
    with pytest.raises(ValueError, match="joins nodes of a side"):
        jm.BipartiteGraph.from_networkx(nx.complete_graph(3), top_nodes=[0])
    with pytest.raises(ValueError, match="must be nodes"):
        jm.BipartiteGraph.from_networkx(nx.complete_graph(3), top_nodes=[8])
    with pytest.raises(ValueError, match="attribute `bipartite`"):
        jm.BipartiteGraph.from_networkx(nx.complete_graph(3))
    graph = nx.DiGraph([(0, 1, {"capacity": "much"})])
    with pytest.raises(ValueError, match="must be a number"):
        jm.FlowNetwork.from_networkx(graph)
