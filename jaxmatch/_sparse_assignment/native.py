"""The target for assignments on sparse graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import jax.numpy as jnp

from jaxmatch._common.result import Assignment, result_float
from jaxmatch._ffi.call import Result, names_of, native_call


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, Num

    from jaxmatch._matching.graph import BipartiteGraph


def sparse_assignment(
    graph: BipartiteGraph,
    cost: Num[Array, "... e"],
    *,
    row_mask: Bool[Array, "... n"] | None = None,
    col_mask: Bool[Array, "... m"] | None = None,
    unmatched_cost: Float[Array, "... n"] | None = None,
    unmatched_col_cost: Float[Array, "... m"] | None = None,
    col_dual: Float[Array, "... m"] | None = None,
    maximize: bool,
    cardinality: str,
    platform: Literal["cpu", "cuda"],
) -> tuple[Assignment, Int[Array, "... n"], Int[Array, "... 2"]]:
    """Solves every problem of the batch in one native call. Arguments must be checked.

    The graph has the batch dimensions of the costs, or none: then it is not copied. Returns also
    the place of each row's pair in `graph.col_ind`, or −1, and the numbers of bids and of searches.
    """
    assert platform == "cpu"
    n, m = graph.shape
    real = result_float()
    optional = {
        "row_mask": row_mask,
        "col_mask": col_mask,
        "unmatched_cost": unmatched_cost,
        "unmatched_col_cost": unmatched_col_cost,
        "col_dual": col_dual,
    }
    given = [x for x in optional.values() if x is not None]
    *pairs, edge, value, row_dual, col_dual, gap, status, counts = native_call(
        "jaxmatch_sparse_assignment",
        [graph.row_ptr, graph.col_ind, cost, *given],
        [
            Result((n,), jnp.int32),
            Result((m,), jnp.int32),
            Result((n,), jnp.int32),
            Result((), real),
            Result((n,), real),
            Result((m,), real),
            Result((), real),
            Result((), jnp.int32),
            Result((2,), jnp.int32),
        ],
        core_dims=[1, 1, 1, *(1 for _ in given)],
        shared=() if graph.batch_shape else range(2),
        present=names_of(**optional),
        maximize=maximize,
        cardinality=cardinality,
    )
    return Assignment(*pairs, value, row_dual, col_dual, gap, status), edge, counts
