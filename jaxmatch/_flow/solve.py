"""Maximum flow and minimum cut: the public functions, dispatch, and the gradient."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_array, as_count, as_options, check_name, solved_dtype
from jaxmatch._common.given import as_given
from jaxmatch._common.gradient import apart, envelope_value, sum_where
from jaxmatch._common.place import NEVER_COMPILED, Place, place_of
from jaxmatch._common.result import Flow, MinimumCut
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num
from jaxmatch._flow.methods import (
    CHOICES,
    METHODS,
    OPTIONS,
    FlowOptions,
    solve_flow,
    solve_here,
)
from jaxmatch._flow.network import FlowNetwork, as_node, check_network, reversed_network
from jaxmatch._flow.stencil import is_known, known_flow, note_solved
from jaxmatch._flow.warm import as_start, start_of


@unchecked
def maximum_flow(
    network: FlowNetwork,
    capacity: ArrayLike,
    source: ArrayLike,
    sink: ArrayLike,
    *,
    method: str = "auto",
    options: FlowOptions | None = None,
    steps_per_call: int | None = None,
    warm_start: Flow | ArrayLike | None = None,
) -> Flow:
    """Find maximum flows and minimum cuts, inside or outside of `jax.jit`.

    Sends as much as possible from source to sink without exceeding the capacity of an edge, and
    proves the maximum by a cut. Leading dimensions are batch, solved by one native call.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 0, 1, 1, 2], [1, 2, 2, 3, 3], num_nodes=4)
    >>> capacity = jnp.array([3.0, 1.0, 1.0, 1.5, 4.0])
    >>> res = jax.jit(jm.maximum_flow)(network, capacity, 0, 3)
    >>> res.value, res.flow, int(res.status) == jm.Status.OPTIMAL
    (Array(3.5, dtype=float32), Array([2.5, 1. , 1. , 1.5, 2. ], dtype=float32), True)
    >>> res.source_side
    Array([ True,  True, False, False], dtype=bool)
    >>> jax.grad(lambda c: jm.maximum_flow(network, c, 0, 3).value)(capacity)
    Array([0., 1., 1., 1., 0.], dtype=float32)

    **Arguments:**

    - `network`: a [`FlowNetwork`][jaxmatch.FlowNetwork]. One network can be shared by a batch of
      the other arguments, also under `vmap`; it is not copied.
    - `capacity`: `[..., e]`, one per edge, at least 0; int32, int64, float32 or float64 (smaller
      dtypes are widened to 32 bits). +inf means an unbounded edge.
    - `source`, `sink`: nodes, integers that may be traced. Their shapes and the batch dimensions of
      `capacity` and of the network broadcast together.
    - `method`, `options`: `"auto"`, or a name and options of [Methods][flow-methods].
    - `steps_per_call`: on CUDA, the number of steps in each native call, see `jaxmatch.stepping`.
    - `warm_start`: an earlier result or flow `[..., e]`, see [Warm starts][flow-warm-starts].

    **Returns:** a [`Flow`][jaxmatch.Flow], verified by [`check_flow`][jaxmatch.check_flow]. `flow`
    and `value` have the dtype of `capacity`, but for integers under x64 or in NumPy `value` is
    int64. The flow on each edge is between 0 and its capacity, and flow is conserved at every node
    except source and sink.

    **Status:** `OPTIMAL`, `INVALID_CAPACITY`, `INVALID_GRAPH`, `OVERFLOW`; see [statuses][]. If
    unbounded edges lead from source to sink, `value` is +inf and the status `OPTIMAL`.

    **Exact:** integers to 64 bits; floats in fixed point, see [Guarantees][exact].

    **Deterministic:** value and source side. GPU kernels may return any of several maximum flows.

    **Gradient:** of `value`: 1 for edges from the source side to the sink side. `flow` has none.

    **Raises:** `TypeError` for other types, `ValueError` for wrong shapes and unknown names.

    **Source:** Goldberg and Tarjan, JACM 35 (1988); more in [Papers][papers-flow].
    """
    check_network(network)
    check_name("method", method, METHODS)
    checked = as_options(method, options, OPTIONS.get(method, {}), CHOICES, as_count)
    steps = 0 if steps_per_call is None else as_count("steps_per_call", steps_per_call)
    how: dict[str, Any] = {"method": method, "options": checked, "steps": steps}
    return _solve_in_place(network, capacity, source, sink, start_of(warm_start), **how)


@unchecked
def minimum_cut(
    network: FlowNetwork,
    capacity: ArrayLike,
    source: ArrayLike,
    sink: ArrayLike,
    *,
    method: str = "auto",
    nearest: Literal["source", "sink"] = "source",
    warm_start: Flow | ArrayLike | None = None,
) -> MinimumCut:
    """Find minimum cuts: [`maximum_flow`][jaxmatch.maximum_flow] without the flow.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    >>> value, source_side, status = jm.minimum_cut(network, jnp.array([5, 2]), 0, 2)
    >>> value, source_side
    (Array(2, dtype=int32), Array([ True,  True, False], dtype=bool))

    **Arguments:**

    - `network`, `capacity`, `source`, `sink`, `method`, `warm_start`: as in `maximum_flow`.
    - `nearest`: among several minimum cuts, `"source"` selects the one with the fewest nodes on the
      source side and `"sink"` the one with the most. All other minimum cuts lie between these two;
      if the two are equal, the minimum cut is unique.

    >>> ties = jnp.array([2, 2])
    >>> for nearest in ("source", "sink"):
    ...     print(jm.minimum_cut(network, ties, 0, 2, nearest=nearest).source_side)
    [ True False False]
    [ True  True False]

    **Returns:** a [`MinimumCut`][jaxmatch.MinimumCut]: `value`, the least capacity of a cut between
    source and sink; `source_side`, `bool[..., n]`; and `status`.
    [`check_minimum_cut`][jaxmatch.check_minimum_cut] verifies it. Status, exactness, gradient and
    everything else are as for `maximum_flow`. With `nearest="sink"` the flow is computed from the
    sink in the network with all edges reversed; if the value is +inf, the sink is then alone on its
    side.
    """
    if nearest not in ("source", "sink"):
        raise ValueError(f"`nearest` must be 'source' or 'sink', got {nearest!r}.")
    if nearest == "source":
        res = maximum_flow(network, capacity, source, sink, method=method, warm_start=warm_start)
        return MinimumCut(res.value, res.source_side, res.status)
    check_network(network)
    check_name("method", method, METHODS)
    start = start_of(warm_start)
    res = _solve_in_place(network, capacity, source, sink, start, method=method, reverse=True)
    solved = (res.status == Status.OPTIMAL)[..., None]
    return MinimumCut(res.value, ~res.source_side & solved, res.status)


# ---------------------------------------------------------------------------------------------
# Arguments


def _as_problem(
    network: FlowNetwork, capacity: ArrayLike, source: Array, sink: Array, place: Place
) -> tuple[FlowNetwork, Num[Array, "... e"], Int[Array, "..."], Int[Array, "..."]]:
    """Broadcasts all arguments to one batch shape; an unbatched network stays unbatched."""
    xp = place.xp
    if place.native:
        network = jax.tree.map(np.asarray, network)
    x = as_array("capacity", capacity, place)
    x = x.astype(solved_dtype(x.dtype))
    if x.ndim == 0 or x.shape[-1] != network.num_edges:
        raise ValueError(
            f"`capacity` must have shape [..., {network.num_edges}], one entry for each edge of "
            f"`network`, got {x.shape}."
        )
    ends = [xp.asarray(node) for node in (source, sink)]
    shapes = [x.shape[:-1], ends[0].shape, ends[1].shape, network.batch_shape]
    try:
        batch = jnp.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            "The batch dimensions of `capacity`, `source`, `sink` and `network` must broadcast "
            f"together, got {shapes[0]}, {shapes[1]}, {shapes[2]} and {shapes[3]}."
        ) from None
    if network.batch_shape:
        network = jax.tree.map(lambda y: xp.broadcast_to(y, (*batch, y.shape[-1])), network)
    x = xp.broadcast_to(x, (*batch, x.shape[-1]))
    return network, x, xp.broadcast_to(ends[0], batch), xp.broadcast_to(ends[1], batch)


# ---------------------------------------------------------------------------------------------
# Solving


def _solve_in_place(
    network: FlowNetwork,
    capacity: ArrayLike,
    source: ArrayLike,
    sink: ArrayLike,
    start: Any,
    *,
    method: str,
    options: tuple[tuple[str, Any], ...] = (),
    steps: int = 0,
    reverse: bool = False,
) -> Flow:
    """Solves with JAX, or NumPy arguments by a native call on this host.

    `reverse`: solves from sink to source, with reversed edges.
    """
    capacity = as_given("capacity", capacity)
    source, sink = as_node("source", source, network), as_node("sink", sink, network)
    arrays = (capacity, source, sink, *jax.tree.leaves((start, network)))
    of_program: Any = (network.layout, reverse, method, options, steps, start is None)
    if start is None and method == "auto" and not reverse and is_known(network):
        of_program = NEVER_COMPILED  # a program would check the network in each call
    solver = METHODS[method].cpu
    place = place_of(*arrays, options=of_program, native=solver is not None)
    with place.precision():
        problem = _as_problem(network, capacity, source, sink, place)
        of_solve = as_start(start, problem[1], place)
        if place.native and solver is not None:
            return place.bring_home(_solve_here(network, problem, of_solve, solver, reverse))
        res = _solve(
            *problem, of_solve, method=method, options=options, steps=steps, reverse=reverse
        )
        return place.bring_home(res)


def _solve_here(
    network: FlowNetwork,
    problem: tuple[FlowNetwork, Array, Array, Array],
    start: Array | None,
    solver: str,
    reverse: bool,
) -> Flow:
    """Solves a problem of NumPy arrays. `network` is the object that the caller passed."""
    if solver != "auto" or reverse or start is not None:
        return solve_here(*(_reversed(problem) if reverse else problem), start, method=solver)
    if known := known_flow(network, *problem[1:]):
        return known
    res = solve_here(*problem, method=solver)
    note_solved(network, *problem[1:], res.status)
    return res


def _reversed(
    problem: tuple[FlowNetwork, Array, Array, Array],
) -> tuple[FlowNetwork, Array, Array, Array]:
    network, capacity, source, sink = problem
    return reversed_network(network), capacity, sink, source


@compiled(static_argnames=("method", "options", "steps", "reverse"))
def _solve(
    network: FlowNetwork,
    capacity: Num[Array, "... e"],
    source: Int[Array, "..."],
    sink: Int[Array, "..."],
    start: Num[Array, "... e"] | None,
    *,
    method: str,
    options: tuple[tuple[str, Any], ...],
    steps: int,
    reverse: bool,
) -> Flow:
    if reverse:
        network, capacity, source, sink = _reversed((network, capacity, source, sink))

    def solve(
        capacity: Array, source: Array, sink: Array, start: Array | None, network: FlowNetwork
    ) -> Flow:
        how: dict[str, Any] = {"method": method, "options": options, "steps": steps}
        res = apart(solve_flow)(network, capacity, source, sink, start, **how)
        if not jnp.issubdtype(capacity.dtype, jnp.floating):
            return res
        counts = (res.status == Status.OPTIMAL) & jnp.isfinite(res.value)
        cut = edges_across(network, res.source_side) & counts[..., None]
        return res.replace(value=envelope_value(res.value, capacity, cut, _value_jvp))

    if network.batch_shape:
        return over_batch_shards(solve, capacity, source, sink, start, network, core_dims=1)
    return over_batch_shards(solve, capacity, source, sink, start, core_dims=1, shared=(network,))


# ---------------------------------------------------------------------------------------------
# Gradient


def edges_across(network: FlowNetwork, source_side: Bool[Array, "... n"]) -> Bool[Array, "... e"]:
    """The edges that lead from the source side to the sink side."""
    n = network.num_nodes
    if n == 0 or network.num_edges == 0:
        return jnp.zeros_like(source_side, shape=(*source_side.shape[:-1], network.num_edges))

    def side(node: Array) -> Array:
        node = node.clip(0, n - 1)
        if network.batch_shape == ():
            return source_side[..., node]
        return jnp.take_along_axis(source_side, node, axis=-1)

    return side(network.senders) & ~side(network.receivers)


def _value_jvp(capacity: Array, tangent: Array, cut: Bool[Array, "... e"]) -> Float[Array, "..."]:
    return sum_where(cut, tangent)
