"""igraph returned the value of a minimum cut of seven arcs with a wrong cut and wrong partitions
(igraph/igraph#77)."""

import numpy as np
from flow_helpers import by_scipy

import jaxmatch as jm


SENDERS = np.array([1, 2, 3, 1, 6, 5, 4]) - 1
RECEIVERS = np.array([2, 3, 4, 6, 5, 4, 1]) - 1
CAPACITY = np.array([3, 1, 2, 10, 1, 3, 2])


def test_partitions_of_a_minimum_cut():
    network = jm.FlowNetwork.from_edges(SENDERS, RECEIVERS, num_nodes=6)
    for sink in range(1, 6):
        value = by_scipy(6, SENDERS, RECEIVERS, CAPACITY, 0, sink)
        for nearest in ("source", "sink"):
            cut = jm.minimum_cut(network, CAPACITY, 0, sink, nearest=nearest)
            side = np.asarray(cut.source_side)
            assert side[0] and not side[sink]
            assert CAPACITY[side[SENDERS] & ~side[RECEIVERS]].sum() == cut.value == value
