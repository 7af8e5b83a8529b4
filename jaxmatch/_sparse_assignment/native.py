"""The calls of the native targets for assignments on sparse graphs and between near points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import jax.numpy as jnp

from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._ffi.call import Result, names_of, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import size
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
    edge: Int[Array, "... n"] | None = None,
    maximize: bool,
    platform: Literal["cpu", "cuda"],
    precise: bool = False,
) -> tuple[Assignment, Int[Array, "... n"], Int[Array, "... 2"]]:
    """Solves every problem of the batch in one native call. Arguments must be checked.

    `edge`: on CUDA, the place of each row's pair in `graph.col_ind`, where the search begins if all
    vertices must be matched and `col_dual` makes these pairs nearly tight; −1 for a row without.

    `precise`: the CPU solver uses finer units, so that the gap is at most 2^-36 instead of 2^-32 of
    the chosen costs.

    The graph has the batch dimensions of the costs, or none. A graph without them is not copied.
    Returns the result, and also:

    - the place of each row's pair in `graph.col_ind`, −1 if unmatched;
    - two counts: the number of bids, and the number of searches (on CUDA, of rounds).
    """
    by_cols, sizes = platform == "cuda", (*graph.shape, cost.shape[-1])
    ends = {"row_ptr": graph.row_ptr, "col_ind": graph.col_ind}
    if by_cols:
        ends |= {"col_ptr": graph.col_ptr, "row_ind": graph.row_ind}
    optional = {
        "row_mask": row_mask,
        "col_mask": col_mask,
        "unmatched_cost": unmatched_cost,
        "unmatched_col_cost": unmatched_col_cost,
        "col_dual": col_dual,
        "edge": edge,
    }
    return _call(
        "jaxmatch_sparse_assignment",
        [*((x, 1) for x in ends.values()), (cost, 1)],
        optional,
        graph.shape,
        shared=() if graph.batch_shape else range(len(ends)),
        found=("col_ptr", "row_ind") if by_cols else (),
        workspace=[size("sparse_assignment.workspace", *sizes)] if by_cols else [],
        maximize=maximize,
        **({} if by_cols else {"precise": precise}),
    )


def near_assignment(
    x: Float[Array, "... n d"],
    y: Float[Array, "... m d"],
    radius: Float[Array, "..."],
    *,
    row_mask: Bool[Array, "... n"] | None = None,
    col_mask: Bool[Array, "... m"] | None = None,
    unmatched_cost: Float[Array, "... n"] | None = None,
    metric: str,
) -> Assignment:
    """Solves assignments between points on the CPU, where only pairs within the radius exist."""
    optional = {"row_mask": row_mask, "col_mask": col_mask, "unmatched_cost": unmatched_cost}
    return _call(
        "jaxmatch_near_assignment",
        [(x, 2), (y, 2), (radius, 0)],
        optional,
        (x.shape[-2], y.shape[-2]),
        metric=metric,
        maximize=False,
    )[0]


def _call(
    target: str,
    operands: list[tuple[Array, int]],
    optional: dict[str, Array | None],
    shape: tuple[int, int],
    shared: Sequence[int] = (),
    found: Sequence[str] = (),
    workspace: Sequence[int] = (),
    **attributes: Any,
) -> tuple[Assignment, Int[Array, "... n"], Int[Array, "... 2"]]:
    """Calls a target. `operands` are pairs of an array and its number of core dimensions.

    `found`: the names of those operands that the target finds by name.
    """
    (n, m), real = shape, result_float()
    operands = operands + [(x, 1) for x in optional.values() if x is not None]
    results = [
        Result((n,), jnp.int32),
        Result((m,), jnp.int32),
        Result((n,), jnp.int32),
        Result((), real),
        Result((n,), real),
        Result((m,), real),
        Result((), real),
        Result((), jnp.int32),
        Result((2,), jnp.int32),
        *buffers(workspace),
    ]
    col4row, row4col, edge, value, u, v, gap, status, counts, *_ = native_call(
        target,
        [x for x, _ in operands],
        results,
        core_dims=[core for _, core in operands],
        shared=shared,
        present=" ".join((*found, names_of(**optional))).strip(),
        **attributes,
    )
    return Assignment(col4row, row4col, value, u, v, gap, status), edge, counts
