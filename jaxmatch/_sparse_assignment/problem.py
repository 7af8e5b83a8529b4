"""`SparseProblem`: the checked arguments of a sparse assignment problem."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import MUST, as_array
from jaxmatch._common.cost_arguments import as_col_dual, as_mask, check_both_given
from jaxmatch._common.given import NARROW
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import broadcast_shapes
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Num
from jaxmatch._matching.graph import BipartiteGraph, check_graph
from jaxmatch._transport.problem import expanded


CARDINALITIES = ("full", "maximum")


class SparseProblem(NamedTuple):
    """A batch of problems on one graph or a batch of graphs. The graphs are not part of it.

    All arrays have the batch dimensions. The graph has them too, or it has none and all problems
    share it. The masks are False for the padding of stacked graphs.
    """

    cost: Num[Array, "... e"]
    row_mask: Bool[Array, "... n"] | None = None
    col_mask: Bool[Array, "... m"] | None = None
    unmatched_cost: Num[Array, "... n"] | None = None
    unmatched_col_cost: Num[Array, "... m"] | None = None
    col_dual: Float[Array, "... m"] | None = None  # for a warm start


def as_problem(
    graph: BipartiteGraph,
    cost: ArrayLike,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    col_dual: ArrayLike | None = None,
    *,
    place: Place = BY_JAX,
) -> tuple[BipartiteGraph, SparseProblem]:
    """Checks the arguments and broadcasts them to one batch shape."""
    check_graph(graph)
    n, m = graph.shape
    cost = as_array("cost", cost, place)
    cost = cost.astype(jnp.int32) if cost.dtype in NARROW else cost
    if cost.ndim < 1 or cost.shape[-1] != graph.max_edges:
        raise ValueError(
            f"`cost` must have shape [..., {graph.max_edges}], one number for each entry of "
            f"`graph.col_ind`, got {cost.shape}; `BipartiteGraph.from_edges_with_cost` brings "
            "costs into the order of the edges."
        )
    try:
        batch = broadcast_shapes(cost.shape[:-1], graph.batch_shape)
    except ValueError:
        raise ValueError(
            "The batch dimensions of `cost` and of `graph` must broadcast, got shapes "
            f"{cost.shape} and {graph.batch_shape}."
        ) from None
    if place.native:
        graph = jax.tree.map(np.asarray, graph)
    own_rows, own_cols = sizes_as_masks(graph)
    if graph.batch_shape not in ((), batch):
        graph = with_batch(graph, batch, place.xp)
    return graph, SparseProblem(
        expanded(cost, batch, 1, place.xp),
        _both(as_mask("row_mask", row_mask, (*batch, n), place), own_rows, (*batch, n), place),
        _both(as_mask("col_mask", col_mask, (*batch, m), place), own_cols, (*batch, m), place),
        _as_price("unmatched_cost", unmatched_cost, (*batch, n), cost.dtype, place),
        _as_price("unmatched_col_cost", unmatched_col_cost, (*batch, m), cost.dtype, place),
        as_col_dual(col_dual, (*batch, m), place),
    )


def check_options(
    cardinality: str, unmatched_cost: ArrayLike | None, unmatched_col_cost: ArrayLike | None
) -> None:
    """Raises an error for options that exclude each other."""
    if cardinality == "maximum" and unmatched_cost is not None:
        raise ValueError(
            '`unmatched_cost` and cardinality="maximum" exclude each other: the first says what it '
            "costs to leave a row, the second that it costs more than anything else. Leave out one."
        )
    check_both_given(unmatched_cost, unmatched_col_cost)


def sizes_as_masks(
    graph: BipartiteGraph,
) -> tuple[Bool[Array, "... n"] | None, Bool[Array, "... m"] | None]:
    """Masks that are False for padding rows and columns; None if there is certainly no padding."""
    return tuple(  # type: ignore[return-value]
        None if _is_constant(size, length) else _is_below(length, size)
        for size, length in zip((graph.num_rows, graph.num_cols), graph.shape, strict=True)
    )


def _is_constant(x: Any, value: int) -> bool:
    return not isinstance(x, jax.core.Tracer) and bool((np.asarray(x) >= value).all())


def _is_below(length: int, size: Any) -> Any:
    xp = jnp if isinstance(size, jax.Array) else np
    size = xp.asarray(size).astype(np.int32)[..., None]
    at = xp.arange(length, dtype=np.int32).reshape(*(1 for _ in size.shape[1:]), length)
    return at < size


def _both(given: Any, own: Any, shape: tuple[int, ...], place: Place) -> Any:
    if own is None:
        return given
    own = expanded(own, shape[:-1], 1, place.xp)
    return own if given is None else given & own


def with_batch(graph: BipartiteGraph, batch: tuple[int, ...], xp: Any) -> BipartiteGraph:
    core = dict(row_ptr=1, col_ind=1, col_ptr=1, row_ind=1, num_rows=0, num_cols=0)
    return BipartiteGraph(
        **{name: expanded(getattr(graph, name), batch, count, xp) for name, count in core.items()}
    )


def _as_price(
    name: str, price: ArrayLike | None, shape: tuple[int, ...], of_costs: Any, place: Place
) -> Num[Array, "..."] | None:
    if price is None:
        return None
    x = as_array(name, price, place, must=f"be real and {MUST}")
    x = x.astype(jnp.int32) if x.dtype in NARROW else x
    # If costs are integers, integer prices stay integers: a float might round them.
    if jnp.issubdtype(x.dtype, jnp.floating) or jnp.issubdtype(of_costs, jnp.floating):
        x = x.astype(result_float())
    try:
        return place.xp.broadcast_to(x, shape)
    except ValueError:
        raise ValueError(
            f"`{name}` has shape {x.shape}, which does not broadcast to {shape} "
            "(the batch shape of `cost` and `graph`, and one entry per row or column)."
        ) from None
