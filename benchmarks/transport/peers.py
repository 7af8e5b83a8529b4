"""Exact solvers of others: each returns the optimum, and the milliseconds of the solve alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.transport.problems import Problem, as_integers, without_empty


Peer = Callable[[Problem], tuple[float, float]]


def _timed(solve: Callable[[], float]) -> tuple[float, float]:
    start = time.perf_counter()
    value = solve()
    return value, 1e3 * (time.perf_counter() - start)


def by_pot(given: Problem) -> tuple[float, float]:
    """`ot.emd`, a network simplex that descends from LEMON's, on one core."""
    import ot

    total = float(given.supply.sum())
    supply, demand = (np.asarray(x, np.float64) / total for x in given[1:])

    def solve() -> float:
        _, log = ot.emd(supply, demand, given.cost, numItermax=10**9, log=True)
        assert log["warning"] is None, log["warning"]
        return total * float(log["cost"])

    return _timed(solve)


def _arcs(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    rows, cols = np.indices((n, m), np.int64)
    return rows.ravel(), n + cols.ravel()


def by_lemon(given: Problem) -> tuple[float, float]:
    """LEMON's network simplex by pylmcf, on costs and masses that are rounded to integers."""
    import pylmcf

    cost, supply, demand, per_unit = as_integers(without_empty(given))
    graph = pylmcf.Graph(sum(cost.shape), *_arcs(*cost.shape))
    graph.set_node_supply(np.concatenate([supply, -demand]))
    least = int(cost.min())  # costs must not be negative
    graph.set_edge_costs((cost - least).ravel())
    graph.set_edge_capacities(np.minimum(supply[:, None], demand).ravel())

    def solve() -> float:
        graph.solve()
        return (float(graph.total_cost()) + least * float(supply.sum())) / per_unit

    return _timed(solve)


def by_ortools(given: Problem) -> tuple[float, float]:
    """Cost scaling, on the same integers."""
    from ortools.graph.python import min_cost_flow

    cost, supply, demand, per_unit = as_integers(without_empty(given))
    flow: Any = min_cost_flow.SimpleMinCostFlow()
    room = np.minimum(supply[:, None], demand).ravel()
    flow.add_arcs_with_capacity_and_unit_cost(*_arcs(*cost.shape), room, cost.ravel())
    flow.set_nodes_supplies(np.arange(sum(cost.shape)), np.concatenate([supply, -demand]))

    def solve() -> float:
        assert flow.solve() == flow.OPTIMAL
        return flow.optimal_cost() / per_unit

    return _timed(solve)


def by_highs(given: Problem) -> tuple[float, float]:
    """scipy's linear programs."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    given = without_empty(given)
    n, m = given.cost.shape
    total = float(given.supply.sum())
    arcs = np.tile(np.arange(n * m), 2)
    matrix = coo_array((np.ones(2 * n * m), (np.concatenate(_arcs(n, m)), arcs))).tocsr()
    masses = np.concatenate([given.supply, given.demand]) / total

    def solve() -> float:
        found = linprog(given.cost.ravel(), A_eq=matrix, b_eq=masses, method="highs")
        assert found.success, found.message
        return total * float(found.fun)

    return _timed(solve)


def known() -> dict[str, Peer]:
    """Those whose package is installed."""
    every = {"POT": ("ot", by_pot), "LEMON": ("pylmcf", by_lemon)}
    every |= {"ortools": ("ortools", by_ortools), "HiGHS": ("scipy", by_highs)}
    return {name: solve for name, (module, solve) in every.items() if find_spec(module)}


def measure(solve: Peer, given: Problem) -> tuple[float, float]:
    """The optimum, and the median of three solves; or of one that takes more than a second."""
    value, first = solve(given)
    if first > 1e3:
        return value, first
    return value, float(np.median([solve(given)[1] for _ in range(3)]))
