"""Cheapest maximum matchings of matrices, as two problems in which one side must be matched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._common.arguments import check_name
from jaxmatch._common.limits import MOST_GRAPH_EDGES
from jaxmatch._common.proof import module_of, over_problems
from jaxmatch._common.result import Assignment, Matching
from jaxmatch._common.status import Status
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import Array, Bool, Int
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._matching.most_pairs import cover_of, joined, kept
from jaxmatch._sparse_assignment.problem import CARDINALITIES


METHODS = ("auto", "xla")


def is_maximum(cardinality: str, method: str, unsupported: dict[str, Any]) -> bool:
    """Whether the result needs as many pairs as possible. `unsupported`: what must then be None."""
    check_name("cardinality", cardinality, CARDINALITIES)
    if cardinality == "full":
        return False
    check_name("method", method, METHODS)
    for name, x in unsupported.items():
        if x is not None:
            raise ValueError(
                f'`{name}` does not go with cardinality="maximum"; leave one of them out.'
            )
    return True


def solve_maximum(
    solve: Callable[[AssignmentProblem], Assignment],
    match: Callable[[BipartiteGraph], Matching],
    problem: AssignmentProblem,
    *,
    maximize: bool,
    lacks_some: bool = False,
) -> Assignment:
    """Solves with `solve`, which must match all of the smaller side, and `match`.

    Both take batches, in NumPy or in JAX as the arrays of the problem. `lacks_some`: do not look
    first whether any pair is forbidden.
    """
    if not jnp.issubdtype(problem.cost.dtype, jnp.floating):
        return solve(problem)  # no pair is forbidden
    xp, (*batch, n, m) = module_of(problem.cost), problem.cost.shape
    require_sizes("cost", (n, m), "mask what you add (`row_mask`, `col_mask`)")
    if n * m > MOST_GRAPH_EDGES:
        raise ValueError(
            f'a matrix with cardinality="maximum" must have at most {MOST_GRAPH_EDGES} entries, '
            f"got {n} rows and {m} columns; `solve_sparse_assignment` takes pairs that exist."
        )
    rows = xp.ones((*batch, n), bool) if problem.row_mask is None else problem.row_mask
    cols = xp.ones((*batch, m), bool) if problem.col_mask is None else problem.col_mask

    def each(function: Callable[..., Any], *arrays: Any) -> Any:
        return over_problems(function, tuple(batch), *arrays)

    never, there = -np.inf if maximize else np.inf, rows[..., :, None] & cols[..., None, :]
    invalid = (there & (xp.isnan(problem.cost) | (problem.cost == -never))).any((-2, -1))
    allowed = there & (problem.cost != never)

    def of_all() -> tuple[Array, Array]:
        """All pairs are allowed, so that the smaller side covers them."""
        fewer_rows = rows.sum(-1, dtype=np.int32) <= cols.sum(-1, dtype=np.int32)
        return rows & fewer_rows[..., None], cols & ~fewer_rows[..., None]

    def of_some() -> tuple[Array, Array]:
        matching = match(each(_graph, allowed))
        return each(_cover, allowed, rows & (matching.col4row < 0), matching.col4row)

    lacks = (there & ~allowed).any()
    if lacks_some or (xp is jnp and jax.sharding.get_abstract_mesh().manual_axes):
        row_cover, col_cover = of_some()
    elif xp is np:
        row_cover, col_cover = of_some() if lacks else of_all()
    else:
        row_cover, col_cover = lax.cond(lacks, of_some, of_all)
    first = solve(problem._replace(row_mask=rows & row_cover, col_mask=cols & ~col_cover))
    second = solve(problem._replace(row_mask=rows & ~row_cover, col_mask=cols & col_cover))
    failure = xp.where(invalid, np.int32(Status.INVALID_COST), np.int32(Status.OPTIMAL))
    return joined(first, second, row_cover, col_cover, failure)


def _graph(allowed: Bool[Array, "n m"]) -> BipartiteGraph:
    (n, m), xp = allowed.shape, module_of(allowed)

    def csr(allowed: Array, one: int, other: int) -> tuple[Array, Array]:
        index = xp.arange(one * other, dtype=np.int32)
        ptr = xp.arange(one + 1, dtype=np.int32) * np.int32(other)
        return kept(ptr, index % np.int32(max(other, 1)), allowed.reshape(-1))

    (row_ptr, col_ind), (col_ptr, row_ind) = csr(allowed, n, m), csr(allowed.T, m, n)
    sides = (xp.full_like(row_ptr[0], k) for k in (n, m))
    return BipartiteGraph(row_ptr, col_ind, col_ptr, row_ind, *sides)


def _cover(
    allowed: Bool[Array, "n m"], unmatched: Bool[Array, " n"], col4row: Int[Array, " n"]
) -> tuple[Bool[Array, " n"], Bool[Array, " m"]]:
    def reached_from(rows: Bool[Array, " n"]) -> Bool[Array, " m"]:
        if module_of(allowed) is np:
            return allowed[rows].any(0)
        return (allowed & rows[:, None]).any(0)

    return cover_of(unmatched, col4row, allowed.shape[1], reached_from)
