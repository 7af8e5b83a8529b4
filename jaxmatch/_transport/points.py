"""Optimal transport between two sets of points; the cost matrix is never stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bind
from typing import Literal

import jax
import jax.numpy as jnp

from jaxmatch._common.arguments import check_name
from jaxmatch._common.distances import METRICS, Metric, distances
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import apart, envelope_value, instantiated, is_constant
from jaxmatch._common.place import place_of
from jaxmatch._common.promotion import module_of
from jaxmatch._common.result import Transport
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch._ffi.dispatch import by_platform
from jaxmatch._ffi.repeated import repeated
from jaxmatch._transport import solve as _dense
from jaxmatch._transport.dummies import without_dummies
from jaxmatch._transport.native import transport_points
from jaxmatch._transport.point_problem import (
    PointProblem,
    as_point_problem,
    stored,
    with_point_dummies,
)
from jaxmatch._transport.problem import exclude_each_other


ARGUMENTS = ("y", "supply", "demand", "partial", "unmatched_cost", "row_mask", "col_mask")


@repeated()
@unchecked
def solve_transport_points(
    x: ArrayLike,
    y: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    *,
    metric: Metric = "sqeuclidean",
    maximize: bool = False,
    partial: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    warm_start: Transport | ArrayLike | None = None,
    method: str = "auto",
) -> Transport:
    """Solve optimal transport problems between points, without a cost matrix.

    The cost of a pair is the distance between its points, computed on demand: memory does not grow
    with n·m. Everything else is as in [`solve_transport`][jaxmatch.solve_transport]. Leading
    dimensions are batch.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> x, y = jnp.array([[0.0, 0.0], [4.0, 0.0]]), jnp.array([[1.0, 0.0], [4.0, 0.0], [6.0, 0.0]])
    >>> supply, demand = jnp.array([2, 2]), jnp.array([2, 1, 1])
    >>> res = jax.jit(jm.solve_transport_points)(x, y, supply, demand)
    >>> res.cost, res.todense()
    (Array(6., dtype=float32), Array([[2, 0, 0],
           [0, 1, 1]], dtype=int32))
    >>> jax.grad(lambda x: jm.solve_transport_points(x, y, supply, demand).cost)(x)
    Array([[-4.,  0.],
           [-4.,  0.]], dtype=float32)

    **Arguments:**

    - `x`, `y`: `[..., n, d]` and `[..., m, d]`, the points of rows and columns, in float32 or,
      under `jax_enable_x64` or as NumPy arrays, float64.
    - `metric`: `"sqeuclidean"`, `"euclidean"`, `"l1"` or `"cosine"`.
    - `supply`, `demand`, `maximize`, `partial`, `unmatched_cost`, masks and `warm_start`: as in
      `solve_transport`; leading dimensions broadcast. `unmatched_cost` is rounded to the type of
      the points.
    - `method`: `"auto"`, `"network_simplex"` or `"xla"`, which stores the cost matrix.

    **Returns:** a [`Transport`][jaxmatch.Transport], verified by
    [`check_transport_points`][jaxmatch.check_transport_points].

    **Status:** as `solve_transport`; `INVALID_COST` also if a point is not finite. An infinite
    distance forbids a pair.

    **Exact:** for distances that are computed in float64 and rounded to the type of the points, see
    [Methods][transport-methods].

    **Gradient:** of `res.cost`. For points: that of Σ mass · distance at the fixed plan; Euclidean
    distances of 0 have gradient 0. For other arguments: as in `solve_transport`.

    **Raises:** `ValueError` for shapes that do not fit, unknown names, and options that exclude
    each other; `TypeError` for points that are not real.
    """
    check_name("method", method, _METHODS)
    check_name("metric", metric, METRICS)
    exclude_each_other(partial, unmatched_cost)
    x = as_given("x", x)
    y, *masses, partial, unmatched_cost, duals, row_mask, col_mask = all_given(
        y=y,
        supply=supply,
        demand=demand,
        partial=partial,
        unmatched_cost=unmatched_cost,
        warm_start=_dense.duals_of(warm_start),
        row_mask=row_mask,
        col_mask=col_mask,
    )
    maximize, masks = bool(maximize), (row_mask, col_mask)
    arrays = (x, y, *masses, partial, unmatched_cost, duals, *masks)
    options = ("transport_points", metric, maximize, method)
    place = place_of(*arrays, options=options, native=method != "xla")
    with place.precision():
        problem, unmatched = as_point_problem(
            x, y, metric, tuple(masses), masks, partial, unmatched_cost, duals, place=place
        )
        if place.native:
            solve = bind(transport_points, metric=metric, maximize=maximize, platform="cpu")
            res = _with_dummies(solve, problem, unmatched, maximize=maximize)
        else:
            res = _solve(problem, unmatched, metric=metric, maximize=maximize, method=method)
        return place.bring_home(res)


@compiled(static_argnames=("metric", "maximize", "method"))
def _solve(
    problem: PointProblem,
    unmatched_cost: Array | None,
    *,
    metric: str,
    maximize: bool,
    method: str,
) -> Transport:
    solve_balanced = bind(balanced, metric=metric, maximize=maximize, method=method)

    def solve(problem: PointProblem, unmatched_cost: Array | None) -> Transport:
        return _with_dummies(solve_balanced, problem, unmatched_cost, maximize=maximize)

    return over_batch_shards(solve, problem, unmatched_cost, core_dims=2)


def _with_dummies(
    solve: Callable[[PointProblem], Transport],
    problem: PointProblem,
    unmatched_cost: Array | None,
    *,
    maximize: bool,
) -> Transport:
    """Solves a problem that need not move all mass as a balanced one, with dummies."""
    if unmatched_cost is None and problem.moved is None:
        return solve(problem)
    xp = module_of(problem.x)
    zero = xp.zeros_like(problem.y, shape=problem.y.shape[:-1])
    if unmatched_cost is None:
        assert problem.moved is not None
        # The pair of the dummies is forbidden, so that exactly `moved` moves.
        both, moved = -xp.inf if maximize else xp.inf, problem.moved
    else:
        both, moved = 0, xp.zeros_like(problem.supply, shape=problem.supply.shape[:-1])
    last = xp.full_like(zero, both, shape=(*zero.shape[:-1], 1))
    last_row = xp.concatenate([zero, last], -1)
    res = solve(with_point_dummies(problem, last_row, unmatched_cost, moved))
    return without_dummies(res, problem, xp)


def balanced(problem: PointProblem, *, metric: str, maximize: bool, method: str) -> Transport:
    """Solves problems that move all mass, dummies included. The cost is differentiable."""
    res = apart(_METHODS[method])(problem, metric=metric, maximize=maximize)
    return res.replace(cost=envelope_value(res.cost, problem, res, bind(_value_jvp, metric)))


def _network_simplex(problem: PointProblem, *, metric: str, maximize: bool) -> Transport:
    options = {"metric": metric, "maximize": maximize}

    def on(platform: Literal["cpu", "cuda"]) -> Callable[[PointProblem], Transport]:
        return bind(transport_points, **options, platform=platform)

    return by_platform(bind(_twin, **options), problem, cpu=on("cpu"), cuda=on("cuda"))


def _twin(problem: PointProblem, *, metric: str, maximize: bool) -> Transport:
    return _dense.twin(stored(problem, metric), maximize=maximize)


_METHODS: dict[str, Callable[..., Transport]] = {
    "auto": _network_simplex,
    "network_simplex": _network_simplex,
    "xla": _twin,
}


def _value_jvp(
    metric: str, problem: PointProblem, tangents: PointProblem, res: Transport
) -> Float[Array, "..."]:
    dot = _dense.mass_jvp(problem, tangents, res)
    n, m = problem.x.shape[-2], problem.y.shape[-2]
    if n == 0:
        return dot
    rows, cols = jnp.clip(res.rows, 0, n - 1), jnp.clip(res.cols, 0, max(m - 1, 0))
    used, of_point = res.rows >= 0, res.cols < m
    plan = _dense.fixed_plan(problem, res)
    if problem.last_col is not None:
        assert tangents.last_col is not None
        # The cost of the dummy row is constant.
        used &= res.rows < n
        if not is_constant(tangents.last_col):
            of_col = jnp.take_along_axis(tangents.last_col, rows, -1)
            dot += _dense.weighted(res, plan, of_col, used & ~of_point)
    if m == 0 or (is_constant(tangents.x) and is_constant(tangents.y)):
        return dot
    used &= of_point & (res.status == Status.OPTIMAL)[..., None]
    mass = jnp.where(used, plan, 0).astype(res.cost.dtype)

    def total(x: Array, y: Array) -> Array:
        # Replace the points of unused entries: they may be NaN, and must not reach the derivative.
        near, far = (
            jnp.where(used[..., None], jnp.take_along_axis(p, at[..., None], -2), other)
            for p, at, other in ((x, rows, 1), (y, cols, 0))
        )
        near, far = (p.astype(res.cost.dtype) for p in (near, far))
        return (mass * jnp.where(used, distances(near, far, metric), 0)).sum(-1)

    points = problem.x, problem.y
    return dot + jax.jvp(total, points, instantiated((tangents.x, tangents.y), points))[1]
