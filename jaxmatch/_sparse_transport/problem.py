"""`SparseTransportProblem`: the checked arguments of a transport problem on edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.arguments import as_array, solved_dtype
from jaxmatch._common.given import require
from jaxmatch._common.place import Place
from jaxmatch._common.proof import proof_float, sum_down
from jaxmatch._common.symbolic import broadcast_shapes
from jaxmatch._common.typing import Array, ArrayLike, Bool, Num
from jaxmatch._matching.graph import BipartiteGraph, check_graph
from jaxmatch._min_cost_flow.problem import as_masses, as_start, forgiven_to, value_dtype
from jaxmatch._sparse_assignment.problem import sizes_as_masks, with_batch
from jaxmatch._sparse_transport.result import SparseTransport
from jaxmatch._transport.dummies import as_row_costs
from jaxmatch._transport.problem import Origin, as_partial, expanded, mass_dtype, origin_of


class SparseTransportProblem(NamedTuple):
    """A batch of problems on one graph or a batch of graphs. The graphs are not part of it.

    All arrays have the batch dimensions. The graph has them too, or it has none and all problems
    share it. Masses have one dtype. Masks are False for the padding of stacked graphs.
    """

    cost: Num[Array, "... e"]
    supply: Num[Array, "... n"]
    demand: Num[Array, "... m"]
    limit: Num[Array, "... e"] | None = None  # None: no limits
    moved: Num[Array, "..."] | None = None  # None: all
    unmatched_cost: Num[Array, "... n"] | None = None
    row_mask: Bool[Array, "... n"] | None = None
    col_mask: Bool[Array, "... m"] | None = None
    # For a warm start.
    mass: Num[Array, "... e"] | None = None
    row_dual: Num[Array, "... n"] | None = None
    col_dual: Num[Array, "... m"] | None = None
    origin: Origin | None = None  # None: no mass was given in a coarser dtype than `supply` has


_STARTS = "a SparseTransport or real column duals"

Start = tuple[ArrayLike | None, ArrayLike | None, ArrayLike | None]


def as_problem(
    graph: BipartiteGraph,
    cost: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    limit: ArrayLike | None,
    partial: ArrayLike | None,
    unmatched_cost: ArrayLike | None,
    start: Start = (None, None, None),
    *,
    place: Place,
) -> tuple[BipartiteGraph, SparseTransportProblem]:
    """Checks the arguments and broadcasts them to one batch shape; an unbatched graph stays so.

    `start`: the masses, row duals and column duals of a warm start.
    """
    check_graph(graph)
    (n, m), e, xp = graph.shape, graph.max_edges, place.xp
    if place.native:
        graph = jax.tree.map(np.asarray, graph)
    given = {"cost": cost, "supply": supply, "demand": demand}
    given |= {} if limit is None else {"limit": limit}
    arrays = {name: as_array(name, x, place) for name, x in given.items()}
    if limit is not None and arrays["limit"].ndim == 0:
        of_masses = mass_dtype(arrays["supply"].dtype, arrays["demand"].dtype)
        arrays["limit"] = xp.broadcast_to(_weak(limit, arrays["limit"], of_masses), (e,))
    owners = {"supply": (n, "row of `graph`"), "demand": (m, "column of `graph`")}
    for name, x in arrays.items():
        size, owner = owners.get(name, (e, "entry of `graph.col_ind`"))
        if x.ndim < 1 or x.shape[-1] != size:
            raise ValueError(
                f"`{name}` must have shape [..., {size}], one number for each {owner}, got "
                f"{x.shape}."
            )
    batch = _batch_shape(graph, arrays)
    row_mask, col_mask = (
        None if x is None else expanded(x, batch, 1, xp) for x in sizes_as_masks(graph)
    )
    if graph.batch_shape not in ((), batch):
        graph = with_batch(graph, batch, xp)
    costs = arrays.pop("cost")
    costs = expanded(costs.astype(solved_dtype(costs.dtype), copy=False), batch, 1, xp)
    dtypes = [x.dtype for x in arrays.values()]
    masses, dtype = as_masses(arrays, batch, xp)
    moved = as_partial(partial, dtype, batch, place)
    prices = unmatched_cost
    if prices is not None:
        prices = as_row_costs(prices, costs.dtype, (*batch, n), place)
        prices = prices.astype(solved_dtype(prices.dtype), copy=False)
    problem = SparseTransportProblem(
        costs,
        masses["supply"],
        masses["demand"],
        masses.get("limit"),
        moved,
        prices,
        row_mask,
        col_mask,
        origin=origin_of(dtype, *dtypes, getattr(partial, "dtype", dtype)),
    )
    value, (mass, row_dual, col_dual) = value_dtype(problem), start
    return graph, problem._replace(
        mass=as_start("mass", mass, (*batch, e), dtype, place, _STARTS),
        row_dual=as_start("row_dual", row_dual, (*batch, n), value, place, _STARTS),
        col_dual=as_start("col_dual", col_dual, (*batch, m), value, place, _STARTS),
    )


def _weak(limit: ArrayLike, array: Array, dtype: np.dtype) -> Array:
    """A number of Python gets the dtype of the masses, if that holds its kind."""
    if not isinstance(limit, (bool, int, float)):
        return array
    if jnp.issubdtype(dtype, jnp.floating):
        return array.astype(dtype)
    return array if isinstance(limit, float) else array.clip(max=jnp.iinfo(dtype).max).astype(dtype)


def settled(problem: SparseTransportProblem, xp: Any) -> SparseTransportProblem:
    """The problem without masses and prices of padding, and with a part that sums can explain.

    Not for arrays that are sharded over a mesh with explicit axes.
    """

    def existing(x: Any, mask: Array | None) -> Any:
        return x if x is None or mask is None else xp.where(mask, x, xp.zeros_like(x))

    rows, cols = problem.row_mask, problem.col_mask
    problem = problem._replace(
        supply=existing(problem.supply, rows),
        demand=existing(problem.demand, cols),
        unmatched_cost=existing(problem.unmatched_cost, rows),
    )
    return problem._replace(moved=_within_sums(problem, xp))


def _within_sums(problem: SparseTransportProblem, xp: Any) -> Num[Array, "..."] | None:
    """`partial`; the lesser sum of the masses if it exceeds that by no more than roundings."""
    (_, supply, demand, _, moved), dtype = problem[:5], problem.supply.dtype
    if moved is None or not jnp.issubdtype(dtype, jnp.floating):
        return moved
    real = proof_float(supply)
    total = xp.minimum(*(sum_down(x.astype(real)) for x in (supply, demand)))
    near = forgiven_to(supply.shape[-1] + demand.shape[-1], dtype, problem.origin)
    given = moved.astype(real)
    forgiven = (given > total) & (given <= total * (1 + near))
    most = (total * (1 - 2 * float(jnp.finfo(dtype).eps))).astype(dtype)
    less = xp.where(forgiven, moved - most, xp.zeros_like(moved))
    return moved - (less if xp is np else lax.stop_gradient(less))


def _batch_shape(graph: BipartiteGraph, arrays: dict[str, Any]) -> tuple[Any, ...]:
    try:
        return broadcast_shapes(graph.batch_shape, *(x.shape[:-1] for x in arrays.values()))
    except ValueError:
        names = ", ".join(f"`{name}`" for name in arrays)
        shapes = ", ".join(str(x.shape) for x in arrays.values())
        raise ValueError(
            f"The batch dimensions of {names} and `graph` must broadcast, got shapes {shapes} and "
            f"the batch shape {graph.batch_shape} of the graph."
        ) from None


def start_of(warm_start: Any) -> Start:
    """The masses and duals of a result, or the column duals that were passed in its place."""
    if warm_start is None:
        return None, None, None
    if hasattr(warm_start, "status"):
        require("warm_start", warm_start, SparseTransport, "or pass column duals `[..., m]`")
        return warm_start.mass, warm_start.row_dual, warm_start.col_dual
    return None, None, warm_start
