"""Shortest augmenting paths of the pure-JAX twin, for one problem.

The problem is reduced to a perfect matching in a doubled graph (Ahuja, Magnanti and Orlin, *Network
Flows*, 1993, chapter 12, describes such reductions). Left nodes are the rows and a copy of each
column. Right nodes are the columns and a copy of each row. Each edge becomes two arcs: one from its
row to its column, at its cost, and one from the copy of the column to the copy of the row, at cost
0. A row or column that may stay unmatched has an arc to its own copy, at the cost of leaving it
unmatched. The potential of row i is a_i, and that of its copy b'_i. The potential of column j is
b_j, and that of its copy a'_j. Then u_i = a_i + b'_i and v_j = a'_j + b_j are the duals.

Each phase searches from all free left nodes at once. Then it changes potentials by the distances,
which makes the arcs of shortest paths tight (of reduced cost 0). The search trees are disjoint, so
one path of each tree is flipped at the same time. Conflicts are resolved by `min`, so the result is
deterministic. Every pass over the arcs takes O(n + m + e) operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.typing import Array, Bool, Float, Int, Num


class Arcs(NamedTuple):
    """A value for each arc of the doubled graph, by the kind of arc."""

    pair: Num[Array, " e"]  # from row i to column j
    mirror: Num[Array, " e"]  # from the copy of column j to the copy of row i
    row: Num[Array, " n"]  # from row i to its copy
    col: Num[Array, " m"]  # from the copy of column j to column j


class Doubled(NamedTuple):
    """The doubled graph.

    Left nodes are the n rows, then copies of the m columns. Right nodes are the m columns, then
    copies of the n rows.
    """

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
        """For each column, the least of `col` and of `at_cols` at its edges; the same for rows."""
        of_cols = jnp.full_like(col, none).at[self.edge_col].min(at_cols)
        of_rows = jnp.full_like(row, none).at[self.edge_row].min(at_rows)
        return jnp.concatenate([jnp.minimum(of_cols, col), jnp.minimum(of_rows, row)])


class Matched(NamedTuple):
    """Potentials and pairs of left and right nodes. n + m in place of a partner means unmatched."""

    a: Float[Array, " k"]
    b: Float[Array, " k"]
    right_of: Int[Array, " k"]
    left_of: Int[Array, " k"]
    failed: Bool[Array, ""]


class _Trees(NamedTuple):
    """Shortest paths from the free left nodes to each right node."""

    dist: Float[Array, " k"]
    parent: Int[Array, " k"]  # the last left node on the path
    grows: Bool[Array, ""]  # whether the last pass shortened a path


def match_all(graph: Doubled) -> Matched:
    """A perfect matching of least cost; `failed` if there is none. Costs must not be NaN.

    The loops end for any numbers. Each phase matches at least one more node, or fails. A search
    clamps reduced costs at 0, so that no arc has negative length, even after rounding. So shortest
    paths repeat no node and are found in a bounded number of passes.
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
    # The new potentials make all arcs tight that are on shortest paths of at most this length.
    radius = jnp.where(reach < jnp.inf, reach, 0).max()
    left_dist = _left_distances(trees.dist, s.right_of, free)
    s = s._replace(
        a=s.a + (radius - jnp.minimum(left_dist, radius)),
        b=s.b - (radius - jnp.minimum(trees.dist, radius)),
        failed=~is_end.any(),
    )
    return _flip(s, trees.parent, end[:size], free)


def _left_distances(dist: Array, right_of: Array, free: Array) -> Array:
    """Distances of left nodes.

    A matched node has the distance of its partner, because the arc between the two is tight.
    """
    return jnp.where(free, 0, dist[right_of.clip(0, len(dist) - 1)])


def _search(graph: Doubled, s: Matched, free: Bool[Array, " k"]) -> _Trees:
    """Shortest paths by reduced costs (Bellman-Ford): every pass relaxes all arcs.

    Reduced costs are clamped at 0, so that no arc has negative length, even after rounding. A
    parent is set only where the distance falls. So parents form no cycle.
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
    """The root of each right node's tree, by pointer doubling."""
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
