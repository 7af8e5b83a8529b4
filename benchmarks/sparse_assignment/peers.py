"""The value of a matching, and solvers of others, as functions of the arrays of a problem."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from benchmarks.sparse_assignment.problems import FULL, pairs_within


Arrays = dict[str, Any]
Solve = Callable[[], np.ndarray]  # the column of each row, or -1
MOST_EDGES = {"kwok": 2 * 10**6}  # lists of tuples take 200 bytes for each edge


def price_of(given: Arrays) -> Any:
    """What it costs to leave a row: the gate; or more than all pairs can cost."""
    if str(given["form"]) == "gated":
        return given["gate"].item()
    n, m, _ = (int(x) for x in given["size"])
    return (2 * min(n, m) + 1) * np.abs(given["cost"]).max(initial=1).item()


def value_of(given: Arrays, col4row: np.ndarray) -> Any:
    """The cost of pairs and of the rows that stay, exact for integers.

    Raises an AssertionError for what is no matching of edges.
    """
    n, m, _ = (int(x) for x in given["size"])
    rows = np.flatnonzero(col4row >= 0)
    cols = col4row[rows].astype(np.int64)
    assert len(col4row) == n and len(np.unique(cols)) == len(cols)
    keys = _rows(given) * m + given["col_ind"]
    at = np.searchsorted(keys, rows * m + cols)
    assert (keys[np.minimum(at, len(keys) - 1)] == rows * m + cols).all(), "pairs are no edges"
    total = given["cost"][at].sum(dtype=np.result_type(given["cost"].dtype, np.int64)).item()
    stay = n - len(rows)
    if str(given["form"]) in FULL:
        assert stay == max(n - m, 0), f"{stay} rows stay"
        return total
    return total + stay * price_of(given)


def _rows(given: Arrays) -> np.ndarray:
    return np.repeat(np.arange(len(given["row_ptr"]) - 1), np.diff(given["row_ptr"]))


# ---------------------------------------------------------------------------------------------
# scipy


def as_matrix(given: Arrays) -> sp.csr_array:
    """For a solver of full matchings: each row that may stay has a column of its own for that."""
    n, m, _ = (int(x) for x in given["size"])
    arrays = (np.asarray(given["cost"], np.float64), given["col_ind"], given["row_ptr"])
    matrix = sp.csr_array(arrays, shape=(n, m))
    if str(given["form"]) in FULL:
        return matrix
    return _with_price(matrix, price_of(given))


def _with_price(matrix: Any, price: float) -> sp.csr_array:
    own = price * sp.eye_array(matrix.shape[0])
    return sp.csr_array(sp.hstack([matrix, own], format="csr"))


def full_matching(matrix: Any, m: int, solve: Any) -> np.ndarray:
    rows, cols = solve(matrix)
    col4row = np.full(matrix.shape[0], -1)
    col4row[rows] = np.where(cols < m, cols, -1)
    return col4row


def by_scipy(given: Arrays) -> Solve:
    """LAPJVsp."""
    matrix, m = as_matrix(given), int(given["size"][1])
    return lambda: full_matching(matrix, m, min_weight_full_bipartite_matching)


def from_points(given: Arrays) -> Solve:
    """Trees of the points, their pairs within the radius, and LAPJVsp."""
    x, y, radius = given["x"], given["y"], given["radius"].item()

    def solve() -> np.ndarray:
        rows, cols, cost = pairs_within(x, y, radius)
        matrix = sp.csr_array((cost, (rows, cols)), shape=(len(x), len(y)))
        priced = _with_price(matrix, given["gate"].item())
        return full_matching(priced, len(y), min_weight_full_bipartite_matching)

    return solve


# ---------------------------------------------------------------------------------------------
# kwok


def by_kwok(given: Arrays) -> Solve:
    """Greatest weights, which are what an edge costs less than to leave its row.

    Its rows must not be more than its columns, of which it counts those that edges name.
    """
    from kwok import kwok

    n, m, _ = (int(x) for x in given["size"])
    cost = given["cost"]
    saved = price_of(given) - cost.astype(np.result_type(cost, np.int64))
    weight: Any = sp.csr_array((saved, given["col_ind"], given["row_ptr"]), shape=(n, m))
    tall = n > m
    weight = weight.T.tocsr() if tall else weight
    data = _as_kwok_reads(weight.data)
    edges = [*zip(weight.indices.tolist(), data.tolist(), strict=True)]
    ends = weight.indptr.tolist()
    pays = [[e for e in edges[a:b] if e[1] > 0] for a, b in zip(ends, ends[1:], strict=False)]
    max(pays, key=len).append((weight.shape[1] - 1, 0 * data[0].item()))

    def solve() -> np.ndarray:
        found = kwok(pays, False)
        partner = np.array(found.right_pairs if tall else found.left_pairs)
        return np.concatenate([partner, np.full(n - len(partner), -1)])

    return solve


def _as_kwok_reads(weight: np.ndarray) -> np.ndarray:
    """Where the first weight of the first row is integral, it takes all of them for integers of 32
    bits. Of greater ones the first becomes half of an odd number."""
    if weight.dtype.kind == "f" or weight.max(initial=0) < 2**31:
        return weight
    return weight / float(2 * (weight[0] & -weight[0]))


# ---------------------------------------------------------------------------------------------
# or-tools


def by_ortools(given: Arrays) -> Solve:
    """Cost scaling of Goldberg and Kennedy, for as many rows as columns that all are matched.

    It takes integers, which it multiplies by the number of rows: floats are rounded to the finest
    units with which it reports no overflow.
    """
    from ortools.graph.python import linear_sum_assignment

    n, cost = int(given["size"][0]), given["cost"]
    if cost.dtype.kind == "f":
        unit = np.abs(cost).max(initial=1e-300) / min(2.0**58 / n**2, 1e12)
        cost = np.rint(cost / unit)
    solver: Any = linear_sum_assignment.SimpleLinearSumAssignment()
    rows = _rows(given).astype(np.int32)
    solver.add_arcs_with_cost(rows, given["col_ind"].astype(np.int32), cost.astype(np.int64))

    def solve() -> np.ndarray:
        assert solver.solve() == solver.OPTIMAL
        return np.array([solver.right_mate(i) for i in range(n)])

    return solve


def takes(name: str, form: str, n: int, m: int, edges: int) -> bool:
    """Whether a peer solves such problems, in the memory that there is."""
    fits = edges <= MOST_EDGES.get(name, edges)
    return fits and (name != "ortools" or (form in FULL and n == m))


PEERS: dict[str, Callable[[Arrays], Solve]] = {
    "scipy": by_scipy,
    "kwok": by_kwok,
    "ortools": by_ortools,
    "scipy from points": from_points,
}


def found() -> list[str]:
    """The solvers that are installed."""
    return [name for name in ("scipy", "kwok", "ortools") if find_spec(name)]
