"""Assignment on sparse graphs: the public function, the choice of a method, the gradient rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bind
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.arguments import check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import envelope_value, is_constant, sum_where
from jaxmatch._common.result import Assignment
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import is_symbolic, require_sizes
from jaxmatch._ffi.dispatch import by_platform
from jaxmatch._ffi.place import place_of
from jaxmatch._matching.graph import check_graph
from jaxmatch._sparse_assignment import dense
from jaxmatch._sparse_assignment import xla as _xla_sparse
from jaxmatch._sparse_assignment.native import sparse_assignment
from jaxmatch._sparse_assignment.problem import (
    CARDINALITIES,
    SparseProblem,
    as_problem,
    check_options,
)


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Float, Int

    from jaxmatch._matching.graph import BipartiteGraph

    # A result, and the edge of each row's pair.
    Solution = tuple[Assignment, Int[Array, "... n"]]


@unchecked
def solve_sparse_assignment(
    graph: BipartiteGraph,
    cost: ArrayLike,
    *,
    maximize: bool = False,
    cardinality: Literal["full", "maximum"] = "full",
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    warm_start: Assignment | ArrayLike | None = None,
    method: str = "auto",
) -> Assignment:
    r"""Solve sparse assignment problems exactly, inside or outside of `jax.jit`.

    Finds pairs of least total cost among the edges of a bipartite graph, with each row and each
    column in at most one pair. All of the smaller side is matched, or as many pairs as possible, or
    what pays, see `cardinality` and `unmatched_cost`. Leading dimensions are batch, solved by one
    native call. No array has n·m entries, but for small problems on CUDA (see `method`).

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> graph, cost = jm.BipartiteGraph.from_edges_with_cost(
    ...     [0, 0, 1, 1, 2], [0, 1, 0, 2, 2], jnp.array([4.0, 1.0, 2.0, 5.0, 2.0]), shape=(3, 3)
    ... )
    >>> res = jax.jit(jm.solve_sparse_assignment)(graph, cost)
    >>> res.col4row, res.cost, int(res.status) == jm.Status.OPTIMAL
    (Array([1, 0, 2], dtype=int32), Array(5., dtype=float32), True)
    >>> jax.grad(lambda c: jm.solve_sparse_assignment(graph, c).cost)(cost)
    Array([0., 1., 1., 0., 1.], dtype=float32)
    >>> jm.solve_sparse_assignment(graph, cost, maximize=True, unmatched_cost=0).cost
    Array(9., dtype=float32)

    **Arguments:**

    - `graph`: a [`BipartiteGraph`][jaxmatch.BipartiteGraph], one for all problems or a batch of
      them (`BipartiteGraph.stack`). Padding is masked.
    - `cost`: `[..., e]` in bfloat16, float16, float32, float64, int32 or int64 (bool and 8- and
      16-bit integers are widened to int32): the cost of each edge, in the order of
      `graph.col_ind`. Entries of padding may be anything. +inf forbids a pair (−inf when
      maximising). Of parallel edges, which only graphs built by hand have, the best counts.
    - `maximize`: find the greatest total instead; all inequalities below are reversed.
    - `cardinality`: `"full"`: all of the smaller side must be matched. `"maximum"`: as many pairs
      as possible, of these matchings one of least cost; it always exists. For that leaving a row
      costs M, the smallest power of two ≥ (2 min(n, m) + 1)·max|C| (1 without costs; a score of −M
      when maximising), which `res.cost` excludes.
    - `unmatched_cost`: a scalar or an array that broadcasts to `[..., n]`: the cost of leaving a
      row unmatched (a score when maximising). Columns may then stay unmatched, too. +inf (−inf
      when maximising): the row must be matched. `maximize=True, unmatched_cost=0` finds a matching
      of greatest weight. Integers stay exact beside integer costs; else it is converted to the
      dtype of results. Not with `cardinality="maximum"`.
    - `unmatched_col_cost`: the same for columns, `[..., m]`, in addition to `unmatched_cost`; 0 by
      default.
    - `row_mask`, `col_mask`: bool, broadcast to `[..., n]` and `[..., m]`, any pattern. False: the
      row or column does not exist. The costs of its edges may be anything, even NaN.
    - `warm_start`: an earlier result or any column duals `[..., m]`. The optimum stays the same,
      ties may be broken differently. It helps where all rows and columns are matched; elsewhere a
      CPU starts cold, for non-finite duals all do, and the twin always. No gradient flows through
      it.
    - `method`: `"auto"` or `"xla"`, the pure-JAX twin for any platform. `"auto"` is a native solver
      on CPU and CUDA: bids, then shortest augmenting paths and global updates of prices, by one
      thread or by blocks of the GPU for each problem. On CUDA, problems with at most 128 rows and
      columns, in floats or, under `jax_enable_x64`, int32, without `unmatched_col_cost`, become
      dense, for the kernel of [`solve_assignment`][jaxmatch.solve_assignment]. Elsewhere it is the
      twin.

    **Returns:**

    An [`Assignment`][jaxmatch.Assignment]. Its numbers are float32, or float64 under
    `jax_enable_x64`, for any dtype of `cost`; indices and status are int32. For NumPy's float64 and
    int64 (as constants inside `jit`, too) they are float64 even without x64. On the CPU, outside of
    a trace, NumPy arguments give NumPy results, and nothing is traced or compiled.

    **Status:** `OPTIMAL`; `INFEASIBLE` if what must be matched cannot be; `INVALID_COST` if a cost
    of unmasked vertices or an unmatched cost is NaN or infinite on the wrong side; `OVERFLOW` for
    integers if 2 (min(n, m) + 1)·max|C| exceeds 2^61 (unmatched costs are included in C; with
    `unmatched_col_cost`, C is their differences, and with infinite ones 4 (min(n, m) + 1) times
    that) or M exceeds 2^57, on CUDA also for lesser ones if updates of prices would add up to 2^60;
    `INVALID_GRAPH` if `row_ptr` and `col_ind` are inconsistent (on CUDA also `col_ptr` and
    `row_ind`). No exception is raised: that problem has indices −1 and numbers NaN, and the rest of
    the batch is unaffected.

    **Certificate:** for unmasked vertices u_i + v_j ≤ C_ij on edges, with equality on pairs. A row
    that may stay unmatched has u_i ≤ r_i, with equality if it does; r_i is its unmatched cost, M
    with `cardinality="maximum"`, or 0 if there are more rows than columns. Likewise v_j ≤ s_j for
    columns that may stay, where s_j is 0 without `unmatched_col_cost`. Σu + Σv is the optimum (for
    `"maximum"` with M for each row that stays).
    [`check_sparse_assignment`][jaxmatch.check_sparse_assignment] verifies it.

    **Exact:** integers are. The costs of a problem of floats are put on one grid of a power of two,
    fine enough not to round costs whose digits span up to about 50 bits, less with many rows. `gap`
    is a proved bound on cost − optimum, 0 if nothing was rounded. The twin is exact for integers up
    to about 2^22/(n + m) (2^51/(n + m) under x64), with M counted as a cost, and bounds its
    roundings by `gap`.

    **Deterministic:** the same call gives the same bits, whatever the rest of the batch. Another
    platform may break ties differently.

    **Gradient:** of `res.cost`, forward and reverse: 1 for the edges of pairs with respect to
    `cost`, and 1 for what stays unmatched with respect to the unmatched costs. Second derivatives
    are zero, and so are all gradients of a problem that is not `OPTIMAL`. If several matchings are
    optimal, this is one of several supergradients.

    **Time and memory:** O(k·e·log n) operations at worst for a matching of k pairs, in practice a
    small multiple of e; O(n + m + e) memory. The twin makes a pass over all edges for each level of
    a search, which is slow beyond some thousand edges.

    **Raises:** `TypeError` if `graph` is not a `BipartiteGraph`, and for other dtypes; `ValueError`
    for shapes that do not fit, unknown methods and cardinalities, options that exclude each other,
    and integers that JAX would truncate to 32 bits.

    **Source:** Jonker and Volgenant, *A shortest augmenting path algorithm for dense and sparse
    linear assignment problems*, Computing 38 (1987). Bertsekas, *The auction algorithm: a
    distributed relaxation method for the assignment problem*, Annals of Operations Research 14
    (1988). Goldberg and Kennedy, *Global price updates help*, SIAM J. Discrete Math. 10 (1997).
    """
    check_name("method", method, METHODS)
    check_name("cardinality", cardinality, CARDINALITIES)
    check_options(cardinality, unmatched_cost, unmatched_col_cost)
    check_graph(graph)
    cost = as_given("cost", cost)
    duals: Any = getattr(warm_start, "col_dual", warm_start)
    given = all_given(
        row_mask=row_mask,
        col_mask=col_mask,
        unmatched_cost=unmatched_cost,
        unmatched_col_cost=unmatched_col_cost,
        warm_start=duals,
    )
    maximize = bool(maximize)
    options = ("sparse", graph.shape, maximize, cardinality, method)
    place = place_of(cost, *given, *jax.tree.leaves(graph), options=options)
    if method == "xla":
        place = place.by_jax()
    with place.precision():
        if method == "xla":
            require_sizes(
                "graph", (*graph.shape, graph.max_edges), "pad to it (`BipartiteGraph.stack` does)"
            )
        graph, problem = as_problem(graph, cost, *given, place=place)
        if place.native:
            res, _ = _native(
                graph, problem, maximize=maximize, cardinality=cardinality, platform="cpu"
            )
        else:
            res = _solve(graph, problem, maximize=maximize, cardinality=cardinality, method=method)
        return place.bring_home(res)


@compiled(static_argnames=("maximize", "cardinality", "method"))
def _solve(
    graph: BipartiteGraph,
    problem: SparseProblem,
    *,
    maximize: bool,
    cardinality: str,
    method: str,
) -> Assignment:
    def solve(problem: SparseProblem, graph: BipartiteGraph) -> Assignment:
        res, edge = METHODS[method](
            graph, lax.stop_gradient(problem), maximize=maximize, cardinality=cardinality
        )
        return res.replace(cost=envelope_value(res.cost, problem, (res, edge), _value_jvp))

    if graph.batch_shape:
        return over_batch_shards(solve, problem, graph, core_dims=1)
    return over_batch_shards(solve, problem, core_dims=1, shared=(graph,))


def _native(
    graph: BipartiteGraph,
    problem: SparseProblem,
    *,
    maximize: bool,
    cardinality: str,
    platform: Literal["cpu", "cuda"],
) -> Solution:
    cost, *others = problem
    optional = dict(zip(problem._fields[1:], others, strict=True))
    res, edge, _ = sparse_assignment(
        graph, cost, **optional, maximize=maximize, cardinality=cardinality, platform=platform
    )
    return res, edge


def _auto(
    graph: BipartiteGraph, problem: SparseProblem, *, maximize: bool, cardinality: str
) -> Solution:
    """The native solver, on CUDA that of dense problems if they are small; else the twin."""
    options: dict[str, Any] = {"maximize": maximize, "cardinality": cardinality}
    cuda, sizes = bind(_native, **options, platform="cuda"), (*graph.shape, graph.max_edges)
    if not is_symbolic(sizes) and dense.fits(graph, problem):
        cuda = bind(dense.solve, **options, platform="cuda")
    cpu = bind(_native, **options, platform="cpu")
    return by_platform(bind(_twin, **options), graph, problem, cpu=cpu, cuda=cuda, sizes=sizes)


def _twin(
    graph: BipartiteGraph, problem: SparseProblem, *, maximize: bool, cardinality: str
) -> Solution:
    solve = bind(_xla_sparse.solve, maximize=maximize, cardinality=cardinality)
    of_graph = 0 if graph.batch_shape else None
    for _ in problem.cost.shape[:-1]:
        solve = jax.vmap(solve, in_axes=(of_graph, 0))
    return solve(graph, problem)


METHODS: dict[str, Callable[..., Solution]] = {"auto": _auto, "xla": _twin}


def _value_jvp(
    problem: SparseProblem, tangents: SparseProblem, solution: Solution
) -> Float[Array, "..."]:
    res, edge = solution
    solved = (res.status == Status.OPTIMAL)[..., None]
    dot = jnp.zeros_like(res.cost)
    if not is_constant(tangents.cost) and problem.cost.shape[-1]:
        of_pairs = jnp.take_along_axis(tangents.cost, jnp.maximum(edge, 0), axis=-1)
        dot += sum_where(solved & (edge >= 0), of_pairs.astype(dot.dtype))
    for tangent, pairs, mask in (
        (tangents.unmatched_cost, res.col4row, problem.row_mask),
        (tangents.unmatched_col_cost, res.row4col, problem.col_mask),
    ):
        if tangent is not None and not is_constant(tangent):
            alone = solved & (pairs < 0)
            alone = alone if mask is None else alone & mask
            dot += sum_where(alone, tangent.astype(dot.dtype))
    return dot
