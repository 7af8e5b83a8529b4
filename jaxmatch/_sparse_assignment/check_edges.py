"""The edges of a graph as checks read them. They share no code with the solvers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.proof import module_of
from jaxmatch._common.typing import Array, Bool, Int
from jaxmatch._matching.graph import BipartiteGraph


def existing_edges(
    graph: BipartiteGraph, rows: Bool[Array, " n"], cols: Bool[Array, " m"]
) -> tuple[Bool[Array, ""], Int[Array, " e"], Int[Array, " e"], Bool[Array, " e"]]:
    """Whether the graph is consistent, the row and column of each edge, and which edges exist.

    Padding and edges at masked rows or columns do not exist.
    """
    (n, m), ptr, ind = graph.shape, graph.row_ptr, graph.col_ind
    xp = module_of(ind)
    used = xp.arange(ind.size, dtype=np.int32) < ptr[-1]
    sane = (ptr[0] == 0) & (ptr[:-1] <= ptr[1:]).all() & (ptr[-1] <= ind.size)
    sane &= ~(used & ((ind < 0) | (ind >= m))).any()
    if 0 in (n, m, ind.size):
        none = ind[:0]
        return sane, none, none, none > 0
    # In an inconsistent graph the degrees may be any numbers, so 0 replaces all of them.
    degrees = xp.where(sane, ptr[1:] - ptr[:-1], 0)
    each = xp.arange(n, dtype=np.int32)
    if xp is np:
        ends = np.repeat(each, degrees)
        row: Any = np.concatenate([ends, np.full(ind.size - ends.size, n - 1, np.int32)])
    else:
        row = jnp.repeat(each, degrees, total_repeat_length=ind.size)
    col = ind.clip(0, m - 1)
    return sane, row, col, sane & used & rows[row] & cols[col]
