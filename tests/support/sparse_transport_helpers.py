"""What the tests of transport on edges share: random problems, and truths by other packages."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
from matching_helpers import edges_of
from scipy.optimize import linprog

import jaxmatch as jm


METHODS = ("auto", "network_simplex", "cost_scaling")  # the twin compiles a program
KINDS = ("all", "partial", "unmatched")


@dataclasses.dataclass
class Case:
    """One problem on the host; options as for `solve_sparse_transport`."""

    graph: jm.BipartiteGraph
    cost: np.ndarray
    supply: np.ndarray
    demand: np.ndarray
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def given(self) -> tuple[Any, ...]:
        return self.graph, self.cost, self.supply, self.demand

    def solve(self, **how: Any) -> jm.SparseTransport:
        return jm.solve_sparse_transport(*self.given, **self.options, **how)

    def check(self, res: jm.SparseTransport) -> jm.SparseTransportCheck:
        return jm.check_sparse_transport(*self.given, res, **self.options)

    @property
    def limit(self) -> np.ndarray:
        """Limits as floats, +inf where there is none."""
        return np.broadcast_to(np.asarray(self.options.get("limit", np.inf), float), len(self.cost))


def random_case(
    rng: np.random.Generator,
    n: int,
    m: int,
    kind: str = "all",
    *,
    limits: bool = True,
    density: float = 0.6,
    whole: bool = True,
) -> Case:
    """Not all problems have a plan. Costs are of any sign."""
    there = rng.random((n, m)) < density
    graph = jm.BipartiteGraph.from_dense(there)
    e = int(there.sum())
    plan = rng.integers(0, 5, e)
    supply, demand = sums(graph, plan)
    if rng.random() < 0.4:
        demand = rng.permutation(demand)
    limit = np.maximum(plan + rng.integers(-1, 3, e), 0) if limits else None
    cost = rng.integers(-6, 12, e)
    options: dict[str, Any] = {} if limit is None else {"limit": limit}
    if kind == "partial":
        most = min(supply.sum(), demand.sum())
        options["partial"] = rng.integers(0, max(most, 1))
    if kind == "unmatched":
        options["unmatched_cost"] = rng.integers(-3, 9, n)
    if kind != "all":
        demand = rng.integers(0, 9, m)
    if not whole:
        cost = cost + rng.uniform(0, 1, e)
        masses = {k: x / 7 for k, x in options.items() if k in ("limit", "partial")}
        options |= {k: np.asarray(x) for k, x in masses.items()}
        supply, demand = supply / 7, demand / 7
        if kind == "unmatched":
            options["unmatched_cost"] = options["unmatched_cost"] + rng.uniform(0, 1, n)
    return Case(graph, cost, supply, demand, options)


def sums(graph: Any, mass: Any) -> tuple[np.ndarray, np.ndarray]:
    """What each row sends, and what each column gets."""
    rows, cols = edges_of(graph)
    (n, m), mass = graph.shape, np.asarray(mass)[: len(rows)]
    out, met = np.zeros(n, mass.dtype), np.zeros(m, mass.dtype)
    np.add.at(out, rows, mass)
    np.add.at(met, cols, mass)
    return out, met


def by_highs(case: Case) -> float | None:
    """The least cost by linear programming, None if there is no plan."""
    (n, m), (rows, cols), e = case.graph.shape, edges_of(case.graph), len(case.cost)
    of_rows, of_cols = np.zeros((n, e)), np.zeros((m, e))
    of_rows[rows, np.arange(e)] = 1
    of_cols[cols, np.arange(e)] = 1
    masses, price = np.concatenate([case.supply, case.demand]), case.options.get("unmatched_cost")
    incidence = np.concatenate([of_rows, of_cols])
    bounds = np.stack([np.zeros(e), case.limit], 1)
    moved, cost, offset = case.options.get("partial"), case.cost, 0.0
    if price is None and moved is None:
        if e == 0:
            return 0.0 if not masses.any() else None
        found = linprog(cost, A_eq=incidence, b_eq=masses, bounds=bounds)
        return found.fun if found.status == 0 else None
    if price is not None:
        cost, offset = case.cost - price[rows], float((price * case.supply).sum())
    if e == 0:
        return offset if not moved else None
    whole = None if moved is None else np.ones((1, e))
    total = None if moved is None else np.asarray(moved)[None]
    found = linprog(cost, A_ub=incidence, b_ub=masses, A_eq=whole, b_eq=total, bounds=bounds)
    return found.fun + offset if found.status == 0 else None


def assert_certified(case: Case, res: jm.SparseTransport) -> None:
    """The documented inequalities, and the cost. Numbers must be exact in their dtype."""
    rows, cols = edges_of(case.graph)
    out, met = sums(case.graph, res.mass)
    u, v, mass, limit = res.row_dual, res.col_dual, res.mass, case.limit
    assert ((mass >= 0) & (mass <= limit)).all()
    slack = case.cost - u[rows] - v[cols]
    assert (slack[mass < limit] >= 0).all() and (slack[mass > 0] <= 0).all()
    price, moved, total = case.options.get("unmatched_cost"), case.options.get("partial"), 0
    if price is None and moved is None:
        assert (out == case.supply).all() and (met == case.demand).all()
    else:
        assert (out <= case.supply).all() and (met <= case.demand).all()
        assert (v <= 0).all() and (v == 0)[met < case.demand].all()
    if price is not None:
        assert (u <= price).all() and (u == price)[out < case.supply].all()
        total = (price * (case.supply - out)).sum()
    if moved is not None:
        assert out.sum() == moved
        last = u[case.supply > 0].max(initial=u.min(initial=0))
        assert (u == last)[out < case.supply].all()
    assert res.cost == total + (case.cost * mass).sum()


def assert_witness(case: Case, res: jm.SparseTransport) -> None:
    """What must leave the rows of the witness is more than can."""
    (rows, cols), side, others = edges_of(case.graph), res.row_side, res.col_side
    out = case.limit[side[rows] & ~others[cols]].sum() + case.demand[others].sum()
    if (moved := case.options.get("partial")) is not None:
        assert moved > out + case.supply[~side].sum()
    else:
        assert case.supply[side].sum() > out


def matchings(case: Case) -> dict[int, float]:
    """For each number of pairs, the least cost of a b-matching of so many."""
    best: dict[int, float] = {}
    for chosen in itertools.product((0, 1), repeat=len(case.cost)):
        out, met = sums(case.graph, chosen)
        if (out <= case.supply).all() and (met <= case.demand).all():
            cost = float(np.asarray(chosen) @ case.cost)
            best[sum(chosen)] = min(best.get(sum(chosen), np.inf), cost)
    return best
