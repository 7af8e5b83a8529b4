"""The edges of one graph in CSR form."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.proof import module_of
from jaxmatch._common.typing import Array, Bool, Int, Num
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._matching.xla import is_csr


class Edges(NamedTuple):
    """Row and column of each edge, always in range. Edges that are not live are padding or masked.

    If the graph has no rows or no columns, the arrays are empty.
    """

    row: Int[Array, " e"]
    col: Int[Array, " e"]
    live: Bool[Array, " e"]
    sound: Bool[Array, ""]  # False: the arrays of the graph are inconsistent, and no edge is live

    @classmethod
    def of(cls, graph: BipartiteGraph) -> Edges:
        (n, m), row_ptr, col_ind = graph.shape, graph.row_ptr, graph.col_ind
        xp, sound = module_of(col_ind), is_csr(row_ptr, col_ind, m)
        if 0 in (n, m):
            none = col_ind[:0]
            return cls(none, none, none > 0, sound)
        place = xp.arange(col_ind.shape[0], dtype=np.int32)
        # The row of edge k is the number of rows whose edges all come before k.
        if xp is np:
            row: Any = np.searchsorted(row_ptr[1:-1], place, side="right").astype(np.int32)
        else:
            ends = jnp.zeros_like(col_ind).at[row_ptr[1:-1]].add(1, mode="drop")
            row = ends.cumsum(dtype=jnp.int32).clip(0, n - 1)
        return cls(row, col_ind.clip(0, m - 1), sound & (place < row_ptr[-1]), sound)

    def of_pairs(
        self, cost: Num[Array, " e"], col4row: Int[Array, " n"], *, maximize: bool
    ) -> Int[Array, " n"]:
        """The edge of each row's pair, −1 if unmatched. Of parallel edges, the first best one."""
        count, size = len(self.row), len(col4row)
        own = self.live & (self.col == col4row[self.row]) if count else self.live
        worst = _least_of(cost.dtype) if maximize else _most_of(cost.dtype)
        best = jnp.full_like(cost, worst, shape=(size,)).at[self.row]
        at_hand = jnp.where(own, cost, worst)
        best = best.max(at_hand) if maximize else best.min(at_hand)
        k = jnp.where(own & (cost == best[self.row]), jnp.arange(count, dtype=jnp.int32), count)
        edge = jnp.full_like(col4row, count).at[self.row].min(k)
        return jnp.where(edge < count, edge, -1)


def _most_of(dtype: jnp.dtype) -> float | int:
    return jnp.inf if jnp.issubdtype(dtype, jnp.floating) else int(jnp.iinfo(dtype).max)


def _least_of(dtype: jnp.dtype) -> float | int:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else int(jnp.iinfo(dtype).min)
