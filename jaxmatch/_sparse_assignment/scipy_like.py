"""`min_weight_full_bipartite_matching`: scipy's function of the same name."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxmatch._common.limits import MOST_GRAPH_EDGES, MOST_VERTICES
from jaxmatch._common.status import Status
from jaxmatch._common.switches import unchecked
from jaxmatch._ffi.host_call import host_call
from jaxmatch._library.libraries import has_cpu_library
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

    - `biadjacency`: a `scipy.sparse` matrix or array in CSR, CSC or COO format. Each stored weight
      is an edge, except +inf (−inf when maximising).
    - `maximize`: find the greatest total instead.

    scipy ignores explicit zeros with a warning; here they are edges of weight 0.
    `A.eliminate_zeros()` removes them. Integers stay exact.

    **Returns:**

    `(row_ind, col_ind)`, NumPy arrays of int32 with min(n, m) entries, rows in increasing order.
    If there are several optima, scipy may find another one.

    **Raises:** as scipy, `TypeError` for other types and formats, and `ValueError` for weights that
    are not real numbers, and if no full matching exists. Also `ValueError` for NaN, for infinite
    weights of the wrong sign, and for weights so far apart that rounding hides the optimum.
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
    A = _with_sums(biadjacency)
    cost = A.data
    if cost.dtype == np.uint64 and cost.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(f"{_SCIPY_SAYS[Status.OVERFLOW]}. {Status.OVERFLOW.advice}")
    cost = cost.astype(np.float64 if cost.dtype.kind == "f" else np.int64, copy=False)
    if has_cpu_library():
        status, col4row, gap, edge = _solve_here(A, cost, bool(maximize))
    else:
        status, col4row, gap, edge = _solve_elsewhere(A, cost, bool(maximize))
    if status != Status.OPTIMAL:
        raise ValueError(f"{_SCIPY_SAYS[status]}. {status.advice}")
    if gap > 0 and not gap <= _SMALL_PART * np.abs(cost[edge[edge >= 0]]).sum():
        raise ValueError(
            "weights lie too far apart, or are below 1e-290: rounding hides the best matching. "
            "Leave out edges in place of a large number, and divide the others by a common factor."
        )
    row_ind = np.flatnonzero(col4row >= 0).astype(np.int32)
    return row_ind, col4row[row_ind]


def _solve_here(
    A: Any, cost: np.ndarray, maximize: bool
) -> tuple[Status, np.ndarray, float, np.ndarray]:
    """Status, pairs, gap, and the edge of each row, by the native CPU solver."""
    (n, m), index, real = A.shape, np.int32, np.float64
    if max(n, m) > MOST_VERTICES or cost.size > MOST_GRAPH_EDGES:
        raise ValueError(f"`biadjacency` is too large: {n} x {m} with {cost.size} edges.")
    operands = [A.indptr.astype(index, copy=False), A.indices.astype(index, copy=False), cost]
    results = (
        *[((n,), index), ((m,), index), ((n,), index), ((), real), ((n,), real), ((m,), real)],
        *[((), real), ((), index), ((2,), index)],
    )
    attributes = (*[("maximize", maximize), ("precise", True), ("present", "")],)
    found = host_call("jaxmatch_sparse_assignment", operands, results, (2, 1), attributes)
    return Status(int(found[7])), found[0], float(found[6]), found[2]


def _solve_elsewhere(
    A: Any, cost: np.ndarray, maximize: bool
) -> tuple[Status, np.ndarray, float, np.ndarray]:
    """As `_solve_here`, but with JAX."""
    graph, cost = BipartiteGraph.from_scipy_with_cost(A, maximize=maximize)
    res = solve_sparse_assignment(graph, cost, maximize=maximize)
    col4row = np.asarray(res.col4row)
    rows = np.repeat(np.arange(len(col4row)), np.diff(A.indptr))
    edge = np.full(len(col4row), -1)
    own = np.flatnonzero(A.indices == col4row[rows])
    edge[rows[own]] = own
    return Status(int(res.status)), col4row, float(res.gap), edge


def _with_sums(A: Any) -> Any:
    """The matrix in CSR format. Duplicate entries are added up, as in scipy."""
    A = A.tocsr()
    if not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    return A


# The largest gap that rounding inside the solver may cause, relative to the sum of the chosen
# weights' magnitudes.
_SMALL_PART = 2.0**-36

_SCIPY_SAYS = {
    Status.INFEASIBLE: "no full matching exists",
    Status.INVALID_COST: "matrix contains invalid numeric entries",
    Status.OVERFLOW: "weights are too large for exact 64-bit sums",
}
