"""Solvers of others for one problem of a map: functions of its arrays that return the value."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import (
    maximum_bipartite_matching,
    maximum_flow,
    min_weight_full_bipartite_matching,
)
from scipy.spatial.distance import cdist


Peer = Callable[..., float]


def _paid(cost: np.ndarray, rows: Any, cols: Any) -> float:
    return float(cost[rows, cols].sum(dtype=np.float64))


def scipy_assignment(cost: np.ndarray) -> float:
    return _paid(cost, *linear_sum_assignment(cost))


def lapx_assignment(cost: np.ndarray) -> float:
    import lap

    _, rows, cols = lap.lapjvx(np.asarray(cost, np.float64), extend_cost=True)
    return _paid(cost, rows, cols)


def pot_transport(cost: np.ndarray, supply: np.ndarray, demand: np.ndarray) -> float:
    import ot

    a, b = (np.asarray(x, np.float64) / np.sum(x, dtype=np.float64) for x in (supply, demand))
    value: Any = ot.emd2(a, b, np.asarray(cost, np.float64), numItermax=10**9)
    return float(supply.sum(dtype=np.float64) * value)


def pot_capacities(capacity: int, cost: np.ndarray) -> float:
    """Rows have one unit of mass each, and a row without costs has what columns do not take."""
    n, m = cost.shape
    spare = capacity * m - n
    wide = np.concatenate([cost, np.zeros((1, m), cost.dtype)])
    return pot_transport(wide, np.append(np.ones(n), spare), np.full(m, float(capacity)))


def scipy_gated(edges: np.ndarray, n: int, price: float, cost: np.ndarray) -> float:
    """Each row has a column of its own at the price. All costs are higher: SciPy takes no 0."""
    rows = np.concatenate([edges[:, 0], np.arange(n)])
    cols = np.concatenate([edges[:, 1], n + np.arange(n)])
    higher = np.concatenate([cost.astype(np.float64), np.full(n, price)]) + 1
    graph = sp.csr_array((higher, (rows, cols)), (n, 2 * n))
    found = min_weight_full_bipartite_matching(graph)
    return float(graph[found].sum() - n)


def scipy_assignment_of_points(x: np.ndarray, y: np.ndarray) -> float:
    """Squared distances, whose matrix is part of the time."""
    return scipy_assignment(cdist(x, y, "sqeuclidean"))


def pot_transport_of_points(
    x: np.ndarray, y: np.ndarray, supply: np.ndarray, demand: np.ndarray
) -> float:
    return pot_transport(cdist(x, y, "sqeuclidean"), supply, demand)


def scipy_matching(edges: np.ndarray, n: int, _: Any) -> float:
    graph = sp.csr_array((np.ones(len(edges), bool), (edges[:, 0], edges[:, 1])), (n, n))
    return float((maximum_bipartite_matching(graph) >= 0).sum())


def scipy_flow(edges: np.ndarray, n: int, capacity: np.ndarray) -> float:
    graph = sp.csr_array((capacity, (edges[:, 0], edges[:, 1])), (n, n))
    return float(maximum_flow(graph, 0, n - 1).flow_value)


def ortools_flow(edges: np.ndarray, n: int, capacity: np.ndarray) -> float:
    from ortools.graph.python import max_flow

    solver: Any = max_flow.SimpleMaxFlow()
    solver.add_arcs_with_capacity(edges[:, 0], edges[:, 1], capacity.astype(np.int64))
    assert solver.solve(0, n - 1) == solver.OPTIMAL
    return float(solver.optimal_flow())


def _known(**solvers: tuple[str, Peer]) -> dict[str, Peer]:
    """Those whose module is installed. It is imported here, so that no time includes that."""
    found = {}
    for name, (module, solve) in solvers.items():
        with suppress(ImportError):
            import_module(module)
            found[name] = solve
    return found


ASSIGNMENT = _known(scipy=("scipy", scipy_assignment), lapx=("lap", lapx_assignment))
TRANSPORT = _known(POT=("ot", pot_transport))
ASSIGNMENT_OF_POINTS = _known(scipy=("scipy", scipy_assignment_of_points))
CAPACITIES = _known(POT=("ot", pot_capacities))
TRANSPORT_OF_POINTS = _known(POT=("ot", pot_transport_of_points))
FLOW = _known(scipy=("scipy", scipy_flow), ortools=("ortools.graph.python.max_flow", ortools_flow))
