"""Matching by maximum flow (Hsieh, Lin and Kuo, HPEC 2025, section IV).

The network has edges of capacity 1 from a source to each row, from each row to its columns, and
from each column to a sink. In the minimum cut nearest to the source, no edge leads from a row on
the source side to a column on the sink side. So the rows on the sink side and the columns on the
source side cover all edges (Kőnig).

The network is built on the device from the arrays of the graph. This takes one sort of the edges by
column. The places of all arcs then follow in closed form from the order of rows, columns and edges.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxmatch._common.limits import MOST_NETWORK_EDGES
from jaxmatch._common.result import Matching
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Int
from jaxmatch._flow.methods import solve_flow
from jaxmatch._flow.network import FlowNetwork
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._matching.xla import is_csr


def solve_by_flow(graph: BipartiteGraph, warm_start: Int[Array, "... n"] | None = None) -> Matching:
    """Solves as documented in `maximum_bipartite_matching`, but ignores a warm start."""
    del warm_start
    n, m = graph.shape
    size = graph.max_edges + n + m
    if size > MOST_NETWORK_EDGES:
        raise ValueError(
            "`method='flow'` takes graphs whose edges, rows and columns are at most "
            f"{MOST_NETWORK_EDGES} together, got {size}; use `method='auto'`."
        )
    build = _network
    for _ in graph.batch_shape:
        build = jax.vmap(build)
    network, live, valid = build(graph)
    capacity = jnp.concatenate([live, jnp.ones_like(live, shape=(*live.shape[:-1], n + m))], -1)
    source = jnp.full_like(valid, n + m, jnp.int32)
    res = solve_flow(network, capacity.astype(jnp.int32), source, source + 1, method="auto")

    end = graph.max_edges
    matched = (res.flow[..., :end] > 0) & live
    row, col = network.senders[..., :end], network.receivers[..., :end] - n
    pair = _pair
    for _ in graph.batch_shape:
        pair = jax.vmap(pair, (0, 0, 0, None))
    solved = valid & (res.status == Status.OPTIMAL)
    proved, side = solved[..., None], res.source_side
    return Matching(
        col4row=pair(matched, row, col, n),
        row4col=pair(matched, col, row, m),
        cardinality=jnp.where(solved, res.value, -1).astype(jnp.int32),
        row_cover=proved & ~side[..., :n],
        col_cover=proved & side[..., n : n + m],
        status=jnp.where(valid, res.status, Status.INVALID_GRAPH).astype(jnp.int32),
    )


def _pair(
    matched: Bool[Array, " e"], one: Int[Array, " e"], other: Int[Array, " e"], size: int
) -> Int[Array, " size"]:
    nobody = jnp.full_like(one, -1, shape=(size,))
    return nobody.at[jnp.where(matched, one, size)].set(other, mode="drop")


def _network(graph: BipartiteGraph) -> tuple[FlowNetwork, Bool[Array, " e"], Bool[Array, ""]]:
    """The network, which edges of the graph are live (not padding), and whether the graph is valid.

    - Nodes: n rows, m columns, source, sink, and two spare nodes, joined by padding edges of
      capacity 0.
    - Edges: the e edges of the graph, then n from the source, then m to the sink.
    - Arcs, sorted by tail: from each row to its columns and then to the source, from each column to
      its rows and then to the sink, from the source, from the sink, and between the spare nodes.

    A row has one arc for each of its edges, and one to the source. So if the rows before r have k
    edges, the arcs of row r begin at index k + r.
    """
    (n, m), e = graph.shape, graph.max_edges
    valid = is_csr(graph.row_ptr, graph.col_ind, m) & is_csr(graph.col_ptr, graph.row_ind, n)
    valid &= graph.row_ptr[-1] == graph.col_ptr[-1]
    count = jnp.where(valid, graph.row_ptr[-1], 0)
    index, rows = jnp.arange(e, dtype=jnp.int32), jnp.arange(n, dtype=jnp.int32)
    cols = jnp.arange(m, dtype=jnp.int32)
    live = index < count
    row_ptr = jnp.where(valid, graph.row_ptr, 0)
    # The row of edge k is the number of rows whose edges all come before k.
    row = jnp.zeros_like(index).at[row_ptr[1:]].add(1, mode="drop").cumsum(dtype=jnp.int32)
    col = jnp.where(live, graph.col_ind, m)
    by_col = jnp.argsort(col, stable=True)
    place = jnp.zeros_like(index).at[by_col].set(index)
    col_ptr = jnp.zeros_like(graph.col_ptr).at[col + 1].add(1, mode="drop")
    col_ptr = col_ptr.cumsum(dtype=jnp.int32)

    source, sink, spare = n + m, n + m + 1, n + m + 2
    first_col = count + n  # the first arc of column 0
    first_source = 2 * count + n + m
    first_spare = first_source + n + m
    forth = jnp.where(live, index + row, first_spare + index - count)
    back = jnp.where(live, first_col + place + col, first_spare + e - 2 * count + index)
    from_source, to_source = first_source + rows, row_ptr[1:] + rows
    to_sink, from_sink = first_col + col_ptr[1:] + cols, first_source + n + cols

    senders = jnp.concatenate([jnp.where(live, row, spare), 0 * rows + source, n + cols])
    receivers = jnp.concatenate([jnp.where(live, n + col, spare + 1), rows, 0 * cols + sink])
    there = jnp.concatenate([forth, from_source, to_sink])
    away = jnp.concatenate([back, to_source, from_sink])
    blank = jnp.zeros_like(there, shape=(2 * len(there),))
    has_edge = blank.at[there].set(1)
    edge_ptr = jnp.concatenate([has_edge[:1] * 0, has_edge.cumsum(dtype=jnp.int32)])
    number = jnp.arange(len(there), dtype=jnp.int32)
    ends = [first_source, first_source + n, first_spare, first_spare + e - count]
    ends += [first_spare + 2 * (e - count)]
    network = FlowNetwork(
        senders=senders,
        receivers=receivers,
        arc_ptr=jnp.concatenate(
            [row_ptr[:-1] + rows, first_col + col_ptr[:-1] + cols, jnp.stack(ends)]
        ),
        arc_head=blank.at[there].set(receivers).at[away].set(senders),
        arc_partner=blank.at[there].set(away).at[away].set(there),
        edge_ptr=edge_ptr,
        arc_edge=jnp.zeros_like(there).at[edge_ptr[there]].set(number),
    )
    return network, live, valid
