"""Minimum-cost flows in rational arithmetic: no rounding, no JAX, no solver's code."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from exact import as_fraction, is_rounded, shown

from jaxmatch import Status


Numbers = list[Fraction]
Limits = list[Fraction | None]
_Edges = tuple[list[int], list[int], list[int]]  # tails, heads and costs
_MOST = (1 << 60) - (1 << 12)  # of integers that can flow; sums of doubles


class Truth:
    """One problem in fractions. Edges without a limit have the capacity None; forbidden edges,
    which carry nothing, are between 0 and 0."""

    def __init__(
        self,
        senders: Any,
        receivers: Any,
        capacity: Any,
        cost: Any,
        supply: Any,
        lower: Any = None,
    ):
        capacity, cost, supply = (np.asarray(x) for x in (capacity, cost, supply))
        lower = np.zeros_like(capacity) if lower is None else np.asarray(lower)
        self.n, self.is_whole = len(supply), capacity.dtype.kind == "i"
        self.tail, self.head = np.asarray(senders).tolist(), np.asarray(receivers).tolist()
        price, least, most, mass = (x.astype(float) for x in (cost, lower, capacity, supply))
        closed = price == np.inf
        endless = capacity == (np.iinfo(capacity.dtype).max if self.is_whole else np.inf)
        bad_limits = ~np.isfinite(least) | ~(lower <= capacity)
        bad_limits |= closed & ~((lower <= 0) & (capacity >= 0))
        self.invalid: Status | None = None
        if not all(0 <= u < self.n for u in (*self.tail, *self.head)):
            self.invalid = Status.INVALID_GRAPH
        elif (np.isnan(price) | (price == -np.inf)).any():
            self.invalid = Status.INVALID_COST
        elif (bad_limits | np.isnan(most)).any():
            self.invalid = Status.INVALID_CAPACITY
        elif not np.isfinite(mass).all():
            self.invalid = Status.INVALID_MASS
        if self.invalid is not None:
            return
        zero = Fraction(0)
        self.closed = closed.tolist()
        self.cost = [zero if x else as_fraction(c) for c, x in zip(cost, closed, strict=True)]
        self.lower = [zero if x else as_fraction(c) for c, x in zip(lower, closed, strict=True)]
        self.capacity: Limits = [
            zero if no else None if open_ else as_fraction(c)
            for c, no, open_ in zip(capacity, closed, endless, strict=True)
        ]
        self.supply = [as_fraction(b) for b in supply]
        self.by_cost, self.by_mass = (
            math.lcm(*(x.denominator for x in every if x is not None))
            for every in (self.cost, self._masses())
        )

    def left(self) -> Fraction:
        """What supplies miss a sum of 0 by."""
        return abs(sum(self.supply, Fraction(0)))

    def greater_sum(self) -> Fraction:
        """Of all supplies, or of all demands."""
        more = sum((b for b in self.supply if b > 0), Fraction(0))
        return max(more, more - sum(self.supply))

    def net(self, flow: Numbers) -> Numbers:
        """For each node what leaves it minus what enters it."""
        found = [Fraction(0)] * self.n
        for u, v, x in zip(self.tail, self.head, flow, strict=True):
            found[u] += x
            found[v] -= x
        return found

    def can_flow(self) -> Fraction:
        """At least what any flow of least cost carries above the lower bound of an edge."""
        after = [b - x for b, x in zip(self.supply, self.net(self.lower), strict=True)]
        limits = [
            c - low for c, low in zip(self.capacity, self.lower, strict=True) if c is not None
        ]
        return sum((abs(b) for b in after), Fraction(0)) + sum(limits, Fraction(0))

    def has_cycle(self) -> bool:
        """Whether a cycle of negative cost has no limit."""
        edges = [
            (u, v, c) for u, v, c, most in zip(self.tail, self.head, self.cost, self.capacity,
                                               strict=True) if most is None
        ]  # fmt: skip
        price = [Fraction(0)] * self.n
        for _ in range(self.n + 1):
            changed = False
            for u, v, c in edges:
                if price[u] + c < price[v]:
                    price[v], changed = price[u] + c, True
            if not changed:
                return False
        return True

    def optimum(self, supply: Numbers | None = None) -> Fraction | None:
        """The least cost to send these supplies, which sum to 0, None if no flow can. No cycle
        without a limit may have negative cost."""
        given = self.supply if supply is None else supply
        cost = [int(c * self.by_cost) for c in self.cost]
        found = self._least((self.tail, self.head, cost), self.capacity, self.lower, given)
        return None if found is None else found / self.by_cost

    def shortage(self) -> Fraction:
        """How much of the supplies, which sum to 0, no flow can send."""
        n, e = self.n, len(self.cost)
        nodes, far = list(range(n)), [n] * n
        ends = [*self.tail, *nodes, *far], [*self.head, *far, *nodes]
        cost = [0] * e + [1] * n + [0] * n
        rest: Limits = [None] * (2 * n)
        found = self._least((*ends, cost), [*self.capacity, *rest],
                            [*self.lower, *[Fraction(0)] * (2 * n)],
                            [*self.supply, Fraction(0)])  # fmt: skip
        assert found is not None
        return found

    def _least(
        self, edges: _Edges, capacity: Limits, lower: Numbers, supply: Numbers
    ) -> Fraction | None:
        tail, head, cost = edges
        unit = math.lcm(self.by_mass, *(b.denominator for b in supply))
        least = [int(low * unit) for low in lower]
        room = [
            None if c is None else int(c * unit) - low
            for c, low in zip(capacity, least, strict=True)
        ]
        excess = [int(b * unit) for b in supply]
        for u, v, low in zip(tail, head, least, strict=True):
            excess[u] -= low
            excess[v] += low
        assert sum(excess) == 0, "supplies that do not sum to 0"
        # No flow of least cost exceeds what all supplies and all cycles carry.
        most = sum(max(b, 0) for b in excess) + sum(r for r in room if r is not None)
        limits = [most if r is None else r for r in room]
        above = _least_flow((tail, head, limits, cost), excess)
        if above is None:
            return None
        total = sum(c * (low + x) for c, low, x in zip(cost, least, above, strict=True))
        return Fraction(total, unit)

    def potentials_fit(self, most: int | Fraction) -> bool:
        """Whether potentials surely do."""
        return self.n * max(map(abs, self.cost), default=Fraction(0)) <= most

    def most_paid(self) -> Fraction:
        """At least what all edges together cost, without regard to sign."""
        return self.reach() * sum(map(abs, self.cost), Fraction(0))

    def is_extreme(self, greatest: Fraction) -> bool:
        """Whether costs span more bits than prices have, or masses more than flows have, or sums of
        some may exceed floats."""
        costs = [abs(x) for x in self.cost if x]
        sizes = [*costs, *([] if self.is_whole else [abs(x) for x in self._masses() if x])]
        return any((
            max(sizes, default=0) > greatest / 2**10,
            bool(costs) and max(costs) > min(costs) * 2**96,
            self.spans(52),
        ))  # fmt: skip

    def spans(self, bits: int) -> bool:
        """Whether masses are floats that differ so much in size."""
        sizes = [abs(x) for x in self._masses() if x]
        return bool(sizes) and not self.is_whole and max(sizes) > min(sizes) * 2**bits

    def _masses(self) -> Limits:
        return [*self.capacity, *self.lower, *self.supply]

    def vanishing(self) -> Fraction:
        """What products of a cost and a mass may lose below the least double."""
        return len(self.cost) * Fraction(2) ** -1074

    # What proofs say

    def paid(self, flow: Numbers) -> Numbers:
        return [c * x for c, x in zip(self.cost, flow, strict=True)]

    def assert_within(self, flow: Numbers) -> None:
        for k, (low, x, most) in enumerate(zip(self.lower, flow, self.capacity, strict=True)):
            assert low <= x and (most is None or x <= most), f"flow[{k}] is {shown(x)}"

    def error(self, flow: Numbers) -> Fraction:
        """How much it costs above the optimum of the supplies that it sends."""
        least = self.optimum(self.net(flow))
        assert least is not None
        return sum(self.paid(flow), Fraction(0)) - least

    def assert_conserved(self, flow: Numbers, grid: Fraction | int, dtype: Any) -> None:
        """At each node up to the rounding of numbers to the dtype and of those beside it to a grid,
        and of what supplies of parts of the network miss a sum of 0 by."""
        sent = self.net(flow)
        off = [abs(x - b) for x, b in zip(sent, self.supply, strict=True)]
        if self.is_whole:
            assert not any(off), f"{sent} leaves, not {self.supply}"
            return
        eps, least = (Fraction(float(getattr(np.finfo(dtype), x))) for x in
                      ("eps", "smallest_subnormal"))  # fmt: skip
        through, degree = [abs(b) for b in self.supply], [2] * self.n
        for u, v, x, low in zip(self.tail, self.head, flow, self.lower, strict=True):
            for node in (u, v):
                through[node] += abs(x) + abs(low)
                degree[node] += 1
        beyond = Fraction(0)
        for x, size, count in zip(off, through, degree, strict=True):
            beyond += max(x - 4 * eps * size - count * (grid + least), Fraction(0))
        allowed = 3 * sum(map(abs, self.left_of_parts())) + self.rounding(dtype)
        assert beyond <= allowed, f"the flow misses supplies by {shown(beyond)}"

    def rounding(self, dtype: Any) -> Fraction:
        """What is documented of supplies that are floats."""
        return 2 * self.n * Fraction(float(np.finfo(dtype).eps)) * self.all_supplies()

    def reach(self) -> Fraction:
        """At least what an edge carries."""
        return self.can_flow() + max(map(abs, self.lower), default=Fraction(0))

    def all_supplies(self) -> Fraction:
        """Also those that lower bounds are."""
        return sum(map(abs, (*self.supply, *self.lower, *self.lower)), Fraction(0))

    def left_of_parts(self) -> Numbers:
        """What supplies miss a sum of 0 by in each part of the network that edges connect."""
        part = list(range(self.n))
        for _ in range(self.n):
            for u, v in zip(self.tail, self.head, strict=True):
                part[u] = part[v] = min(part[u], part[v])
        given = zip(self.supply, part, strict=True)
        found = [Fraction(0)] * self.n
        for b, k in given:
            found[k] += b
        return found

    def assert_cut(self, side: np.ndarray) -> None:
        """That more must leave these nodes than can."""
        inside = side.tolist()
        more = sum((b for b, x in zip(self.supply, inside, strict=True) if x), Fraction(0))
        edges = zip(self.tail, self.head, self.lower, self.capacity, strict=True)
        for u, v, low, most in edges:
            if inside[u] and not inside[v]:
                assert most is not None, "the cut has an edge without a limit"
                more -= most
            elif inside[v] and not inside[u]:
                more += low
        # Supplies of floats may miss a sum of 0; what is too much stays where it is.
        spare = Fraction(0) if self.is_whole else max(sum(self.supply, Fraction(0)), Fraction(0))
        assert more > spare, f"the cut lacks {shown(spare - more)}"

    def assert_cycle(self, cycle: np.ndarray) -> None:
        used = [Fraction(int(x)) for x in cycle]
        assert any(used) and not any(self.net(used)), "no cycle"
        for x, most in zip(used, self.capacity, strict=True):
            assert not x or most is None, "the cycle has a limit"
        cost = sum(self.paid(used), Fraction(0))
        assert cost < 0, f"the cycle costs {shown(cost)}"


def _least_flow(edges: tuple[Any, ...], excess: list[int]) -> list[int] | None:
    """Of integers, None if there is none: fills edges of negative cost, and then goes along
    shortest paths by Bellman and Ford."""
    tail, head, room, cost = edges
    flow = [r if c < 0 else 0 for r, c in zip(room, cost, strict=True)]
    left = list(excess)
    for u, v, x in zip(tail, head, flow, strict=True):
        left[u] -= x
        left[v] += x
    while any(b > 0 for b in left):
        far: list[int | None] = [0 if b > 0 else None for b in left]
        before: list[tuple[int, int] | None] = [None] * len(left)
        changed = True
        while changed:
            changed = False
            for k, (u, v, r, c) in enumerate(zip(tail, head, room, cost, strict=True)):
                for a, b, way in ((u, v, 1), (v, u, -1)):
                    start, at = far[a], far[b]
                    if start is None or (flow[k] == r if way > 0 else flow[k] == 0):
                        continue
                    if at is None or start + way * c < at:
                        far[b], before[b], changed = start + way * c, (k, way), True
        reached = [(x, u) for u, x in enumerate(far) if left[u] < 0 and x is not None]
        if not reached:
            return None
        last = end = min(reached)[1]
        path = []
        while (step := before[end]) is not None:
            path.append(step)
            end = tail[step[0]] if step[1] > 0 else head[step[0]]
        amount = min(left[end], -left[last])
        amount = min([amount, *(room[k] - flow[k] if way > 0 else flow[k] for k, way in path)])
        for k, way in path:
            flow[k] += way * amount
        left[end] -= amount
        left[last] += amount
    return flow


# ---------------------------------------------------------------------------------------------
# What must be true of a result


def assert_failed(res: Any) -> None:
    """All numbers are NaN, or −1."""
    gap = () if res.status == Status.UNBALANCED else (res.gap,)
    for x in (res.flow, res.cost, res.potential, *gap):
        x = np.asarray(x)
        assert (x == -1).all() if x.dtype.kind == "i" else np.isnan(x).all(), "no failure's fields"


def assert_true(truth: Truth, res: Any, tolerance: float) -> None:
    """Of a result as NumPy arrays. Supplies may miss a sum of 0 by `tolerance` of the greater
    sum."""
    status = Status(int(res.status))
    assert bool(res.source_side.any()) == (status == Status.INFEASIBLE), "source_side"
    assert bool(res.cycle.any()) == (status == Status.UNBOUNDED), "cycle"
    if status != Status.OPTIMAL:
        assert_failed(res)
    expected = _statuses(truth, res, tolerance)
    assert status in expected, f"status {status}, not {sorted(map(int, expected))}"
    if status == Status.UNBALANCED:
        gap, left = np.asarray(res.gap), truth.left()
        right = is_rounded(gap, left, truth.greater_sum() * truth.n) if gap.dtype.kind == "f" else (
            gap == left)  # fmt: skip
        assert right, f"gap {gap}, but supplies miss a sum of 0 by {shown(left)}"
    elif status == Status.INFEASIBLE:
        truth.assert_cut(res.source_side)
    elif status == Status.UNBOUNDED:
        truth.assert_cycle(res.cycle)
    elif status == Status.OPTIMAL:
        _assert_optimal(truth, res)


def _statuses(truth: Truth, res: Any, tolerance: float) -> set[Status]:
    """Those that the problem may have; proofs decide among them where supplies do not quite sum to
    0, or limits lack less than a rounding."""
    if truth.invalid is not None:
        return {truth.invalid}
    found: set[Status] = set()
    whole = np.asarray(res.cost).dtype.kind == "i"
    most = int(np.iinfo(res.cost.dtype).max) if whole else 0
    if truth.is_whole and truth.reach() >= _MOST:
        found.add(Status.OVERFLOW)
    if truth.spans(40):  # masses of a node may be rounded away
        found.add(Status.OVERFLOW)
    # Flows of edges without a limit may not fit their dtype.
    info = (np.iinfo if truth.is_whole else np.finfo)(res.flow.dtype)
    if None in truth.capacity and truth.reach() > as_fraction(info.max):
        found.add(Status.OVERFLOW)
    if whole and not truth.potentials_fit(most):
        found.add(Status.OVERFLOW)
    if not whole:  # floats that exceed their dtype, or differ by more than about 2^1000 in size
        greatest = as_fraction(np.finfo(res.cost.dtype).max)
        if not truth.potentials_fit(greatest / 2) or truth.most_paid() > greatest / 2:
            found.add(Status.OVERFLOW)
    allowed = Fraction(tolerance) * truth.greater_sum()
    if truth.left() > allowed * Fraction(1 - 2**-40):
        found.add(Status.UNBALANCED)
    if truth.left() > allowed * Fraction(1 + 2**-40):
        return found
    without_limit = truth.has_cycle()
    solved = {Status.UNBOUNDED if without_limit else Status.OPTIMAL}
    if truth.left():
        return found | solved | {Status.INFEASIBLE}
    shortage = truth.shortage()
    if shortage:
        found.add(Status.INFEASIBLE)
        parts = sum(map(abs, truth.left_of_parts()), Fraction(0))
        forgiven = parts if parts <= 2 * truth.n * allowed else 0
        if truth.is_whole or shortage > forgiven + truth.rounding(res.flow.dtype):
            return found
    elif whole and not without_limit and abs(truth.optimum() or 0) > most:
        return {Status.OVERFLOW}
    return found | solved


def _assert_optimal(truth: Truth, res: Any) -> None:
    assert np.isfinite(np.asarray(res.flow).astype(float)).all(), f"flow {res.flow}"
    assert np.isfinite(np.asarray(res.potential).astype(float)).all(), f"potential {res.potential}"
    assert res.gap >= 0, f"gap {res.gap}"
    flow = [as_fraction(x) for x in res.flow]
    truth.assert_within(flow)
    truth.assert_conserved(flow, truth.reach() / 2**58, res.flow.dtype)
    error = truth.error(flow)
    lost = truth.vanishing()
    assert np.isinf(res.gap) or error <= as_fraction(res.gap) + lost, (
        f"the flow costs {shown(error)} above the optimum, gap {res.gap}"
    )
    paid = truth.paid(flow)
    total, size = sum(paid, Fraction(0)), sum(map(abs, paid), Fraction(0))
    if np.asarray(res.cost).dtype.kind == "i":
        assert res.cost == total and res.gap == 0, f"cost {res.cost}, not {total}"
        return
    assert is_rounded(np.asarray(res.cost), total, size + 2**52 * lost), (
        f"cost {res.cost}, not {shown(total)}"
    )
