"""A transport problem on edges as a minimum-cost flow.

Nodes are the n rows, then the m columns. The pairs are the first edges, from rows to columns.

If all mass moves, rows supply it and columns demand it. With `unmatched_cost` there is one more
node, the root. An edge to each row carries exactly its supply, and an edge back takes what stays;
an edge from each column carries at most its demand. With `partial` there are two more nodes, a
source that supplies what moves and a sink that demands it. An edge from the source to each row
carries at most its supply, and one from each column to the sink at most its demand. So no sum of
masses is rounded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Int, Num
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._min_cost_flow.problem import Ends, MinCostProblem
from jaxmatch._min_cost_flow.result import MinimumCostFlow
from jaxmatch._sparse_assignment.edges import Edges
from jaxmatch._sparse_transport.problem import SparseTransportProblem, settled
from jaxmatch._sparse_transport.result import SparseTransport
from jaxmatch._transport.problem import expanded


class Network(NamedTuple):
    """The problem of a flow, and what it says nothing about."""

    ends: Ends
    problem: MinCostProblem
    no_graph: Bool[Array, "..."]  # the arrays of the graph are inconsistent
    no_limit: Bool[Array, "..."]  # a limit is negative or NaN
    no_mass: Bool[Array, "..."]  # a mass is negative, infinite or NaN


def as_network(graph: BipartiteGraph, problem: SparseTransportProblem, xp: Any) -> Network:
    problem = settled(problem, xp)
    cost, supply, demand, limit, moved, price = problem[:6]
    (n, m), batch = graph.shape, cost.shape[:-1]
    edges = _edges_of(graph, xp)
    live = expanded(edges.live, batch, 1, xp)

    def whole(x: Any) -> Any:
        """The numbers of edges; 0 on padding."""
        return xp.where(live, x[..., : live.shape[-1]], xp.zeros((), x.dtype))

    def full(size: Any, value: Any, like: Any = supply) -> Any:
        return xp.full((*batch, size), value, like.dtype)

    def joined(*parts: Any) -> Any:
        return xp.concatenate(parts, -1)

    def nodes(first: Any, *others: Any) -> Any:
        """The ends of pairs, and of the extra edges."""
        of_graph = first.shape[:-1]
        return joined(first, *(expanded(x.astype(np.int32), of_graph, 1, xp) for x in others))

    endless = np.inf if _is_float(supply.dtype) else jnp.iinfo(supply.dtype).max
    capacity = whole(full(cost.shape[-1], endless) if limit is None else limit)
    row, col, cost = edges.row, (n + edges.col).astype(np.int32), whole(cost)
    flow, potential = _start(problem, edges, whole, xp)
    rows, cols = xp.arange(n), n + xp.arange(m)
    root, sink = n + m, n + m + 1
    if price is not None:
        to_rows, of_rows, of_cols = (xp.full_like(x, root) for x in (rows, rows, cols))
        ends = nodes(row, to_rows, rows, cols), nodes(col, rows, of_rows, of_cols)
        cost = joined(cost.astype(price.dtype), full(n, 0, price), price, full(m, 0, price))
        capacity = joined(capacity, supply, full(n, endless), demand)
        lower = joined(full(row.shape[-1], 0), supply, full(n, 0), full(m, 0))
        net = MinCostProblem(capacity, cost, full(n + m + 1, 0), lower)
    elif moved is not None:
        of_rows, of_cols, one = xp.full_like(rows, root), xp.full_like(cols, sink), moved[..., None]
        ends = nodes(row, of_rows, cols), nodes(col, rows, of_cols)
        cost, capacity = joined(cost, full(n + m, 0, cost)), joined(capacity, supply, demand)
        net = MinCostProblem(capacity, cost, joined(full(n + m, 0), one, -one))
    else:
        ends = row, col
        net = MinCostProblem(capacity, cost, joined(supply, -demand))
    net = net._replace(flow=flow, potential=potential, origin=problem.origin)
    no_mass = _is_bad(supply).any(-1) | _is_bad(demand).any(-1)
    no_mass = no_mass if moved is None else no_mass | _is_bad(moved)
    no_limit = ~(whole(capacity) >= 0).all(-1)
    return Network(Ends(*ends), net, expanded(~edges.sound, batch, 0, xp), no_limit, no_mass)


def _is_float(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _is_bad(mass: Num[Array, "..."]) -> Bool[Array, "..."]:
    bad = ~(mass >= 0)
    return bad | (mass == np.inf) if _is_float(mass.dtype) else bad


def _edges_of(graph: BipartiteGraph, xp: Any) -> Edges:
    of = Edges.of if xp is jnp else _on_host
    batch = graph.batch_shape
    if xp is jnp:
        for _ in batch:
            of = jax.vmap(of)
        return of(graph)
    if not batch:
        return of(graph)
    one = [of(jax.tree.map(lambda x: x[k], graph)) for k in np.ndindex(*batch)]  # noqa: B023
    none = _on_host(jax.tree.map(lambda x: np.zeros(x.shape[len(batch) :], x.dtype), graph))
    return jax.tree.map(
        lambda like, *x: np.reshape(np.array(x, like.dtype), (*batch, *like.shape)), none, *one
    )


def _on_host(graph: BipartiteGraph) -> Edges:
    """`Edges.of` in NumPy."""
    (n, m), ptr, ind = graph.shape, graph.row_ptr, graph.col_ind
    used = np.arange(ind.size, dtype=np.int32) < ptr[-1]
    sound = (ptr[0] == 0) & (ptr[:-1] <= ptr[1:]).all() & (ptr[-1] <= ind.size)
    sound &= ~(used & ((ind < 0) | (ind >= m))).any()
    if min(n, m) == 0:
        none: Any = ind[:0]
        return Edges(none, none, none > 0, sound)
    row = np.zeros(ind.size, np.int32)
    if sound:
        row[: ptr[-1]] = np.repeat(np.arange(n, dtype=np.int32), np.diff(ptr))
    return Edges(row, ind.clip(0, m - 1), sound & used, sound)  # type: ignore[arg-type]


def _start(problem: SparseTransportProblem, edges: Edges, whole: Any, xp: Any) -> tuple[Any, Any]:
    """The flow and the potentials of a warm start."""
    supply, demand, u, v = problem.supply, problem.demand, problem.row_dual, problem.col_dual
    if v is None:
        return None, None
    u = xp.zeros(supply.shape, v.dtype) if u is None else u
    top = u.max(-1, keepdims=True) if u.shape[-1] else xp.zeros((*u.shape[:-1], 1), u.dtype)
    more = [] if problem.unmatched_cost is None else [xp.zeros_like(top)]
    more = more if problem.moved is None else [top, xp.zeros_like(top)]
    potential = xp.concatenate([u, -v, *more], -1)
    if problem.mass is None:
        return None, potential
    mass = whole(problem.mass)
    if not more:
        return mass, potential
    # A plan that failed has no masses.
    known = (mass >= 0).all(-1, keepdims=True)
    mass = xp.where(known, mass, xp.zeros_like(mass))
    out = _sums(xp.zeros_like(supply), edges.row, mass, xp)
    met = _sums(xp.zeros_like(demand), edges.col, mass, xp)
    stays = xp.where(known, xp.maximum(supply - out, 0), xp.zeros_like(supply))
    supply = xp.where(known, supply, xp.zeros_like(supply))
    sent = [supply, stays, met] if problem.unmatched_cost is not None else [out, met]
    return xp.concatenate([mass, *sent], -1), potential


def _sums(start: Array, index: Int[Array, "... e"], x: Num[Array, "... e"], xp: Any) -> Array:
    """`start` plus at each index the sum of the entries of x there."""
    index = expanded(index, x.shape[:-1], 1, xp)
    if xp is np:
        at = np.indices(x.shape, sparse=True)[:-1]
        total = np.array(start)
        np.add.at(total, (*at, index), x)
        return total  # type: ignore[return-value]

    def of_one(start: Array, index: Array, x: Array) -> Array:
        return start.at[index].add(x)

    for _ in x.shape[:-1]:
        of_one = jax.vmap(of_one)
    return of_one(start, index, x)


def as_result(
    res: MinimumCostFlow, problem: SparseTransportProblem, network: Network, xp: Any
) -> SparseTransport:
    """The plan of a flow."""
    batch, n, m = res.status.shape, problem.supply.shape[-1], problem.demand.shape[-1]
    e = problem.cost.shape[-1]
    mass = res.flow[..., :e] if 0 not in (n, m) else xp.zeros((*batch, e), res.flow.dtype)
    u, v = res.potential[..., :n], -res.potential[..., n : n + m]
    others = res.potential[..., n + m :]
    if problem.unmatched_cost is not None:
        u, v = u - others, xp.minimum(v + others, 0)
    if problem.moved is not None:
        sink, most = others[..., 1:], others[..., :1] - others[..., 1:]
        u, v = xp.minimum(u - sink, most), xp.minimum(v + sink, 0)
    if problem.row_mask is not None:
        u = xp.where(problem.row_mask, u, xp.zeros_like(u))
    if problem.col_mask is not None:
        v = xp.where(problem.col_mask, v, xp.zeros_like(v))

    status = res.status
    code = status.dtype.type
    failed = network.no_graph | network.no_limit | network.no_mass
    failed &= (status != Status.INVALID_COST) | network.no_graph
    invalid = xp.where(network.no_limit, code(Status.INVALID_CAPACITY), code(Status.INVALID_MASS))
    invalid = xp.where(network.no_graph, code(Status.INVALID_GRAPH), invalid)
    status = xp.where(failed, invalid, status)
    solved, proved = status == Status.OPTIMAL, status == Status.INFEASIBLE

    def kept(x: Array, where: Array) -> Any:
        nothing = np.nan if _is_float(x.dtype) else -1
        return xp.where(where, x, xp.asarray(nothing, x.dtype))

    each = solved[..., None]
    sides = res.source_side & proved[..., None]
    return SparseTransport(
        mass=kept(mass, each),
        cost=kept(res.cost, solved),
        row_dual=kept(u, each),
        col_dual=kept(v, each),
        gap=kept(res.gap, ~failed),
        row_side=sides[..., :n],
        col_side=sides[..., n : n + m],
        status=status,
    )
