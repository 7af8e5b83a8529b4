"""The exact optimum of each subject's problems, and what a solution of them costs: fractions, of
problems whose numbers are doubles about 1, or integers."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from exact import as_fraction
from grid_cut_helpers import arcs_of
from helpers import exact_optimum
from min_cost_flow_truth import Truth as FlowTruth
from transport_truth import Truth as TransportTruth

from jaxmatch import Status


Problem = dict[str, np.ndarray]
Solution = dict[str, np.ndarray]


class Truth:
    """Of one problem: `optimum` is None where there is no solution."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.optimum = self.best()

    def best(self) -> Fraction | None:
        raise NotImplementedError

    def paid(self, one: Solution, exponent: int) -> list[Fraction]:
        """What a solution costs in units of 2^exponent; the result's value is a rounding of it."""
        raise NotImplementedError

    def error(self, paid: list[Fraction]) -> Fraction:
        """How far that is from the optimum."""
        assert self.optimum is not None
        return abs(paid[0] - self.optimum)

    def status(self) -> Status:
        return Status.INFEASIBLE if self.optimum is None else Status.OPTIMAL


def _sum(x: Any) -> Fraction:
    return sum(map(as_fraction, x), Fraction(0))


class Dense(Truth):
    """Assignment, with unmatched costs or capacities of columns, if there are any."""

    def matrix(self) -> np.ndarray:
        """Costs in which an infinity forbids a pair: doubles, or integers as objects."""
        cost = self.problem["cost"]
        return cost.astype(object) if cost.dtype.kind == "i" else cost

    def best(self) -> Fraction | None:
        cost = self.matrix()
        if "col_capacity" in self.problem:
            cost = np.repeat(cost, self.problem["col_capacity"], axis=1)
        if "unmatched_cost" in self.problem:
            cost = _with_gates(cost, self.problem["unmatched_cost"].tolist())
        return exact_optimum(cost)

    def paid(self, one: Solution, exponent: int) -> list[Fraction]:
        cost, own = self.matrix(), one["col4row"]
        rows = np.flatnonzero(own >= 0)
        total = _sum(cost[rows, own[rows]])
        if "unmatched_cost" in self.problem:
            total += _sum(self.problem["unmatched_cost"][own < 0])
        return [total]


def _with_gates(cost: np.ndarray, leave: list[Any]) -> np.ndarray:
    """A column more for each row, which costs what it does to leave the row."""
    alone = np.full((len(cost), len(cost)), np.inf, cost.dtype)
    np.fill_diagonal(alone, leave)
    return np.concatenate([cost, alone], 1)


class Sparse(Dense):
    """The costs of the edges `there`."""

    def matrix(self) -> np.ndarray:
        cost, there = self.problem["cost"], self.problem["there"]
        dense = np.full(there.shape, np.inf, object if cost.dtype.kind == "i" else float)
        dense[there] = cost
        return dense


class MaximumCardinality(Sparse):
    """As many pairs as possible: leaving a row costs more than all others."""

    def best(self) -> Fraction | None:
        cost = self.matrix()
        much = 1 << 70 if cost.dtype == object else 2.0**10  # above the sum of all doubles
        total = exact_optimum(_with_gates(cost, [much] * len(cost)))
        assert total is not None
        return total - round(total / Fraction(much)) * Fraction(much)


class Transport(Truth):
    """With costs that are scaled."""

    def __init__(self, problem: Problem):
        self.truth = TransportTruth(**problem)
        super().__init__(problem)

    def best(self) -> Fraction | None:
        return self.truth.optimum()

    def paid(self, one: Solution, exponent: int) -> list[Fraction]:
        used = one["rows"] >= 0
        pairs = zip(one["rows"][used].tolist(), one["cols"][used].tolist(), strict=True)
        mass = [as_fraction(x) for x in one["mass"][used]]
        return [self.truth.cost_of(dict(zip(pairs, mass, strict=True)))]


class ScaledMasses(Transport):
    def paid(self, one: Solution, exponent: int) -> list[Fraction]:
        return [x / Fraction(2) ** exponent for x in super().paid(one, exponent)]


class Capacities(Transport):
    """Of rows and columns: as many units move as the lesser total has."""

    def __init__(self, problem: Problem):
        supply, demand = problem["row_capacity"], problem["col_capacity"]
        moved = min(supply.sum(), demand.sum())
        super().__init__(
            {"cost": problem["cost"], "supply": supply, "demand": demand, "partial": moved}
        )


class PricedNetwork(Truth):
    """Flows of least cost, of edges from `tail` to `head`."""

    def best(self) -> Fraction | None:
        x = self.problem
        self.truth = FlowTruth(x["tail"], x["head"], x["capacity"], x["cost"], x["supply"])
        return self.truth.optimum()

    def paid(self, one: Solution, exponent: int) -> list[Fraction]:
        return [sum(self.truth.paid([as_fraction(x) for x in one["flow"]]), Fraction(0))]


class ScaledPricedNetwork(PricedNetwork):
    """With masses that are scaled."""

    def paid(self, one: Solution, exponent: int) -> list[Fraction]:
        return [x / Fraction(2) ** exponent for x in super().paid(one, exponent)]


@lru_cache
def _every(n: int, m: int) -> np.ndarray:
    """The columns of all assignments of n rows."""
    return np.array([*itertools.permutations(range(m), n)])


class KBest(Truth):
    def best(self) -> Fraction | None:
        cost = self.problem["cost"]
        unit = Fraction(1)
        if cost.dtype.kind == "f":  # as integers
            unit = Fraction(1, max(x.as_integer_ratio()[1] for x in cost.ravel().tolist()))
        whole = np.array([int(as_fraction(x) / unit) for x in cost.ravel()], object)
        whole = whole.reshape(cost.shape)
        every = _every(*cost.shape)
        total = sum(whole[i][every[:, i]] for i in range(len(cost)))
        self.totals = [x * unit for x in sorted(total.tolist())]
        return self.totals[0]

    def paid(self, one: Solution, exponent: int) -> list[Fraction]:
        cost, rows = self.problem["cost"], np.arange(len(self.problem["cost"]))
        return [_sum(cost[rows, own]) for own in one["col4row"]]

    def error(self, paid: list[Fraction]) -> Fraction:
        return max(abs(x - y) for x, y in zip(paid, self.totals, strict=False))


class Bottleneck(Truth):
    """The least number with an assignment of pairs that cost no more."""

    def best(self) -> Fraction | None:
        cost = self.problem["cost"]
        levels = np.unique(cost)
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            if exact_optimum((cost > levels[middle]).astype(np.int32)) == 0:
                high = middle
            else:
                low = middle + 1
        return as_fraction(levels[low])

    def paid(self, one: Solution, exponent: int) -> list[Fraction]:
        own = one["col4row"]
        return [as_fraction(self.problem["cost"][np.arange(len(own)), own].max())]


class Cut(Truth):
    """Of a network: `tail`, `head` and `capacity` of each edge, from node 0 to the last."""

    def edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        x = self.problem
        return x["tail"], x["head"], x["capacity"], int(x["nodes"])

    def best(self) -> Fraction | None:
        tail, head, capacity, n = self.edges()
        ratios = [as_fraction(x).as_integer_ratio() for x in capacity]
        parts = max((q for _, q in ratios), default=1)
        whole = np.array([p * (parts // q) for p, q in ratios], object)
        cuts = 1 | np.arange(2 ** (n - 2)) << 1
        crosses = (cuts[:, None] >> tail & 1 > 0) & (cuts[:, None] >> head & 1 == 0)
        return Fraction(int((crosses * whole).sum(1).min()), parts)

    def side(self, one: Solution) -> np.ndarray:
        return one["source_side"]

    def paid(self, one: Solution, exponent: int) -> list[Fraction]:
        tail, head, capacity, _ = self.edges()
        side = self.side(one)
        return [_sum(capacity[side[tail] & ~side[head]])]

    def bound(self, bits: int, least: Fraction) -> Fraction:
        """What is documented: of each edge of the cut a small part of its capacity."""
        part = self.best() / (2**44 if bits > 32 else 2**24)
        return len(self.edges()[2]) * max(part, least)


class GridCut(Cut):
    """A grid of 4 neighbours, as a network whose terminals come first and last."""

    def edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        x = self.problem
        tail, head, arcs, _ = arcs_of(x["pairwise"], 4)
        cells = np.arange(x["source_capacity"].size)
        last = np.full_like(cells, cells.size + 1)
        return (
            np.concatenate([0 * cells, cells + 1, tail + 1]),
            np.concatenate([cells + 1, last, head + 1]),
            np.concatenate([x["source_capacity"].ravel(), x["sink_capacity"].ravel(), arcs]),
            cells.size + 2,
        )

    def side(self, one: Solution) -> np.ndarray:
        return np.concatenate([[True], one["source_side"].ravel(), [False]])
