"""What the flow tests share: random networks of one shape, other people's solvers, assertions."""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from typing import Any

import jax
import networkx as nx
import numpy as np
import scipy.sparse as sp
from helpers import to_numpy
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.csgraph import maximum_flow as scipy_flow

import jaxmatch as jm
from jaxmatch._flow import methods


METHODS = [*methods.METHODS]
SOME_METHODS = ["auto", "pseudoflow", "xla"]
LAYOUTS = ["csr", "rcsr", "bcsr"]


def of_batch(tree: Any, k: int) -> Any:
    return jax.tree.map(lambda x: x[k], tree)


# ---------------------------------------------------------------------------------------------
# Networks


def random_edges(rng: np.random.Generator, n: int, pairs: int, e: int) -> np.ndarray:
    """`[e, 2]`: edges between exactly so many pairs of nodes, in any order; also self-loops."""
    u, v = np.triu_indices(n, 1)
    chosen = rng.choice(len(u), pairs, replace=False)
    again = rng.choice(chosen, e - pairs)
    every = np.stack([u, v], 1)[np.concatenate([chosen, again])]
    turned = rng.random(e) < 0.5
    every[turned] = every[turned][:, ::-1]
    loops = np.flatnonzero((rng.random(e) < 0.1) & (np.arange(e) >= pairs))
    every[loops, 1] = every[loops, 0]
    return every[rng.permutation(e)]


def random_networks(
    rng: np.random.Generator, count: int, n: int, pairs: int, e: int
) -> jm.FlowNetwork:
    """A batch of networks, all of one shape."""
    edges = [random_edges(rng, n, pairs, e) for _ in range(count)]
    networks = [jm.FlowNetwork.from_edges(*x.T, n, layout="bcsr") for x in edges]
    return to_numpy(jm.FlowNetwork.stack(networks))


# (nodes, pairs, edges): from one pair to nearly complete, the sparse ones disconnected.
SHAPES = [(2, 1, 4), (5, 3, 6), (6, 9, 20), (9, 20, 40), (14, 30, 60)]


# ---------------------------------------------------------------------------------------------
# Other people's solvers, and a slow one of our own


def by_search(
    n: int, senders: Any, receivers: Any, capacity: Any, source: int, sink: int
) -> tuple[Any, np.ndarray]:
    """Value and nodes that the source reaches, by shortest augmenting paths on exact numbers."""
    residual: list[dict[int, Any]] = [{} for _ in range(n)]
    for u, v, c in zip(np.asarray(senders), np.asarray(receivers), capacity, strict=True):
        if u != v:
            residual[u][v] = residual[u].get(v, 0) + c
            residual[v].setdefault(u, 0)
    value = 0
    while True:
        parent, queue = {source: source}, deque([source])
        while queue and sink not in parent:
            u = queue.popleft()
            for v, c in residual[u].items():
                if c > 0 and v not in parent:
                    parent[v] = u
                    queue.append(v)
        if sink not in parent:
            return value, np.isin(np.arange(n), list(parent))
        path = [sink]
        while path[-1] != source:
            path.append(parent[path[-1]])
        steps = list(zip(path[1:], path[:-1], strict=True))
        least = min(residual[u][v] for u, v in steps)
        if least == math.inf:
            return math.inf, np.arange(n) == source
        for u, v in steps:
            residual[u][v] -= least
            residual[v][u] += least
        value += least


def exact(capacity: Any) -> list[Any]:
    """The numbers of an array, without a rounding ever after."""
    given = np.asarray(capacity).tolist()
    return [x if isinstance(x, int) or x == math.inf else Fraction(x) for x in given]


def by_scipy(n: int, senders: Any, receivers: Any, capacity: Any, source: int, sink: int) -> int:
    matrix = matrix_of(n, senders, receivers, capacity)
    return int(scipy_flow(matrix, source, sink).flow_value)


def side_by_scipy(
    n: int, senders: Any, receivers: Any, capacity: Any, source: int, sink: int
) -> np.ndarray:
    """The nodes that the source reaches beside a maximum flow."""
    matrix = matrix_of(n, senders, receivers, capacity)
    residual = sp.csr_array(matrix - scipy_flow(matrix, source, sink).flow)
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, source, return_predecessors=False)
    return np.isin(np.arange(n), reached)


def matrix_of(n: int, senders: Any, receivers: Any, capacity: Any) -> sp.csr_array:
    """Capacities of pairs of nodes, without self-loops."""
    matrix = sp.coo_array((np.asarray(capacity, np.int32), (senders, receivers)), shape=(n, n))
    matrix = matrix.tocsr()
    matrix.setdiag(0)
    return sp.csr_array(matrix)


def by_networkx(n: int, senders: Any, receivers: Any, capacity: Any, source: int, sink: int) -> Any:
    other = nx.DiGraph()
    other.add_nodes_from(range(n))
    for u, v, c in zip(senders.tolist(), receivers.tolist(), exact(capacity), strict=True):
        if u != v:
            had = other[u][v]["capacity"] if other.has_edge(u, v) else 0
            other.add_edge(u, v, capacity=had + c)
    return nx.maximum_flow_value(other, source, sink)


def by_ortools(n: int, senders: Any, receivers: Any, capacity: Any, source: int, sink: int) -> int:
    from ortools.graph.python import max_flow  # large: only who compares with it needs it

    solver = max_flow.SimpleMaxFlow()
    solver.add_arcs_with_capacity(senders, receivers, np.asarray(capacity, np.int64))
    if len(senders) == 0 or max(source, sink) >= solver.num_nodes():
        return 0
    assert solver.solve(source, sink) == solver.OPTIMAL
    return solver.optimal_flow()


# ---------------------------------------------------------------------------------------------
# Assertions


def assert_flow(
    network: jm.FlowNetwork, capacity: Any, source: int, sink: int, res: jm.Flow
) -> None:
    """One problem of integers: a flow, and a cut that proves it maximum, in unbounded integers."""
    network, capacity, res = to_numpy((network, capacity, res))
    assert res.status == jm.Status.OPTIMAL
    flow, limit, value = res.flow.astype(object), capacity.astype(object), int(res.value)
    assert (flow >= 0).all() and (flow <= limit).all()
    assert (flow[network.senders == network.receivers] == 0).all()
    net = np.zeros(network.num_nodes, object)
    np.add.at(net, network.senders, flow)
    np.add.at(net, network.receivers, -flow)
    assert net[source] == value == -net[sink]
    net[[source, sink]] = 0
    assert not net.any()
    side = res.source_side
    assert side[source] and not side[sink]
    assert sum(limit[side[network.senders] & ~side[network.receivers]]) == value


def assert_failed(res: jm.Flow, status: jm.Status) -> None:
    res = to_numpy(res)
    np.testing.assert_array_equal(res.status, status)
    nothing = np.nan if res.flow.dtype.kind == "f" else -1
    np.testing.assert_array_equal(res.value, nothing)
    np.testing.assert_array_equal(res.flow, nothing)
    assert not res.source_side.any()
