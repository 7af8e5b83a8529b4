"""Maximum flow and minimum cut: the public functions, dispatch, and the gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.arguments import as_array, as_count, as_options, check_name, solved_dtype
from jaxmatch._common.given import as_given
from jaxmatch._common.gradient import envelope_value, sum_where
from jaxmatch._common.result import Flow, MinimumCut
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._ffi.place import Place, place_of
from jaxmatch._flow.methods import CHOICES, METHODS, OPTIONS, solve_flow, solve_here
from jaxmatch._flow.network import FlowNetwork, as_node, check_network, reversed_network


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Float, Int, Num


@unchecked
def maximum_flow(
    network: FlowNetwork,
    capacity: ArrayLike,
    source: ArrayLike,
    sink: ArrayLike,
    *,
    method: str = "auto",
    options: Mapping[str, Any] | None = None,
    steps_per_call: int | None = None,
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
    >>> jm.check_flow(network, capacity, 0, 3, res).optimal
    Array(True, dtype=bool)

    **Arguments:**

    - `network`: a [`FlowNetwork`][jaxmatch.FlowNetwork]. One network can be shared by a batch of
      the other arguments, also under `vmap`; it is not copied.
    - `capacity`: `[..., e]`, one per edge, at least 0; int32, int64, float32 or float64 (bool and
      8- and 16-bit integers are widened to int32, bfloat16 and float16 to float32). +inf: an
      unbounded edge.
    - `source`, `sink`: nodes, integers that may be traced. Their shapes, that of `capacity` without
      its last dimension and the network's batch dimensions broadcast together.
    - `method`: `"auto"`, or a name of the table below. Every name is accepted on every platform;
      without a kernel for it, a related one runs, or the pure-JAX twin.
    - `options`: a dict for the GPU kernels of one method, see below. Ignored if no such kernel
      runs.
    - `steps_per_call`: on CUDA, the number of steps in each native call, in a
      `jax.lax.while_loop`. By default one call takes all steps.
      [`jaxmatch.stepping`][jaxmatch.stepping] defines a step. On the CPU and in the twin the solve
      is always one call.

    **Methods:**

    | `method` | CPU (C++) | CUDA |
    | --- | --- | --- |
    | `"auto"` | the fastest combination found | the fastest combination found |
    | `"augment"` | augmenting paths from both ends | `"auto"` |
    | `"push_relabel"` | highest label, gap heuristic, global relabelling | `"auto"` |
    | `"pseudoflow"` | Hochbaum's pseudoflow | `"auto"` |
    | `"thread_centric"` | `"push_relabel"` | one thread per node |
    | `"two_level"` | `"push_relabel"` | a queue of active nodes, a tile of threads per node |
    | `"xla"` | the pure-JAX twin | the twin |

    `"auto"` on the CPU: augmenting paths while each is cheap or few can be left, then pseudoflow
    for the rest. On CUDA: push-relabel in rounds, see below. It adapts during the solve, without
    statistics of the network: search levels with few arcs are processed by one block and large ones
    by all, nodes of up to 16 arcs are discharged by a thread and others by a warp, and pushes take
    as long as the search before them.

    **Options:** of `"two_level"`, `tile`, the number of threads per node: 4, 8, 16, 32 or
    `"degree"`, by its number of arcs (the default). Of `"two_level"` and `"thread_centric"`,
    `cycle`, the number of rounds between two global relabellings.

    **Returns:**

    A [`Flow`][jaxmatch.Flow]. `flow` has the dtype of `capacity`. So has `value`, except that it is
    int64 for integer capacities under x64. 64-bit NumPy capacities are treated as under x64. On the
    CPU, outside of a trace, NumPy arguments give NumPy results. The flow on each edge is between 0
    and its capacity, and it is conserved at each node except source and sink. Of parallel edges the
    first are filled first, of antiparallel ones at most one carries flow, self-loops carry none.

    **Status:** `OPTIMAL`. `INVALID_CAPACITY` if a capacity is negative or NaN. `INVALID_GRAPH` if
    source or sink is not a node, both are the same, or the arrays of the network are inconsistent.
    `OVERFLOW` if the value does not fit its dtype (including a finite cut beyond all floats), or if
    the integer capacities at the source and those at the sink both sum to 2^61 or more. Value and
    flow are then NaN (−1 for integers), and `source_side` False. If unbounded edges lead from
    source to sink, the status is `OPTIMAL`, the value +inf, every flow NaN, and the source is alone
    on its side. No exception is raised, and the rest of the batch is unaffected.

    **Certificate:** the capacities of the edges from `source_side` to the other nodes sum to
    `value`, and the flow saturates them. [`check_flow`][jaxmatch.check_flow] verifies this.

    **Exact:** integers, to 64 bits. Floats are solved in fixed point with a unit q, a power of two.
    It is so small that all capacities are multiples of q, or that the capacity at the source or at
    the sink sums to 2^59 q (2^28 q in the twin without x64). Capacities are rounded down to
    multiples of q, the flow is computed in integers, and it is conserved up to its rounding to the
    dtype. `value` is the sum of the given capacities of the cut. It is at most e·q above the
    maximum, and equal to it if capacities are multiples of q.

    **Deterministic:** value, source side and status, which are also the same for every method up to
    rounding of float capacities. A network can have many maximum flows: the CPU methods and the
    twin always return the same one, GPU kernels may return any.

    **Gradient:** of `value`, forward and reverse: 1 for edges from the source side to the sink
    side, 0 for all others. If several cuts are minimum, the value is not differentiable; this is
    then the supergradient of the cut nearest to the source, the same for every method. The gradient
    is 0 if the status is not `OPTIMAL` or the value is infinite. None flows through `flow`.

    **Time and memory:** on the CPU O(n²√a) operations at worst for push-relabel with the highest
    label, O(n²·a) for the others, in practice a few passes over the arcs for most networks.
    O(n + a + e) memory for each problem that is being solved. The twin needs O(n²) rounds, each a
    pass over all arcs.

    On CUDA, `"auto"`: small networks (nodes and arcs up to 4096 in total, 32,768 in a batch) have
    one block each, all in one launch. Larger ones, and those of all other methods, are solved one
    at a time by the whole GPU, with 24 a + 36 n + 4 e bytes for each problem of a batch besides the
    arguments. A round is a global relabelling (exact distances by breadth-first search), and pushes
    as long as these pay. Latency dominates: a search level takes 1 to 10 microseconds. It is faster
    than our CPU methods on one core on 19 of the 20 networks of `benchmarks/flow`, from images to
    random levels. It is slower on one of Goldfarb and Grigoriadis', where the CPU's pseudoflow
    takes six tenths of the time. The fastest CPU codes known, HPF and hi_pr, are faster on a
    network like that of 110,000 nodes, and on long random levels.

    *Termination.* Pushes race, but only the owner of a node takes from its excess and its arcs, so
    there is always a preflow. A stage ends only when a search finds that no excess reaches the
    target. Pushes end after the time of the search, or after `cycle` rounds. After 4096 rounds of a
    stage nodes are no longer relabelled between searches. From then on pushes lead from a distance
    D to D − 1 and open arcs from D − 1 to D, so no distance falls. A round ends when no excess can
    move; the nodes that hold it have a greater distance in the next search. Distances are at most
    n, so at most n² more rounds follow in each of the two stages, to the target and back to the
    root.

    **Raises:** `TypeError` if `network` is not a `FlowNetwork`, `capacity` has another dtype,
    `source` or `sink` are not integers or `options` is not a dict; `ValueError` for shapes that do
    not fit, and for unknown methods and options.

    **Source:** Goldberg and Tarjan, *A new approach to the maximum-flow problem*, JACM 35 (1988);
    Cherkassky and Goldberg, *On implementing the push-relabel method for the maximum flow problem*,
    Algorithmica 19 (1997); Hochbaum, *The pseudoflow algorithm*, Operations Research 56 (2008);
    Goldberg, Hed, Kaplan, Kohli, Tarjan and Werneck, *Faster and more dynamic maximum flow by
    incremental breadth-first search*, ESA 2015; Hsieh, Lin and Kuo, *Accelerating push-relabel
    algorithm on GPU via two-level parallelism paradigm and efficient CSR designs*, HPEC 2025 (the
    layouts, `"two_level"`); He and Hong, *Dynamically tuned push-relabel algorithm for the maximum
    flow problem on CPU-GPU-hybrid platforms*, IPDPS 2010 (`"thread_centric"`).
    """
    check_network(network)
    check_name("method", method, METHODS)
    checked = as_options(method, options, OPTIONS.get(method, {}), CHOICES, as_count)
    steps = 0 if steps_per_call is None else as_count("steps_per_call", steps_per_call)
    return _solve_in_place(
        network, capacity, source, sink, method=method, options=checked, steps=steps
    )


@unchecked
def minimum_cut(
    network: FlowNetwork,
    capacity: ArrayLike,
    source: ArrayLike,
    sink: ArrayLike,
    *,
    method: str = "auto",
    nearest: str = "source",
) -> MinimumCut:
    """Find minimum cuts: [`maximum_flow`][jaxmatch.maximum_flow] without the flow.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    >>> value, source_side, status = jm.minimum_cut(network, jnp.array([5, 2]), 0, 2)
    >>> value, source_side
    (Array(2, dtype=int32), Array([ True,  True, False], dtype=bool))

    **Arguments:**

    - `network`, `capacity`, `source`, `sink`, `method`: as in `maximum_flow`.
    - `nearest`: among several minimum cuts, `"source"` selects the one with the fewest nodes on the
      source side and `"sink"` the one with the most. All other minimum cuts lie between these two;
      if they are equal, there is no other.

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
        res = maximum_flow(network, capacity, source, sink, method=method)
        return MinimumCut(res.value, res.source_side, res.status)
    check_network(network)
    check_name("method", method, METHODS)
    res = _solve_in_place(network, capacity, source, sink, method=method, reverse=True)
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
    *,
    method: str,
    options: tuple[tuple[str, Any], ...] = (),
    steps: int = 0,
    reverse: bool = False,
) -> Flow:
    """Solves by JAX or on this host. `reverse`: from sink to source, with reversed edges."""
    capacity = as_given("capacity", capacity)
    source, sink = as_node("source", source, network), as_node("sink", sink, network)
    leaves = jax.tree.leaves(network)
    place = place_of(
        capacity,
        source,
        sink,
        *leaves,
        options=(network.layout, reverse, method, options, steps),
    )
    solver = METHODS[method].cpu
    if solver is None:
        place = place.by_jax()
    with place.precision():
        problem = _as_problem(network, capacity, source, sink, place)
        if place.native and solver is not None:
            problem = _reversed(problem) if reverse else problem
            return place.bring_home(solve_here(*problem, method=solver))
        res = _solve(*problem, method=method, options=options, steps=steps, reverse=reverse)
        return place.bring_home(res)


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
    *,
    method: str,
    options: tuple[tuple[str, Any], ...],
    steps: int,
    reverse: bool,
) -> Flow:
    if reverse:
        network, capacity, source, sink = _reversed((network, capacity, source, sink))

    def solve(capacity: Array, source: Array, sink: Array, network: FlowNetwork) -> Flow:
        fixed = lax.stop_gradient(capacity)
        res = solve_flow(network, fixed, source, sink, method=method, options=options, steps=steps)
        if not jnp.issubdtype(capacity.dtype, jnp.floating):
            return res
        counts = (res.status == Status.OPTIMAL) & jnp.isfinite(res.value)
        cut = edges_across(network, res.source_side) & counts[..., None]
        return res.replace(value=envelope_value(res.value, capacity, cut, _value_jvp))

    if network.batch_shape:
        return over_batch_shards(solve, capacity, source, sink, network, core_dims=1)
    return over_batch_shards(solve, capacity, source, sink, core_dims=1, shared=(network,))


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
