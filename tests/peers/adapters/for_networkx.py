"""networkx's flows, cuts and bipartite matchings, solved by our functions.

The five maximum flow functions keep their own fronts, each with another implementation behind it.
`minimum_weight_full_matching` calls scipy, whose function is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
from networkx.algorithms import bipartite
from networkx.algorithms.flow import build_residual_network
from networkx_min_cost import REPLACED as OF_LEAST_COST

import jaxmatch as jm


# ---------------------------------------------------------------------------------------------
# Flows and cuts


def flow_by(method: str) -> Callable:
    """A maximum flow in networkx's form. `cutoff` is the capacity of an edge to the source."""

    def flow(
        G: Any, s: Any, t: Any, capacity: Any, residual: Any, cutoff: float | None = None
    ) -> Any:
        R, problem = _problem(G, s, t, capacity, residual, cutoff)
        res = _solved(jm.maximum_flow(*problem, method=method))
        edges = list(R.edges(data=True))
        for _, _, edge in edges:
            edge["flow"] = 0
        amounts = np.asarray(res.flow).tolist()[: len(edges)]
        for (u, v, edge), amount in zip(edges, amounts, strict=True):
            if amount:
                edge["flow"] += amount
                R[v][u]["flow"] -= amount
        R.graph["flow_value"] = res.value.item()
        return R

    return flow


_their_minimum_cut = nx.minimum_cut


def minimum_cut(
    flowG: Any, _s: Any, _t: Any, capacity: Any = "capacity", flow_func: Any = None, **kwargs: Any
) -> Any:
    """As theirs, the cut nearest to the sink. Theirs judges arguments that only it has."""
    if flow_func is not None or kwargs:
        _their_minimum_cut(flowG, _s, _t, capacity, flow_func, **kwargs)
    R, problem = _problem(flowG, _s, _t, capacity)
    cut = _solved(jm.minimum_cut(*problem, nearest="sink"))
    sides: dict[bool, set] = {True: set(), False: set()}
    for node, side in zip(R, np.asarray(cut.source_side).tolist(), strict=True):
        sides[side].add(node)
    return cut.value.item(), (sides[True], sides[False])


def _problem(
    G: Any, s: Any, t: Any, capacity: Any, residual: Any = None, cutoff: float | None = None
) -> tuple[Any, tuple[jm.FlowNetwork, np.ndarray, int, int]]:
    """The residual network, and the arguments of `maximum_flow`: its edges in the same order."""
    R = build_residual_network(G, capacity) if residual is None else residual
    place = {node: k for k, node in enumerate(R)}
    for node in (s, t):
        if node not in place:
            raise nx.NetworkXError(f"node {node} not in graph")
    source, num_nodes = place[s], len(place)
    edges, capacities = [], []
    for u, v, edge in R.edges(data=True):
        edges.append((place[u], place[v]))
        capacities.append(np.inf if edge["capacity"] == R.graph["inf"] else edge["capacity"])
    if cutoff is not None:
        edges.append((num_nodes, source))
        capacities.append(cutoff)
        source, num_nodes = num_nodes, num_nodes + 1
    senders, receivers = np.array(edges, int).reshape(-1, 2).T
    network = jm.FlowNetwork.from_edges(senders, receivers, num_nodes)
    return R, (network, np.array(capacities), source, place[t])


def _solved(res: Any) -> Any:
    try:
        res.raise_for_status()
    except ValueError as error:
        raise nx.NetworkXError(str(error)) from error
    if np.isposinf(res.value):
        raise nx.NetworkXUnbounded("Infinite capacity path, flow unbounded above.")
    return res


# ---------------------------------------------------------------------------------------------
# Matchings


def hopcroft_karp_matching(G: Any, top_nodes: Any = None) -> dict:
    return _matching(G, top_nodes, "hopcroft_karp")


def eppstein_matching(G: Any, top_nodes: Any = None) -> dict:
    return _matching(G, top_nodes, "auto")


def _matching(G: Any, top_nodes: Any, method: str) -> dict:
    top, bottom = map(list, bipartite.sets(G, top_nodes))
    place = {node: k for k, node in enumerate(bottom)}
    edges = [(k, place[v]) for k, u in enumerate(top) for v in G[u]]
    rows, cols = np.array(edges, int).reshape(-1, 2).T
    graph = jm.BipartiteGraph.from_edges(rows, cols, (len(top), len(bottom)))
    res = jm.maximum_bipartite_matching(graph, method=method)
    pairs = zip(top, np.asarray(res.col4row).tolist(), strict=True)
    forth = {node: bottom[k] for node, k in pairs if k >= 0}
    return forth | {v: u for u, v in forth.items()}


# ---------------------------------------------------------------------------------------------
# What is replaced


_FLOW = "networkx.algorithms.flow"


def preflow_push_impl(
    G: Any, s: Any, t: Any, capacity: Any, residual: Any, global_relabel_freq: Any, value_only: bool
) -> Any:
    return flow_by("pseudoflow")(G, s, t, capacity, residual)


def shortest_augmenting_path_impl(
    G: Any, s: Any, t: Any, capacity: Any, residual: Any, two_phase: bool, cutoff: float | None
) -> Any:
    return flow_by("auto")(G, s, t, capacity, residual, cutoff)


# Tests run all five flow functions, so each of our methods has a turn.
REPLACED = {
    f"{_FLOW}.edmondskarp.edmonds_karp_impl": flow_by("auto"),
    f"{_FLOW}.boykovkolmogorov.boykov_kolmogorov_impl": flow_by("augment"),
    f"{_FLOW}.dinitz_alg.dinitz_impl": flow_by("pseudoflow"),
    f"{_FLOW}.preflowpush.preflow_push_impl": preflow_push_impl,
    f"{_FLOW}.shortestaugmentingpath.shortest_augmenting_path_impl": shortest_augmenting_path_impl,
    "networkx.minimum_cut": minimum_cut,
    "networkx.bipartite.hopcroft_karp_matching": hopcroft_karp_matching,
    "networkx.bipartite.eppstein_matching": eppstein_matching,
    "scipy.optimize.linear_sum_assignment": jm.linear_sum_assignment,
    **OF_LEAST_COST,
}
