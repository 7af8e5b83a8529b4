"""Users of networkx have graphs whose nodes are names, and arcs without a capacity, which have no
limit; no function read them."""

import networkx as nx

import jaxmatch as jm


def test_networks_of_networkx():
    graph = nx.DiGraph()
    graph.add_edge("x", "a", capacity=3.0)
    graph.add_edge("x", "b", capacity=1.0)
    graph.add_edge("a", "c")
    graph.add_edge("b", "c", capacity=5.0)
    graph.add_edge("b", "d", capacity=4.0)
    graph.add_edge("d", "e", capacity=2.0)
    graph.add_edge("c", "y", capacity=2.0)
    graph.add_edge("e", "y")
    network, capacity, nodes = jm.FlowNetwork.from_networkx(graph)
    res = jm.maximum_flow(network, capacity, nodes.index("x"), nodes.index("y"))
    assert res.value == nx.maximum_flow_value(graph, "x", "y") == 3


def test_integers_of_more_than_64_bits():
    """Such as stand for "no limit"; networkx takes them."""
    graph = nx.DiGraph()
    graph.add_edge("x", "a", capacity=2**70)
    graph.add_edge("a", "y", capacity=3)
    network, capacity, nodes = jm.FlowNetwork.from_networkx(graph)
    res = jm.maximum_flow(network, capacity, nodes.index("x"), nodes.index("y"))
    assert res.value == nx.maximum_flow_value(graph, "x", "y") == 3
