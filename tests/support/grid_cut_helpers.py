"""What the tests of grid cuts share: grids, an exact solver, scipy's, and the capacity of a cut."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

import jaxmatch as jm


def _both_ways(*half: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [*half, *(tuple(-d for d in step) for step in half)]


_FACES = ((0, 0, 1), (0, 1, 0), (1, 0, 0))
_EDGES = ((0, 1, 1), (0, 1, -1), (1, 0, 1), (1, 0, -1), (1, 1, 0), (1, -1, 0))
_CORNERS = ((1, 1, 1), (1, 1, -1), (1, -1, 1), (1, -1, -1))
STEPS = {
    4: [(0, 1), (1, 0), (0, -1), (-1, 0)],
    8: [(0, 1), (1, 0), (1, 1), (1, -1), (0, -1), (-1, 0), (-1, -1), (-1, 1)],
    6: [(0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, -1), (0, -1, 0), (-1, 0, 0)],
    18: _both_ways(*_FACES, *_EDGES),
    26: _both_ways(*_FACES, *_EDGES, *_CORNERS),
}
CONNECTIVITIES = tuple(STEPS)


def is_solid(connectivity: int) -> bool:
    """Whether the grid is a volume."""
    return len(STEPS[connectivity][0]) == 3


def arcs_of(pairwise: np.ndarray, connectivity: int) -> tuple[np.ndarray, ...]:
    """Tails, heads and capacities of all arcs between cells, and the entry that each is from."""
    steps = STEPS[connectivity]
    grid = pairwise.shape[1:]
    cells = np.arange(np.prod(grid)).reshape(grid)
    tails, heads, entries = [], [], []
    for k, step in enumerate(steps):
        here = tuple(slice(max(0, -d), n - max(0, d)) for d, n in zip(step, grid, strict=True))
        there = tuple(slice(max(0, d), n - max(0, -d)) for d, n in zip(step, grid, strict=True))
        if any(abs(d) > n for d, n in zip(step, grid, strict=True)):
            continue
        tail, head = cells[here].ravel(), cells[there].ravel()
        mirrored = len(pairwise) < len(steps) and k >= len(pairwise)
        tails.append(tail)
        heads.append(head)
        at = head if mirrored else tail
        entries.append((k % len(pairwise)) * cells.size + at)
    tail, head, entry = (np.concatenate(x) for x in (tails, heads, entries))
    return tail, head, pairwise.ravel()[entry], entry


def capacity_of_cut(source: Any, sink: Any, pairwise: Any, side: Any, connectivity: int) -> Any:
    """In the arithmetic of the capacities."""
    side = np.asarray(side).ravel()
    tail, head, capacity, _ = arcs_of(np.asarray(pairwise), connectivity)
    crosses = side[tail] & ~side[head]
    terminal = np.where(side, np.ravel(sink), np.ravel(source))
    return terminal.sum() + capacity[crosses].sum()


def exact_cut(
    source: Any, sink: Any, pairwise: Any, connectivity: int
) -> tuple[Fraction | float, np.ndarray]:
    """The minimum in rational arithmetic, and the source side of the source-most cut.

    Shortest augmenting paths (Edmonds and Karp) on Python integers.
    """
    source, sink, pairwise = (np.asarray(x) for x in (source, sink, pairwise))
    tail, head, capacity, _ = arcs_of(pairwise, connectivity)
    n = source.size
    s, t = n, n + 1
    numbers = [*source.ravel().tolist(), *sink.ravel().tolist(), *capacity.tolist()]
    ratios = [(0, 1) if x == np.inf else Fraction(x).as_integer_ratio() for x in numbers]
    unit = max((q for _, q in ratios), default=1)
    whole = [p * (unit // q) for p, q in ratios]
    endless = sum(whole) + 1
    whole = [endless if x == np.inf else w for x, w in zip(numbers, whole, strict=True)]
    ends = [(s, i) for i in range(n)] + [(i, t) for i in range(n)]
    ends += list(zip(tail.tolist(), head.tolist(), strict=True))
    left: list[dict[int, int]] = [{} for _ in range(n + 2)]
    for (u, v), c in zip(ends, whole, strict=True):
        left[u][v] = left[u].get(v, 0) + c
        left[v].setdefault(u, 0)
    value = 0
    while True:
        parent = {s: s}
        queue = deque([s])
        while queue and t not in parent:
            u = queue.popleft()
            for v, c in left[u].items():
                if c > 0 and v not in parent:
                    parent[v] = u
                    queue.append(v)
        if t not in parent:
            break
        path = [t]
        while path[-1] != s:
            path.append(parent[path[-1]])
        pairs = [(v, u) for u, v in zip(path, path[1:], strict=False)]
        least = min(left[u][v] for u, v in pairs)
        for u, v in pairs:
            left[u][v] -= least
            left[v][u] += least
        value += least
    side = np.array([i in parent for i in range(n)], bool).reshape(source.shape)
    return np.inf if value >= endless else Fraction(value, unit), side


def scipy_cut(source: Any, sink: Any, pairwise: Any, connectivity: int) -> tuple[int, np.ndarray]:
    """Dinic's algorithm on int32, and the source side of the source-most cut."""
    source, sink = (np.asarray(x).ravel().astype(np.int64) for x in (source, sink))
    tail, head, capacity, _ = arcs_of(np.asarray(pairwise), connectivity)
    n = source.size
    direct = np.minimum(source, sink)  # keeps sums in 32 bits
    cells = np.arange(n)
    rows = np.concatenate([np.full(n, n), cells, tail])
    cols = np.concatenate([cells, np.full(n, n + 1), head])
    values = np.concatenate([source - direct, sink - direct, capacity]).astype(np.int32)
    network = sp.csr_array((values, (rows, cols)), shape=(n + 2, n + 2))
    found = maximum_flow(network, n, n + 1)
    residual = network - found.flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    side = np.zeros(n + 2, bool)
    side[breadth_first_order(residual, n, return_predecessors=False)] = True
    return int(found.flow_value) + int(direct.sum()), side[:n]


def random_grid(
    rng: np.random.Generator, shape: tuple[int, ...], connectivity: int, *, most: int = 10,
    directed: bool | None = None, dtype: Any = np.int32,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Capacities from 0 to `most`, some of them 0, and anything where arcs leave the grid."""
    directed = bool(rng.integers(2)) if directed is None else directed
    arcs = connectivity if directed else connectivity // 2

    def numbers(shape: tuple[int, ...]) -> np.ndarray:
        x = rng.integers(0, most + 1, shape)
        return (x * (rng.random(shape) < rng.choice([0.3, 0.7, 1.0]))).astype(dtype)

    source, sink, pairwise = numbers(shape), numbers(shape), numbers((arcs, *shape))
    for k in range(arcs):
        for axis, (d, n) in enumerate(zip(STEPS[connectivity][k], shape, strict=True)):
            if d:
                at = [slice(None)] * len(shape)
                at[axis] = slice(n - 1, n) if d > 0 else slice(0, 1)
                pairwise[k][tuple(at)] = rng.integers(-5, 100)
    return source, sink, pairwise


def crowded_cell(connectivity: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A volume in which all neighbours of a cell may send it `most`, and one may send it on.

    Each neighbour gives `most` to the sink, and one cell far from them takes it from the source.
    """
    source, sink = np.zeros((2, 3, 3, 5), np.int64)
    pairwise = np.zeros((connectivity, 3, 3, 5), np.int64)
    centre, opposite = (1, 1, 1), STEPS[connectivity].index((0, 0, -1))
    for k, step in enumerate(STEPS[connectivity]):
        sink[tuple(np.add(centre, step))] = most
        pairwise[(k, *centre)] = most
    source[1, 1, 4] = most
    pairwise[opposite, 1, 1, 2:] = most
    sink[1, 1, 2] = 0
    return source, sink, pairwise


def random_shape(rng: np.random.Generator, connectivity: int, most: int = 6) -> tuple[int, ...]:
    return tuple(rng.integers(1, most + 1, len(STEPS[connectivity][0])).tolist())


def assert_minimum(
    res: jm.MinimumCut, source: Any, sink: Any, pairwise: Any, connectivity: int
) -> None:
    """One problem: the value, the cut, and that this is the source-most one."""
    value, side = exact_cut(source, sink, pairwise, connectivity)
    assert res.status == jm.Status.OPTIMAL
    np.testing.assert_array_equal(res.source_side, side)
    assert float(res.value) == float(value)
