"""Grids of hostile numbers, and what a cut of them must be: by all cuts there are, in integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from grid_cut_helpers import STEPS, arcs_of

import jaxmatch as jm


SHAPES = {4: [(2, 2), (1, 5), (3, 3)], 8: [(2, 2), (2, 4), (3, 3)], 6: [(2, 2, 2), (1, 3, 2)],
          18: [(2, 2, 2), (1, 3, 2)], 26: [(2, 2, 2), (3, 1, 2)]}  # fmt: skip
SHAPES_OF_SWEEP = {4: [(4, 3), (2, 6)], 8: [(3, 4), (4, 4)], 6: [(2, 3, 2), (3, 1, 4)],
                   18: [(2, 3, 2), (3, 1, 4)], 26: [(2, 3, 2), (3, 1, 4)]}  # fmt: skip


def numbers(dtype: str, cells: int, *, denormal: bool = True) -> np.ndarray:
    """What capacities are drawn from, but for 0 and +inf.

    Without denormal numbers there are none among their differences either.
    """
    if dtype in ("int32", "int64"):
        most = np.iinfo(dtype).max
        near = [1 << k for k in (25, 29, 30, 31, 57, 58, 59, 60, 61)]
        near += [x // cells for x in near]
        exact = {1, 2, 3, 7, most, most - 1, most // 2, most // cells}
        return np.array(sorted({x + d for x in near for d in (-1, 0, 1) if 0 < x + d <= most}
                               | exact), dtype)  # fmt: skip
    info = np.finfo(dtype)
    most, tiny, least = (Fraction(float(x)) for x in (info.max, info.tiny, info.smallest_subnormal))
    powers = [Fraction(10) ** k for k in (-300, -150, -40, -30, -9, 9, 30, 37, 150, 300, 303)]
    exact = [most, most / 2, most / cells, most / (18 * cells), *powers]
    exact += [Fraction(x) for x in (0.1, 1, 2, 3, 5, 1 + float(info.eps), 2**24 + 2, 2**54)]
    exact += [tiny, 3 * tiny]
    if denormal:
        exact += [least, 3 * least, 2**20 * least, tiny - least]
    smallest = least if denormal else tiny / Fraction(float(info.eps))
    kept = [float(x) for x in exact if smallest <= x <= most]
    return np.array(sorted(set(kept)), dtype)


def hostile_grid(
    rng: np.random.Generator, shape: tuple[int, ...], connectivity: int, dtype: str,
    *, directed: bool, denormal: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """A few different numbers, zeros, and infinite ones; anything where arcs leave the grid."""
    every = numbers(dtype, int(np.prod(shape)), denormal=denormal)
    some = rng.choice(every, rng.integers(1, 5))
    if dtype.startswith("float"):
        with np.errstate(over="ignore", under="ignore"):
            wide = (some * rng.random(some.size).astype(dtype)).astype(dtype)
        keeps = (rng.random(some.size) < 0.7) | (wide < every[0])
        some = np.where(keeps, some, wide)
        some = np.where(rng.random(some.size) < rng.choice([0, 0.4]), np.inf, some).astype(dtype)

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        x = rng.choice(some, shape)
        return np.where(rng.random(shape) < rng.choice([0.3, 0.7, 1]), x, 0).astype(dtype)

    arcs = connectivity if directed else connectivity // 2
    source, sink, pairwise = draw(shape), draw(shape), draw((arcs, *shape))
    beyond = np.ones((arcs, *shape), bool)
    beyond.ravel()[arcs_of(pairwise, connectivity)[3]] = False
    pairwise[beyond] = np.nan if dtype.startswith("float") else -1
    return source, sink, pairwise


def differences_beyond(dtype: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """What the source gives beyond what the sink takes has one bit more than the dtype."""
    large = float(2 ** (np.finfo(dtype).nmant + 2))
    arcs = np.zeros((2, 1, 2), dtype)
    arcs[0, 0, 0] = large
    gives, takes = np.array([[large, 0]], dtype), np.array([[3, large - 4]], dtype)
    return [(gives, takes, arcs), (takes, gives, arcs)]


def all_cuts(
    source: np.ndarray, sink: np.ndarray, pairwise: np.ndarray, connectivity: int
) -> tuple[np.ndarray, int, Fraction]:
    """The capacity of each cut as a multiple of the last; what is no less than the second is +inf.

    Bit i of a cut's number tells whether cell i is on the source's side.
    """
    tail, head, capacity, _ = arcs_of(pairwise, connectivity)
    given = [*source.ravel().tolist(), *sink.ravel().tolist(), *capacity.tolist()]
    ratios = [(0, 1) if x == np.inf else Fraction(x).as_integer_ratio() for x in given]
    parts = max(q for _, q in ratios)
    whole = [p * (parts // q) for p, q in ratios]
    endless = sum(whole) + 1
    whole = [endless if x == np.inf else w for x, w in zip(given, whole, strict=True)]
    n = source.size
    cuts = np.arange(2**n)
    total = np.full(2**n, 0, object)
    for i in range(n):
        on = (cuts >> i & 1).astype(bool)
        total[on] += whole[n + i]
        total[~on] += whole[i]
    for u, v, c in zip(tail.tolist(), head.tolist(), whole[2 * n :], strict=True):
        if c:
            total[(cuts >> u & 1 > 0) & (cuts >> v & 1 == 0)] += c
    return total, endless, Fraction(1, parts)


def is_whole(
    given: tuple[np.ndarray, np.ndarray, np.ndarray], connectivity: int, least: Fraction, bits: int
) -> bool:
    """Whether all that flow can fill is whole in a unit that is no finer than the solver's.

    The unit is fine for the value of the cut, however large other numbers are.
    """
    endless = Fraction(2) ** 4000

    def rational(x: Any) -> Fraction:
        return endless if x == np.inf else Fraction(float(x))

    source, sink, pairwise = given
    capacity = arcs_of(pairwise, connectivity)[2]
    terminals = zip(map(rational, source.ravel()), map(rational, sink.ravel()), strict=True)
    counted = [Fraction(0) if s == t else abs(s - t) for s, t in terminals]
    bound = least * 2**8
    counted = [x for x in (*counted, *map(rational, capacity)) if x <= bound]
    exponent = -1074
    while Fraction(2) ** exponent <= bound:
        exponent += 1
    unit = Fraction(2) ** max(exponent - bits, -1074)
    return all((x / unit).denominator == 1 for x in counted)


def assert_right(
    value: Any, side: Any, status: Any, given: tuple[np.ndarray, np.ndarray, np.ndarray],
    connectivity: int, *, bits: int = 59, most: int | None = None,
) -> None:  # fmt: skip
    """The documented result. For integers `most` is the largest integer that values hold."""
    total, endless, part = all_cuts(*given, connectivity)
    least = total.min()
    minimal = np.flatnonzero(total == least)
    integer = given[0].dtype.kind == "i"
    if integer:
        direct = int(np.minimum(*given[:2]).sum(dtype=object))
        limit = 2**59 if connectivity <= 8 else 2**58
        if least > most or least - direct >= limit:
            assert status == jm.Status.OVERFLOW and value == -1 and not side.any()
            return
        if status == jm.Status.OVERFLOW:  # a bound of the flow is rounded up
            assert least - direct >= limit * (1 - Fraction(1, 2**19))
            return
    elif status == jm.Status.OVERFLOW:
        info = np.finfo(value.dtype)
        greatest, eps = Fraction(float(info.max)), Fraction(float(info.eps))
        assert endless > least and least * part > greatest * (1 - 100 * eps)
        assert np.isnan(value) and not side.any()
        return
    assert status == jm.Status.OPTIMAL
    if least >= endless:
        assert value == np.inf
        return
    found = int(sum(1 << i for i in np.flatnonzero(np.ravel(side)).tolist()))
    assert total[found] < endless
    assert np.isfinite(value)
    if integer or is_whole(given, connectivity, least * part, bits):
        # Of all minimum cuts the one that is part of each other one.
        nearest = int(np.bitwise_and.reduce(minimal))
        assert found == nearest, (found, nearest, minimal)
    else:
        arcs = given[0].size * (len(STEPS[connectivity]) + 2)
        assert total[found] <= least * (1 + Fraction(arcs, 2**44 if bits > 32 else 2**24))
    if integer:
        assert int(value) == least
    else:
        capacity = total[found] * part
        info = np.finfo(value.dtype)
        eps, least = Fraction(float(info.eps)), Fraction(float(info.smallest_subnormal))
        assert abs(Fraction(float(value)) - capacity) <= 100 * eps * capacity + least
