"""`min_weight_full_bipartite_matching`: scipy's function of the same name."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxmatch._common.status import Status
from jaxmatch._common.switches import unchecked
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._sparse_assignment.solve import solve_sparse_assignment


@unchecked
def min_weight_full_bipartite_matching(
    biadjacency: Any, maximize: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """A drop-in replacement for `scipy.sparse.csgraph.min_weight_full_bipartite_matching`.

    >>> import jaxmatch as jm, numpy as np, scipy.sparse as sp
    >>> A = sp.csr_array(np.array([[0, 4, 1], [2, 0, 3]]))
    >>> row_ind, col_ind = jm.min_weight_full_bipartite_matching(A)
    >>> col_ind, int(A[row_ind, col_ind].sum())
    (array([2, 0], dtype=int32), 3)

    **Arguments:**

    - `biadjacency`: a `scipy.sparse` matrix or array in CSR, CSC or COO format. A stored weight is
      that of an edge; +inf (−inf when maximising) is none.
    - `maximize`: find the greatest total instead.

    In scipy, explicit zeros are no edges, with a warning; here they are edges of weight 0.
    `A.eliminate_zeros()` removes them. Integers stay exact.

    **Returns:**

    `(row_ind, col_ind)`, NumPy arrays of int32 with min(n, m) entries, rows in increasing order.
    Which of several optima is found may differ.

    **Raises:** as scipy, `TypeError` for what is not sparse or of another format, `ValueError` for
    weights that are not real numbers, and if no full matching exists; also `ValueError` for NaN and
    infinite weights of the wrong sign.
    [`solve_sparse_assignment`][jaxmatch.solve_sparse_assignment] works inside `jit`.
    """
    if not hasattr(biadjacency, "tocsr"):
        raise TypeError(
            "`biadjacency` must be a scipy.sparse matrix or array (graph must be sparse), got "
            f"{type(biadjacency).__name__}."
        )
    if getattr(biadjacency, "format", None) not in ("csr", "csc", "coo"):
        raise TypeError(
            "`biadjacency` must be sparse (graph must be in CSC, CSR, or COO format), got "
            f"{getattr(biadjacency, 'format', type(biadjacency).__name__)}; `.tocsr()` converts it."
        )
    if biadjacency.dtype.kind not in "biuf":
        raise ValueError(
            "`biadjacency` must hold real numbers (expected a matrix containing numerical "
            f"entries), got {biadjacency.dtype}; cast it."
        )
    graph, cost = BipartiteGraph.from_scipy_with_cost(
        _with_sums(biadjacency), maximize=bool(maximize)
    )
    if cost.dtype == np.uint64 and cost.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(f"{_SCIPY_SAYS[Status.OVERFLOW]}. {Status.OVERFLOW.advice}")
    wide = cost.astype(np.float64 if cost.dtype.kind == "f" else np.int64)
    res = solve_sparse_assignment(graph, wide, maximize=bool(maximize))
    status = Status(int(res.status))
    if status != Status.OPTIMAL:
        raise ValueError(f"{_SCIPY_SAYS[status]}. {status.advice}")
    col4row = np.asarray(res.col4row)
    row_ind = np.flatnonzero(col4row >= 0).astype(np.int32)
    return row_ind, col4row[row_ind]


def _with_sums(A: Any) -> Any:
    """Entries that are stored more than once add up, as they do in scipy."""
    A = A.tocsr()
    if not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    return A


_SCIPY_SAYS = {
    Status.INFEASIBLE: "no full matching exists",
    Status.INVALID_COST: "matrix contains invalid numeric entries",
    Status.OVERFLOW: "weights are too large for exact 64-bit sums",
}
