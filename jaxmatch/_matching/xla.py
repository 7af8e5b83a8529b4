"""The pure-JAX solver for maximum bipartite matching on any platform.

Multi-source breadth-first search from all free rows. Each search grows a forest of alternating
trees, one per free row. A tree that reaches a free column stops growing, and the path to it is
flipped; trees are disjoint, so all these paths are flipped together. A search that reaches no free
column proves that the matching is maximum. Let K be the columns and Z the rows that it reached:
then K and the rows outside of Z cover every edge (Kőnig).

Conflicts are resolved by `min`, so the result is deterministic. Each level of a search is a pass
over all edges.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.proof import module_of
from jaxmatch._common.result import Matching
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Int
from jaxmatch._matching.graph import BipartiteGraph


class _Edges(NamedTuple):
    """Row and column of each edge, always in range. Edges that are not live are padding."""

    row: Int[Array, " e"]
    col: Int[Array, " e"]
    live: Bool[Array, " e"]


class _Pairs(NamedTuple):
    """A matching; −1 for free rows and columns."""

    col4row: Int[Array, " n"]
    row4col: Int[Array, " m"]


class _Forest(NamedTuple):
    """The trees of one search.

    n and m are the "none" values of rows and columns: they lose every `min`.
    """

    root: Int[Array, " n"]  # the root of the tree of each row
    parent: Int[Array, " m"]  # the row from which a column was reached
    end: Int[Array, " n"]  # for each root, the free column that its tree reached
    frontier: Bool[Array, " n"]  # rows from which the next level is reached


def solve(
    graph: BipartiteGraph, start: Int[Array, "... n"] | None = None, *, init: str, search: bool
) -> Matching:
    """Solves as documented in `maximum_bipartite_matching`.

    Without `search` it returns the initial matching.
    """
    if start is None:
        start = jnp.full_like(graph.row_ptr[..., 1:], -1)
    arrays = (graph.row_ptr, graph.col_ind, graph.col_ptr, graph.row_ind, start)
    # `zero` gives all arrays, and so all loop states, the same varying axes in a `shard_map`.
    zero = 0 * sum((x.sum(dtype=jnp.int32) for x in arrays), jnp.int32(0))
    one = partial(_solve_one, init=init, search=search)
    for _ in graph.batch_shape:
        one = jax.vmap(one)
    return one(*(x + zero for x in arrays))


def _solve_one(
    row_ptr: Int[Array, " n+1"],
    col_ind: Int[Array, " e"],
    col_ptr: Int[Array, " m+1"],
    row_ind: Int[Array, " e"],
    start: Int[Array, " n"],
    *,
    init: str,
    search: bool,
) -> Matching:
    n, m, e = len(row_ptr) - 1, len(col_ptr) - 1, len(col_ind)
    valid = is_csr(row_ptr, col_ind, m) & is_csr(col_ptr, row_ind, n)
    valid &= row_ptr[-1] == col_ptr[-1]
    pairs = _Pairs(jnp.full_like(row_ptr[1:], -1), jnp.full_like(col_ptr[1:], -1))
    reached_rows, reached_cols = pairs.col4row < 0, pairs.row4col >= 0
    if min(n, m, e) > 0:
        edges = _edges(row_ptr, col_ind, m, valid)
        pairs = _INITS[init](edges, _keep(edges, start, pairs))
        if search:
            pairs, forest = _augment_until_maximum(edges, pairs)
            reached_rows, reached_cols = forest.root < n, forest.parent < n

    done = Status.OPTIMAL if search else Status.UNFINISHED
    proved = valid & search
    return Matching(
        col4row=pairs.col4row,
        row4col=pairs.row4col,
        cardinality=jnp.where(valid, (pairs.col4row >= 0).sum(dtype=jnp.int32), -1),
        row_cover=proved & ~reached_rows,
        col_cover=proved & reached_cols,
        status=jnp.where(valid, done, Status.INVALID_GRAPH).astype(jnp.int32),
    )


# ---------------------------------------------------------------------------------------------
# The graph


def is_csr(ptr: Int[Array, " k+1"], ind: Int[Array, " e"], size: int) -> Bool[Array, ""]:
    """Whether `ptr` rises from 0 to at most e, and the first `ptr[-1]` indices are valid.

    Valid indices are from 0 to `size` - 1.
    """
    in_range = (ind >= 0) & (ind < size)
    used = module_of(ind).arange(ind.shape[0], dtype=np.int32) < ptr[-1]
    rises = (ptr[0] == 0) & (ptr[1:] >= ptr[:-1]).all() & (ptr[-1] <= ind.shape[0])
    return rises & (in_range | ~used).all()


def _edges(
    row_ptr: Int[Array, " n+1"], col_ind: Int[Array, " e"], m: int, valid: Bool[Array, ""]
) -> _Edges:
    """All edges of a valid graph, none of an invalid one."""
    n, e = len(row_ptr) - 1, len(col_ind)
    # The row of edge k is the number of rows whose edges all come before k.
    ends = jnp.zeros_like(col_ind).at[row_ptr[1:-1]].add(1, mode="drop")
    row = ends.cumsum(dtype=jnp.int32).clip(0, n - 1)
    live = valid & (jnp.arange(e, dtype=jnp.int32) < row_ptr[-1])
    return _Edges(row, col_ind.clip(0, m - 1), live)


def _least(where: Bool[Array, " e"], at: Array, value: Array, size: int, none: int) -> Array:
    """Scatter-min: the least `value` for each of `size` places, or `none` for an empty place."""
    nothing = jnp.full_like(value, none, shape=(size,))
    return nothing.at[at].min(jnp.where(where, value, none))


# ---------------------------------------------------------------------------------------------
# The initial matching


def _keep(edges: _Edges, start: Int[Array, " n"], free: _Pairs) -> _Pairs:
    """The pairs of `start` that are edges. If rows share a column, the first row keeps it."""
    n, m = len(free.col4row), len(free.row4col)
    is_edge = edges.live & (edges.col == start[edges.row])
    row4col = _least(is_edge, edges.col, edges.row, m, n)
    return _take(free, row4col)


def _take(pairs: _Pairs, row: Int[Array, " m"]) -> _Pairs:
    """Pairs each column j with row `row[j]`, which must be free and unique, or n for no row."""
    n, m = len(pairs.col4row), len(pairs.row4col)
    col = jnp.arange(m, dtype=jnp.int32)
    return _Pairs(
        pairs.col4row.at[row].set(col, mode="drop"), jnp.where(row < n, row, pairs.row4col)
    )


def _propose(edges: _Edges, pairs: _Pairs, eligible: Bool[Array, " e"]) -> _Pairs:
    """Each row with an eligible edge proposes to one column; each column accepts one proposal.

    A row proposes to its first column in cyclic order from the row's own index. If the order began
    at 0, all rows of a dense graph would propose to the same column.
    """
    n, m = len(pairs.col4row), len(pairs.row4col)
    distance = (edges.col - edges.row) % m
    nearest = _least(eligible, edges.row, distance, n, m)
    proposed = eligible & (distance == nearest[edges.row])
    return _take(pairs, _least(proposed, edges.col, edges.row, m, n))


def _free(edges: _Edges, pairs: _Pairs) -> Bool[Array, " e"]:
    """The edges between free vertices."""
    return edges.live & (pairs.col4row[edges.row] < 0) & (pairs.row4col[edges.col] < 0)


def _cheap(edges: _Edges, pairs: _Pairs) -> _Pairs:
    """A maximal matching by rounds of proposals."""
    return lax.while_loop(
        lambda pairs: _free(edges, pairs).any(),
        lambda pairs: _propose(edges, pairs, _free(edges, pairs)),
        pairs,
    )


def _karp_sipser(edges: _Edges, pairs: _Pairs) -> _Pairs:
    """As `_cheap`, but edges at a vertex with only one free neighbour come first."""

    def round_of_proposals(pairs: _Pairs) -> _Pairs:
        free = _free(edges, pairs)
        row_degree = jnp.zeros_like(pairs.col4row).at[edges.row].add(free.astype(jnp.int32))
        col_degree = jnp.zeros_like(pairs.row4col).at[edges.col].add(free.astype(jnp.int32))
        single = free & ((row_degree[edges.row] == 1) | (col_degree[edges.col] == 1))
        return _propose(edges, pairs, jnp.where(single.any(), single, free))

    return lax.while_loop(lambda pairs: _free(edges, pairs).any(), round_of_proposals, pairs)


_INITS = {
    "none": lambda edges, pairs: pairs,
    "auto": _cheap,
    "cheap": _cheap,
    "karp_sipser": _karp_sipser,
}


# ---------------------------------------------------------------------------------------------
# The search


def _augment_until_maximum(edges: _Edges, pairs: _Pairs) -> tuple[_Pairs, _Forest]:
    """Searches and augments until a search finds no path; returns its forest."""
    m = len(pairs.row4col)
    return lax.while_loop(
        lambda state: (state[1].end < m).any(),
        lambda state: _search(edges, _flip(*state)),
        _search(edges, pairs),
    )


def _search(edges: _Edges, pairs: _Pairs) -> tuple[_Pairs, _Forest]:
    """Breadth-first search from all free rows, until no tree grows."""
    n, m = len(pairs.col4row), len(pairs.row4col)
    row, col = jnp.arange(n, dtype=jnp.int32), jnp.arange(m, dtype=jnp.int32)
    free = pairs.col4row < 0
    planted = _Forest(
        root=jnp.where(free, row, n),
        parent=jnp.full_like(pairs.row4col, n),
        end=jnp.full_like(pairs.col4row, m),
        frontier=free,
    )

    def level(forest: _Forest) -> _Forest:
        proposes = edges.live & forest.frontier[edges.row] & (forest.parent[edges.col] == n)
        claim = _least(proposes, edges.col, edges.row, m, n)
        new = claim < n
        parent = jnp.where(new, claim, forest.parent)
        root_of_col = forest.root[claim.clip(0, n - 1)]
        ends = jnp.where(new & (pairs.row4col < 0), root_of_col, n)
        end = forest.end.at[ends].min(col, mode="drop")
        # A matched row joins the tree through its column.
        joins = (pairs.col4row >= 0) & new[pairs.col4row]
        root = jnp.where(joins, root_of_col[pairs.col4row], forest.root)
        grows = joins & (end[root.clip(0, n - 1)] == m)
        return _Forest(root, parent, end, grows)

    return pairs, lax.while_loop(lambda forest: forest.frontier.any(), level, planted)


def _flip(pairs: _Pairs, forest: _Forest) -> _Pairs:
    """Flips the augmenting path of each tree that has one, edge by edge from its end."""
    n, m = len(pairs.col4row), len(pairs.row4col)

    def step(state: tuple[_Pairs, Array]) -> tuple[_Pairs, Array]:
        pairs, col = state
        row = jnp.where(col < m, forest.parent[col.clip(0, m - 1)], n)
        left = pairs.col4row[row.clip(0, n - 1)]  # the old column of the row; −1 at the root
        flipped = _Pairs(
            pairs.col4row.at[row].set(col, mode="drop"),
            pairs.row4col.at[col].set(row, mode="drop"),
        )
        return flipped, jnp.where((row < n) & (left >= 0), left, m)

    return lax.while_loop(lambda state: (state[1] < m).any(), step, (pairs, forest.end))[0]
