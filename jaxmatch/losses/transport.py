"""The earth mover's distance between clouds of points."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from jaxmatch._assignment.solve import solve_assignment
from jaxmatch._common.distances import METRICS, Metric, constant, directions, distances, pairwise
from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.gradient import envelope_value, fixed_along, is_constant
from jaxmatch._common.promotion import last_iota, module_of, same_rank
from jaxmatch._common.result import result_float
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import Array, ArrayLike, Float, Int
from jaxmatch._ffi.sizes import most
from jaxmatch._transport.points import solve_transport_points
from jaxmatch._transport.solve import ACROSS, solve_transport
from jaxmatch.losses._weights import Side, as_floats, broadcast_batches
from jaxmatch.losses.hungarian import gather_matched


_Metric = Metric | Callable[[Array, Array], Array]


@unchecked
@outside_of_jit("x", "y", "x_weight", "y_weight", "x_mask", "y_mask", by_numpy=True)
def earth_mover_distance(
    x: Float[Array, "... n d"],
    y: Float[Array, "... m d"],
    x_weight: ArrayLike | None = None,
    y_weight: ArrayLike | None = None,
    *,
    metric: _Metric = "sqeuclidean",
    x_mask: ArrayLike | None = None,
    y_mask: ArrayLike | None = None,
    method: str = "auto",
) -> Float[Array, "..."]:
    """The earth mover's distance: the least mean cost of moving one cloud of points onto another.

    The cost is exact, without regularisation. The weights of each cloud are scaled to sum to 1. All
    leading axes are batch: one native call solves all problems. For the loss of a batch use
    `jnp.nanmean`, which leaves out problems without a distance; `jnp.isnan` finds them.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> x = jnp.array([[0.0, 0.0], [4.0, 0.0]])
    >>> y = jnp.array([[1.0, 0.0], [4.0, 0.0], [6.0, 0.0]])
    >>> weight = jnp.array([0.5, 0.25, 0.25])
    >>> jm.losses.earth_mover_distance(x, y, y_weight=weight)
    Array(1.5, dtype=float32)
    >>> jax.grad(jm.losses.earth_mover_distance)(x, y, y_weight=weight)
    Array([[-1.,  0.],
           [-1.,  0.]], dtype=float32)

    **Arguments:**

    - `x`, `y`: `[..., n, d]` and `[..., m, d]`; leading axes broadcast. Half precision and integers
      of 32 bits are computed in float32.
    - `x_weight`, `y_weight`: `[..., n]` and `[..., m]`, not negative; each is divided by its sum.
      Default: all points weigh the same.
    - `metric`: `"sqeuclidean"` (the result is W₂²), `"euclidean"` (the result is W₁), `"l1"` or
      `"cosine"`, see [Methods][point-methods]; or a function of x and y that returns costs
      `[..., n, m]`, for any leading axes.
    - `x_mask`, `y_mask`: bool, broadcast to `[..., n]` and `[..., m]`; False is padding.
    - `method`: as in [`solve_transport`][jaxmatch.solve_transport].

    **Returns:** `f[...]`, float32, or float64 under `jax_enable_x64` and for NumPy's 64-bit arrays.

    **Status:** the distance is NaN, and its gradient 0, for points that are NaN or infinite (with
    `"cosine"` also at the origin), weights that are negative or not finite, and clouds without an
    unmasked point of positive weight.

    **Gradient:** for points, and for all arrays that `metric` closes over, the gradient of the
    costs at a fixed plan; for weights, the duals. With `"euclidean"` the distance of two points
    at the same place has gradient 0. Second derivatives treat the plan as fixed. Mixed second
    derivatives, with respect to points and weights, are an error.

    **Raises:** `ValueError` for shapes that do not fit, empty clouds, and unknown names.

    **Source:** Rubner, Tomasi and Guibas, *The earth mover's distance as a metric for image
    retrieval*, IJCV 40 (2000).
    """
    if not callable(metric) and metric not in METRICS:
        raise ValueError(
            f"`metric` must be one of {[*METRICS]} or a function of x and y that returns costs, "
            f"got {metric!r}."
        )
    xp = jnp if callable(metric) else module_of(x, y, x_weight, y_weight, x_mask, y_mask)
    x, y = as_floats(x, y, xp=xp)
    _check_clouds(x, y, metric)
    (n, m), lead = (x.shape[-2], y.shape[-2]), (x.shape[:-2], y.shape[:-2])
    require_sizes("x", x.shape[-2:], "mask its padding (`x_mask`)")
    require_sizes("y", y.shape[-2:], "mask its padding (`y_mask`)")
    x_side = Side("x", n, x_weight, x_mask, xp=xp)
    y_side = Side("y", m, y_weight, y_mask, xp=xp)
    batch = broadcast_batches(*lead, *x_side.batches, *y_side.batches)
    x, y = (_sanitized(p, side) for p, side in ((x, x_side), (y, y_side)))
    x, y = same_rank(x, y)
    if metric == "cosine":
        x, y = directions(x), directions(y)
    plain = x_side.is_plain and y_side.is_plain
    if plain and n == m and method in ("auto", "xla"):
        matching = solve_assignment(constant(_costs(x, y, metric)), method=method)
        total, sound = xp.full(batch, n, matching.cost.dtype), xp.ones(batch, bool)
        optimum, cols = matching.cost, matching.col4row
        rows = xp.where(cols < 0, -1, last_iota(np.int32, n, cols.ndim, xp))
        share = xp.full(cols.shape, 1 / n, optimum.dtype)
    else:
        supply, demand, total, sound = _masses(x_side, y_side)
        given = {"row_mask": x_side.mask, "col_mask": y_side.mask, "method": method}
        if not callable(metric) and metric != "cosine" and _is_fast_without_matrix(x, y):
            points = constant(x), constant(y)
            res = solve_transport_points(*points, supply, demand, metric=metric, **given)
        else:
            cost = constant(_costs(x, y, metric))
            res = solve_transport(cost, supply, demand, **given)
        optimum, rows, cols = res.cost, res.rows, res.cols
        total = xp.broadcast_to(total, batch).astype(optimum.dtype)
        share = res.mass.astype(optimum.dtype) / total[..., None]
    value = optimum / total
    if xp is jnp:
        pairs = _pair_costs(x, y, rows, cols, metric).astype(optimum.dtype)
        value = envelope_value(value, (pairs, value), (share, rows >= 0), _value_jvp)
    return xp.where(xp.broadcast_to(sound, batch), value, xp.nan)


def _value_jvp(
    problem: tuple[Array, Array], tangents: tuple[Array, Array], solution: tuple[Array, Array]
) -> Float[Array, "..."]:
    """The derivative.

    For points it comes from the costs of moved pairs, for weights from the result of the solver.
    """
    (pairs, value), (share, used) = problem, solution
    dot = jnp.zeros_like(value)
    if not is_constant(tangents[0]):
        # `where` around both factors, because its transpose blocks NaN cotangents and 0 · ∞.
        plan = jnp.where(used, fixed_along(share, value, ACROSS), 0)
        dot += (plan * jnp.where(used, tangents[0], 0)).sum(-1)
    if not is_constant(tangents[1]):
        dot += fixed_along(jnp.ones_like(value), pairs, ACROSS) * tangents[1]
    return dot


def _is_fast_without_matrix(x: Array, y: Array) -> bool:
    """Whether a CPU can cache all costs, or computes them as fast as it would load them."""
    (n, d), m = x.shape[-2:], y.shape[-2]
    return n * m * x.dtype.itemsize <= most("assignment.points.cached_bytes") or d <= 4


def _masses(x_side: Side, y_side: Side) -> tuple[Array, Array, Array, Array]:
    """Supply, demand, the total of each, and whether both sides have valid positive mass."""
    xp = x_side.xp
    if x_side.weight is None and y_side.weight is None:
        # Each point of x has as many units of mass as y has points, and vice versa.
        rows, cols = x_side.count(), y_side.count()
        if x_side.mask is None and y_side.mask is None:
            common = math.gcd(x_side.size, y_side.size)
            rows, cols = rows // common, cols // common
            total = xp.asarray(math.lcm(x_side.size, y_side.size), result_float())
        else:
            rows, cols = same_rank(rows, cols)
            total = rows.astype(result_float()) * cols.astype(result_float())
        supply = xp.broadcast_to(cols[..., None], (*cols.shape, x_side.size))
        demand = xp.broadcast_to(rows[..., None], (*rows.shape, y_side.size))
        return supply, demand, xp.maximum(total, 1), total > 0
    (supply, has_supply), (demand, has_demand) = (s.probabilities() for s in (x_side, y_side))
    has_supply, has_demand = same_rank(has_supply, has_demand)
    return supply, demand, xp.ones((), result_float()), has_supply & has_demand


def _check_clouds(x: Array, y: Array, metric: _Metric) -> None:
    fits = x.ndim >= 2 and y.ndim >= 2 and x.shape[-2] > 0 and y.shape[-2] > 0
    if not fits or (not callable(metric) and x.shape[-1] != y.shape[-1]):
        raise ValueError(
            "`x` must have shape [..., n, d] and `y` [..., m, d], with n, m >= 1, got "
            f"{x.shape} and {y.shape}."
        )


def _sanitized(points: Array, side: Side) -> Array:
    """Points with zeros where masked. This keeps padding out of costs and derivatives."""
    if side.mask is None:
        return points
    mask, points = same_rank(side.mask[..., None], points)
    return side.xp.where(mask, points, 0)


@compiled(static_argnames="metric")
def _distances(x: Array, y: Array, metric: str) -> Float[Array, "... n m"]:
    # Compiled, so that XLA does not store an array of size n·m·d.
    return distances(x[..., :, None, :], y[..., None, :, :], metric)


def _costs(x: Array, y: Array, metric: _Metric) -> Array:
    if isinstance(metric, str):
        if module_of(x, y) is jnp:
            return _distances(x, y, metric)
        return pairwise(x, y, metric)
    cost = metric(x, y)
    if cost.shape[-2:] != (x.shape[-2], y.shape[-2]):
        raise ValueError(
            f"`metric` must return [..., {x.shape[-2]}, {y.shape[-2]}] for points of shapes "
            f"{x.shape} and {y.shape}, got {cost.shape}."
        )
    return cost


def _pair_costs(
    x: Array, y: Array, rows: Int[Array, "... k"], cols: Int[Array, "... k"], metric: _Metric
) -> Float[Array, "... k"]:
    """The costs of pairs. Pairs of index −1 become the first pair, to keep derivatives finite."""

    def ends(points: Array, index: Array) -> Array:
        points = jnp.broadcast_to(points, (*index.shape[:-1], *points.shape[-2:]))
        return gather_matched(points, jnp.where(index >= 0, index, index[..., :1]))

    x, y = ends(x, rows), ends(y, cols)
    if isinstance(metric, str):
        return distances(x, y, metric)
    return metric(x[..., :, None, :], y[..., :, None, :])[..., 0, 0]
