"""Minimum-cost flow: the public function and the gradient."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmatch._common.arguments import check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import apart, envelope_value, fixed_along, is_constant
from jaxmatch._common.place import place_of
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num
from jaxmatch._flow.network import FlowNetwork, check_network
from jaxmatch._min_cost_flow import native
from jaxmatch._min_cost_flow.methods import METHODS, solve_min_cost_flow
from jaxmatch._min_cost_flow.problem import Ends, MinCostProblem, as_problem, start_of
from jaxmatch._min_cost_flow.result import MinimumCostFlow


@unchecked
def minimum_cost_flow(
    network: FlowNetwork,
    capacity: ArrayLike,
    cost: ArrayLike,
    supply: ArrayLike,
    *,
    lower: ArrayLike | None = None,
    warm_start: MinimumCostFlow | ArrayLike | None = None,
    method: str = "auto",
) -> MinimumCostFlow:
    """Find flows of minimum cost, inside or outside of `jax.jit`.

    Sends the supplies of some nodes to the demands of others at the least cost, within capacities,
    and proves the minimum by potentials. Leading dimensions are batch, solved by one native call.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 0, 1, 1, 2], [1, 2, 2, 3, 3], num_nodes=4)
    >>> capacity = jnp.array([3.0, 3.0, 2.0, 1.0, jnp.inf])
    >>> cost = jnp.array([1.0, 4.0, 1.0, 6.0, 2.0])
    >>> supply = jnp.array([4.0, 0.0, 0.0, -4.0])
    >>> res = jax.jit(jm.minimum_cost_flow)(network, capacity, cost, supply)
    >>> res.cost, res.flow, int(res.status) == jm.Status.OPTIMAL
    (Array(20., dtype=float32), Array([2., 2., 2., 0., 4.], dtype=float32), True)
    >>> jax.grad(lambda c: jm.minimum_cost_flow(network, capacity, c, supply).cost)(cost)
    Array([2., 2., 2., 0., 4.], dtype=float32)

    **Arguments:**

    - `network`: a [`FlowNetwork`][jaxmatch.FlowNetwork], one for all problems or a batch of them.
    - `capacity`: `[..., e]`. +inf, or the largest number of int32 or int64, means no limit.
    - `cost`: `[..., e]`, of a unit of flow; bfloat16 to float64, int32 or int64, of any sign. +inf
      forbids an edge.
    - `supply`: `[..., n]`, what leaves each node minus what enters it; a demand is negative.
      Integers must sum to 0. Floats may miss it by roundings of the coarsest mass, or 1e-6 of the
      positive supplies; what is too much stays.
    - `lower`: `[..., e]`, the least that each edge carries, 0 by default; it may be negative.
    - `warm_start`: an earlier result, or potentials `[..., n]`, from which the search may begin.
    - `method`: `"auto"`, `"network_simplex"`, `"cost_scaling"` or `"xla"`, see
      [Methods][min-cost-flow-methods].

    **Returns:** a [`MinimumCostFlow`][jaxmatch.MinimumCostFlow], verified by
    [`check_minimum_cost_flow`][jaxmatch.check_minimum_cost_flow].

    **Status:** `OPTIMAL`; `INFEASIBLE`, proved by the cut `source_side`; `UNBOUNDED`, proved by
    `cycle`; `UNBALANCED` (`gap` is the difference), `INVALID_GRAPH`, `INVALID_CAPACITY`,
    `INVALID_COST`, `INVALID_MASS`, `OVERFLOW`; see [statuses][].

    **Exact:** integers to 64 bits; floats with a proved bound on rounding, see [Guarantees][exact].

    **Gradient:** of `res.cost`: the flow (for costs), potentials (for supplies), and reduced costs
    (for capacities where negative, for lower bounds where positive), see [Guarantees][gradients].

    **Raises:** `TypeError` for other types, `ValueError` for other shapes and unknown names.

    **Source:** Ahuja, Magnanti and Orlin, *Network Flows* (1993); more in [Papers][papers-flow].
    """
    check_network(network)
    check_name("method", method, METHODS)
    capacity = as_given("capacity", capacity)
    cost, supply, lower = all_given(cost=cost, supply=supply, lower=lower)
    start = all_given(flow=(of := start_of(warm_start))[0], warm_start=of[1])
    solver = METHODS[method].cpu
    place = place_of(
        *(capacity, cost, supply, lower, *start, *jax.tree.leaves(network)),
        options=("min_cost_flow", method),
        native=solver is not None,
    )
    with place.precision():
        if method == "xla":
            sizes = network.num_nodes, network.num_edges
            require_sizes("network", sizes, "pad to it (`FlowNetwork.stack` does)")
        ends, problem = as_problem(network, capacity, cost, supply, lower, start, place=place)
        if place.native and solver is not None:
            res = native.minimum_cost_flow(ends, problem, method=solver, platform="cpu")
        else:
            res = _solve(ends, problem, method=method)
        return place.bring_home(res)


@compiled(static_argnames="method")
def _solve(ends: Ends, problem: MinCostProblem, *, method: str) -> MinimumCostFlow:
    def solve(problem: MinCostProblem, ends: Ends) -> MinimumCostFlow:
        return with_gradient(ends, problem, method=method)

    if ends.are_shared:
        return over_batch_shards(solve, problem, core_dims=1, shared=(ends,))
    return over_batch_shards(solve, problem, ends, core_dims=1)


def with_gradient(ends: Ends, problem: MinCostProblem, *, method: str) -> MinimumCostFlow:
    """The flows of a batch, with the derivative of their cost."""
    res = apart(solve_min_cost_flow)(ends, problem, method=method)
    if not jnp.issubdtype(res.cost.dtype, jnp.floating):
        return res
    solution = _Solution(res.flow, res.potential, res.status, ends)
    return res.replace(cost=envelope_value(res.cost, problem, solution, _value_jvp))


# ---------------------------------------------------------------------------------------------
# Gradient


class _Solution(NamedTuple):
    """What the derivative of the cost needs of a result and its network."""

    flow: Num[Array, "... e"]
    potential: Float[Array, "... n"]
    status: Int[Array, "..."]
    ends: Ends


_ACROSS = (
    "A minimum cost of flow has no second derivative across costs and masses: the flow is "
    "differentiated with respect to the masses, or the potentials with respect to the costs. Stop "
    "one of the two with `jax.lax.stop_gradient`, or differentiate once."
)


def _value_jvp(
    problem: MinCostProblem, tangents: MinCostProblem, solution: _Solution
) -> Float[Array, "..."]:
    dot = jnp.zeros_like(solution.potential, shape=solution.status.shape)
    solved = (solution.status == Status.OPTIMAL)[..., None]
    add = partial(_weighted, dtype=dot.dtype)
    cost, capacity, lower = problem.cost, problem.capacity, problem.lower
    if not is_constant(tangents.cost):
        masses = (capacity, problem.supply, lower)
        dot += add(fixed_along(solution.flow, masses, _ACROSS), tangents.cost, solved)
    if not is_constant(tangents.supply):
        dot += add(fixed_along(solution.potential, cost, _ACROSS), tangents.supply, solved)
    of_edges = [t for t in (tangents.capacity, tangents.lower) if t is not None]
    if all(is_constant(t) for t in of_edges) or not cost.shape[-1]:
        return dot
    reduced = fixed_along(_reduced_cost(jax.lax.stop_gradient(cost), solution), cost, _ACROSS)
    # Within the bounds of an edge, a reduced cost that is not 0 is a rounding error.
    usable = solved & jnp.isfinite(reduced)
    if not is_constant(tangents.capacity):
        full = usable & (solution.flow == capacity)
        dot += add(jnp.minimum(reduced, 0), tangents.capacity, full)
    if tangents.lower is not None and not is_constant(tangents.lower):
        unused = usable & (solution.flow == lower)
        dot += add(jnp.maximum(reduced, 0), tangents.lower, unused)
    return dot


def _reduced_cost(cost: Num[Array, "... e"], solution: _Solution) -> Float[Array, "... e"]:
    potential, (senders, receivers) = solution.potential, solution.ends
    n = potential.shape[-1]

    def at(node: Array) -> Array:
        node = node.clip(0, n - 1)
        if node.ndim == 1:
            return potential[..., node]
        return jnp.take_along_axis(potential, node, axis=-1)

    return cost.astype(potential.dtype) - at(senders) + at(receivers)


def _weighted(
    weight: Array, tangent: Array, where: Bool[Array, "..."], *, dtype: Any
) -> Float[Array, "..."]:
    """The sum of weight times tangent where `where` holds."""
    # `where` around each factor, because its transpose blocks NaN cotangents and products 0 · ∞.
    weight = jnp.where(where, weight, 0).astype(dtype)
    return (weight * jnp.where(where, tangent.astype(dtype), 0)).sum(-1)
