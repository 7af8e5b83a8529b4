"""Construction of graphs on the host, in NumPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jaxmatch._common.given import on_host
from jaxmatch._common.indices import as_indices
from jaxmatch._common.limits import MOST_GRAPH_EDGES, MOST_VERTICES


def as_numbers(name: str, x: Any) -> np.ndarray:
    x = on_host(name, x, "graph")
    if x.dtype.kind not in "biufcV":
        raise TypeError(f"`{name}` must hold numbers or booleans, got {x.dtype}; cast it.")
    return x


def as_shape(shape: Any, name: str = "shape") -> tuple[int, int]:
    try:
        n, m = (operator.index(size) for size in shape)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must be two integers, the number of rows and of columns, got {shape!r}."
        ) from None
    if not (0 <= n <= MOST_VERTICES and 0 <= m <= MOST_VERTICES):
        raise ValueError(f"`{name}` must have sides from 0 to {MOST_VERTICES}, got {(n, m)}.")
    return n, m


def as_vertices(name: str, x: Any, size: int) -> np.ndarray:
    return as_indices(name, x, size, built="graph", ends="vertices", advice="enlarge the shape")


def csr_both_ways(
    rows: np.ndarray, cols: np.ndarray, n: int, m: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Builds the arrays of a graph. Indices must be in range, but may be unsorted and repeated."""
    # Each pair is packed into one 64-bit integer with the row in the high bits: integers sort fast.
    by_row = _sorted_and_unique(rows.astype(np.int64) << 32 | cols.astype(np.int64))
    if len(by_row) > MOST_GRAPH_EDGES:
        raise ValueError(f"A graph has at most {MOST_GRAPH_EDGES} edges, got {len(by_row)}.")
    by_col = _sorted_and_unique(by_row << 32 | by_row >> 32)
    return (*_csr(by_row, n), *_csr(by_col, m))


def _sorted_and_unique(pairs: np.ndarray) -> np.ndarray:
    if (pairs[1:] > pairs[:-1]).all():
        return pairs
    pairs.sort()
    return pairs[np.concatenate([[True], pairs[1:] != pairs[:-1]])]


def best_of_parallel(pairs: np.ndarray, cost: np.ndarray, *, maximize: bool) -> np.ndarray:
    """The best cost among the parallel edges of each pair, in sorted order. NaN counts as best."""
    if not (pairs[1:] >= pairs[:-1]).all():
        order = np.argsort(pairs, kind="stable")
        pairs, cost = pairs[order], cost[..., order]
    is_first = np.concatenate([[True], pairs[1:] != pairs[:-1]]) if len(pairs) else pairs > 0
    if is_first.all():
        return cost
    best = np.maximum if maximize else np.minimum
    return best.reduceat(cost, np.flatnonzero(is_first), axis=-1)


def _csr(pairs: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """CSR pointers and indices of sorted pairs."""
    pointers = np.zeros(size + 1, np.int32)
    np.cumsum(np.bincount(pairs >> 32, minlength=size), out=pointers[1:])
    return pointers, (pairs & 0xFFFFFFFF).astype(np.int32)


def pad_and_stack(parts: list[Any], length: int, *, repeat_last: bool = False) -> np.ndarray:
    """Stacks along a new first axis. Pads the last axis with 0, or with its last entry."""
    stacked = np.zeros((len(parts), *parts[0].shape[:-1], length), np.int32)
    for one, part in zip(stacked, parts, strict=True):
        one[..., : part.shape[-1]] = part
        if repeat_last:
            one[..., part.shape[-1] :] = part[..., -1:]
    return stacked
