"""Successive shortest paths of the pure-JAX twin, for one problem.

The pairs with mass form a forest of rows and columns, stored as an arc from each node to its
parent. A search settles whole trees: their arcs are tight, so all nodes of a tree have the same
distance. A shortest path then enters and leaves each tree at most once, so the pairs that it adds
close no cycle. So the plan is always basic, and the state of the loop takes O(n + m) memory.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._transport.xla_masses import indices, put


class Search(NamedTuple):
    """The state of the loop. An index of -1 means none."""

    failed: Bool[Array, ""]
    left: Int[Array, " n"]  # units that rows have still to send
    room: Int[Array, " m"]  # units that columns have still to receive
    u: Float[Array, " n"]
    v: Float[Array, " m"]
    # The forest of pairs with mass: the parent of each node, and the units on that arc.
    row_parent: Int[Array, " n"]
    row_units: Int[Array, " n"]
    col_parent: Int[Array, " m"]
    col_units: Int[Array, " m"]
    # Dijkstra's algorithm from the root. `flow`: units on the arc from `pred` to the node.
    root: Int[Array, ""]
    row_settled: Bool[Array, " n"]
    row_scanned: Bool[Array, " n"]
    row_dist: Float[Array, " n"]
    row_pred: Int[Array, " n"]
    row_flow: Int[Array, " n"]
    col_settled: Bool[Array, " m"]
    col_tied: Bool[Array, " m"]  # whether an arc with mass joins the column to a scanned row
    col_dist: Float[Array, " m"]
    col_pred: Int[Array, " m"]
    col_flow: Int[Array, " m"]
    # The walk back along the shortest path.
    walking: Bool[Array, ""]
    end: Int[Array, ""]  # the column that the path leads to
    col: Int[Array, ""]  # the column that the walk has come to
    least: Int[Array, ""]  # the units that the path can take
    row_on_path: Bool[Array, " n"]  # excluding the root
    col_on_path: Bool[Array, " m"]


def move(c: Float[Array, "n m"], supply: Int[Array, " n"], demand: Int[Array, " m"]) -> Search:
    """Moves all mass at the least total cost.

    c must be +inf for each pair whose row has no supply or whose column has no demand.

    The loop ends for any numbers: a search scans each row and settles each column at most once, a
    walk leads from a node to one that was settled earlier, and a path moves at least one unit.
    """
    # 0, with the varying axes of all arguments in a `shard_map`.
    zero = jnp.zeros_like(c[0, 0] + supply[0].astype(c.dtype) + demand[0].astype(c.dtype))
    units = zero.astype(supply.dtype)
    low = c.min(1)
    start = _search(
        failed=zero > 0,
        left=supply + units,
        room=demand + units,
        u=jnp.where(low < jnp.inf, low, 0) + zero,
        v=jnp.zeros_like(c[0]) + zero,
        row_parent=jnp.full_like(supply, -1, jnp.int32) + zero.astype(jnp.int32),
        row_units=jnp.zeros_like(supply) + units,
        col_parent=jnp.full_like(demand, -1, jnp.int32) + zero.astype(jnp.int32),
        col_units=jnp.zeros_like(demand) + units,
    )
    # One loop instead of nested ones: under vmap no problem waits for the others.
    return lax.while_loop(
        lambda s: (s.left > 0).any() & ~s.failed,
        lambda s: _walk(_select(s.walking, s, _settle(_scan(c, s)))),
        start,
    )


def _search(**kept: Array) -> Search:
    """The start of a search, from the first row that has mass left."""
    left, room = kept["left"], kept["room"]
    root = lax.argmax(left > 0, 0, jnp.int32)
    no_rows, no_cols = left < 0, room < 0
    return Search(
        **kept,
        root=root,
        row_settled=put(no_rows, root, True),
        row_scanned=no_rows,
        row_dist=jnp.zeros_like(kept["u"]),
        row_pred=jnp.full_like(kept["row_parent"], -1),
        row_flow=jnp.zeros_like(left),
        col_settled=no_cols,
        col_tied=no_cols,
        col_dist=jnp.full_like(kept["v"], jnp.inf),
        col_pred=jnp.full_like(kept["col_parent"], -1),
        col_flow=jnp.zeros_like(room),
        walking=jnp.zeros_like(kept["failed"]),
        end=jnp.zeros_like(root),
        col=jnp.zeros_like(root),
        least=jnp.zeros_like(left[0]),
        row_on_path=no_rows,
        col_on_path=no_cols,
    )


def _scan(c: Array, s: Search) -> Search:
    """Relax all columns from one settled row, if there is one to scan."""
    waiting = s.row_settled & ~s.row_scanned
    on, row = waiting.any(), lax.argmax(waiting, 0, jnp.int32)
    child = s.col_parent == row
    tied = on & ~s.col_settled & (child | (indices(s.v) == s.row_parent[row]))
    # Reduced costs are clamped at 0, so that no arc has negative length, even after rounding. Arcs
    # that carry mass have length 0.
    through = s.row_dist[row] + jnp.maximum((c[row] - s.u[row]) - s.v, 0)
    closer = tied | (on & ~s.col_settled & ~s.col_tied & (through < s.col_dist))
    return s._replace(
        row_scanned=put(s.row_scanned, row, True, on),
        col_tied=s.col_tied | tied,
        col_dist=jnp.where(tied, s.row_dist[row], jnp.where(closer, through, s.col_dist)),
        col_pred=jnp.where(closer, row, s.col_pred),
        col_flow=jnp.where(tied, jnp.where(child, s.col_units, s.row_units[row]), s.col_flow),
    )


def _settle(s: Search) -> Search:
    """Settle a column and the rows that send mass to it, or end the search.

    Among ties, columns of the current tree come first. Once the whole tree is settled, the search
    ends if a settled column has room. Otherwise the nearest column is settled.
    """
    tied = s.col_tied & ~s.col_settled
    complete = ~tied.any() & ~(s.row_settled & ~s.row_scanned).any()
    with_room = s.col_settled & (s.room > 0)
    found = complete & with_room.any()
    reach = jnp.where(s.col_settled, jnp.inf, jnp.where(tied, -jnp.inf, s.col_dist))
    col = lax.argmin(reach, 0, jnp.int32)
    on = tied.any() | (complete & ~found & (reach[col] < jnp.inf))
    child = s.row_parent == col
    rows = on & ~s.row_settled & (child | (indices(s.u) == s.col_parent[col]))
    # Duals change when the search ends: reduced costs stay >= 0 and become 0 along the path.
    end = lax.argmax(with_room, 0, jnp.int32)
    row_rise = jnp.maximum(s.col_dist[end] - s.row_dist, 0)
    col_fall = jnp.maximum(s.col_dist[end] - s.col_dist, 0)
    return s._replace(
        failed=complete & ~found & ~on,
        u=jnp.where(found & s.row_settled, s.u + row_rise, s.u),
        v=jnp.where(found & s.col_settled, s.v - col_fall, s.v),
        row_settled=s.row_settled | rows,
        row_dist=jnp.where(rows, s.col_dist[col], s.row_dist),
        row_pred=jnp.where(rows, col, s.row_pred),
        row_flow=jnp.where(rows, jnp.where(child, s.row_units, s.col_units[col]), s.row_flow),
        col_settled=put(s.col_settled, col, True, on),
        walking=found,
        end=end,
        col=end,
        least=jnp.minimum(s.left[s.root], s.room[end]),
    )


def _walk(s: Search) -> Search:
    """Go one step back along the path, over a column and the row before it. Augment at the root."""
    row = s.col_pred[s.col]
    at_root = row == s.root
    inner = s.walking & ~at_root
    s = s._replace(
        col_on_path=put(s.col_on_path, s.col, True, s.walking),
        row_on_path=put(s.row_on_path, row, True, inner),
        least=jnp.where(inner, jnp.minimum(s.least, s.row_flow[row]), s.least),
        col=jnp.where(inner, s.row_pred[row], s.col),
    )
    return _select(s.walking & at_root, _augment(s), s)


def _augment(s: Search) -> Search:
    """Move as much as the path can take, and start the next search.

    In settled trees, the predecessor of a node in the search becomes its parent. Then arcs without
    mass are dropped. These include the arcs by which the search entered trees that are not on the
    path.
    """
    row_flow = s.row_flow - jnp.where(s.row_on_path, s.least, 0)
    col_flow = s.col_flow + jnp.where(s.col_on_path, s.least, 0)
    row_units = jnp.where(s.row_settled, row_flow, s.row_units)
    col_units = jnp.where(s.col_settled, col_flow, s.col_units)
    row_parent = jnp.where(s.row_settled, s.row_pred, s.row_parent)
    col_parent = jnp.where(s.col_settled, s.col_pred, s.col_parent)
    return _search(
        failed=s.failed,
        left=put(s.left, s.root, s.left[s.root] - s.least),
        room=put(s.room, s.end, s.room[s.end] - s.least),
        u=s.u,
        v=s.v,
        row_parent=jnp.where(row_units > 0, row_parent, -1),
        row_units=row_units,
        col_parent=jnp.where(col_units > 0, col_parent, -1),
        col_units=col_units,
    )


def _select(pred: Array, a: Search, b: Search) -> Search:
    return jax.tree.map(lambda x, y: jnp.where(pred, x, y), a, b)
