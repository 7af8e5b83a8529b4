"""Transport with a limit for each pair, as transport on the edges of the complete graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bind
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.arguments import solved_dtype
from jaxmatch._common.given import INTEGERS, REAL, SOLVED, typed
from jaxmatch._common.limits import MOST_NETWORK_EDGES
from jaxmatch._common.place import Place
from jaxmatch._common.proof import module_of
from jaxmatch._common.result import Transport, result_float
from jaxmatch._common.status import Status
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import Array, ArrayLike, Num
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._min_cost_flow import native
from jaxmatch._min_cost_flow.methods import METHODS
from jaxmatch._min_cost_flow.problem import Ends, MinCostProblem, value_dtype
from jaxmatch._min_cost_flow.result import MinimumCostFlow
from jaxmatch._min_cost_flow.solve import with_gradient
from jaxmatch._sparse_transport.network import as_network, as_result
from jaxmatch._sparse_transport.problem import SparseTransportProblem
from jaxmatch._sparse_transport.result import SparseTransport
from jaxmatch._transport.problem import TransportProblem


def with_limit(
    problem: TransportProblem, limit: ArrayLike | None, place: Place
) -> TransportProblem:
    """The problem with a limit for each pair, in the dtype of the masses."""
    if limit is None:
        return problem
    dtype, shape = problem.supply.dtype, problem.cost.shape
    whole = jnp.issubdtype(dtype, jnp.integer)
    words = "be an integer, as `supply` and `demand` are" if whole else "be a real number"
    kinds, advice = INTEGERS & SOLVED if whole else REAL, "; cast it"
    given = typed("limit", limit, kinds, words, advice)
    x, most = place.xp.asarray(given), _most(dtype)
    if x.dtype != dtype:
        wide = whole and x.dtype.itemsize > dtype.itemsize
        narrowed = x.clip(-1, most).astype(dtype) if wide else x.astype(dtype)
        endless = x.dtype in (np.int32, np.int64) and not whole
        x = place.xp.where(x == jnp.iinfo(x.dtype).max, most, narrowed) if endless else narrowed
    try:
        return problem._replace(limit=place.xp.broadcast_to(x.astype(dtype), shape))
    except ValueError:
        raise ValueError(
            f"`limit` has shape {x.shape}, which does not broadcast to {shape} (the batch shape "
            "and one entry per pair of a row and a column)."
        ) from None


def _most(dtype: Any) -> float | int:
    """The number that means "no limit"."""
    return int(jnp.iinfo(dtype).max) if jnp.issubdtype(dtype, jnp.integer) else np.inf


Flows = Callable[[Ends, MinCostProblem], MinimumCostFlow]


def flows_on_host(method: str, *, wide: bool) -> Flows:
    """`wide`: integers have 64 bits in the solver, whatever JAX is set to.

    It is for NumPy arrays. Calls with JAX arrays may be compiled, which must change no result.
    """
    solver = METHODS[method].cpu
    assert solver is not None
    flows = bind(native.minimum_cost_flow, method=solver, platform="cpu")

    def in_64_bits(ends: Ends, problem: MinCostProblem) -> MinimumCostFlow:
        with jax.enable_x64(True):
            start = problem.potential
            if start is not None:
                problem = problem._replace(potential=start.astype(value_dtype(problem)))
            return flows(ends, problem)

    return in_64_bits if wide else flows


def flows_in_jax(method: str) -> Flows:
    return bind(with_gradient, method=method)


def solve_limited(
    flows: Flows,
    problem: TransportProblem,
    unmatched_cost: Array | None = None,
    *,
    maximize: bool,
) -> Transport:
    """Solves a batch by minimum-cost flows. If `problem.moved` is given, so much mass moves."""
    n, m = problem.cost.shape[-2:]
    require_sizes("cost", (n, m), "mask what you add (`row_mask`, `col_mask`)")
    if n * m + n + m > MOST_NETWORK_EDGES:
        raise ValueError(
            f"with `limit`, n·m + n + m must be at most {MOST_NETWORK_EDGES}, got n = {n} rows and "
            f"m = {m} columns; `solve_sparse_transport` takes the pairs that exist."
        )
    xp = module_of(problem.cost)
    pairs, too_low = _on_edges(problem, unmatched_cost, maximize)
    network = as_network(complete_graph(n, m, xp), pairs, xp)
    res = as_result(flows(*network[:2]), pairs, network, xp)
    status = xp.where(too_low, np.int32(Status.OVERFLOW), res.status).astype(np.int32)
    plan = _as_plan(res.replace(status=status), problem, maximize)
    is_float = jnp.issubdtype(problem.supply.dtype, jnp.floating)
    if xp is np or not is_float or unmatched_cost is not None or problem.moved is not None:
        return plan
    return plan.replace(cost=_with_equal_shares(plan, problem))


def _with_equal_shares(plan: Transport, problem: TransportProblem) -> Array:
    """The cost, of whose derivative with respect to masses supplies and demands have equal shares.

    All masses change together, so a constant may be added to one side and subtracted from the
    other. It is chosen as without limits, see `value_jvp`.
    """
    solved, real = plan.status == Status.OPTIMAL, plan.cost.dtype

    def masses(x: Array, mask: Array | None) -> Array:
        x = x if mask is None else jnp.where(mask, x, 0)
        return jnp.where(solved[..., None], x.astype(real), 0)

    supply, demand = (
        masses(problem.supply, problem.row_mask),
        masses(problem.demand, problem.col_mask),
    )
    duals = (jnp.where(solved[..., None], x, 0) for x in (plan.row_dual, plan.col_dual))
    u, v = lax.stop_gradient(tuple(duals))
    difference = supply.sum(-1) - demand.sum(-1)
    s, d = lax.stop_gradient((supply, demand))
    total = s.sum(-1) + d.sum(-1)
    shift = ((d * v).sum(-1) - (s * u).sum(-1)) / jnp.where(total > 0, total, 1)
    return plan.cost + shift * (difference - lax.stop_gradient(difference))


def complete_graph(n: int, m: int, xp: Any) -> BipartiteGraph:
    """The graph of all pairs, in the order of a matrix."""

    def csr(one: int, other: int) -> tuple[Any, Any]:
        ind = xp.broadcast_to(xp.arange(other, dtype=np.int32), (one, other)).reshape(-1)
        return xp.arange(one + 1, dtype=np.int32) * np.int32(other), ind

    sides = (xp.asarray(size, np.int32) for size in (n, m))
    return BipartiteGraph(*csr(n, m), *csr(m, n), *sides)


def _on_edges(
    problem: TransportProblem, unmatched_cost: Array | None, maximize: bool
) -> tuple[SparseTransportProblem, Array]:
    """The problem on the edges of the complete graph, and whether a cost has no negative.

    Pairs of masked rows and columns have the limit 0.
    """
    (*batch, n, m), xp = problem.cost.shape, module_of(problem.cost)
    cost, prices = (None if x is None else _widened(x) for x in (problem.cost, unmatched_cost))
    limit = problem.limit
    assert cost is not None
    too_low, mask = xp.zeros(batch, bool), None
    for side in (_by_row(problem.row_mask), _by_col(problem.col_mask)):
        mask = side if mask is None else mask if side is None else mask & side
    if mask is not None:
        cost = xp.where(mask, cost, xp.zeros_like(cost))
        limit = xp.where(mask, limit, xp.zeros_like(limit))
    if prices is not None and problem.row_mask is not None:
        prices = xp.where(problem.row_mask, prices, xp.zeros_like(prices))

    def negative(x: Array) -> Array:
        """Minus x. If x is the least integer, it is 0, and `too_low` says so."""
        nonlocal too_low
        if jnp.issubdtype(x.dtype, jnp.floating):
            return -x
        lowest = x == jnp.iinfo(x.dtype).min
        too_low |= lowest.any(tuple(range(len(batch), x.ndim)))
        return xp.where(lowest, xp.zeros_like(x), -x)

    if maximize:
        cost = negative(cost)
        prices = None if prices is None else negative(prices)
    start = problem.col_dual
    if start is not None:
        start = -start if maximize else start
        whole = all(jnp.issubdtype(x.dtype, jnp.integer) for x in (cost, problem.supply))
        start = _in_integers(start, xp) if whole else start.astype(result_float())
    flat = (*batch, n * m)
    assert limit is not None
    pairs = SparseTransportProblem(
        cost.reshape(flat),
        problem.supply,
        problem.demand,
        limit.reshape(flat),
        problem.moved,
        prices,
        problem.row_mask,
        problem.col_mask,
        col_dual=start,
        origin=problem.origin,
    )
    return pairs, too_low


def _widened(x: Array) -> Array:
    """Half precision as float32, which minimum-cost flows take."""
    return x.astype(solved_dtype(x.dtype))


def _by_row(mask: Array | None) -> Any:
    return None if mask is None else mask[..., :, None]


def _by_col(mask: Array | None) -> Any:
    return None if mask is None else mask[..., None, :]


def _in_integers(dual: Array, xp: Any) -> Num[Array, "..."]:
    """Duals as integers; 0 where the dtype of values does not hold them."""
    dtype = np.dtype(np.int64 if result_float().itemsize == 8 else np.int32)
    fits = xp.abs(dual) < 2.0 ** (8 * dtype.itemsize - 2)
    return xp.where(fits, dual, xp.zeros_like(dual)).astype(dtype)


def _as_plan(res: SparseTransport, problem: TransportProblem, maximize: bool) -> Transport:
    """The pairs with mass, in the order of a matrix, then empty entries."""
    n, m = problem.cost.shape[-2:]
    xp, solved = module_of(res.status), res.status == Status.OPTIMAL
    known = solved | (res.status == Status.UNBALANCED)
    mass = xp.where(solved[..., None], res.mass, xp.zeros_like(res.mass))
    order = xp.argsort(mass <= 0, axis=-1, stable=True)
    mass = xp.take_along_axis(mass, order, -1)

    def index(x: Any, shape: tuple[int, int]) -> Array:
        """Indices of rows or columns. Gathered, because a division does not compile for several
        GPUs (JAX 0.11.2)."""
        found = xp.broadcast_to(x, shape).reshape(-1)[order]
        return xp.where(mass > 0, found, -1).astype(np.int32)

    def number(x: Array, where: Array) -> Array:
        x = x.astype(result_float())
        return xp.where(where, 0 - x if maximize else x, np.nan).astype(x.dtype)

    each = solved[..., None]
    gap = xp.where(known, res.gap.astype(result_float()), np.nan)
    return Transport(
        rows=index(xp.arange(n, dtype=np.int32)[:, None], (n, m)),
        cols=index(xp.arange(m, dtype=np.int32), (n, m)),
        mass=mass,
        cost=number(res.cost, solved),
        row_dual=number(res.row_dual, each),
        col_dual=number(res.col_dual, each),
        gap=gap.astype(result_float()),
        status=res.status,
    )
