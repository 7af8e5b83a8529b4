"""Transport problems in rational arithmetic: no rounding, no JAX, no solver's code."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from exact import as_fraction, is_rounded, shown
from helpers import numpy_dtype

import jaxmatch as jm


Numbers = list[Fraction]
Plan = dict[tuple[int, int], Fraction]


class Truth:
    """One problem to minimise, in fractions. Forbidden pairs cost None; what is masked is gone."""

    def __init__(
        self,
        cost: Any,
        supply: Any,
        demand: Any,
        *,
        maximize: bool = False,
        partial: Any = None,
        unmatched_cost: Any = None,
        row_mask: Any = None,
        col_mask: Any = None,
    ):
        cost, supply, demand = (np.asarray(x) for x in (cost, supply, demand))
        n, m = cost.shape
        self.rows, self.cols = (
            np.flatnonzero(np.broadcast_to(True if mask is None else np.asarray(mask), size))
            for mask, size in ((row_mask, n), (col_mask, m))
        )
        self.sign = -1 if maximize else 1

        def priced(x: Any) -> Fraction | None:
            return self.sign * as_fraction(x) if np.isfinite(float(x)) else None

        self.cost = [[priced(cost[i, j]) for j in self.cols] for i in self.rows]
        self.supply = [as_fraction(supply[i]) for i in self.rows]
        self.demand = [as_fraction(demand[j]) for j in self.cols]
        self.moved = None
        if partial is not None:  # floats may exceed the lesser sum by a rounding
            self.moved = min(as_fraction(partial), sum(self.supply), sum(self.demand))
        self.unmatched: list[Fraction | None] | None = None
        if unmatched_cost is not None:
            r = np.broadcast_to(np.asarray(unmatched_cost), n)
            self.unmatched = [priced(r[i]) for i in self.rows]
        if self.moved is None and self.unmatched is None and sum(self.demand):
            # As documented: the demands are scaled to the sum of the supplies.
            rate = sum(self.supply) / sum(self.demand)
            self.demand = [b * rate for b in self.demand]

    def optimum(self) -> Fraction | None:
        """The least cost (or the greatest score), None if no plan avoids forbidden pairs."""
        total = sum(self.supply, Fraction(0)) if self.moved is None else self.moved
        least = _least_cost(self.cost, self.supply, self.demand, self.unmatched, total)
        return None if least is None else self.sign * least

    def _terms(self, plan: Plan) -> Numbers:
        """What a plan of original indices costs, the supply that stays included."""
        row, col = ({k: at for at, k in enumerate(x.tolist())} for x in (self.rows, self.cols))
        terms, left = [], list(self.supply)
        for (i, j), mass in plan.items():
            price = self.cost[row[i]][col[j]]
            assert price is not None, f"the pair {i, j} is forbidden"
            terms.append(mass * price)
            left[row[i]] -= mass
        if self.unmatched is not None:
            terms += [x * (r or 0) for x, r in zip(left, self.unmatched, strict=True)]
        return [self.sign * x for x in terms]

    def cost_of(self, plan: Plan) -> Fraction:
        return sum(self._terms(plan), Fraction(0))

    def size_of(self, plan: Plan) -> Fraction:
        """The sum of the magnitudes of all products of mass and cost."""
        return sum(map(abs, self._terms(plan)), Fraction(0))


def _least_cost(
    cost: list[list[Fraction | None]],
    supply: Numbers,
    demand: Numbers,
    unmatched: list[Fraction | None] | None,
    total: Fraction,
) -> Fraction | None:
    """Successive shortest paths by Bellman and Ford, for the least cost to move `total`."""
    n, m = len(supply), len(demand)
    prices = [x for row in cost for x in row] + list(unmatched or [])
    by_cost = math.lcm(*(x.denominator for x in prices if x is not None))
    by_mass = math.lcm(*(x.denominator for x in (*supply, *demand, total)))
    c = [[None if x is None else int(x * by_cost) for x in row] for row in cost]
    stays = [None if x is None else int(x * by_cost) for x in unmatched or [None] * n]
    left, unmet = [int(x * by_mass) for x in supply], [int(x * by_mass) for x in demand]
    moves = [[0] * m for _ in range(n)]
    missing, paid = int(total * by_mass), 0
    while missing > 0:
        # From rows with supply to columns with demand, or to what stays.
        of_row: list[int | None] = [0 if x > 0 else None for x in left]
        of_col: list[int | None] = [None] * m
        before_row, before_col = [-1] * n, [-1] * m
        changed = True
        while changed:
            changed = False
            for i, j in itertools.product(range(n), range(m)):
                price, x, y = c[i][j], of_row[i], of_col[j]
                if price is not None and x is not None and (y is None or x + price < y):
                    of_col[j], before_col[j], changed = x + price, i, True
                y = of_col[j]
                if moves[i][j] > 0 and price is not None and y is not None:
                    if x is None or y - price < x:
                        of_row[i], before_row[i], changed = y - price, j, True
        ends = [(of_col[j], 1, j) for j in range(m) if unmet[j] > 0 and of_col[j] is not None]
        for i in range(n):
            x, r = of_row[i], stays[i]
            if x is not None and r is not None:
                ends.append((x + r, 0, i))
        if not ends:
            return None
        length, is_col, k = min(ends)  # type: ignore[type-var]
        path, amount = [], missing
        i, j = (-1, k) if is_col else (k, -1)
        amount = min(amount, unmet[k]) if is_col else amount
        while True:
            if i < 0:
                i = before_col[j]
                path.append((i, j, 1))
            j = before_row[i]
            if j < 0:
                break
            path.append((i, j, -1))
            amount, i = min(amount, moves[i][j]), -1
        amount = min(amount, left[i])
        for row, col, way in path:
            moves[row][col] += way * amount
        left[i] -= amount
        if is_col:
            unmet[k] -= amount
        missing -= amount
        paid += amount * length  # type: ignore[operator]
    return Fraction(paid, by_cost * by_mass)


def best_of_all_bases(cost: Any, supply: Numbers, demand: Numbers) -> Fraction | None:
    """The optimum of a balanced problem, by trying every spanning tree of rows and columns."""
    n, m = len(supply), len(demand)
    best = None
    for pairs in itertools.combinations(itertools.product(range(n), range(m)), n + m - 1):
        rest = [*supply, *demand]
        total, remaining = Fraction(0), set(pairs)
        degree = [0] * (n + m)
        for i, j in pairs:
            degree[i] += 1
            degree[n + j] += 1
        if min(degree) == 0:
            continue
        while remaining:  # a leaf of a tree decides what its pair moves
            leaf = next(((i, j) for i, j in remaining if min(degree[i], degree[n + j]) == 1), None)
            if leaf is None:
                break  # a cycle
            i, j = leaf
            mass = rest[i] if degree[i] == 1 else rest[n + j]
            price = cost[i][j]
            if mass < 0 or (price is None and mass > 0):
                break
            total += mass * (price or 0)
            for node in (i, n + j):
                rest[node] -= mass
                degree[node] -= 1
            remaining.remove(leaf)
        if not remaining and not any(rest) and (best is None or total < best):
            best = total
    return best


def random_problem(
    rng: Any, n: int, m: int, kind: str, cost: str, mass: str, whole: bool = False
) -> tuple[tuple[Any, Any, Any], dict[str, Any]]:
    """Costs with ties or of many digits, some forbidden; even, sparse or lopsided masses."""
    maximize = bool(rng.integers(2))
    size = 1 if whole or rng.random() < 0.5 else 97.3
    c = (size * rng.integers(-9, 10, (n, m))).astype(numpy_dtype(cost))
    if "float" in cost:
        c[rng.random((n, m)) < rng.choice([0, 0.15])] = -np.inf if maximize else np.inf
    if "int" in mass:
        a = rng.integers(0, 7, n)
        b = rng.multinomial(a.sum(), np.ones(m) / m) if kind == "all" else rng.integers(0, 7, m)
        moved = rng.integers(0, min(a.sum(), b.sum()) + 1)
    else:
        most = rng.choice([1, 0.1])
        # None so small that the grid loses it.
        a, b = (rng.dirichlet(np.full(k, most)) + 1e-9 * (rng.random(k) < 0.8) for k in (n, m))
        a, b = (np.where(x < 1e-12, 0, x) for x in (a, b))
        a, b = a / a.sum(), b / b.sum() * (1 if kind == "all" else rng.choice([0.6, 1, 3]))
        moved = min(a.sum(), b.sum()) * rng.choice([0, 0.1, 0.8])
    given: dict[str, Any] = {"maximize": maximize}
    if kind == "partial":
        given["partial"] = np.asarray(moved, mass)
    if kind == "unmatched":
        given["unmatched_cost"] = rng.integers(-9, 10, n).astype(c.dtype)
    return (c, a.astype(mass), b.astype(mass)), given


# ---------------------------------------------------------------------------------------------
# Assertions


def plan_of(res: Any) -> Plan:
    """The entries of one result, in the form that is documented."""
    rows, cols, mass = (np.asarray(x) for x in (res.rows, res.cols, res.mass))
    used = rows >= 0
    count = int(used.sum())
    assert not used[count:].any(), "unused entries come last"
    assert (cols[count:] == -1).all() and (mass[count:] == 0).all()
    assert (mass[:count] > 0).all()
    pairs = list(zip(rows[:count].tolist(), cols[:count].tolist(), strict=True))
    assert pairs == sorted(set(pairs)), "ordered by row and column, each pair once"
    return {pair: as_fraction(x) for pair, x in zip(pairs, mass, strict=False)}


def assert_forest(pairs: Any) -> None:
    """A basic plan has no cycle."""
    tree: dict[tuple[str, int], Any] = {}

    def root(node: Any) -> Any:
        while tree.setdefault(node, node) != node:
            node = tree[node]
        return node

    for i, j in pairs:
        one, other = root(("row", i)), root(("column", j))
        assert one != other, "the plan has a cycle"
        tree[one] = other


def assert_true(cost: Any, supply: Any, demand: Any, res: Any, **given: Any) -> str:
    """What one result says is so, in rational arithmetic: plan, cost, gap. Returns its status."""
    cost, supply, demand = (np.asarray(x) for x in (cost, supply, demand))
    truth = Truth(cost, supply, demand, **given)
    best, status = truth.optimum(), jm.Status(int(res.status))
    if best is None:
        assert status == jm.Status.INFEASIBLE, status
        assert_failed(res)
        return str(status)
    assert status == jm.Status.OPTIMAL, status
    n, m = cost.shape
    assert res.rows.shape == res.cols.shape == res.mass.shape == (max(n + m - 1, 0),)
    assert res.row_dual.shape == (n,) and res.col_dual.shape == (m,)
    plan = plan_of(res)
    assert_forest(plan)
    # Masses are rounded to their dtype, and to a grid of the total.
    whole = np.issubdtype(np.asarray(res.mass).dtype, np.integer)
    total = sum(truth.supply, Fraction(0)) + sum(truth.demand, Fraction(0))
    near = Fraction(0)
    if not whole:
        near = (n + m) * total * as_fraction(max(np.finfo(res.mass.dtype).eps, 2.0**-58))
    for axis, kept, masses in ((0, truth.rows, truth.supply), (1, truth.cols, truth.demand)):
        sums = dict.fromkeys(kept.tolist(), Fraction(0))
        for pair, mass in plan.items():
            assert pair[axis] in sums, f"the pair {pair} is masked"
            sums[pair[axis]] += mass
        for k, mass in zip(kept.tolist(), masses, strict=True):
            above = sums[k] - mass
            if truth.moved is not None or truth.unmatched is not None:
                assert above <= near, f"{'row column'.split()[axis]} {k} moves {above} too much"
            else:
                assert abs(above) <= near, f"{'row column'.split()[axis]} {k} is off by {above}"
    if truth.moved is not None:
        assert abs(sum(plan.values(), Fraction(0)) - truth.moved) <= near
    # The gap bounds cost - optimum; what remains are roundings of `cost` itself: of products to
    # doubles, and of their sum.
    assert res.gap >= 0, f"gap {res.gap}"
    assert not np.isnan(res.cost), "the cost is NaN"
    assert not np.isnan(res.row_dual).any() and not np.isnan(res.col_dual).any(), "a dual is NaN"
    paid = truth.cost_of(plan)
    if np.isinf(res.cost) or np.isinf(res.gap):  # beyond the dtype
        if np.isinf(res.cost):
            assert is_rounded(res.cost, paid, truth.size_of(plan)), f"{res.cost}, not {shown(paid)}"
        return str(status)
    gap, own = as_fraction(res.gap), as_fraction(res.cost)
    rounding = _spacing(res.cost) + truth.size_of(plan) / 2**53
    worse = truth.sign * (own - best)
    assert worse <= gap + rounding, f"{float(worse)} above the optimum, but claims {float(gap)}"
    assert -worse <= gap + rounding, f"{float(-worse)} below the optimum, but claims {float(gap)}"
    if whole:
        off = truth.sign * (paid - best)
        assert 0 <= off <= gap, f"the plan is {float(off)} off, but claims {float(gap)}"
        assert abs(paid - own) <= rounding
    return str(status)


def _spacing(x: Any) -> Fraction:
    """At least the distance of floats around x, also at the end of their range."""
    info = np.finfo(x.dtype)
    return abs(as_fraction(x)) * as_fraction(info.eps) + as_fraction(info.smallest_subnormal)


def assert_failed(res: Any) -> None:
    """A problem without a solution says nothing else."""
    assert (np.asarray(res.rows) == -1).all() and (np.asarray(res.cols) == -1).all()
    assert (np.asarray(res.mass) == 0).all()
    for x in (res.cost, res.row_dual, res.col_dual):
        assert np.isnan(np.asarray(x)).all()
    unbalanced = np.asarray(res.status) == jm.Status.UNBALANCED  # by how much
    gap = np.asarray(res.gap)
    assert np.where(unbalanced, gap > 0, np.isnan(gap)).all()


def moved(res: Any) -> tuple[np.ndarray, np.ndarray]:
    """The sums of the rows and of the columns of a plan, in float64."""
    rows, cols, mass = (np.asarray(x) for x in (res.rows, res.cols, res.mass))
    used = rows >= 0
    n, m = res.row_dual.shape[-1], res.col_dual.shape[-1]
    assert (mass[used] > 0).all() and used.sum() <= n + m - 1
    mass = mass[used].astype(np.float64)
    return np.bincount(rows[used], mass, n), np.bincount(cols[used], mass, m)


def assert_moves(res: Any, a: np.ndarray, b: np.ndarray, near: float) -> None:
    """Each row and column moves its own mass, `b` scaled to the sum of `a`."""
    assert res.status == jm.Status.OPTIMAL
    for found, x in zip(moved(res), (a.astype(float), b.astype(float)), strict=True):
        wanted = x * (a.astype(float).sum() / x.sum())
        assert (found[wanted == 0] == 0).all()
        worst = np.abs(found - wanted)[wanted > 0] / wanted[wanted > 0]
        assert worst.max() <= near
