"""Reads nodes and edges of networkx graphs without importing networkx."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np


def require_networkx(graph: Any, instead: str) -> None:
    """Raises an error unless `graph` has the nodes and edges of a networkx graph."""
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise TypeError(f"`graph` must be a networkx graph, got {type(graph).__name__}; {instead}.")


def numbers_of(nodes: Iterable[Hashable]) -> dict[Hashable, int]:
    return {node: k for k, node in enumerate(nodes)}


def arcs_with_capacity(graph: Any, capacity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tails, heads and capacities (default +inf) of arcs. An undirected edge becomes two arcs."""
    number = numbers_of(graph.nodes)
    edges = list(graph.edges(data=capacity, default=np.inf))
    tail = np.array([number[u] for u, _, _ in edges], np.int64)
    head = np.array([number[v] for _, v, _ in edges], np.int64)
    given = np.array([c for _, _, c in edges]) if edges else np.zeros(0)
    if given.dtype == object and all(isinstance(x, numbers.Real) for x in given.flat):
        given = given.astype(float)  # NumPy keeps integers of more than 64 bits as objects
    if given.ndim != 1 or given.dtype.kind not in "biuf":
        raise ValueError(f"The attribute {capacity!r} of every edge must be a number.")
    if not graph.is_directed():
        tail, head = np.concatenate([tail, head]), np.concatenate([head, tail])
        given = np.concatenate([given, given])
    return tail, head, given


def sides(
    graph: Any, top_nodes: Iterable[Hashable] | None
) -> tuple[list[Hashable], list[Hashable]]:
    """The nodes of both sides, each in the order of the graph."""
    if top_nodes is None:
        side = dict(graph.nodes(data="bipartite"))
        if not all(x in (0, 1) for x in side.values()):
            raise ValueError(
                "Without `top_nodes` every node must have the attribute `bipartite`, 0 or 1."
            )
        top = {node for node, x in side.items() if x == 0}
    else:
        top = set(top_nodes)
        missing = [node for node in top if node not in graph]
        if missing:
            raise ValueError(f"`top_nodes` must be nodes of `graph`, got {missing[0]!r}.")
    return [x for x in graph.nodes if x in top], [x for x in graph.nodes if x not in top]


def pairs_between(
    graph: Any, rows: list[Hashable], cols: list[Hashable]
) -> tuple[np.ndarray, np.ndarray]:
    """The row and the column of each edge. An edge may name its row or its column first."""
    row, col = numbers_of(rows), numbers_of(cols)
    found: list[tuple[int, int]] = []
    for u, v in ((e[0], e[1]) for e in graph.edges):
        if (u in row) == (v in row):
            raise ValueError(
                f"`graph` must be bipartite: the edge {(u, v)!r} joins nodes of a side."
            )
        found.append((row[u], col[v]) if u in row else (row[v], col[u]))
    ends = np.array(found, np.int64).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]
