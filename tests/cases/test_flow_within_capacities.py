"""networkx sent 18 along an arc of capacity 12 in a network with a self-loop
(networkx/networkx#425)."""

import networkx as nx
import numpy as np
from flow_helpers import by_scipy

import jaxmatch as jm


ARCS = [
    *[("s", 1, 12), ("s", 2, 6), ("s", 3, 14), (1, 2, 11), (2, 3, 9), (1, 4, 5), (1, 5, 2)],
    *[(2, 5, 4), (2, 6, 2), (3, 6, 31), (4, 5, 18), (5, 5, 9), (4, "t", 3), (5, "t", 7)],
    (6, "t", 22),
]


def test_flow_within_capacities():
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(ARCS, "capacity")
    network, capacity, nodes = jm.FlowNetwork.from_networkx(graph)
    s, t = nodes.index("s"), nodes.index("t")
    res = jm.maximum_flow(network, capacity, s, t)
    ends = np.asarray(network.senders), np.asarray(network.receivers)
    assert res.value == by_scipy(8, *ends, capacity, s, t)
    flow = np.asarray(res.flow)
    assert (0 <= flow).all() and (flow <= capacity).all()
    balance = np.bincount(ends[0], flow, 8) - np.bincount(ends[1], flow, 8)
    assert {nodes[v]: x for v, x in enumerate(balance) if x} == {"s": res.value, "t": -res.value}
