"""`check_assignment_points` with a radius, outside of a trace: a grid finds the pairs.

The points of a pair are in the same or in neighbouring cells of the grid. The native solver has a
grid, too. This module shares no code with the solver, so that it does not repeat errors of the
solver.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxmatch._assignment.certificate import AssignmentCheck, DualBound, RowReductions
from jaxmatch._assignment_points.near_problem import NearProblem
from jaxmatch._common.distances import recomputed
from jaxmatch._common.proof import minus
from jaxmatch._common.result import Assignment
from jaxmatch._common.tighten import Blocks, Pairs


_MOST_AXES = 3  # axes of a grid
_MOST_CELLS = 2.0**20  # cells along an axis
_KEY_BITS = 21  # for each axis, in the integer that identifies a cell
# Cells are wider than `_Range.reach` by this factor, which covers the rounding of coordinates.
_SLACK = 1 + 2.0**-16
_BLOCK = 1 << 17  # candidate pairs that are judged at once, to stay in a core's cache
_ROWS = 1 << 15  # rows whose cells are looked up at once

OnHost: TypeAlias = Any  # a NumPy array; `Any` for type checkers


def check_near_on_host(problem: NearProblem, result: Assignment, *, metric: str) -> AssignmentCheck:
    """`check_assignment_points` with a radius, for NumPy arrays."""
    x: Any = problem.x
    y: Any = problem.y
    sides = len(x), len(y)
    masks = problem.row_mask, problem.col_mask
    price, given = problem.unmatched_cost, result.col_dual
    bound = DualBound.of(sides, *masks, price, given, False, x.dtype)
    bound = bound._replace(recomputed=recomputed(x.shape[-1], metric))
    rows: Any = bound.rows
    cols: Any = bound.cols
    sound_rows, sound_cols = np.isfinite(x).all(-1), np.isfinite(y).all(-1)
    radius = float(problem.radius)
    # Rows with a NaN cost: because their own point, or that of any column, is not finite, or the
    # radius is negative or NaN.
    has_radius = radius >= 0
    unsound = rows & ~(sound_rows & bool(has_radius and sound_cols[cols].all()))
    within = _Range(metric, radius, x.dtype, problem.radius.dtype)
    col4row: Any = result.col4row
    there = rows & sound_rows & has_radius, cols & sound_cols
    own = _own_costs(within, x, y, there, col4row)

    def pairs() -> Iterator[Pairs]:
        """All pairs that exist regardless of rounding."""
        return _near_pairs(within, x, y, *there)

    def reduce(v: Any) -> RowReductions:
        mine = np.flatnonzero(np.isfinite(own))
        numbers: Any = np.full((2, sides[0]), np.inf)
        least, rest = numbers
        for near in pairs():
            _lower(least, rest, near, v)
        _lower(least, rest, Pairs(mine, col4row[mine], own[mine]), v)
        least[unsound] = -np.inf
        return RowReductions(least, rest, own, np.zeros_like(own), np.zeros_like(rows))

    def blocks(_: tuple[int, ...]) -> Blocks:
        return pairs()

    return bound.verify(reduce, col4row, result.row4col, given, blocks)


def pairs_and_own(
    problem: NearProblem, col4row: OnHost, metric: str
) -> tuple[OnHost, OnHost, OnHost, bool]:
    """Rows, columns and costs of all pairs, and whether points and radius make sense.

    They are the pairs that exist regardless of rounding, then those of the result that may exist.
    """
    x: Any = problem.x
    y: Any = problem.y
    radius = float(problem.radius)
    there = []
    sound = radius >= 0
    for p, mask in ((x, problem.row_mask), (y, problem.col_mask)):
        finite: Any = np.isfinite(p).all(-1)
        exists: Any = np.ones(len(p), bool) if mask is None else mask
        sound &= bool((finite | ~exists).all())
        there.append(finite & exists & bool(radius >= 0))
    within = _Range(metric, radius, x.dtype, problem.radius.dtype)
    own = _own_costs(within, x, y, (there[0], there[1]), col4row)
    mine = np.flatnonzero(np.isfinite(own))
    found = [*_near_pairs(within, x, y, *there), Pairs(mine, col4row[mine], own[mine])]
    row, col, cost = (np.concatenate(k) for k in zip(*found, strict=True))
    return row, col, cost.astype(x.dtype), sound


def _lower(least: OnHost, rest: OnHost, near: Pairs, v: OnHost) -> None:
    """Lowers `least` + `rest`, each row's minimum of cost − v_j, to include the pairs `near`.

    These pairs must be sorted by row.
    """
    if not near.row.size:
        return
    c, c_rest = minus(near.cost, None, v[near.col])
    first = np.flatnonzero(np.append(True, near.row[1:] != near.row[:-1]))
    row, low = near.row[first], np.minimum.reduceat(c, first)
    is_low = c == np.repeat(low, np.diff(first, append=near.row.size))
    low_rest = np.minimum.reduceat(np.where(is_low, c_rest, np.inf), first)
    before, new = least[row], np.minimum(least[row], low)
    least[row] = new
    kept = np.where(before == new, rest[row], np.inf)
    rest[row] = np.minimum(kept, np.where(low == new, low_rest, np.inf))


class _Range(NamedTuple):
    """Decides which pairs of points lie within the radius. Points are [dims, size] in float64.

    The native solvers compute bitwise the same distances, except for the cosine, where norms are
    rounded. The pure-JAX twin computes distances in the dtype of results, and the compiler chooses
    the order in which it adds the terms of coordinates.
    """

    metric: str
    radius: float
    points: np.dtype  # the dtype of points, and of costs
    real: np.dtype  # the dtype of results

    @property
    def of_squares(self) -> bool:
        return self.metric in ("sqeuclidean", "euclidean")

    def distance(self, x: OnHost, i: OnHost, y: OnHost, j: OnHost, scale: float = 1) -> OnHost:
        """The distances of pairs (i, j), summed in the order of the coordinates."""
        total = np.zeros(len(i))
        for a, b in zip(x, y, strict=True):
            if self.metric == "cosine":
                total += a[i] * b[j]
                continue
            apart = a[i] - b[j]
            if scale != 1:
                apart *= scale
            total += np.abs(apart) if self.metric == "l1" else apart * apart
        if self.metric == "cosine":
            return 1 - total
        return np.sqrt(total) if self.metric == "euclidean" else total

    def judge(self, x: OnHost, i: OnHost, y: OnHost, j: OnHost) -> tuple[OnHost, OnHost, OnHost]:
        """The costs of pairs, whether each pair exists, and whether its existence is undecided.

        It is undecided if a solver's rounding of the distance may decide otherwise.
        """
        apart = cost = self.distance(x, i, y, j)
        most = self.radius
        if self.of_squares and not 2.0**-480 <= most <= 2.0**480:
            # Scale coordinates, because their squares would leave the range of floats.
            scale = 2.0**-700 if most > 1 else 2.0**700
            apart, most = self.distance(x, i, y, j, scale), most * scale
        most = most * most if self.metric == "sqeuclidean" else most
        cost = cost.astype(self.points).astype(np.float64)
        exists = apart <= most
        dims, is_cosine = len(x), self.metric == "cosine"
        eps = float(np.finfo(self.points if is_cosine else self.real).eps)
        near = np.abs(apart - most) <= (2 * dims + 6) * eps * (1 if is_cosine else most)
        if not is_cosine:
            at = np.flatnonzero(near)
            near[at] = self._differs(x[:, i[at]], y[:, j[at]], exists[at])
        return cost, exists & np.isfinite(cost), near

    def _differs(self, x: OnHost, y: OnHost, exists: OnHost) -> OnHost:
        """Whether sums in another order, or in the dtype of results, may decide otherwise."""
        real = self.real.type
        most, scale = real(self.radius), real(1)
        if self.of_squares:
            limit = int(np.finfo(real).maxexp) * 3 // 4
            exponent = math.frexp(self.radius)[1]
            scale = real(2.0 ** (limit if most == 0 else max(-limit, min(-exponent, limit))))
            most = most * scale
            most = most * most if self.metric == "sqeuclidean" else most
        apart = np.abs(x.astype(real) - y.astype(real)) * scale
        wide = np.float64 if real is np.float32 else np.longdouble
        differs = np.zeros(len(exists), bool)
        for coordinates, fused in itertools.product((apart, apart[::-1]), (False, True)):
            total = np.zeros(len(exists), real)
            for a in coordinates:
                if self.metric == "l1":
                    total = total + a
                elif fused:
                    total = (total + a.astype(wide) ** 2).astype(real)
                else:
                    total = total + a * a
            total = np.sqrt(total) if self.metric == "euclidean" else total
            differs |= (total <= most) != exists
        return differs

    @property
    def reach(self) -> float:
        """The most by which two points of a pair differ in any coordinate, apart from rounding."""
        if self.metric != "cosine":
            return self.radius
        # For vectors of about unit length, |x - y|² = 2 (1 - x·y).
        return math.sqrt(2 * self.radius + 64 * float(np.finfo(self.points).eps))


def _own_costs(
    within: _Range, x: OnHost, y: OnHost, there: tuple[OnHost, OnHost], col4row: OnHost
) -> OnHost:
    """The cost of each row's pair in the result; +inf if the row has none or it does not exist.

    If it is undecided whether a pair exists (see `_Range.judge`), it does.
    """
    own = np.full(len(x), np.inf)
    i = np.flatnonzero((col4row >= 0) & (col4row < len(y)) & there[0])
    i = i[there[1][col4row[i]]]
    x, y = (np.ascontiguousarray(p.T, np.float64) for p in (x, y))
    cost, exists, undecided = within.judge(x, i, y, col4row[i])
    kept: Any = exists | undecided
    own[i[kept]] = cost[kept]
    return own


def _near_pairs(
    within: _Range, x: OnHost, y: OnHost, rows: OnHost, cols: OnHost
) -> Iterator[Pairs]:
    """The pairs that exist regardless of rounding, in blocks of whole rows."""
    i, j = np.flatnonzero(rows), np.flatnonzero(cols)
    if not (i.size and j.size):
        return
    x, y = (np.ascontiguousarray(p.T, np.float64) for p in (x[i], y[j]))
    of_rows, of_cols, beside = _cells(x, y, within.reach)
    by_rows, by_cols = np.argsort(of_rows, kind="stable"), np.argsort(of_cols, kind="stable")
    i, x, of_rows = i[by_rows], x[:, by_rows], of_rows[by_rows]
    j, y, of_cols = j[by_cols], y[:, by_cols], of_cols[by_cols]
    for row, first, count in _candidates(of_rows, of_cols, beside):
        ends = np.cumsum(count)
        col = np.repeat(first - (ends - count), count) + np.arange(ends[-1])
        row = np.repeat(row, count)
        cost, exists, undecided = within.judge(x, row, y, col)
        kept = exists & ~undecided
        yield Pairs(i[row[kept]], j[col[kept]], cost[kept])


def _cells(x: OnHost, y: OnHost, reach: float) -> tuple[OnHost, OnHost, OnHost]:
    """The grid cells of rows and of columns as integers, and the offsets to neighbouring cells.

    Offsets by ±1, which lead to neighbours along the first axis, are not listed.
    """
    # Halve all coordinates, so that differences do not overflow.
    x, y, reach = x / 2, y / 2, reach / 2
    least = y.min(-1)
    span = y.max(-1) - least
    width = np.maximum(np.maximum(reach * _SLACK, span / _MOST_CELLS), 1e-300)
    axes = np.argsort(-(span / width), kind="stable")[:_MOST_AXES]
    cells = [np.zeros(p.shape[1], np.int64) for p in (x, y)]
    beside = np.zeros(1, np.int64)
    for at, axis in enumerate(axes):
        step = 1 << (_KEY_BITS * at)
        for cell, p in zip(cells, (x, y), strict=True):
            # Cells of columns are numbered from 2. Rows farther out get the outermost cells.
            place = np.floor((p[axis] - least[axis]) / width[axis])
            place = np.nan_to_num(place, nan=0.0)  # NaN if `width` is infinite
            cell += (2 + np.clip(place, -2, _MOST_CELLS + 2).astype(np.int64)) * step
        if at:
            beside = (beside[:, None] + step * np.arange(-1, 2)).ravel()
    return cells[0], cells[1], beside


def _candidates(
    of_rows: OnHost, of_cols: OnHost, beside: OnHost
) -> Iterator[tuple[OnHost, OnHost, OnHost]]:
    """Yields, block by block, rows and ranges of columns in the same and neighbouring cells.

    A range is a first column and a number of columns. Rows repeat, once for each of their ranges.
    Both arrays of cells must be sorted.
    """
    for begin in range(0, len(of_rows), _ROWS):
        cells = of_rows[begin : begin + _ROWS, None] + beside
        first = np.searchsorted(of_cols, cells - 1, "left")
        count = np.searchsorted(of_cols, cells + 1, "right") - first
        ends = np.cumsum(count.sum(-1))
        row = np.broadcast_to(np.arange(len(cells))[:, None] + begin, cells.shape)
        start = 0
        while start < len(cells):
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _BLOCK, "right")))
            if ends[stop - 1] > before:
                yield tuple(a[start:stop].ravel() for a in (row, first, count))  # type: ignore[misc]
            start = stop
