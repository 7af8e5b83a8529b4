"""Arcs of capacity 2^63 into a dead end, and out of a node that nothing enters, hid a flow of 1."""

import numpy as np
import pytest

import jaxmatch as jm


@pytest.mark.parametrize("big", [1e6, 1e12, 2.0**60, 2.0**63, 1e20, 1e30, np.inf])
def test_unlimited_dead_ends(big):
    network = jm.FlowNetwork.from_edges([0, 1, 0, 4], [1, 2, 3, 2], num_nodes=5)
    capacity = np.array([10, 1, big, big])
    res = jm.maximum_flow(network, capacity, 0, 2)
    assert res.value == 1 and res.flow.tolist() == [1, 1, 0, 0]
    assert jm.check_flow(network, capacity, 0, 2, res).optimal
