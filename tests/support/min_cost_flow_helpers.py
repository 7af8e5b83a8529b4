"""What the tests of minimum-cost flow share: truths by other packages, and random problems."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

import jaxmatch as jm


NO_LIMIT = 1 << 40  # more than any flow of the tests


def by_ortools(
    senders: Any, receivers: Any, capacity: Any, cost: Any, supply: Any, lower: Any = 0
) -> int | None:
    """The least cost of a flow of integers, None if there is none."""
    from ortools.graph.python import min_cost_flow  # tests on a GPU do without it

    capacity = np.asarray(capacity)
    is_float = jnp.issubdtype(capacity.dtype, jnp.floating)
    endless = capacity == (np.inf if is_float else np.iinfo(capacity.dtype).max)
    room = np.where(endless, 0, capacity).astype(np.int64)
    room = np.where(endless, NO_LIMIT, room)
    supply, cost = (np.asarray(x).astype(np.int64) for x in (supply, cost))
    lower = np.broadcast_to(np.asarray(lower).astype(np.int64), room.shape)
    n = len(supply)
    given = supply.copy()
    np.add.at(given, senders, -lower)
    np.add.at(given, receivers, lower)
    flow = min_cost_flow.SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(senders, receivers, room - lower, cost)
    flow.set_nodes_supplies(np.arange(n), given)
    if flow.solve() != flow.OPTIMAL:
        return None
    return int(flow.optimal_cost() + (lower * cost).sum())


class Problem(NamedTuple):
    """One problem: the arguments of `minimum_cost_flow`."""

    network: jm.FlowNetwork
    capacity: np.ndarray
    cost: np.ndarray
    supply: np.ndarray
    lower: np.ndarray | None = None

    def solve(self, **options: Any) -> jm.MinimumCostFlow:
        return jm.minimum_cost_flow(*self[:4], lower=self.lower, **options)

    def check(self, res: jm.MinimumCostFlow) -> jm.MinimumCostFlowCheck:
        return jm.check_minimum_cost_flow(*self[:4], res, lower=self.lower)


def random_problem(
    rng: np.random.Generator,
    nodes: int,
    edges: int,
    *,
    negative: bool = True,
    lower: bool = False,
    endless: float = 0.0,
    most: int = 10,
) -> Problem:
    """Integers, with parallel edges and loops. Not all problems have a flow."""
    ends = rng.integers(0, nodes, (2, edges))
    network = jm.FlowNetwork.from_edges(*ends, nodes)
    capacity = rng.integers(0, most, edges)
    bound = np.minimum(rng.integers(-2, 3, edges), capacity) if lower else None
    capacity[rng.random(edges) < endless] = np.iinfo(np.int64).max
    cost = rng.integers(-4 if negative else 0, most, edges)
    supply = rng.integers(-3, 4, nodes)
    supply[rng.integers(nodes)] -= supply.sum()
    return Problem(network, capacity, cost, supply, bound)


def scaled(problem: Problem, mass: float, cost: float, dtype: Any = np.float64) -> Problem:
    """The problem in floats, with masses and costs times these numbers."""
    endless = problem.capacity == np.iinfo(problem.capacity.dtype).max
    capacity = np.where(endless, np.inf, problem.capacity * mass).astype(dtype)
    lower = None if problem.lower is None else (problem.lower * mass).astype(dtype)
    others = (problem.cost * cost).astype(dtype), (problem.supply * mass).astype(dtype)
    return Problem(problem.network, capacity, *others, lower)


def verdict(problem: Problem, res: jm.MinimumCostFlow) -> tuple[bool, ...]:
    """Whether the check proves the flow, the cut, and the cycle."""
    check = problem.check(res)
    return bool(check.optimal), bool(check.infeasible), bool(check.unbounded)


PROVED = {
    jm.Status.OPTIMAL: (True, False, False),
    jm.Status.INFEASIBLE: (False, True, False),
    jm.Status.UNBOUNDED: (False, False, True),
}


METHODS = ("auto", "network_simplex", "cost_scaling")  # the twin compiles a program


def exact(x: Any) -> list[Fraction]:
    return [Fraction(y.item()) for y in np.asarray(x)]


def prove(problem: Problem, res: jm.MinimumCostFlow) -> tuple[Fraction, Fraction]:
    """Cost and gap of a result in rational arithmetic, by the definition alone."""
    (senders, receivers), (cost, flow, potential, supply) = (
        (np.asarray(x).tolist() for x in (problem.network.senders, problem.network.receivers)),
        (exact(x) for x in (problem.cost, res.flow, res.potential, problem.supply)),
    )
    bound = problem.lower if problem.lower is not None else np.zeros(len(cost), np.int32)
    lower, capacity = exact(bound), np.asarray(problem.capacity)
    is_float = capacity.dtype.kind == "f"
    endless = capacity == (np.inf if is_float else np.iinfo(capacity.dtype).max)
    room = [
        None if none else Fraction(c.item()) - low
        for c, none, low in zip(capacity, endless, lower, strict=True)
    ]
    after = supply.copy()
    for u, v, low in zip(senders, receivers, lower, strict=True):
        after[u] -= low
        after[v] += low
    all_limited = any(c < 0 and r is None for c, r in zip(cost, room, strict=True))
    most = sum(max(x, Fraction(0)) for x in after)
    most += sum(
        r for c, r in zip(cost, room, strict=True) if r is not None and (c < 0 or all_limited)
    )
    gap = Fraction(0)
    for u, v, c, x, low, r in zip(senders, receivers, cost, flow, lower, room, strict=True):
        reduced = c - potential[u] + potential[v]
        used, width = x - low, most if r is None else min(r, most)
        assert used >= 0 and (r is None or used <= r), "a flow is outside of its bounds"
        gap += reduced * used if reduced > 0 else -reduced * max(width - used, Fraction(0))
    return sum(c * x for c, x in zip(cost, flow, strict=True)), gap


def by_enumeration(problem: Problem) -> int | None:
    """The least cost of all flows of small integers, None if there is none."""
    ends = np.asarray(problem.network.senders), np.asarray(problem.network.receivers)
    lower = np.zeros_like(problem.capacity) if problem.lower is None else problem.lower
    ranges = [range(a, b + 1) for a, b in zip(lower, problem.capacity, strict=True)]
    flows = np.array(list(itertools.product(*ranges))).reshape(-1, len(ranges))
    net = np.zeros((len(flows), len(problem.supply)), np.int64)
    for k, (u, v) in enumerate(zip(*ends, strict=True)):
        net[:, u] += flows[:, k]
        net[:, v] -= flows[:, k]
    feasible = (net == problem.supply).all(1)
    return int((flows @ problem.cost)[feasible].min()) if feasible.any() else None


def by_highs(problem: Problem) -> float | None:
    """The least cost by linear programming, None if there is no flow."""
    n, e = len(problem.supply), len(problem.cost)
    incidence = np.zeros((n, e))
    np.add.at(incidence, (np.asarray(problem.network.senders), np.arange(e)), 1)
    np.add.at(incidence, (np.asarray(problem.network.receivers), np.arange(e)), -1)
    lower = np.zeros(e) if problem.lower is None else problem.lower
    bounds = np.stack([lower, problem.capacity], 1)
    found = linprog(problem.cost, A_eq=incidence, b_eq=problem.supply, bounds=bounds)
    return found.fun if found.status == 0 else None
