"""Maximum bipartite matching: the public function, and which solver runs where."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from jaxmatch._common.arguments import as_count, as_options, check_name
from jaxmatch._common.given import INTEGERS, as_given, typed
from jaxmatch._common.indices import existing
from jaxmatch._common.result import Matching
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._ffi.dispatch import Method, by_platform, until_done
from jaxmatch._ffi.place import BY_JAX, Place, place_of
from jaxmatch._matching import native
from jaxmatch._matching import xla as _xla_matching
from jaxmatch._matching.by_flow import solve_by_flow
from jaxmatch._matching.graph import BipartiteGraph, check_graph


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Int


_METHODS = {
    "auto": Method(cpu="auto", cuda="auto"),
    "hopcroft_karp": Method(cpu="hopcroft_karp", cuda="apsb"),
    "hkdw": Method(cpu="hkdw", cuda="apfb"),
    "pothen_fan": Method(cpu="pothen_fan", cuda=None),
    "push_relabel": Method(cpu="push_relabel", cuda="push_relabel"),
    "p_dbfs": Method(cpu="p_dbfs", cuda="auto"),
    "p_pfp": Method(cpu="p_pfp", cuda=None),
    "p_hk": Method(cpu="p_hk", cuda="apsb"),
    "apsb": Method(cpu="hopcroft_karp", cuda="apsb"),
    "apfb": Method(cpu="hkdw", cuda="apfb"),
    "init_only": Method(cpu="init_only", cuda="init_only"),
    "flow": Method(cpu=None, cuda=None),
    "xla": Method(cpu=None, cuda=None),
}

_INITS = ("auto", "none", "cheap", "karp_sipser")
# The values of options that are no numbers.
_CHOICES = {
    "variant": ("first", "active", "shrink"),
    "relabel": ("adaptive", "fixed"),
    "kernel": ("gpubfs", "gpubfs_wr"),
    "threads": ("ct", "mt"),
    "alternate": ("paths", "roots"),
}
# What a GPU solver takes, and what it takes where nothing is given: the best of the papers.
_OPTIONS = {
    "push_relabel": {"variant": "shrink", "relabel": "adaptive", "k": 0.7},
    "apsb": {"kernel": "gpubfs_wr", "threads": "ct", "alternate": "roots"},
    "apfb": {"kernel": "gpubfs_wr", "threads": "ct", "alternate": "paths"},
}
# Defaults that another option changes.
_OPTIONS_BESIDE = {
    ("relabel", "fixed"): {"k": 10.0},
    ("kernel", "gpubfs"): {"alternate": "paths"},
}


@unchecked
def maximum_bipartite_matching(
    graph: BipartiteGraph,
    *,
    method: str = "auto",
    init: str = "auto",
    warm_start: Matching | ArrayLike | None = None,
    options: Mapping[str, Any] | None = None,
    steps_per_call: int | None = None,
) -> Matching:
    """Find maximum matchings of bipartite graphs, inside or outside of `jax.jit`.

    Chooses as many edges as possible of which no two share a row or a column, and proves that
    there are not more. All leading dimensions are batch, solved by one native call.

    >>> import jax, jaxmatch as jm
    >>> graph = jm.BipartiteGraph.from_edges([0, 0, 1, 2, 2], [0, 1, 0, 0, 1], shape=(3, 3))
    >>> res = jax.jit(jm.maximum_bipartite_matching)(graph)
    >>> int(res.cardinality), int(res.status) == jm.Status.OPTIMAL
    (2, True)
    >>> res.row_cover, res.col_cover  # two vertices that touch every edge
    (Array([False, False, False], dtype=bool), Array([ True,  True, False], dtype=bool))
    >>> jm.check_matching(graph, res).optimal
    Array(True, dtype=bool)

    **Arguments:**

    - `graph`: a [`BipartiteGraph`][jaxmatch.BipartiteGraph], or a batch of them from its `stack`
      or under `vmap`.
    - `method`: `"auto"`, or one of the algorithms of the table below. A name is accepted
      everywhere; where it has no kernel, a relative of it runs, or the pure-JAX twin.
    - `init`: the matching to begin with. `"none"`; `"cheap"`, each row takes a free column;
      `"karp_sipser"`, vertices with a single free neighbour first; `"auto"`, which is `"cheap"` for
      the named methods, and for method `"auto"` what was measured to be fastest.
    - `warm_start`: an earlier [`Matching`][jaxmatch.Matching], or the column of each row, integers
      that broadcast to `[..., n]`. Pairs that are edges of the graph are kept, of several rows with
      one column the first; any other numbers (−1 by convention) leave the row free. `init` goes on
      from there. The cardinality stays the same, and the better the start the less is left to do.
    - `options`: a dict for the GPU kernels of one method, see below. Where no such kernel runs they
      are accepted, and ignored if they mean nothing there.
    - `steps_per_call`: on CUDA, so many steps in each native call, all calls in a
      `jax.lax.while_loop`, instead of all in one call; [`jaxmatch.stepping`][jaxmatch.stepping]
      says what a step is. On the CPU and in the twin the whole solve is one call in any case.

    **Methods:**

    | `method` | CPU (C++) | CUDA |
    | --- | --- | --- |
    | `"auto"` | the fastest combination found, with threads | likewise |
    | `"hopcroft_karp"` | shortest paths, phase by phase | `"apsb"` |
    | `"hkdw"` | likewise, then from all columns left (Duff, Wiberg) | `"apfb"` |
    | `"pothen_fan"` | depth-first with lookahead and fairness | the twin |
    | `"push_relabel"` | FIFO, with global relabelling | G-PR |
    | `"p_dbfs"` | disjoint breadth-first searches, threads | `"auto"` |
    | `"p_pfp"` | Pothen and Fan, threads | the twin |
    | `"p_hk"` | Hopcroft and Karp, threads | `"apsb"` |
    | `"apsb"` | `"hopcroft_karp"` | breadth-first, to the first level with a free column |
    | `"apfb"` | `"hkdw"` | breadth-first, to the last level |
    | `"init_only"` | the matching of `init` and nothing more | likewise |
    | `"flow"` | [`maximum_flow`][jaxmatch.maximum_flow] with unit capacities | likewise |
    | `"xla"` | the pure-JAX twin | the twin |

    `"auto"` on CUDA: graphs of which a batch has several, or with up to 1024 vertices, whose state
    fits a multiprocessor (about 1700 vertices a side), have a block each, all in one launch. Larger
    ones, and batches of every other method, are solved one after another by the whole GPU: a
    greedy matching from vertices of few neighbours on, short paths by pushing, then disjoint trees
    from all free vertices of the side that has fewer, with push-relabel in between where trees get
    in each other's way. On the CPU a search from each free row, up to a bound that grows, then
    forests, at last Hopcroft and Karp.

    `"flow"` has no use for `init`, `warm_start` and `steps_per_call`. It takes graphs whose edges,
    rows and columns are below 2^30 together.

    **Options:** of `"push_relabel"`:

    - `variant`: the paper's three steps, `"first"` (a thread for each vertex), `"active"` (a list
      of active ones) and `"shrink"` (a list that shrinks; the default).
    - `relabel`: global relabelling each `k` times the deepest level, `"adaptive"` (the default),
      or each `k` rounds, `"fixed"`.
    - `k`: by default 0.7, and 10 with `"fixed"`. The CPU relabels each k·(n + m) pushes, by default
      and with `"fixed"` for k = 0.5.

    Of `"apsb"` and `"apfb"`:

    - `kernel`: `"gpubfs"`, or `"gpubfs_wr"` (the default), which knows the root of each tree and
      stops where it has found its path.
    - `threads`: `"ct"`, a constant number (the default), or `"mt"`, one for each vertex.
    - `alternate`: along all `"paths"` that were found, or along one for each of the `"roots"`,
      which needs `"gpubfs_wr"` and is the default of `"apsb"` with it.

    **Returns:**

    A [`Matching`][jaxmatch.Matching]; everything in it is int32 or bool.

    **Status:** `OPTIMAL`. `UNFINISHED` for method `"init_only"`, which proves nothing: the covers
    are False. `INVALID_GRAPH` where the arrays of the graph make no sense: pointers that fall, do
    not begin at 0 or lead beyond the edges, indices of no vertex, another number of edges by row
    than by column; indices and cardinality are −1 there, covers False. Never an exception, and the
    other graphs of the batch are not touched. No array is read outside of its bounds. Rows against
    columns and columns against rows are not compared edge by edge: where they differ, the result is
    some status and some pairs.

    **Certificate:** `row_cover` and `col_cover` hold `cardinality` vertices in all, and touch every
    edge, so no matching has more pairs (Kőnig's theorem).
    [`check_matching`][jaxmatch.check_matching] verifies this.

    **Deterministic:** cardinality and status are, but for method `"init_only"` on CUDA, where
    threads race for the initial matching. A graph can have many maximum matchings and covers:
    `"xla"` and the CPU methods that use one thread (`"hopcroft_karp"`, `"hkdw"`, `"pothen_fan"`,
    `"push_relabel"`, `"init_only"`) return the same one each time, the GPU kernels and the CPU
    methods with threads (`"auto"` on large graphs too) may return any.

    **Gradient:** none flows through the result; costs at the chosen pairs are a gather,
    `cost[i, res.col4row[i]]`, with its own.

    **Time and memory:** at worst O(√n·e) operations for `"auto"`, `"hopcroft_karp"` and `"hkdw"` on
    the CPU, O(n·e) for the others, in practice a few passes over the edges. O(n + m) memory beside
    the graph, on CUDA O(n + m + e). The twin passes over all edges for each level of its searches,
    which is slow where augmenting paths are long.

    **Raises:** `TypeError` if `graph` is no `BipartiteGraph`, its arrays are not int32,
    `warm_start` holds no integers or `options` is no dict; `ValueError` for shapes that do not fit,
    and for unknown methods, inits and options.

    **Source:** Deveci, Kaya, Uçar and Çatalyürek, *A push-relabel-based maximum cardinality
    bipartite matching algorithm on GPUs*, ICPP 2013 (`"push_relabel"`), and *GPU accelerated
    maximum cardinality matching algorithms for bipartite graphs*, Euro-Par 2013 (`"apsb"`,
    `"apfb"`). Hopcroft and Karp, SIAM J. Comput. 2 (1973); Duff and Wiberg, ACM TOMS 14 (1988);
    Pothen and Fan, ACM TOMS 16 (1990); Kaya, Langguth, Manne and Uçar, *Push-relabel based
    algorithms for the maximum transversal problem*, Computers & Operations Research 40 (2013);
    Azad, Halappanavar, Rajamanickam, Boman, Khan and Pothen, *Multithreaded algorithms for maximum
    matching in bipartite graphs*, IPDPS 2012 (`"p_dbfs"`, `"p_pfp"`, `"p_hk"`); Karp and Sipser,
    FOCS 1981.
    """
    check_graph(graph)
    check_name("method", method, _METHODS)
    check_name("init", init, _INITS)
    known = _OPTIONS.get(method, {})
    given = as_options(method, options, known, _CHOICES, _as_positive)
    if {("kernel", "gpubfs"), ("alternate", "roots")} <= {*given}:
        raise ValueError(
            "`options`: alternate='roots' needs kernel='gpubfs_wr', the one that knows the roots, "
            "got kernel='gpubfs'."
        )
    steps = 0 if steps_per_call is None else as_count("steps_per_call", steps_per_call)
    start = warm_start.col4row if isinstance(warm_start, Matching) else warm_start
    start = None if start is None else as_given("warm_start", start)
    init = "cheap" if init == "auto" and method != "auto" else init
    arrays = (graph.row_ptr, graph.col_ind, graph.col_ptr, graph.row_ind, start)
    place = place_of(*arrays, options=(graph.shape, method, init, given))
    solver = _METHODS[method].cpu
    if not place.native or solver is None:
        how: dict[str, Any] = {"method": method, "init": init, "given": given, "steps": steps}
        return _solve(graph, _as_start(start, graph), **how)
    solve = _native_solver("cpu", solver, init, given, 0)
    graph = jax.tree.map(np.asarray, graph)
    return place.bring_home(solve(graph, _as_start(start, graph, place)))


# ---------------------------------------------------------------------------------------------
# Arguments


def _as_positive(name: str, given: Any) -> float:
    if not (isinstance(given, numbers.Real) and 0 < float(given) < math.inf):
        raise ValueError(f"`{name}` must be a positive finite number, got {given!r}.")
    return float(given)


def _with_defaults(solver: str, given: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The options of a GPU solver."""
    options: dict[str, Any] = dict(_OPTIONS.get(solver, {}))
    for item in given:
        options |= _OPTIONS_BESIDE.get(item, {})
    return options | dict(given)


def _as_start(
    given: ArrayLike | None, graph: BipartiteGraph, place: Place = BY_JAX
) -> Int[Array, "... n"] | None:
    if given is None:
        return None
    if np.size(given) == 0 and not isinstance(given, jax.Array):
        given = np.asarray(given, np.int32)  # an empty list has no dtype to speak of
    must = "be a Matching or the column of each row as integers"
    start = typed("warm_start", given, INTEGERS, must, "")
    if start.dtype != np.int32:
        start = existing(start, graph.shape[1])  # JAX may cut what is wider than 32 bits
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


@compiled(static_argnames=("method", "init", "given", "steps"))
def _solve(
    graph: BipartiteGraph,
    start: Int[Array, "... n"] | None,
    *,
    method: str,
    init: str,
    given: tuple[tuple[str, Any], ...],
    steps: int,
) -> Matching:
    """The native solver where the platform has one, chosen at lowering; the twin elsewhere."""
    cpu, cuda = _METHODS[method]
    on_cpu = None if cpu is None else _native_solver("cpu", cpu, init, given, steps)
    on_cuda = None if cuda is None else _native_solver("cuda", cuda, init, given, steps)
    twin = partial(_xla_matching.solve, init=init, search=method != "init_only")
    if method == "flow":
        twin = solve_by_flow

    def solve(*problem: Any) -> Matching:
        return by_platform(twin, *problem, cpu=on_cpu, cuda=on_cuda)

    return over_batch_shards(solve, graph, start, core_dims=1)


def _native_solver(
    platform: Literal["cpu", "cuda"],
    solver: str,
    init: str,
    given: tuple[tuple[str, Any], ...],
    steps: int,
) -> Callable[..., Matching]:
    options = _with_defaults(solver, given) if platform == "cuda" else dict(given)
    how: dict[str, Any] = {"method": solver, "init": init, "options": options}
    how["platform"] = platform

    def in_one_call(graph: BipartiteGraph, start: Array | None) -> Matching:
        return native.matching(graph, start, steps=0, **how)[0]

    def in_steps(graph: BipartiteGraph, start: Array | None) -> Matching:
        return until_done(
            lambda state: native.matching(graph, start, state=state, steps=steps, **how),
            native.empty_matching_buffers(graph, start),
            lambda state: state.done,
        )

    return in_steps if platform == "cuda" and steps else in_one_call
