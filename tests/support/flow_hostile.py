"""Networks of hostile capacities, and what a flow of them must be: by all cuts there are."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from grid_cut_hostile import numbers

import jaxmatch as jm


def hostile_edges(rng: np.random.Generator, n: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    """Tails and heads, of nodes 0 .. n - 1; parallel and antiparallel ones too."""
    tail = rng.integers(0, n, e)
    return tail, (tail + rng.integers(1, n, e)) % n


def hostile_capacity(
    rng: np.random.Generator, e: int, dtype: str, *, denormal: bool = True
) -> np.ndarray:
    """A few different numbers, zeros, and infinite ones."""
    every = numbers(dtype, e, denormal=denormal)
    some = rng.choice(every, rng.integers(1, 5))
    if dtype.startswith("float"):
        some = np.where(rng.random(some.size) < rng.choice([0, 0.4]), np.inf, some).astype(dtype)
    capacity = np.where(rng.random(e) < rng.choice([0.6, 1]), rng.choice(some, e), 0)
    return capacity.astype(dtype)


def assert_right(
    value: Any, flow: Any, side: Any, status: Any,
    edges: tuple[np.ndarray, np.ndarray, np.ndarray], n: int, *, bits: int = 59,
) -> None:  # fmt: skip
    """From node 0 to node n - 1, as documented."""
    tail, head, given = edges
    integer = given.dtype.kind == "i"
    endless = Fraction(2) ** 4000
    capacity = [endless if x == np.inf else Fraction(x) for x in given.tolist()]
    ends = list(zip(tail.tolist(), head.tolist(), capacity, strict=True))

    def of_cut(cut: int) -> Fraction:
        return sum((c for u, v, c in ends if cut >> u & 1 and not cut >> v & 1), Fraction(0))

    cuts = [1 | k << 1 for k in range(2 ** (n - 2))]
    total = [of_cut(cut) for cut in cuts]
    least = min(total)
    most = Fraction(int(np.iinfo(value.dtype).max) if integer else float(np.finfo(value.dtype).max))
    if least >= endless:
        assert status == jm.Status.OPTIMAL and value == np.inf and np.isnan(flow).all()
        assert np.flatnonzero(side).tolist() == [0]
        return
    if integer and (least > most or least >= 2**61):
        assert status == jm.Status.OVERFLOW and value == -1
        return
    eps = Fraction(0 if integer else float(np.finfo(value.dtype).eps))
    if status == jm.Status.OVERFLOW:
        assert not integer and least > most * (1 - 100 * eps) and np.isnan(value)
        return
    assert status == jm.Status.OPTIMAL
    found = sum(1 << i for i in np.flatnonzero(side).tolist())
    capacity_found = of_cut(found)
    # The units are fine for the value, however large other capacities are.
    unit, used = Fraction(1), capacity
    loss = least * len(ends) / (2**44 if value.dtype == np.float64 else 2**26)
    if not integer:
        exponent = -1074
        while Fraction(2) ** exponent < least * (2**10 if bits > 32 else 2**4):
            exponent += 1
        unit = Fraction(2) ** max(exponent - bits, -1074)
        used = [c for c in capacity if c <= 2**10 * least]
    if all((c / unit).denominator == 1 for c in used):
        nearest = cuts[0] | (2**n - 1)
        for cut, c in zip(cuts, total, strict=True):
            nearest &= cut if c == least else nearest
        assert found == nearest
    else:
        assert capacity_found <= least + loss
    floor = Fraction(0 if integer else float(np.finfo(value.dtype).smallest_subnormal))
    assert abs(Fraction(value.item()) - capacity_found) <= capacity_found * eps * 4 + floor
    exact = [Fraction(x) for x in flow.tolist()]
    assert all(0 <= x <= c for x, c in zip(exact, capacity, strict=True))
    net = [Fraction(0)] * n
    for (u, v, _), x in zip(ends, exact, strict=True):
        net[u] -= x
        net[v] += x
    slack = eps * sum((min(x, 2**10 * least) for x in exact), Fraction(0)) + len(ends) * floor
    assert all(abs(x) <= slack for x in net[1:-1])
    for arriving in (net[-1], -net[0]):
        assert abs(arriving - least) <= (0 if integer else slack + loss)
