"""Assignment on sparse graphs: the public function, the choice of a method, and the gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bind
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jaxmatch._common.arguments import check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import apart, envelope_value, is_constant, sum_where
from jaxmatch._common.place import place_of
from jaxmatch._common.result import Assignment, Matching
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch._ffi.dispatch import by_platform
from jaxmatch._matching.graph import BipartiteGraph, check_graph
from jaxmatch._matching.solve import solve_by_platform, solve_on_host
from jaxmatch._sparse_assignment import dense, large_numbers
from jaxmatch._sparse_assignment import xla as _xla_sparse
from jaxmatch._sparse_assignment.maximum import Solution, solve_maximum
from jaxmatch._sparse_assignment.native import sparse_assignment
from jaxmatch._sparse_assignment.problem import (
    CARDINALITIES,
    SparseProblem,
    as_problem,
    check_options,
)


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
    """Solve sparse assignment problems exactly, inside or outside of `jax.jit`.

    Finds pairs of least total cost among the edges of a bipartite graph, such that each row and
    each column is in at most one pair. Leading dimensions are batch, solved by one native call.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> graph, cost = jm.BipartiteGraph.from_edges_with_cost(
    ...     [0, 0, 1, 1, 2], [0, 1, 0, 2, 2], jnp.array([4.0, 1.0, 2.0, 5.0, 2.0]), shape=(3, 3)
    ... )
    >>> res = jax.jit(jm.solve_sparse_assignment)(graph, cost)
    >>> res.col4row, res.cost, int(res.status) == jm.Status.OPTIMAL
    (Array([1, 0, 2], dtype=int32), Array(5., dtype=float32), True)
    >>> jm.solve_sparse_assignment(graph, cost, maximize=True, unmatched_cost=0).cost
    Array(9., dtype=float32)

    **Arguments:**

    - `graph`: a [`BipartiteGraph`][jaxmatch.BipartiteGraph], one for all problems or a batch of
      them (`BipartiteGraph.stack`). Padding is masked.
    - `cost`: `[..., e]`, bfloat16 to float64, int32 or int64, in the order of `graph.col_ind`. +inf
      forbids a pair. Of parallel edges only the best counts.
    - `maximize`: find the greatest total; −inf then forbids a pair, and inequalities of duals are
      reversed.
    - `cardinality`: with `"full"` all of the smaller side must be matched. With `"maximum"` the
      result is the cheapest of the matchings with most pairs, see [Methods][sparse-methods].
    - `unmatched_cost`: broadcasts to `[..., n]`, the cost of leaving a row unmatched. Columns may
      then stay unmatched too. +inf: the row must be matched.
    - `unmatched_col_cost`: the same for columns, only together with `unmatched_cost`; 0 by default.
    - `row_mask`, `col_mask`: bool. False: the row or column does not exist.
    - `warm_start`: an earlier result, or column duals `[..., m]`, from which the search may begin.
    - `method`: `"auto"` or `"xla"`, the pure-JAX twin.

    **Returns:** an [`Assignment`][jaxmatch.Assignment], verified by `check_sparse_assignment`.

    **Status:** `OPTIMAL`, `INFEASIBLE`, `INVALID_COST`, `INVALID_GRAPH`, `OVERFLOW`; see
    [statuses][].

    **Gradient:** of `res.cost`: 1 for costs of pairs, and for the unmatched costs of unmatched
    vertices.

    **Raises:** `TypeError` for other types, `ValueError` for shapes that do not fit and options
    that exclude each other.

    **Source:** Jonker and Volgenant, Computing 38 (1987); more in [Papers][papers-sparse].
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
    place = place_of(cost, *given, *jax.tree.leaves(graph), options=options, native=method != "xla")
    with place.precision():
        if method == "xla":
            require_sizes(
                "graph", (*graph.shape, graph.max_edges), "pad to it (`BipartiteGraph.stack` does)"
            )
        graph, problem = as_problem(graph, cost, *given, place=place)
        if place.native:
            on_host = bind(_native, maximize=maximize, platform="cpu")
            res, _ = _of_cardinality(
                cardinality, on_host, solve_on_host, graph, problem, maximize=maximize
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
        res, edge = apart(
            bind(
                _of_cardinality,
                cardinality,
                bind(METHODS[method], maximize=maximize),
                bind(solve_by_platform, start=None, method=method),
                maximize=maximize,
            )
        )(graph, problem)
        return res.replace(cost=envelope_value(res.cost, problem, (res, edge), _value_jvp))

    if graph.batch_shape:
        return over_batch_shards(solve, problem, graph, core_dims=1)
    return over_batch_shards(solve, problem, core_dims=1, shared=(graph,))


def _of_cardinality(
    cardinality: str,
    solve: Callable[[BipartiteGraph, SparseProblem], Solution],
    match: Callable[[BipartiteGraph], Matching],
    graph: BipartiteGraph,
    problem: SparseProblem,
    *,
    maximize: bool,
) -> Solution:
    if cardinality == "full":
        return solve(graph, problem)
    return solve_maximum(solve, match, graph, problem, maximize=maximize)


def _native(
    graph: BipartiteGraph,
    problem: SparseProblem,
    *,
    maximize: bool,
    platform: Literal["cpu", "cuda"],
) -> Solution:
    cost, *others = problem
    optional: dict[str, Any] = dict(zip(problem._fields[1:], others, strict=True))
    res, edge, _ = sparse_assignment(graph, cost, **optional, maximize=maximize, platform=platform)
    return res, edge


def _auto(graph: BipartiteGraph, problem: SparseProblem, *, maximize: bool) -> Solution:
    """Calls a native solver (on CUDA the dense one for small problems), or the pure-JAX twin."""
    sizes = (*graph.shape, graph.max_edges)
    cpu = bind(_native, maximize=maximize, platform="cpu")
    cuda, twin = (bind(x, maximize=maximize) for x in (_cuda, _twin))
    return by_platform(twin, graph, problem, cpu=cpu, cuda=cuda, sizes=sizes)


def _cuda(graph: BipartiteGraph, problem: SparseProblem, *, maximize: bool) -> Solution:
    one = dense.solve if dense.fits(graph, problem) else _native
    solve = bind(one, maximize=maximize, platform="cuda")
    return large_numbers.solve_without_large_numbers(solve, graph, problem, maximize=maximize)


def _twin(graph: BipartiteGraph, problem: SparseProblem, *, maximize: bool) -> Solution:
    def solve(limit: Array | None = None) -> Solution:
        one: Any = bind(_xla_sparse.solve, maximize=maximize)
        axes = (0 if graph.batch_shape else None, 0, None if limit is None else 0)
        for _ in problem.cost.shape[:-1]:
            one = jax.vmap(one, in_axes=axes)
        return one(graph, problem, limit)

    # If all costs are floats, or all are short integers, no limits are needed: a shortest path uses
    # a huge cost only where no solution avoids it.
    if not large_numbers.has_rounded_integers(problem):
        return solve()
    return large_numbers.solve_below(solve, graph, problem, maximize=maximize)


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
