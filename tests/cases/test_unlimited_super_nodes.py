"""LAGraph's maximum flow hung where arcs of a super source and a super sink had capacity 2^63 or
infinity (GraphBLAS/LAGraph#395; of the same kind, dgleich/matlab-bgl#5)."""

import numpy as np
import pytest
from flow_helpers import by_scipy

import jaxmatch as jm


# Sources 1 and 2, sinks 5 and 6.
SENDERS = np.array([0, 0, 1, 2, 2, 3, 4, 4, 5, 6])
RECEIVERS = np.array([1, 2, 3, 3, 4, 5, 5, 6, 7, 7])
CAPACITY = np.array([-1, -1, 4, 3, 6, 5, 2, 3, -1, -1])  # -1: no limit


@pytest.mark.parametrize("big", [1e6, 1e12, 2.0**60, 2.0**63, 1e20, 1e30, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unlimited_super_nodes(dtype, big):
    network = jm.FlowNetwork.from_edges(SENDERS, RECEIVERS, num_nodes=8)
    value = by_scipy(8, SENDERS, RECEIVERS, np.where(CAPACITY < 0, 1000, CAPACITY), 0, 7)
    capacity = np.where(CAPACITY < 0, big, CAPACITY).astype(dtype)
    res = jm.maximum_flow(network, capacity, 0, 7)
    assert res.status == jm.Status.OPTIMAL and res.value == value
    assert res.flow[:2].sum() == res.flow[-2:].sum() == value
    assert jm.check_flow(network, capacity, 0, 7, res).optimal


@pytest.mark.parametrize("big", [1e6, 1e12, 2.0**60, 2.0**63, 1e20, 1e30, np.inf])
def test_a_path_between_super_nodes(big):
    network = jm.FlowNetwork.from_edges([0, 1, 2, 3], [1, 2, 3, 4], num_nodes=5)
    capacity = np.array([big, 10, 1, big])
    res = jm.maximum_flow(network, capacity, 0, 4)
    assert res.value == 1 and res.flow.tolist() == [1, 1, 1, 1]
    assert jm.check_flow(network, capacity, 0, 4, res).optimal
