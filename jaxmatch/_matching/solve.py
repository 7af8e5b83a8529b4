"""Maximum bipartite matching: the public function, methods and dispatch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import jax
import numpy as np

from jaxmatch._common.arguments import as_count, check_name
from jaxmatch._common.given import INTEGERS, as_given, is_of_kind, typed
from jaxmatch._common.gradient import apart
from jaxmatch._common.indices import existing
from jaxmatch._common.place import BY_JAX, Place, place_of
from jaxmatch._common.result import Matching
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Int
from jaxmatch._ffi.dispatch import Method, by_platform, until_done
from jaxmatch._ffi.repeated import repeated
from jaxmatch._matching import native
from jaxmatch._matching import xla as _xla_matching
from jaxmatch._matching.by_flow import solve_by_flow
from jaxmatch._matching.graph import BipartiteGraph, check_graph
from jaxmatch._matching.options import MatchingOptions, checked, with_defaults


_METHODS = {
    "auto": Method(cpu="auto", cuda="auto"),
    "hopcroft_karp": Method(cpu="hopcroft_karp", cuda="apsb"),
    "hkdw": Method(cpu="hkdw", cuda="apfb"),
    "pothen_fan": Method(cpu="pothen_fan", cuda=None),
    "push_relabel": Method(cpu="push_relabel", cuda="push_relabel"),
    "p_pfp": Method(cpu="p_pfp", cuda=None),
    "apsb": Method(cpu="hopcroft_karp", cuda="apsb"),
    "apfb": Method(cpu="hkdw", cuda="apfb"),
    "init_only": Method(cpu="init_only", cuda="init_only"),
    "flow": Method(cpu=None, cuda=None),
    "xla": Method(cpu=None, cuda=None),
}

_Init = Literal["auto", "none", "cheap", "karp_sipser"]


@unchecked
@repeated("steps_per_call", unread=frozenset(["num_rows", "num_cols"]))
def maximum_bipartite_matching(
    graph: BipartiteGraph,
    *,
    method: str = "auto",
    init: _Init = "auto",
    warm_start: Matching | ArrayLike | None = None,
    options: MatchingOptions | None = None,
    steps_per_call: int | None = None,
) -> Matching:
    """Find maximum matchings of bipartite graphs, inside or outside of `jax.jit`.

    Finds as many edges as possible such that no two share a row or a column, and proves the
    maximum. Leading dimensions are batch, solved by one native call.

    >>> import jax, jaxmatch as jm
    >>> graph = jm.BipartiteGraph.from_edges([0, 0, 1, 2, 2], [0, 1, 0, 0, 1], shape=(3, 3))
    >>> res = jax.jit(jm.maximum_bipartite_matching)(graph)
    >>> int(res.cardinality), int(res.status) == jm.Status.OPTIMAL
    (2, True)
    >>> res.row_cover, res.col_cover  # two vertices that touch every edge
    (Array([False, False, False], dtype=bool), Array([ True,  True, False], dtype=bool))

    **Arguments:**

    - `graph`: a [`BipartiteGraph`][jaxmatch.BipartiteGraph], or a batch of them from its `stack`
      or under `vmap`.
    - `method`, `options`: `"auto"`, or a name and options of [Methods][matching-methods].
    - `init`: how to find the initial matching: `"none"`, `"cheap"`, `"karp_sipser"` or `"auto"`.
    - `warm_start`: an earlier [`Matching`][jaxmatch.Matching], or the column of each row, integers
      that broadcast to `[..., n]`. Pairs that are edges are kept, and `init` continues from there.
    - `steps_per_call`: on CUDA, the number of steps in each native call, see `jaxmatch.stepping`.

    **Returns:** a [`Matching`][jaxmatch.Matching] of int32 and bool arrays, verified by
    [`check_matching`][jaxmatch.check_matching].

    **Status:** `OPTIMAL`; `UNFINISHED` for method `"init_only"`, whose matching is not proved to be
    maximum; `INVALID_GRAPH` if the arrays of the graph are inconsistent. With `INVALID_GRAPH`,
    indices and cardinality are −1, and covers False.

    **Certificate:** `row_cover` and `col_cover` contain `cardinality` vertices in total and cover
    every edge, so no matching has more pairs (Kőnig's theorem).

    **Deterministic:** the cardinality. Methods with racing threads may return any maximum matching.

    **Gradient:** none. To differentiate the costs of the pairs, gather `cost[i, res.col4row[i]]`.

    **Raises:** `TypeError` for other types, `ValueError` for shapes that do not fit and unknown
    names.

    **Source:** Deveci, Kaya, Uçar and Çatalyürek, ICPP 2013 and Euro-Par 2013; more in
    [Papers][papers-matching].
    """
    check_graph(graph)
    check_name("method", method, _METHODS)
    check_name("init", init, get_args(_Init))
    chosen = checked(method, options)
    steps = 0 if steps_per_call is None else as_count("steps_per_call", steps_per_call)
    start: Any = warm_start
    start = start.col4row if is_of_kind(start, Matching) else start
    start = None if start is None else as_given("warm_start", start)
    init = "cheap" if init == "auto" and method != "auto" else init
    arrays = (graph.row_ptr, graph.col_ind, graph.col_ptr, graph.row_ind, start)
    place = place_of(*arrays, options=(graph.shape, method, init, chosen))
    solver = _METHODS[method].cpu
    if not place.native or solver is None:
        return _solve(
            graph,
            _as_start(start, graph),
            method=method,
            init=init,
            options=chosen,
            steps=steps,
        )
    solve = _native_solver("cpu", solver, init, chosen, 0)
    graph = jax.tree.map(np.asarray, graph)
    return place.bring_home(solve(graph, _as_start(start, graph, place)))


# ---------------------------------------------------------------------------------------------
# Arguments


def _as_start(
    warm_start: ArrayLike | None, graph: BipartiteGraph, place: Place = BY_JAX
) -> Int[Array, "... n"] | None:
    if warm_start is None:
        return None
    if np.size(warm_start) == 0 and not isinstance(warm_start, jax.Array):
        warm_start = np.asarray(warm_start, np.int32)  # NumPy turns an empty list into floats
    must = "be a Matching or the column of each row as integers"
    start = typed("warm_start", warm_start, INTEGERS, must, "")
    if start.dtype != np.int32:
        start = existing(start, graph.shape[1])  # before JAX may truncate 64-bit integers
    start = place.xp.asarray(start)
    shape = (*graph.batch_shape, graph.shape[0])
    try:
        return place.xp.broadcast_to(start, shape)
    except ValueError:
        raise ValueError(
            f"`warm_start` has shape {start.shape}, which does not broadcast to {shape}, one entry "
            "for each row of `graph`."
        ) from None


# ---------------------------------------------------------------------------------------------
# Solving


@compiled(static_argnames=("method", "init", "options", "steps"))
def _solve(
    graph: BipartiteGraph,
    start: Int[Array, "... n"] | None,
    *,
    method: str,
    init: str,
    options: tuple[tuple[str, Any], ...],
    steps: int,
) -> Matching:
    solve = partial(solve_by_platform, method=method, init=init, options=options, steps=steps)
    return over_batch_shards(apart(solve), graph, start, core_dims=1)


def solve_by_platform(
    graph: BipartiteGraph,
    start: Int[Array, "... n"] | None,
    *,
    method: str,
    init: str = "auto",
    options: tuple[tuple[str, Any], ...] = (),
    steps: int = 0,
) -> Matching:
    """Calls the native solver of the platform, chosen at lowering, or else the pure-JAX twin."""
    cpu, cuda = _METHODS[method]
    on_cpu = None if cpu is None else _native_solver("cpu", cpu, init, options, steps)
    on_cuda = None if cuda is None else _native_solver("cuda", cuda, init, options, steps)
    twin = partial(_xla_matching.solve, init=init, search=method != "init_only")
    if method == "flow":
        twin = solve_by_flow

    sizes = (*graph.shape, graph.max_edges)
    return by_platform(twin, graph, start, cpu=on_cpu, cuda=on_cuda, sizes=sizes)


def solve_on_host(graph: BipartiteGraph) -> Matching:
    """Solves by a native call on NumPy arrays, without a trace."""
    return native.matching(
        graph, None, method="auto", init="auto", options={}, steps=0, platform="cpu"
    )[0]


def _native_solver(
    platform: Literal["cpu", "cuda"],
    solver: str,
    init: str,
    options: tuple[tuple[str, Any], ...],
    steps: int,
) -> Callable[..., Matching]:
    call = partial(
        native.matching,
        method=solver,
        init=init,
        options=with_defaults(solver, options) if platform == "cuda" else dict(options),
        platform=platform,
    )

    def in_one_call(graph: BipartiteGraph, start: Array | None) -> Matching:
        return call(graph, start, steps=0)[0]

    def in_steps(graph: BipartiteGraph, start: Array | None) -> Matching:
        return until_done(
            lambda state: call(graph, start, state=state, steps=steps),
            native.empty_matching_buffers(graph, start),
            lambda state: state.done,
        )

    return in_steps if platform == "cuda" and steps else in_one_call
