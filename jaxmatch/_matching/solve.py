"""Maximum bipartite matching: the public function, methods and dispatch."""

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
# The values of options that are not numbers.
_CHOICES = {
    "variant": ("first", "active", "shrink"),
    "relabel": ("adaptive", "fixed"),
    "kernel": ("gpubfs", "gpubfs_wr"),
    "threads": ("ct", "mt"),
    "alternate": ("paths", "roots"),
}
# The options of GPU solvers and their defaults, the best of the papers.
_OPTIONS = {
    "push_relabel": {"variant": "shrink", "relabel": "adaptive", "k": 0.7},
    "apsb": {"kernel": "gpubfs_wr", "threads": "ct", "alternate": "roots"},
    "apfb": {"kernel": "gpubfs_wr", "threads": "ct", "alternate": "paths"},
}
# Defaults that depend on another option.
_DEPENDENT_DEFAULTS = {
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

    Finds as many edges as possible such that no two share a row or a column, and proves the
    maximum. Leading dimensions are batch, solved by one native call.

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
    - `method`: `"auto"`, or a name of the table below. Every name is accepted on every platform;
      without a kernel for it, a related one runs, or the pure-JAX twin.
    - `init`: the initial matching. `"none"`; `"cheap"`: each row takes a free column;
      `"karp_sipser"`: vertices with a single free neighbour first; `"auto"`: `"cheap"` for the
      named methods, and the fastest one measured for method `"auto"`.
    - `warm_start`: an earlier [`Matching`][jaxmatch.Matching], or the column of each row, integers
      that broadcast to `[..., n]`. Pairs that are edges of the graph are kept; of several rows with
      the same column, the first. Any other number (−1 by convention) leaves a row free. `init`
      continues from there. The cardinality stays the same; a better start saves time.
    - `options`: a dict for the GPU kernels of one method, see below. On other platforms options are
      accepted, and ignored if they have no meaning there.
    - `steps_per_call`: on CUDA, the number of steps in each native call, in a
      `jax.lax.while_loop`. By default one call takes all steps.
      [`jaxmatch.stepping`][jaxmatch.stepping] defines a step. On the CPU and in the twin the solve
      is always one call.

    **Methods:**

    | `method` | CPU (C++) | CUDA |
    | --- | --- | --- |
    | `"auto"` | the fastest combination found, with threads | the fastest combination found |
    | `"hopcroft_karp"` | shortest paths, phase by phase | `"apsb"` |
    | `"hkdw"` | as before, then from all free columns (Duff, Wiberg) | `"apfb"` |
    | `"pothen_fan"` | depth-first with lookahead and fairness | the twin |
    | `"push_relabel"` | FIFO, with global relabelling | G-PR |
    | `"p_dbfs"` | disjoint breadth-first searches, threads | `"auto"` |
    | `"p_pfp"` | Pothen and Fan, threads | the twin |
    | `"p_hk"` | Hopcroft and Karp, threads | `"apsb"` |
    | `"apsb"` | `"hopcroft_karp"` | breadth-first search, to the first level with a free column |
    | `"apfb"` | `"hkdw"` | breadth-first search, to the last level |
    | `"init_only"` | only the matching of `init` | only the matching of `init` |
    | `"flow"` | [`maximum_flow`][jaxmatch.maximum_flow] with unit capacities | the same |
    | `"xla"` | the pure-JAX twin | the twin |

    `"auto"` on CUDA: graphs whose state fits one multiprocessor (about 1700 vertices per side) have
    one block each, all in one launch, if they have up to 1024 vertices or come in a batch. Larger
    ones, and batches of all other methods, are solved one at a time by the whole GPU: a greedy
    matching from low degrees on, short paths by pushes, then disjoint search trees from all free
    vertices of the side with fewer, alternating with push-relabel where trees block each other. On
    the CPU: a search from each free row up to a growing bound, then search forests, finally
    Hopcroft-Karp.

    `"flow"` ignores `init`, `warm_start` and `steps_per_call`. It takes graphs with fewer than 2^30
    edges, rows and columns in total.

    **Options:** of `"push_relabel"`:

    - `variant`: the paper's three versions: `"first"` (one thread per vertex), `"active"` (a list
      of active vertices), `"shrink"` (a shrinking list; the default).
    - `relabel`: global relabelling every `k` times the deepest level, `"adaptive"` (the default),
      or every `k` rounds, `"fixed"`.
    - `k`: by default 0.7, and 10 with `"fixed"`. The CPU relabels every k·(n + m) pushes, by
      default and with `"fixed"` with k = 0.5.

    Of `"apsb"` and `"apfb"`:

    - `kernel`: `"gpubfs"`, or `"gpubfs_wr"` (the default), which stores the root of each tree and
      stops a tree once it has found its path.
    - `threads`: `"ct"`, a constant number (the default), or `"mt"`, one per vertex.
    - `alternate`: along all `"paths"` found, or along one path per root, `"roots"`. The latter
      needs `"gpubfs_wr"` and is then the default of `"apsb"`.

    **Returns:**

    A [`Matching`][jaxmatch.Matching] of int32 and bool arrays.

    **Status:** `OPTIMAL`. `UNFINISHED` for method `"init_only"`, whose matching is not proved to be
    maximum; all entries of the covers are then False. `INVALID_GRAPH` if the arrays of the graph
    are inconsistent: pointers that decrease, do not begin at 0 or exceed the edges, indices out of
    range, or different numbers of edges by row and by column. Indices and cardinality are then −1,
    covers False. No exception is raised, and the rest of the batch is unaffected. No array is read
    out of bounds. The two directions are not compared edge by edge: if they differ, status and
    pairs are unspecified.

    **Certificate:** `row_cover` and `col_cover` contain `cardinality` vertices in total and cover
    every edge, so no matching has more pairs (Kőnig's theorem).
    [`check_matching`][jaxmatch.check_matching] verifies this.

    **Deterministic:** cardinality and status, except for method `"init_only"` on CUDA, where
    threads race for the initial matching. A graph can have many maximum matchings and covers.
    `"xla"` and the single-threaded CPU methods (`"hopcroft_karp"`, `"hkdw"`, `"pothen_fan"`,
    `"push_relabel"`, `"init_only"`) always return the same one. GPU kernels and CPU methods with
    threads (including `"auto"` on large graphs) may return any.

    **Gradient:** none flows through the result. The costs of chosen pairs are a gather,
    `cost[i, res.col4row[i]]`, with its own gradient.

    **Time and memory:** at worst O(√n·e) operations for `"auto"`, `"hopcroft_karp"` and `"hkdw"` on
    the CPU, O(n·e) for the others, in practice a few passes over the edges. O(n + m) memory besides
    the graph, on CUDA O(n + m + e). The twin makes a pass over all edges for each search level,
    which is slow for long augmenting paths.

    **Raises:** `TypeError` if `graph` is not a `BipartiteGraph`, its arrays are not int32,
    `warm_start` is not of integers or `options` is not a dict; `ValueError` for shapes that do not
    fit, and for unknown methods, inits and options.

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
    checked = as_options(method, options, known, _CHOICES, _as_positive)
    if {("kernel", "gpubfs"), ("alternate", "roots")} <= {*checked}:
        raise ValueError(
            "`options`: alternate='roots' needs kernel='gpubfs_wr', the one that knows the roots, "
            "got kernel='gpubfs'."
        )
    steps = 0 if steps_per_call is None else as_count("steps_per_call", steps_per_call)
    start = warm_start.col4row if isinstance(warm_start, Matching) else warm_start
    start = None if start is None else as_given("warm_start", start)
    init = "cheap" if init == "auto" and method != "auto" else init
    arrays = (graph.row_ptr, graph.col_ind, graph.col_ptr, graph.row_ind, start)
    place = place_of(*arrays, options=(graph.shape, method, init, checked))
    solver = _METHODS[method].cpu
    if not place.native or solver is None:
        return _solve(
            graph,
            _as_start(start, graph),
            method=method,
            init=init,
            options=checked,
            steps=steps,
        )
    solve = _native_solver("cpu", solver, init, checked, 0)
    graph = jax.tree.map(np.asarray, graph)
    return place.bring_home(solve(graph, _as_start(start, graph, place)))


# ---------------------------------------------------------------------------------------------
# Arguments


def _as_positive(name: str, x: Any) -> float:
    if not (isinstance(x, numbers.Real) and 0 < float(x) < math.inf):
        raise ValueError(f"`{name}` must be a positive finite number, got {x!r}.")
    return float(x)


def _with_defaults(solver: str, options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The options of a GPU solver, with defaults for those that are not given."""
    defaults: dict[str, Any] = dict(_OPTIONS.get(solver, {}))
    for item in options:
        defaults |= _DEPENDENT_DEFAULTS.get(item, {})
    return defaults | dict(options)


def _as_start(
    warm_start: ArrayLike | None, graph: BipartiteGraph, place: Place = BY_JAX
) -> Int[Array, "... n"] | None:
    if warm_start is None:
        return None
    if np.size(warm_start) == 0 and not isinstance(warm_start, jax.Array):
        warm_start = np.asarray(warm_start, np.int32)  # NumPy makes floats of an empty list
    must = "be a Matching or the column of each row as integers"
    start = typed("warm_start", warm_start, INTEGERS, must, "")
    if start.dtype != np.int32:
        start = existing(start, graph.shape[1])  # before JAX may truncate 64 bits
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
    """The native solver if the platform has one, chosen at lowering; else the twin."""
    cpu, cuda = _METHODS[method]
    on_cpu = None if cpu is None else _native_solver("cpu", cpu, init, options, steps)
    on_cuda = None if cuda is None else _native_solver("cuda", cuda, init, options, steps)
    twin = partial(_xla_matching.solve, init=init, search=method != "init_only")
    if method == "flow":
        twin = solve_by_flow

    def solve(*problem: Any) -> Matching:
        sizes = (*graph.shape, graph.max_edges)
        return by_platform(twin, *problem, cpu=on_cpu, cuda=on_cuda, sizes=sizes)

    return over_batch_shards(solve, graph, start, core_dims=1)


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
        options=_with_defaults(solver, options) if platform == "cuda" else dict(options),
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
