"""Transport on the edges of a graph: the public function."""

from __future__ import annotations

import jax

from jaxmatch._common.arguments import check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.place import place_of
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import ArrayLike
from jaxmatch._matching.graph import BipartiteGraph, check_graph
from jaxmatch._min_cost_flow import native
from jaxmatch._min_cost_flow.methods import METHODS
from jaxmatch._min_cost_flow.solve import with_gradient
from jaxmatch._sparse_transport.network import as_network, as_result
from jaxmatch._sparse_transport.problem import SparseTransportProblem, as_problem, start_of
from jaxmatch._sparse_transport.result import SparseTransport
from jaxmatch._transport.problem import exclude_each_other


@unchecked
def solve_sparse_transport(
    graph: BipartiteGraph,
    cost: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    *,
    limit: ArrayLike | None = None,
    partial: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    warm_start: SparseTransport | ArrayLike | None = None,
    method: str = "auto",
) -> SparseTransport:
    """Solve optimal transport on the edges of a graph exactly, inside or outside of `jax.jit`.

    Moves the supply of the rows to the demand of the columns along edges at the least total cost,
    at most `limit` along each. Leading dimensions are batch, solved by one native call.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> graph = jm.BipartiteGraph.from_edges([0, 0, 1, 1, 2], [0, 1, 0, 2, 2], shape=(3, 3))
    >>> cost, two = jnp.array([4.0, 1.0, 2.0, 5.0, 3.0]), jnp.array([2, 2, 2])
    >>> res = jm.solve_sparse_transport(graph, cost, two, two)
    >>> res.mass, res.cost
    (Array([0, 2, 2, 0, 2], dtype=int32), Array(12., dtype=float32))

    A b-matching has a limit of 1; supply and demand say how often a row or column is matched at
    most. `partial` is the number of pairs, or a large `unmatched_cost` makes as many as possible:

    >>> best = jm.solve_sparse_transport(graph, cost, two, two, limit=1, unmatched_cost=99.0)
    >>> best.mass, jm.solve_sparse_transport(graph, cost, two, two, limit=1, partial=2).mass
    (Array([1, 1, 1, 1, 1], dtype=int32), Array([0, 1, 1, 0, 0], dtype=int32))

    **Arguments:**

    - `graph`: a [`BipartiteGraph`][jaxmatch.BipartiteGraph], one for all problems or a batch.
    - `cost`: `[..., e]`, bfloat16 to float64, int32 or int64, in the order of `graph.col_ind`. +inf
      forbids a pair.
    - `supply`, `demand`: `[..., n]` and `[..., m]`, not negative. Sums must agree as in
      [`minimum_cost_flow`][jaxmatch.minimum_cost_flow]; what is too much by rounding stays.
    - `limit`: broadcasts to `[..., e]`; +inf, or the largest number of int32 or int64, is none.
    - `partial`, `unmatched_cost`: as in [`solve_transport`][jaxmatch.solve_transport], but with
      more than the lesser sum as `partial` there is no plan: `INFEASIBLE`.
    - `warm_start`: an earlier result, or column duals `[..., m]`, from which the search may begin.
    - `method`: `"auto"`, `"network_simplex"`, `"cost_scaling"` or `"xla"`, see
      [Methods][min-cost-flow-methods].

    **Returns:** a [`SparseTransport`][jaxmatch.SparseTransport], verified by
    [`check_sparse_transport`][jaxmatch.check_sparse_transport].

    **Status:** `OPTIMAL`, `INFEASIBLE`, `UNBALANCED` (`gap` is the difference), `INVALID_GRAPH`,
    `INVALID_COST`, `INVALID_CAPACITY` (a limit), `INVALID_MASS`, `OVERFLOW`; see [statuses][].

    **Gradient:** of `res.cost`: the masses (for costs), the supply that stays (for
    `unmatched_cost`), duals (for masses), and reduced costs (for limits, where negative).

    **Raises:** as `solve_transport`.
    """
    check_name("method", method, METHODS)
    exclude_each_other(partial, unmatched_cost)
    check_graph(graph)
    cost = as_given("cost", cost)
    given = all_given(
        supply=supply, demand=demand, limit=limit, partial=partial, unmatched_cost=unmatched_cost
    )
    of = start_of(warm_start)
    start = all_given(mass=of[0], row_dual=of[1], warm_start=of[2])
    solver = METHODS[method].cpu
    place = place_of(
        *(cost, *given, *start, *jax.tree.leaves(graph)),
        options=("sparse_transport", method),
        native=solver is not None,
    )
    with place.precision():
        if method == "xla":
            sizes = (*graph.shape, graph.max_edges)
            require_sizes("graph", sizes, "pad to it (`BipartiteGraph.stack` does)")
        graph, problem = as_problem(graph, cost, *given, start=start, place=place)
        if place.native and solver is not None:
            network = as_network(graph, problem, place.xp)
            res = native.minimum_cost_flow(*network[:2], method=solver, platform="cpu")
            res = as_result(res, problem, network, place.xp)
        else:
            res = _solve(graph, problem, method=method)
        return place.bring_home(res)


@compiled(static_argnames="method")
def _solve(
    graph: BipartiteGraph, problem: SparseTransportProblem, *, method: str
) -> SparseTransport:
    def solve(problem: SparseTransportProblem, graph: BipartiteGraph) -> SparseTransport:
        network = as_network(graph, problem, jax.numpy)
        res = with_gradient(*network[:2], method=method)
        return as_result(res, problem, network, jax.numpy)

    if graph.batch_shape:
        return over_batch_shards(solve, problem, graph, core_dims=1)
    return over_batch_shards(solve, problem, core_dims=1, shared=(graph,))
