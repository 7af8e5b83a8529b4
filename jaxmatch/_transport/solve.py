"""Optimal transport: the public function, the choice of a method, and the gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bind
from typing import Any

import jax
import jax.numpy as jnp

from jaxmatch._common.arguments import check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import apart, entries, envelope_value, fixed_along, is_constant
from jaxmatch._common.place import place_of
from jaxmatch._common.result import Transport
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch._ffi.dispatch import by_platform, rebatch
from jaxmatch._ffi.repeated import repeated
from jaxmatch._transport import xla as _xla_transport
from jaxmatch._transport.dummies import (
    as_unmatched_cost,
    moves_between_dummies,
    overflowed,
    with_dummies,
    without_dummies,
)
from jaxmatch._transport.equal_masses import may_be_equal, transport_on_cuda
from jaxmatch._transport.limited import flows_in_jax, flows_on_host, solve_limited, with_limit
from jaxmatch._transport.native import transport
from jaxmatch._transport.problem import (
    TransportProblem,
    as_problem,
    coarsest,
    exclude_each_other,
)


@repeated()
@unchecked
def solve_transport(
    cost: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    *,
    limit: ArrayLike | None = None,
    maximize: bool = False,
    partial: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    warm_start: Transport | ArrayLike | None = None,
    method: str = "auto",
) -> Transport:
    """Solve optimal transport problems exactly, inside or outside of `jax.jit`.

    Moves the supply of the rows to the demand of the columns at the least total cost, without
    regularisation. The plan is basic, with at most n + m − 1 pairs; with `limit` it may have more.
    Leading dimensions are batch, solved by one native call.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[0.0, 2.0, 5.0], [1.0, 0.0, 3.0]])
    >>> supply, demand = jnp.array([0.5, 0.5]), jnp.array([0.25, 0.25, 0.5])
    >>> res = jax.jit(jm.solve_transport)(cost, supply, demand)
    >>> res.cost, int(res.status) == jm.Status.OPTIMAL
    (Array(2., dtype=float32), True)
    >>> res.todense()
    Array([[0.25, 0.  , 0.25],
           [0.  , 0.25, 0.25]], dtype=float32)

    **Arguments:**

    - `cost`: `[..., n, m]`, bfloat16 to float64, int32 or int64. +inf forbids a pair.
    - `supply`, `demand`: `[..., n]` and `[..., m]`, not negative. Sums of integers must agree.
      Sums of floats may differ by roundings of the coarser dtype, or 1e-6 of the sum; demands are
      then scaled.
    - `limit`: broadcasts to `[..., n, m]`, the [most mass of each pair][transport-limits].
    - `maximize`: find the greatest total; −inf then forbids a pair. Inequalities of duals reverse.
    - `partial`: a scalar or `[...]`: move exactly this much mass. Sums may differ.
    - `unmatched_cost`: broadcasts to `[..., n]`, the cost of each unit of supply that is not moved.
      Demand may then stay unmet at no cost, and sums may differ. Not with `partial`.
    - `row_mask`, `col_mask`: bool, to `[..., n]` and `[..., m]`. False: it does not exist.
    - `warm_start`: an earlier result, or column duals `[..., m]`, from which the search may begin.
    - `method`: `"auto"`, `"network_simplex"` or `"xla"`, see [Methods][transport-methods].

    **Returns:** a [`Transport`][jaxmatch.Transport], verified by `check_transport`. `mass` has the
    (widened) dtype of supply and demand.

    **Status:** `OPTIMAL`, `INFEASIBLE`, `UNBALANCED` (`gap` is the difference), `INVALID_MASS`,
    `INVALID_COST`, `INVALID_CAPACITY` (a limit), `OVERFLOW`; see [statuses][].

    **Gradient:** of `res.cost`: the plan (for costs), supply that is not moved (`unmatched_cost`),
    duals (masses), and negative reduced costs (limits), see [Guarantees][gradients].

    **Raises:** `ValueError` for shapes that do not fit and options that exclude each other,
    `TypeError` for other dtypes.

    **Source:** Ahuja, Magnanti and Orlin (1993); more in [Papers][papers-transport].
    """
    check_name("method", method, METHODS)
    exclude_each_other(partial, unmatched_cost)
    cost = as_given("cost", cost)
    given = all_given(
        supply=supply,
        demand=demand,
        row_mask=row_mask,
        col_mask=col_mask,
        partial=partial,
        warm_start=duals_of(warm_start),
        unmatched_cost=unmatched_cost,
        limit=limit,
    )
    maximize = bool(maximize)
    options = ("transport", maximize, method)
    place = place_of(cost, *given, options=options, native=method != "xla")
    with place.precision():
        *given, unmatched_cost, limit = given
        problem = as_problem(cost, *given, place=place, symbolic=method != "xla")
        unmatched = as_unmatched_cost(unmatched_cost, problem, place)
        problem = with_limit(problem, limit, place)
        if place.native and limit is not None:
            res = solve_limited(
                flows_on_host(method, wide=place.numpy), problem, unmatched, maximize=maximize
            )
        elif place.native:
            solve = bind(transport, maximize=maximize, platform="cpu")
            res = _with_dummies(solve, problem, unmatched, maximize=maximize, xp=place.xp)
        else:
            res = _solve(problem, unmatched, maximize=maximize, method=method)
        return place.bring_home(res)


def _with_dummies(
    solve: Callable[[TransportProblem], Transport],
    problem: TransportProblem,
    unmatched_cost: Array | None,
    **options: bool,
) -> Transport:
    """Solves a problem that need not move all mass as a balanced one, with dummies."""
    if unmatched_cost is None and problem.moved is None:
        return solve(problem)
    xp = options.pop("xp", jnp)
    res = solve(with_dummies(problem, unmatched_cost, xp=xp, **options))
    own = without_dummies(res, problem, xp=xp)
    if unmatched_cost is not None:
        return own
    return overflowed(own, moves_between_dummies(res, problem), xp)


@compiled(static_argnames=("maximize", "method"))
def _solve(
    problem: TransportProblem, unmatched_cost: Array | None, *, maximize: bool, method: str
) -> Transport:
    def balanced(problem: TransportProblem) -> Transport:
        res = apart(METHODS[method])(problem, maximize=maximize)
        return res.replace(cost=envelope_value(res.cost, problem, res, value_jvp))

    def solve(problem: TransportProblem, unmatched_cost: Array | None) -> Transport:
        if problem.limit is not None:
            flows = flows_in_jax(method)
            return solve_limited(flows, problem, unmatched_cost, maximize=maximize)
        return _with_dummies(balanced, problem, unmatched_cost, maximize=maximize)

    return over_batch_shards(solve, problem, unmatched_cost, core_dims=2)


def duals_of(warm_start: Any) -> ArrayLike | None:
    """The column duals of a result of any solver, or the duals that were passed in its place."""
    return getattr(warm_start, "col_dual", warm_start)


def _auto(problem: TransportProblem, *, maximize: bool) -> Transport:
    """Network simplex. On a GPU it starts from an assignment for problems with equal masses."""
    if not may_be_equal(problem):
        return _network_simplex(problem, maximize=maximize)

    def solve(problem: TransportProblem) -> Transport:
        """Takes the whole batch, even under `vmap`, which would turn branches into selects."""
        return _by_platform(problem, transport_on_cuda, maximize=maximize)

    return rebatch(solve)(problem)


def _network_simplex(problem: TransportProblem, *, maximize: bool) -> Transport:
    return _by_platform(problem, bind(transport, platform="cuda"), maximize=maximize)


def _by_platform(
    problem: TransportProblem, cuda: Callable[..., Transport], *, maximize: bool
) -> Transport:
    by_jax = bind(twin, maximize=maximize)
    native = {"cpu": bind(transport, maximize=maximize, platform="cpu")}
    native["cuda"] = bind(cuda, maximize=maximize)
    return by_platform(by_jax, problem, **native, sizes=problem.cost.shape[-2:])


def twin(problem: TransportProblem, *, maximize: bool) -> Transport:
    def solve(problem: TransportProblem) -> Transport:
        return _xla_transport.solve(
            problem.cost,
            problem.supply,
            problem.demand,
            problem.row_mask,
            problem.col_mask,
            problem.moved,
            maximize=maximize,
            origin=coarsest(problem),
        )

    for _ in problem.cost.shape[:-2]:
        solve = jax.vmap(solve)
    return solve(problem)


# Every name is accepted on every platform: without a native solver, the pure-JAX twin runs.
METHODS: dict[str, Callable[..., Transport]] = {
    "auto": _auto,
    "network_simplex": _network_simplex,
    "xla": twin,
}


def value_jvp(
    problem: TransportProblem, tangents: TransportProblem, res: Transport
) -> Float[Array, "..."]:
    dot = mass_jvp(problem, tangents, res)
    if is_constant(tangents.cost) or not problem.cost.size:
        return dot
    entry = entries(tangents.cost, jnp.maximum(res.rows, 0), jnp.maximum(res.cols, 0))
    return dot + weighted(res, fixed_plan(problem, res), entry, res.rows >= 0)


ACROSS = (
    "A transport cost has no second derivative across costs (or coordinates) and masses: the plan "
    "is differentiated with respect to the masses, or the duals with respect to the costs. Stop "
    "one of the two with `jax.lax.stop_gradient`, or differentiate once."
)


def fixed_plan(problem: Any, res: Transport) -> Float[Array, "..."]:
    """The masses of the plan as constants. Their derivative along given masses is an error."""
    return fixed_along(res.mass, (problem.supply, problem.demand, problem.moved), ACROSS)


def weighted(res: Transport, weight: Array, tangent: Array, where: Array) -> Float[Array, "..."]:
    """The sum of weight times tangent; 0 for problems that are not solved."""
    dtype, where = res.cost.dtype, where & (res.status == Status.OPTIMAL)[..., None]
    # `where` around each factor, because its transpose blocks NaN cotangents and products 0 · ∞.
    weight = jnp.where(where, weight, 0).astype(dtype)
    return (weight * jnp.where(where, tangent.astype(dtype), 0)).sum(-1)


def mass_jvp(problem: Any, tangents: Any, res: Transport) -> Float[Array, "..."]:
    """The derivative of the cost with respect to masses.

    `problem` is a `TransportProblem` or a `PointProblem`.
    """
    dot = jnp.zeros_like(res.cost)
    masses = [t for t in (tangents.supply, tangents.demand, tangents.moved) if t is not None]
    if all(is_constant(t) for t in masses):
        return dot
    costs = problem._replace(supply=None, demand=None, moved=None)
    u, v, of_moved = fixed_along(_marginal_costs(problem, res), costs, ACROSS)
    for tangent, dual, mask in (
        (tangents.supply, u, problem.row_mask),
        (tangents.demand, v, problem.col_mask),
    ):
        if not is_constant(tangent):
            exists = jnp.ones_like(dual, bool) if mask is None else mask
            dot += weighted(res, dual, tangent, exists)
    if tangents.moved is not None and not is_constant(tangents.moved):
        one = tangents.moved[..., None]
        dot += weighted(res, of_moved[..., None], one, jnp.ones_like(one, bool))
    return dot


def _marginal_costs(problem: Any, res: Transport) -> tuple[Array, Array, Array]:
    """What one more unit costs: of each supply, of each demand, and of `moved`."""
    u, v = res.row_dual, res.col_dual
    if problem.moved is not None:
        # One more unit of supply also goes to the dummy column, and one more unit of demand also
        # comes from the dummy row. Masses of dummies are not arguments: their derivative is 0.
        of_row, of_col = u[..., -1:], v[..., -1:]
        return _without_last(u + of_col), _without_last(v + of_row), -(of_row + of_col)[..., 0]

    def total(mass: Array, mask: Array | None, dual: Array | None = None) -> Array:
        mass = mass.astype(u.dtype)
        mass = mass if dual is None else mass * dual
        mass = mass if mask is None else jnp.where(mask, mass, 0)
        return mass.sum(-1, keepdims=True)

    rows, cols = (problem.supply, problem.row_mask), (problem.demand, problem.col_mask)
    paid = total(*cols, v) - total(*rows, u)
    mass = total(*rows) + total(*cols)
    shift = jnp.where(mass > 0, paid / jnp.where(mass > 0, mass, 1), 0)
    return u + shift, v - shift, shift[..., 0]


def _without_last(x: Array) -> Array:
    return jnp.concatenate([x[..., :-1], jnp.zeros_like(x[..., -1:])], -1)
