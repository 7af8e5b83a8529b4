"""`check_minimum_cost_flow`: verifies a flow of least cost by its potentials.

It shares no code with the solvers, so a wrong result passes only if check and solver make the same
error. It reads `senders` and `receivers` of the network, not the arcs that were built from them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.arguments import as_result
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import (
    TOLERANCE,
    flushed_to,
    is_tiny,
    judged,
    module_of,
    over_problems,
    proof_float,
    spacing,
    split,
    sum_down,
    sum_up,
    take,
)
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num
from jaxmatch._flow.check import require_kind
from jaxmatch._flow.network import FlowNetwork, check_network
from jaxmatch._min_cost_flow.check_flow import (
    MOST_MASSES,
    CheckEdges,
    conserves,
    exact_difference,
    most_flow,
    smaller,
)
from jaxmatch._min_cost_flow.problem import Ends, MinCostProblem, as_problem, forgiven
from jaxmatch._min_cost_flow.result import MinimumCostFlow, MinimumCostFlowCheck
from jaxmatch._transport.check_plan import times_up


@unchecked
@in_full_precision("capacity", "cost", "supply", "lower", on_host=True)
def check_minimum_cost_flow(
    network: FlowNetwork,
    capacity: ArrayLike,
    cost: ArrayLike,
    supply: ArrayLike,
    result: MinimumCostFlow,
    *,
    lower: ArrayLike | None = None,
) -> MinimumCostFlowCheck:
    """Verify a result of `minimum_cost_flow`, in jit or out of it.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 0, 1], [1, 2, 2], num_nodes=3)
    >>> problem = jnp.array([2, 9, 9]), jnp.array([1, 5, 2]), jnp.array([3, 0, -3])
    >>> res = jm.minimum_cost_flow(network, *problem)
    >>> check = jm.check_minimum_cost_flow(network, *problem, res)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, True, 0.0)
    >>> other = res.replace(flow=jnp.array([0, 3, 0]))  # costs 15 instead of 11
    >>> check = jm.check_minimum_cost_flow(network, *problem, other)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, False, 4.0)
    >>> problem = jnp.array([2, 9, 0]), jnp.array([1, 5, 2]), jnp.array([0, 3, -3])
    >>> res = jm.minimum_cost_flow(network, *problem)
    >>> check = jm.check_minimum_cost_flow(network, *problem, res)
    >>> bool(check.infeasible)
    True

    **Arguments:**

    - `network`, `capacity`, `cost`, `supply`, `lower`: as they were passed to `minimum_cost_flow`.
      Only `senders`, `receivers` and the number of nodes of `network` are read.
    - `result`: of any solver. `flow`, `potential`, `source_side` and `cycle` are read.

    **Returns:** a [`MinimumCostFlowCheck`][jaxmatch.MinimumCostFlowCheck].

    - `valid`: the numbers of the problem make sense, the flow on each edge is within its bounds, 0
      on forbidden edges, and the supply of each node is what leaves it minus what enters it.
    - `optimal`: the result is `valid`, and `gap` is no larger than the rounding of costs and
      potentials can explain. This proves it optimal; see [Checks][check-min-cost-flow].
    - `gap`: a bound on cost − optimum that the potentials prove; +inf where they prove none.
    - `infeasible`: the supplies of the nodes in `source_side` exceed what can leave them.
    - `unbounded`: the edges in `cycle` form cycles of negative cost without limits. If there is a
      flow at all, there is always a cheaper one.

    **Exact:** the bound holds for the numbers passed in, and all its terms are rounded upwards, so
    a gap of 0 is exact. Flows of integers are verified exactly; floats have the tolerances of
    [Checks][check-min-cost-flow].

    **Time and memory:** a few passes over the edges, and temporary arrays of e numbers.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for dtypes that do not.
    """
    check_network(network)
    place = current_place()
    ends, problem = as_problem(network, capacity, cost, supply, lower, place=place)
    batch, n, e = problem.supply.shape[:-1], network.num_nodes, network.num_edges
    shapes = {"flow": (*batch, e), "potential": (*batch, n)}
    shapes |= {"source_side": (*batch, n), "cycle": (*batch, e)}
    beside, advice = "`network` and the other arguments", "`minimum_cost_flow` returns one"
    result = as_result(result, MinimumCostFlow, shapes, beside, advice, place=place)
    is_float = jnp.issubdtype(problem.supply.dtype, jnp.floating)
    require_kind("result.flow", result.flow, "supply", is_float)
    if place.native:
        return _check_batch(ends, problem, result)
    problem, result = lax.stop_gradient((problem, result))
    return _check(ends, problem, result)


@compiled()
def _check(ends: Ends, problem: MinCostProblem, result: MinimumCostFlow) -> MinimumCostFlowCheck:
    def check(problem: MinCostProblem, result: MinimumCostFlow, ends: Ends) -> MinimumCostFlowCheck:
        return _check_batch(ends, problem, result)

    if ends.are_shared:
        return over_batch_shards(apart(check), problem, result, core_dims=1, shared=(ends,))
    return over_batch_shards(apart(check), problem, result, ends, core_dims=1)


def _check_batch(
    ends: Ends, problem: MinCostProblem, result: MinimumCostFlow
) -> MinimumCostFlowCheck:
    one = partial(_check_one, n=problem.supply.shape[-1], tolerance=forgiven(problem))
    batch = problem.supply.shape[:-1]
    problem = problem._replace(origin=None)
    if not ends.are_shared:
        return over_problems(one, batch, problem, result, *ends)

    def on_shared(problem: MinCostProblem, result: MinimumCostFlow) -> MinimumCostFlowCheck:
        return one(problem, result, *ends)

    return over_problems(on_shared, batch, problem, result)


def _check_one(
    problem: MinCostProblem,
    result: MinimumCostFlow,
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    *,
    n: int,
    tolerance: float,
) -> MinimumCostFlowCheck:
    if module_of(problem.supply) is jnp:
        problem = jax.lax.optimization_barrier(problem)  # XLA would fold large constants
    return proved(CheckEdges.of(problem, tail, head, n), result, tolerance)


def proved(
    edges: CheckEdges, result: MinimumCostFlow, tolerance: float, *, rounded: bool = False
) -> MinimumCostFlowCheck:
    """What the flow, the potentials, the cut and the cycle of a result prove about one problem.

    `rounded`: whether the potentials are floats of integers, so that rounding may explain a gap.
    """
    xp = module_of(edges.supply)
    infeasible = edges.sane & _is_cut(edges, result.source_side)
    unbounded = edges.sane & _is_cycle(edges, result.cycle)
    valid = edges.sane & edges.holds(result.flow)
    valid &= conserves(edges, result.flow, tolerance)
    gap, rounding = _gap(edges, result.flow, result.potential, rounded)
    gap = xp.where(valid & ~xp.isnan(gap), gap, xp.inf)
    optimal, bound = judged(gap, rounding)
    return MinimumCostFlowCheck(valid, valid & optimal, bound, infeasible, unbounded)


# ---------------------------------------------------------------------------------------------
# Optimality


def _gap(
    edges: CheckEdges, flow: Num[Array, " e"], potential: Num[Array, " n"], rounded: bool
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The gap that the potentials prove, and the greatest gap that rounding explains.

    Reduced costs r. A flow x pays Σ r·x, and at least Σ r·lower where r > 0 and Σ r·capacity where
    r < 0. Where an edge has no limit, no optimal flow need exceed its lower bound by more than
    `most_flow`.
    """
    xp, real = module_of(flow), proof_float(flow)
    c = _parts(edges.cost)
    of_tail, of_head = (_parts(take(potential, node)) for node in (edges.tail, edges.head))
    parts = [*c, *(-v for v in of_tail), *of_head]
    high, low = (add(xp.stack(parts, -1)) for add in (sum_up, sum_down))
    used = exact_difference(flow, edges.lower)
    most = most_flow(edges)
    rest = xp.where(edges.endless, xp.inf, exact_difference(edges.capacity, flow))
    room = xp.where(edges.endless, xp.inf, exact_difference(edges.capacity, edges.lower))
    # Rounded upwards, as all the numbers of which it is made.
    within = xp.where(room > most, most, xp.inf)
    rest = xp.where(used == 0, xp.minimum(rest, within), rest)
    left = sum_up(xp.stack([xp.broadcast_to(most, used.shape), -_down(flow, edges.lower)], -1))
    rest = xp.maximum(xp.minimum(rest, left), 0)
    used = xp.maximum(used, 0)
    rest = xp.where(low < 0, rest, 0)
    terms = times_up(used, high), times_up(rest, -low)
    counted = xp.where(xp.isfinite(used + rest), used + rest, 0)
    tiny = is_tiny(edges.cost).any() | is_tiny(potential).any()
    least = xp.where(tiny, 64 * flushed_to(edges.cost.dtype, flow), 0).astype(real)
    flushed = times_up(counted, xp.broadcast_to(least, counted.shape))
    gap = sum_up(*terms, flushed)
    sizes: Any = sum(xp.abs(x[0]) for x in (c, of_tail, of_head))
    near = spacing(potential.dtype, real)
    whole = all(jnp.issubdtype(x.dtype, jnp.integer) for x in (edges.cost, potential))
    # If edges without a limit have negative costs, potentials must show that no cycle of such edges
    # pays, up to what rounding of the greatest numbers explains.
    slack = 0 if whole or sizes.size == 0 else 64 * near * sizes.max()
    pays = edges.endless & (high < -slack)
    pays &= (edges.endless & (edges.cost < 0)).any()
    gap = xp.where(xp.isfinite(potential).all() & ~pays.any(), gap, xp.inf)
    rounding = TOLERANCE * near * (counted * sizes).sum()
    if all(jnp.issubdtype(x.dtype, jnp.integer) for x in (edges.cost, flow)):
        # A gap of integers below 1 is 0.
        return xp.floor(gap), rounding if rounded else xp.zeros_like(gap)
    return gap, rounding


def _parts(x: Num[Array, " k"]) -> list[Float[Array, " k"]]:
    """Floats with the sum x."""
    x, rest = split(x, False)
    return [x] if rest is None else [x, rest]


def _down(a: Num[Array, " e"], b: Num[Array, " e"]) -> Float[Array, " e"]:
    """A lower bound of a − b."""
    return -exact_difference(b, a)


# ---------------------------------------------------------------------------------------------
# Proofs that there is no optimum


def _is_cut(edges: CheckEdges, side: Bool[Array, " n"]) -> Bool[Array, ""]:
    """Whether the supplies of these nodes exceed what can leave them, less what must enter them."""
    xp = module_of(side)
    of_tail, of_head = take(side, edges.tail), take(side, edges.head)
    leaves, enters = of_tail & ~of_head, of_head & ~of_tail
    supply = [xp.where(side, x, 0) for x in _parts(edges.supply)]
    out = [xp.where(leaves, x, 0) for x in _parts(edges.capacity)]
    back = [xp.where(enters, x, 0) for x in _parts(edges.lower)]
    factor = smaller(*supply, *out, *back)
    # Tiny numbers are rounded by the factor.
    tiny = MOST_MASSES * float(jnp.finfo(factor.dtype).tiny)
    lost = xp.where(factor < 1, tiny, 0).astype(factor.dtype)
    more = sum_down(*(factor * x for x in supply), *(-factor * x for x in out),
                    *(factor * x for x in back))  # fmt: skip
    more = xp.where((leaves & edges.endless).any(), -xp.inf, more - lost)
    # Supplies of floats may miss a sum of 0; what is too much stays where it is.
    supplies = _parts(edges.supply)
    spare = xp.maximum(sum_up(*(factor * x for x in supplies)), 0)
    if jnp.issubdtype(edges.supply.dtype, jnp.integer):
        spare = xp.zeros_like(spare)
    return side.any() & (more > spare)


def _is_cycle(edges: CheckEdges, cycle: Bool[Array, " e"]) -> Bool[Array, ""]:
    """Whether these edges have no limits, are cycles, and have costs with a negative sum."""
    xp = module_of(cycle)
    closed = edges.net(cycle.astype(np.int32)) == 0
    total = sum_up(*(xp.where(cycle, x, 0) for x in _parts(edges.cost)))
    return cycle.any() & (~cycle | edges.endless).all() & closed.all() & (total < 0)
