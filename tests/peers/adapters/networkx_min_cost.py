"""networkx's flows of minimum cost, solved by `minimum_cost_flow`."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np

import jaxmatch as jm


def network_simplex(
    G: Any, demand: Any = "demand", capacity: Any = "capacity", weight: Any = "weight"
) -> tuple[Any, dict]:
    """As theirs, an infinite demand or weight is an error, and what has no flow is infeasible."""
    _require_directed(G)
    if len(G) == 0:
        raise nx.NetworkXError("graph has no nodes")
    for u, x in G.nodes(data=demand, default=0):
        if math.isinf(x):
            raise nx.NetworkXError(f"node {u!r} has infinite demand")
    for *e, x in G.edges(data=weight, default=0):
        if math.isinf(x):
            raise nx.NetworkXError(f"edge {tuple(e)!r} has infinite weight")
    problem = _problem(G, demand, capacity, weight)
    return _answer(G, problem, jm.minimum_cost_flow(*problem, method="network_simplex"))


def capacity_scaling(
    G: Any,
    demand: Any = "demand",
    capacity: Any = "capacity",
    weight: Any = "weight",
    heap: Any = None,
) -> tuple[Any, dict]:
    """As theirs, a negative cycle without a limit comes before a lack of flow."""
    del heap
    _require_directed(G)
    problem = _problem(G, demand, capacity, weight)
    res = jm.minimum_cost_flow(*problem, method="cost_scaling")
    if res.status in (jm.Status.INFEASIBLE, jm.Status.UNBALANCED):
        none = (*problem[:3], 0 * problem[3])
        cyclic = jm.minimum_cost_flow(*none)
        res = cyclic if cyclic.status == jm.Status.UNBOUNDED else res
    return _answer(G, problem, res)


def _require_directed(G: Any) -> None:
    if not G.is_directed():
        raise nx.NetworkXNotImplemented("not implemented for undirected type")


def _problem(
    G: Any, demand: Any, capacity: Any, weight: Any
) -> tuple[jm.FlowNetwork, np.ndarray, np.ndarray, np.ndarray]:
    place = {u: k for k, u in enumerate(G)}
    senders = [place[u] for u, _ in G.edges()]
    receivers = [place[v] for _, v in G.edges()]
    network = jm.FlowNetwork.from_edges(senders, receivers, len(G))
    limits = [x for *_, x in G.edges(data=capacity, default=math.inf)]
    costs = [x for *_, x in G.edges(data=weight, default=0)]
    supplies = [-x for _, x in G.nodes(data=demand, default=0)]
    if all(isinstance(x, int) or x == math.inf for x in limits + supplies):
        most = np.iinfo(np.int64).max
        limits = np.array([most if x == math.inf else x for x in limits], np.int64)
        return network, limits, np.array(costs or np.zeros(0)), np.array(supplies, np.int64)
    return network, np.array(limits, float), np.array(costs), np.array(supplies, float)


def _answer(G: Any, problem: Any, res: Any) -> tuple[Any, dict]:
    words = {
        jm.Status.INFEASIBLE: (nx.NetworkXUnfeasible, "no flow satisfies all node demands"),
        jm.Status.UNBALANCED: (nx.NetworkXUnfeasible, "total node demand is not zero"),
        jm.Status.INVALID_MASS: (nx.NetworkXUnfeasible, "a demand is infinite"),
        jm.Status.UNBOUNDED: (
            nx.NetworkXUnbounded, "negative cycle with infinite capacity found"
        ),
    }  # fmt: skip
    status = jm.Status(int(res.status))
    if status == jm.Status.INVALID_CAPACITY:
        edge = [*G.edges][int(np.argmin(problem[1]))]
        raise nx.NetworkXUnfeasible(f"edge {edge!r} has negative capacity")
    if status in words:
        kind, text = words[status]
        raise kind(text)
    if status != jm.Status.OPTIMAL:
        raise nx.NetworkXUnfeasible(status.advice)
    assert jm.check_minimum_cost_flow(*problem, res).optimal
    flows: dict = {u: {v: {} for v in G[u]} if G.is_multigraph() else {} for u in G}
    edges = G.edges(keys=True) if G.is_multigraph() else G.edges()
    for (u, v, *key), x in zip(edges, res.flow.tolist(), strict=True):
        if key:
            flows[u][v][key[0]] = x
        else:
            flows[u][v] = x
    return res.cost.item(), flows


_FLOW = "networkx.algorithms.flow"

REPLACED = {
    f"{_FLOW}.networksimplex.network_simplex": network_simplex,
    f"{_FLOW}.capacityscaling.capacity_scaling": capacity_scaling,
}
