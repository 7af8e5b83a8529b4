"""scipy's signatures, answered by our functions."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

import jaxmatch as jm


def maximum_bipartite_matching(graph: Any, perm_type: str = "row") -> np.ndarray:
    res = jm.maximum_bipartite_matching(jm.BipartiteGraph.from_scipy(graph))
    return np.asarray({"row": res.row4col, "column": res.col4row}[perm_type])


def maximum_flow(csgraph: Any, source: int, sink: int, *, method: str = "dinic") -> Any:
    """Both of scipy's methods are `"auto"` here."""
    network, capacity = jm.FlowNetwork.from_scipy(csgraph)
    res = jm.maximum_flow(network, capacity, source, sink).raise_for_status()
    edges = (np.asarray(network.senders), np.asarray(network.receivers))
    flow = type(csgraph)(sp.csr_array((np.asarray(res.flow), edges), shape=csgraph.shape))
    return SimpleNamespace(flow_value=int(res.value), flow=flow - flow.T)


REPLACED = {
    "scipy.optimize.linear_sum_assignment": jm.linear_sum_assignment,
    "scipy.sparse.csgraph.min_weight_full_bipartite_matching": (
        jm.min_weight_full_bipartite_matching
    ),
    "scipy.sparse.csgraph.maximum_bipartite_matching": maximum_bipartite_matching,
    "scipy.sparse.csgraph.maximum_flow": maximum_flow,
}
