"""Shortest augmenting paths of the pure-JAX twin, for one problem.

The problem is that of a perfect matching in a graph of twice the size (Ahuja, Magnanti and Orlin,
*Network Flows*, 1993, chapter 12, describes such reductions). Left nodes are the rows and a copy of
each column, right nodes the columns and a copy of each row. Each edge appears twice: between its
row and its column, at its cost, and between their copies, for nothing. A row or a column that may
stay is joined to its own copy, at the price of staying. With potentials a of left and b of right
nodes, u_i = a_i + b'_i and v_j = a'_j + b_j are the duals.

All free left nodes search at once. The distances turn the shortest paths of each tree into paths of
tight arcs; trees are disjoint, so all their paths are flipped together. Conflicts are resolved by
`min`, so the result is deterministic. Every pass costs O(n + m + e).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.typing import Array, Bool, Float, Int, Num


class Arcs(NamedTuple):
    """Ids of the arcs in both directions."""

    pair: Num[Array, " e"]  # row i, column j
    mirror: Num[Array, " e"]  # copy of column j, copy of row i
    row: Num[Array, " n"]  # row i, its copy
    col: Num[Array, " m"]  # copy of column j, column j


class Doubled(NamedTuple):
    """Left nodes are n rows and m copies of columns, right nodes m columns and n copies of rows."""

    edge_row: Int[Array, " e"]
    edge_col: Int[Array, " e"]
    cost: Arcs  # +inf: the arc does not exist

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.cost.row), len(self.cost.col)

    def of_left(self, x: Num[Array, " k"]) -> Arcs:
        n, _ = self.sizes
        return Arcs(x[self.edge_row], x[n + self.edge_col], x[:n], x[n:])

    def of_right(self, x: Num[Array, " k"]) -> Arcs:
        _, m = self.sizes
        return Arcs(x[self.edge_col], x[m + self.edge_row], x[m:], x[:m])

    def least_at_right(self, x: Arcs, none: float | int) -> Array:
        return self._least(x.pair, x.mirror, x.row, x.col, none)

    def least_at_left(self, x: Arcs, none: float | int) -> Array:
        n, m = self.sizes
        flipped = self._least(x.mirror, x.pair, x.row, x.col, none)
        return jnp.concatenate([flipped[m:], flipped[:m]]) if n + m else flipped

    def _least(self, at_cols: Array, at_rows: Array, row: Array, col: Array, none: float) -> Array:
        """Of each column, then of each row, the least of its edges and of its own arc."""
        of_cols = jnp.full_like(col, none).at[self.edge_col].min(at_cols)
        of_rows = jnp.full_like(row, none).at[self.edge_row].min(at_rows)
        return jnp.concatenate([jnp.minimum(of_cols, col), jnp.minimum(of_rows, row)])


class Matched(NamedTuple):
    """Potentials and pairs; the number of nodes of a side, as an index, means none."""

    a: Float[Array, " k"]
    b: Float[Array, " k"]
    right_of: Int[Array, " k"]
    left_of: Int[Array, " k"]
    failed: Bool[Array, ""]


class _Trees(NamedTuple):
    """Shortest paths from the free left nodes to right nodes, and the last left node on each."""

    dist: Float[Array, " k"]
    parent: Int[Array, " k"]
    grows: Bool[Array, ""]


def match_all(graph: Doubled) -> Matched:
    """A perfect matching of least cost; `failed` if there is none. Costs must not be NaN.

    The loop ends for any numbers: each phase matches one more node at least, and distances decrease
    until paths of at most all nodes are found, as no arc is shorter than 0, whatever was rounded.
    """
    size = sum(graph.sizes)
    least = graph.least_at_left(graph.cost, jnp.inf)
    start = Matched(
        a=jnp.where(least < jnp.inf, least, 0),
        b=jnp.zeros_like(least),
        right_of=jnp.full_like(least, size, jnp.int32),
        left_of=jnp.full_like(least, size, jnp.int32),
        failed=jnp.zeros_like(least.sum(), bool),
    )
    if size == 0:
        return start
    return lax.while_loop(
        lambda s: (s.right_of == size).any() & ~s.failed, lambda s: _phase(graph, s), start
    )


def _phase(graph: Doubled, s: Matched) -> Matched:
    """Searches from all free left nodes, and flips one path of each tree that has one."""
    size = len(s.a)
    free = s.right_of == size
    trees = _search(graph, s, free)
    root = _roots(trees.parent, s.right_of, free)
    # The nearest free right node of each tree.
    open_at = jnp.where(s.left_of == size, trees.dist, jnp.inf)
    reach = jnp.full_like(s.a, jnp.inf, shape=(size + 1,)).at[root].min(open_at)
    node = jnp.arange(size, dtype=jnp.int32)
    is_end = (open_at < jnp.inf) & (open_at == reach[root])
    end = jnp.full_like(root, size, shape=(size + 1,)).at[root].min(jnp.where(is_end, node, size))
    # Up to the greatest of these distances, arcs of the trees become tight.
    radius = jnp.where(reach < jnp.inf, reach, 0).max()
    left_dist = _left_distances(trees.dist, s.right_of, free)
    s = s._replace(
        a=s.a + (radius - jnp.minimum(left_dist, radius)),
        b=s.b - (radius - jnp.minimum(trees.dist, radius)),
        failed=~is_end.any(),
    )
    return _flip(s, trees.parent, end[:size], free)


def _left_distances(dist: Array, right_of: Array, free: Array) -> Array:
    """A matched node is reached through its pair, whose arc is tight."""
    return jnp.where(free, 0, dist[right_of.clip(0, len(dist) - 1)])


def _search(graph: Doubled, s: Matched, free: Bool[Array, " k"]) -> _Trees:
    """Shortest paths by reduced costs (Bellman and Ford): all arcs in every pass.

    Parents form no cycle: whenever one is set, the distance falls, and arcs are not negative.
    """
    size = len(s.a)
    of_left, of_right = graph.of_left(s.a), graph.of_right(s.b)
    length = Arcs(
        *(
            jnp.maximum((c - x) - y, 0)
            for c, x, y in zip(graph.cost, of_left, of_right, strict=True)
        )
    )
    source = graph.of_left(jnp.arange(size, dtype=jnp.int32))

    def grow(trees: _Trees) -> _Trees:
        start = graph.of_left(_left_distances(trees.dist, s.right_of, free))
        through = _map(jnp.add, start, length)
        dist = graph.least_at_right(through, jnp.inf)
        parents = _map(
            lambda x, least, left: jnp.where(x == least, left, size),
            through,
            graph.of_right(dist),
            source,
        )
        closer = dist < trees.dist
        return _Trees(
            dist=jnp.where(closer, dist, trees.dist),
            parent=jnp.where(closer, graph.least_at_right(parents, size), trees.parent),
            grows=closer.any(),
        )

    nothing = _Trees(jnp.full_like(s.a, jnp.inf), jnp.full_like(s.right_of, size), free.any())
    return lax.while_loop(lambda trees: trees.grows, grow, nothing)


def _roots(parent: Array, right_of: Array, free: Array) -> Int[Array, " k"]:
    """The root of the tree of each right node, by doubling of pointers."""
    size = len(parent)
    left = parent.clip(0, size - 1)
    is_first = (parent == size) | free[left]
    before = jnp.where(is_first, jnp.arange(size, dtype=jnp.int32), right_of[left])
    before = before.clip(0, size - 1)
    for _ in range(size.bit_length()):
        before = before[before]
    return parent[before]


def _flip(s: Matched, parent: Array, end: Array, free: Array) -> Matched:
    """Flips the path of each tree, arc by arc from its end."""
    size = len(parent)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        right_of, left_of, right = state
        left = jnp.where(right < size, parent[right.clip(0, size - 1)], size)
        at = left.clip(0, size - 1)
        before = jnp.where((left < size) & ~free[at], right_of[at], size)
        return (
            right_of.at[left].set(right, mode="drop"),
            left_of.at[right].set(left, mode="drop"),
            before,
        )

    right_of, left_of, _ = lax.while_loop(
        lambda state: (state[2] < size).any(), step, (s.right_of, s.left_of, end)
    )
    return s._replace(right_of=right_of, left_of=left_of)


def _map(function: Callable[..., Array], *arcs: Arcs) -> Arcs:
    return jax.tree.map(function, *arcs)
