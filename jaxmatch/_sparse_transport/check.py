"""`check_sparse_transport`: verifies a plan on edges by its duals.

It shares no code with the solvers, so a wrong result passes only if check and solver make the same
error. A plan is read as a flow from rows to columns, and the arithmetic is that of
`check_minimum_cost_flow`. Mass that stays flows along extra edges, which are not in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial as bind
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.arguments import as_result
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.proof import add_at, module_of, over_problems, proof_float
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Int, Num
from jaxmatch._flow.check import require_kind
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._min_cost_flow.check import proved
from jaxmatch._min_cost_flow.check_flow import CheckEdges
from jaxmatch._min_cost_flow.problem import MinCostProblem, forgiven_to
from jaxmatch._min_cost_flow.result import MinimumCostFlow
from jaxmatch._sparse_assignment.check_edges import existing_edges
from jaxmatch._sparse_transport.problem import SparseTransportProblem, as_problem, settled
from jaxmatch._sparse_transport.result import SparseTransport, SparseTransportCheck
from jaxmatch._transport.problem import exclude_each_other


@unchecked
@in_full_precision("cost", "supply", "demand", "limit", "partial", "unmatched_cost", on_host=True)
def check_sparse_transport(
    graph: BipartiteGraph,
    cost: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    result: SparseTransport,
    *,
    limit: ArrayLike | None = None,
    partial: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
) -> SparseTransportCheck:
    """Verify a result of `solve_sparse_transport`, in jit or out of it.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> graph = jm.BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1], shape=(2, 2))
    >>> cost, supply, demand = jnp.array([0, 2, 1, 0]), jnp.array([3, 1]), jnp.array([2, 2])
    >>> res = jm.solve_sparse_transport(graph, cost, supply, demand)
    >>> check = jm.check_sparse_transport(graph, cost, supply, demand, res)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, True, 0.0)
    >>> other = res.replace(mass=jnp.array([1, 2, 1, 0]))  # costs 5 instead of 2
    >>> check = jm.check_sparse_transport(graph, cost, supply, demand, other)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, False, 3.0)
    >>> res = jm.solve_sparse_transport(graph, cost, supply, demand, limit=1)
    >>> bool(jm.check_sparse_transport(graph, cost, supply, demand, res, limit=1).infeasible)
    True

    **Arguments:**

    - `graph` to `demand`, and options: as they were passed to the solver.
    - `result`: of any solver. `mass`, `row_dual`, `col_dual`, `row_side` and `col_side` are read.

    **Returns:** a [`SparseTransportCheck`][jaxmatch.SparseTransportCheck].

    - `valid`: the numbers of the problem make sense, the mass of each edge is from 0 to its limit,
      and 0 on forbidden edges and padding. All supply and all demand moves, or with `partial` or
      `unmatched_cost` at most the supply of each row and the demand of each column.
    - `optimal`: the plan is `valid`, and `gap` is no larger than the rounding of costs and duals
      can explain. This proves it optimal; see [Checks][check-min-cost-flow].
    - `gap`: a bound on cost − optimum that the duals prove; +inf where they prove none.
    - `infeasible`: the supplies of `row_side` exceed what `col_side` demands and other edges carry.

    **Exact:** the bound holds for the numbers passed in, and all its terms are rounded upwards, so
    a gap of 0 is exact. Masses of integers are verified exactly; floats have the tolerances of
    [Checks][check-min-cost-flow].

    **Time and memory:** a few passes over the edges, and temporary arrays of their number.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for dtypes that do not.
    """
    exclude_each_other(partial, unmatched_cost)
    place = current_place()
    given = (cost, supply, demand, limit, partial, unmatched_cost)
    graph, problem = as_problem(graph, *given, place=place)
    batch, (n, m), e = problem.cost.shape[:-1], graph.shape, graph.max_edges
    shapes = {"mass": (*batch, e), "row_dual": (*batch, n), "col_dual": (*batch, m)}
    shapes |= {"row_side": (*batch, n), "col_side": (*batch, m)}
    beside, advice = "`graph` and the other arguments", "`solve_sparse_transport` returns one"
    result = as_result(result, SparseTransport, shapes, beside, advice, place=place)
    is_float = jnp.issubdtype(problem.supply.dtype, jnp.floating)
    require_kind("result.mass", result.mass, "supply", is_float)
    if place.native:
        return _check_batch(graph, problem, result)
    problem, result = lax.stop_gradient((problem, result))
    return _check(graph, problem, result)


@compiled()
def _check(
    graph: BipartiteGraph, problem: SparseTransportProblem, result: SparseTransport
) -> SparseTransportCheck:
    def check(
        problem: SparseTransportProblem, result: SparseTransport, graph: BipartiteGraph
    ) -> SparseTransportCheck:
        return _check_batch(graph, problem, result)

    if graph.batch_shape:
        return over_batch_shards(apart(check), problem, result, graph, core_dims=1)
    return over_batch_shards(apart(check), problem, result, core_dims=1, shared=(graph,))


def _check_batch(
    graph: BipartiteGraph, problem: SparseTransportProblem, result: SparseTransport
) -> SparseTransportCheck:
    masses = sum(graph.shape), problem.supply.dtype, problem.origin
    one: Any = bind(check_one, tolerance=forgiven_to(*masses))
    batch = problem.cost.shape[:-1]
    problem = settled(problem, module_of(problem.supply))._replace(origin=None)
    if graph.batch_shape:
        return over_problems(one, batch, graph, problem, result)
    return over_problems(bind(one, graph), batch, problem, result)


class _Edges(NamedTuple):
    """Some edges of one problem, and the flow along them."""

    tail: Int[Array, " k"]
    head: Int[Array, " k"]
    capacity: Num[Array, " k"]
    lower: Num[Array, " k"]
    cost: Num[Array, " k"]
    flow: Num[Array, " k"]


def check_one(
    graph: BipartiteGraph,
    problem: SparseTransportProblem,
    result: SparseTransport,
    *,
    tolerance: float,
    rounded: bool = False,
) -> SparseTransportCheck:
    """Checks one problem, which must be `settled`. `rounded`: see `proved`."""
    (n, m), xp = graph.shape, module_of(problem.supply)
    if xp is jnp:
        problem = jax.lax.optimization_barrier(problem)  # XLA would fold large constants
    supply, demand, moved = problem.supply, problem.demand, problem.moved
    sane, row, col, exists = existing_edges(graph, xp.ones((n,), bool), xp.ones((m,), bool))
    for x in (supply, demand, moved):
        sane = sane if x is None else sane & _are_masses(x)

    mass, beyond = result.mass[: row.size], result.mass[row.size :]
    limit = _no_limit(mass, supply.dtype) if problem.limit is None else problem.limit[: row.size]
    cost = problem.cost[: row.size]
    limit, cost = (xp.where(exists, x, xp.zeros_like(x)) for x in (limit, cost))
    edges = [_Edges(row, n + col, limit, xp.zeros_like(limit), cost, mass)]
    one = xp.zeros_like(supply, shape=(1,))
    net, last = [supply, -demand], []
    if problem.unmatched_cost is not None:
        edges += _edges_of_root(problem, edges[0])
        net, last = [xp.zeros_like(supply), xp.zeros_like(demand), one], [False]
    elif moved is not None:
        edges += _edges_of_ends(problem, edges[0])
        net = [xp.zeros_like(supply), xp.zeros_like(demand), one + moved, one - moved]
        last = [True, False]
    tail, head, *others = (_joined(x) for x in zip(*edges, strict=True))
    capacity, lower, cost, flow = others
    net = MinCostProblem(capacity, cost, xp.concatenate(net), lower)
    edges = CheckEdges.of(net, tail, head, n + m + len(last))
    claim = MinimumCostFlow(
        flow=flow,
        potential=_potential(problem, result),
        source_side=xp.concatenate([result.row_side, result.col_side, xp.asarray(last, bool)]),
        cycle=xp.zeros(flow.shape, bool),
        **dict.fromkeys(("cost", "gap", "status"), None),  # type: ignore[arg-type]
    )
    check = proved(edges._replace(sane=edges.sane & sane), claim, tolerance, rounded=rounded)
    valid = check.valid & (beyond == 0).all()
    gap = xp.where(valid, check.gap, xp.full_like(check.gap, xp.inf))
    return SparseTransportCheck(valid, valid & check.optimal, gap, check.infeasible)


def _joined(parts: Sequence[Array]) -> Array:
    """The concatenation of arrays of dtypes that may differ."""
    dtype = common_dtype(*parts)
    return module_of(parts[0]).concatenate([x.astype(dtype) for x in parts])


def _are_masses(x: Num[Array, "..."]) -> Bool[Array, ""]:
    return ((x >= 0) & module_of(x).isfinite(x)).all()


def _no_limit(like: Array, dtype: np.dtype) -> Num[Array, " k"]:
    most = np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max
    return module_of(like).full(like.shape, most, dtype)


def _edges_of_root(problem: SparseTransportProblem, pairs: _Edges) -> list[_Edges]:
    """Edges from one more node that bring each row its supply, and edges to it.

    These take the supply that stays, at its price, and what columns got.
    """
    supply, demand, price = problem.supply, problem.demand, problem.unmatched_cost
    (n,), (m,), xp = supply.shape, demand.shape, module_of(supply)
    assert price is not None
    rows, cols = xp.arange(n, dtype=np.int32), n + xp.arange(m, dtype=np.int32)
    of_rows, of_cols = (xp.full_like(x, n + m) for x in (rows, cols))
    sent, met = _sums(pairs, n, m)
    stays = xp.maximum(supply.astype(sent.dtype) - sent, 0).astype(supply.dtype)
    met = xp.minimum(met.astype(demand.dtype), demand)
    none, free = xp.zeros_like(supply), xp.zeros((m,), price.dtype)
    return [
        _Edges(of_rows, rows, supply, supply, xp.zeros_like(price), supply),
        _Edges(rows, of_rows, _no_limit(supply, supply.dtype), none, price, stays),
        _Edges(cols, of_cols, demand, xp.zeros_like(demand), free, met),
    ]


def _edges_of_ends(problem: SparseTransportProblem, pairs: _Edges) -> list[_Edges]:
    """Edges from a source of all that moves to the rows, and from the columns to its sink."""
    supply, demand = problem.supply, problem.demand
    (n,), (m,), xp = supply.shape, demand.shape, module_of(supply)
    rows, cols = xp.arange(n, dtype=np.int32), n + xp.arange(m, dtype=np.int32)
    source, sink = xp.full_like(rows, n + m), xp.full_like(cols, n + m + 1)
    sent, met = (x.astype(supply.dtype) for x in _sums(pairs, n, m))
    sent, met = xp.minimum(sent, supply), xp.minimum(met, demand)
    free = [xp.zeros((size,), pairs.cost.dtype) for size in (n, m)]
    return [
        _Edges(source, rows, supply, xp.zeros_like(supply), free[0], sent),
        _Edges(cols, sink, demand, xp.zeros_like(demand), free[1], met),
    ]


def _sums(pairs: _Edges, n: int, m: int) -> tuple[Num[Array, " n"], Num[Array, " m"]]:
    """What each row sends, and what each column gets."""
    mass = pairs.flow
    if jnp.issubdtype(mass.dtype, jnp.floating):
        mass = mass.astype(proof_float(mass))
    return add_at(n, pairs.tail, mass), add_at(m, pairs.head - n, mass)


def _potential(problem: SparseTransportProblem, result: SparseTransport) -> Num[Array, " k"]:
    """The potentials of rows, of columns, and of the extra nodes."""
    dtype = common_dtype(result.row_dual, result.col_dual)
    u, v = result.row_dual.astype(dtype), result.col_dual.astype(dtype)
    xp, more = module_of(u), []
    if problem.unmatched_cost is not None:
        more = [xp.zeros((1,), dtype)]
    elif problem.moved is not None:
        # What the last unit costs.
        least = u.min(initial=0)
        last = xp.where(problem.supply > 0, u, least).max(initial=least)
        more = [xp.stack([last, xp.zeros_like(last)])]
    return xp.concatenate([u, -v, *more])
