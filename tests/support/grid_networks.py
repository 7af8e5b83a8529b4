"""Networks whose nodes are the cells of grids."""

import numpy as np


# Offsets of half of the neighbours: 4- and 8-connected images, a 6-connected volume, a chain.
SHAPES = {
    "image of 4 neighbours": ((31, 37), [(0, 1), (1, 0)]),
    "image of 8 neighbours": ((36, 33), [(0, 1), (1, 0), (1, 1), (1, -1)]),
    "volume": ((11, 10, 12), [(0, 0, 1), (0, 1, 0), (1, 0, 0)]),
    "chain": ((1100,), [(1,)]),
}
# Where source and sink stand among the cells.
ENDS = {"last": (1.0, 1.0), "first": (0.0, 0.0), "first and last": (0.0, 1.0), "inside": (0.3, 0.7)}


def grid_edges(shape, offsets):
    """Pairs of neighbouring cells."""
    cells = np.arange(np.prod(shape)).reshape(shape)
    pairs = []
    for offset in offsets:
        here = tuple(slice(max(-d, 0), n - max(d, 0)) for d, n in zip(offset, shape, strict=True))
        there = tuple(slice(max(d, 0), n + min(d, 0)) for d, n in zip(offset, shape, strict=True))
        pairs.append(np.stack([cells[here].ravel(), cells[there].ravel()]))
    return np.concatenate(pairs, axis=1)


def grid_network(rng, shape, offsets, ends="last", holes=0.0, extra=0):
    """Edges, capacities, number of nodes, source and sink. Neighbours may be missing; `extra` edges
    are parallel to others, reversed, or self-loops."""
    cells = int(np.prod(shape))
    tail, head = grid_edges(shape, offsets)
    tail, head = np.concatenate([tail, head]), np.concatenate([head, tail])
    kept = rng.random(len(tail)) >= holes
    tail, head = tail[kept], head[kept]
    is_source = np.sin(np.arange(cells) / 60) > 0
    linked = rng.random(cells) >= holes
    of_source, of_sink = np.flatnonzero(is_source & linked), np.flatnonzero(~is_source & linked)
    both = rng.integers(0, cells, extra)  # cells with both terminals
    source, sink = cells, cells + 1
    tail = np.concatenate([tail, np.full(len(of_source), source), of_sink, both])
    head = np.concatenate([head, of_source, np.full(len(of_sink), sink), np.full(extra, sink)])
    again = rng.integers(0, len(tail), extra)
    loops = rng.integers(0, cells + 2, extra)
    tail, head = (
        np.concatenate([tail, tail[again], head[again], loops]),
        np.concatenate([head, head[again], tail[again], loops]),
    )
    if extra:
        tail, head = np.append(tail, source), np.append(head, sink)
        order = rng.permutation(len(tail))
        tail, head = tail[order], head[order]
    number = numbering(cells, ends)
    capacity = rng.integers(0, 30, len(tail)).astype(np.int32)
    n = cells + 2
    return (number[tail], number[head]), capacity, n, int(number[source]), int(number[sink])


def numbering(cells, ends):
    """The node of each cell, of the source and of the sink. Cells keep their order."""
    first, second = (int(share * cells) for share in ENDS[ends])
    cell = np.arange(cells)
    node = cell + (cell >= first) + (cell >= second)
    others = np.setdiff1d(np.arange(cells + 2), node)
    return np.concatenate([node, others])
