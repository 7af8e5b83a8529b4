"""Exact solvers of others: each builds its own form of a problem, then solves it once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.min_cost_flow.problems import Problem


Solve = Callable[[], float]
MOST_BY_NETWORKX = 2000  # arcs
MOST_UNITS = 10**12  # of a cost; costs times nodes must fit 64 bits


def unit_of(given: Problem) -> float:
    """What a unit is worth of costs that are rounded to integers of 64 bits."""
    if np.issubdtype(given.cost.dtype, np.integer):
        return 1.0
    return float(np.abs(given.cost).max()) / MOST_UNITS


def fits(given: Problem) -> bool:
    """Whether rounded costs are still those of the problem."""
    least, unit = float(np.abs(given.cost).min()), unit_of(given)
    return unit == 1 or unit < 1e-5 * least


def as_integers(given: Problem) -> Problem:
    return given._replace(cost=np.rint(given.cost / unit_of(given)).astype(np.int64))


def by_ortools(given: Problem) -> Solve:
    """Cost scaling (Goldberg 1997)."""
    from ortools.graph.python import min_cost_flow

    unit, given = unit_of(given), as_integers(given)
    flow: Any = min_cost_flow.SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(given.tail, given.head, given.capacity, given.cost)
    flow.set_nodes_supplies(np.arange(given.nodes), given.supply)

    def solve() -> float:
        assert flow.solve() == flow.OPTIMAL
        return unit * flow.optimal_cost()

    return solve


def by_lemon(given: Problem) -> Solve:
    """LEMON's network simplex by pylmcf. A graph that was solved would start from its last tree.

    It takes arcs in the order of their ends, and no negative costs: where a cost is negative, the
    arc is turned around, and carries what the original one does not.
    """
    import pylmcf

    unit, given = unit_of(given), as_integers(given)
    turned = given.cost < 0
    tail, head = np.where(turned, [given.head, given.tail], [given.tail, given.head])
    order = np.lexsort((head, tail))
    graph = pylmcf.Graph(given.nodes, tail[order], head[order])
    supply = given.supply.copy()
    np.subtract.at(supply, given.tail[turned], given.capacity[turned])
    np.add.at(supply, given.head[turned], given.capacity[turned])
    graph.set_node_supply(supply)
    graph.set_edge_capacities(given.capacity[order])
    graph.set_edge_costs(np.abs(given.cost)[order])
    fixed = int((given.cost * given.capacity)[turned].sum())

    def solve() -> float:
        graph.solve()
        return unit * (fixed + graph.total_cost())

    return solve


def by_networkx(given: Problem) -> Solve:
    """Its network simplex, in Python, on integers without a limit: floats are multiples of 2^-100
    here."""
    import networkx as nx

    unit = 1
    if not np.issubdtype(given.cost.dtype, np.integer):
        unit = Fraction(1, 2**100)
        units = [Fraction(x) / unit for x in given.cost.tolist()]
        assert all(x.denominator == 1 for x in units)
        given = given._replace(cost=np.array([int(x) for x in units], object))
    graph = nx.DiGraph()
    graph.add_nodes_from((v, {"demand": -x}) for v, x in enumerate(given.supply.tolist()))
    columns = (x.tolist() for x in given[:4])
    for tail, head, capacity, cost in zip(*columns, strict=True):
        graph.add_edge(tail, head, capacity=capacity, weight=cost)
    return lambda: float(unit * nx.network_simplex(graph)[0])


PEERS: dict[str, tuple[str, Callable[[Problem], Solve]]] = {
    "ortools": ("ortools", by_ortools),
    "LEMON": ("pylmcf", by_lemon),
    "networkx": ("networkx", by_networkx),
}


def known() -> dict[str, Callable[[Problem], Solve]]:
    """Those whose package is installed."""
    return {name: make for name, (module, make) in PEERS.items() if find_spec(module)}


def takes(name: str, given: Problem) -> bool:
    """Whether it is asked: networkx is slow, and the others have costs of 64 bits."""
    return given.arcs <= MOST_BY_NETWORKX if name == "networkx" else fits(given)
