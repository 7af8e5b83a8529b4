"""The sparse problem of the pairs that were found at two kinds of prices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxmatch._assignment_points.level_arrays import counted, order_of, put
from jaxmatch._assignment_points.nearest import Nearest
from jaxmatch._common.promotion import module_of
from jaxmatch._common.typing import Array, Int
from jaxmatch._matching.graph import BipartiteGraph


class Near(NamedTuple):
    of_rows: Nearest
    of_cols: Nearest


def pair_graph(pair: Array, near: tuple[Near, Near]) -> tuple[BipartiteGraph, Array, Array]:
    """The pairs of a sparse problem and their costs, and where the pair of each row is.

    Those of a row are its pair, the best columns of the row, and the columns it is best for. A pair
    that comes again has the cost +inf.
    """
    xp = module_of(pair)
    of_rows, of_cols = (tuple(k) for k in zip(*near, strict=True))
    own, own_cost = pair[:, None], of_rows[0].cost_of_pair[:, None]
    for found in of_rows:
        again = (found.col[:, :, None] == own[:, None]).any(2)
        own = xp.concatenate([own, found.col], axis=1)
        own_cost = xp.concatenate([own_cost, xp.where(again, xp.inf, found.cost)], axis=1)
    (n, k), m = own.shape, len(of_cols[0].col)
    rows = xp.concatenate([found.col for found in of_cols], axis=1)
    again = (of_cols[1].col[:, :, None] == of_cols[0].col[:, None]).any(2)
    others = xp.where(again, xp.inf, of_cols[1].cost)
    costs = xp.concatenate([of_cols[0].cost, others], axis=1)
    k_of_cols = rows.shape[1]

    order = order_of(rows.ravel())
    row, col = rows.ravel()[order], order // k_of_cols
    cost = costs.ravel()[order]
    cost = xp.where((own[row] == col[:, None]).any(1), xp.inf, cost)

    given = counted(row, n)
    before = xp.cumsum(given, dtype=xp.int32) - given
    row_ptr = _pointers(given + k)
    size = n * k + m * k_of_cols
    at_own = row_ptr[:-1, None] + xp.arange(k, dtype=xp.int32)[None]
    at = row_ptr[row] + k + xp.arange(m * k_of_cols, dtype=xp.int32) - before[row]
    col_ind = put(put(xp.zeros(size, xp.int32), at_own, own), at, col)
    all_costs = put(put(xp.zeros(size, cost.dtype), at_own, own_cost), at, cost)
    degree = counted(own, m) + np.int32(k_of_cols)
    # The solver reads `col_ptr`. It only checks the range of `row_ind`, so zeros suffice.
    row_ind = xp.zeros(size, xp.int32)
    sides = xp.asarray(n, xp.int32), xp.asarray(m, xp.int32)
    graph = BipartiteGraph(row_ptr, col_ind, _pointers(degree), row_ind, *sides)
    return graph, all_costs, row_ptr[:-1]


def _pointers(count: Int[Array, " n"]) -> Int[Array, " n+1"]:
    xp = module_of(count)
    return xp.concatenate([xp.zeros(1, xp.int32), xp.cumsum(count, dtype=xp.int32)])
