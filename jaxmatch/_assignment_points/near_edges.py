"""Finds the pairs of points within a radius on this host, by a grid, as a graph.

The points of a pair are in the same or in neighbouring cells. Pairs and costs are those of the
native solver: distances are summed in float64, in the order of the coordinates.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jaxmatch._assignment_points.near_problem import NearProblem
from jaxmatch._common.limits import MOST_GRAPH_EDGES
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array
from jaxmatch._matching.graph import BipartiteGraph


_AXES, _BITS = 3, 20  # of the grid: axes, and bits of a cell along each
_CANDIDATES = 1 << 20  # pairs that are looked at together


class NearEdges(NamedTuple):
    graph: BipartiteGraph
    cost: Array
    status: Status  # `OPTIMAL`, or why there is no graph


def near_edges(problem: NearProblem, metric: str) -> NearEdges:
    """The graph of all pairs within the radius, in NumPy."""
    sides = problem.x, problem.y
    n, m = map(len, sides)
    finite = [np.isfinite(p).all(-1) for p in sides]
    there: Any = [
        np.ones(len(p), bool) if mask is None else np.asarray(mask)
        for p, mask in zip(sides, (problem.row_mask, problem.col_mask), strict=True)
    ]
    radius = float(problem.radius)
    if not radius >= 0 or any((a & ~b).any() for a, b in zip(there, finite, strict=True)):
        return _nothing(n, m, problem, Status.INVALID_COST)
    i, j = (np.flatnonzero(x) for x in there)
    x, y = (
        np.ascontiguousarray(np.asarray(p)[k].T, np.float64)
        for p, k in zip(sides, (i, j), strict=True)
    )
    dtype = problem.x.dtype
    rows, cols, costs = [], [], []
    count = 0
    for a, b in _candidates(x, y, _reach(radius, metric, dtype)):
        near = _within(x[:, a], y[:, b], radius, metric)
        a, b = a[near], b[near]
        cost = _distance(x[:, a], y[:, b], metric).astype(dtype)
        kept = np.isfinite(cost)
        rows.append(i[a[kept]])
        cols.append(j[b[kept]])
        costs.append(cost[kept])
        count += int(kept.sum())
        if count > MOST_GRAPH_EDGES:
            return _nothing(n, m, problem, Status.OVERFLOW)
    if not count:
        return _nothing(n, m, problem, Status.OPTIMAL)
    row, col, cost = (np.concatenate(k) for k in (rows, cols, costs))
    order = np.argsort(row * np.int64(m) + col)
    row, col, cost = row[order].astype(np.int32), col[order].astype(np.int32), cost[order]
    by_col = np.argsort(col, kind="stable")
    ends = (_pointers(row, n), col, _pointers(col, m), row[by_col])
    return NearEdges(BipartiteGraph(*ends, np.int32(n), np.int32(m)), cost, Status.OPTIMAL)  # type: ignore[arg-type]


def _nothing(n: int, m: int, problem: NearProblem, status: Status) -> NearEdges:
    none: Any = np.zeros(0, np.int32)
    ends = np.zeros(n + 1, np.int32), none, np.zeros(m + 1, np.int32), none
    graph = BipartiteGraph(*ends, np.int32(n), np.int32(m))  # type: ignore[arg-type]
    return NearEdges(graph, none.astype(problem.x.dtype), status)


def _pointers(index: Any, size: int) -> Any:
    counts = np.bincount(index, minlength=size)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _reach(radius: float, metric: str, dtype: np.dtype) -> float:
    """The most by which two points of a pair differ in a coordinate, with room for rounding."""
    if metric == "cosine":  # of unit vectors, |x - y|² = 2 (1 - x·y)
        return math.sqrt(2 * radius + 256 * float(np.finfo(dtype).eps))
    return radius * (1 + 2.0**-20)


def _distance(x: Any, y: Any, metric: str, scale: float = 1.0) -> Any:
    """The distances of points [dims, k]."""
    total = np.zeros(x.shape[1])
    for a, b in zip(x, y, strict=True):
        if metric == "cosine":
            total += a * b
            continue
        apart = (a - b) * scale
        total += np.abs(apart) if metric == "l1" else apart * apart
    if metric == "cosine":
        return 1 - total
    return np.sqrt(total) if metric == "euclidean" else total


def _within(x: Any, y: Any, radius: float, metric: str) -> Any:
    """Which pairs of points lie within the radius."""
    of_squares = metric in ("sqeuclidean", "euclidean")
    scale = 1.0
    if of_squares and not 2.0**-480 <= radius <= 2.0**480:
        scale = 2.0**-700 if radius > 1 else 2.0**700  # else squares would leave the range
    most = radius * scale
    most = most * most if metric == "sqeuclidean" else most
    return _distance(x, y, metric, scale) <= most


def _candidates(x: Any, y: Any, reach: float) -> Any:
    """Yields indices of rows and of columns whose cells are the same or neighbours."""
    n, m = x.shape[1], y.shape[1]
    if not n or not m:
        return
    low, high = y.min(1, initial=np.inf) / 2, y.max(1, initial=-np.inf) / 2  # halves stay in range
    of_row, of_col, beside = np.zeros(n, np.int64), np.zeros(m, np.int64), [0]
    # Cells are wider than the reach, and at most 2^18 along an axis.
    width = np.maximum(np.maximum(reach / 2, (high - low) / 2.0 ** (_BITS - 2)), 1e-300)
    width = width * (1 + 2.0**-12)
    axes = np.argsort(low - high, kind="stable")[:_AXES] if np.isfinite(reach) else []
    for place, axis in enumerate(axes):
        step = 1 << (_BITS * place)
        for cell, p in ((of_row, x), (of_col, y)):
            at = np.floor((p[axis] / 2 - low[axis]) / width[axis])
            # Rows beyond all columns get cells of their own, without neighbours.
            cell += (3 + np.clip(at, -3, 2.0 ** (_BITS - 1)).astype(np.int64)) * step
        if place:
            beside = [b + k * step for b in beside for k in (-1, 0, 1)]
    by_col = np.argsort(of_col, kind="stable")
    of_col = of_col[by_col]
    side = np.asarray(beside)
    rows_at_once = max(1, _CANDIDATES // 64)
    for start in range(0, n, rows_at_once):
        cells = of_row[start : start + rows_at_once, None] + side
        first = np.searchsorted(of_col, cells - 1, "left").ravel()
        count = np.searchsorted(of_col, cells + 1, "right").ravel() - first
        row = np.repeat(np.arange(start, start + len(cells)), len(side))
        ends = np.cumsum(count)
        begin = 0
        while begin < len(count):
            before = ends[begin] - count[begin]
            stop = max(begin + 1, int(np.searchsorted(ends, before + _CANDIDATES, "right")))
            some = count[begin:stop]
            places = np.arange(some.sum()) - np.repeat(np.cumsum(some) - some, some)
            yield (
                np.repeat(row[begin:stop], some),
                by_col[np.repeat(first[begin:stop], some) + places],
            )
            begin = stop
