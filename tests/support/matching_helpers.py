"""What the matching tests share: families of graphs, other people's solvers, and assertions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import igraph
import networkx as nx
import numpy as np
import scipy.sparse as sp
from helpers import assert_inverse, problem, to_numpy
from scipy.sparse.csgraph import maximum_bipartite_matching as scipy_matching

import jaxmatch as jm
from jaxmatch._matching.solve import _METHODS


METHODS = [method for method in _METHODS if method not in ("init_only", "flow")]
INITS = ["auto", "none", "cheap", "karp_sipser"]


def from_edges(edges: Any, shape: tuple[int, int]) -> jm.BipartiteGraph:
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    return jm.BipartiteGraph.from_edges(edges[:, 0], edges[:, 1], shape)


def edges_of(graph: jm.BipartiteGraph) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the edges of one graph."""
    pointers = np.asarray(graph.row_ptr)
    rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    return rows, np.asarray(graph.col_ind)[: len(rows)]


def graphs_of(batch: jm.BipartiteGraph) -> Iterator[jm.BipartiteGraph]:
    """The graphs of a batch of any rank, in NumPy."""
    batch = to_numpy(batch)
    for k in np.ndindex(batch.batch_shape):
        yield problem(batch, k)


# ---------------------------------------------------------------------------------------------
# Graphs


def random_graph(rng: np.random.Generator, n: int, m: int, e: int) -> jm.BipartiteGraph:
    return jm.BipartiteGraph.from_edges(rng.integers(0, n, e), rng.integers(0, m, e), (n, m))


def permuted(rng: np.random.Generator, graph: jm.BipartiteGraph) -> jm.BipartiteGraph:
    n, m = graph.shape
    rows, cols = edges_of(graph)
    return jm.BipartiteGraph.from_edges(rng.permutation(n)[rows], rng.permutation(m)[cols], (n, m))


def ladder(levels: int) -> jm.BipartiteGraph:
    """A matched ladder with a free row in front, beside a chain with one long augmenting path.

    Depth-first searches that do not mark dead ends try 2^levels paths in the ladder; scipy's does.
    """
    edges = [(2 * k + a, 2 * k + a) for k in range(levels) for a in (0, 1)]
    edges += [(k, 2 * (k // 2 + 1) + b) for k in range(2 * levels - 2) for b in (0, 1)]
    chain, last = 2 * levels, 3 * levels
    edges += [(chain + k, chain + k + b) for k in range(levels) for b in (0, 1)]
    edges += [(last, chain), (last + 1, 0), (last + 1, 1)]
    return from_edges(edges, (last + 2, last + 1))


def chains(count: int, length: int) -> jm.BipartiteGraph:
    """A cheap start leaves one augmenting path in each, through all of its vertices."""
    at = np.arange(count * length)
    inner = at[at % length < length - 1]
    edges = np.concatenate([np.stack([inner, inner + 1], 1), np.stack([at, at], 1)])
    return from_edges(edges, (count * length, count * length))


def strip(width: int, length: int, holes: int) -> jm.BipartiteGraph:
    """A grid of black and white fields, with black ones missing at one end, white ones at the
    other: augmenting paths go all the way."""
    x, y = np.meshgrid(np.arange(length), np.arange(width))
    black = (x + y) % 2 == 0
    kept = ~(black & (x < 2 * holes) & (y == 0))
    kept &= ~(~black & (x >= length - 2 * holes) & (y == width - 1))
    count = [np.cumsum(colour & kept).reshape(x.shape) for colour in (black, ~black)]
    number = np.where(black, *count) - 1
    edges = []
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        to_x, to_y = x + dx, y + dy
        inside = (to_x >= 0) & (to_x < length) & (to_y >= 0) & (to_y < width)
        to_x, to_y = to_x.clip(0, length - 1), to_y.clip(0, width - 1)
        joined = black & kept & inside & kept[to_y, to_x]
        edges.append(np.stack([number[joined], number[to_y, to_x][joined]], 1))
    return from_edges(np.concatenate(edges), ((black & kept).sum(), (~black & kept).sum()))


def two_stars(n: int) -> jm.BipartiteGraph:
    """A row joined to every column, and a column joined to every row."""
    at = np.arange(n)
    return jm.BipartiteGraph.from_edges(np.r_[0 * at, at], np.r_[at, 0 * at], (n, n))


def families(size: int) -> dict[str, jm.BipartiteGraph]:
    """Graphs that are hard, or odd, of about `size` vertices a side."""
    rng = np.random.default_rng(size)
    n, at = size, np.arange(size)
    full = np.stack(np.meshgrid(at[:400], at[:400], indexing="ij"), -1).reshape(-1, 2)
    wide = np.stack(np.meshgrid(at[:3], at, indexing="ij"), -1).reshape(-1, 2)
    few = rng.integers(0, n, (3 * n, 2))
    sparse = rng.integers(0, n, (2 * n, 2))
    skewed = (n * rng.random((4 * n, 2)) ** 4).astype(np.int64)
    diagonal = np.stack([at, at], 1)
    hall = np.stack([at, at % max(n // 3, 1)], 1)
    return {
        "ladder": ladder(max(n // 3, 1)),
        "chain": chains(1, n),
        "chains": chains(max(n // 4, 1), 4),
        "strip": strip(4, max(n // 2, 8), 2),
        "star of a row": from_edges(np.stack([0 * at, at], 1), (n, n)),
        "star of a column": from_edges(np.stack([at, 0 * at], 1), (n, n)),
        "two stars": two_stars(n),
        "empty rows": from_edges(few[few[:, 0] % 3 > 0], (n, n)),
        "empty columns": from_edges(few[few[:, 1] % 3 > 0], (n, n)),
        "complete": from_edges(full, (n, n)),
        "complete wide": from_edges(wide, (n, n)),
        "staircase": from_edges(full[full[:, 0] >= full[:, 1]], (n, n)),
        "duplicates": from_edges(np.concatenate([sparse, sparse, sparse[::-1]]), (n, n)),
        "one row": from_edges(np.stack([0 * at, at], 1), (1, n)),
        "one column": from_edges(np.stack([at, 0 * at], 1), (n, 1)),
        "single edge": from_edges([(0, 0)], (1, 1)),
        "no edges": from_edges([], (n, n)),
        "no rows": from_edges([], (0, n)),
        "no columns": from_edges([], (n, 0)),
        "nothing": from_edges([], (0, 0)),
        "identity": from_edges(diagonal, (n, n)),
        "mirrored": from_edges(diagonal * (1, -1) + (0, n - 1), (n, n)),
        "too few columns": from_edges(hall, (n, n)),
        "skewed": from_edges(skewed, (n, n)),
        "sparse": from_edges(sparse, (n, n)),
        "sparse wide": random_graph(rng, max(n // 2, 1), n, n),
        "sparse tall": random_graph(rng, n, max(n // 2, 1), n),
    }


# ---------------------------------------------------------------------------------------------
# Other people's solvers


def by_igraph(graph: jm.BipartiteGraph) -> int:
    """Sequential push-relabel."""
    n, m = graph.shape
    rows, cols = edges_of(graph)
    other = igraph.Graph(n + m, np.stack([rows, cols + n], 1).tolist())
    types = [False] * n + [True] * m
    return len(other.maximum_bipartite_matching(types=types)) if n + m else 0


def by_networkx(graph: jm.BipartiteGraph) -> int:
    """Hopcroft and Karp."""
    rows, cols = edges_of(graph)
    other = nx.Graph()
    other.add_edges_from((("row", i), ("col", j)) for i, j in zip(rows, cols, strict=True))
    top = [("row", i) for i in set(rows)]
    return len(nx.bipartite.hopcroft_karp_matching(other, top)) // 2


def by_scipy(graph: jm.BipartiteGraph) -> int:
    """Hopcroft and Karp, but exponential on ladders."""
    n, m = graph.shape
    rows, cols = edges_of(graph)
    if n == 0 or m == 0:
        return 0
    matrix = sp.csr_array((np.ones(len(rows), bool), (rows, cols)), shape=(n, m))
    return int((scipy_matching(matrix, "column") >= 0).sum())


# ---------------------------------------------------------------------------------------------
# Assertions


def assert_matching(graph: jm.BipartiteGraph, res: jm.Matching) -> None:
    """One graph: the pairs are edges, no vertex is in two, and they are counted right."""
    res = to_numpy(res)
    n, m = graph.shape
    rows, cols = edges_of(graph)
    assert res.col4row.shape == res.row_cover.shape == (n,)
    assert res.row4col.shape == res.col_cover.shape == (m,)
    assert res.col4row.min(initial=0) >= -1 and res.col4row.max(initial=-1) < m
    assert_inverse(res.col4row, res.row4col)
    matched = np.flatnonzero(res.col4row >= 0)
    assert len(set(res.col4row[matched])) == len(matched) == res.cardinality
    pairs = set(zip(rows.tolist(), cols.tolist(), strict=True))
    assert pairs.issuperset(zip(matched.tolist(), res.col4row[matched].tolist(), strict=True))


def assert_maximum(graph: jm.BipartiteGraph, res: jm.Matching) -> None:
    """One graph: a matching, and a cover of as many vertices, which proves it maximum (Kőnig)."""
    res = to_numpy(res)
    assert res.status == jm.Status.OPTIMAL
    assert_matching(graph, res)
    rows, cols = edges_of(graph)
    assert (res.row_cover[rows] | res.col_cover[cols]).all(), "an edge is not covered"
    assert res.row_cover.sum() + res.col_cover.sum() == res.cardinality


def assert_all_maximum(batch: jm.BipartiteGraph, res: jm.Matching) -> None:
    """Every graph of a batch of any rank."""
    res = to_numpy(res)
    assert res.status.shape == batch.batch_shape
    for k, graph in zip(np.ndindex(batch.batch_shape), graphs_of(batch), strict=True):
        assert_maximum(graph, problem(res, k))


def assert_invalid(res: jm.Matching) -> None:
    """All that a result says of graphs that make no sense."""
    res = to_numpy(res)
    np.testing.assert_array_equal(res.status, jm.Status.INVALID_GRAPH)
    for x in (res.col4row, res.row4col, res.cardinality):
        np.testing.assert_array_equal(x, -1)
    assert not res.row_cover.any() and not res.col_cover.any()
