"""`max_flow` of MatlabBGL crashed where source and sink are one node (dgleich/matlab-bgl#13)."""

import numpy as np

import jaxmatch as jm


def test_source_that_is_the_sink():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    res = jm.maximum_flow(network, np.ones(2), 1, 1)
    assert res.status == jm.Status.INVALID_GRAPH and np.isnan(res.value)
