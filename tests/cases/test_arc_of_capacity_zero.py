"""networkx raised a KeyError for one arc of capacity 0 (networkx/networkx#733)."""

import networkx as nx

import jaxmatch as jm


def test_arc_of_capacity_zero():
    graph = nx.DiGraph([("s", "t", {"capacity": 0})])
    network, capacity, _ = jm.FlowNetwork.from_networkx(graph)
    res = jm.maximum_flow(network, capacity, 0, 1)
    assert res.status == jm.Status.OPTIMAL and res.value == 0 and res.flow.tolist() == [0]
